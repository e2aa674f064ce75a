"""Indexes: creating and dropping them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import cast

from structmem import definitions, foreign_keys, schema
from structmem.calls import check_table
from structmem.errors import InvalidCall, NoSuchColumn, NoSuchTable, shown
from structmem.identifiers import fold, nearest, quote
from structmem.schema import SchemaObject, Table, load_table
from structmem.writing import Change, Transaction


def check_columns(columns: object) -> list[str]:
    """One name, or any iterable of them, as a list of checked names."""
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(columns, bytes | Mapping) or not isinstance(columns, Iterable):
        raise InvalidCall(
            f"columns must be a list of column names, not {shown(cast('object', columns))}."
        )
    names = [check_table(name, "column") for name in cast("Iterable[object]", columns)]
    if not names:
        raise InvalidCall("An index needs at least one column.", hint="Name it in columns.")
    return names


def create_index(
    tx: Transaction, table: Table, columns: Sequence[str], *, name: str | None, unique: bool
) -> Change:
    """Create it, under a name made of the table's and the columns' when none is given."""
    found = [_column_of(table, column) for column in columns]
    twice = next((c for c in found if found.count(c) > 1), None)
    if twice is not None:
        raise InvalidCall(
            f"Column {twice!r} is given twice: names ignore ASCII case.", hint="Name it once."
        )
    taken = {fold(o.name) for o in schema.objects(tx.connection)}
    if name is not None and fold(name) in taken:
        raise InvalidCall(f"The name {shown(name)} is taken.", hint="Choose another name.")
    name = name or _free_name("_".join([table.name, *found]), lambda n: fold(n) in taken)
    tx.run_schema(definitions.index_text(name, table.name, found, unique=unique))
    return Change()


def drop_index(tx: Transaction, index: str) -> Change:
    """Drop it, unless it belongs to a constraint."""
    found = _index(tx, index)
    tx.run_schema(f"DROP INDEX main.{quote(found.name)}")
    warnings = [
        f"{key.child!r} refers to {key.parent!r} by columns that are no longer unique; writes to "
        "both will fail until a unique index is there again."
        for key in _keys_without_index(tx, found.table)
    ]
    return Change(warnings=warnings, table=found.table)


def _column_of(table: Table, name: str) -> str:
    column = table.column(name)
    if column is None:
        close = nearest(name, [c.name for c in table.columns])
        raise NoSuchColumn(
            f"Table {table.name!r} has no column {shown(name)}.",
            hint=f"Did you mean {close!r}?" if close else None,
        )
    return column.name


def _free_name(wanted: str, is_taken: Callable[[str], bool]) -> str:
    names = (wanted if n == 1 else f"{wanted}_{n}" for n in count(1))
    return next(name for name in names if not is_taken(name))


def _index(tx: Transaction, name: str) -> SchemaObject:
    indexes = [o for o in schema.objects(tx.connection) if o.kind == "index"]
    found = next((o for o in indexes if fold(o.name) == fold(name)), None)
    if found is not None:
        return found
    if fold(name).startswith("sqlite_autoindex_"):
        raise InvalidCall(
            f"The index {shown(name)} belongs to a UNIQUE or PRIMARY KEY rule of its table and "
            "cannot be dropped alone.",
            hint="To be rid of the rule, make a new table without it and move the rows.",
        )
    close = nearest(name, [o.name for o in indexes])
    raise NoSuchTable(
        f"There is no index {shown(name)}.", hint=f"Did you mean {close!r}?" if close else None
    )


def _keys_without_index(tx: Transaction, table: str) -> list[foreign_keys.ForeignKey]:
    """The foreign keys that refer to columns of `table` which nothing makes unique."""
    parent = load_table(tx.connection, table)
    unique = [
        [parent.columns[i].name for i in index.columns] for index in parent.unique if index.plain
    ]
    unique.append([parent.integer_key or ""])
    enough = {frozenset(map(fold, names)) for names in unique}
    return [
        key
        for key in foreign_keys.of(tx.connection)
        if fold(key.parent) == fold(table)
        and frozenset(map(fold, key.parent_columns)) not in enough
    ]
