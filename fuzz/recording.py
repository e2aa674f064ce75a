"""A workload, done once on a disk that works, so that every point of it can be tried."""

from pathlib import Path

from msgspec import Struct

from fuzz.disk import Disk, Event
from fuzz.survival import Files, everything
from fuzz.workloads import Scene, Settings, State, Step, drawn, settled, state_of
from structmem_journal import Record


class Spell(Struct):
    """A step as it was recorded: between which events, and what its files were before and after."""

    step: Step
    begin: int
    end: int
    before: State | None
    after: State
    files: Files
    """Those of the whole directory before it."""


class Recording(Struct):
    """A workload that was done once, and what the disk was told."""

    settings: Settings
    events: list[Event]
    spells: list[Spell]
    records: list[Record]
    """Those of the primary, in the end."""
    memory_id: str
    files: Files
    """What was there in the end, before the memories were closed."""

    @property
    def names(self) -> list[str]:
        """The files that are memories."""
        return sorted({spell.step.file for spell in self.spells})


def record(seed: int, directory: Path, *, honest: bool = True) -> Recording:
    """Do the workload of a seed once, on a disk that works."""
    (directory / "trial").mkdir()
    workload = drawn(seed, directory / "trial")
    place = directory / "recorded"
    place.mkdir()
    disk, scene = Disk(place, f"disk {seed}", honest=honest), Scene(place)
    with settled(f"recording {seed}", workload.settings), disk.mounted():
        spells = [_spell(disk, scene, step) for step in workload.steps]
        records, memory_id = list(scene.primary.records()), scene.primary.id
        files = everything(disk.events)
        scene.close()
    return Recording(workload.settings, disk.events, spells, records, memory_id, files)


def _spell(disk: Disk, scene: Scene, step: Step) -> Spell:
    path = scene.path(step.file)
    files, begin = everything(disk.events), len(disk.events)
    before = state_of(path) if path.exists() else None
    step.does(scene)
    return Spell(step, begin, len(disk.events), before, state_of(path), files)
