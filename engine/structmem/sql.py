"""Running our own SQL: the few shapes in which it is run, typed.

(APSW's stubs name `collections.abc.Buffer`, which Python 3.11 does not have, so its results are
untyped there. That is dealt with here, once.)
"""

import traceback
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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


@contextmanager
def once(
    connection: apsw.Connection, sql: str, params: Params = (), *, explain: bool = False
) -> Generator[Iterator[tuple[Any, ...]]]:
    """The rows of a statement that is compiled for this one use, and ended with it. With `explain`
    they are the steps of its program instead."""
    cursor = connection.cursor()
    try:
        rows = cursor.execute(  # pyright: ignore[reportUnknownMemberType]
            sql, params, can_cache=False, explain=1 if explain else -1
        )
        yield cast("Iterator[tuple[Any, ...]]", rows)
    finally:
        cursor.close(True)


def compiled(connection: apsw.Connection, sql: str) -> Iterator[apsw.ext.QueryDetails]:
    """Each statement of `sql`, compiled and not run. What is only spaces, comments and semicolons
    is no statement. The later ones are compiled when asked for."""
    rest: str | None = sql
    while rest:
        found = apsw.ext.query_info(connection, rest)  # pyright: ignore[reportUnknownMemberType]
        rest = found.query_remaining
        if found.has_vdbe:
            yield found


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


def end_statements(error: BaseException) -> None:
    """End what the engine's functions were reading that `error` came out of. An error keeps their
    variables as long as anyone keeps the error, and a statement in the middle of its rows holds its
    snapshot, and keeps its connection from being given another function. The variables of callers
    stay as they are."""
    seen: set[BaseException] = set()
    chain = [error]
    while chain:
        each_error = chain.pop()
        seen.add(each_error)
        for frame, _line in traceback.walk_tb(each_error.__traceback__):
            if frame.f_globals.get("__package__") == __package__:
                with suppress(RuntimeError):  # it is running still
                    frame.clear()
        causes = (each_error.__cause__, each_error.__context__)
        chain += [cause for cause in causes if cause is not None and cause not in seen]


def integers(numbers: Sequence[int]) -> Any:
    """`numbers` (64-bit, not empty) as one parameter for the table function `carray(?)`, so that a
    statement takes any count of them."""
    return apsw.carray(array("q", numbers))  # pyright: ignore[reportUnknownMemberType]
