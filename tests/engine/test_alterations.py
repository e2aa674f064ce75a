"""Rows and schema changed by one call of `execute`: the net effect, there and back (W7, H2, J4)."""

from functools import partial

import pytest

from structmem import Column, InvalidCall, StructuredMemory
from structmem_journal import RowsChanged, Value, decode_payload

from .faults.test_schema_changes import there_and_back


def test_a_table_that_was_written_before_can_be_dropped(memory: StructuredMemory) -> None:
    """W7, H5: our temporary triggers are in place by then, and SQLite drops them along."""
    memory.execute("CREATE TABLE t (a); CREATE TABLE u (a)")
    memory.insert("t", {"a": 1})
    memory.execute("INSERT INTO u SELECT a FROM t")
    there_and_back(
        memory,
        lambda m: m.execute("DROP TABLE t"),
        lambda m: m.execute("DROP TABLE U"),
    )


@pytest.mark.parametrize("trigger", ["temp._structmem_insert_t", "_structmem_insert_t"])
def test_our_triggers_cannot_be_dropped_alone(memory: StructuredMemory, trigger: str) -> None:
    """W7"""
    memory.execute("CREATE TABLE t (a)")
    memory.insert("t", {"a": 1})
    with pytest.raises(InvalidCall, match="Temporary"):
        memory.execute(f"DROP TRIGGER {trigger}")
    with pytest.raises(InvalidCall, match="Temporary"):
        memory.execute(f"DROP TRIGGER {trigger}; DROP TABLE t")
    assert memory.delete("t", "true").rows_changed == 1


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("CREATE TABLE t (a INT) STRICT", "b INT"),
        ("CREATE TABLE t (a)", "b INT DEFAULT 1 CHECK (b = 1)"),
        ("CREATE TABLE t (a)", "b INT AS (a + 1) NOT NULL"),
    ],
)
def test_rows_can_be_checked_against_a_new_column(
    memory: StructuredMemory, table: str, column: str
) -> None:
    """W7: SQLite checks them by a PRAGMA that nobody else may use."""
    memory.execute(f"{table}; INSERT INTO t VALUES (5)")
    there_and_back(memory, lambda m: m.execute(f"ALTER TABLE t ADD COLUMN {column}"))
    with pytest.raises(InvalidCall, match="schema tables"):
        memory.execute("CREATE TABLE u AS SELECT * FROM pragma_quick_check('t')")
    with pytest.raises(InvalidCall, match="NOT NULL"):
        memory.execute("ALTER TABLE t ADD COLUMN c INT AS (nullif(a, 5)) NOT NULL")


@pytest.mark.parametrize(
    "rows", ["UPDATE t SET a = a", "INSERT INTO t VALUES (9); DELETE FROM t WHERE a = 9"]
)
def test_rows_that_were_touched_and_did_not_change_take_a_new_column(
    memory: StructuredMemory, rows: str
) -> None:
    """W7: the image of before has no such column."""
    memory.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
    there_and_back(memory, lambda m: m.execute(f"{rows}; ALTER TABLE t ADD COLUMN b DEFAULT 5"))


@pytest.mark.parametrize("default", ["CURRENT_TIMESTAMP", "CURRENT_DATE", "(random() * 0)"])
def test_a_default_that_is_evaluated_is_never_relied_on(
    memory: StructuredMemory, default: str
) -> None:
    """J4: the next replay would give it another value; so the rows are recorded."""
    memory.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    memory.execute(
        f"CREATE TABLE x (a, b DEFAULT {default}); INSERT INTO x (a) SELECT a FROM t;"
        "DROP TABLE t; ALTER TABLE x RENAME TO t"
    )
    (event,) = [decode_payload(r.payload or b"") for r in memory.records()][1:]
    assert [e.inserted for e in event.effects if isinstance(e, RowsChanged)][-1]


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE t (a, g AS (nullif(a, 0)) NOT NULL); INSERT INTO t VALUES (5)",
        "CREATE TABLE t (a BLOB, g INTEGER AS (a) STORED) STRICT; INSERT INTO t VALUES (NULL)",
        "CREATE TABLE t (a UNIQUE ON CONFLICT IGNORE CHECK (a > 1)); INSERT INTO t VALUES (5)",
    ],
)
@pytest.mark.parametrize(
    "column",
    [
        *("b ANY DEFAULT '07'", "b TEXT DEFAULT 7", "b REAL DEFAULT 1", "b INTEGER DEFAULT -0"),
        "b INT",
        *("b INT DEFAULT TRUE", "b INT DEFAULT +1 NOT NULL CHECK (b = 1)"),
    ],
)
def test_a_default_is_known_whatever_else_the_table_demands(
    memory: StructuredMemory, table: str, column: str
) -> None:
    """H2: the undo of a new column makes sure that nothing but its default goes with it."""
    memory.execute(table)
    there_and_back(memory, lambda m: m.execute(f"ALTER TABLE t ADD COLUMN {column}"))


def test_a_default_that_is_an_expression(memory: StructuredMemory) -> None:
    """H2: in parentheses `5 NOT NULL` is 1, without them 5 and a rule."""
    memory.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    for default in ("(5 NOT NULL)", "(1 -- )\n)", "(1 + 1)", "('a' || 'b')"):
        script = (
            f"CREATE TABLE x (a, b TEXT DEFAULT {default}); INSERT INTO x (a) SELECT a FROM t;"
            "DROP TABLE t; ALTER TABLE x RENAME TO t"
        )
        there_and_back(memory, partial(StructuredMemory.execute, sql=script))
        memory.undo()


@pytest.mark.parametrize("default", [None, 7, 1.0, "07", b"\0", "it's"])
def test_add_column_to_a_table_that_takes_no_arbitrary_row(
    memory: StructuredMemory, default: Value
) -> None:
    """H2, W2"""
    memory.execute("CREATE TABLE t (a, g AS (nullif(a, 0)) NOT NULL); INSERT INTO t VALUES (5)")
    there_and_back(memory, lambda m: m.add_column("t", Column("b", default=default)))


@pytest.mark.parametrize("declared", ["TEXT", "REAL", "INTEGER", None])
@pytest.mark.parametrize("default", [-0.0, 1e300, 2**53, "-0.0"])
def test_a_default_that_old_rows_and_new_ones_hold_differently(
    memory: StructuredMemory, declared: str | None, default: Value
) -> None:
    """J4: -0.0 becomes the text '-0.0' in the rows that are there, and '0.0' in those to come."""
    memory.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
    column = Column("b", declared, default=default)
    there_and_back(memory, lambda m: m.add_column("t", column), lambda m: m.insert("t", {"a": 3}))
