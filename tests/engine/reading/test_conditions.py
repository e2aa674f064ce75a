"""The where check: W4, W5, and the known faults C05, C06, C39, C42.

Most cases run on the table `t`: (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z').
"""

from pathlib import Path
from typing import Any

import pytest

from structmem import sql
from structmem.conditions import matching_rowids
from structmem.errors import (
    ConditionRefused,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    QueryLimit,
)
from structmem.reading import GuardedReader
from structmem.schema import load_table
from tests.engine.reading import guarded
from tests.engine.reading.guarded import RECURSION, unchanged


def match(
    reader: GuardedReader,
    path: Path,
    where: Any,
    params: Any = (),
    *,
    table: str = "t",
    timeout: float = 10.0,
) -> list[int]:
    """The rowids, after asserting that nothing changed."""
    connection = guarded.plain(path)
    found = load_table(connection, table)
    connection.close()
    with unchanged(path, reader.sandbox):
        reader.begin()
        try:
            return matching_rowids(reader, found, where, params, timeout=timeout)
        finally:
            reader.end()


# -- what is one expression ------------------------------------------------------------------------

HONEST: list[tuple[str, list[int]]] = [
    ("a=10 -- note", [1]),
    ("id=1 /* ok */", [1]),
    ("1\n--x\n", [1, 2, 3]),
    ("b = 'x) --'", []),
    ("b='a;b'", []),
    ("b LIKE '%;%' -- note", []),
    ("true", [1, 2, 3]),
    ("false", []),
    ("a > 10 AND (b = 'z' OR id = 2)", [2, 3]),
    ("(a = 10)", [1]),
    ("((a = 10)) OR (a = 30)", [1, 3]),
    ("a BETWEEN 15 AND 25", [2]),
    ("a IN (10, 30)", [1, 3]),
    ("(a, b) = (20, 'y')", [2]),
    ("(a, b) IN (SELECT 20, 'y')", [2]),
    ("rowid = 2", [2]),
    ("t.a = 10", [1]),
    ("main.t.a = 10", [1]),
    ("NOT a = 10", [2, 3]),
    ("CASE WHEN a = 10 THEN 1 END", [1]),
    ("CASE a WHEN 10 THEN 0 ELSE 1 END", [2, 3]),
    ("a = (SELECT max(a) FROM t)", [3]),
    ("a > (SELECT avg(a) FROM t)", [3]),
    ("EXISTS (SELECT 1 FROM o WHERE o.id = t.id)", [2]),
    ("id IN (SELECT id FROM o UNION SELECT 3 LIMIT 5)", [2, 3]),
    ("id IN (WITH x(i) AS (VALUES (1)) SELECT i FROM x)", [1]),
    ("EXISTS (SELECT 1 FROM json_each('[10]') WHERE value = a)", [1]),
    ("b COLLATE NOCASE = 'X'", [1]),
    ("b LIKE 'X' ESCAPE '!'", [1]),
    ("b GLOB '[xy]'", [1, 2]),
    ("cast(a AS TEXT) || '' = '10'", [1]),
    ("x'01' = x'01'", [1, 2, 3]),
    ("CURRENT_TIMESTAMP IS NOT NULL", [1, 2, 3]),
    ("'1' ISNULL OR a NOTNULL", [1, 2, 3]),
    ("\t\n a = 10 \r\n", [1]),
]


@pytest.mark.parametrize(("where", "rowids"), HONEST)
def test_c05_one_expression_is_accepted(
    reader: GuardedReader, path: Path, where: str, rowids: list[int]
) -> None:
    assert match(reader, path, where) == rowids


@pytest.mark.parametrize("where", ["a = 999", "NULL", "b", "x'01'", "0", "'0'", "''", "0.0"])
def test_c06_matching_no_row_is_no_error(reader: GuardedReader, path: Path, where: str) -> None:
    assert match(reader, path, where) == []


NOT_ONE_EXPRESSION = [
    "1) UNION SELECT 99 --",
    "1) LIMIT 1 --",
    "1) /*",
    "1) /* --",
    "1); DELETE FROM t; --",
    "0); DELETE FROM t; --",
    "1); DELETE FROM t WHERE (1",
    "1; DELETE FROM t",
    "1;",
    ";",
    "1)",
    "(1",
    ")",
    "(",
    "()",
    "-- x",
    "/* x",
    "id=1 /* unterminated",
    "id IN o",
    "/* x */",
    "1)\0",
    "b='x\0y'",
    "1 RETURNING 1",
    "1) OR (1",
    "0) OR (1",
    "1) AND (1",
    "rowid) IN (SELECT 1 UNION SELECT 2",
    "a) BETWEEN (1) AND (5",
    "1) LIMIT (1",
    "1) ORDER BY (1",
    "1) GROUP BY (1",
    "1) UNION SELECT (1",
    "1) UNION ALL SELECT id FROM o WHERE (1",
    "1, 2",
    "a = 1, 1",
    "SELECT 1",
    "VALUES (1)",
    "WITH x AS (SELECT 1) SELECT 1",
    "1 LIMIT 1",
    "1 ORDER BY 1",
    "1 GROUP BY a",
    "1 HAVING 1",
    "1 UNION SELECT 99",
    "id = 1 AS z",
    "1 THEN 1 END FROM t --",
    "1 THEN 1 WHEN 0",
    "1 THEN 1 END, CASE WHEN 1",
    "*",
    "t.*",
    "count(*) > 0",
    "row_number() OVER () > 1",
    "DELETE FROM t",
    "COMMIT",
    "a = 'unterminated",
    'a = "unterminated',
    "a = [unterminated",
    "a ==== 1",
    "a BETWEEN 1",
    "CASE WHEN 1 THEN 2",
    "nofn(a)",
    "load_extension('x')",
    "raise(ABORT, 'x')",
    "\ud800",
]


@pytest.mark.parametrize("where", NOT_ONE_EXPRESSION)
def test_c05_anything_else_is_refused(reader: GuardedReader, path: Path, where: str) -> None:
    with pytest.raises(ConditionRefused) as caught:
        match(reader, path, where)
    assert "where must be one SQL expression" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("where", [None, "", "  ", "\n", 1, True, b"1", ["a"], {"a": 1}])
def test_w4_where_is_required(reader: GuardedReader, path: Path, where: Any) -> None:
    with pytest.raises(ConditionRefused) as caught:
        match(reader, path, where)
    assert '"true" means all rows' in str(caught.value.hint)


def test_w5_the_alias_is_new_for_each_call(
    reader: GuardedReader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    compile_ = GuardedReader.compile

    def listening(self: GuardedReader, text: str) -> Any:
        texts.append(text)
        return compile_(self, text)

    monkeypatch.setattr(GuardedReader, "compile", listening)
    match(reader, path, "true")
    match(reader, path, "true")
    assert len(texts) == 4
    assert len(set(texts)) == 3  # only the second frame is the same
    assert texts[1] == 'SELECT CASE WHEN\ntrue\nTHEN 1 END FROM main."t"'


def test_w5_the_result_must_have_the_alias_alone(
    reader: GuardedReader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames let no text through that could add a column: it is added behind them."""
    compile_ = GuardedReader.compile

    def adding(self: GuardedReader, text: str) -> Any:
        return compile_(self, text.replace(" FROM", ", 1 FROM", 1))

    monkeypatch.setattr(GuardedReader, "compile", adding)
    with pytest.raises(ConditionRefused):
        match(reader, path, "true")


# -- names -----------------------------------------------------------------------------------------


def test_m9_an_unknown_column_is_named_with_the_nearest(reader: GuardedReader, path: Path) -> None:
    with pytest.raises(NoSuchColumn) as caught:
        match(reader, path, "stauts = 'done'", table="tasks")
    assert caught.value.message == "no such column: stauts."
    assert caught.value.hint == "Did you mean 'status'?"


def test_m6_a_double_quoted_text_is_an_error(reader: GuardedReader, path: Path) -> None:
    with pytest.raises(NoSuchColumn) as caught:
        match(reader, path, 'status != "done"', table="tasks")
    assert "Text goes in single quotes: 'done'." in str(caught.value.hint)


@pytest.mark.parametrize(
    "where",
    [
        "id IN (SELECT seq FROM _structmem_journal)",
        "EXISTS (SELECT 1 FROM _STRUCTMEM_META)",
        "id IN _structmem_journal",
        "id IN (SELECT 1 FROM _structmem_absent)",
        "EXISTS (SELECT 1 FROM dbstat)",
        "EXISTS (SELECT 1 FROM nosuch)",
    ],
)
def test_q5_subqueries_see_the_users_tables_only(
    reader: GuardedReader, path: Path, where: str
) -> None:
    with pytest.raises(NoSuchTable) as caught:
        match(reader, path, where)
    assert caught.value.message.startswith("no such table: ")


@pytest.mark.parametrize(
    "where",
    ["EXISTS (SELECT 1 FROM sqlite_schema)", "(SELECT count(*) FROM pragma_table_info('t')) = 3"],
)
def test_q5_conditions_do_not_read_the_schema(
    reader: GuardedReader, path: Path, where: str
) -> None:
    with pytest.raises(ConditionRefused, match="schema"):
        match(reader, path, where)


ODD_TABLES = [
    'CREATE TABLE "a""b"(x)',
    'CREATE TABLE "a;b--"(x)',
    'CREATE TABLE "select"("where")',
    'CREATE TABLE "naïve é"(x)',
    "CREATE TABLE odd(rowid)",
    "CREATE TABLE odd(rowid, _rowid_)",
    "CREATE TABLE odd(rowid, oid)",
    'CREATE TABLE odd(rowid, _rowid_, oid, "k ey" INTEGER PRIMARY KEY)',
]


@pytest.mark.parametrize("text", ODD_TABLES)
def test_w5_c36_the_rowid_is_found_whatever_columns_are_called(path: Path, text: str) -> None:
    writer = guarded.plain(path)
    sql.run(writer, text)
    name = sql.rows(writer, "SELECT name FROM sqlite_schema ORDER BY rowid DESC LIMIT 1")[0][0]
    table = load_table(writer, name)
    column = table.columns[0].name.replace('"', '""')
    quoted = name.replace('"', '""')
    for value in ("5", "6", "7"):
        sql.run(writer, f'INSERT INTO "{quoted}"("{column}") VALUES (?)', (value,))
    writer.close()
    reader = guarded.reader(path)
    assert match(reader, path, f"\"{column}\" IN ('5', '7')", table=name) == [1, 3]
    reader.close()


# -- parameters and bounds -------------------------------------------------------------------------

PARAMETERS_THAT_FIT: list[tuple[str, Any, list[int]]] = [
    ("a = ?", [10], [1]),
    ("a = ?", (10,), [1]),
    ("a = ?1 OR a = ?1 + 10", [10], [1, 2]),
    ("a = :x", {"x": 10}, [1]),
    ("a = $x::y(z)", {"x::y(z)": 10}, [1]),
    ("b = '?'", [], []),
    ("id = ?", [True], [1]),
    ("b = ? -- ?", ["x"], [1]),
]


@pytest.mark.parametrize(("where", "params", "rowids"), PARAMETERS_THAT_FIT)
def test_c42_parameters_that_fit(
    reader: GuardedReader, path: Path, where: str, params: Any, rowids: list[int]
) -> None:
    assert match(reader, path, where, params) == rowids


PARAMETERS_THAT_DO_NOT: list[tuple[str, Any]] = [
    ("a=?", []),
    ("a=?", None),
    ("a=?", [10, 20]),
    ("a=?2", [10]),
    ("a=?1 OR a=?1", [10, 20]),
    ("a=:x", {}),
    ("a=:x", {"x": 1, "y": 2}),
    ("a=:x", (10,)),
    ("a=?", {"x": 1}),
    ("a=:X", {"x": 1}),
    ("a=?32767", [10]),
    ("a='?'", [1]),
    ("a IN (?)", [[10, 20]]),
    ("a=?", [2**63]),
    ("true", [1]),
]


@pytest.mark.parametrize(("where", "params"), PARAMETERS_THAT_DO_NOT)
def test_c42_parameters_that_do_not_fit(
    reader: GuardedReader, path: Path, where: str, params: Any
) -> None:
    with pytest.raises(InvalidCall):
        match(reader, path, where, params)


@pytest.mark.parametrize(
    "where",
    [
        f"({RECURSION} SELECT count(*) FROM n) > 0",
        f"id IN ({RECURSION} SELECT i FROM n WHERE i < 0)",
        "length(randomblob(1000000000)) > 0",
        "length(hex(zeroblob(400000000))) > 0",
        "length(printf('%900000000d', 1)) > 0",
    ],
)
def test_c39_bounds_hold_for_conditions(reader: GuardedReader, path: Path, where: str) -> None:
    with pytest.raises(QueryLimit):
        match(reader, path, where, timeout=0.2)


def test_w4_every_row_once_and_many(path: Path) -> None:
    writer = guarded.plain(path)
    sql.run(writer, f"INSERT INTO tasks(title) {RECURSION} SELECT 'x' || i FROM n LIMIT 100000")
    writer.close()
    reader = guarded.reader(path)
    rowids = match(reader, path, "true", table="tasks")
    assert sorted(rowids) == list(range(1, 100_003))
    reader.close()
