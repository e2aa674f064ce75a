"""The other side of the comparison: the same work by APSW alone, one transaction an operation."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from structmem import sql

TABLE = "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, score)"
INSERT = "INSERT INTO items (name, score) VALUES (?, ?)"
UPDATE = "UPDATE items SET score = ? WHERE id = ?"
UPDATE_ALL = "UPDATE items SET score = ?"
SELECT = "SELECT name, score FROM items WHERE id = ?"


def opened(path: Path, synchronous: str) -> apsw.Connection:
    """A file of its own with one table, under the settings that a memory's file has."""
    connection = apsw.Connection(str(path))
    sql.pragma(connection, "auto_vacuum", "INCREMENTAL")
    sql.pragma(connection, "journal_mode", "WAL")
    sql.pragma(connection, "synchronous", synchronous)
    sql.pragma(connection, "foreign_keys", 1)
    sql.run(connection, TABLE)
    return connection


@contextmanager
def transaction(connection: apsw.Connection) -> Generator[None]:
    sql.run(connection, "BEGIN IMMEDIATE")
    yield
    sql.run(connection, "COMMIT")


def write(connection: apsw.Connection, statement: str, params: Iterable[Any]) -> None:
    """One statement, in one transaction."""
    with transaction(connection):
        sql.run(connection, statement, tuple(params))


def write_many(connection: apsw.Connection, statement: str, rows: Iterable[sql.Params]) -> None:
    """One statement for each set of parameters, in one transaction."""
    with transaction(connection):
        sql.run_many(connection, statement, rows)
