"""Q3, M7: SQL that `execute` runs, and SQL that it left in the schema, ends in time and memory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from structmem import Column, InvalidCall, QueryLimit, StructuredMemory
from tests.engine.conftest import dump
from tests.engine.faults.conftest import make_witness, refused

N = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n)"
LONG = "printf('%.*c', 16000000, 'a')"
TIMEOUT = 0.3


@pytest.fixture
def hurried(tmp_path: Path) -> StructuredMemory:
    """A memory with little time, and a table `t (a, b)` of three rows."""
    memory = StructuredMemory(tmp_path / "m.db", query_timeout=TIMEOUT)
    memory.create_table("t", [Column("a"), Column("b")])
    memory.insert("t", [{"a": n} for n in range(3)])
    make_witness(memory)
    return memory


LATE = {
    "rows": f"INSERT INTO t {N} SELECT i, i FROM n",
    "a sum": f"UPDATE t SET a = ({N} SELECT count(*) FROM n)",
    "a select": f"{N} SELECT count(*) FROM n",
    "a new table": f"CREATE TABLE u AS {N} SELECT i FROM n WHERE i < 0",
    "a trigger": f"CREATE TRIGGER x AFTER DELETE ON t BEGIN INSERT INTO t {N} SELECT i, 1 FROM n;"
    " END; DELETE FROM t",
    "an upsert": "CREATE TABLE q(a PRIMARY KEY);"
    f"INSERT INTO q {N} SELECT i % 9 FROM n WHERE true ON CONFLICT DO UPDATE SET a = a",
    "a generated column": "CREATE TABLE u(a, b AS (hex(zeroblob(8000000)) || a) STORED);"
    f"INSERT INTO u {N} SELECT i FROM n LIMIT 1000",
    "a cascade": "CREATE TABLE p(id INTEGER PRIMARY KEY);"
    "CREATE TABLE c(p REFERENCES p ON DELETE CASCADE);"
    f"INSERT INTO p {N} SELECT i FROM n LIMIT 9000; INSERT INTO c SELECT id FROM p; DELETE FROM p",
    "many short statements": "INSERT INTO t VALUES (1, 2);" * 30_000,
    "many changes of the schema": "CREATE TABLE u(a); DROP TABLE u;" * 20_000,
    "many columns": "".join(f"ALTER TABLE t ADD COLUMN c{n};" for n in range(1_900)),
}
LARGE = {
    "values": f"INSERT INTO t {N} SELECT {LONG} || i, i FROM n",
    "an aggregate": f"UPDATE t SET a = ({N} SELECT json_group_array({LONG}) FROM n)",
    "a straight line": f"INSERT INTO t SELECT max({', '.join(f's || {n}' for n in range(90))}), 1"
    f" FROM (SELECT {LONG} AS s)",
    "a trigger": "CREATE TRIGGER x AFTER UPDATE ON t BEGIN INSERT INTO t"
    f" {N} SELECT {LONG} || i, 1 FROM n; END; UPDATE t SET a = 1",
    "a check": f"CREATE TABLE u(a CHECK (max({', '.join([f'{LONG} || a'] * 30)}) <> ''));"
    "INSERT INTO u VALUES (1)",
}


@pytest.mark.parametrize("what", LATE)
def test_q3_execute_ends_in_time(hurried: StructuredMemory, what: str) -> None:
    with refused(hurried, QueryLimit, match=r"ran longer than the 0\.3 seconds"):
        hurried.execute(LATE[what])
    hurried.close()


@pytest.mark.parametrize("what", LARGE)
def test_q3_execute_ends_within_its_memory(memory: StructuredMemory, what: str) -> None:
    memory.create_table("t", [Column("a"), Column("b")])
    memory.insert("t", {"a": 1})
    make_witness(memory)
    with refused(memory, QueryLimit, match="256 MB"):
        memory.execute(LARGE[what])


# -- what it leaves in the schema ------------------------------------------------------------------

ENDLESS = f"INSERT INTO witness {N} SELECT i FROM n WHERE i < 0"
WRITES: dict[str, Callable[[StructuredMemory], object]] = {
    "INSERT": lambda memory: memory.insert("t", [{"a": 1}, {"a": 2}]),
    "UPDATE": lambda memory: memory.update("t", {"a": 1}, "true"),
    "DELETE": lambda memory: memory.delete("t", "true"),
}


@pytest.mark.parametrize("event", WRITES)
def test_q3_a_trigger_cannot_hold_up_a_later_write(hurried: StructuredMemory, event: str) -> None:
    hurried.execute(f"CREATE TRIGGER x AFTER {event} ON t BEGIN {ENDLESS}; END")
    with refused(hurried, QueryLimit, match="sets off was stopped"):
        WRITES[event](hurried)
    hurried.execute("DROP TRIGGER x")
    WRITES[event](hurried)
    hurried.close()


def test_q3_a_trigger_behind_a_cascade_is_bounded_too(hurried: StructuredMemory) -> None:
    hurried.execute(
        "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p ON DELETE CASCADE);"
        f"CREATE TRIGGER x AFTER DELETE ON c BEGIN {ENDLESS}; END;"
        "INSERT INTO p VALUES (1); INSERT INTO c VALUES (1)"
    )
    with refused(hurried, QueryLimit, match="sets off was stopped"):
        hurried.delete("p", "true")
    hurried.close()


@pytest.mark.parametrize(
    "trigger",
    [
        f"INSERT INTO witness {N} SELECT {LONG} || i FROM n",
        f"SELECT max({', '.join(f's || {n}' for n in range(90))}) FROM (SELECT {LONG} AS s)",
    ],
)
def test_q3_a_trigger_has_the_memory_of_a_query(memory: StructuredMemory, trigger: str) -> None:
    memory.create_table("t", [Column("a")])
    make_witness(memory)
    memory.execute(f"CREATE TRIGGER x AFTER INSERT ON t BEGIN {trigger}; END")
    with refused(memory, QueryLimit, match="256 MB"):
        memory.insert("t", {"a": 1})


SLOW = {
    "a check": "CREATE TABLE u(a CHECK (length(hex(zeroblob(2000000)) || a) > 0))",
    "a generated column": "CREATE TABLE u(a, b AS (length(hex(zeroblob(2000000)) || a)) STORED)",
    "an index": "CREATE TABLE u(a); CREATE INDEX i ON u(length(hex(zeroblob(2000000)) || a))",
}


@pytest.mark.parametrize("what", SLOW)
def test_q3_slow_expressions_of_the_schema_end_in_time(
    hurried: StructuredMemory, what: str
) -> None:
    hurried.execute(SLOW[what])
    with refused(hurried, QueryLimit, match="sets off was stopped"):
        hurried.insert("u", [{"a": n} for n in range(3_000)])
    hurried.insert("u", {"a": 1})
    hurried.close()


def test_q3_one_step_of_a_trigger_gets_shorter_values(memory: StructuredMemory) -> None:
    """LIKE may take seconds in a step, so three of them get a fraction of the longest value."""
    memory.create_table("t", [Column("a")])
    terms = " OR ".join(f"new.a LIKE '%a%b{n}'" for n in range(3))
    memory.execute(f"CREATE TRIGGER x AFTER INSERT ON t WHEN {terms} BEGIN SELECT 1; END")
    memory.insert("t", {"a": "a" * 1_000_000})
    with pytest.raises(QueryLimit, match="in this statement"):
        memory.insert("t", {"a": "a" * 16_000_000})


def test_q3_large_honest_writes_take_their_time(tmp_path: Path) -> None:
    """Without triggers and functions nothing is timed, with a timeout that nothing could meet."""
    with StructuredMemory(tmp_path / "m.db") as memory:
        memory.execute("CREATE TABLE t(a CHECK (a >= 0), b UNIQUE, c DEFAULT 7)")
    with StructuredMemory(tmp_path / "m.db", query_timeout=1e-6) as memory:
        memory.insert("t", [{"a": n, "b": n} for n in range(2_000)])
        memory.undo()
        memory.redo()
        assert len(dump(memory)["t"]) == 2_000


def test_q3_an_honest_trigger_does_not_hinder(memory: StructuredMemory) -> None:
    memory.create_table("t", [Column("a"), Column("at")])
    memory.execute(
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET at = date() WHERE rowid ="
        " new.rowid; END"
    )
    assert memory.insert("t", [{"a": n} for n in range(5_000)]).rows_changed == 5_000
    assert memory.delete("t", "at IS NOT NULL").rows_changed == 5_000
    memory.undo()


def test_c37_the_bounds_of_execute_do_not_bind_our_own_statements(memory: StructuredMemory) -> None:
    """M9: SQLite needs more than 25 000 steps to describe so wide a table."""
    with pytest.raises(InvalidCall, match="more than 1,999 columns"):
        memory.execute(f"CREATE TABLE u ({', '.join(f'c{n}' for n in range(2_000))})")


def test_c37_a_trigger_of_the_widest_table_does_not_hinder(memory: StructuredMemory) -> None:
    columns = [f"c{n}" for n in range(1_999)]
    memory.create_table("w", [Column(name) for name in columns])
    memory.execute("CREATE TRIGGER x AFTER UPDATE ON w BEGIN SELECT upper(new.c0); END")
    memory.insert("w", dict.fromkeys(columns, "v"))
    assert memory.update("w", dict.fromkeys(columns, "u"), "true").rows_changed == 1
    assert memory.delete("w", "true").rows_changed == 1
