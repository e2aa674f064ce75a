"""Values that change on their way: C28, C29, C31, C35, C38.

(`test_writes.py` pins a value alone in a column without a type, and what a declared type alters.)
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from structmem import (
    Column,
    ConstraintFailed,
    InvalidCall,
    StructuredMemory,
    open_replica,
)
from tests.engine.conftest import dump
from tests.engine.faults.conftest import all_refused, make_witness, refused

TYPES = [None, "INTEGER", "REAL", "TEXT", "NUMERIC", "BLOB", "ANY", "STRING", "JSON", "BOOLEAN"]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(0.0, -0.0, 1.0, 1.5, -1.5, 1e15, 9007199254740993.0, 5e-324, 1.7976931348623157e308),
    *(float("inf"), float("-inf")),
    *("", "0", "007", "1e3", "1.0", " 1", "0x10", "a\0b", "a\0c", "\0", "é", "\U0001f600", "'"),
    *(b"", b"\0", b"\xff", b"1", b"x\0y", bytes(range(256))),
]
IMPOSSIBLE: list[Any] = [
    *(2**63, -(2**63) - 1, 10**5000, float("nan"), "\ud800", "a\udfff"),
    *([1], (1,), {"a": 1}, {1}, 1 + 2j, object(), len, range(3)),
]


@pytest.fixture
def values(memory: StructuredMemory) -> StructuredMemory:
    """A memory with a row for each value and a column for each type."""
    columns = [Column(f"c{n}", declared) for n, declared in enumerate(TYPES)]
    memory.create_table("v", [Column("n", "INTEGER", primary_key=True), *columns])
    memory.insert("v", [dict.fromkeys((c.name for c in columns), value) for value in VALUES])
    make_witness(memory)
    return memory


def replica_of(memory: StructuredMemory, tmp_path: Path) -> Iterator[StructuredMemory]:
    with open_replica(tmp_path / "replica.db", memory_id=memory.id) as replica:
        replica.apply(memory.records())
        yield replica


def equal_on_a_replica(memory: StructuredMemory, tmp_path: Path) -> bool:
    (found,) = (dump(replica) for replica in replica_of(memory, tmp_path))
    return found == dump(memory)


def test_c29_a_value_is_the_same_after_undo_and_on_a_replica(
    values: StructuredMemory, tmp_path: Path
) -> None:
    """M5, H2, R2: storage class and bytes, whatever the column's type made of it."""
    before = dump(values)
    changes: list[Callable[[], object]] = [
        lambda: values.delete("v", "true"),
        lambda: values.update("v", {f"c{n}": "other" for n in range(len(TYPES))}, "true"),
        lambda: values.update("v", {f"c{n}": 1 for n in range(len(TYPES))}, "true"),
        lambda: values.update("v", {f"c{n}": 1.0 for n in range(len(TYPES))}, "true"),
    ]
    for change in changes:
        change()
        assert dump(values) != before
        values.undo()
        assert dump(values) == before
    assert equal_on_a_replica(values, tmp_path)


def test_c29_writing_what_was_read_changes_nothing(values: StructuredMemory) -> None:
    """M5: what a type made of a value, it leaves alone the second time."""
    before = dump(values)
    for row in values.query("SELECT * FROM v").dicts():
        n = row.pop("n")
        told = values.update("v", row, "n = ?", [n]).warnings
        assert all("is no number, and stays text" in sentence for sentence in told)
    assert dump(values) == before


def test_c29_a_column_without_a_type_keeps_every_value(values: StructuredMemory) -> None:
    """M5: True and False become 1 and 0; nothing else changes."""
    found = [value for (value,) in values.query("SELECT c0 FROM v ORDER BY n")]
    expected = [int(v) if isinstance(v, bool) else v for v in VALUES]
    assert [repr(value) for value in found] == [repr(value) for value in expected]


@pytest.mark.parametrize("value", IMPOSSIBLE, ids=lambda value: type(value).__name__)
def test_c29_what_sqlite_cannot_hold_is_refused_everywhere(
    things: StructuredMemory, value: Any
) -> None:
    """M5: as a value, a parameter and a default, before anything runs."""
    all_refused(
        things,
        InvalidCall,
        lambda: things.insert("t", {"a": value}),
        lambda: things.insert("t", [{"a": 1}, {"a": value}]),
        lambda: things.update("t", {"a": value}, "true"),
        lambda: things.update("t", {"a": 1}, "a = ?", [value]),
        lambda: things.delete("t", "a = :x", {"x": value}),
        lambda: things.create_table("new", [Column("a", default=value)]),
        lambda: things.add_column("t", Column("c", default=value)),
        lambda: things.query("SELECT ?", [value]),
    )


def test_c28_texts_that_differ_after_a_nul_are_different(
    memory: StructuredMemory, tmp_path: Path
) -> None:
    """M5: in a unique column, a condition, an update, undo, replay."""
    memory.create_table("t", [Column("k", "TEXT", unique=True), Column("n")])
    memory.insert("t", [{"k": "a\0b"}, {"k": "a\0c"}, {"k": "a"}, {"k": "a\0"}, {"k": "\0"}])
    assert memory.update("t", {"n": 1}, "k = 'a'").rowids == [3]
    assert memory.update("t", {"n": 2}, "k = ?", ["a\0c"]).rowids == [2]
    assert memory.update("t", {"k": "a\0d"}, "k = ?", ["a\0b"]).rowids == [1]
    make_witness(memory)
    for taken in ("a\0c", "a\0", "a"):
        with refused(memory, ConstraintFailed, match=r"t\.k"):
            memory.update("t", {"k": taken}, "rowid = 1")
    before = dump(memory)
    assert memory.delete("t", "k >= 'a'").rowids == [3, 4, 2, 1]
    memory.undo()
    assert dump(memory) == before
    found = [k for (k,) in memory.query("SELECT k FROM t ORDER BY rowid")]
    assert found == ["a\0d", "a\0c", "a", "a\0", "\0"]
    assert equal_on_a_replica(memory, tmp_path)


def test_c28_a_nul_in_every_text_that_is_kept(memory: StructuredMemory) -> None:
    """M5: reason, actor and call id are texts as well."""
    memory.create_table("t", [Column("a", default="x\0y")], reason="why\0not", call_id="c\0d")
    assert memory.insert("t", {}, call_id="c\0e").rowids == [1]
    assert memory.insert("t", {}, call_id="c\0e").repeated
    assert memory.query("SELECT a FROM t").rows == [("x\0y",)]
    assert next(memory.log()).reason == "why\0not"


# -- keys ------------------------------------------------------------------------------------------

KEYS: list[tuple[Any, int]] = [
    *((None, 1), (5, 5), (0, 0), (-1, -1), (-(2**63), -(2**63)), (True, 1)),
    *(("5", 5), (6.0, 6), ("7.0", 7), (" 8 ", 8)),
]


@pytest.mark.parametrize(("given", "key"), KEYS)
def test_c31_an_integer_key_is_the_rowid_and_is_told(
    memory: StructuredMemory, tmp_path: Path, given: Any, key: int
) -> None:
    """W3, M5, J4"""
    memory.create_table("t", [Column("id", "INTEGER", primary_key=True), Column("a")])
    done = memory.insert("t", {"id": given})
    assert done.rowids == [key]
    assert bool(done.warnings) == isinstance(given, str | float)
    assert memory.query("SELECT id, typeof(id) FROM t").rows == [(key, "integer")]
    before = dump(memory)
    for change in (lambda: memory.delete("t", "true"), lambda: memory.update("t", {"id": 3}, "1")):
        change()
        memory.undo()
        assert dump(memory) == before
    assert equal_on_a_replica(memory, tmp_path)


@pytest.mark.parametrize("given", ["abc", "", "5x", 2.5, float("inf"), 1e30, b"", b"5"])
def test_c31_an_integer_key_takes_whole_numbers_only(memory: StructuredMemory, given: Any) -> None:
    """M7, M9"""
    memory.create_table("t", [Column("id", "INTEGER", primary_key=True), Column("a")])
    memory.insert("t", {"id": 1})
    make_witness(memory)
    all_refused(
        memory,
        ConstraintFailed,
        lambda: memory.insert("t", {"id": given}),
        lambda: memory.insert("t", [{"id": 5}, {"id": given}]),
        lambda: memory.update("t", {"id": given}, "true"),
    )
    with pytest.raises(ConstraintFailed, match="whole numbers only"):
        memory.insert("t", {"id": given})


@pytest.mark.parametrize("declared", ["INT", "BIGINT", "TEXT", None])
def test_c31_any_other_key_is_not_the_rowid(
    memory: StructuredMemory, tmp_path: Path, declared: str | None
) -> None:
    """W1, J4: SQLite lets NULL into such a key, many times."""
    memory.create_table("t", [Column("id", declared, primary_key=True), Column("a")])
    assert memory.insert("t", [{"a": 1}, {"a": 2}, {"id": 2, "a": 3}]).rowids == [1, 2, 3]
    before = dump(memory)
    assert memory.delete("t", "id IS NULL AND a = 1").rowids == [1]
    memory.undo()
    assert dump(memory) == before
    assert memory.update("t", {"id": 9}, "rowid = 2").rowids == [2]
    assert equal_on_a_replica(memory, tmp_path)


@pytest.mark.parametrize("keyed", [True, False])
def test_c31_after_the_largest_rowid_a_replica_has_the_same_ones(
    memory: StructuredMemory, tmp_path: Path, keyed: bool
) -> None:
    """J4, R2: SQLite then draws rowids at random."""
    memory.create_table("t", [Column("id", "INTEGER", primary_key=keyed), Column("a")])
    memory.insert("t", {"id" if keyed else "rowid": 2**63 - 1} if keyed else {"a": 1})
    if not keyed:
        memory.create_table("u", [Column("id", "INTEGER", primary_key=True)])
    memory.insert("t", [{"a": n} for n in range(5)])
    before = dump(memory)
    memory.delete("t", "true")
    memory.undo()
    assert dump(memory) == before
    assert equal_on_a_replica(memory, tmp_path)


# -- what comes out differently each time ----------------------------------------------------------


def test_c35_a_condition_at_random_is_replayed_as_it_fell(
    memory: StructuredMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J4: also on a day when the clock was set back."""
    memory.create_table("t", [Column("n"), Column("at")])
    memory.insert("t", [{"n": n} for n in range(200)])
    memory.update("t", {"at": "now"}, "random() % 2 = 0")
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000)
    memory.delete("t", "random() % 3 = 0")
    memory.update("t", {"at": "later"}, "at < datetime('now') OR randomblob(1) > x'80'")
    assert equal_on_a_replica(memory, tmp_path)
    assert [o.op_id for o in memory.log()] == [f"op_{n}" for n in range(1, 6)]


# -- declared types --------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", TYPES[1:])
@pytest.mark.parametrize("value", ["007", "1e3", "2024", "1.0", "000123", 7, 1.0, -0.0, b"7"])
def test_c38_a_type_changes_a_value_only_with_a_warning(
    memory: StructuredMemory, declared: str, value: Any
) -> None:
    """M5: the integer that becomes the equal float is what REAL means."""
    memory.create_table("t", [Column("v", declared)])
    warnings = memory.insert("t", {"v": value}).warnings
    stored = memory.query("SELECT v FROM t").scalar()
    kept = repr(stored) == repr(value) or (type(value) is int and stored == float(value))
    assert kept == (warnings == [])
    assert all(repr(stored) in warning for warning in warnings)
