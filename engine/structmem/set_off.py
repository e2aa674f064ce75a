"""SQL of the schema that a structured write sets off, bounded as the SQL of `execute` is.

A trigger that `execute` made runs whenever its table is written, and so do the functions of checks,
generated columns and indexes on expressions. A write that sets off any of them has `query_timeout`
seconds and the memory of a query for its statements. Any other write is SQLite's and ours alone,
and takes as long as its rows take.
"""

from collections.abc import Generator
from contextlib import contextmanager

import apsw
from msgspec import Struct

from structmem.bounds import (
    Bounds,
    Instruction,
    Watch,
    ceiling,
    longest_value,
    restricted,
    too_long,
)
from structmem.errors import QueryLimit
from structmem.limits import PROGRESS_OPCODES

_HINT = (
    "A trigger, check, generated column or index on an expression takes too much: write fewer rows "
    "at once, or change it with `execute`."
)


class SetOff(Struct, frozen=True):
    """What a statement sets off: whether triggers of the user's, and the calls of functions."""

    triggers: bool
    functions: tuple[Instruction, ...]

    def __bool__(self) -> bool:
        return self.triggers or bool(self.functions)


@contextmanager
def bounded(
    connection: apsw.Connection, found: SetOff, *, max_value_bytes: int, timeout: float
) -> Generator[None]:
    """Stop what runs on `connection` inside after `timeout` seconds, or beyond the memory of a
    query. Raises `QueryLimit`."""
    bounds = Bounds.allowing(max_value_bytes)
    longest = longest_value(found.functions, bounds.value_bytes)
    watch = Watch(timeout, bounds)
    with ceiling.held(bounds), restricted(connection, bounds):
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, longest)
        connection.set_progress_handler(watch.interrupts, PROGRESS_OPCODES)
        try:
            yield
        except apsw.InterruptError as error:
            raise _stopped(watch.reason()) from error
        except apsw.NoMemError as error:
            raise _stopped(bounds.too_large()) from error
        except apsw.TooBigError as error:
            if longest == bounds.value_bytes:
                raise
            raise too_long(longest) from error
        finally:
            connection.set_progress_handler(None, PROGRESS_OPCODES)


def _stopped(reason: QueryLimit) -> QueryLimit:
    return QueryLimit(f"SQL that this write sets off was stopped. {reason.message}", hint=_HINT)
