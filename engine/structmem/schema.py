"""The schema: reading it, and saying it to a model.

SQLite keeps the text of every object; that text is the schema, here and in the journal.
Descriptions are SQL comments inside it, so they travel, replay and undo with it.

Our own tables begin with `_structmem_` and are left out of everything that this module returns.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from time import monotonic
from typing import Final, Literal

import apsw
from msgspec import Struct

from structmem import sql
from structmem.errors import InvalidCall, NoSuchTable, shown
from structmem.identifiers import fold, is_internal, nearest, quote
from structmem.limits import VIEWS_S
from structmem_journal import invariant

Affinity = Literal["BLOB", "TEXT", "NUMERIC", "INTEGER", "REAL"]

_KINDS = {"virtual": "a virtual table", "shadow": "a part of a virtual table"}
ROWID_NAMES = ("rowid", "_rowid_", "oid")
"""What SQLite calls the rowid, unless a column has the name."""

Texts = tuple[tuple[str, str | None], ...]
"""Objects by name and text; an index that belongs to a constraint has no text of its own."""

_read: dict[Texts, "Table"] = {}
"""Tables by the texts that make them what they are: equal texts need not be read again, in whatever
file they stand. Replay asks for a table with every record."""
_READ_MAX = 1_000


class ColumnInfo(Struct, frozen=True):
    """A column as SQLite knows it. `generated` columns are computed and cannot be written."""

    name: str
    type: str
    generated: bool


class UniqueIndex(Struct, frozen=True):
    """A unique index. `columns` are indexes into the table's columns; `plain` is false when it is
    partial, or on an expression or generated column, so that `columns` do not tell it all."""

    columns: frozenset[int]
    plain: bool


class Table(Struct, frozen=True, dict=True):
    """An ordinary table of the user's.

    `rowid_name` is an SQL identifier (quoted) that means the rowid, whatever the columns are
    called. `integer_key` is the column that *is* the rowid, if there is one.
    """

    name: str
    text: str
    columns: tuple[ColumnInfo, ...]
    rowid_name: str
    integer_key: str | None
    unique: tuple[UniqueIndex, ...]

    @cached_property
    def stored(self) -> list[str]:
        """The columns that hold values of their own, in order."""
        return [column.name for column in self.columns if not column.generated]

    @cached_property
    def image(self) -> str:
        """SQL for the rowid and the stored columns of the table under the alias `t`."""
        return ", ".join([f"t.{self.rowid_name}", *(f"t.{quote(name)}" for name in self.stored)])

    def column(self, name: str) -> ColumnInfo | None:
        return self._by_name.get(fold(name))

    @cached_property
    def _by_name(self) -> dict[str, ColumnInfo]:
        return {fold(column.name): column for column in self.columns}


SCHEMA_PAGE: Final = 1
"""The root page of SQLite's schema table, in every database."""


class SchemaObject(Struct, frozen=True):
    """One row of `sqlite_schema`: `kind` is table, index, view or trigger."""

    kind: str
    name: str
    table: str
    text: str


def schema_version(connection: apsw.Connection) -> int:
    """SQLite's counter of schema changes, by anyone. (As a statement it stays compiled, which
    `Connection.pragma` never does.)"""
    row = sql.first(connection, "PRAGMA schema_version")
    return row[0] if row else 0


def objects(connection: apsw.Connection) -> list[SchemaObject]:
    """The user's objects in the order in which they were made.

    Indexes that belong to a constraint have no text of their own and are left out.
    """
    rows = sql.each(
        connection,
        "SELECT type, name, tbl_name, sql FROM main.sqlite_schema"
        " WHERE sql IS NOT NULL ORDER BY rowid",
    )
    found = [SchemaObject(*row) for row in rows]
    return [o for o in found if not is_internal(o.table) and not fold(o.name).startswith("sqlite_")]


def pages(connection: apsw.Connection) -> dict[int, str]:
    """The table that each root page in the file belongs to, its own or that of an index of it."""
    text = "SELECT rootpage, tbl_name FROM main.sqlite_schema WHERE rootpage > 0"
    return {SCHEMA_PAGE: "sqlite_schema", **dict(sql.each(connection, text))}


def names_of(connection: apsw.Connection, *kinds: str) -> list[str]:
    return [o.name for o in objects(connection) if o.kind in kinds]


def internal_names(connection: apsw.Connection) -> frozenset[str]:
    """The names of everything of our own in the file."""
    rows = sql.each(connection, "SELECT name, tbl_name FROM main.sqlite_schema")
    return frozenset(name for name, table in rows if is_internal(name) or is_internal(table))


def modules(connection: apsw.Connection) -> frozenset[str]:
    """SQLite's table functions, folded."""
    # As a statement: a user's table called pragma_module_list would hide the function.
    return frozenset(fold(name) for (name,) in sql.rows(connection, "PRAGMA module_list"))


def is_view(connection: apsw.Connection, name: str) -> bool:
    return _is_there(connection, "view", name)


def is_table(connection: apsw.Connection, name: str) -> bool:
    return _is_there(connection, "table", name)


def _is_there(connection: apsw.Connection, kind: str, name: str) -> bool:
    found = "SELECT 1 FROM main.sqlite_schema WHERE type = ? AND name = ? COLLATE NOCASE"
    return sql.first(connection, found, (kind, name)) is not None


def is_without_rowid(connection: apsw.Connection, table: str) -> bool:
    listed = _listing(connection, table)
    return listed is not None and listed[2]


def column_names(connection: apsw.Connection) -> dict[str, list[str]]:
    """The names of the columns of each table and view, for hints. A view for which there is no time
    has none: SQLite compiles it, and what it reads, to know them."""
    found = objects(connection)
    names = {o.name: columns_of(connection, o.name) for o in found if o.kind == "table"}
    end = monotonic() + VIEWS_S
    for view in (o.name for o in found if o.kind == "view"):
        names[view] = columns_of(connection, view) if monotonic() < end else []
    return names


def columns_of(connection: apsw.Connection, name: str) -> list[str]:
    """The names of the columns of a table or view; none if they cannot be known."""
    try:
        listed = sql.rows(connection, "SELECT name FROM pragma_table_xinfo(?)", (name,))
    except apsw.SQLError:  # a view of something that is gone
        return []
    return [column for (column,) in listed]


def defaults(connection: apsw.Connection, table: str) -> list[tuple[str, str]]:
    """The columns of `table` that have a default, each with its text."""
    listed = sql.rows(
        connection,
        "SELECT name, dflt_value FROM pragma_table_xinfo(?) WHERE dflt_value IS NOT NULL",
        (table,),
    )
    return [(name, text) for name, text in listed]


def triggers_in_order(connection: apsw.Connection) -> list[tuple[str, str]]:
    """(table, trigger), by table; those of one table in the order in which they were made."""
    found = [o for o in objects(connection) if o.kind == "trigger"]
    return [(o.table, o.name) for o in sorted(found, key=lambda o: fold(o.table))]


# -- reading one table ---------------------------------------------------------------------------


def load_table(connection: apsw.Connection, name: str) -> Table:
    """The table called `name` (ASCII case ignored).

    Raises `NoSuchTable`, naming the nearest, and `InvalidCall` for what is there but is not an
    ordinary table: a view, a virtual table, one without rowids.
    """
    listed = None if is_internal(name) else _listing(connection, name)
    if listed is None:
        raise _no_such_table(connection, name)
    found, kind, without_rowid = listed
    if kind != "table" or without_rowid:
        what = "a table WITHOUT ROWID" if kind == "table" else _KINDS.get(kind, f"a {kind}")
        raise InvalidCall(
            f"{found!r} is {what}; it can be queried, but not written with this operation."
        )
    texts = _texts_about(connection, found)
    if texts not in _read:
        if len(_read) >= _READ_MAX:
            _read.clear()
        _read[texts] = _read_table(connection, found)
    return _read[texts]


def _texts_about(connection: apsw.Connection, table: str) -> Texts:
    """The table and its indexes, as `sqlite_schema` has them. They say all that a `Table` says."""
    rows = sql.each(
        connection,
        "SELECT name, sql FROM main.sqlite_schema"
        " WHERE tbl_name = ? COLLATE NOCASE AND type IN ('table', 'index') ORDER BY rowid",
        (table,),
    )
    return tuple(rows)


def _read_table(connection: apsw.Connection, found: str) -> Table:
    columns = tuple(_columns(connection, found))
    unique = tuple(_unique_indexes(connection, found, columns))
    integer_key = _integer_key(connection, found)
    return Table(
        name=found,
        text=_text_of(connection, found),
        columns=columns,
        rowid_name=_rowid_name(found, columns, integer_key),
        integer_key=integer_key,
        unique=unique,
    )


def _listing(connection: apsw.Connection, name: str) -> tuple[str, str, bool] | None:
    """(name as stored, kind, WITHOUT ROWID?) of a table or view in the file.

    Not asked of `pragma_table_list`: for one name it compiles every view of the file, and nested
    ones take minutes.
    """
    row = sql.first(connection, _LISTED, (name,))
    if row is None or fold(row[0]).startswith("sqlite_"):
        return None
    found, kind, is_virtual, may_be_shadow = row
    if kind == "table" and (is_virtual or (may_be_shadow and _is_shadow(connection, found))):
        kind = "virtual" if is_virtual else "shadow"
    # The one index that has the name of a table is the table itself, WITHOUT ROWID.
    index = sql.first(connection, "SELECT 1 FROM pragma_index_info(?, 'main')", (found,))
    return found, kind, index is not None


_LISTED: Final = """
    SELECT name, type, rootpage = 0, EXISTS (
        SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0
    )
    FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE
"""
"""A table that has no page is a virtual one; only where there is one can others be its parts."""


def _is_shadow(connection: apsw.Connection, table: str) -> bool:
    """Whether a virtual table, which only another tool can have made, keeps its data in `table`.
    The names must fit, and SQLite must say so: it knows which of them the module uses."""
    listed = sql.rows(
        connection, "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0"
    )
    if not any(fold(table).startswith(f"{fold(name)}_") for (name,) in listed):
        return False
    asked = "SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main' AND type = 'shadow'"
    return sql.first(connection, asked, (table,)) is not None


def _no_such_table(connection: apsw.Connection, name: str) -> NoSuchTable:
    names = names_of(connection, "table")
    close = nearest(name, names)
    if close is not None:
        return NoSuchTable(f"There is no table {shown(name)}.", hint=f"Did you mean {close!r}?")
    known = ", ".join(map(repr, names[:20])) or "none yet"
    return NoSuchTable(f"There is no table {shown(name)}.", hint=f"The tables are: {known}.")


def _columns(connection: apsw.Connection, table: str) -> Iterator[ColumnInfo]:
    rows = sql.each(
        connection, "SELECT name, type, hidden FROM pragma_table_xinfo(?) ORDER BY cid", (table,)
    )
    for name, declared, hidden in rows:
        yield ColumnInfo(name, declared, generated=hidden in (2, 3))


def _unique_indexes(
    connection: apsw.Connection, table: str, columns: Sequence[ColumnInfo]
) -> Iterator[UniqueIndex]:
    listed = sql.rows(
        connection, 'SELECT name, partial FROM pragma_index_list(?) WHERE "unique"', (table,)
    )
    for index, partial in listed:
        keys: list[int] = [
            cid
            for (cid,) in sql.rows(
                connection, "SELECT cid FROM pragma_index_xinfo(?) WHERE key", (index,)
            )
        ]
        odd = partial or any(cid < 0 or columns[cid].generated for cid in keys)
        yield UniqueIndex(frozenset(cid for cid in keys if cid >= 0), plain=not odd)


def _integer_key(connection: apsw.Connection, table: str) -> str | None:
    """The column that is an alias of the rowid. A primary key that is none has an index of its own
    (`INT PRIMARY KEY` and `INTEGER PRIMARY KEY DESC` are such)."""
    keys = sql.rows(connection, "SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0", (table,))
    indexed = sql.first(
        connection, "SELECT 1 FROM pragma_index_list(?) WHERE origin = 'pk'", (table,)
    )
    return keys[0][0] if len(keys) == 1 and indexed is None else None


def _text_of(connection: apsw.Connection, table: str) -> str:
    row = sql.first(
        connection,
        "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?",
        (table,),
    )
    invariant(row is not None, f"the table {table!r} was listed and has a text")
    return row[0] if row else ""


def _rowid_name(table: str, columns: Sequence[ColumnInfo], integer_key: str | None) -> str:
    name = free_rowid_name(column.name for column in columns)
    if name is not None:
        return name
    if integer_key is not None:
        return quote(integer_key)
    raise InvalidCall(
        f"The columns of {table!r} leave no name for its rowid; it can only be queried.",
        hint="Make a table without a column called rowid, oid or _rowid_, and copy the rows.",
    )


def free_rowid_name(columns: Iterable[str]) -> str | None:
    """The first of SQLite's names for the rowid that no column takes, quoted."""
    taken = {fold(name) for name in columns}
    return next((quote(name) for name in ROWID_NAMES if name not in taken), None)


@lru_cache(maxsize=1_000)
def affinity(declared: str) -> Affinity:
    """The affinity of a declared type, by the rules of
    https://www.sqlite.org/datatype3.html#determination_of_column_affinity."""
    words = fold(declared)
    if "int" in words:
        return "INTEGER"
    if any(part in words for part in ("char", "clob", "text")):
        return "TEXT"
    if "blob" in words or not words:
        return "BLOB"
    if any(part in words for part in ("real", "floa", "doub")):
        return "REAL"
    return "NUMERIC"


# -- saying it -----------------------------------------------------------------------------------


def describe(connection: apsw.Connection) -> str:
    """Every object's `CREATE` statement, as SQL that runs, in an order that depends on names alone.

    Each table is followed by its indexes; then come the views, then the triggers, those of one
    table in the order in which they were made, because that decides the order in which they fire.
    """
    found = objects(connection)
    by_kind = {kind: [o for o in found if o.kind == kind] for kind in ("table", "view", "trigger")}
    ordered: list[SchemaObject] = []
    for table in sorted(by_kind["table"], key=_by_name):
        own = [o for o in found if o.kind == "index" and fold(o.table) == fold(table.name)]
        ordered += [table, *sorted(own, key=_by_name)]
    ordered += sorted(by_kind["view"], key=_by_name)
    ordered += sorted(by_kind["trigger"], key=lambda o: fold(o.table))  # stable: keeps firing order
    return "".join(f"{_closed(o.text)}\n" for o in ordered)


def _by_name(o: SchemaObject) -> tuple[str, str]:
    return fold(o.name), o.name


def _closed(text: str) -> str:
    """`text` with its semicolon, on a line of its own where a comment would swallow it."""
    return text + ("\n;" if "--" in text.rpartition("\n")[2] else ";")
