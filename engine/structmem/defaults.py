"""The default of a column, as SQLite gives it to a row that was there before the column."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from structmem import sql
from structmem.identifiers import INTERNAL_PREFIX, fold
from structmem.schema import Table, affinity
from structmem.values import same
from structmem_journal import Value

_SCRATCH: Final = f"{INTERNAL_PREFIX}default"
_TEXTS: Final = "SELECT name, dflt_value FROM pragma_table_xinfo(?)"
_IS_STRICT: Final = "SELECT strict FROM pragma_table_list(?) WHERE schema = 'main'"


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
    """What `columns` hold in a row that does not name them; None if that is not the same in every
    row and at every time, so that the text does not tell it.

    SQLite is asked, in a scratch database with tables of one column each: a default is converted
    as its column's type says. The other columns of the table, and its rules, play no part.
    """
    connection = apsw.Connection(":memory:")
    try:
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 1)
        sql.run(connection, table.text)
        texts = dict(sql.rows(connection, _TEXTS, (table.name,)))
        is_strict = sql.first(connection, _IS_STRICT, (table.name,)) == (1,)
        connection.authorizer = _no_functions
        types = {c.name: _type(c.type, is_strict=is_strict) for c in table.columns}
        return [_value(connection, types[name], texts[name]) for name in columns]
    except apsw.Error:
        return None
    finally:
        connection.close()


def _type(declared: str, *, is_strict: bool) -> str:
    """A type that converts values as the declared one does. In strict tables ANY converts none."""
    return "BLOB" if is_strict and fold(declared) == "any" else affinity(declared)


def _no_functions(code: int, *_names: str | None) -> int:
    """An authorizer. `CURRENT_TIMESTAMP` is a function to SQLite, too."""
    return apsw.SQLITE_DENY if code == apsw.SQLITE_FUNCTION else apsw.SQLITE_OK


def _value(connection: apsw.Connection, type_name: str, text: str | None) -> Value:
    if text is None:
        return None
    sql.run(connection, f"DROP TABLE IF EXISTS {_SCRATCH}")
    sql.run(connection, f"CREATE TABLE {_SCRATCH} (c {type_name} DEFAULT (\n{text}\n))")
    sql.run(connection, f"INSERT INTO {_SCRATCH} DEFAULT VALUES")
    row = sql.first(connection, f"SELECT c FROM {_SCRATCH}")
    return row[0] if row else None
