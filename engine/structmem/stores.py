"""Stores: plain tables in which rows wait while their table is away.

A dropped table is dropped for real, so that its foreign keys, triggers and indexes do nothing and
its names are free. Its rows go into a store: columns without types, keys or checks, which keep each
value and rowid exactly as it is. The texts of the table and of what belonged to it stand in the
journal.

Invariants:

- A store holds the rows of one table, and goes when they go back, or when the operation that made
  it leaves the history.
- Its name is one of the memory's own, so neither queries nor capture see it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import apsw

from structmem import sql
from structmem.identifiers import INTERNAL_PREFIX, quote
from structmem.misfits import Misfit
from structmem.schema import Table

_HIDDEN: Final = re.compile(rf"{INTERNAL_PREFIX}hidden_([1-9][0-9]*)")


def name_for(seq: int) -> str:
    """The store of a table that operation `seq` drops."""
    return f"{INTERNAL_PREFIX}hidden_{seq}"


def names(connection: apsw.Connection) -> dict[str, int]:
    """The stores of dropped tables, each with the seq of the operation that made it."""
    found = sql.rows(connection, "SELECT name FROM main.sqlite_schema WHERE type = 'table'")
    matches = [_HIDDEN.fullmatch(name) for (name,) in found]
    return {match[0]: int(match[1]) for match in matches if match is not None}


def put(connection: apsw.Connection, table: Table, store: str, columns: Sequence[str]) -> int:
    """Make `store`, and move all rows of `table` into it, with these columns. Returns their
    count."""
    width = len(columns)
    sql.run(connection, f"CREATE TABLE main.{quote(store)} ({_columns(width)})")
    sql.run(
        connection,
        f"INSERT INTO main.{quote(store)} (rowid, {_columns(width)})"
        f" SELECT {table.rowid_name}, {', '.join(map(quote, columns))}"
        f" FROM main.{quote(table.name)} ORDER BY {table.rowid_name}",
    )
    moved = connection.changes()
    # Not kept compiled: compiled while nobody watches changes, it would pass the watcher later.
    with sql.once(connection, f"DELETE FROM main.{quote(table.name)}"):
        pass
    return moved


def take(
    connection: apsw.Connection, store: str, table: Table, columns: Sequence[str | None]
) -> int:
    """Move all rows of `store` into `table`, which must be empty, and drop it. `columns` has the
    column of the table for each of the store's; None leaves that one behind. Returns their
    count."""
    if sql.first(connection, f"SELECT 1 FROM main.{quote(table.name)} LIMIT 1") is not None:
        raise Misfit(f"table {table.name!r}", "no rows", "some")
    names = [(f"c{i}", quote(name)) for i, name in enumerate(columns) if name is not None]
    if table.integer_key is None:  # an integer key *is* the rowid
        names.insert(0, ("rowid", table.rowid_name))
    sql.run(
        connection,
        f"INSERT OR ABORT INTO main.{quote(table.name)} ({', '.join(to for _, to in names)})"
        f" SELECT {', '.join(of for of, _ in names)} FROM main.{quote(store)} ORDER BY rowid",
    )
    moved = connection.changes()
    drop(connection, store)
    return moved


def drop(connection: apsw.Connection, store: str) -> None:
    sql.run(connection, f"DROP TABLE main.{quote(store)}")


def count(connection: apsw.Connection, name: str) -> int:
    """The rows of a table or store."""
    row = sql.first(connection, f"SELECT count(*) FROM main.{quote(name)}")
    return row[0] if row else 0


def rows(connection: apsw.Connection, store: str) -> Iterator[tuple[Any, ...]]:
    """Every row, `(rowid, value, …)`, by ascending rowid."""
    return sql.each(connection, f"SELECT rowid, * FROM main.{quote(store)} ORDER BY rowid")


def _columns(width: int) -> str:
    return ", ".join(f"c{i}" for i in range(width))
