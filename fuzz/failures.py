"""I/O errors and a full disk at every call of a step, once or from then on."""

import shutil
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from fuzz.disk import Disk, Fault, Kind
from fuzz.recording import Recording, Spell
from fuzz.running import Verdicts
from fuzz.survival import Files, Platter, Policy, put
from fuzz.survivors import Survivors, difference
from fuzz.vfs import open_files
from fuzz.workloads import READING, Scene, State, Step, settled, state_of
from structmem import Full, InvalidCall, StructMemError


class Mode(Struct, frozen=True):
    """A way to fail."""

    name: str
    full: bool = False
    lasting: bool = False

    def fault(self, at: int) -> Fault:
        kinds = frozenset([Kind.WRITE, Kind.SYNC]) if self.full else frozenset(Kind)
        return Fault(at, kinds, full=self.full, lasting=self.lasting)


MODES: Final = (
    Mode("I/O error once"),
    Mode("I/O errors from then on", lasting=True),
    Mode("full once", full=True),
    Mode("full from then on", full=True, lasting=True),
)


class Outcome(Struct):
    """How a step came out that was struck, and what it left on the disk at that moment."""

    error: StructMemError | None
    fault: Fault
    after_death: Files
    after_power_loss: Files


class Failures:
    """A step, tried again and again from what its files were before it."""

    def __init__(
        self,
        seed: int,
        directory: Path,
        recording: Recording,
        spell: Spell,
        survivors: Survivors,
        verdicts: Verdicts,
    ) -> None:
        self._seed = f"{seed} {spell.begin} {spell.step.name}"
        self._directory = directory / f"failing {spell.begin} {spell.step.name}"
        self._directory.mkdir(exist_ok=True)
        self._recording = recording
        self._spell = spell
        self._survivors = survivors
        self._verdicts = verdicts

    def sweep(self, modes: tuple[Mode, ...] = MODES) -> None:
        """Let each call fail in turn, until the step has no more. Raises what is wrong."""
        for mode in modes:
            at = 0
            while self._try(mode, at):
                at += 1

    def _try(self, mode: Mode, at: int) -> bool:
        fault = mode.fault(at)
        try:
            return self._struck(mode, fault)
        except Exception as error:
            error.add_note(f"{self._spell.step.name}: {mode.name}, at call {at}: {fault.struck}")
            raise

    def _struck(self, mode: Mode, fault: Fault) -> bool:
        place = self._directory / f"{MODES.index(mode)} {fault.at}"
        put(self._spell.files, place)
        disk, scene = Disk(place, self._seed), Scene(place)
        with settled(self._seed, self._recording.settings), disk.mounted():
            outcome = self._outcome(disk, scene, fault)
            if outcome is not None:
                self._judge_here(mode, scene, outcome)
            scene.close()
            assert open_files() == 0, "a connection is left open"
        shutil.rmtree(place)
        if outcome is not None:
            self._judge_later(mode, outcome)
        return outcome is not None

    def _outcome(self, disk: Disk, scene: Scene, fault: Fault) -> Outcome | None:
        """None if the step has no call left to fail."""
        step = self._spell.step
        if not step.is_cold:
            scene.warm(step.file)
        error: StructMemError | None = None
        with disk.failing(fault):
            try:
                step.does(scene)
            except StructMemError as raised:
                error = raised
        if fault.struck is None:
            if error is not None:
                raise error
            return None
        return self._outcome_of(disk, fault, error)

    def _outcome_of(self, disk: Disk, fault: Fault, error: StructMemError | None) -> Outcome:
        platter = Platter()
        for event in disk.events:
            platter.take(event)
        random = Random(f"{self._seed} {fault.at} {fault.full} {fault.lasting}")
        lost = platter.surviving(random.choice(list(Policy)), random)
        return Outcome(error, fault, platter.surviving(Policy.ALL, random), lost)

    def _judge_here(self, mode: Mode, scene: Scene, outcome: Outcome) -> None:
        """In the process that saw it, with the disk well again."""
        error, step = outcome.error, self._spell.step
        how = f"refused, {error.code}" if error is not None else "done all the same"
        self._verdicts[f"{mode.name}: {how}"] += 1
        assert error is None or not mode.full or isinstance(error, Full), error
        if self._spell.before is None and error is not None:
            scene.close()
        else:
            self._verify(scene)
            self._check(state_of(scene.path(step.file)), is_done=error is None)
        if error is not None:
            step.does(scene)
            self._check(state_of(scene.path(step.file)), is_done=True)
        self._verify(scene)

    def _verify(self, scene: Scene) -> None:
        """By the same object; one that says that it cannot go on is opened anew."""
        try:
            scene.memory(self._spell.step.file).verify(deep=True)
        except StructMemError:
            self._verdicts["opened anew"] += 1
            scene.close()
            scene.memory(self._spell.step.file).verify(deep=True)

    def _judge_later(self, mode: Mode, outcome: Outcome) -> None:
        """For who opens the file after a death at the moment of the answer, or after a power loss
        then."""
        for what, files in (
            ("a death", outcome.after_death),
            ("a power loss", outcome.after_power_loss),
        ):
            try:
                how = self._judgement(mode, outcome, files)
            except Exception as error:
                error.add_note(f"after {what}; the answer was {outcome.error!r}")
                raise
            self._verdicts[f"{mode.name}, then {what}: {how}"] += 1

    def _judgement(self, mode: Mode, outcome: Outcome, files: Files) -> str:
        before, is_refused = self._spell.before, outcome.error is not None
        found = self._survivors.found(self._spell.step.file, files)
        if before is None and found.is_new and is_refused:
            return "not there yet"
        if is_refused and before is not None and found.state.whole == before.whole:
            return "as before"
        if is_refused and not mode.lasting:
            raise AssertionError(difference(found.state, before))
        self._check(found.state, is_done=True)
        return "there, although refused" if is_refused else "there"

    def _check(self, state: State, *, is_done: bool) -> None:
        """What is done again has another time and other salts in its record."""
        before, after = self._spell.before, self._spell.after
        if is_done:
            same = state.told == after.told and state.seq == after.seq
        else:
            same = before is not None and state.whole == before.whole
        assert same, difference(state, after if is_done else before)


def reading(recording: Recording, directory: Path) -> list[Spell]:
    """The steps that change nothing, on the files that the workload left; those that can be done
    there."""
    state = {spell.step.file: spell.after for spell in recording.spells}
    end = len(recording.events)
    return [
        Spell(step, end, end, state[step.file], state[step.file], recording.files)
        for step in READING
        if _can_be_done(step, recording.files, directory / "reading")
    ]


def _can_be_done(step: Step, files: Files, place: Path) -> bool:
    put(files, place)
    scene = Scene(place)
    try:
        step.does(scene)
    except InvalidCall:  # the table is gone
        return False
    finally:
        scene.close()
        shutil.rmtree(place)
    return True
