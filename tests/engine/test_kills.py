"""Writers killed at any moment (M7). `make soak` runs the same code for long."""

import multiprocessing
import os
from pathlib import Path
from signal import SIGKILL
from typing import Any

import apsw
import pytest

from structmem import Column, NotAMemory, StructuredMemory
from tests.engine.kills import kill_writers


def test_killed_writers_leave_all_or_nothing(tmp_path: Path) -> None:
    """M7, M8: what was reported is there, nothing is half there, the next process goes on."""

    def progress(_done: int, _wanted: int) -> None:
        pass

    tally = kill_writers(tmp_path, kills=20, seed=1, progress=progress)
    assert tally.kills == 20
    assert tally.reported > 20 and tally.in_a_write > 10
    assert tally.at.total() >= 5


class UnsyncedFile(apsw.VFSFile):
    """A log that takes all that is written, and whose syncs fail when they are told to."""

    failures = 0

    def __init__(self, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._is_log = path.endswith("-wal")

    def xSync(self, flags: int) -> None:  # noqa: N802 # SQLite's name
        if self._is_log and UnsyncedFile.failures:
            UnsyncedFile.failures -= 1
            raise apsw.IOError("the disk took it and lost it")
        super().xSync(flags)


class UnsyncedFileSystem(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("unsynced", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> UnsyncedFile:  # noqa: N802
        return UnsyncedFile(name, flags)


def _fail_and_die(path: str, rows: int, failures: int, go_on: bool) -> None:
    kept = UnsyncedFileSystem()
    memory = StructuredMemory(path)
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": "kept"})
    UnsyncedFile.failures = failures
    with pytest.raises(NotAMemory):
        memory.insert("t", [{"a": "x" * 5_000}] * rows)
    assert kept and memory.position().seq == 2
    if go_on:
        UnsyncedFile.failures = 0
        memory.insert("t", {"a": "next"})
        memory.undo()
    os.kill(os.getpid(), SIGKILL)


@pytest.mark.parametrize(
    ("rows", "failures", "go_on"),
    [(1, 1, False), (1, 1_000, False), (1_000, 1, False), (1_000, 1_000, True)],
)
def test_a_commit_that_could_not_be_synced_is_undone_for_good(
    tmp_path: Path, rows: int, failures: int, go_on: bool
) -> None:
    """M7: the log holds all of it, and the next to open the file must not take it for committed."""
    path = tmp_path / "a.db"
    process = multiprocessing.get_context("spawn").Process(
        target=_fail_and_die, args=(str(path), rows, failures, go_on)
    )
    process.start()
    process.join()
    assert process.exitcode == -SIGKILL
    with StructuredMemory(path) as memory:
        assert memory.query("SELECT a FROM t").rows == [("kept",)]
        assert memory.position().seq == (4 if go_on else 2)
        memory.verify(deep=True)
