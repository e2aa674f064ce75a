"""A file for tests of the read path, and the proof that nothing in it changed.

It is made with plain SQLite: a few tables of a user's, and tables with the memory's own prefix.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from structmem import sql
from structmem.errors import InvalidCall
from structmem.identifiers import quote
from structmem.limits import MAX_VALUE_BYTES
from structmem.reading import GuardedReader
from structmem.results import QueryResult
from structmem.sandbox import Sandbox

SECRET = "do not show this"

SCHEMA = f"""
CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT);
INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z');
CREATE TABLE o(id INTEGER PRIMARY KEY AUTOINCREMENT, s);
INSERT INTO o VALUES (2, 'q'), (99, 'sec');
CREATE TABLE tasks(title TEXT CHECK (title <> ''), status, t_id REFERENCES t(id), deleted_at);
INSERT INTO tasks VALUES ('call', 'open', 1, NULL), ('write', 'done', 2, 'now');
CREATE INDEX tasks_by_status ON tasks(status);
CREATE VIEW open_tasks AS SELECT title, t_id FROM tasks WHERE status = 'open';
CREATE VIEW names AS SELECT name FROM sqlite_schema;
CREATE TABLE _structmem_meta(k PRIMARY KEY, v);
INSERT INTO _structmem_meta VALUES ('secret', '{SECRET}');
CREATE TABLE _structmem_journal(seq INTEGER PRIMARY KEY, header BLOB);
CREATE INDEX _structmem_by_header ON _structmem_journal(header);
INSERT INTO _structmem_journal VALUES (1, x'00');
"""

RECURSION = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"

# Without a value these do something, or read all the data; any other PRAGMA tells a setting.
_ACTING = {
    *("foreign_key_check", "incremental_vacuum", "integrity_check", "optimize", "quick_check"),
    *("shrink_memory", "wal_checkpoint", "data_version"),
}
# Tell the same of every connection, at length; or, without a value, what the content tells.
_CONSTANT = {"compile_options", "function_list", "module_list", "pragma_list"}
_TOLD_ELSEWHERE = {"database_list", "table_list"}
_SETTINGS = sorted(
    name
    for (name,) in sql.rows(apsw.Connection(":memory:"), "SELECT name FROM pragma_pragma_list")
    if name not in _ACTING | _CONSTANT | _TOLD_ELSEWHERE
)
_FLAGS = [
    *(apsw.SQLITE_DBCONFIG_DEFENSIVE, apsw.SQLITE_DBCONFIG_DQS_DDL, apsw.SQLITE_DBCONFIG_DQS_DML),
    *(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER),
    *(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION),
    *(apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE),
    *(apsw.SQLITE_DBCONFIG_ENABLE_COMMENTS, apsw.SQLITE_DBCONFIG_ENABLE_QPSG),
    *(apsw.SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, apsw.SQLITE_DBCONFIG_LEGACY_FILE_FORMAT),
    *(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, apsw.SQLITE_DBCONFIG_RESET_DATABASE),
    *(apsw.SQLITE_DBCONFIG_REVERSE_SCANORDER, apsw.SQLITE_DBCONFIG_TRIGGER_EQP),
    *(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA),
]
_LIMITS = [number for number in apsw.mapping_limits if isinstance(number, int)]


def make(path: Path) -> Path:
    """The file, in WAL mode."""
    with_wal = apsw.Connection(str(path))
    sql.pragma(with_wal, "journal_mode", "wal")
    sql.pragma(with_wal, "synchronous", "off")
    sql.run(with_wal, SCHEMA)
    with_wal.close()
    return path


def reader(path: Path, *, max_value_bytes: int = MAX_VALUE_BYTES) -> GuardedReader:
    return GuardedReader(path, max_value_bytes=max_value_bytes)


def plain(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path))


def query(reader: GuardedReader, text: str, params: Any = (), **options: Any) -> QueryResult:
    options.setdefault("timeout", 10.0)
    return reader.query(text, params, **options)


def refused(reader: GuardedReader, path: Path, text: Any, **options: Any) -> InvalidCall:
    """The error, after asserting that nothing changed and the next query works."""
    with unchanged(path, reader.sandbox), pytest.raises(InvalidCall) as caught:
        query(reader, text, **options)
    assert query(reader, "SELECT count(*) FROM t").scalar() == 3
    return caught.value


@contextmanager
def unchanged(path: Path, sandbox: Sandbox[Any]) -> Generator[None]:
    """Assert that the block changes nothing: not the file's content or schema, not the directory,
    not the sandbox's connection, not the process's limits of SQLite."""
    before = state(path, sandbox)
    yield
    after = state(path, sandbox)
    changed = {what: (before[what], after[what]) for what in before if after[what] != before[what]}
    assert changed == {}, changed


def state(path: Path, sandbox: Sandbox[Any]) -> dict[str, object]:
    return {
        "content": content(path),
        "files": _files(path),
        "heap": (apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1)),
        **_connection_state(sandbox),
    }


def _files(path: Path) -> list[str]:
    """The files in the directory, but for SQLite's own beside this one."""
    beside = {f"{path.name}-wal", f"{path.name}-shm"}
    return sorted(file.name for file in path.parent.iterdir() if file.name not in beside)


def content(path: Path) -> dict[str, object]:
    """The schema and every row of the file, our own tables included."""
    connection = plain(path)
    schema = sql.rows(connection, "SELECT type, name, sql FROM sqlite_schema ORDER BY rowid")
    tables = [name for kind, name, _text in schema if kind == "table"]
    rows = {name: _rows(connection, name) for name in tables}
    connection.close()
    return {"schema": schema, "rows": rows}


def _rows(connection: apsw.Connection, table: str) -> list[tuple[Any, ...]]:
    """With their rowids, where the table has them."""
    listed = sql.rows(connection, "SELECT wr FROM pragma_table_list(?)", (table,))
    rowid = "" if listed == [(1,)] else "rowid, "
    return sql.rows(connection, f"SELECT {rowid}* FROM {quote(table)}")


def _connection_state(sandbox: Sandbox[Any]) -> dict[str, object]:
    connection = sandbox.connection
    with sandbox.gate.ours():
        settings = {name: sql.rows(connection, f"PRAGMA {name}") for name in _SETTINGS}
        temporary = sql.rows(connection, "SELECT * FROM sqlite_temp_schema")
        behaviour = sql.rows(connection, "SELECT 'a' LIKE 'A', instr('ab', 'b'), changes()")
        databases = sql.rows(connection, "PRAGMA database_list")  # temp is there once it is read
    return {
        "settings": settings,
        "databases": databases,
        "temporary": temporary,
        "in_transaction": connection.in_transaction,
        "limits": [connection.limit(limit, -1) for limit in _LIMITS],
        "flags": [connection.config(flag, -1) for flag in _FLAGS],
        "behaviour": behaviour,
    }
