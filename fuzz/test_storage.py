"""The disk that can fail is a faithful one, and the search on it can fail.

- With no fault a memory on it is the memory it would be on any other disk, and what the notes say
  is there is what is in the real files.
- Where a commit is reported before it was synced, by a setting or by a disk that lies, a power loss
  loses it, and the search says so.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import apsw
import pytest

from fuzz import workloads
from fuzz.disk import Disk, Fault, Kind, Wrote
from fuzz.failures import MODES, Failures, Mode, reading
from fuzz.power_loss import lose_power
from fuzz.recording import Recording, record
from fuzz.running import Verdicts
from fuzz.survival import Platter, Policy, everything, put
from fuzz.survivors import Survivors
from fuzz.vfs import open_files
from fuzz.workloads import PRIMARY, Scene, drawn, settled, state_of
from structmem import StructMemError, StructuredMemory, connection, sql, writing

SEED = 7
FOUND = (AssertionError, StructMemError)
"""What the search raises: a state that must not be, or a file that does not open."""


def _search_power_loss(directory: Path, found: Recording) -> Verdicts:
    verdicts: Verdicts = Counter()
    survivors = Survivors(directory, found.memory_id, found.records, verdicts)
    lose_power(SEED, found, survivors, verdicts)
    return verdicts


def _search_failures(directory: Path, modes: tuple[Mode, ...] = MODES, seed: int = SEED) -> None:
    found, verdicts = record(seed, directory), Counter[str]()
    survivors = Survivors(directory, found.memory_id, found.records, verdicts)
    for spell in found.spells:
        Failures(seed, directory, found, spell, survivors, verdicts).sweep(modes)


def test_a_disk_without_fault_is_as_any_other(tmp_path: Path) -> None:
    """The same workload, with the same draws, leaves the same bytes with it and without it."""
    (tmp_path / "trial").mkdir()
    workload = drawn(SEED, tmp_path / "trial")
    states: list[workloads.State] = []
    for place in (tmp_path / "watched", tmp_path / "plain"):
        place.mkdir()
        scene = Scene(place)
        disk = Disk(place, "disk")
        with settled("the same", workload.settings):
            if place.name == "watched":
                with disk.mounted():
                    _do(scene, workload)
                assert _real(place) == everything(disk.events)
            else:
                _do(scene, workload)
                assert not disk.events
        states.append(state_of(place / PRIMARY))
    assert states[0] == states[1]
    assert open_files() == 0


def _do(scene: Scene, workload: workloads.Workload) -> None:
    for step in workload.steps:
        step.does(scene)
    scene.close()


def _real(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_notes_are_the_files(tmp_path: Path) -> None:
    """While a memory is open as well: log and file are what the notes say."""
    disk = Disk(tmp_path, "disk")
    with disk.mounted(), StructuredMemory(tmp_path / PRIMARY) as memory:
        memory.execute("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(9000)), (1)")
        noted = everything(disk.events)
        state = state_of(memory.path)
    assert sorted(noted) == ["a.db", "a.db-wal"]
    put(noted, tmp_path / "noted")
    assert state_of(tmp_path / "noted" / PRIMARY) == state


def test_the_same_seed_does_the_same(tmp_path: Path) -> None:
    found: list[Recording] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        found.append(record(SEED, tmp_path / name))
    assert found[0].events == found[1].events


@pytest.mark.parametrize("policy", list(Policy))
def test_what_was_synced_survives(policy: Policy, tmp_path: Path) -> None:
    """And nothing else need to: without it the check of durability could not fail."""
    disk = Disk(tmp_path, "disk")
    with disk.mounted():
        db = apsw.Connection(str(tmp_path / "x.db"))
        sql.pragma(db, "journal_mode", "WAL")
        sql.run(db, "CREATE TABLE t (a)")
        sql.pragma(db, "synchronous", "FULL")
        sql.run(db, "INSERT INTO t VALUES ('synced')")
        sql.pragma(db, "synchronous", "OFF")
        sql.run(db, "INSERT INTO t VALUES ('not synced')")
        platter = Platter()
        for event in disk.events:
            platter.take(event)
        db.close()
    put(platter.surviving(policy, Random(1)), tmp_path / "survived")
    with sqlite3.connect(tmp_path / "survived" / "x.db") as survived:
        rows = [row for (row,) in survived.execute("SELECT a FROM t")]
    survived.close()
    assert rows[0] == "synced"
    if policy in (Policy.NONE, Policy.ALL):
        assert len(rows) == (1 if policy is Policy.NONE else 2)


def test_a_torn_write_is_there_in_part(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    disk = Disk(tmp_path, "disk")
    platter = Platter()
    for event in (*disk.events, Wrote(1, 0, b"x" * 4096)):
        platter.take(event)
    torn = {platter.surviving(Policy.TORN, Random(n))["x"] for n in range(50)}
    assert len(torn) > 5
    for content in torn:
        sectors = {content[i : i + 512] for i in range(0, len(content), 512)}
        assert sectors <= {b"x" * 512, bytes(512)}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(0, frozenset([Kind.WRITE])), apsw.IOError),
        (Fault(0, frozenset([Kind.WRITE]), full=True), apsw.FullError),
        (Fault(0, frozenset([Kind.SYNC])), apsw.IOError),
    ],
)
def test_a_fault_is_what_sqlite_makes_of_it(
    fault: Fault, error: type[apsw.Error], tmp_path: Path
) -> None:
    disk = Disk(tmp_path, "disk")
    with disk.mounted():
        db = apsw.Connection(str(tmp_path / "x.db"))
        sql.pragma(db, "journal_mode", "WAL")
        sql.pragma(db, "synchronous", "FULL")
        sql.run(db, "CREATE TABLE t (a)")
        with disk.failing(fault), pytest.raises(error):
            sql.run(db, "INSERT INTO t VALUES (1)")
        assert fault.struck in fault.kinds
        sql.run(db, "INSERT INTO t VALUES (2)")
        assert sql.rows(db, "SELECT a FROM t") == [(2,)]
        db.close()


def test_what_sqlite_takes_no_notice_of_is_not_raised(tmp_path: Path) -> None:
    """A checkpoint that fails after a commit: the commit is done."""
    disk = Disk(tmp_path, "disk")
    with disk.mounted():
        db = apsw.Connection(str(tmp_path / "x.db"))
        sql.pragma(db, "journal_mode", "WAL")
        sql.run(db, "CREATE TABLE t (a)")
        db.wal_autocheckpoint(1)
        fault = Fault(1, frozenset([Kind.SYNC]))
        with disk.failing(fault):
            sql.run(db, "INSERT INTO t VALUES (1)")
        assert fault.struck is Kind.SYNC
        assert sql.rows(db, "SELECT a FROM t") == [(1,)]
        db.close()


# -- the search finds nothing, and can find something ----------------------------------------------


def test_a_short_search_of_power_loss_finds_nothing(tmp_path: Path) -> None:
    verdicts = _search_power_loss(tmp_path, record(SEED, tmp_path))
    for how in ("as reported", "not there yet", "the operation under way is there"):
        assert verdicts[f"power loss at wrote: {how}"] > 0


def test_a_short_search_of_failures_finds_nothing(tmp_path: Path) -> None:
    found, verdicts = record(SEED, tmp_path), Counter[str]()
    survivors = Survivors(tmp_path, found.memory_id, found.records, verdicts)
    spells = [found.spells[1], *reading(found, tmp_path)[:2]]
    for spell in spells:
        Failures(SEED, tmp_path, found, spell, survivors, verdicts).sweep()
    assert verdicts["full once: refused, full"] > 0
    assert verdicts["I/O error once: refused, not_a_memory"] > 0
    assert verdicts["I/O error once: done all the same"] > 0


def test_it_finds_a_disk_that_lies(tmp_path: Path) -> None:
    with pytest.raises(FOUND):
        _search_power_loss(tmp_path, record(SEED, tmp_path, honest=False))


@pytest.mark.parametrize("setting", ["OFF", "NORMAL"])
def test_it_finds_a_setting_that_does_not_sync(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.sql, "pragma", _pragma_with(setting, sql.pragma))
    found = record(SEED, tmp_path)
    monkeypatch.undo()
    with pytest.raises(FOUND):
        _search_power_loss(tmp_path, found)


def _pragma_with(setting: str, real: Callable[..., object]) -> Callable[..., object]:
    def pragma(db: apsw.Connection, name: str, value: int | str | None = None) -> object:
        return real(db, name, setting if name == "synchronous" else value)

    return pragma


def _nothing(_writer: writing.Writer) -> None:
    """Instead of a step that matters."""


def test_it_finds_a_refused_commit_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing.Writer, "_forget_in_log", _nothing)
    with pytest.raises(AssertionError, match="allowed is that after") as caught:
        _search_failures(tmp_path)
    assert "after a death" in " ".join(caught.value.__notes__)
