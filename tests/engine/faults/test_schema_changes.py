"""Schema changes and their undo: C03, C21, C23, C24, C25, and the names of C36 once more.

Each story is a list of operations. They are done, taken back one by one and done again; at every
step the whole file must be as it was the first time.
"""

from typing import Any

import pytest

from structmem import (
    CannotUndo,
    Column,
    ConstraintFailed,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    Reference,
    StructuredMemory,
)
from structmem.identifiers import quote
from tests.engine.conftest import alter, dump
from tests.engine.faults.conftest import Step, all_refused, make_witness, refused, there_and_back
from tests.engine.faults.test_names import ODD

# -- C03 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize(
    "column",
    [
        *("aa", '"a"', "'a'", "[a]", "a COLLATE NOCASE", "a DESC", "lower(a)", "a || b", "a, b"),
        *("a) WHERE (1", "a) --", "1", "NULL", "", "t.a", "rowid", "á", "*"),
    ],
)
def test_c03_an_index_on_what_is_no_column_is_refused(
    things: StructuredMemory, column: str, unique: bool
) -> None:
    """M6, W2: SQLite would take a name that is none for a text, and index that."""
    all_refused(
        things,
        NoSuchColumn,
        lambda: things.create_index("t", [column], unique=unique),
        lambda: things.create_index("t", ["a", column], unique=unique, name="ix"),
    )
    things.insert("t", [{"a": 7}, {"a": 7}])


def test_c03_the_nearest_column_is_named(things: StructuredMemory) -> None:
    """M9"""
    things.create_table("people", [Column("email"), Column("name")])
    with refused(things, NoSuchColumn, match="Did you mean 'email'"):
        things.create_index("people", ["emial"])
    with refused(things, NoSuchTable, match="Did you mean 'people'"):
        things.create_index("peple", ["email"])


@pytest.mark.parametrize("columns", [[], ["a", "A"], ["a", "a"], 5, None, {"a": 1}, b"a", [5]])
def test_c03_columns_of_another_shape_are_refused(things: StructuredMemory, columns: Any) -> None:
    """M9"""
    all_refused(
        things,
        InvalidCall,
        lambda: things.create_index("t", columns),
        lambda: things.create_index("t", columns, unique=True),
    )


def test_c03_a_unique_index_over_equal_rows_is_refused(things: StructuredMemory) -> None:
    """W2, M7"""
    things.insert("t", {"a": 10})
    with refused(things, ConstraintFailed):
        things.create_index("t", ["a"], unique=True)
    things.create_index("t", ["a", "id"], unique=True)


# -- C21 -------------------------------------------------------------------------------------------


def drop(memory: StructuredMemory) -> object:
    return memory.drop_table("p")


TABLE: list[Step] = [
    lambda m: m.create_table("p", [Column("a", "TEXT", unique=True), Column("b")]),
    lambda m: m.create_index("p", ["b"], name="ix"),
    lambda m: m.insert("p", [{"a": "x", "b": 1}, {"a": "y", "b": 1}]),
]
OTHER_TABLE: list[Step] = [
    lambda m: m.create_table("P", [Column("id", "INTEGER", primary_key=True), Column("a")]),
    lambda m: m.create_index("P", ["a"], name="IX", unique=True),
    lambda m: m.insert("P", {"id": 7, "a": "other"}),
]


DROPS: list[list[Step]] = [
    [*TABLE, drop],
    [*TABLE, drop, *TABLE, drop, *TABLE],
    [*TABLE, drop, *OTHER_TABLE, drop, *TABLE, drop],
    [*OTHER_TABLE, drop, TABLE[0], drop],
]


@pytest.mark.parametrize("steps", DROPS)
def test_c21_the_names_of_a_dropped_table_are_free(
    memory: StructuredMemory, steps: list[Step]
) -> None:
    """W6, H2: table and index; also with the case of letters changed."""
    make_witness(memory)
    there_and_back(memory, *steps)


def test_c21_what_is_dropped_blocks_nothing(memory: StructuredMemory) -> None:
    """W6: not the parent's rows, nor the parent itself."""
    make_witness(memory)
    there_and_back(
        memory,
        lambda m: m.create_table("p", [Column("k", unique=True)]),
        lambda m: m.create_table("c", [Column("p", references=Reference("p", "k"))]),
        lambda m: m.insert("p", [{"k": 1}, {"k": 2}]),
        lambda m: m.insert("c", [{"p": 1}, {"p": 2}]),
        lambda m: m.drop_table("c"),
        lambda m: m.delete("p", "k = 1"),
        lambda m: m.update("p", {"k": 5}, "k = 2"),
        lambda m: m.drop_table("p"),
    )


def test_c21_a_table_that_is_referred_to_stays(memory: StructuredMemory) -> None:
    """W6, M9: a reference to itself is no obstacle."""
    make_witness(memory)
    memory.create_table(
        "p", [Column("k", unique=True), Column("up", references=Reference("p", "k"))]
    )
    memory.create_table("c1", [Column("p", references=Reference("P", "K"))])
    memory.create_table("c2", [Column("p", references=Reference("p", "k"))])
    with refused(memory, ConstraintFailed, match="'c1', 'c2'"):
        memory.drop_table("p")
    memory.drop_table("c1")
    with refused(memory, ConstraintFailed, match="'c2'"):
        memory.drop_table("p")
    memory.drop_table("c2")
    memory.drop_table("p")


def test_c21_a_drop_is_not_undone_over_a_table_of_that_name(memory: StructuredMemory) -> None:
    """H3"""
    make_witness(memory)
    for step in TABLE:
        step(memory)
    dropped = memory.drop_table("p")
    memory.create_table("P", [Column("z")])
    with refused(memory, CannotUndo, match=r"op_6"):
        memory.undo(dropped.op_id)
    memory.undo()
    memory.undo(dropped.op_id)
    assert memory.query("SELECT a FROM p").rows == [("x",), ("y",)]


def test_c21_the_names_of_stores_are_reserved(things: StructuredMemory) -> None:
    """M6: whether or not a table waits in one."""
    things.drop_table("o")
    store = f"_structmem_hidden_{things.position().seq}"
    all_refused(
        things,
        InvalidCall,
        lambda: things.create_table(store, [Column("a")]),
        lambda: things.insert(store, {"c0": 1}),
        lambda: things.drop_table(store),
        lambda: things.create_index(store, ["c0"]),
        lambda: things.create_index("t", ["a"], name=store),
        lambda: things.query(f"SELECT * FROM {store}"),
        lambda: things.delete("t", f"EXISTS (SELECT 1 FROM {store})"),
    )
    assert store not in things.describe()


# -- C23, C24, C25 ---------------------------------------------------------------------------------

FILL: list[Step] = [
    lambda m: m.create_table("t", [Column("a")]),
    lambda m: m.insert("t", [{"a": 1}, {"a": 2}]),
]


LATER: list[list[Step]] = [
    [
        lambda m: m.add_column("t", Column("c", "TEXT", default="d")),
        lambda m: m.insert("t", {"a": 3, "c": "x"}),
        lambda m: m.update("t", {"c": "y"}, "a = 1"),
        lambda m: m.delete("t", "true"),
    ],
    [
        lambda m: m.delete("t", "a = 1"),
        lambda m: m.add_column("t", Column("c", default=5)),
        lambda m: m.insert("t", [{"a": 4}, {"a": 5, "c": None}]),
        lambda m: m.delete("t", "a <> 4"),
    ],
    [
        lambda m: m.update("t", {"a": 9}, "a = 1"),
        lambda m: m.add_column("t", Column("c", not_null=True, default=b"\0")),
        lambda m: m.add_column("t", Column("d", "REAL", default=1, description="second; --")),
        lambda m: m.update("t", {"a": 10, "d": 2.5}, "true"),
    ],
    [
        lambda m: m.delete("t", "true"),
        lambda m: m.add_column("t", Column("c", "TEXT", not_null=True)),
        lambda m: m.insert("t", {"a": 1, "c": "must"}),
    ],
]


@pytest.mark.parametrize("steps", LATER)
def test_c23_rows_from_before_a_column_and_after_it(
    memory: StructuredMemory, steps: list[Step]
) -> None:
    """H2, H5, W2: capture sees the new column, undo and replay know which rows had it."""
    there_and_back(memory, *FILL, *steps)


USES: dict[str, list[Step]] = {
    "values": [lambda m: m.update("t", {"b": "user data"}, "a = 1")],
    "an index": [
        lambda m: m.update("t", {"b": "user data"}, "a = 1"),
        lambda m: m.create_index("t", ["b"], name="ix"),
    ],
    "a unique index": [
        lambda m: m.update("t", {"b": "user data"}, "a = 1"),
        lambda m: m.create_index("t", ["b", "a"], unique=True),
    ],
    "a key": [
        lambda m: m.update("t", {"b": "user data"}, "a = 1"),
        lambda m: m.create_index("t", ["b"], unique=True),
        lambda m: m.create_table("c", [Column("up", references=Reference("t", "b"))]),
        lambda m: m.insert("c", {"up": "user data"}),
    ],
}


@pytest.mark.parametrize("what", USES)
def test_c24_a_column_that_became_needed_is_never_lost(memory: StructuredMemory, what: str) -> None:
    """H2, H3: not alone; and taken back with all that came after, it comes again with its data."""
    make_witness(memory)
    for step in FILL:
        step(memory)
    added = memory.add_column("t", Column("b", "TEXT"))
    for step in USES[what]:
        step(memory)
    before = dump(memory)
    with refused(memory, CannotUndo, match="is not the latest"):
        memory.undo(added.op_id)
    memory.revert_to(memory.history(1, before=added.op_id)[0].op_id)
    assert memory.query("SELECT * FROM t").columns == ["a"]
    memory.redo()
    assert dump(memory) == before
    assert memory.query("SELECT b FROM t WHERE a = 1").scalar() == "user data"


@pytest.mark.parametrize("what", USES)
def test_c24_each_use_of_a_column_there_and_back(memory: StructuredMemory, what: str) -> None:
    """H2"""
    there_and_back(memory, *FILL, lambda m: m.add_column("t", Column("b", "TEXT")), *USES[what])


def test_c24_a_column_is_not_undone_over_values_from_elsewhere(
    memory: StructuredMemory,
) -> None:
    """H3, M10: nobody recorded them, so they would be gone for good."""
    for step in FILL:
        step(memory)
    memory.add_column("t", Column("b", "TEXT"))
    alter(memory, "UPDATE t SET b = 'theirs' WHERE a = 2")
    with pytest.raises(CannotUndo, match="'t' rowid 2"):
        memory.undo()
    assert memory.query("SELECT b FROM t").rows == [(None,), ("theirs",)]
    alter(memory, "UPDATE t SET b = NULL")
    memory.undo()


def test_c25_a_unique_index_does_not_come_back_over_equal_rows(memory: StructuredMemory) -> None:
    """H3"""
    make_witness(memory)
    for step in FILL:
        step(memory)
    memory.create_index("t", ["a"], name="ix", unique=True)
    with refused(memory, ConstraintFailed):
        memory.insert("t", {"a": 1})
    dropped = memory.drop_index("ix")
    memory.insert("t", [{"a": 1}, {"a": 1}])
    with refused(memory, CannotUndo):
        memory.undo(dropped.op_id)
    assert "ix" not in memory.describe()
    memory.undo()
    memory.undo(dropped.op_id)
    with refused(memory, ConstraintFailed):
        memory.insert("t", {"a": 1})


# -- C36 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD, ids=lambda name: ascii(name)[:20])
def test_c36_an_odd_name_through_every_schema_change(memory: StructuredMemory, name: str) -> None:
    """M6, H2, J4: a table, a column that came later, and an index of that name."""
    make_witness(memory)
    index = f"{name}\u00a0ix"  # tables and indexes share their names
    added = "rowid 3" if name == "rowid" else name  # see below
    there_and_back(
        memory,
        lambda m: m.create_table(name, [Column("first"), Column(f"{name} 2")]),
        lambda m: m.insert(name, [{"first": n} for n in range(3)]),
        lambda m: m.add_column(name, Column(added, default="d", description=name)),
        lambda m: m.create_index(name, [added, "first"], name=index, unique=True),
        lambda m: m.create_index(name, [added]),
        lambda m: m.update(name, {added: "new"}, f"{quote(added)} = 'd' AND first > 0"),
        lambda m: m.drop_index(index),
        lambda m: m.drop_table(name),
        lambda m: m.create_table(name, [Column(name)]),
        lambda m: m.create_index(name, name, name=index),
    )


def test_c36_tables_and_indexes_share_their_names(things: StructuredMemory) -> None:
    """M9"""
    things.create_index("t", ["a"], name="ix")
    all_refused(
        things,
        InvalidCall,
        lambda: things.create_table("ix", [Column("a")]),
        lambda: things.create_table("IX", [Column("a")]),
        lambda: things.create_table("ix", [Column("a")], if_not_exists=True),
        lambda: things.create_index("t", ["b"], name="IX"),
        lambda: things.create_index("t", ["b"], name="t"),
        lambda: things.create_index("t", ["b"], name="O"),
        lambda: things.drop_table("ix"),
        lambda: things.drop_index("t"),
        lambda: things.insert("ix", {"a": 1}),
        lambda: things.add_column("ix", Column("a")),
    )


@pytest.mark.parametrize("name", ["rowid", "OID", "_Rowid_"])
def test_c36_a_name_of_the_rowid_cannot_come_later(things: StructuredMemory, name: str) -> None:
    """W2, M9: SQLite's rule, in words."""
    with refused(things, InvalidCall, match="only be made together with its table"):
        things.add_column("t", Column(name))
