"""Whether rows that were put in place by their images still have their parents.

`replay` works with foreign keys off, because their actions must not run again. So before an undo
commits, the keys of the rows it touched are checked here, both ways: each row that came has its
parents, and no row names a parent that went. Only the touched rows count. SQLite's own
`foreign_key_check` reads whole tables, and fails over an unrelated mismatch anywhere.

`rules_about` says the keys in words, for whoever broke one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import apsw
from msgspec import Struct

from structmem import images, schema, sql
from structmem.errors import InvalidCall
from structmem.identifiers import fold, is_internal, quote
from structmem.schema import load_table
from structmem_journal import Effect, RowsChanged, Shown, Updated


class ForeignKey(Struct, frozen=True):
    """Columns of `child` that name a row of `parent`, pairwise."""

    child: str
    parent: str
    child_columns: tuple[str, ...]
    parent_columns: tuple[str, ...]


def dangling(connection: apsw.Connection, effects: Iterable[Effect]) -> str | None:
    """The first row without its parent, in words; None if there is none."""
    keys = list(of(connection))
    for effect in effects:
        for key in keys:
            row = _broken(connection, key, effect)
            if row is not None:
                return f"{key.child!r} rowid {row} names a row of {key.parent!r} that is gone"
    return None


def _broken(connection: apsw.Connection, key: ForeignKey, effect: Effect) -> int | None:
    """A row of the child that has no parent because of `effect`."""
    match effect:
        case RowsChanged():
            return _without_parent(connection, key, effect) or _orphaned(connection, key, effect)
        case Shown(table=name) if fold(name) == fold(key.child):
            found = next(_childless(connection, key, None), None)
            return found[0] if found else None
        case _:
            return None


def rules_about(connection: apsw.Connection, table: str) -> str:
    """The foreign keys of and to `table`, in words: SQLite does not say which one was broken."""
    name = fold(table)
    rules = [
        f"{_place(key.child, key.child_columns)} must name {_place(key.parent, key.parent_columns)}"
        for key in of(connection)
        if name in (fold(key.child), fold(key.parent))
    ]
    return "; ".join(rules)


def _place(table: str, columns: Sequence[str]) -> str:
    return f"{table}({', '.join(columns)})"


def of(connection: apsw.Connection) -> Iterator[ForeignKey]:
    """The foreign keys of the user's tables."""
    rows = sql.rows(
        connection,
        'SELECT s.name, f.id, f."table", f."from", f."to"'
        " FROM main.sqlite_schema AS s JOIN pragma_foreign_key_list(s.name) AS f"
        " WHERE s.type = 'table' ORDER BY s.name, f.id, f.seq",
    )
    for (child, _), group in groupby(rows, key=lambda row: (row[0], row[1])):
        parts = list(group)
        parent = parts[0][2]
        columns = [part[4] for part in parts]
        named = columns if None not in columns else _primary_key(connection, parent)
        if not is_internal(child) and len(named) == len(parts):
            yield ForeignKey(child, parent, tuple(part[3] for part in parts), tuple(named))


def _primary_key(connection: apsw.Connection, table: str) -> list[str]:
    rows = sql.rows(
        connection, "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
    )
    return [name for (name,) in rows]


def _without_parent(
    connection: apsw.Connection, key: ForeignKey, effect: RowsChanged
) -> int | None:
    """A row that came, in the child table of `key`, whose parent is not there."""
    came = [row[0] for row in effect.inserted]
    came += [row[0] for updated in effect.updated for row in updated.rows]
    if fold(effect.table) != fold(key.child) or not came:
        return None
    found = next(_childless(connection, key, came), None)
    return found[0] if found else None


def _orphaned(connection: apsw.Connection, key: ForeignKey, effect: RowsChanged) -> int | None:
    """A row that names a parent which `effect` took away."""
    if fold(effect.table) != fold(key.parent):
        return None
    gone = set(_keys_gone(connection, effect, key.parent_columns))
    if not gone:
        return None
    orphans = _childless(connection, key, None)
    return next((rowid for rowid, *names in orphans if _comparable(names) in gone), None)


def _childless(
    connection: apsw.Connection, key: ForeignKey, rowids: Sequence[int] | None
) -> Iterator[tuple[Any, ...]]:
    """Rows of the child table, among `rowids` or all, whose parent is not there."""
    try:
        rowid = load_table(connection, key.child).rowid_name
    except InvalidCall:
        return iter(())  # a table WITHOUT ROWID: never written by us
    pairs = list(zip(map(quote, key.child_columns), map(quote, key.parent_columns), strict=True))
    names = ", ".join(f"c.{child}" for child, _ in pairs)
    given = " AND ".join(f"c.{child} IS NOT NULL" for child, _ in pairs)
    # As in SQLite's own check the parent decides how to compare: it stands on the left for its
    # collation, and the plus takes the child's affinity away so that the parent's is applied.
    as_checked = " AND ".join(f"p.{parent} = +c.{child}" for child, parent in pairs)
    # ON UPDATE CASCADE writes the parent's value as the child's type converts it. With several keys
    # in a row SQLite can miss that the two no longer compare; such a pair may come back by undo.
    as_cascaded = " AND ".join(f"+p.{parent} = c.{child}" for child, parent in pairs)
    among = f" AND c.{rowid} IN (SELECT value FROM carray(?))" if rowids is not None else ""
    statement = f"SELECT c.{rowid}, {names} FROM main.{quote(key.child)} AS c WHERE {given}{among}"
    if _has_parent(connection, key):
        parents = f"SELECT 1 FROM main.{quote(key.parent)} AS p WHERE"
        statement += (
            f" AND NOT EXISTS ({parents} {as_checked}) AND NOT EXISTS ({parents} {as_cascaded})"
        )
    return sql.each(connection, statement, [sql.integers(rowids)] if rowids is not None else ())


def _has_parent(connection: apsw.Connection, key: ForeignKey) -> bool:
    """Whether the parent is a table with these columns. SQLite lets a key name what is not there,
    and lets a parent be dropped; then every row that names one is without it."""
    if not schema.is_table(connection, key.parent):
        return False
    found = {fold(name) for name in schema.columns_of(connection, key.parent)}
    return found.issuperset(map(fold, key.parent_columns))


def _keys_gone(
    connection: apsw.Connection, effect: RowsChanged, columns: Sequence[str]
) -> Iterator[tuple[object, ...]]:
    """The values that the parent's key had in rows that were deleted, or in which it changed."""
    folded = [fold(name) for name in effect.columns]
    wanted = [folded.index(fold(name)) for name in columns if fold(name) in folded]
    for row in effect.deleted:
        yield _comparable([row[1 + i] for i in wanted])
    for updated in effect.updated:
        if not set(wanted).isdisjoint(updated.changed):
            yield from map(_comparable, _keys_before(connection, effect.table, updated, wanted))


def _keys_before(
    connection: apsw.Connection, table: str, updated: Updated, wanted: Sequence[int]
) -> Iterator[list[object]]:
    """The key of each row before it was updated; columns that did not change are still there."""
    place = {column: 1 + i for i, column in enumerate(updated.changed)}
    rowids = [row[0] for row in updated.rows]
    current = images.read(connection, load_table(connection, table), rowids)
    for before, now in zip(updated.rows, current, strict=True):
        yield [before[place[i]] if i in place else now[1 + i] for i in wanted]


def _comparable(values: Sequence[object]) -> tuple[object, ...]:
    """Equal whenever SQLite could call two keys equal, by affinity or collation; it may say so
    more often, and then an undo is refused that would have been fine."""
    return tuple(_loose(value) for value in values)


def _loose(value: object) -> object:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    try:
        return float(text)
    except ValueError:
        return text.casefold().rstrip(" ")
