"""Files of an older format: read as they are, upgraded by the first write (M10, M7)."""

import multiprocessing
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from structmem import (
    Column,
    FormatTooNew,
    InvalidCall,
    NoSuchTable,
    ReadOnly,
    StructuredMemory,
    log,
    open_replica,
    sql,
)
from structmem.upgrade import FILE_FORMAT
from structmem_journal import Record, decode_header

# What version 0 of the file was, word for word. It must never follow later changes of the code.
FORMAT_0 = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
CREATE TABLE _structmem_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE _structmem_record (
  seq INTEGER PRIMARY KEY, header BLOB NOT NULL, digest BLOB NOT NULL, standing INTEGER NOT NULL
);
CREATE TABLE _structmem_payload (part_id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE _structmem_call (call_id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX _structmem_standing ON _structmem_record (seq) WHERE standing;
PRAGMA application_id = 1397581165;
PRAGMA user_version = 0;
"""
STANDING = {1: 1, 2: 1, 3: 1, 4: 0, 5: 0}
"""Of the records that `written` makes."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Five records, made by real code: create, insert, update, and a delete with its undo."""
    with StructuredMemory(tmp_path_factory.mktemp("source") / "source.db") as memory:
        memory.create_table("t", [Column("a", "INTEGER", primary_key=True), Column("b")])
        memory.insert("t", [{"a": 1, "b": "x"}, {"a": 2, "b": b"\0"}], call_id="one")
        memory.update("t", {"b": 1.5}, "a = 1")
        memory.delete("t", "true")
        memory.undo()
        return list(memory.records())


@pytest.fixture
def old(tmp_path: Path, written: list[Record]) -> Path:
    """A file of format 0 that holds these records."""
    return make_old(tmp_path / "old.db", written)


def make_old(path: Path, records: list[Record], role: str = "primary") -> Path:
    connection = apsw.Connection(str(path))
    sql.run(connection, FORMAT_0)
    sql.run(connection, "BEGIN")
    facts = [("id", "ab" * 16), ("role", role), ("epoch", 1)]
    sql.run_many(connection, "INSERT INTO _structmem_meta VALUES (?, ?)", facts)
    if records:
        sql.run(connection, 'CREATE TABLE "t" (\n  "a" INTEGER PRIMARY KEY,\n  "b"\n)')
        sql.run(connection, "INSERT INTO t VALUES (1, 1.5), (2, x'00')")
        sql.run(connection, "INSERT INTO _structmem_call VALUES ('one', 2)")
    for record in records:
        seq = decode_header(record.header).seq
        row = (seq, record.header, record.digest, STANDING[seq])
        sql.run(connection, "INSERT INTO _structmem_record VALUES (?, ?, ?, ?)", row)
        part = (seq * 1024, record.payload)
        sql.run(connection, "INSERT INTO _structmem_payload VALUES (?, ?)", part)
    sql.run(connection, "COMMIT")
    connection.close()
    return path


def file_format(path: Path) -> tuple[int, bool]:
    """What the file says of itself, and whether it has the index of format 0."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    index = sql.rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = '_structmem_standing'")
    found = sql.pragma(connection, "user_version"), bool(index)
    connection.close()
    return found


OLD, PRESENT = (0, True), (1, False)


def test_a_new_file_has_the_present_format(memory: StructuredMemory) -> None:
    memory.position()
    assert file_format(memory.path) == PRESENT == (FILE_FORMAT, False)


@pytest.mark.parametrize("read_only", [True, False])
def test_reading_leaves_an_old_file_as_it_is(old: Path, read_only: bool) -> None:
    """M10: every way to read, and not a byte changes."""
    before = old.read_bytes()
    with StructuredMemory(old, read_only=read_only) as memory:
        assert memory.verify(deep=True).rows == 2
        assert [o.op_id for o in memory.history()] == ["op_3", "op_2", "op_1"]
        assert [o.op_id for o in memory.history(1, before="op_3")] == ["op_2"]
        assert memory.query("SELECT b FROM t").rows == [(1.5,), (b"\0",)]
        assert (memory.position().seq, len(list(memory.records()))) == (5, 5)
        assert memory.role() == "primary" and "CREATE TABLE" in memory.describe()
    assert old.read_bytes() == before


@pytest.mark.parametrize("first", ["insert", "undo"])
def test_the_first_write_upgrades(old: Path, first: str) -> None:
    """M10, H2"""
    with StructuredMemory(old) as memory:
        if first == "insert":
            assert memory.insert("t", {"a": 3}).op_id == "op_6"
        else:
            assert memory.undo().operations == ["op_3"]
        assert file_format(old) == PRESENT
        memory.verify(deep=True)
        memory.undo()
        memory.create_table("u", [Column("a")])
        memory.verify(deep=True)


def test_what_writes_nothing_upgrades_nothing(old: Path) -> None:
    """M7, M8: the write after it does."""
    with StructuredMemory(old) as memory:
        with pytest.raises(NoSuchTable):
            memory.insert("x", {"a": 1})
        assert memory.delete("t", "a > 99").op_id is None
        rows = [{"a": 1, "b": "x"}, {"a": 2, "b": b"\0"}]
        with pytest.raises(InvalidCall, match="other arguments"):
            memory.insert("t", rows[:1], call_id="one")
        assert memory.insert("t", rows, call_id="one").repeated
        assert file_format(old) == OLD
        memory.insert("t", {"a": 3})
        assert file_format(old) == PRESENT
        memory.verify(deep=True)


def test_a_replica_is_upgraded_by_what_it_applies(tmp_path: Path, written: list[Record]) -> None:
    """M10, R2"""
    path = make_old(tmp_path / "replica.db", [], role="replica")
    with open_replica(path, memory_id="ab" * 16) as replica:
        assert replica.position().seq == 0
        with pytest.raises(ReadOnly):
            replica.insert("t", {"a": 3})
        assert file_format(path) == OLD
        replica.apply(written[:3])
        assert file_format(path) == PRESENT
        replica.apply(written)
        replica.verify(deep=True)


def test_an_open_memory_goes_on_when_another_upgrades(old: Path) -> None:
    """M4, M10"""
    with StructuredMemory(old) as reads, StructuredMemory(old, read_only=True) as watches:
        assert (reads.position().seq, watches.position().seq) == (5, 5)
        with StructuredMemory(old) as writes:
            writes.insert("t", {"a": 3})
        assert [o.op_id for o in watches.history(2)] == ["op_6", "op_3"]
        assert reads.query("SELECT count(*) FROM t").scalar() == 3
        assert reads.undo().operations == ["op_6"]
        reads.verify(deep=True)


def _insert(path: str, number: int) -> None:
    with StructuredMemory(path) as memory:
        memory.insert("t", {"a": number})


def test_of_several_processes_one_upgrades(old: Path) -> None:
    """M4, M10"""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_insert, args=(str(old), 10 + n)) for n in range(4)]
    with StructuredMemory(old) as memory:
        memory.position()
        for process in processes:
            process.start()
        memory.insert("t", {"a": 3})
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0] * 4
        assert file_format(old) == PRESENT
        assert memory.verify(deep=True).rows == 2 + 5


KILLED_WRITER = """
import os, signal, sys
import apsw
from structmem import StructuredMemory
memory, steps = StructuredMemory(sys.argv[1]), int(sys.argv[2])

def watch(connection):
    connection.set_progress_handler(count, 1)

def count():
    global steps
    steps -= 1
    if steps == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return False

memory.position()
apsw.connection_hooks.append(watch)
memory.insert("t", {"a": 3})
print("written", flush=True)
"""
"""Dies after so many steps of SQLite's machine, counted from the opening of the writer."""


def test_a_killed_upgrade_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, written: list[Record]
) -> None:
    """M7, M10: kills spread over the whole of the first write."""
    reported, found = b"", set[tuple[int, bool]]()
    for steps in range(1, 2_000, 60):
        path = make_old(tmp_path / f"{steps}.db", written)
        command = [sys.executable, "-c", KILLED_WRITER, str(path), str(steps)]
        reported = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout
        with StructuredMemory(path, read_only=True) as memory:
            found.add(file_format(path))
            assert memory.position().seq == (6 if file_format(path) == PRESENT else 5)
            assert file_format(path) == PRESENT or not reported
            memory.verify(deep=True)
        with StructuredMemory(path) as memory:
            memory.insert("t", {"a": 4})
            memory.verify(deep=True)
        if reported:
            break
    assert reported and found == {OLD, PRESENT}


def test_an_open_memory_stops_at_a_newer_format(unjournaled: StructuredMemory) -> None:
    """M10: whoever upgrades a file changes its schema, which the next write notices."""
    unjournaled.create_table("t", [Column("a")])
    connection = apsw.Connection(str(unjournaled.path))
    sql.run(connection, "PRAGMA user_version = 99; CREATE TABLE _structmem_later (a)")
    connection.close()
    for _ in range(2):
        with pytest.raises(FormatTooNew, match="format 99"):
            unjournaled.insert("t", {"a": 1})
    assert unjournaled.position().seq == 1


@pytest.mark.parametrize("last", [1, 2_000])
def test_operations_standing_are_found_without_an_index(last: int) -> None:
    """H1: all of them, and the latest without a look at those before it."""
    connection = apsw.Connection(":memory:")
    log.create_tables(connection)
    rows = ((seq, b"h" * 100, b"d" * 32, int(seq <= last)) for seq in range(1, 2_003))
    sql.run_many(connection, "INSERT INTO _structmem_record VALUES (?, ?, ?, ?)", rows)
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.set_progress_handler(count, 1)
    assert log.standing(connection, before=None, limit=1) == [last]
    assert (steps < 100) == (last == 2_000)
    assert log.standing(connection, before=2, limit=9) == [1]
    assert log.all_standing(connection) == list(range(1, last + 1))
    connection.close()
