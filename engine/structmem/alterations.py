"""What a transaction changed, schema included, as effects that can be applied and turned around.

Before and after are compared: the image reader still has the schema and the rows of before, also
those of a table that SQLite has dropped or altered since. The SQL that did it is never run again.

The order makes both directions work. What depends on tables goes first: triggers, views, indexes.
Then rows leave the tables that go, then these go; tables come, then rows change; and what depends
on tables comes last.

Rules:

- A table whose text changed was *redefined* if every row kept its values, column by name, and
  columns that are new hold their default. Otherwise it counts as one that went and one that came,
  with all its rows.
- Triggers fire in the order in which they were made. From the first that differs on, all of a table
  go and come again.
- Of tables that SQL dropped or altered (`remade`) all rows are compared: no trigger or hook sees
  those that go with their table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

import apsw
from msgspec import Struct

from structmem import defaults, images, schema
from structmem.identifiers import fold
from structmem.schema import SchemaObject, Table, load_table
from structmem.values import changed_indexes
from structmem_journal import Effect, Row, RowsChanged, SchemaChanged

_DEPENDENTS = ("trigger", "view", "index")

Objects = list[SchemaObject]


class Difference(Struct, frozen=True):
    """What turned one schema into another. `gone` and `come` are in order of creation."""

    gone: Objects
    come: Objects
    redefined: list[SchemaChanged]


def effects(
    before: apsw.Connection,
    after: apsw.Connection,
    touched: Mapping[str, Sequence[int]],
    remade: AbstractSet[str],
) -> list[Effect]:
    """The net effects on schema and rows. `touched` has the rowids that changed, by table."""
    found, room = _difference(before, after, remade), images.Room()
    gone = [o for o in found.gone if o.kind == "table"]
    come = [o for o in found.come if o.kind == "table"]
    replaced = {o.name for o in (*gone, *come)}
    # Of these every row was compared already, and none had changed.
    settled = remade & {effect.name for effect in found.redefined}
    unsettled = {name: rowids for name, rowids in touched.items() if name not in settled}
    compared = _with_all_rows(before, after, unsettled, remade - settled)
    return [
        *(_gone(o) for kind in _DEPENDENTS for o in reversed(found.gone) if o.kind == kind),
        *(rows for o in gone for rows in _all_rows(before, o.name, room, deleted=True)),
        *(_gone(o) for o in reversed(gone)),
        *found.redefined,
        *(_come(o) for o in come),
        *net_rows(
            before,
            after,
            ((load_table(after, n), r) for n, r in sorted(compared.items()) if n not in replaced),
            room,
        ),
        *(rows for o in come for rows in _all_rows(after, o.name, room, deleted=False)),
        *(_come(o) for kind in reversed(_DEPENDENTS) for o in found.come if o.kind == kind),
    ]


def net_rows(
    before: apsw.Connection,
    after: apsw.Connection,
    touched: Iterable[tuple[Table, Sequence[int]]],
    room: images.Room,
) -> Iterator[Effect]:
    """The net change of these rows, of tables that have the same columns before and after.

    Raises `InvalidCall` when `room` has no more.
    """
    for table, rowids in touched:
        change = images.rows_changed(table, rowids, before, after, room)
        if change is not None:
            yield change


def _gone(o: SchemaObject) -> SchemaChanged:
    return SchemaChanged(o.kind, o.name, o.table, before=o.text)


def _come(o: SchemaObject) -> SchemaChanged:
    return SchemaChanged(o.kind, o.name, o.table, after=o.text)


# -- rows ------------------------------------------------------------------------------------------


def _all_rows(
    connection: apsw.Connection, name: str, room: images.Room, *, deleted: bool
) -> Iterator[Effect]:
    table = load_table(connection, name)
    rows: list[Row] = []
    for row in images.read_all(connection, table, table.stored):
        room.take(row)
        rows.append(list(row))
    if rows:
        gone, come = (rows, []) if deleted else ([], rows)
        yield RowsChanged(name, table.stored, deleted=gone, inserted=come)


def _with_all_rows(
    before: apsw.Connection,
    after: apsw.Connection,
    touched: Mapping[str, Sequence[int]],
    remade: AbstractSet[str],
) -> dict[str, Sequence[int]]:
    """`touched`, of tables that are there before and after; of remade ones every row."""
    both = {*schema.names_of(before, "table")} & {*schema.names_of(after, "table")}
    rows = {name: {*_rowids(before, name), *_rowids(after, name)} for name in both & remade}
    found = {name: rowids for name, rowids in touched.items() if name in both}
    return {**found, **{name: sorted(rowids) for name, rowids in rows.items()}}


def _rowids(connection: apsw.Connection, name: str) -> Iterator[int]:
    table = load_table(connection, name)
    return (rowid for (rowid,) in images.read_all(connection, table, []))


# -- the schema ------------------------------------------------------------------------------------


Key = tuple[str, str]
"""Kind and name of a schema object."""


def _difference(
    before: apsw.Connection, after: apsw.Connection, remade: AbstractSet[str]
) -> Difference:
    old = {(o.kind, o.name): o for o in schema.objects(before)}
    new = {(o.kind, o.name): o for o in schema.objects(after)}
    redefined = [
        SchemaChanged(o.kind, o.name, o.table, o.text, new[key].text)
        for key, o in old.items()
        if o.kind == "table" and key in new and new[key].text != o.text
        if _is_redefined(before, after, o.name, compare=o.name in remade)
    ]
    same = {key for key, o in old.items() if new.get(key) == o}
    stay = _with_their_base(old, same | {("table", effect.name) for effect in redefined})
    stay -= {key for key in stay if key[0] == "trigger"} - set(_first_triggers(old, new, stay))
    return Difference(
        gone=[o for key, o in old.items() if key not in stay],
        come=[o for key, o in new.items() if key not in stay],
        redefined=redefined,
    )


def _with_their_base(objects: Mapping[Key, SchemaObject], keys: AbstractSet[Key]) -> set[Key]:
    """Those of `keys` whose table (or view) is among them: it takes all of its own along."""
    bases = {fold(name) for kind, name in keys if kind in ("table", "view")}
    return {key for key in keys if fold(objects[key].table) in bases}


def _first_triggers(
    old: Mapping[Key, SchemaObject], new: Mapping[Key, SchemaObject], stay: AbstractSet[Key]
) -> Iterator[Key]:
    """The triggers that stay of each table, up to the first that does not."""
    now = _triggers_by_base(new)
    for base, was in _triggers_by_base(old).items():
        for a, b in zip(was, now.get(base, []), strict=False):
            if a != b or a not in stay:
                break
            yield a


def _triggers_by_base(objects: Mapping[Key, SchemaObject]) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key, o in objects.items():
        if o.kind == "trigger":
            found.setdefault(fold(o.table), []).append(key)
    return found


def _is_redefined(
    before: apsw.Connection, after: apsw.Connection, name: str, *, compare: bool
) -> bool:
    """Whether each row has the values that it had, and the default in columns that are new. Unless
    all are to be compared no row was written, and new columns hold the same in each."""
    was, now = load_table(before, name), load_table(after, name)
    if not set(was.stored) <= set(now.stored):
        return False
    if compare and not _have_same_rows(before, was, after, now):
        return False
    added = [column for column in now.stored if column not in was.stored]
    rows = images.read_all(after, now, added)
    # Not always the default of a row to come: SQLite makes '-0.0' and '0.0' of -0.0 as a text.
    return defaults.first_other(rows if compare else islice(rows, 1), now, added) is None


def _have_same_rows(
    before: apsw.Connection, was: Table, after: apsw.Connection, now: Table
) -> bool:
    rows = images.pairs(
        images.read_all(before, was, was.stored), images.read_all(after, now, was.stored)
    )
    return not any(a is None or b is None or changed_indexes(a, b) for a, b in rows)
