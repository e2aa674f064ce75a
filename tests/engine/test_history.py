"""History, log and undo (H1-H3), and verification (J3)."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from structmem import (
    CannotUndo,
    Column,
    ConstraintFailed,
    InvalidCall,
    NothingToUndo,
    Position,
    Reference,
    StructuredMemory,
    VerificationFailed,
)

from .conftest import alter, dump


@pytest.fixture
def notes(memory: StructuredMemory) -> StructuredMemory:
    memory.create_table("notes", [Column("text", "TEXT", unique=True), Column("n")])
    memory.insert("notes", [{"text": "a"}, {"text": "b"}], reason="first")
    memory.update("notes", {"n": 1}, "text = 'a'")
    memory.delete("notes", "text = 'b'")
    return memory


def test_history_shows_what_stands_and_log_shows_all(notes: StructuredMemory) -> None:
    """H1"""
    notes.undo(reason="a mistake")
    assert [o.op_id for o in notes.history()] == ["op_3", "op_2", "op_1"]
    assert [o.op_id for o in notes.history(1, before="op_3")] == ["op_2"]
    log = list(notes.log())
    assert [o.operation for o in log] == ["create_table", "insert", "update", "delete", "undo"]
    assert [o.table for o in log] == ["notes"] * 5
    assert (log[1].reason, log[1].rows_changed, log[1].actor) == ("first", 2, "tester")
    assert log[-1].reason == "a mistake"


def test_log_filters(notes: StructuredMemory) -> None:
    """H1, J6"""
    assert [o.op_id for o in notes.log(operation="update")] == ["op_3"]
    assert [o.op_id for o in notes.log(after="op_2")] == ["op_3", "op_4"]
    assert list(notes.log(table="other")) == list(notes.log(actor="nobody")) == []
    now = datetime.now(UTC)
    assert len(list(notes.log(since=now - timedelta(minutes=5), until=now))) == 4
    assert list(notes.log(since=now + timedelta(minutes=5))) == []


def test_undo_to_the_beginning_gives_an_empty_memory(notes: StructuredMemory) -> None:
    """H2"""
    done = [notes.undo().operations for _ in range(4)]
    assert done == [["op_4"], ["op_3"], ["op_2"], ["op_1"]]
    assert dump(notes) == {"": []}
    assert notes.history() == []
    with pytest.raises(NothingToUndo):
        notes.undo()


def test_an_undo_is_not_undone(notes: StructuredMemory) -> None:
    """H4: the journal keeps everything."""
    notes.undo()
    notes.undo()
    assert notes.position().seq == 6
    assert notes.query("SELECT text, n FROM notes").rows == [("a", None), ("b", None)]


def test_undo_by_id_guards_against_undoing_another_operation(notes: StructuredMemory) -> None:
    """H2"""
    with pytest.raises(CannotUndo, match="op_4"):
        notes.undo("op_2")
    for bad in ("op_0", "op_x", "2", "op_²", "", "op_99999999999999999999", 4):
        with pytest.raises(InvalidCall):
            notes.undo(bad)  # pyright: ignore[reportArgumentType]
    assert notes.undo("op_4").operations == ["op_4"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("UPDATE notes SET n = 1.0", "rowid 1 column 'n'"),
        ("UPDATE notes SET n = 2", "rowid 1 column 'n'"),
        ("DELETE FROM notes", "rowid 1"),
        ("ALTER TABLE notes ADD COLUMN extra", "columns of 'notes'"),
        ("DROP TABLE notes", "table 'notes'"),
    ],
)
def test_undo_refuses_over_foreign_changes(
    unjournaled: StructuredMemory, change: str, where: str
) -> None:
    """M10, H3: equality is storage class and bytes, so 1.0 is not 1."""
    memory = unjournaled
    memory.create_table("notes", [Column("text"), Column("n")])
    memory.insert("notes", {"text": "a"})
    memory.update("notes", {"n": 1}, "true")
    alter(memory, change)
    before = dump(memory, internal=True)
    with pytest.raises(CannotUndo, match=where):
        memory.undo()
    assert dump(memory, internal=True) == before


def test_undo_refuses_over_a_row_that_took_the_key(unjournaled: StructuredMemory) -> None:
    """M10, H3: a row that the journal does not know of holds the value that must come back."""
    memory = unjournaled
    memory.create_table("notes", [Column("text", unique=True)])
    memory.insert("notes", {"text": "a"})
    memory.delete("notes", "true")
    alter(memory, "INSERT INTO notes (rowid, text) VALUES (99, 'a')")
    before = dump(memory, internal=True)
    with pytest.raises(CannotUndo, match=r"notes\.text"):
        memory.undo()
    assert dump(memory, internal=True) == before


def test_undo_of_create_never_drops_rows_it_does_not_know(unjournaled: StructuredMemory) -> None:
    """M10"""
    unjournaled.create_table("t", [Column("a")])
    alter(unjournaled, "INSERT INTO t VALUES (1)")
    with pytest.raises(CannotUndo, match="rows"):
        unjournaled.undo()
    assert unjournaled.query("SELECT a FROM t").rows == [(1,)]


def test_undo_never_leaves_a_row_without_its_parent(unjournaled: StructuredMemory) -> None:
    """H3: foreign keys are off while images are put in place, so they are checked afterwards."""
    memory = unjournaled
    memory.create_table("p", [Column("id", "INTEGER", primary_key=True), Column("k", unique=True)])
    memory.create_table("c", [Column("p", references=Reference("p", "k"))])
    memory.insert("p", {"k": "a"})
    memory.insert("p", {"k": "b"})
    memory.insert("c", {"p": "a"})
    memory.delete("c", "true")
    memory.update("p", {"k": "z"}, "k = 'b'")
    alter(memory, "INSERT INTO c VALUES ('z')")
    with pytest.raises(CannotUndo, match="'c' rowid 1 names a row of 'p' that is gone"):
        memory.undo()
    alter(memory, "PRAGMA foreign_keys = 0; DELETE FROM c; DELETE FROM p WHERE k = 'a'")
    memory.undo()
    with pytest.raises(CannotUndo, match="'c' rowid 1"):
        memory.undo()


@pytest.mark.parametrize("parent", [None, "TEXT", "INTEGER", "REAL", "STRING"])
@pytest.mark.parametrize("child", [None, "TEXT", "INTEGER", "REAL", "STRING"])
def test_parents_are_found_as_sqlite_finds_them(
    memory: StructuredMemory, parent: str | None, child: str | None
) -> None:
    """H3: the parent's type decides how keys compare, whatever the child's."""
    memory.create_table("p", [Column("k", parent, unique=True)])
    memory.create_table("c", [Column("p", child, references=Reference("p", "k"))])
    memory.insert("p", {"k": 1})
    for key in (1, "1", 1.0):
        with suppress(ConstraintFailed):
            memory.insert("c", {"p": key})
    before = dump(memory)
    if memory.delete("c", "true").op_id is not None:  # some pairs of types let no key in
        memory.undo()
    assert dump(memory) == before


def test_undo_keeps_the_parent_of_a_key_of_two_columns(unjournaled: StructuredMemory) -> None:
    """H3: also when only one of them changed."""
    memory = unjournaled
    alter(
        memory,
        "CREATE TABLE p (a, b, note, PRIMARY KEY (a, b));"
        "CREATE TABLE c (a, b, FOREIGN KEY (a, b) REFERENCES p);",
    )
    memory.insert("p", [{"a": 1, "b": 1}, {"a": 2, "b": 1}])
    memory.update("p", {"b": 5, "note": "x"}, "a = 1")
    alter(memory, "INSERT INTO c VALUES (1, 5)")
    with pytest.raises(CannotUndo, match="'c' rowid 1 names a row of 'p' that is gone"):
        memory.undo()
    alter(memory, "PRAGMA foreign_keys = 0; UPDATE c SET a = 2")
    memory.undo()


def test_a_pair_that_a_cascade_broke_can_come_back(memory: StructuredMemory) -> None:
    """H3: SQLite lets it through, so the state before has it, and undo restores that state."""
    memory.create_table("p", [Column("k", unique=True)])
    cascade = Reference("p", "k", on_update="CASCADE")
    emptied = Reference("p", "k", on_update="SET NULL")
    columns = [Column("a", references=cascade), Column("b", "NUMERIC", references=cascade)]
    memory.create_table("c", [*columns, Column("d", references=emptied)])
    memory.insert("p", {"k": 1})
    memory.insert("c", {"a": 1, "b": 1, "d": 1})
    memory.update("p", {"k": "1"}, "true")
    assert memory.query("PRAGMA foreign_key_check(c)").rows == [("c", 1, "p", 1)]
    before = dump(memory)
    memory.update("c", {"d": "1"}, "true")
    memory.undo()
    assert dump(memory) == before


def test_an_unrelated_orphan_is_no_obstacle(unjournaled: StructuredMemory) -> None:
    """H3"""
    memory = unjournaled
    memory.create_table("p", [Column("k", unique=True)])
    memory.create_table("c", [Column("p", references=Reference("p", "k"))])
    memory.insert("p", [{"k": 1}, {"k": 2}])
    alter(memory, "PRAGMA foreign_keys = 0; INSERT INTO c VALUES (99)")
    assert memory.undo().rows_changed == 2


# -- verification --------------------------------------------------------------------------------


def test_a_sound_memory_verifies(notes: StructuredMemory) -> None:
    """J3"""
    shallow, deep = notes.verify(), notes.verify(deep=True)
    assert shallow.position == deep.position == notes.position()
    assert (shallow.records, deep.records, deep.tables, deep.rows) == (4, 4, 1, 1)
    assert deep.content is not None and len(deep.content) == 64
    steps: list[tuple[int, int]] = []
    notes.verify(deep=True, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_witness_position_must_lie_on_the_chain(notes: StructuredMemory) -> None:
    """J3"""
    here = notes.position()
    notes.insert("notes", {"text": "later"})
    notes.verify(expect=Position.parse(str(here)))
    with pytest.raises(VerificationFailed, match="another history"):
        notes.verify(expect=Position(here.seq, bytes(32)))
    with pytest.raises(VerificationFailed, match="ends before"):
        notes.verify(expect=Position(99, bytes(32)))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE notes SET text = 'A'", "'notes' rowid 1 column 'text'"),
        ("UPDATE notes SET n = 1.0", "column 'n'"),
        ("DELETE FROM notes", "rowid 1"),
        ("INSERT INTO notes VALUES ('x', 1)", "rowid 2"),
        ("UPDATE notes SET rowid = 5", "rowid 1"),
        ("CREATE INDEX extra ON notes (n)", "index 'extra'"),
        ("DROP TABLE notes", "table 'notes'"),
        ("UPDATE notes SET text = CAST(x'ff41' AS TEXT)", "not valid UTF-8"),
        ("DELETE FROM _structmem_record WHERE seq = 2", "record 2"),
        ("DELETE FROM _structmem_record WHERE seq = 4", "rowid 2"),
        ("UPDATE _structmem_payload SET bytes = x'00' WHERE part_id = 3 * 1024", "record 3"),
        (
            "DELETE FROM _structmem_payload WHERE part_id = 2 * 1024",
            "its payload is missing",
        ),
        ("UPDATE _structmem_record SET header = zeroblob(40) WHERE seq = 1", "header"),
        ("UPDATE _structmem_record SET digest = zeroblob(32) WHERE seq = 4", "record 4"),
        ("UPDATE _structmem_record SET standing = 0 WHERE seq = 2", "standing"),
    ],
)
def test_what_was_changed_is_named(unjournaled: StructuredMemory, damage: str, named: str) -> None:
    """J3, M10, C54"""
    memory = unjournaled
    memory.create_table("notes", [Column("text", "TEXT", unique=True), Column("n")])
    memory.insert("notes", [{"text": "a"}, {"text": "b"}])
    memory.update("notes", {"n": 1}, "text = 'a'")
    memory.delete("notes", "text = 'b'")
    memory.verify(deep=True)
    alter(memory, damage)
    with pytest.raises(VerificationFailed, match=named):
        memory.verify(deep=True)


@pytest.mark.parametrize("table", ["payload", "record"])
def test_a_journal_that_lost_something_fails_the_short_check(
    unjournaled: StructuredMemory, table: str
) -> None:
    """J3"""
    unjournaled.create_table("t", [Column("a")])
    unjournaled.insert("t", {"a": 1})
    key = {"payload": "part_id = 1024", "record": "seq = 1"}[table]
    alter(unjournaled, f"DELETE FROM _structmem_{table} WHERE {key}")
    with pytest.raises(VerificationFailed, match="record 1"):
        unjournaled.verify()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE _structmem_payload SET bytes = CAST(substr(bytes, 1, 16) || x'c1' AS BLOB)",
        "UPDATE _structmem_payload SET bytes = CAST(x'ff' AS TEXT)",
        "UPDATE _structmem_record SET header = x'c1'",
    ],
)
def test_a_journal_that_cannot_be_read_stops_every_call(
    unjournaled: StructuredMemory, damage: str
) -> None:
    """M9, C54: the caller hears of damage, not of bytes."""
    memory = unjournaled
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": 1}, call_id="c1")
    alter(memory, damage)
    calls: list[Callable[[], object]] = [
        memory.history,
        lambda: list(memory.log()),
        memory.undo,
        memory.verify,
        lambda: memory.insert("t", {"a": 1}, call_id="c1"),
    ]
    for call in calls:
        with pytest.raises(VerificationFailed, match="damaged"):
            call()


def test_time_never_goes_back(memory: StructuredMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """J1, C35"""
    memory.create_table("t", [Column("a")])
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000)
    memory.insert("t", {"a": 1})
    first, second = memory.log()
    assert second.at == first.at
