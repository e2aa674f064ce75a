"""Deleting a memory while others may use it (M1)."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from structmem import (
    Busy,
    Column,
    ForkedProcess,
    FormatTooNew,
    InvalidCall,
    NoSuchTable,
    NotAMemory,
    Position,
    ReadOnly,
    StructMemError,
    StructuredMemory,
    TableExists,
    file,
    removal,
    sql,
    writing,
)
from structmem.connection import begin_immediate

from .conftest import raw


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(memory: StructuredMemory) -> None:
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": 1})


def test_the_next_call_makes_an_empty_memory(memory: StructuredMemory) -> None:
    """M1: the file and its side files go, listeners and views stay."""
    heard: list[Position] = []
    memory.on_commit(heard.append)
    view = memory.acting_as("somebody")
    fill(memory)
    identity = memory.id
    assert len(files(memory.path.parent)) == 3
    memory.destroy()
    assert files(memory.path.parent) == []
    assert (memory.describe(), view.position().seq, memory.history()) == ("", 0, [])
    assert memory.id != identity
    fill(view)
    assert view.query("SELECT a FROM t").rows == memory.query("SELECT a FROM t").rows == [(1,)]
    assert [position.seq for position in heard] == [1, 2, 1, 2]
    view.destroy()
    assert files(memory.path.parent) == []


def test_a_memory_that_was_never_opened(tmp_path: Path) -> None:
    """M1"""
    with StructuredMemory(tmp_path / "a.db") as memory:
        memory.destroy()
        assert files(tmp_path) == []
        fill(memory)
    with StructuredMemory(tmp_path / "a.db") as memory:
        memory.destroy()
        assert files(tmp_path) == []
    with StructuredMemory(tmp_path / "none" / "a.db") as memory:
        memory.destroy()


def test_a_private_memory() -> None:
    """M1: its directory is made by the first call and goes at the end."""
    memory = StructuredMemory(":memory:")
    memory.destroy()
    assert not memory.path.parent.exists()
    fill(memory)
    memory.destroy()
    assert files(memory.path.parent) == []
    fill(memory)
    memory.verify(deep=True)
    memory.close()
    assert not memory.path.parent.exists()


def test_what_is_no_memory_is_left_alone(tmp_path: Path) -> None:
    """M1, M10"""
    other = apsw.Connection(str(tmp_path / "other.db"))
    sql.run(other, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    other.close()
    (tmp_path / "junk.db").write_bytes(b"junk that is no database at all" * 100)
    (tmp_path / "empty.db").touch()
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "damaged.db").touch()
    (tmp_path / "damaged.db-wal").write_bytes(b"x" * 4_128)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.db*") if path.is_file()}
    for name in ("other.db", "junk.db", "folder.db", "damaged.db"):
        with StructuredMemory(tmp_path / name) as memory, pytest.raises(NotAMemory):
            memory.destroy()
    with StructuredMemory(tmp_path / "empty.db") as memory:
        memory.destroy()
    after = {path.name: path.read_bytes() for path in tmp_path.glob("*.db*") if path.is_file()}
    assert after == before


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """M10"""
    with StructuredMemory(tmp_path / "a.db") as memory:
        memory.position()
    connection = apsw.Connection(str(tmp_path / "a.db"))
    sql.pragma(connection, "user_version", 99)
    connection.close()
    with StructuredMemory(tmp_path / "a.db") as memory, pytest.raises(FormatTooNew):
        memory.destroy()
    assert files(tmp_path) == ["a.db"]


def test_who_may_not_destroy(memory: StructuredMemory) -> None:
    """M1, M4"""
    fill(memory)
    with StructuredMemory(memory.path, read_only=True) as reader:
        with pytest.raises(ReadOnly):
            reader.destroy()
        assert reader.query("SELECT a FROM t").scalar() == 1
    closed = StructuredMemory(memory.path)
    closed.close()
    with pytest.raises(InvalidCall, match="closed"):
        closed.destroy()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            memory.destroy()
        except ForkedProcess:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert memory.query("SELECT a FROM t").scalar() == 1


def test_a_file_that_took_the_place_of_ours_is_left_alone(tmp_path: Path) -> None:
    """C52"""
    with StructuredMemory(tmp_path / "b.db") as other:
        fill(other)
    with StructuredMemory(tmp_path / "a.db") as memory:
        fill(memory)
        (tmp_path / "b.db").replace(tmp_path / "a.db")
        with pytest.raises(NotAMemory, match="replaced"):
            memory.destroy()
        (tmp_path / "a.db").unlink()
        memory.destroy()  # nothing is there, which is what was wanted
        assert memory.position().seq == 0


def test_others_notice(memory: StructuredMemory) -> None:
    """M1, M4: another object, as in another process; what it leaves does not touch the new file."""
    fill(memory)
    other = StructuredMemory(memory.path)
    other.insert("t", {"a": 2})
    memory.destroy()
    fill(memory)
    for call in (other.describe, other.position, lambda: other.insert("t", {"a": 3})):
        with pytest.raises(NotAMemory, match="replaced"):
            call()
    other.close()
    assert memory.insert("t", {"a": 4}).rowids == [2]
    with StructuredMemory(memory.path) as fresh:
        assert fresh.query("SELECT a FROM t").rows == [(1,), (4,)]
        fresh.verify(deep=True)


def test_another_process_closes_what_was_destroyed(memory: StructuredMemory) -> None:
    """M1: its last connection would delete the log, which by then is another one's."""
    fill(memory)
    script = (
        "import sys; from structmem import StructuredMemory\n"
        "memory = StructuredMemory(sys.argv[1])\n"
        "memory.insert('t', {'a': 2}); print('open', flush=True); sys.stdin.readline()\n"
        "memory.close()\n"
    )
    command = [sys.executable, "-c", script, str(memory.path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        other.stdout.readline()
        memory.destroy()
        fill(memory)
        other.stdin.write("\n")
        other.stdin.close()
        assert other.wait() == 0
    assert len(files(memory.path.parent)) == 3
    with StructuredMemory(memory.path, read_only=True) as fresh:
        assert fresh.query("SELECT a FROM t").rows == [(1,)]


def test_a_write_that_waited_meanwhile_is_not_lost(
    memory: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M7: it must not be committed to a file that has no name any more."""
    fill(memory)
    other = StructuredMemory(memory.path)
    other.insert("t", {"a": 2})
    outcomes: list[str] = []
    begins = threading.Event()

    def write() -> None:
        try:
            other.insert("t", {"a": 3})
        except StructMemError as error:
            outcomes.append(error.code)

    def begin(connection: apsw.Connection) -> None:
        begins.set()
        begin_immediate(connection)

    def delete(path: Path) -> None:
        thread.start()
        begins.wait()
        remove(path)

    thread, remove = threading.Thread(target=write), removal.delete
    monkeypatch.setattr(writing, "begin_immediate", begin)
    monkeypatch.setattr(removal, "delete", delete)
    memory.destroy()
    thread.join()
    other.close()
    assert outcomes == ["not_a_memory"]


def test_threads_go_on_while_the_memory_is_destroyed(memory: StructuredMemory) -> None:
    """M1, M4: each call finishes or says what happened; what is left is sound."""
    stop = threading.Event()
    strange: list[Exception] = []
    expected = (Busy, NoSuchTable, TableExists)

    def again(call: Callable[[], object]) -> None:
        while not stop.is_set():
            try:
                call()
            except expected:
                pass
            except Exception as error:
                strange.append(error)
                raise

    calls: list[Callable[[], object]] = [
        lambda: memory.create_table("t", [Column("a")]),
        lambda: memory.insert("t", [{"a": n} for n in range(100)]),
        lambda: memory.update("t", {"a": 1}, "a > 50"),
        lambda: memory.query("SELECT count(*) FROM t"),
        lambda: memory.verify(deep=True),
        lambda: list(memory.history()),
    ]
    threads = [threading.Thread(target=again, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for _ in range(60):
        try:
            memory.destroy()
        except Busy:
            continue
    stop.set()
    for thread in threads:
        thread.join()
    assert strange == []
    memory.destroy()
    assert files(memory.path.parent) == []


def test_processes_make_and_destroy_one_file(tmp_path: Path) -> None:
    """M1, M4: whoever comes when, a memory that is there is sound."""
    script = (
        "import sys; from structmem import *\n"
        "errors = (Busy, NoSuchTable, NotAMemory)\n"
        "for n in range(40):\n"
        "    with StructuredMemory(sys.argv[1]) as memory:\n"
        "        try:\n"
        "            memory.create_table('t', [Column('a')], if_not_exists=True)\n"
        "            memory.insert('t', {'a': n})\n"
        "            memory.query('SELECT count(*) FROM t')\n"
        "            if n % 4 == 0: memory.destroy()\n"
        "        except errors: pass\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.db")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate()[1] for process in processes]
    assert said == [""] * 4
    with StructuredMemory(tmp_path / "a.db") as memory:
        memory.verify(deep=True)


def test_what_a_killed_process_left_says_what_to_do(tmp_path: Path) -> None:
    """M9: it was killed after the memory was gone and before its name was free."""
    (tmp_path / "a.db").write_bytes(file.DESTROYED)
    for read_only in (False, True):
        memory = StructuredMemory(tmp_path / "a.db", read_only=read_only)
        with memory, pytest.raises(Busy, match=r"being destroyed.*delete the file"):
            memory.position()
    with StructuredMemory(tmp_path / "a.db") as memory:
        with pytest.raises(Busy, match="being destroyed"):
            memory.destroy()
        (tmp_path / "a.db").unlink()
        fill(memory)


def test_a_file_that_cannot_be_deleted_stays_in_use(
    memory: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(memory)

    def refuse(_path: Path, _target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(InvalidCall, match="Permission denied"):
        memory.destroy()
    monkeypatch.undo()
    connection = raw(memory)
    connection.close()
    assert memory.insert("t", {"a": 2}).rowids == [2]


def test_a_private_memory_is_not_shared_by_a_fork() -> None:
    """M4: unused, it may be used on either side, but not on both."""
    memory = StructuredMemory(":memory:")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fill(memory)
            memory.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    fill(memory)
    memory.close()
