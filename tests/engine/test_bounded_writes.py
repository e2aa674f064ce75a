"""Q3, M7: SQL that `execute` runs ends in time and memory."""

from pathlib import Path

import pytest

from structmem import Column, QueryLimit, StructuredMemory
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
