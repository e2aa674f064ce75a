"""The user's schema without the memory: a private database in which only that much exists.

`sqlite_schema`, `pragma_table_info` and their like would show the memory's own tables, and an
authorizer cannot hide rows. So questions about the schema are answered by a clone: a `:memory:`
database made by running the texts of the user's objects. There is no data in it and nothing of
ours, so it has nothing to leak; names that are wrong fail on it just as they should.

Making one takes about 8 ms per 100 tables.
"""

import re
from collections.abc import Iterable, Sequence

import apsw

from structmem import functions, schema, sql
from structmem.bounds import Bounds, restrict
from structmem.connection import hide_listings
from structmem.errors import InvalidCall
from structmem.guard import Guard, Names
from structmem.identifiers import fold
from structmem.sandbox import Sandbox
from structmem.schema import SchemaObject

Columns = dict[str, list[str]]
"""The column names of each table and view."""


class SchemaClone:
    """The clone of a schema with these `objects`, under a guard that notes what is read.

    Raises `InvalidCall` for a text that SQLite does not run again, which only other tools store.
    """

    def __init__(self, objects: Sequence[SchemaObject], names: Names, bounds: Bounds) -> None:
        connection = _empty()
        for each in objects:
            _create(connection, each)
        pages = schema.pages(connection)
        self.columns: Columns = schema.column_names(connection)
        _close_to_writing(connection)
        functions.register(connection, bounds.value_bytes)
        restrict(connection, bounds)
        guard = Guard()
        guard.know(names, pages)
        self.sandbox = Sandbox(connection, guard)


def columns_near(columns: Columns, text: str) -> Iterable[str]:
    """The columns of the tables that `text` names; of all when it names none."""
    folded = fold(text)
    named = [
        names
        for table, names in columns.items()
        if re.search(rf"(?<!\w){re.escape(fold(table))}(?!\w)", folded)
    ]
    return [name for names in named or columns.values() for name in names]


def _empty() -> apsw.Connection:
    connection = apsw.Connection(":memory:", statementcachesize=0)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    # Texts that other tools stored may have strings in double quotes.
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 1)
    return connection


def _close_to_writing(connection: apsw.Connection) -> None:
    """Set a finished clone as connections to the file are set."""
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    sql.pragma(connection, "temp_store", "MEMORY")
    sql.pragma(connection, "query_only", 1)
    hide_listings(connection)


def _create(connection: apsw.Connection, each: SchemaObject) -> None:
    try:
        sql.run(connection, each.text)
    except apsw.Error as error:
        raise InvalidCall(
            f"SQLite cannot read the definition of the {each.kind} {each.name!r}: {error}.",
            hint="`describe` shows the schema as it is stored.",
        ) from error
