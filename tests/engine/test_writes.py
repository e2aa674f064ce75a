"""Insert, update, delete: what they do, what they say, and what they refuse (W3, W4, M5-M9)."""

from collections.abc import Callable
from typing import Any

import pytest

from structmem import (
    CallIdReused,
    Column,
    ConstraintFailed,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    Reference,
    StructMemError,
    StructuredMemory,
    sql,
)

from .conftest import alter, dump, writer_of


@pytest.fixture
def people(memory: StructuredMemory) -> StructuredMemory:
    memory.create_table(
        "people",
        [Column("email", "TEXT", not_null=True, unique=True), Column("name", "TEXT")],
        description="People the user mentioned.",
    )
    return memory


def test_insert_returns_each_rowid(people: StructuredMemory) -> None:
    """W3"""
    done = people.insert("people", {"email": "ada@example.com", "name": "Ada"}, reason="Met.")
    assert (done.op_id, done.rowids, done.rows_changed) == ("op_2", [1], 1)
    more = people.insert("people", ({"email": f"{n}@example.com"} for n in range(3)))
    assert (more.op_id, more.rowids) == ("op_3", [2, 3, 4])
    assert people.query("SELECT count(*) AS n FROM people").scalar() == 4


def test_a_row_may_leave_all_columns_out(memory: StructuredMemory) -> None:
    """W3"""
    memory.create_table("notes", [Column("text", default="none"), Column("n", default=-1)])
    assert memory.insert("notes", [{}, {"n": 3}, {}]).rowids == [1, 2, 3]
    assert memory.query("SELECT * FROM notes").rows == [("none", -1), ("none", 3), ("none", -1)]


def test_every_row_or_none(people: StructuredMemory) -> None:
    """W3, M7"""
    before = dump(people, internal=True)
    rows = [{"email": "a"}, {"email": "b"}, {"email": "a"}]
    with pytest.raises(ConstraintFailed, match=r"people\.email"):
        people.insert("people", rows)
    assert dump(people, internal=True) == before


def test_one_call_is_one_event(people: StructuredMemory) -> None:
    """W3"""
    people.insert("people", ({"email": str(n)} for n in range(5_000)))
    assert people.position().seq == 2
    assert people.undo().rows_changed == 5_000
    assert people.query("SELECT count(*) FROM people").scalar() == 0


def test_update_counts_the_rows_that_matched(people: StructuredMemory) -> None:
    """W4, M8"""
    people.insert("people", [{"email": "a", "name": "x"}, {"email": "b", "name": "y"}])
    done = people.update("people", {"name": "x"}, "name IN (?, ?)", ["x", "y"])
    assert (done.rows_changed, done.rowids) == (2, [1, 2])
    assert people.update("people", {"name": "x"}, "true").op_id == "op_4", "no value changed: event"


@pytest.mark.parametrize("where", ["email = 'nobody'", "NULL", "email", "x'01'", "0"])
def test_a_write_that_touches_nothing_leaves_no_event(people: StructuredMemory, where: str) -> None:
    """M8, C06"""
    people.insert("people", {"email": "a"})
    position = people.position()
    for done in (people.delete("people", where), people.update("people", {"name": "x"}, where)):
        assert (done.op_id, done.position, done.rows_changed) == (None, None, 0)
    assert people.position() == position


def test_a_condition_sees_the_state_before_the_change(memory: StructuredMemory) -> None:
    """W4, C30"""
    memory.create_table("t", [Column("v", "INTEGER")])
    memory.insert("t", [{"v": 1}, {"v": 2}, {"v": 3}])
    assert memory.update("t", {"v": 9}, "v < (SELECT avg(v) FROM t)").rowids == [1]
    assert memory.update("t", {"v": 0}, "v <> (SELECT max(v) FROM t)").rowids == [2, 3]
    assert memory.delete("t", "v = (SELECT min(v) FROM t)").rowids == [2, 3]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (True, 1),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (1.0, 1.0),
        (-0.0, -0.0),
        (5e-324, 5e-324),
        (float("inf"), float("inf")),
        ("", ""),
        ("a\0b", "a\0b"),
        ("\U0001f600", "\U0001f600"),
        (b"", b""),
        (b"\0\xff", b"\0\xff"),
        (bytearray(b"x"), b"x"),
    ],
)
def test_values_come_back_exactly(memory: StructuredMemory, value: object, stored: object) -> None:
    """M5, C28, C29"""
    memory.create_table("t", [Column("v"), Column("n", "INTEGER")])
    assert memory.insert("t", {"v": value}).warnings == []
    memory.update("t", {"n": 1}, "true")
    memory.delete("t", "true")
    memory.undo()
    found = memory.query("SELECT v FROM t").scalar()
    assert (type(found), repr(found)) == (type(stored), repr(stored))


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, float("nan"), "\ud800", [1], {"a": 1}, object(), 1 + 2j]
)
def test_what_sqlite_cannot_hold_is_refused(people: StructuredMemory, value: object) -> None:
    """M5"""
    before = dump(people, internal=True)
    calls: list[Callable[[], object]] = [
        lambda: people.insert("people", {"email": value}),
        lambda: people.update("people", {"email": value}, "true"),
        lambda: people.delete("people", "email = ?", [value]),
        lambda: people.create_table("t", [Column("a", default=value)]),
    ]
    for call in calls:
        with pytest.raises(InvalidCall):
            call()
    assert dump(people, internal=True) == before


@pytest.mark.parametrize(
    ("declared", "given", "stored"),
    [
        ("STRING", "007", 7),
        ("JSON", "007", 7),
        ("DATETIME", "2024", 2024),
        ("CHARINT", "1e3", 1000),
        ("TEXT", 7, "7"),
        ("TEXT", 1.5, "1.5"),
        ("INTEGER", 2.0, 2),
        ("REAL", 2**53 + 1, float(2**53)),
        ("REAL", -0.0, 0.0),
    ],
)
def test_a_type_that_alters_a_value_is_told(
    memory: StructuredMemory, declared: str, given: object, stored: object
) -> None:
    """M5, C38"""
    memory.create_table("t", [Column("v", declared)])
    inserted = memory.insert("t", [{"v": None}, {"v": given}])
    updated = memory.update("t", {"v": given}, "rowid = 1")
    for done in (inserted, updated):
        assert len(done.warnings) == 1
        assert repr(given) in done.warnings[0] and repr(stored) in done.warnings[0]
    assert memory.query("SELECT DISTINCT v, typeof(v) FROM t").rows[0][0] == stored


@pytest.mark.parametrize(
    ("declared", "value"),
    [("TEXT", "007"), ("REAL", 2), ("REAL", 2.5), ("INTEGER", 5), (None, "007"), ("BLOB", 7)],
)
def test_a_type_that_keeps_the_value_says_nothing(
    memory: StructuredMemory, declared: str | None, value: object
) -> None:
    """M5"""
    memory.create_table("t", [Column("v", declared)])
    assert memory.insert("t", {"v": value}).warnings == []


@pytest.mark.parametrize(
    ("declared", "value", "told"),
    [
        ("INTEGER", "age + 1", True),
        ("REAL", "", True),
        ("DATETIME", "2026-06-09", False),
        ("NUMERIC", "n/a", False),
        ("TEXT", "age + 1", False),
    ],
)
def test_text_in_a_column_of_numbers_is_told(
    memory: StructuredMemory, declared: str, value: str, told: bool
) -> None:
    """M5: it is kept as it is, and was probably meant to be something else: SQL, most often. A type
    that SQLite does not know, such as DATETIME, says nothing about numbers."""
    memory.create_table("t", [Column("v", declared)])
    inserted = memory.insert("t", {"v": value})
    updated = memory.update("t", {"v": value}, "true")
    sentence = f"Column 'v' is declared {declared}: {value!r} is no number, and stays text."
    assert inserted.warnings == updated.warnings == ([sentence] if told else [])
    assert memory.query("SELECT v FROM t").scalar() == value


def test_names_are_corrected_by_the_error(people: StructuredMemory) -> None:
    """M9, W3"""
    with pytest.raises(NoSuchTable, match="Did you mean 'people'"):
        people.insert("peple", {"email": "a"})
    with pytest.raises(NoSuchColumn, match="Did you mean 'email'"):
        people.insert("people", {"emial": "a"})
    with pytest.raises(NoSuchColumn, match="Did you mean 'name'"):
        people.update("people", {"nmae": "a"}, "true")
    with pytest.raises(InvalidCall, match="twice"):
        people.insert("people", {"email": "a", "EMAIL": "b"})


@pytest.mark.parametrize("rows", ["text", 5, None, ["a"], [["email", "a"]], [{1: "a"}]])
def test_rows_of_another_shape_are_refused(people: StructuredMemory, rows: Any) -> None:
    """M9"""
    with pytest.raises(InvalidCall):
        people.insert("people", rows)


def test_internal_tables_cannot_be_written(people: StructuredMemory) -> None:
    """M6, Q5"""
    for table in ("_structmem_meta", "_STRUCTMEM_record", "sqlite_schema", "sqlite_sequence"):
        with pytest.raises(NoSuchTable, match="There is no table"):
            people.insert(table, {"key": "id"})
        with pytest.raises(NoSuchTable):
            people.delete(table, "true")


# -- call ids ------------------------------------------------------------------------------------


def test_a_repeated_call_gets_the_first_result(people: StructuredMemory) -> None:
    """M8"""
    first = people.insert("people", {"email": "a", "name": "A"}, call_id="c1", reason="one")
    again = people.insert("people", {"name": "A", "email": "a"}, call_id="c1", reason="another")
    assert again.repeated and not first.repeated
    assert (again.op_id, again.position, again.rowids) == (first.op_id, first.position, [1])
    assert people.position() == first.position


def test_a_call_id_with_other_arguments_is_refused(people: StructuredMemory) -> None:
    """M8"""
    people.insert("people", {"email": "a"}, call_id="c1")
    with pytest.raises(CallIdReused, match="op_2"):
        people.insert("people", {"email": "b"}, call_id="c1")
    with pytest.raises(CallIdReused):
        people.delete("people", "true", call_id="c1")
    for bad in ("", 5, "\ud800", "x" * 2_000):
        with pytest.raises(InvalidCall):
            people.delete("people", "true", call_id=bad)  # pyright: ignore[reportArgumentType]


def test_an_undone_call_is_not_run_again(people: StructuredMemory) -> None:
    """M8"""
    first = people.insert("people", {"email": "a"}, call_id="c1")
    people.undo()
    assert people.insert("people", {"email": "a"}, call_id="c1").op_id == first.op_id
    assert people.query("SELECT count(*) FROM people").scalar() == 0


def test_a_call_that_did_nothing_is_not_remembered(people: StructuredMemory) -> None:
    """M8"""
    people.delete("people", "email = 'a'", call_id="c1")
    people.insert("people", {"email": "a"})
    assert people.delete("people", "email = 'a'", call_id="c1").rows_changed == 1


# -- after a failure -----------------------------------------------------------------------------


def test_a_deferred_foreign_key_fails_at_commit(unjournaled: StructuredMemory) -> None:
    """M7, C15"""
    memory = unjournaled
    memory.create_table("p", [Column("id", "INTEGER", primary_key=True)])
    alter(memory, "CREATE TABLE child (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)")
    before = dump(memory, internal=True)
    with pytest.raises(ConstraintFailed):
        memory.insert("child", {"p": 9})
    assert dump(memory, internal=True) == before
    memory.insert("p", {"id": 9})
    assert memory.insert("child", {"p": 9}).rowids == [1]


def test_full_leaves_nothing_half_done(people: StructuredMemory) -> None:
    """M7, C14: SQLite rolls a small transaction back by itself and leaves a large one open."""
    people.insert("people", {"email": "a"})
    writer = writer_of(people).connection
    pages = sql.pragma(writer, "page_count")
    before = dump(people, internal=True)
    for size in (100_000, 8_000_000):
        sql.pragma(writer, "max_page_count", pages + 3)
        with pytest.raises(StructMemError) as caught:
            people.insert("people", [{"email": "b"}, {"email": "c", "name": "x" * size}])
        assert caught.value.code == "full"
        assert dump(people, internal=True) == before
        sql.pragma(writer, "max_page_count", 1_000_000)
        people.insert("people", {"email": "b"})
        people.undo()
        before = dump(people, internal=True)


def test_a_broken_foreign_key_is_named(memory: StructuredMemory) -> None:
    """M9: SQLite does not say which one it was."""
    memory.create_table("firms", [Column("name", unique=True)])
    memory.create_table("people", [Column("firm", references=Reference("firms", "name"))])
    with pytest.raises(ConstraintFailed, match=r"people\(firm\) must name firms\(name\)"):
        memory.insert("people", {"firm": "none"})
    memory.insert("firms", {"name": "some"})
    memory.insert("people", {"firm": "some"})
    with pytest.raises(ConstraintFailed, match=r"people\(firm\) must name firms\(name\)"):
        memory.delete("firms", "true")
