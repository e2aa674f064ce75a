"""Rows and schema changed by one call of `execute`: the net effect, there and back (W7, H2, J4)."""

import pytest

from structmem import InvalidCall, StructuredMemory

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
