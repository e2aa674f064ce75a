"""Capture sees all that an operation changed, whoever changed it (H5), and undo takes all of it
back (H2, H3).

The tables here have triggers, cascades and conflict clauses, made behind the journal's back because
no operation makes them yet. The witness is a full dump before and after.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from structmem import (
    Busy,
    Column,
    ConstraintFailed,
    NotAMemory,
    StructuredMemory,
    alterations,
    sql,
    writing,
)

from .conftest import alter, dump, raw, writer_of

SCHEMA = """
CREATE TABLE p (
  id INTEGER PRIMARY KEY, code UNIQUE,
  up REFERENCES p (code) ON UPDATE CASCADE ON DELETE CASCADE, x
);
CREATE TABLE c (
  id INTEGER PRIMARY KEY, p REFERENCES p (id) ON UPDATE CASCADE ON DELETE SET NULL,
  code REFERENCES p (code) ON UPDATE SET NULL ON DELETE CASCADE, y UNIQUE ON CONFLICT REPLACE
);
CREATE TABLE log (what, n);
CREATE TABLE stamped (a, b, at DEFAULT 0);
CREATE TABLE generated (a, twice AS (a * 2), next AS (a + 1) STORED);
CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE ON CONFLICT IGNORE);
CREATE TABLE partial (a, b);
CREATE UNIQUE INDEX partial_a ON partial (a) WHERE b = 1;
CREATE TABLE rowid_taken (rowid, v);
CREATE TRIGGER log_c AFTER INSERT ON c BEGIN
  INSERT INTO log VALUES ('c', new.id); UPDATE p SET x = coalesce(x, 0) + 1 WHERE id = new.p;
END;
CREATE TRIGGER stamp AFTER UPDATE ON stamped BEGIN
  UPDATE stamped SET at = at + 1 WHERE rowid = new.rowid;
END;
CREATE TRIGGER gone BEFORE DELETE ON stamped BEGIN INSERT INTO log VALUES ('gone', old.a); END;
"""

OPERATIONS: list[Callable[[StructuredMemory], object]] = [
    lambda m: m.delete("p", "code = 'a'"),
    lambda m: m.update("p", {"code": "z"}, "code = 'a'"),
    lambda m: m.update("p", {"id": 77}, "code = 'b'"),
    lambda m: m.insert("c", {"p": 1, "code": "a", "y": 5}),
    lambda m: m.insert("c", [{"id": 9, "p": 2, "y": 1}, {"id": 8, "y": 2}]),
    lambda m: m.update("c", {"y": 1}, "id = 3"),
    lambda m: m.update("c", {"id": 40}, "id = 1"),
    lambda m: m.update("stamped", {"b": 5}, "true"),
    lambda m: m.delete("stamped", "a = 1"),
    lambda m: m.insert("generated", [{"a": 4}, {"a": 5}]),
    lambda m: m.update("generated", {"a": 8}, "twice = 2"),
    lambda m: m.delete("generated", "true"),
    lambda m: m.insert("counted", [{"a": 1}, {"a": 2}, {"a": 3}]),
    lambda m: m.update("counted", {"id": 900}, "id = 1"),  # the counter stays behind
    lambda m: m.delete("counted", "true"),
    lambda m: m.update("partial", {"a": 3, "b": 0}, "a = 1"),
    lambda m: m.update("rowid_taken", {"rowid": 10}, "v = 'two'"),
    lambda m: m.delete("rowid_taken", "rowid = 7"),
    lambda m: m.delete("p", "true"),
]


@pytest.fixture
def tangled(unjournaled: StructuredMemory) -> StructuredMemory:
    memory = unjournaled
    alter(memory, SCHEMA)
    memory.insert("p", [{"code": "a", "up": "a"}, {"code": "b", "up": "a"}, {"code": "c"}])
    memory.insert("c", [{"p": 1, "code": "b", "y": 1}, {"p": 2, "y": 2}, {"p": 3, "y": 3}])
    memory.insert("stamped", [{"a": 1}, {"a": 2}])
    memory.insert("generated", [{"a": 1}, {"a": 2}])
    memory.insert("counted", {"a": 1})
    memory.insert("partial", [{"a": 1, "b": 1}, {"a": 1, "b": 0}, {"a": 2, "b": 1}])
    memory.insert("rowid_taken", [{"rowid": 7, "v": "one"}, {"rowid": 7, "v": "two"}])
    return memory


@pytest.mark.parametrize("index", range(len(OPERATIONS)))
def test_undo_gives_back_every_byte(tangled: StructuredMemory, index: int) -> None:
    """H2, H3, C17, C31-C34"""
    before = dump(tangled)
    OPERATIONS[index](tangled)
    assert dump(tangled) != before, "the operation must do something"
    tangled.undo()
    assert dump(tangled) == before


def test_all_of_them_and_all_of_them_back(tangled: StructuredMemory) -> None:
    """H2"""
    states = [dump(tangled)]
    for operation in OPERATIONS:
        with suppress(ConstraintFailed):  # what one deletes, another may need
            seq = tangled.position().seq
            operation(tangled)
            if tangled.position().seq > seq:
                states.append(dump(tangled))
    assert len(states) > 12
    while len(states) > 1:
        assert dump(tangled) == states.pop()
        tangled.undo()
    assert dump(tangled) == states.pop()


def test_a_replica_gets_what_triggers_did(tangled: StructuredMemory, tmp_path: object) -> None:
    """J4: nothing is decided again, not even where the replica's schema has the triggers too."""
    for operation in OPERATIONS:
        with suppress(ConstraintFailed):
            operation(tangled)
    with StructuredMemory(":memory:") as copy:
        alter(copy, SCHEMA)
        copy.apply(tangled.records())
        assert dump(copy) == dump(tangled)


def test_swapping_unique_values_can_be_undone(tangled: StructuredMemory) -> None:
    """H3: half-way, two rows would have the same value."""
    alter(
        tangled,
        "CREATE TABLE s (k UNIQUE, v); CREATE TRIGGER swap AFTER UPDATE OF v ON s WHEN new.v = 'go'"
        " BEGIN UPDATE s SET k = -rowid; UPDATE s SET k = 3 + k; END",
    )
    tangled.insert("s", [{"k": 1}, {"k": 2}])
    before = dump(tangled)
    tangled.update("s", {"v": "go"}, "k = 1")
    assert tangled.query("SELECT k FROM s ORDER BY rowid").rows == [(2,), (1,)]
    tangled.undo()
    assert dump(tangled) == before


def test_capture_leaves_nothing_in_the_file(memory: StructuredMemory) -> None:
    """H5: the file stays plain SQLite."""
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": 1})
    connection = raw(memory)
    kinds = sql.rows(connection, "SELECT DISTINCT type FROM sqlite_schema ORDER BY 1")
    connection.close()
    assert kinds == [("table",)]


def test_another_process_changes_the_schema(unjournaled: StructuredMemory) -> None:
    """M4: triggers of ours that its change makes stale are thrown away with their connection."""
    memory = unjournaled
    memory.create_table("t", [Column("a")])
    memory.create_table("u", [Column("a")])
    memory.insert("t", {"a": 1})
    memory.insert("u", {"a": 1})
    for change in (
        "ALTER TABLE t ADD COLUMN b DEFAULT 'd'",
        "ALTER TABLE t RENAME TO t2; ALTER TABLE t2 RENAME COLUMN a TO z",
        "DROP TABLE u; CREATE TABLE u (b, c)",
    ):
        alter(memory, change)
    memory.insert("t2", {"z": 2, "b": "e"})
    memory.insert("u", {"c": 3})
    before = dump(memory)
    memory.update("t2", {"b": "f"}, "true")
    memory.update("u", {"c": 4}, "true")
    memory.undo()
    memory.undo()
    assert dump(memory) == before


def test_a_row_that_only_the_hook_sees_was_replaced(tangled: StructuredMemory) -> None:
    """H5: triggers and hook are independent witnesses, and differ by REPLACE deletions alone."""
    writer = writer_of(tangled)
    with writer.transaction() as tx:
        statement = "UPDATE c SET y = 1 WHERE id = 3"
        tx.arm(statement)
        sql.run(tx.connection, statement)
        seen = writer.capture.seen_by_triggers()
        touched = writer.capture.touched()
    assert seen == {"c": {3}}
    assert touched == {"c": [1, 3]}


def test_every_written_table_is_armed_before_it_is_written(tangled: StructuredMemory) -> None:
    """H5: cascades and triggers included."""
    writer = writer_of(tangled)
    with writer.transaction():
        assert writer.capture.tables_written_by("DELETE FROM p") == {"p", "c"}
        assert writer.capture.tables_written_by("INSERT INTO c (id) VALUES (1)") == {
            "c",
            "log",
            "p",
        }


def test_a_writer_that_had_to_give_up_can_write_again(memory: StructuredMemory) -> None:
    """M4, M7: what stands under capture is known after a transaction that never began."""
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": 1})
    writer_of(memory).connection.set_busy_timeout(1)
    other = raw(memory)
    sql.run(other, "BEGIN IMMEDIATE")
    with pytest.raises(Busy):
        memory.insert("t", {"a": 2})
    other.close()
    assert memory.insert("t", {"a": 2}).rowids == [2]


def test_a_writer_that_could_not_be_replaced_is_tried_again(
    unjournaled: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M7: as when the process had no file descriptor left."""
    memory = unjournaled
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": 1})
    alter(memory, "ALTER TABLE t ADD COLUMN b")
    with monkeypatch.context() as patched:
        patched.setattr(writing, "open_reader", _cannot_open)
        with pytest.raises(NotAMemory):
            memory.insert("t", {"a": 2})
    assert memory.insert("t", {"a": 2}).rowids == [2]


def _cannot_open(_path: Path) -> apsw.Connection:
    raise apsw.CantOpenError("unable to open database file")


def _fail(*_rows: object) -> None:
    raise ZeroDivisionError


def test_an_error_that_is_kept_holds_up_no_write(
    memory: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes out of the middle of two statements that are compared row by row."""
    script = "ALTER TABLE t ADD COLUMN x DEFAULT 5; UPDATE t SET x = a"
    memory.create_table("t", [Column("a")])
    memory.insert("t", [{"a": 1}, {"a": 2}])
    with monkeypatch.context() as patched:
        patched.setattr(alterations, "changed_indexes", _fail)
        with pytest.raises(ZeroDivisionError) as kept:
            memory.execute(script)
    memory.execute(script)
    assert memory.query("SELECT x FROM t").rows == [(1,), (2,)]
    assert kept.value is not None
