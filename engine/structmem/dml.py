"""Insert, update and delete: what their arguments may be, and the statements they become."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final, cast

import apsw

from structmem import images, sql
from structmem.arguments import INTEGER_MAX
from structmem.errors import ConstraintFailed, InvalidCall, NoSuchColumn, shown
from structmem.identifiers import nearest, quote
from structmem.schema import Affinity, ColumnInfo, Table, affinity
from structmem.values import check_value, is_plain, same
from structmem.writing import Change, Transaction
from structmem_journal import Value

Fields = dict[str, Value]

_ALTERED_KINDS: Final[dict[Affinity, tuple[type, ...]]] = {
    "BLOB": (),
    "TEXT": (int, float),
    "NUMERIC": (str, float),
    "INTEGER": (str, float),
    "REAL": (str, int, float),
}
"""Storage classes that a column of each affinity converts, or may."""


def check_rows(rows: object, max_value_bytes: int) -> list[Fields]:
    """One mapping, or any iterable of them, as a list of checked mappings."""
    if isinstance(rows, Mapping):
        rows = [cast("object", rows)]
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise InvalidCall(
            f"rows must be a mapping of column to value, or a list of such, not {_type(rows)}."
        )
    return [
        check_fields(row, f"Row {number}", max_value_bytes)
        for number, row in enumerate(cast("Iterable[object]", rows), start=1)
    ]


def check_fields(fields: object, what: str, max_value_bytes: int) -> Fields:
    """A mapping of column names to values, each checked."""
    if not isinstance(fields, (dict, Mapping)):  # the first is found at once
        raise InvalidCall(f"{what} must be a mapping of column to value, not {_type(fields)}.")
    checked: Fields = {}
    for name, value in cast("Mapping[object, object]", fields).items():
        if not isinstance(name, str):
            raise InvalidCall(f"{what}: column names must be text, not {_type(name)}.")
        if not is_plain(value, max_value_bytes):
            value = check_value(value, f"{what}, column {name!r}", max_value_bytes)
        checked[str.__str__(name)] = cast("Value", value)
    return checked


def insert(tx: Transaction, table: Table, rows: Sequence[Fields]) -> Change:
    """Every row or none. A row that the table's own `ON CONFLICT IGNORE` skips has no rowid."""
    rowids: list[int] = []
    altered: list[str] = []
    for names, group in groupby(rows, key=lambda row: tuple(row)):
        columns = _columns_of(table, names)
        values = [list(row.values()) for row in group]
        watched = [i for i, column in enumerate(columns) if _may_alter(column, values, i)]
        statement = _insert_statement(table, columns, watched)
        with _counter_told(tx, table), tx.running(statement):
            if not watched:
                rowids += [rowid for (rowid,) in sql.each_of_many(tx.connection, statement, values)]
            for given in values if watched else ():
                for rowid, *stored in sql.each(tx.connection, statement, given):
                    rowids.append(rowid)
                    altered += _alterations(columns, watched, given, stored)
    return Change(len(rowids), rowids, _summary(altered))


@contextmanager
def _counter_told(tx: Transaction, table: Table) -> Generator[None]:
    """SQLite calls a table full whose AUTOINCREMENT counter is at its end; room would not help."""
    try:
        yield
    except apsw.FullError as error:
        if images.sequences(tx.connection).get(table.name) != INTEGER_MAX:
            raise
        raise ConstraintFailed(
            f"The AUTOINCREMENT counter of {shown(table.name)} is at its end, {INTEGER_MAX}.",
            hint="Give the key in each row, a number that is free.",
        ) from error


def update(tx: Transaction, table: Table, fields: Fields, rowids: Sequence[int]) -> Change:
    """Set the same values in all of these rows, by one statement."""
    columns = _columns_of(table, tuple(fields))
    if not rowids:
        return Change()
    given = list(fields.values())
    watched = [i for i, column in enumerate(columns) if _may_alter(column, [given], i)]
    assignments = ", ".join(f"{quote(column.name)} = ?" for column in columns)
    statement = (
        f"UPDATE main.{quote(table.name)} SET {assignments}"
        f" WHERE {table.rowid_name} IN (SELECT value FROM carray(?))"
    )
    if watched:
        statement += f" RETURNING {', '.join(quote(columns[i].name) for i in watched)}"
    altered: list[str] = []
    with tx.running(statement):
        for stored in sql.each(tx.connection, statement, [*given, sql.integers(rowids)]):
            altered = altered or _alterations(columns, watched, given, stored)
    return Change(len(rowids), list(rowids), altered)


def delete(tx: Transaction, table: Table, rowids: Sequence[int]) -> Change:
    if not rowids:
        return Change()
    statement = (
        f"DELETE FROM main.{quote(table.name)}"
        f" WHERE {table.rowid_name} IN (SELECT value FROM carray(?))"
    )
    with tx.running(statement):
        sql.run(tx.connection, statement, [sql.integers(rowids)])
    return Change(len(rowids), list(rowids))


# -- columns -------------------------------------------------------------------------------------


def _columns_of(table: Table, names: Sequence[str]) -> list[ColumnInfo]:
    """The columns as the table spells them. Raises for one that is unknown, computed, or twice."""
    found: dict[str, ColumnInfo] = {}
    for name in names:
        column = table.column(name)
        if column is None:
            raise _no_such_column(table, name)
        if column.generated:
            raise InvalidCall(
                f"Column {column.name!r} of {table.name!r} is computed and cannot be written.",
                hint="Leave it out, and write the columns that it is computed from.",
            )
        if column.name in found:
            raise InvalidCall(
                f"Column {column.name!r} is given twice: names ignore ASCII case.",
                hint="Give it once.",
            )
        found[column.name] = column
    return list(found.values())


def _no_such_column(table: Table, name: str) -> NoSuchColumn:
    close = nearest(name, table.stored)
    known = ", ".join(map(repr, table.stored[:30]))
    hint = f"Did you mean {close!r}?" if close else f"Its columns are: {known}."
    return NoSuchColumn(f"Table {table.name!r} has no column {shown(name)}.", hint=hint)


def _insert_statement(table: Table, columns: Sequence[ColumnInfo], watched: Sequence[int]) -> str:
    target = f"INSERT INTO main.{quote(table.name)}"
    names = [quote(column.name) for column in columns]
    marks = ", ".join("?" * len(columns))
    values = f"({', '.join(names)}) VALUES ({marks})" if columns else "DEFAULT VALUES"
    returning = [table.rowid_name, *(names[i] for i in watched)]
    return f"{target} {values} RETURNING {', '.join(returning)}"


# -- values that a declared type alters ----------------------------------------------------------


def _may_alter(column: ColumnInfo, rows: Sequence[Sequence[Value]], index: int) -> bool:
    """Whether the column's affinity could alter one of the values for it. Such columns are read
    back; what really happens to a value is for SQLite to say."""
    kinds = _ALTERED_KINDS[affinity(column.type)]
    return bool(kinds) and any(type(row[index]) in kinds for row in rows)


def _alterations(
    columns: Sequence[ColumnInfo],
    watched: Sequence[int],
    given: Sequence[Value],
    stored: Sequence[Any],
) -> list[str]:
    """A sentence for each value that is not stored as it was given, or is a text in a column of
    numbers. An integer stored as the equal float is what REAL means, and not worth one."""
    sentences: list[str] = []
    for i, now in zip(watched, stored, strict=True):
        was, column = given[i], columns[i]
        if type(was) is str and same(was, now) and affinity(column.type) in ("INTEGER", "REAL"):
            what = f"{_short(was)} is no number, and stays text"
        elif same(was, now) or (type(was) is int and type(now) is float and was == now):
            continue
        else:
            what = f"{_short(was)} is stored as {_short(now)}"
        sentences.append(f"Column {column.name!r} is declared {column.type}: {what}.")
    return sentences


def _summary(sentences: Sequence[str]) -> list[str]:
    """The first sentence of each column's kind, without repeating them for every row."""
    shown = list(dict.fromkeys(sentences))[:5]
    more = len(sentences) - len(shown)
    return [*shown, f"{more} more values fared likewise."] if more else shown


def _short(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _type(value: object) -> str:
    return type(value).__name__
