"""Queries: Q1, M5, M9, W4, and the known faults C40, C41, C42."""

from pathlib import Path
from typing import Any

import pytest

from structmem import sql
from structmem.errors import (
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    NotAMemory,
    WriteInQuery,
)
from structmem.reading import GuardedReader
from structmem.results import QueryResult
from tests.engine.reading import guarded
from tests.engine.reading.guarded import RECURSION, query, refused, unchanged

# -- Q1: any read ----------------------------------------------------------------------------------

HONEST: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("SELECT 'delete; drop -- x'", [("delete; drop -- x",)]),
    ("SELECT deleted_at FROM tasks WHERE deleted_at IS NOT NULL", [("now",)]),
    ("SELECT replace(b, 'x', 'y') FROM t WHERE id = 1", [("y",)]),
    ("WITH x AS (SELECT a FROM t) SELECT sum(a) FROM x", [(60,)]),
    ("WITH x AS (SELECT 1) SELECT count(*) FROM x", [(1,)]),
    (f"{RECURSION} SELECT i FROM n LIMIT 3", [(1,), (2,), (3,)]),
    ("VALUES (1), (2)", [(1,), (2,)]),
    ("SELECT 1;", [(1,)]),
    ("SELECT 1; -- c", [(1,)]),
    ("-- c\nSELECT 1", [(1,)]),
    ("/* c */ SELECT 1 /* unterminated", [(1,)]),
    (";; SELECT 1", [(1,)]),
    ("SELECT title FROM open_tasks JOIN t ON t.id = t_id", [("call",)]),
    ("SELECT a, sum(a) OVER (ORDER BY a) FROM t", [(10, 10), (20, 30), (30, 60)]),
    ("SELECT status, count(*) FROM tasks GROUP BY 1 ORDER BY 1", [("done", 1), ("open", 1)]),
    ("SELECT rowid, _rowid_ FROM tasks ORDER BY rowid", [(1, 1), (2, 2)]),
    ("SELECT value FROM json_each('[1, 2]')", [(1,), (2,)]),
    ("SELECT count(*) FROM json_tree('[1, 2]')", [(3,)]),
    ("SELECT b FROM t WHERE b LIKE 'X' OR b GLOB 'y*'", [("x",), ("y",)]),
    ("SELECT seq FROM sqlite_sequence WHERE name = 'o'", [(99,)]),
    ("SELECT main.t.a FROM main.t WHERE EXISTS (SELECT 1 FROM o WHERE o.id = t.id)", [(20,)]),
    ("SELECT 1 WHERE 1 IN (SELECT id FROM t)", [(1,)]),
    ("PRAGMA foreign_key_check(tasks)", []),
    ("PRAGMA integrity_check(t)", [("ok",)]),
    ("PRAGMA user_version", [(0,)]),
    ("SELECT * FROM pragma_application_id", [(0,)]),
]


@pytest.mark.parametrize(("text", "rows"), HONEST)
def test_c40_honest_reads_work(reader: GuardedReader, path: Path, text: str, rows: Any) -> None:
    with unchanged(path, reader.sandbox):
        assert query(reader, text).rows == rows


@pytest.mark.parametrize("text", ["", " \n", ";", "-- c", "/* unterminated", "/* c */;"])
def test_c40_text_without_a_statement_is_a_clear_error(
    reader: GuardedReader, path: Path, text: str
) -> None:
    assert "no SQL statement" in refused(reader, path, text).message


@pytest.mark.parametrize("explain", ["EXPLAIN", "EXPLAIN QUERY PLAN"])
def test_q1_explain_works(reader: GuardedReader, explain: str) -> None:
    assert query(reader, f"{explain} SELECT * FROM tasks WHERE status = 'open'").rows


def test_c41_columns_of_one_name_both_survive(reader: GuardedReader) -> None:
    result = query(reader, "SELECT 1 AS a, 2 AS a")
    assert (result.columns, result.rows) == (["a", "a"], [(1, 2)])
    joined = query(reader, "SELECT * FROM t JOIN o ON o.id = t.id")
    assert joined.columns == ["id", "a", "b", "id", "s"]
    assert joined.rows == [(2, 20, "y", 2, "q")]


def test_columns_of_a_result_without_rows(reader: GuardedReader) -> None:
    assert query(reader, "SELECT id, b FROM t WHERE false") == QueryResult(["id", "b"], [])


def test_m5_values_come_back_exactly(reader: GuardedReader) -> None:
    values = [2**63 - 1, -(2**63), -0.0, 1e400, 5e-324, "a\0b", "", b"", b"\0", None, 1, 1.0]
    row = query(reader, f"SELECT {', '.join('?' * len(values))}", values).rows[0]
    assert [repr(value) for value in row] == [repr(value) for value in values]


@pytest.mark.parametrize("made", ["CAST(x'ff' AS TEXT)", "char(55296)"])
def test_m5_text_that_is_not_utf8_says_to_cast_it(
    reader: GuardedReader, path: Path, made: str
) -> None:
    assert "CAST(... AS BLOB)" in str(refused(reader, path, f"SELECT {made}"))
    assert query(reader, f"SELECT CAST({made} AS BLOB)").scalar()


@pytest.mark.parametrize("text", [None, b"SELECT 1", 7])
def test_sql_must_be_text(reader: GuardedReader, path: Path, text: Any) -> None:
    assert "must be text" in refused(reader, path, text).message


@pytest.mark.parametrize("text", ["SELECT 1\0", "SELECT '\0'", "SELECT '\ud800'", "S" * 1_000_001])
def test_text_that_sqlite_cannot_read(reader: GuardedReader, path: Path, text: str) -> None:
    refused(reader, path, text)


# -- parameters ------------------------------------------------------------------------------------

PARAMETERS_THAT_FIT: list[tuple[str, Any, Any]] = [
    ("SELECT ?", [10], 10),
    ("SELECT ?", (10,), 10),
    ("SELECT ?1 + ?1", [10], 20),
    ("SELECT ?2", [10, 20], 20),
    ("SELECT :x", {"x": 10}, 10),
    ("SELECT $x || @x", {"x": "a"}, "aa"),
    ("SELECT $x::y(z)", {"x::y(z)": 1}, 1),
    ("SELECT '?'", [], "?"),
    ("SELECT ':x'", {}, ":x"),
    ("SELECT ?", [True], 1),
    ("SELECT typeof(?)", [b""], "blob"),
]


@pytest.mark.parametrize(("text", "params", "value"), PARAMETERS_THAT_FIT)
def test_c42_parameters_that_fit(
    reader: GuardedReader, text: str, params: Any, value: object
) -> None:
    assert query(reader, text, params).scalar() == value


PARAMETERS_THAT_DO_NOT: list[tuple[str, Any, str]] = [
    ("SELECT ?", [], "1 ?, and 0"),
    ("SELECT ?", None, "must be a list"),
    ("SELECT ?", [10, 20], "1 ?, and 2"),
    ("SELECT ?2", [10], "2 ?, and 1"),
    ("SELECT ?32766", [10], "32766 ?, and 1"),
    ("SELECT ?32767", [10], "variable number"),
    ("SELECT ?1 OR ?1", [10, 20], "1 ?, and 2"),
    ("SELECT :x", {}, ":x of the SQL have no value"),
    ("SELECT :x", {"x": 1, "y": 2}, "no parameters :y"),
    ("SELECT :x", (10,), "must be a mapping"),
    ("SELECT :X", {"x": 1}, ":X of the SQL have no value"),
    ("SELECT ?", {"x": 1}, "not a mapping"),
    ("SELECT ?, :x", [1, 2], "mixes"),
    ("SELECT '?'", [1], "0 ?, and 1"),
    ("SELECT 1", {"x": 1}, "no parameters :x"),
    ("SELECT 1 IN (?)", [[10, 20]], "a list is not a value"),
    ("SELECT ?", [2**63], "64 bits"),
    ("SELECT ?", [float("nan")], "NaN"),
    ("SELECT ?", ["\ud800"], "Unicode"),
    ("SELECT ?", "x", "must be a list"),
]


@pytest.mark.parametrize(("text", "params", "message"), PARAMETERS_THAT_DO_NOT)
def test_c42_parameters_that_do_not_fit(
    reader: GuardedReader, path: Path, text: str, params: Any, message: str
) -> None:
    with unchanged(path, reader.sandbox), pytest.raises(InvalidCall) as caught:
        query(reader, text, params)
    assert message in caught.value.message


# -- M9: what a model is told ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "message", "hint"),
    [
        ("SELECT * FROM task", NoSuchTable, "no such table: task.", "Did you mean 'tasks'?"),
        ("SELECT * FROM main.task", NoSuchTable, "main.task", "Did you mean 'tasks'?"),
        ("SELECT * FROM opentasks", NoSuchTable, "opentasks", "Did you mean 'open_tasks'?"),
        ("SELECT 1 FROM zzz", NoSuchTable, "no such table: zzz.", "The tables are: 't', 'o'"),
        ("SELECT stauts FROM tasks", NoSuchColumn, "no such column: stauts.", "'status'"),
        ("SELECT tasks.titel FROM tasks", NoSuchColumn, "tasks.titel", "Did you mean 'title'?"),
        ("SELECT zz FROM t", NoSuchColumn, "zz", "The columns are: 'id', 'a', 'b'."),
        (
            "SELECT * FROM tasks WHERE \"stauts\" != 'done'",
            NoSuchColumn,
            '"stauts"',
            "Did you mean 'status'? Text goes in single quotes: 'stauts'.",
        ),
        ("SELECT nofn(1)", InvalidCall, "no such function: nofn", "None"),
        ("SELECT FROM", InvalidCall, 'near "FROM": syntax error', "None"),
        ("SELECT id FROM t, o", InvalidCall, "ambiguous column name: id", "None"),
        ("SELECT json_extract('{', '$')", InvalidCall, "malformed JSON", "None"),
        ("SELECT abs(-9223372036854775807 - 1)", InvalidCall, "integer overflow", "None"),
        ("PRAGMA integrity_check", WriteInQuery, "needs the table", "integrity_check(table)"),
        ("SELECT * FROM pragma_quick_check", WriteInQuery, "quick_check", "quick_check(table)"),
        ("CREATE TEMP TABLE z(a)", WriteInQuery, "only reads", "WITH name AS"),
        ("VACUUM", WriteInQuery, "only reads", "looks after its file itself"),
        ("SELECT 1; nonsense", InvalidCall, "more than one SQL statement", "one statement"),
        ("SELECT 1; DROP TABLE t", InvalidCall, "more than one SQL statement", "one statement"),
        ("SELECT 1; SELECT 2", InvalidCall, "more than one SQL statement", "one statement"),
    ],
)
def test_m9_errors_say_what_is_wrong_and_what_to_do(
    reader: GuardedReader,
    path: Path,
    text: str,
    kind: type[InvalidCall],
    message: str,
    hint: str,
) -> None:
    error = refused(reader, path, text)
    assert type(error) is kind
    assert message in error.message
    assert hint in str(error.hint)


def test_m9_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "junk.db").write_bytes(b"not a database" * 100)
    for name in ("junk.db", "absent.db"):
        with pytest.raises(NotAMemory):
            query(guarded.reader(tmp_path / name), "SELECT 1")


# -- begin and end ---------------------------------------------------------------------------------


def test_w4_begin_takes_the_snapshot_at_once(reader: GuardedReader, path: Path) -> None:
    reader.begin()
    writer = guarded.plain(path)
    sql.run(writer, "DELETE FROM t; CREATE TABLE new(a)")
    with reader.bounded(1.0):
        prepared = reader.compile("SELECT count(*) FROM t")
        with reader.running(prepared, ()) as rows:
            assert list(rows) == [(3,)]
    reader.end()
    assert query(reader, "SELECT count(*) FROM t").scalar() == 0
    assert query(reader, "SELECT count(*) FROM new").scalar() == 0
    writer.close()


def test_a_reader_does_not_wait_for_a_writer(reader: GuardedReader, path: Path) -> None:
    writer = guarded.plain(path)
    sql.run(writer, "BEGIN IMMEDIATE; DELETE FROM t")
    assert query(reader, "SELECT count(*) FROM t").scalar() == 3
    sql.run(writer, "ROLLBACK")
    writer.close()
