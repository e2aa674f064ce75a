"""Calls that fail halfway, for reasons outside of them: C13, C14, C26, C53.

(C15, a COMMIT that fails, stands in `test_writes.py`.)
"""

import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from structmem import (
    CannotUndo,
    Column,
    ForkedProcess,
    Full,
    QueryLimit,
    StructuredMemory,
    VerificationFailed,
    sql,
)
from tests.engine.conftest import alter, dump, writer_of
from tests.engine.faults.conftest import make_things, refused

ENDLESS = (
    "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n) > 0"
)


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[StructuredMemory]:
    with StructuredMemory(tmp_path / "crm.db", query_timeout=0.2) as memory:
        make_things(memory)
        yield memory
        memory.verify(deep=True)


@pytest.mark.parametrize(
    "where", [ENDLESS, f"id = 1 OR {ENDLESS}", f"CASE id WHEN 3 THEN {ENDLESS} END"]
)
def test_c13_a_condition_that_runs_out_of_time(hurried: StructuredMemory, where: str) -> None:
    """Q3, M7: also after it has matched some rows."""
    with refused(hurried, QueryLimit, match="0.2 seconds"):
        hurried.update("t", {"a": 1}, where)
    with refused(hurried, QueryLimit, match="0.2 seconds"):
        hurried.delete("t", where)


WRITES: dict[str, Callable[[StructuredMemory, str], object]] = {
    "insert": lambda m, blob: m.insert("t", [{"a": 1}, {"a": blob}]),
    "update": lambda m, blob: m.update("t", {"a": blob}, "true"),
    "delete": lambda m, blob: m.delete("t", "true", reason=blob[:90_000]),
    "create_table": lambda m, blob: m.create_table("new", [Column("a", default=blob[:900_000])]),
    "undo": lambda m, blob: m.undo(reason=blob[:90_000]),
}


@pytest.mark.parametrize("size", [95_000, 8_000_000])
@pytest.mark.parametrize("operation", WRITES)
def test_c14_a_full_disk_leaves_nothing(
    things: StructuredMemory, operation: str, size: int
) -> None:
    """M7: SQLite rolls back a small transaction by itself, and leaves one that spilled open."""
    things.insert("t", {"a": "x" * 50_000})
    write, blob = WRITES[operation], "x" * size
    with refused(things, Full), _no_room(things):
        write(things, blob)
    write(things, blob)
    if operation != "undo":
        things.undo()
        assert things.query("SELECT count(*), sum(length(a)) FROM t").rows == [(4, 50_006)]


@contextmanager
def _no_room(memory: StructuredMemory) -> Generator[None]:
    """The file cannot grow by more than a page."""
    writer = writer_of(memory).connection
    before = sql.pragma(writer, "max_page_count")
    sql.pragma(writer, "max_page_count", sql.pragma(writer, "page_count") + 1)
    try:
        yield
    finally:
        sql.pragma(writer, "max_page_count", before)


IN_A_CHILD: dict[str, Callable[[StructuredMemory], object]] = {
    "close": lambda m: m.close(),
    "query": lambda m: m.query("SELECT 1"),
    "describe": lambda m: m.describe(),
    "history": lambda m: m.history(),
    "position": lambda m: m.position(),
    "verify": lambda m: m.verify(),
    "insert": lambda m: m.insert("t", {"a": 1}),
    "undo": lambda m: m.undo(),
    "records": lambda m: list(m.records()),
    "on_commit": lambda m: m.on_commit(print),
}


@pytest.mark.parametrize("call", IN_A_CHILD)
def test_c53_a_forked_child_can_do_no_harm(things: StructuredMemory, call: str) -> None:
    """M4: not even to a parent that is in the middle of a transaction."""
    before = dump(things)
    with writer_of(things).transaction() as tx:
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that waits for a lock would wait for ever
            os._exit(0 if _is_forked(lambda: IN_A_CHILD[call](things)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        sql.run(tx.connection, "SELECT 1")
    things.insert("t", {"a": 40})
    things.undo()
    assert dump(things) == before


def _is_forked(call: Callable[[], object]) -> bool:
    try:
        call()
    except ForkedProcess:
        return True
    return False


def test_c26_a_vacuum_by_hand_is_found_and_undo_refuses(unjournaled: StructuredMemory) -> None:
    """M10, H3: it renumbers the rows of a table without an integer key, which the journal holds."""
    unjournaled.create_table("t", [Column("a")])
    unjournaled.insert("t", [{"a": letter} for letter in "abc"])
    unjournaled.delete("t", "a = 'a'")
    alter(unjournaled, "VACUUM")
    with pytest.raises(CannotUndo, match="rowid 1"):
        unjournaled.undo()
    with pytest.raises(VerificationFailed, match="'t' rowid 1"):
        unjournaled.verify(deep=True)
    assert unjournaled.update("t", {"a": "B"}, "a = 'b'").rows_changed == 1
    assert unjournaled.query("SELECT a FROM t ORDER BY a").rows == [("B",), ("c",)]
