"""No room left: on the disk, in a quota, within the size limit (M7, M9, M10, C14)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from structmem import Column, ConstraintFailed, Full, StructuredMemory, writing
from structmem.connection import roll_back
from tests.engine.conftest import alter, dump
from tests.engine.full_disk import LARGE, place_of

ROOT = Path(__file__).parents[2]
MOUNTED = 'mount -t tmpfs -o size=64m none "$0" && exec "$@"'
"""Runs a command in a mount of its own, which ends with it."""


def in_a_small_file_system(directory: Path, *command: str) -> list[str]:
    own_mount = ["unshare", "--user", "--map-root-user", "--mount"]
    return [*own_mount, "sh", "-c", MOUNTED, str(directory), *command]


def can_mount(directory: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    command = in_a_small_file_system(directory, "true")
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("kind", ["limit", "disk"])
def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path, kind: str) -> None:
    """M7, C14: wherever in a write it shows."""
    command = [sys.executable, "-W", "error", "-m", "tests.engine.full_disk", kind, str(tmp_path)]
    if kind == "disk":
        if not can_mount(tmp_path):
            pytest.skip("this system mounts nothing for an ordinary user")
        command = in_a_small_file_system(tmp_path, *command)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)
    for write in ("insert_many", "update_all", "undo"):
        for place in ("statement", "append", "commit"):
            assert failed[f"{write} {place}"] > 0
    for others in ("open statement", "insert_one commit", "create commit", "delete_all commit"):
        assert failed[others] > 0


def test_the_size_limit_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M7, M10, C14: SQLite ends some of these transactions by itself, and leaves others open."""
    failed: set[tuple[str, bool]] = set()
    ended: list[bool] = []

    def watch(connection: apsw.Connection) -> None:
        ended.append(connection.in_transaction)
        roll_back(connection)

    monkeypatch.setattr(writing, "roll_back", watch)
    path = tmp_path / "a.db"
    with StructuredMemory(path) as memory:
        memory.create_table("t", [Column("a"), Column("b", unique=True)])
        memory.insert("t", LARGE[:100])
    for room in range(0, 10_000_000, 450_000):
        with StructuredMemory(path, size_limit=path.stat().st_size + room) as memory:
            heard: list[object] = []
            memory.on_commit(heard.append)
            before = dump(memory, internal=True)
            try:
                memory.insert("t", LARGE[100:])
                break
            except Full as error:
                failed.add((place_of(error), ended[-1]))
            assert dump(memory, internal=True) == before and not heard
            memory.verify(deep=True)
        with StructuredMemory(path) as memory:
            memory.insert("t", {"a": 1, "b": -1})
            memory.undo()
    assert {place for place, _open in failed} == {"statement", "append"}
    assert {is_open for _place, is_open in failed} == {True, False}
    with StructuredMemory(path) as memory:
        memory.undo()
        memory.undo()
        memory.verify(deep=True)


def test_a_counter_at_its_end_is_not_a_full_disk(unjournaled: StructuredMemory) -> None:
    """M9: SQLite calls both full."""
    alter(
        unjournaled,
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a);"
        f"INSERT INTO t VALUES ({(1 << 63) - 1}, 1)",
    )
    for rows in ({"a": 2}, [{"id": 7, "a": 2}, {"a": 3}]):
        with pytest.raises(ConstraintFailed, match="counter of 't' is at its end"):
            unjournaled.insert("t", rows)
    assert unjournaled.insert("t", {"id": 7, "a": 2}).rowids == [7]
    assert unjournaled.query("SELECT count(*) FROM t").scalar() == 2
