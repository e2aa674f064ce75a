"""Tables and their columns: creating and dropping them, with reasons in words when it cannot be.

Invariants:

- Nothing is dropped that the memory could not bring back: `drop_table` sets the rows aside in a
  store, by the same effects that a replica applies.
- Where SQLite would refuse in a way that does not name the cause, the cause is looked for first.
"""

from msgspec import UNSET

from structmem import definitions, foreign_keys, images, schema, sql, stores
from structmem.columns import COLUMNS_MAX, defaults_like_sql
from structmem.errors import (
    ConstraintFailed,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    TableExists,
    shown,
)
from structmem.identifiers import fold, nearest, quote
from structmem.limits import SQL_TEXT_BYTES_MAX
from structmem.results import Column, Reference
from structmem.schema import Table, load_table
from structmem.writing import Change, Transaction
from structmem_journal import Effect, Hidden, SchemaChanged, SequenceChanged


def create_table(
    tx: Transaction,
    table: str,
    columns: list[Column],
    *,
    description: str | None,
    if_not_exists: bool,
) -> Change:
    """Create it, unless the very same one is there and `if_not_exists` says that this is fine."""
    text = _check_length(definitions.table_text(table, columns, description))
    existing = _existing(tx, table)
    if existing is not None:
        if if_not_exists and existing.text == text:
            return Change()
        raise _table_exists(existing, columns, compare=if_not_exists)
    for column in columns:
        if column.references is not None:
            _check_reference(tx, table, columns, column, column.references)
    warnings = [
        *_near_duplicates(table, schema.names_of(tx.connection, "table", "view")),
        *defaults_like_sql(columns),
    ]
    tx.run_schema(text)
    return Change(warnings=warnings)


def add_column(tx: Transaction, table: Table, column: Column) -> Change:
    """Add it as the last column. The rows that are there have its default, or NULL."""
    _check_addable(tx, table, column)
    if column.references is not None:
        _check_reference(tx, table.name, [], column, column.references)
    text = definitions.added_column_text(column)
    tx.run_schema(_check_length(f"ALTER TABLE main.{quote(table.name)} ADD COLUMN {text}"))
    return Change(warnings=defaults_like_sql([column]))


def drop_table(tx: Transaction, table: Table) -> Change:
    """Drop it, its indexes and triggers; its rows wait in a store until this leaves the history."""
    _check_unreferenced(tx, table)
    effects = _dropping(tx, table)
    return Change(rows_changed=tx.replay(effects), effects=effects)


def _dropping(tx: Transaction, table: Table) -> list[Effect]:
    """Triggers and indexes go first, so that what is undone in the opposite order has its table."""
    own = [o for o in schema.objects(tx.connection) if fold(o.table) == fold(table.name)]
    dependents = [o for kind in ("trigger", "index") for o in reversed(own) if o.kind == kind]
    effects: list[Effect] = [SchemaChanged(o.kind, o.name, o.table, o.text) for o in dependents]
    effects += [
        Hidden(table.name, stores.name_for(tx.position.seq + 1), table.stored),
        SchemaChanged("table", table.name, table.name, table.text),
    ]
    counter = images.sequences(tx.connection).get(table.name)
    return [*effects, SequenceChanged(table.name, counter)] if counter is not None else effects


# -- what stands in the way ------------------------------------------------------------------------


def _check_length(text: str) -> str:
    size = len(text.encode())
    if size > SQL_TEXT_BYTES_MAX:
        raise InvalidCall(
            f"The definition has {size:,} bytes; {SQL_TEXT_BYTES_MAX:,} are allowed.",
            hint="Shorten its names, descriptions and defaults.",
        )
    return text


def _check_addable(tx: Transaction, table: Table, column: Column) -> None:
    """SQLite's rules for a column that comes later, in words."""
    what = f"Column {column.name!r} cannot be added to {table.name!r}"
    if table.column(column.name) is not None:
        raise InvalidCall(
            f"{what}: it has a column of that name (ASCII case is ignored).",
            hint="Use that one, or choose another name.",
        )
    if column.primary_key:
        raise InvalidCall(f"{what} as a primary key.", hint="Create a new table with that key.")
    if column.unique:
        raise InvalidCall(
            f"{what} as unique.", hint="Add it without, then call `create_index` with unique."
        )
    if len(table.columns) >= COLUMNS_MAX:
        raise InvalidCall(f"{what}: it has {COLUMNS_MAX:,} columns, the most there can be.")
    if fold(column.name) in schema.ROWID_NAMES:
        raise InvalidCall(
            f"{what}: a column of that name can only be made together with its table.",
            hint="Choose another name.",
        )
    if not _has_rows(tx, table):
        return
    if column.not_null and column.default in (UNSET, None):
        raise ConstraintFailed(
            f"{what} as not null without a default: the rows that are there need a value.",
            hint="Give it a default.",
        )
    if isinstance(column.default, str) and "\0" in column.default:
        raise InvalidCall(
            f"{what}: SQLite cannot give rows that are there a text with NUL.",
            hint="Leave the default out, and update the rows afterwards.",
        )
    if column.references is not None and column.default not in (UNSET, None):
        raise ConstraintFailed(
            f"{what}: the rows that are there would refer to {shown(column.default)}.",
            hint="Leave the default out, and update the rows afterwards.",
        )


def _has_rows(tx: Transaction, table: Table) -> bool:
    return sql.first(tx.connection, f"SELECT 1 FROM main.{quote(table.name)} LIMIT 1") is not None


def _check_unreferenced(tx: Transaction, table: Table) -> None:
    referring = sorted(
        {
            key.child
            for key in foreign_keys.of(tx.connection)
            if fold(key.parent) == fold(table.name) and fold(key.child) != fold(table.name)
        }
    )
    if referring:
        names = ", ".join(map(repr, referring))
        raise ConstraintFailed(
            f"{table.name!r} cannot be dropped: foreign keys of {names} refer to it.",
            hint="Drop what refers to it first.",
        )


def _check_reference(
    tx: Transaction, table: str, columns: list[Column], column: Column, reference: Reference
) -> None:
    """The referenced column must be there and unique, or every write would fail later."""
    if columns and fold(reference.table) == fold(table):
        unique = {fold(c.name) for c in columns if c.primary_key or c.unique}
        names = [c.name for c in columns]
    else:
        parent = _parent(tx, column, reference)
        unique, names = {fold(name) for name in _unique_columns(parent)}, parent.stored
    if fold(reference.column) not in map(fold, names):
        close = nearest(reference.column, names)
        raise NoSuchColumn(
            f"Column {column.name!r} references {reference.column!r}, which {reference.table!r} "
            "does not have.",
            hint=f"Did you mean {close!r}?" if close else None,
        )
    if fold(reference.column) not in unique:
        raise InvalidCall(
            f"Column {column.name!r} references {reference.table}.{reference.column}, which is "
            "neither a primary key nor unique.",
            hint="Refer to a column that is, or make this one so with a unique index.",
        )


def _parent(tx: Transaction, column: Column, reference: Reference) -> Table:
    try:
        return load_table(tx.connection, reference.table)
    except NoSuchTable as error:
        raise NoSuchTable(
            f"Column {column.name!r} references {reference.table!r}, which does not exist.",
            hint=error.hint,
        ) from None


def _unique_columns(table: Table) -> list[str]:
    found = [table.integer_key] if table.integer_key else []
    for index in table.unique:
        if index.plain and len(index.columns) == 1:
            found += [table.columns[i].name for i in index.columns]
    return found


# -- a table that is there already ---------------------------------------------------------------


def _existing(tx: Transaction, table: str) -> Table | None:
    try:
        return load_table(tx.connection, table)
    except NoSuchTable:
        return None
    except InvalidCall as error:
        raise TableExists(f"The name is taken: {error.message}", hint="Choose another.") from error


def _table_exists(existing: Table, columns: list[Column], *, compare: bool) -> TableExists:
    there = ", ".join(f"{c.name!r} {c.type}".strip() for c in existing.columns)
    message = f"There is a table {existing.name!r} already, with the columns {there}."
    if not compare:
        return TableExists(message, hint="Use it, or choose another name.")
    differences = _differences(existing, columns)
    return TableExists(f"{message} It differs from the one asked for: {'; '.join(differences)}.")


def _differences(existing: Table, columns: list[Column]) -> list[str]:
    wanted = {fold(c.name): c for c in columns}
    found = {fold(c.name): c for c in existing.columns}
    missing = [f"it has no column {c.name!r}" for key, c in wanted.items() if key not in found]
    extra = [f"it has a column {c.name!r}" for key, c in found.items() if key not in wanted]
    types = [
        f"column {c.name!r} is of type {c.type or 'none'}"
        for key, c in found.items()
        if key in wanted and fold(c.type) != fold(wanted[key].type or "")
    ]
    return [*missing, *extra, *types] or ["keys, constraints, defaults or descriptions"]


def _near_duplicates(table: str, others: list[str]) -> list[str]:
    """Names that a person would take for the same one."""
    return [
        f"There is also {other!r}; is {table!r} meant to be another table?"
        for other in others
        if _skeleton(other) == _skeleton(table)
    ]


def _skeleton(name: str) -> str:
    return name.casefold().replace("_", "").removesuffix("s")
