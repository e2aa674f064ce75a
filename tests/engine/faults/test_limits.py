"""More than SQLite, or we, can take at once: C37.

(`test_create_table.py` has the widest table, `test_writes.py` one call of thousands of rows.)
"""

import pytest

from structmem import Column, InvalidCall, QueryLimit, StructuredMemory
from tests.engine.conftest import dump
from tests.engine.faults.conftest import refused


@pytest.mark.parametrize("width", [500, 501, 1_000, 1_001, 1_999])
def test_c37_a_wide_table_works_like_any(memory: StructuredMemory, width: int) -> None:
    """W1, H2: 500 and 1 000 are where json_object and json_array, in a trigger, would end."""
    columns = [Column(f"c{n}") for n in range(width)]
    memory.create_table("wide", columns)
    memory.insert("wide", [{c.name: n for c in columns} for n in range(3)])
    before = memory.query("SELECT rowid, * FROM wide")
    memory.update("wide", {c.name: "x" for c in columns}, "c0 = 1")
    memory.delete("wide", f"c{width - 1} = 0")
    memory.undo()
    memory.undo()
    assert memory.query("SELECT rowid, * FROM wide") == before
    assert (len(before), len(before.columns)) == (3, width + 1)


@pytest.mark.parametrize("width", [0, 2_000, 2_001, 40_000])
def test_c37_a_table_that_is_too_wide_is_refused_at_once(
    things: StructuredMemory, width: int
) -> None:
    """W1, M9"""
    with refused(things, InvalidCall, match="1 to 1,999 columns"):
        things.create_table("wide", [Column(f"c{n}") for n in range(width)])


def test_c37_a_large_delete_is_one_operation(memory: StructuredMemory) -> None:
    """W4, H2: more rows than a statement could have variables."""
    memory.create_table("t", [Column("a"), Column("b", unique=True)])
    memory.insert("t", ({"a": n % 7, "b": n} for n in range(40_000)))
    before = dump(memory)
    done = memory.delete("t", "true")
    assert (done.op_id, done.rows_changed, len(done.rowids)) == ("op_3", 40_000, 40_000)
    assert memory.undo().rows_changed == 40_000
    assert memory.update("t", {"a": 0}, "a > 0").rows_changed > 32_766
    memory.undo()
    assert dump(memory) == before


BEYOND = {
    "terms of OR": " OR ".join(f"a = {n}" for n in range(1_001)),
    "terms of AND": " AND ".join(f"a <> {n}" for n in range(1_001)),
    "additions": " + ".join(["a"] * 1_001),
    "parentheses": "(" * 3_000 + "1" + ")" * 3_000,
    "NOTs": "NOT " * 3_000 + "1",
    "a pattern": f"b LIKE '{'%a' * 25_001}'",
    "a bound pattern": "b LIKE '%' || hex(zeroblob(30000))",
    "a compound": "a IN (" + " UNION ALL ".join(["SELECT 1"] * 3_000) + ")",
    "a list": f"a IN ({', '.join(map(str, range(100_000)))})",
    "VALUES": f"a IN (VALUES {', '.join(f'({n})' for n in range(100_000))})",
    "variables": f"a IN ({', '.join('?' * 32_767)})",
    "a high variable": "a = ?32767",
    "arguments": f"max({', '.join(['1'] * 3_000)})",
    "joined tables": f"EXISTS (SELECT 1 FROM {', '.join(f't AS t{n}' for n in range(70))})",
    "columns": f"EXISTS (SELECT {', '.join(['1'] * 2_001)} UNION SELECT 1)",
    "nesting": "EXISTS (SELECT 1 FROM " + "(SELECT 1 FROM " * 3_000 + "t" + ")" * 3_000 + ")",
}


@pytest.mark.parametrize("what", BEYOND)
def test_c37_an_expression_beyond_a_limit_is_told_as_one(
    things: StructuredMemory, what: str
) -> None:
    """Q3, M9: it is an expression, so it must not hear that it should be one."""
    where = BEYOND[what]
    params = [1] * where.count("?") if what == "variables" else []
    with refused(things, QueryLimit):
        things.delete("t", where, params)
    with refused(things, QueryLimit):
        things.query(f"SELECT * FROM t WHERE {where}", params)


def test_c37_a_text_that_is_too_long_says_how_long(things: StructuredMemory) -> None:
    """Q3, M9"""
    where = "1 OR " + " " * 1_000_000 + "1"
    with refused(things, InvalidCall, match="1,000,006 bytes"):
        things.delete("t", where)
    with refused(things, InvalidCall, match="bytes"):
        things.query(f"SELECT * FROM t WHERE {where}")


WITHIN = {
    "terms of OR": " OR ".join(f"a = {n}" for n in range(900)),
    "parentheses": "(" * 20 + "a = 10" + ")" * 20,
    "a list": f"a IN ({', '.join(map(str, range(5_000)))})",
    "VALUES": f"a IN (VALUES {', '.join(f'({n})' for n in range(1_000))})",
    "variables": f"a IN ({', '.join('?' * 2_000)})",
}


@pytest.mark.parametrize("what", WITHIN)
def test_c37_long_expressions_within_the_limits_work(things: StructuredMemory, what: str) -> None:
    """W4, Q1"""
    where = WITHIN[what]
    params = list(range(2_000)) if what == "variables" else []
    assert 1 in things.delete("t", where, params).rowids


def test_c37_a_long_list_goes_through_one_parameter(things: StructuredMemory) -> None:
    """Q3, M9: as the error about long lists says."""
    numbers = f"[{', '.join(map(str, range(100_000)))}]"
    found = things.query("SELECT id FROM t WHERE a IN (SELECT value FROM json_each(?))", [numbers])
    assert found.rows == [(1,), (2,), (3,)]
    where = "a IN (SELECT value FROM json_each(?))"
    assert things.delete("t", where, [numbers]).rowids == [1, 2, 3]
