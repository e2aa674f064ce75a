"""Arguments of the wrong kind, for every public method: the caller's to mend, never a stray error
of Python's, SQLite's or a library's (M5, M9)."""

import enum
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from structmem import (
    Column,
    ConditionRefused,
    Diverged,
    InvalidCall,
    NoSuchTable,
    NotAMemory,
    Position,
    Reference,
    StructMemError,
    StructuredMemory,
    open_replica,
)
from structmem_journal import Record

from .conftest import alter

MESSAGE_CHARS_MAX = 5_000


class Text(str):
    """What libraries return for text that has a history."""


class Colour(str, enum.Enum):  # noqa: UP042 # its str() is not its value
    RED = "red"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


ODD: list[Any] = [
    None,
    5,
    -1,
    2**70,
    10**5_000,
    1.5,
    float("nan"),
    True,
    b"x",
    "",
    "\ud800",
    "a\0b",
    "x" * 200_000,
    [],
    {},
    [None],
    [b"x" * 200_000],
    {1: 2},
    {"\ud800": 1},
    object(),
    Unprintable(),
    iter([]),
    Column("a"),
    Position(2**63, b"x"),
    datetime(2026, 1, 1),  # without a time zone, on purpose
    int,
]

Call = Callable[[StructuredMemory, Any], object]


def _with(struct: Any, field: str, odd: Any) -> Any:
    return msgspec.structs.replace(struct, **{field: odd})


CALLS: dict[str, Call] = {
    "query": lambda m, odd: m.query(odd),
    "query params": lambda m, odd: m.query("SELECT ?", odd),
    "query value": lambda m, odd: m.query("SELECT ?", [odd]),
    "query max_rows": lambda m, odd: m.query("SELECT 1", max_rows=odd),
    "query max_bytes": lambda m, odd: m.query("SELECT 1", max_bytes=odd),
    "query timeout": lambda m, odd: m.query("SELECT 1", timeout=odd),
    "history limit": lambda m, odd: m.history(odd),
    "history before": lambda m, odd: m.history(before=odd),
    "log table": lambda m, odd: list(m.log(table=odd)),
    "log actor": lambda m, odd: list(m.log(actor=odd)),
    "log operation": lambda m, odd: list(m.log(operation=odd)),
    "log since": lambda m, odd: list(m.log(since=odd)),
    "log until": lambda m, odd: list(m.log(until=odd)),
    "log after": lambda m, odd: list(m.log(after=odd)),
    "verify expect": lambda m, odd: m.verify(expect=odd),
    "table": lambda m, odd: m.create_table(odd, [Column("a")]),
    "columns": lambda m, odd: m.create_table("new", odd),
    "column": lambda m, odd: m.create_table("new", [odd]),
    "description": lambda m, odd: m.create_table("new", [Column("a")], description=odd),
    "insert table": lambda m, odd: m.insert(odd, {"a": 1}, call_id="c1"),
    "insert rows": lambda m, odd: m.insert("t", odd, call_id="c1"),
    "insert row": lambda m, odd: m.insert("t", [odd], call_id="c1"),
    "insert value": lambda m, odd: m.insert("t", {"a": odd}, call_id="c1"),
    "update table": lambda m, odd: m.update(odd, {"a": 1}, "true", call_id="c1"),
    "update set": lambda m, odd: m.update("t", odd, "true", call_id="c1"),
    "update value": lambda m, odd: m.update("t", {"a": odd}, "true", call_id="c1"),
    "update where": lambda m, odd: m.update("t", {"a": 1}, odd, call_id="c1"),
    "update params": lambda m, odd: m.update("t", {"a": 1}, "a = ?", odd, call_id="c1"),
    "delete table": lambda m, odd: m.delete(odd, "true", call_id="c1"),
    "delete where": lambda m, odd: m.delete("t", odd, call_id="c1"),
    "delete params": lambda m, odd: m.delete("t", "a = ?", odd, call_id="c1"),
    "undo": lambda m, odd: m.undo(odd, call_id="c1"),
    "reason": lambda m, odd: m.insert("t", {"a": 1}, reason=odd),
    "call_id": lambda m, odd: m.insert("t", {"a": 1}, call_id=odd),
    "position_at": lambda m, odd: m.position_at(odd),
    "records": lambda m, odd: list(m.records(odd)),
    "apply": lambda m, odd: m.apply(odd),
    "apply one": lambda m, odd: m.apply([odd]),
    "apply header": lambda m, odd: m.apply([Record(odd, bytes(32), b"")]),
    "bookmark": lambda m, odd: m.apply([], bookmark=odd),
    "actor": lambda m, odd: StructuredMemory(m.path, actor=odd),
    "query_timeout": lambda m, odd: StructuredMemory(m.path, query_timeout=odd),
    "max_value_bytes": lambda m, odd: StructuredMemory(m.path, max_value_bytes=odd),
    "replica path": lambda _, odd: open_replica(odd, memory_id="0" * 32).close(),
    "replica id": lambda m, odd: open_replica(m.path.with_name("r.db"), memory_id=odd),
}
for _field in Column.__struct_fields__:
    CALLS[f"column {_field}"] = lambda m, odd, name=_field: m.create_table(
        "new", [_with(Column("a"), name, odd)]
    )
    CALLS[f"column mapping {_field}"] = lambda m, odd, name=_field: m.create_table(
        "new", [{"name": "a", name: odd}]
    )
for _field in Reference.__struct_fields__:
    CALLS[f"reference {_field}"] = lambda m, odd, name=_field: m.create_table(
        "new", [Column("a", references=_with(Reference("t", "a"), name, odd))]
    )


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_an_odd_argument_is_refused_or_works(
    memory: StructuredMemory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M5, M9: whatever is given, an error says what is wrong, briefly."""
    monkeypatch.chdir(memory.path.parent)
    memory.create_table("t", [Column("a", unique=True)], call_id="c1")
    for odd in ODD:
        try:
            call(memory, odd)
        except StructMemError as error:
            assert isinstance(error, InvalidCall | NotAMemory | Diverged)
            assert len(str(error)) < MESSAGE_CHARS_MAX


@pytest.mark.parametrize("odd", [5, "x", [], object()])
def test_what_is_called_later_must_be_a_function(memory: StructuredMemory, odd: Any) -> None:
    """M9: at once, not at the next commit or record."""
    with pytest.raises(InvalidCall, match="function"):
        memory.on_commit(odd)
    with pytest.raises(InvalidCall, match="function"):
        memory.verify(progress=odd)


@pytest.mark.parametrize("path", [None, 5, b"a.db", "", "a\0b", "\ud800", "x" * 5_000, "/proc/a"])
def test_a_path_that_no_file_can_have(path: Any) -> None:
    """M9"""
    with pytest.raises(InvalidCall, match=r"path|created") as caught, StructuredMemory(path) as odd:
        odd.position()
    assert len(str(caught.value)) < MESSAGE_CHARS_MAX


def test_a_directory_is_no_memory(tmp_path: Path) -> None:
    """M9, M10"""
    for read_only in (False, True):
        with (
            StructuredMemory(tmp_path, read_only=read_only) as memory,
            pytest.raises(NotAMemory, match="not a file"),
        ):
            memory.position()


def test_a_private_memory_cannot_be_a_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2: and no file of that name is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidCall, match="file of its own"):
        open_replica(":memory:", memory_id="0" * 32)
    assert list(tmp_path.iterdir()) == []


def test_text_of_another_class_is_text(memory: StructuredMemory) -> None:
    """M5: an enumeration's member is stored as its value, not as Python's name for it."""
    memory.create_table(Text("t"), [Column(Text("a"), Text("TEXT"), description=Text("What."))])
    memory.insert(Text("t"), {Text("a"): Colour.RED}, reason=Text("why"), call_id=Text("c1"))
    assert memory.insert("t", {"a": "red"}, call_id="c1").repeated
    assert memory.query("SELECT a FROM t").rows == [("red",)]
    changed = memory.update("t", {"a": "blue"}, Text("a = :c"), {Text("c"): Colour.RED})
    assert changed.rows_changed == 1


def test_a_name_ends_where_it_ends(memory: StructuredMemory) -> None:
    """M6, C36: SQLite's PRAGMAs read a name up to a NUL; a table is found by all of it."""
    memory.create_table("t", [Column("a")])
    with pytest.raises(NoSuchTable):
        memory.insert("t\0x", {"a": 1})


def test_two_columns_of_one_name_are_refused(memory: StructuredMemory) -> None:
    """W1"""
    for other in ("a", "A"):
        with pytest.raises(InvalidCall, match="have one name"):
            memory.create_table("t", [Column("a"), Column(other)])


def test_a_condition_is_looked_at_before_anything_begins(memory: StructuredMemory) -> None:
    """W5: a text that is none needs no table, and no lock."""
    with pytest.raises(ConditionRefused):
        memory.delete("missing", " ")


def test_the_call_id_tells_if_not_exists_apart(memory: StructuredMemory) -> None:
    """M8: it is an argument like the others."""
    memory.create_table("t", [Column("a")], call_id="c1")
    with pytest.raises(InvalidCall, match="other arguments"):
        memory.create_table("t", [Column("a")], if_not_exists=True, call_id="c1")


def test_the_log_finds_a_table_however_it_was_written(memory: StructuredMemory) -> None:
    """M6: names are compared as SQLite compares them."""
    memory.create_table("Notes", [Column("a")])
    memory.insert("NOTES", {"a": 1})
    now = datetime.now(UTC)
    assert [o.op_id for o in memory.log(table="notes", until=now)] == ["op_1", "op_2"]


def test_a_message_shows_the_ends_of_a_long_value(unjournaled: StructuredMemory) -> None:
    """M9: a model reads it."""
    memory = unjournaled
    memory.create_table("t", [Column("a")])
    memory.insert("t", {"a": "x" * 1_000_000})
    alter(memory, "UPDATE t SET a = a || 'y'")
    for call in (memory.undo, lambda: memory.verify(deep=True)):
        with pytest.raises(StructMemError, match="x'") as caught:
            call()
        assert len(str(caught.value)) < MESSAGE_CHARS_MAX
