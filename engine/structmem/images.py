"""What the touched rows were and are: the net change of an operation, in values.

Before images come from the *image reader*: a connection whose read transaction began after the
writer took the write lock, so that in WAL mode it sees the memory as it was until the writer
commits. After images come from the writer, at the end. So neither the order in which triggers fired
nor the way a row changed in between matters.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import apsw

from structmem import sql
from structmem.errors import InvalidCall
from structmem.identifiers import quote
from structmem.limits import IMAGE_VALUES_MAX
from structmem.schema import Table
from structmem.values import changed_indexes
from structmem_journal import PAYLOAD_BYTES_MAX, Row, RowsChanged, SequenceChanged, Updated


class Room:
    """What the images of one operation may take together. It is asked while they are read, so that
    an operation on a table that memory cannot hold ends before it fills memory."""

    def __init__(self) -> None:
        self._values = IMAGE_VALUES_MAX
        self._bytes = PAYLOAD_BYTES_MAX

    def take(self, row: Sequence[Any]) -> None:
        """Count an image. Raises `InvalidCall` when there is no room for it."""
        self._values -= len(row)
        for value in row:
            if type(value) is str or type(value) is bytes:
                self._bytes -= len(value)
        if self._values < 0:
            raise _too_large(f"it changes more than {IMAGE_VALUES_MAX:,} values")
        if self._bytes < 0:
            raise _too_large(
                f"what it changes has more than the {PAYLOAD_BYTES_MAX:,} bytes that a record of "
                "the journal may have"
            )


def _too_large(why: str) -> InvalidCall:
    return InvalidCall(
        f"This call is too large: {why}.",
        hint="Do it in several smaller operations. `drop_table` has no such bound.",
    )


def rows_changed(
    table: Table,
    rowids: Sequence[int],
    before: apsw.Connection,
    after: apsw.Connection,
    room: Room,
) -> RowsChanged | None:
    """The net change of these rows (ascending) of `table`, or None if there is none.

    Raises `InvalidCall` for text that is not valid UTF-8, which only SQL can make, and when `room`
    has no more.
    """
    deleted: list[Row] = []
    inserted: list[Row] = []
    updated: dict[tuple[int, ...], list[Row]] = {}
    with _valid_text(table):
        for was, now in zip(_each(before, table, rowids), _each(after, table, rowids), strict=True):
            if was[0] is None and now[0] is None:
                continue
            if now[0] is None:
                room.take(was)
                deleted.append(list(was))
            elif was[0] is None:
                room.take(now)
                inserted.append(list(now))
            elif changed := changed_indexes(was, now):
                row = [was[0], *[was[i] for i in changed], *[now[i] for i in changed]]
                room.take(row)
                updated.setdefault(changed, []).append(row)
    if not (deleted or inserted or updated):
        return None
    groups = [Updated([i - 1 for i in changed], rows) for changed, rows in sorted(updated.items())]
    return RowsChanged(table.name, table.stored, deleted, groups, inserted)


def read(
    connection: apsw.Connection, table: Table, rowids: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """The rows that are there, `(rowid, value, …)`, in the order of `rowids`."""
    with _valid_text(table):
        for row in _each(connection, table, rowids):
            if row[0] is not None:
                yield row


def _each(
    connection: apsw.Connection, table: Table, rowids: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """A row for each of `rowids`, in their order; of one that is not there all is None."""
    if not rowids:
        return iter(())
    statement = (
        f"SELECT {table.image} FROM carray(?) AS wanted"
        f" LEFT JOIN main.{quote(table.name)} AS t ON t.{table.rowid_name} = wanted.value"
    )
    return sql.each(connection, statement, (sql.integers(rowids),))


@contextmanager
def _valid_text(table: Table) -> Generator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise _not_text(table, error) from None


def read_all(
    connection: apsw.Connection, table: Table, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Every row, `(rowid, value, …)` with these columns, by ascending rowid."""
    names = "".join(f", {quote(name)}" for name in columns)
    statement = (
        f"SELECT {table.rowid_name}{names} FROM main.{quote(table.name)}"
        f" ORDER BY {table.rowid_name}"
    )
    try:
        yield from sql.each(connection, statement)
    except UnicodeDecodeError as error:
        raise _not_text(table, error) from None


def has_sequences(connection: apsw.Connection) -> bool:
    """Whether there is a place for counters: SQLite makes it with the first table that has one."""
    there = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'"
    return sql.first(connection, there) is not None


def sequences(connection: apsw.Connection) -> Mapping[str, int | None]:
    """The AUTOINCREMENT counters, which move without any row that a trigger could see."""
    found = has_sequences(connection)
    rows = sql.rows(connection, "SELECT name, seq FROM sqlite_sequence") if found else []
    return dict(cast("list[tuple[str, int | None]]", rows))


def sequences_changed(
    before: Mapping[str, int | None], after: Mapping[str, int | None]
) -> Iterator[SequenceChanged]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield SequenceChanged(name, before.get(name), after.get(name))


def _not_text(table: Table, error: UnicodeDecodeError) -> InvalidCall:
    return InvalidCall(
        f"A row of {table.name!r} holds text that is not valid UTF-8 ({error.reason}).",
        hint="Such bytes can only be kept as a BLOB: CAST(… AS BLOB).",
    )


def pairs(
    before: Iterator[tuple[Any, ...]], after: Iterator[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]]:
    """Match two streams of rows by rowid; both ascend."""
    was, now = next(before, None), next(after, None)
    while was is not None or now is not None:
        if now is None or (was is not None and was[0] < now[0]):
            yield was, None
            was = next(before, None)
        elif was is None or now[0] < was[0]:
            yield None, now
            now = next(after, None)
        else:
            yield was, now
            was, now = next(before, None), next(after, None)
