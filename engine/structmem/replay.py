"""From effects to rows: the one apply path of replicas, verification and undo.

Nothing is decided here. Recorded images are put in place while triggers, foreign key actions and
checks are off: what those did the first time stands in the effects already.

Rules, each with its reason:

- Before a row is touched it must equal the effect's "from" image (storage class and bytes);
  otherwise the file is not what the journal says, and `Misfit` tells where.
- Rows with only a "from" image are deleted first. Rows with both are updated in place, unless a
  changed column takes part in a unique index: then a swap of two values would collide halfway, so
  the row is deleted and inserted again. Rows with only a "to" image are inserted last.
- Every statement says `OR ABORT`: a schema's own `ON CONFLICT REPLACE` or `IGNORE` would swallow
  rows.
- Foreign keys go off through the connection's configuration. The PRAGMA is a no-op in a
  transaction, and deferred keys would still run their actions.
- AUTOINCREMENT counters are written last, because inserts move them: also here where the operation
  itself did not, such as an update of a key.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, assert_never

import apsw

from structmem import images, log, sql, stores, texts
from structmem.errors import FormatTooNew, InvalidCall
from structmem.identifiers import quote
from structmem.limits import ROW_SLACK_BYTES, VALUE_BYTES_MAX
from structmem.misfits import Misfit, unhindered
from structmem.schema import Table, load_table
from structmem.values import changed_indexes
from structmem_journal import (
    Branched,
    Effect,
    EpochBegan,
    Erased,
    Event,
    Expired,
    Header,
    Hidden,
    Record,
    Redone,
    Row,
    RowsChanged,
    SchemaChanged,
    SequenceChanged,
    Shown,
    Undone,
)

_MOVE_COUNTERS: Final = (SequenceChanged, RowsChanged, SchemaChanged, Shown)


def apply(connection: apsw.Connection, effects: Sequence[Effect]) -> int:
    """Put `effects` into the open transaction, in order. Returns how many rows they changed or
    moved. Raises `Misfit`; then roll back."""
    with images_alone(connection):
        return _put(connection, effects)


def adopt(connection: apsw.Connection, record: Record, header: Header, event: Event) -> None:
    """Replay a record that was checked to follow the head, and store it; inside `images_alone`.
    Raises `Misfit`."""
    _put(connection, event.effects)
    log.append(connection, record, header, event)


@contextmanager
def images_alone(connection: apsw.Connection) -> Generator[None]:
    """Nothing but our statements changes rows meanwhile, and every row that another memory, or an
    earlier opening of this one, could hold has room. Each setting makes SQLite compile all of the
    connection's statements again, so many records are replayed inside one."""
    longest = connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX + ROW_SLACK_BYTES)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)
    sql.pragma(connection, "ignore_check_constraints", 1)  # a CHECK may call random()
    # Texts that another tool stored, and that a redefined table takes along, may need it.
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 1)
    try:
        yield
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        sql.pragma(connection, "ignore_check_constraints", 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, longest)


def _put(connection: apsw.Connection, effects: Sequence[Effect]) -> int:
    counters = dict(images.sequences(connection))
    rows = sum(_apply(connection, effect) for effect in effects)
    _set_counters(connection, effects, counters)
    return rows


def _apply(connection: apsw.Connection, effect: Effect) -> int:
    """The rows that it changed or moved."""
    match effect:
        case RowsChanged(table=name):
            with unhindered(f"rows of {name!r}"):
                _change_rows(connection, effect)
            return effect.row_count
        case SchemaChanged(kind=kind, name=name):
            with unhindered(f"{kind} {name!r}"):
                texts.change(connection, effect)
        case Hidden(table=name):
            with unhindered(f"rows of {name!r}"):
                table = _table(connection, name, effect.columns)
                return stores.put(connection, table, effect.store, effect.columns)
        case Shown(table=name):
            with unhindered(f"rows of {name!r}"):
                table = _table(connection, name, effect.columns)
                return stores.take(connection, effect.store, table, effect.columns)
        case Expired():
            for store in effect.stores:
                with unhindered(f"store {store!r}"):
                    stores.drop(connection, store)
        case Undone() | Redone() | EpochBegan() | SequenceChanged():
            pass  # about the history, see `log`; counters are set last
        case Branched() | Erased():
            raise FormatTooNew(
                f"This version cannot apply the effect {type(effect).__name__!r}.",
                hint="Use the version of structmem that wrote it, or a later one.",
            )
        case _:
            assert_never(effect)
    return 0


# -- rows ----------------------------------------------------------------------------------------


def _change_rows(connection: apsw.Connection, effect: RowsChanged) -> None:
    table = _table(connection, effect.table, effect.columns)
    current = _current(connection, table, effect)
    gone, come = list(effect.deleted), list(effect.inserted)
    for updated in effect.updated:
        if _takes_part_in_unique(table, updated.changed):
            for row in updated.rows:
                gone.append(row)
                come.append(_with_changes(current[row[0]], updated.changed, row))
        else:
            _update(connection, table, updated.changed, updated.rows)
    if gone:
        _delete(connection, table, gone)
    if come:
        _insert(connection, table, come)


def _table(connection: apsw.Connection, name: str, columns: Sequence[str]) -> Table:
    try:
        table = load_table(connection, name)
    except InvalidCall as error:
        raise Misfit(f"table {name!r}", "rows of it", error.message) from error
    if table.stored != columns:
        raise Misfit(f"the columns of {table.name!r}", columns, table.stored)
    return table


def _current(
    connection: apsw.Connection, table: Table, effect: RowsChanged
) -> dict[int, tuple[Any, ...]]:
    """The rows that the effect speaks of, as they are now, each checked against its image."""
    whole = tuple(range(len(effect.columns)))
    expected = {row[0]: (whole, row[1:]) for row in effect.deleted}
    for updated in effect.updated:
        changed, width = tuple(updated.changed), len(updated.changed)
        expected |= {row[0]: (changed, row[1 : 1 + width]) for row in updated.rows}
    rowids = sorted([*expected, *(row[0] for row in effect.inserted)])
    current = {row[0]: row for row in images.read(connection, table, rowids)}
    for row in effect.inserted:
        if row[0] in current:
            raise Misfit(f"{table.name!r} rowid {row[0]}", "no such row", current[row[0]][1:])
    for rowid, (columns, values) in expected.items():
        _check_row(table, rowid, columns, values, current.get(rowid))
    return current


def _check_row(
    table: Table,
    rowid: int,
    columns: Sequence[int],
    expected: Sequence[Any],
    current: Sequence[Any] | None,
) -> None:
    if current is None:
        raise Misfit(f"{table.name!r} rowid {rowid}", list(expected), "no such row")
    found = [current[1 + i] for i in columns]
    for i in changed_indexes(expected, found):
        name = table.stored[columns[i]]
        raise Misfit(f"{table.name!r} rowid {rowid} column {name!r}", expected[i], found[i])


def _takes_part_in_unique(table: Table, changed: Sequence[int]) -> bool:
    """Whether an update of these stored columns could collide with another row on its way."""
    if not all(index.plain for index in table.unique):
        return True
    stored = [i for i, column in enumerate(table.columns) if not column.generated]
    positions = {stored[i] for i in changed}
    return any(positions & index.columns for index in table.unique)


def _with_changes(current: Sequence[Any], changed: Sequence[int], row: Row) -> Row:
    """The whole row as it is after the update."""
    after = list(current)
    for i, value in zip(changed, row[1 + len(changed) :], strict=True):
        after[1 + i] = value
    return after


def _update(
    connection: apsw.Connection, table: Table, changed: Sequence[int], rows: Sequence[Row]
) -> None:
    names = [table.stored[i] for i in changed]
    assignments = ", ".join(f"{quote(name)} = ?" for name in names)
    statement = (
        f"UPDATE OR ABORT main.{quote(table.name)} SET {assignments} WHERE {table.rowid_name} = ?"
    )
    after = 1 + len(changed)
    sql.run_many(connection, statement, ([*row[after:], row[0]] for row in rows))


def _delete(connection: apsw.Connection, table: Table, rows: Sequence[Row]) -> None:
    statement = f"DELETE FROM main.{quote(table.name)} WHERE {table.rowid_name} = ?"
    sql.run_many(connection, statement, ([row[0]] for row in rows))


def _insert(connection: apsw.Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert whole rows under their own rowids; an integer key *is* the rowid."""
    names = [quote(name) for name in table.stored]
    given = names if table.integer_key is not None else [table.rowid_name, *names]
    marks = ", ".join("?" * len(given))
    statement = (
        f"INSERT OR ABORT INTO main.{quote(table.name)} ({', '.join(given)}) VALUES ({marks})"
    )
    first = 1 if table.integer_key is not None else 0
    sql.run_many(connection, statement, (row[first:] for row in rows))


def _set_counters(
    connection: apsw.Connection, effects: Sequence[Effect], counters: dict[str, int | None]
) -> None:
    """Give each table that was written the counter that the effects name, else the one of before
    (`counters`)."""
    counters |= {e.table: e.after for e in effects if isinstance(e, SequenceChanged)}
    # Dropping a table drops its counter; one that is redefined is dropped on the way.
    written = {e.table for e in effects if isinstance(e, _MOVE_COUNTERS)}
    found = images.sequences(connection)
    for name in sorted(written):
        if counters.get(name) != found.get(name):
            _set_counter(connection, name, counters.get(name))


def _set_counter(connection: apsw.Connection, table: str, value: int | None) -> None:
    sql.run(connection, "DELETE FROM sqlite_sequence WHERE name = ?", (table,))
    if value is not None:
        sql.run(connection, "INSERT INTO sqlite_sequence VALUES (?, ?)", (table, value))
