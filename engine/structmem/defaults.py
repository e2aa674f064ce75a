"""The default of a column, as SQLite gives it to a row that was there before the column."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from structmem import sql
from structmem.identifiers import fold, quote
from structmem.schema import Table
from structmem.values import same
from structmem_journal import Value


def first_other(rows: Iterable[Sequence[Any]], table: Table, columns: Sequence[str]) -> int | None:
    """The rowid of the first of `rows` (`rowid, value, …`) that does not hold what these columns of
    `table` have by default; None if all do."""
    wanted: Sequence[Value] | None = None
    for rowid, *found in rows if columns else ():
        wanted = wanted or _of_new_row(table, columns)
        if wanted is None or not all(map(same, found, wanted)):
            return rowid
    return None


def _of_new_row(table: Table, columns: Sequence[str]) -> Sequence[Value] | None:
    """What `columns` hold in a row that does not name them; None if there can be no such row.

    SQLite is asked, in a scratch database with this one table: a default may be an identifier that
    stands for text, and is converted as its column's type says.
    """
    connection = apsw.Connection(":memory:")
    try:
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 1)
        sql.pragma(connection, "ignore_check_constraints", 1)
        sql.run(connection, table.text)
        given = {c.name: c.type for c in table.columns if not c.generated and c.name not in columns}
        # A strict BLOB column takes no number; the other types take one.
        values = [b"" if fold(declared) == "blob" else 0 for declared in given.values()]
        sql.run(connection, _insert(table.name, list(given)), values)
        names = ", ".join(map(quote, columns))
        return sql.first(connection, f"SELECT {names} FROM {quote(table.name)}")
    except apsw.Error:
        return None
    finally:
        connection.close()


def _insert(table: str, columns: Sequence[str]) -> str:
    if not columns:
        return f"INSERT INTO {quote(table)} DEFAULT VALUES"
    names, marks = ", ".join(map(quote, columns)), ", ".join("?" * len(columns))
    return f"INSERT INTO {quote(table)} ({names}) VALUES ({marks})"
