"""Running our own SQL: the few shapes in which it is run, typed.

(APSW's stubs name `collections.abc.Buffer`, which Python 3.11 does not have, so its results are
untyped there. That is dealt with here, once.)
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import apsw
import apsw.ext

Params = Sequence[Any] | Mapping[str, Any]


def each(connection: apsw.Connection, sql: str, params: Params = ()) -> Iterator[tuple[Any, ...]]:
    """The rows, one at a time, while SQLite finds them."""
    cursor = connection.execute(sql, params)  # pyright: ignore[reportUnknownMemberType]
    return cast("Iterator[tuple[Any, ...]]", cursor)


def rows(connection: apsw.Connection, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
    return list(each(connection, sql, params))


def first(connection: apsw.Connection, sql: str, params: Params = ()) -> tuple[Any, ...] | None:
    """The first row; the rest is not looked for."""
    cursor = each(connection, sql, params)
    row = next(cursor, None)
    if row is not None:
        cast("apsw.Cursor", cursor).close(True)
    return row


def run(connection: apsw.Connection, sql: str, params: Params = ()) -> None:
    """Run a statement to its end; any rows are dropped."""
    for _ in each(connection, sql, params):
        pass


def run_many(connection: apsw.Connection, sql: str, params: Iterable[Params]) -> None:
    """Run a statement once for each set of parameters."""
    for _ in each_of_many(connection, sql, params):
        pass


def each_of_many(
    connection: apsw.Connection, sql: str, params: Iterable[Params]
) -> Iterator[tuple[Any, ...]]:
    """Run a statement once for each set of parameters, yielding the rows of each in turn."""
    cursor = connection.executemany(sql, params)  # pyright: ignore[reportUnknownMemberType]
    return cast("Iterator[tuple[Any, ...]]", cursor)


def pragma(connection: apsw.Connection, name: str, value: int | str | None = None) -> Any:
    """Read a PRAGMA, or set it when `value` is given."""
    given = () if value is None else (value,)
    return connection.pragma(name, *given)  # pyright: ignore[reportUnknownMemberType]


def integers(numbers: Sequence[int]) -> Any:
    """`numbers` (64-bit, not empty) as one parameter for the table function `carray(?)`, so that a
    statement takes any count of them."""
    return apsw.carray(array("q", numbers))  # pyright: ignore[reportUnknownMemberType]


def compile_only(connection: apsw.Connection, statement: str) -> None:
    """Compile `statement` without running it, so that SQLite's authorizer is asked about it."""
    apsw.ext.query_info(connection, statement)  # pyright: ignore[reportUnknownMemberType]
