"""A rehearsed write tells what the real one would, and leaves nothing (S2, M7)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from structmem import (
    AsyncStructuredMemory,
    CannotUndo,
    Column,
    ConstraintFailed,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    NothingToUndo,
    ReadOnly,
    StructuredMemory,
    TableExists,
    WriteResult,
    open_replica,
)

from .conftest import dump

Write = Callable[[StructuredMemory], WriteResult]


@pytest.fixture
def people(memory: StructuredMemory) -> StructuredMemory:
    memory.create_table("people", [Column("name", "TEXT", unique=True), Column("age", "INTEGER")])
    memory.create_index("people", "age", name="by_age")
    memory.insert("people", [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 41}])
    memory.update("people", {"age": 37}, "name = 'Ada'")
    memory.undo()
    return memory


WRITES: dict[str, Write] = {
    "create_table": lambda m: m.create_table("pets", [Column("name")]),
    "drop_table": lambda m: m.drop_table("people"),
    "add_column": lambda m: m.add_column("people", Column("city", default="?")),
    "create_index": lambda m: m.create_index("people", ["name", "age"], unique=True),
    "drop_index": lambda m: m.drop_index("by_age"),
    "insert": lambda m: m.insert("people", [{"name": "Eve", "age": "7"}, {"name": "Mal"}]),
    "update": lambda m: m.update("people", {"age": "x"}, "age > 36"),
    "delete": lambda m: m.delete("people", "true"),
    "execute": lambda m: m.execute(
        "ALTER TABLE people RENAME COLUMN age TO years; DELETE FROM people"
    ),
    "undo": lambda m: m.undo(),
    "redo": lambda m: m.redo(),
    "revert_to": lambda m: m.revert_to("op_1"),
}


@pytest.mark.parametrize("name", WRITES)
def test_it_tells_what_the_write_would_and_leaves_nothing(
    people: StructuredMemory, name: str
) -> None:
    write, before = WRITES[name], dump(people, internal=True)
    rehearsed = [write(people.rehearsal()) for _ in range(2)]
    assert dump(people, internal=True) == before

    done = write(people)
    assert done.op_id is not None
    for each in rehearsed:
        assert (each.op_id, each.position) == (None, None)
        assert each.rows_changed == done.rows_changed
        assert each.rowids == done.rowids
        assert each.warnings == done.warnings
        assert each.operations == done.operations


@pytest.mark.parametrize("rehearsed", WRITES)
@pytest.mark.parametrize("name", WRITES)
def test_a_rehearsal_changes_nothing_about_what_follows(
    people: StructuredMemory, rehearsed: str, name: str
) -> None:
    """Nothing that was looked up in it is taken for what is there."""
    WRITES[rehearsed](people.rehearsal())
    assert WRITES[name](people).op_id == "op_6"
    people.verify(deep=True)
    if name not in ("undo", "redo", "revert_to"):
        people.undo()


REFUSED: list[tuple[type[InvalidCall], Write]] = [
    (ConstraintFailed, lambda m: m.insert("people", {"name": "Ada"})),
    (NoSuchColumn, lambda m: m.update("people", {"nme": 1}, "true")),
    (NoSuchTable, lambda m: m.drop_table("peple")),
    (TableExists, lambda m: m.create_table("people", [Column("a")])),
    (CannotUndo, lambda m: m.revert_to("op_99")),
    (InvalidCall, lambda m: m.execute("SELEC 1")),
]


@pytest.mark.parametrize(("kind", "write"), REFUSED)
def test_it_raises_what_the_write_would(
    people: StructuredMemory, kind: type[InvalidCall], write: Write
) -> None:
    before = dump(people, internal=True)
    with pytest.raises(kind) as rehearsed:
        write(people.rehearsal())
    with pytest.raises(kind) as done:
        write(people)
    assert str(rehearsed.value) == str(done.value)
    assert dump(people, internal=True) == before


def test_nobody_hears_of_it(people: StructuredMemory) -> None:
    heard: list[Any] = []
    people.on_commit(heard.append)
    people.rehearsal().delete("people", "true")
    assert heard == []


def test_a_call_id_is_not_used_up(people: StructuredMemory) -> None:
    """M8: and one that was used gets its first result."""
    assert people.rehearsal().delete("people", "age > 40", call_id="c").op_id is None
    done = people.delete("people", "age > 40", call_id="c")
    assert (done.repeated, done.rows_changed) == (False, 1)
    assert people.rehearsal().delete("people", "age > 40", call_id="c").repeated


def test_it_acts_for_the_same_and_rehearses_still(people: StructuredMemory) -> None:
    view = people.rehearsal().acting_as("mailer")
    assert view.actor == "mailer" and view.delete("people", "true").op_id is None


def test_what_is_no_write_is_refused(people: StructuredMemory) -> None:
    for call in (lambda: people.rehearsal().destroy(), lambda: people.rehearsal().apply([])):
        with pytest.raises(InvalidCall, match="cannot be rehearsed"):
            call()


def test_a_replica_refuses_it(people: StructuredMemory) -> None:
    with open_replica(people.path.with_name("r.db"), memory_id=people.id) as replica:
        replica.apply(people.records())
        with pytest.raises(ReadOnly):
            replica.rehearsal().delete("people", "true")


def test_nothing_to_undo(memory: StructuredMemory) -> None:
    with pytest.raises(NothingToUndo):
        memory.rehearsal().undo()


async def _rehearsed(memory: AsyncStructuredMemory) -> WriteResult:
    return await memory.rehearsal().delete("people", "true")


def test_an_asynchronous_memory_rehearses_too(people: StructuredMemory) -> None:
    done = asyncio.run(_rehearsed(AsyncStructuredMemory.sharing(people)))
    assert (done.op_id, done.rows_changed) == (None, 2)
    assert people.query("SELECT count(*) FROM people").scalar() == 2
