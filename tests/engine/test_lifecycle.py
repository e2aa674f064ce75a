"""The file: when it is made, what it is, who may use it (M1, M4, M10)."""

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from structmem import (
    Column,
    ForkedProcess,
    FormatTooNew,
    Full,
    InvalidCall,
    NotAMemory,
    Position,
    StructuredMemory,
    file,
    sql,
)
from structmem.connection import translate
from structmem.file import APPLICATION_ID, ensure_memory


def test_nothing_is_made_before_the_first_call(tmp_path: Path) -> None:
    """M1"""
    with StructuredMemory(tmp_path / "a.db"):
        pass
    assert list(tmp_path.iterdir()) == []
    with StructuredMemory(tmp_path / "a.db") as memory:
        assert memory.describe() == ""
    assert [p.name for p in tmp_path.iterdir()] == ["a.db"]


def test_the_file_is_private(tmp_path: Path) -> None:
    """M1"""
    old = os.umask(0)
    try:
        with StructuredMemory(tmp_path / "a.db") as memory:
            memory.create_table("t", [Column("a")])
            modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(old)
    assert modes == {0o600}


def test_a_private_memory_leaves_nothing(tmp_path: Path) -> None:
    """M1"""
    memory = StructuredMemory(":memory:")
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": 1})
    memory.undo()
    memory.verify(deep=True)
    directory = memory.path.parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    memory.close()
    assert not directory.exists()


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    with StructuredMemory(tmp_path / "a.db") as memory:
        memory.create_table("t", [Column("a")])
        identity, position = memory.id, memory.position()
    with StructuredMemory(str(tmp_path / "a.db")) as memory:
        assert (memory.id, memory.position(), memory.label) == (identity, position, "a")
        assert memory.undo().operations == ["op_1"]
    assert len(identity) == 32 and int(identity, 16) >= 0


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    memory = StructuredMemory(tmp_path / "a.db")
    memory.position()
    memory.close()
    memory.close()
    with pytest.raises(InvalidCall, match="closed"):
        memory.position()
    with pytest.raises(InvalidCall, match="closed"):
        memory.insert("t", {})


@pytest.mark.parametrize(
    "content", [b"junk that is no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 500]
)
def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    """M10, C54"""
    path = tmp_path / "a.db"
    path.write_bytes(content)
    for read_only in (False, True):
        with StructuredMemory(path, read_only=read_only) as memory, pytest.raises(NotAMemory):
            memory.position()
    assert path.read_bytes() == content


def test_another_database_is_refused_untouched(tmp_path: Path) -> None:
    """M10"""
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    sql.run(connection, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    connection.close()
    content = path.read_bytes()
    with StructuredMemory(path) as memory, pytest.raises(NotAMemory, match="not a memory"):
        memory.insert("t", {"a": 2})
    assert path.read_bytes() == content


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    """M10"""
    path = tmp_path / "a.db"
    with StructuredMemory(path) as memory:
        memory.position()
    connection = apsw.Connection(str(path))
    sql.pragma(connection, "user_version", 2)
    connection.close()
    with StructuredMemory(path) as memory, pytest.raises(FormatTooNew, match="format 2"):
        memory.position()


def test_a_file_without_our_tables_is_no_memory(tmp_path: Path) -> None:
    """M9, M10: not a mistake of the caller's."""
    path = tmp_path / "marked.db"
    connection = apsw.Connection(str(path))
    sql.pragma(connection, "application_id", APPLICATION_ID)
    connection.close()
    with StructuredMemory(path) as memory, pytest.raises(NotAMemory, match="_structmem_record"):
        memory.position()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (apsw.NoMemError("out of memory"), Full),
        (apsw.FullError("database or disk is full"), Full),
        (apsw.IOError("disk I/O error"), NotAMemory),
        (apsw.CorruptError("database disk image is malformed"), NotAMemory),
        (apsw.SQLError("no such table: main._structmem_call"), NotAMemory),
        (apsw.SQLError("no such table: main.people"), InvalidCall),
    ],
)
def test_errors_are_sorted_by_what_to_do(error: apsw.Error, expected: type[Exception]) -> None:
    """M9"""
    assert type(translate(error, Path("a.db"))) is expected


def test_a_full_disk_is_told_as_one_wherever_it_shows() -> None:
    """M9: the index of the write-ahead log has no room; SQLite calls it an I/O error."""
    error = apsw.IOError("disk I/O error")
    error.extendedresult = apsw.SQLITE_IOERR_SHMSIZE  # pyright: ignore[reportAttributeAccessIssue] # set by APSW
    assert isinstance(translate(error, Path("a.db")), Full)


def test_an_empty_file_with_a_log_was_damaged(tmp_path: Path) -> None:
    """M10, C54: it must not be taken for a new memory."""
    path = tmp_path / "a.db"
    path.touch()
    (tmp_path / "a.db-wal").write_bytes(b"x" * 4_128)
    with StructuredMemory(path) as memory, pytest.raises(NotAMemory, match="damaged"):
        memory.position()


def test_reading_needs_an_existing_file(tmp_path: Path) -> None:
    with StructuredMemory(tmp_path / "a.db", read_only=True) as memory, pytest.raises(NotAMemory):
        memory.query("SELECT 1")
    with StructuredMemory(tmp_path / "none" / "a.db") as memory, pytest.raises(InvalidCall):
        memory.position()
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_the_memory(tmp_path: Path) -> None:
    with pytest.raises(InvalidCall):
        StructuredMemory("")
    with pytest.raises(InvalidCall):
        StructuredMemory(tmp_path / "a.db", max_value_bytes=0)
    with pytest.raises(InvalidCall):
        StructuredMemory(tmp_path / "a.db", actor="\ud800")
    with StructuredMemory(tmp_path / "a.db", max_value_bytes=10) as memory:
        memory.create_table("t", [Column("a")])
        memory.insert("t", {"a": "x" * 10})
        with pytest.raises(InvalidCall, match="11 bytes"):
            memory.insert("t", {"a": "x" * 11})


def test_use_after_fork_is_refused(memory: StructuredMemory) -> None:
    """M4, C53: the parent is unharmed."""
    memory.create_table("t", [Column("a")])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            memory.insert("t", {"a": 1})
        except ForkedProcess:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert memory.insert("t", {"a": 2}).rowids == [1]


def test_a_forked_child_does_not_take_a_private_memory_away() -> None:
    """M1, M4: the child ends as a program does, and collects what it inherited."""
    script = (
        "import os, sys; from structmem import Column, StructuredMemory\n"
        "unopened, memory = StructuredMemory(':memory:'), StructuredMemory(':memory:')\n"
        "memory.create_table('t', [Column('a')])\n"
        "child = os.fork()\n"
        "if child == 0: unopened.close(); sys.exit()\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert memory.insert('t', {'a': 1}).rowids == [1]\n"
        "unopened.create_table('t', [Column('a')])\n"
        "print(memory.path, unopened.path)\n"
    )
    command = [sys.executable, "-W", "error", "-c", script]
    paths = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert [Path(path).parent.exists() for path in paths] == [False, False]


@pytest.mark.parametrize("change", ["remove", "replace"])
def test_a_file_that_was_replaced_is_not_used(tmp_path: Path, change: str) -> None:
    """M7, C52: what is reported must be at the path, not in a file that is gone from it."""
    path = tmp_path / "a.db"
    with StructuredMemory(path) as memory:
        memory.create_table("t", [Column("a")])
        if change == "replace":
            (tmp_path / "b.db").write_bytes(b"")
            (tmp_path / "b.db").replace(path)
        else:
            path.unlink()
        with pytest.raises(NotAMemory, match="replaced"):
            memory.insert("t", {"a": 1})
        with pytest.raises(NotAMemory, match="replaced"):
            memory.query("SELECT 1")


def test_nothing_is_opened_after_close(tmp_path: Path) -> None:
    """M4: what somebody kept of a session that ended opens no connection."""
    memory = StructuredMemory(tmp_path / "a.db")
    memory.create_table("t", [Column("a")])
    with memory._opening.session() as session:  # pyright: ignore[reportPrivateUsage]
        writer = session.writer()
    memory.close()
    with pytest.raises(InvalidCall, match="closed"):
        session.writer()
    with pytest.raises(InvalidCall, match="closed"), writer.transaction():
        pass
    for pool in (session.readers, session.guarded):
        with pytest.raises(InvalidCall, match="closed"), pool.borrow():
            pass
    assert [p.name for p in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize("private", [False, True])
def test_a_call_that_runs_while_another_thread_closes_finishes(
    tmp_path: Path, private: bool
) -> None:
    """M4: it needs no connection that is closed already, and tidies up when it is done."""
    memory = StructuredMemory(":memory:" if private else tmp_path / "a.db")
    memory.create_table("t", [Column("a")])
    with memory._opening.session() as session:  # pyright: ignore[reportPrivateUsage]
        in_thread(memory.close)
        with pytest.raises(InvalidCall, match="closed"):
            memory.position()
        with session.guarded.borrow() as reader:
            assert reader.query("SELECT count(*) FROM t", timeout=9).scalar() == 0
        assert memory.path.with_name(memory.path.name + "-wal").exists()
    left = [p.name for p in memory.path.parent.glob("*")]
    assert left == ([] if private else ["a.db"])


def test_use_after_a_fork_that_came_while_a_thread_was_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M4, C53: the child inherits a lock that nobody releases, and must not wait for it."""
    opening, go_on = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        opening.set()
        go_on.wait()
        ensure_memory(path)

    monkeypatch.setattr(file, "ensure_memory", slow)
    memory = StructuredMemory(tmp_path / "a.db")
    thread = threading.Thread(target=memory.position)
    thread.start()
    opening.wait()
    statuses = [in_child(call) for call in (memory.position, memory.close, memory.describe)]
    go_on.set()
    thread.join()
    memory.close()
    assert statuses == ["ForkedProcess"] * 3


def in_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def in_child(call: Callable[[], object]) -> str:
    """The name of the error that a call ends with in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            call()
            os.write(write, b"none")
        except BaseException as error:
            os.write(write, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


def test_a_view_acts_for_somebody_else(memory: StructuredMemory) -> None:
    """J6: in the same memory, heard by the same listeners."""
    heard: list[Position] = []
    view = memory.acting_as("planner", approved_by="Ada")
    memory.on_commit(heard.append)
    view.create_table("t", [Column("a")])
    memory.insert("t", {"a": 1})
    memory.acting_as(None).insert("t", {"a": 2})
    view.acting_as("writer").undo()
    names = [(operation.actor, operation.approved_by) for operation in memory.log()]
    assert names == [("planner", "Ada"), ("tester", None), (None, None), ("writer", None)]
    assert [position.seq for position in heard] == [1, 2, 3, 4]
    assert (view.path, view.id) == (memory.path, memory.id)


@pytest.mark.parametrize("name", ["\ud800", 7, "x" * 1_001])
def test_a_view_checks_its_names(memory: StructuredMemory, name: Any) -> None:
    with pytest.raises(InvalidCall, match="actor"):
        memory.acting_as(name)
    with pytest.raises(InvalidCall, match="approver"):
        memory.acting_as("a", approved_by=name)


def test_closing_a_view_closes_the_memory(tmp_path: Path) -> None:
    memory = StructuredMemory(tmp_path / "a.db")
    with memory.acting_as("somebody") as view:
        view.position()
    with pytest.raises(InvalidCall, match="closed"):
        memory.position()


def test_threads_share_a_memory(memory: StructuredMemory) -> None:
    """M4"""
    memory.create_table("t", [Column("thread"), Column("n")])

    def work(number: int) -> None:
        for n in range(20):
            memory.insert("t", {"thread": number, "n": n})
            memory.query("SELECT count(*) FROM t")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.query("SELECT count(*), count(DISTINCT thread) FROM t").rows == [(160, 8)]
    assert memory.position().seq == 161


def _write_some(path: str, number: int) -> None:
    with StructuredMemory(path, actor=f"process {number}") as memory:
        memory.create_table("t", [Column("process"), Column("n")], if_not_exists=True)
        memory.create_table(f"own_{number}", [Column("a")])
        for n in range(25):
            memory.insert("t", {"process": number, "n": n})
            memory.insert(f"own_{number}", {"a": n})
            memory.update("t", {"n": -n}, "process = ? AND n = ?", [number, n])


def test_processes_share_a_file(memory: StructuredMemory) -> None:
    """M4: schema changes among the writes; the journal has no gaps and misses nothing."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_some, args=(str(memory.path), n)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert memory.query("SELECT count(*), sum(n) FROM t").rows == [(100, -1200)]
    assert memory.position().seq == 1 + 4 + 4 * 75


def test_a_killed_writer_leaves_all_or_nothing(memory: StructuredMemory) -> None:
    """M7: what was reported is there; the fixture verifies that nothing is half there."""
    memory.create_table("t", [Column("n")])
    script = (
        "import sys; from structmem import StructuredMemory\n"
        "memory = StructuredMemory(sys.argv[1])\n"
        "for n in range(10**6):\n"
        "    memory.insert('t', [{'n': n}] * 3); print(n, flush=True)\n"
    )
    for _ in range(5):
        command = [sys.executable, "-c", script, str(memory.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            lines = [line for _, line in zip(range(20), writer.stdout, strict=False)]
            writer.kill()
            lines += writer.stdout.readlines()
        reported = max(int(line) for line in lines if line.endswith("\n"))
        stored = [n for (n,) in memory.query("SELECT n FROM t ORDER BY n")]
        assert len(stored) >= 3 * (reported + 1)
        assert stored == [n for n in range(len(stored) // 3) for _ in range(3)]
        memory.delete("t", "true")


def test_no_file_descriptors_left_is_told(tmp_path: Path) -> None:
    """M9: a time that is not right, not a file that is no memory."""
    program = """
import resource, structmem
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
memories = [structmem.StructuredMemory(f"{n}.db") for n in range(12)]
try:
    for memory in memories:
        memory.create_table("t", [structmem.Column("a")])
except structmem.Full as error:
    print(error)
for memory in memories:
    memory.close()
memories[-1].close()
with structmem.StructuredMemory("0.db") as memory:
    memory.insert("t", {"a": 1})
    memory.verify(deep=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "no file descriptors left" in done.stdout


def test_a_file_that_lost_its_log_gets_it_back(tmp_path: Path) -> None:
    """Without one, a write that SQLite's cache does not hold would wait for our own reader."""
    path = tmp_path / "a.db"
    with StructuredMemory(path) as memory:
        memory.create_table("t", [Column("a")])
    other = apsw.Connection(str(path))
    assert sql.pragma(other, "journal_mode", "DELETE") == "delete"
    other.close()
    with StructuredMemory(path) as memory:
        memory.insert("t", [{"a": "x" * 3_000}] * 1_500)
        memory.verify(deep=True)
    other = apsw.Connection(str(path))
    assert sql.pragma(other, "journal_mode") == "wal"
    other.close()
