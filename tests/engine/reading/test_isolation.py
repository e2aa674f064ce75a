"""Q2: a query changes nothing, and leaves nothing behind. The known faults C08, C09, C10, C11.

The layers are tested each alone and all together.
"""

from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from structmem import sql
from structmem.bounds import Bounds, restrict
from structmem.connection import open_reader
from structmem.errors import (
    InvalidCall,
    NoSuchTable,
    WriteInQuery,
)
from structmem.guard import Gate, Guard, Names
from structmem.reading import GuardedReader, open_for_queries
from structmem.sandbox import Sandbox
from tests.engine.reading import guarded
from tests.engine.reading.guarded import query, refused

# -- Q2: nothing but reading -----------------------------------------------------------------------

SETTINGS = [
    "query_only=0",
    "writable_schema=1",
    "ignore_check_constraints=1",
    "recursive_triggers=1",
    "case_sensitive_like=1",
    "reverse_unordered_selects=1",
    "busy_timeout=1",
    "locking_mode=exclusive",
    "journal_mode=memory",
    "max_page_count=3",
    "temp_store=2",
    "wal_autocheckpoint=0",
    "legacy_alter_table=1",
    "trusted_schema=1",
    "read_uncommitted=1",
    "mmap_size=1000000",
    "foreign_keys=0",
    "defer_foreign_keys=1",
    "user_version=7",
    "synchronous=0",
    "encoding='UTF-16'",
    "hard_heap_limit=1000",
    "soft_heap_limit=1000",
    "application_id=1",
    "schema_version=9",
    "cache_size=1",
    "page_size=512",
    "secure_delete=1",
    "auto_vacuum=2",
    "incremental_vacuum",
    "wal_checkpoint(TRUNCATE)",
    "optimize",
    "shrink_memory",
    "data_version=1",
    "temp_store_directory='/tmp'",
    "threads=8",
    "cell_size_check=1",
    "analysis_limit=1",
    "nonsense=1",
]
FORMS = ["PRAGMA {}", "PRAGMA main.{}", "EXPLAIN PRAGMA {}", "EXPLAIN QUERY PLAN PRAGMA {}"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_c08_c09_no_setting_leaks(
    reader: GuardedReader, path: Path, setting: str, form: str
) -> None:
    error = refused(reader, path, form.format(setting))
    assert isinstance(error, WriteInQuery)
    other = guarded.plain(path)  # C09: the limit would be the whole process's
    sql.run(other, "INSERT INTO tasks(title) VALUES (printf('%.*c', 100000, 'x'))")
    with pytest.raises(apsw.ConstraintError):
        sql.run(other, "INSERT INTO tasks(title) VALUES ('')")
    other.close()


WRITES = [
    "INSERT INTO t(a) VALUES (1)",
    "INSERT INTO t(a) VALUES (1) RETURNING id",
    "REPLACE INTO t(id) VALUES (1)",
    "UPDATE t SET a = 1",
    "UPDATE t SET a = 1 RETURNING *",
    "DELETE FROM t",
    "WITH x AS (SELECT 1) DELETE FROM t",
    "WITH x AS (SELECT 1) INSERT INTO t(a) SELECT * FROM x",
    "EXPLAIN DELETE FROM t",
    "INSERT INTO sqlite_schema VALUES ('table', 'z', 'z', 2, 'CREATE TABLE z(a)')",
    "UPDATE _structmem_meta SET v = 1",
    "CREATE TABLE z(a)",
    "CREATE TABLE z AS SELECT * FROM t",
    "CREATE TEMP TABLE z(a)",
    "CREATE VIEW z AS SELECT 1",
    "CREATE TEMP VIEW t AS SELECT 1",
    "CREATE INDEX z ON t(a)",
    "CREATE TRIGGER z AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "CREATE TEMP TRIGGER z AFTER INSERT ON main.t BEGIN DELETE FROM t; END",
    "CREATE VIRTUAL TABLE z USING fts5(a)",
    "DROP TABLE t",
    "DROP INDEX tasks_by_status",
    "DROP VIEW names",
    "ALTER TABLE t ADD COLUMN z",
    "ALTER TABLE t RENAME TO z",
    "ANALYZE",
    "REINDEX",
    "REINDEX t",
    "VACUUM",
    "VACUUM INTO 'x.db'",
    "ATTACH 'new.db' AS z",
    "ATTACH 'file:x?mode=memory' AS m",
    "ATTACH ':memory:' AS m",
    "DETACH main",
    "BEGIN",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
]
SMUGGLED = [
    "COMMIT; DELETE FROM t",
    "END; DELETE FROM t; BEGIN",
    "ROLLBACK; DELETE FROM t; BEGIN",
    'RELEASE "_apsw-0"; DELETE FROM t; SAVEPOINT "_apsw-0"',
    "COMMIT; CREATE TEMP TRIGGER x AFTER INSERT ON main.t BEGIN DELETE FROM t; END; BEGIN",
    "COMMIT; CREATE TEMP TABLE t(a); BEGIN",
    "COMMIT; VACUUM INTO 'x.db'; BEGIN",
    "SELECT 1; DELETE FROM t",
    "SELECT * FROM t; COMMIT; DELETE FROM t",
    "SELECT 1; SELECT 2",
    "SELECT 1; nonsense",
    "; COMMIT",
]


@pytest.mark.parametrize("text", [*WRITES, *SMUGGLED])
def test_c10_c11_nothing_is_written(
    reader: GuardedReader, path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)  # where a file of a relative name would appear
    refused(reader, path, text)


@pytest.mark.parametrize("text", WRITES)
def test_q2_writes_are_told_from_mistakes(reader: GuardedReader, text: str) -> None:
    with pytest.raises((WriteInQuery, NoSuchTable)):
        query(reader, text)


def test_c11_another_memory_stays_out_of_reach(
    reader: GuardedReader, path: Path, tmp_path: Path
) -> None:
    other = guarded.make(tmp_path / "other.db")
    refused(reader, path, f"ATTACH '{other}' AS z")
    assert isinstance(refused(reader, path, "SELECT * FROM z.t"), NoSuchTable)
    refused(reader, path, "DETACH z")


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("INSERT INTO t(a) VALUES (1)", "insert"),
        ("/* c */ replace INTO t(a) VALUES (1)", "insert"),
        ("UPDATE t SET a = 1", "update"),
        ("WITH x AS (SELECT 1) DELETE FROM t", "delete"),
        ("EXPLAIN UPDATE t SET a = 1", "update"),
        ("-- c\nCREATE TABLE z(a)", "create_table"),
        ("CREATE UNIQUE INDEX z ON t(a)", "create_index"),
        ("DROP TABLE t", "drop_table"),
        ("DROP INDEX tasks_by_status", "drop_index"),
        ("ALTER TABLE t ADD COLUMN z", "add_column"),
        ("CREATE VIEW z AS SELECT 1", "execute"),
        ("COMMIT", "undo"),
    ],
)
def test_q2_the_error_names_the_operation_that_writes(
    reader: GuardedReader, text: str, operation: str
) -> None:
    with pytest.raises(WriteInQuery) as caught:
        query(reader, text)
    assert f"`{operation}`" in str(caught.value.hint)


FUNCTIONS_REFUSED = [
    "load_extension('x')",
    "sqlite_log(1, 'x')",
    "fts3_tokenizer('simple')",
    "rtreecheck('t')",
    "geopoly_area('[[0,0],[1,0],[0,1],[0,0]]')",
]


@pytest.mark.parametrize("call", FUNCTIONS_REFUSED)
def test_q2_functions_with_side_effects_do_not_exist(
    reader: GuardedReader, path: Path, call: str
) -> None:
    assert "no such function" in refused(reader, path, f"SELECT {call}").message


def test_q2_functions_that_sqlite_marks_are_all_refused() -> None:
    """SQLite marks functions with side effects as direct-only; a new one must be noticed here."""
    direct_only = 0x80000
    listed = sql.rows(
        apsw.Connection(":memory:"),
        "SELECT DISTINCT name FROM pragma_function_list WHERE flags & ?",
        (direct_only,),
    )
    guard = Guard()
    allowed = [
        name
        for (name,) in listed
        if guard(apsw.SQLITE_FUNCTION, None, name, None, None) == apsw.SQLITE_OK
    ]
    assert allowed == []


# -- Q2: the layers, each alone --------------------------------------------------------------------


def writable_sandbox(path: Path, gate: Gate) -> Sandbox[Gate]:
    return Sandbox(guarded.plain(path), gate)


DATA_WRITES = [text for text in WRITES if not text.startswith(("ATTACH", "DETACH", "VACUUM"))]


@pytest.mark.parametrize("text", [*DATA_WRITES, "PRAGMA user_version = 7", *SMUGGLED])
def test_q2_the_rollback_alone_holds_the_data(path: Path, text: str) -> None:
    """No guard, a connection that may write, and SQL that does run."""
    sandbox = writable_sandbox(path, Gate())
    before = guarded.content(path)
    sandbox.begin()
    with suppress(apsw.Error, InvalidCall), sandbox.run(sandbox.examine(text), ()) as rows:
        list(rows)
    sandbox.end()
    assert guarded.content(path) == before
    assert not sandbox.connection.in_transaction
    sandbox.close()


def test_q2_the_rollback_is_not_idle(path: Path) -> None:
    """In the test above the statement really runs: within the transaction its effect shows."""
    sandbox = writable_sandbox(path, Gate())
    sandbox.begin()
    with sandbox.run(sandbox.examine("DELETE FROM t"), ()) as rows:
        assert list(rows) == []
    with sandbox.run(sandbox.examine("SELECT count(*) FROM t"), ()) as rows:
        assert list(rows) == [(0,)]
    sandbox.end()
    sandbox.begin()
    with sandbox.run(sandbox.examine("SELECT count(*) FROM t"), ()) as rows:
        assert list(rows) == [(3,)]
    sandbox.end()
    sandbox.close()


@pytest.mark.parametrize("text", ["COMMIT", "END", "ROLLBACK", "SAVEPOINT s", "RELEASE s"])
def test_q2_the_gate_alone_keeps_the_transaction(path: Path, text: str) -> None:
    sandbox = writable_sandbox(path, Gate())
    sandbox.begin()
    with pytest.raises(apsw.AuthError):
        sandbox.examine(text)
    assert sandbox.connection.in_transaction
    sandbox.end()
    sandbox.close()


NOT_ASKED = ["VACUUM", "VACUUM INTO 'x.db'", "REINDEX", "REINDEX t"]


@pytest.mark.parametrize("text", [text for text in WRITES if text not in NOT_ASKED])
def test_q2_the_guard_alone_refuses(path: Path, text: str) -> None:
    """A connection that may write, in autocommit. (SQLite asks no authorizer about VACUUM; about
    REINDEX only for each index.)"""
    connection = guarded.plain(path)
    guard = Guard()
    guard.know(Names(tables=frozenset(["t", "tasks", "o"]), views=frozenset(["names"])))
    connection.authorizer = guard
    before = guarded.content(path)
    with pytest.raises((apsw.AuthError, apsw.SQLError)):
        sql.run(connection, text)
    assert guarded.content(path) == before
    connection.close()


@pytest.mark.parametrize("text", [*WRITES, *SMUGGLED])
def test_q2_the_read_only_file_alone_holds_the_data(path: Path, text: str) -> None:
    """In autocommit, without a guard, several statements at once."""
    connection = open_reader(path)
    before = guarded.content(path)
    with suppress(apsw.Error):
        sql.run(connection, text.replace("x.db", str(path.parent.parent / "copy.db")))
    assert guarded.content(path) == before
    connection.close()


@pytest.mark.parametrize("text", ["CREATE TEMP TABLE z(a)", "CREATE TEMP VIEW t AS SELECT 1"])
def test_q2_the_connection_alone_refuses_temporary_objects(path: Path, text: str) -> None:
    """A read-only file does not keep SQLite from making tables beside it."""
    connection = open_for_queries(path, Bounds.allowing(1 << 20))
    with pytest.raises(apsw.ReadOnlyError):
        sql.run(connection, text)
    connection.close()


def test_q2_the_limits_alone_refuse(path: Path) -> None:
    connection = guarded.plain(path)
    restrict(connection, Bounds.allowing(1 << 20))
    with pytest.raises(apsw.SQLError, match="too many attached"):
        sql.run(connection, "ATTACH ':memory:' AS z")
    with pytest.raises(apsw.TooBigError):
        sql.run(connection, "SELECT zeroblob(3000000)")
    with pytest.raises(apsw.NoMemError):
        sql.run(connection, f"SELECT 1 IN ({', '.join(map(str, range(20_000)))})")
    connection.close()


def test_no_statement_stays_compiled(reader: GuardedReader) -> None:
    """A statement that was compiled for us would not be authorized for the model."""
    query(reader, "SELECT 1")
    assert reader.sandbox.connection.cache_stats()["size"] == 0
    refused_text = "SELECT type, name, tbl_name, sql FROM main.sqlite_schema"
    with reader.sandbox.gate.ours():
        assert sql.rows(reader.sandbox.connection, refused_text)
    names = [row[1] for row in query(reader, refused_text).rows]
    assert not any(str(name).startswith("_structmem_") for name in names)
