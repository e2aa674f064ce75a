"""Q5: our own tables are not there, and the schema shows the user's objects only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from structmem import sql
from structmem.errors import (
    InvalidCall,
    NoSuchTable,
)
from structmem.reading import GuardedReader
from tests.engine.reading import guarded
from tests.engine.reading.guarded import query, refused, unchanged

# -- Q5: what is not there -------------------------------------------------------------------------

# Each with the name of one of our tables, and then with one that does not exist: same answer.
MENTIONS = [
    "SELECT * FROM {}",
    "SELECT nosuch FROM {}",
    "SELECT count(*) FROM {}",
    "SELECT count(*) FROM main.{}",
    'SELECT v FROM "{}"',
    "SELECT v FROM [{}]",
    "SELECT k FROM {} UNION SELECT 1",
    "SELECT (SELECT v FROM {})",
    "SELECT 1 FROM t WHERE id IN (SELECT 1 FROM {})",
    "SELECT 1 FROM t WHERE 0 AND EXISTS (SELECT 1 FROM {})",
    "SELECT 1 WHERE 1 OR (SELECT count(*) FROM {})",
    "SELECT t.id FROM t LEFT JOIN {} ON 0",
    "SELECT iif(1, 2, (SELECT k FROM {}))",
    "WITH x AS (SELECT * FROM {}) SELECT 1",
    "WITH x AS MATERIALIZED (SELECT k FROM {}) SELECT 1 FROM t",
    "SELECT 1 IN {}",
    "SELECT t.*, m.* FROM t, {} m",
    "SELECT t.id FROM t NATURAL JOIN {}",
    "SELECT * FROM t INDEXED BY {}",
    "PRAGMA table_info({})",
    "PRAGMA index_list({})",
    "PRAGMA index_info(sqlite_autoindex_{}_1)",
    "PRAGMA foreign_key_list({})",
    "PRAGMA foreign_key_check({})",
    "PRAGMA integrity_check({})",
    "SELECT * FROM pragma_table_xinfo('{}')",
    "SELECT * FROM pragma_integrity_check('{}')",
    "SELECT * FROM sqlite_schema WHERE name = '{}'",
    "SELECT '{}'",
    "EXPLAIN SELECT * FROM {}",
    "EXPLAIN QUERY PLAN SELECT * FROM {}",
    "INSERT INTO {} VALUES (1, 2)",
    "UPDATE {} SET v = 1",
    "DELETE FROM {}",
    "DROP TABLE {}",
    "ALTER TABLE {} RENAME TO z",
    "CREATE INDEX z ON {}(k)",
    "REINDEX {}",
    "WITH {} AS (SELECT 1 AS k) SELECT k FROM {}",
]


def answer(reader: GuardedReader, text: str) -> object:
    try:
        return query(reader, text)
    except InvalidCall as error:
        return type(error), error.message, error.hint


@pytest.mark.parametrize("form", MENTIONS)
@pytest.mark.parametrize("ours", ["_structmem_meta", "_STRUCTMEM_META", "_structmem_journal"])
def test_q5_our_tables_are_as_if_they_were_not_there(
    reader: GuardedReader, form: str, ours: str
) -> None:
    absent = ours[:-1] + "x"
    found = repr(answer(reader, form.replace("{}", ours)))
    assert found.replace(ours, absent) == repr(answer(reader, form.replace("{}", absent)))
    assert guarded.SECRET not in found


@pytest.mark.parametrize("table", ["dbstat", "sqlite_stat1", "sqlite_stat4", "pragma_nonsense"])
def test_q5_statistics_do_not_exist(reader: GuardedReader, path: Path, table: str) -> None:
    writer = guarded.plain(path)
    sql.run(writer, "ANALYZE")
    writer.close()
    error = refused(reader, path, f"SELECT * FROM {table}")
    assert isinstance(error, NoSuchTable)
    assert error.message == f"no such table: {table}."
    refused(reader, path, f"SELECT count(*) FROM {table}")


# SQLite asks about these functions only when they run, since no column of theirs is used.
TOLD_LATE = [
    "SELECT count(*) FROM pragma_table_info('t') NATURAL LEFT JOIN json_each('1')",
    "SELECT 1 UNION ALL SELECT 2 FROM pragma_table_list NATURAL LEFT JOIN json_tree('1')",
]
SCHEMA_READS = [
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM main.sqlite_schema AS s",
    "SELECT name FROM names",
    "SELECT * FROM sqlite_temp_schema",
    "PRAGMA table_list",
    "PRAGMA database_list",
    "SELECT * FROM pragma_table_list",
    "SELECT m.name, p.* FROM sqlite_schema m, pragma_table_xinfo(m.name) p",
    "SELECT m.name, i.* FROM sqlite_schema m, pragma_index_list(m.name) i",
    "EXPLAIN SELECT * FROM sqlite_schema",
    *TOLD_LATE,
]


@pytest.mark.parametrize("text", SCHEMA_READS)
def test_q5_the_schema_shows_the_users_objects_only(
    reader: GuardedReader, path: Path, text: str
) -> None:
    with unchanged(path, reader.sandbox):
        assert "structmem" not in repr(query(reader, text)).replace("_structmem", "structmem")


def test_q5_the_schema_is_the_texts_as_stored(reader: GuardedReader, path: Path) -> None:
    stored = sql.rows(
        guarded.plain(path),
        "SELECT type, name, tbl_name, sql FROM sqlite_schema"
        " WHERE tbl_name NOT LIKE '!_structmem%' ESCAPE '!' ORDER BY rowid",
    )
    shown = query(reader, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid")
    assert sorted(map(repr, shown.rows)) == sorted(map(repr, stored))
    assert [row[1] for row in shown if row[0] == "table"] == ["t", "o", "sqlite_sequence", "tasks"]


def test_q5_the_schema_follows_changes_by_anyone(reader: GuardedReader, path: Path) -> None:
    assert query(reader, "SELECT count(*) FROM sqlite_schema WHERE name = 'new'").scalar() == 0
    writer = guarded.plain(path)
    sql.run(writer, "CREATE TABLE new(a); INSERT INTO new VALUES (1)")
    writer.close()
    assert query(reader, "SELECT count(*) FROM sqlite_schema WHERE name = 'new'").scalar() == 1
    assert query(reader, "SELECT a FROM new").rows == [(1,)]
    assert query(reader, "SELECT count(*) FROM new").rows == [(1,)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name, (SELECT count(*) FROM t) FROM sqlite_schema",
        "SELECT * FROM sqlite_schema, t",
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM pragma_table_info('t'))",
        "SELECT * FROM names, open_tasks",
        "SELECT seq FROM sqlite_sequence, sqlite_schema",
        "SELECT page_count FROM pragma_page_count, sqlite_schema",
        "SELECT id FROM t, (SELECT 1 FROM pragma_table_list NATURAL JOIN json_each('1'))",
    ],
)
def test_q5_data_and_schema_together_are_refused(
    reader: GuardedReader, path: Path, text: str
) -> None:
    assert "Send two" in str(refused(reader, path, text).hint)


def test_q5_the_schema_is_told_of_however_late_it_is_asked_for(reader: GuardedReader) -> None:
    counted, united = (query(reader, text).rows for text in TOLD_LATE)
    assert counted == [(3,)]
    assert united[0] == (1,)
    assert {*united[1:]} == {(2,)}


@pytest.fixture
def named(path: Path) -> Iterator[GuardedReader]:
    """The table `n` holds names; SQLite does not ask about what NATURAL JOIN compares them with."""
    writer = guarded.plain(path)
    sql.run(writer, "CREATE TABLE n(name)")
    sql.run(writer, "INSERT INTO n VALUES ('t'), ('_structmem_meta'), ('nothing')")
    sql.run(writer, "CREATE VIEW compared AS SELECT n.name FROM n NATURAL JOIN sqlite_schema")
    writer.close()
    opened = guarded.reader(path)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n.name FROM n NATURAL JOIN sqlite_schema",
        "SELECT s.name FROM sqlite_schema AS s NATURAL JOIN n",
        "SELECT 1 FROM n JOIN sqlite_schema USING (name)",
        "SELECT 1 FROM n NATURAL LEFT JOIN sqlite_temp_schema",
        "SELECT count(*) FROM n NATURAL JOIN pragma_table_list",
        "SELECT name FROM compared",
        "SELECT 1 FROM t WHERE b IN (SELECT n.name FROM n NATURAL JOIN sqlite_schema)",
    ],
)
def test_q5_what_a_join_compares_is_read(named: GuardedReader, path: Path, text: str) -> None:
    assert "Send two" in str(refused(named, path, text).hint)


def test_q5_a_join_does_not_tell_what_is_there(named: GuardedReader, path: Path) -> None:
    for listing in ("dbstat", "sqlite_stat1", "fts3tokenize"):
        error = refused(named, path, f"SELECT n.name FROM n NATURAL JOIN {listing}")
        assert isinstance(error, NoSuchTable)
    ours = "SELECT '_struct' || 'mem_meta' AS name UNION SELECT 't'"
    for join in ("NATURAL JOIN", "NATURAL LEFT JOIN", "NATURAL FULL JOIN", "NATURAL RIGHT JOIN"):
        found = query(named, f"SELECT name, type FROM ({ours}) {join} sqlite_schema").rows
        assert ("t", "table") in found
        assert ("_structmem_meta", "table") not in found


def test_q1_subqueries_without_names_can_be_joined(reader: GuardedReader) -> None:
    text = "SELECT x FROM (SELECT 1 AS x) FULL JOIN (SELECT 2 AS x) USING (x) ORDER BY 1"
    assert query(reader, text).rows == [(1,), (2,)]


def test_q5_a_table_may_be_called_like_a_table_function(path: Path) -> None:
    writer = guarded.plain(path)
    sql.run(writer, "CREATE TABLE dbstat(a); INSERT INTO dbstat VALUES (7)")
    sql.run(writer, "CREATE TABLE pragma_table_info(a); INSERT INTO pragma_table_info VALUES (8)")
    writer.close()
    reader = guarded.reader(path)
    assert query(reader, "SELECT a FROM dbstat").scalar() == 7
    assert query(reader, "SELECT a FROM pragma_table_info").scalar() == 8
    reader.close()


def _theirs(*values: object) -> int:
    return len(values)


def test_q5_a_definition_that_sqlite_does_not_read_again_is_named(path: Path) -> None:
    """Only other tools make such: a check that calls a function of theirs."""
    writer = guarded.plain(path)
    writer.create_scalar_function("theirs", _theirs, 1, deterministic=True)  # pyright: ignore[reportUnknownMemberType]
    sql.run(writer, "CREATE TABLE odd(a CHECK (theirs(a)))")
    writer.close()
    reader = guarded.reader(path)
    assert "'odd'" in refused(reader, path, "SELECT * FROM sqlite_schema").message
    reader.close()
