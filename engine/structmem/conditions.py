"""The where check: which rows a condition means, without trusting its text.

A condition is text in the middle of a statement, where a parenthesis too many would change what the
statement says. Nothing here parses it. SQLite compiles it in two frames before the first is run:

    SELECT <rowid> AS "<alias>" FROM <table> WHERE (⏎<condition>⏎)
    SELECT CASE WHEN⏎<condition>⏎THEN 1 END FROM <table>

A `)` without its `(` can never be grammatical after CASE WHEN, so a text that passes the second is
balanced and lies inside the parentheses of the first. There only an expression, a list or a SELECT
may stand, and the last two are errors after CASE WHEN. (Tried: of 400 000 random texts the frames
accepted no other.) The newlines end a comment in the condition.

The alias is drawn anew for each call, so that no text can know it; the result must have exactly
that one column. The rows are then changed by their rowids, never by the text.
"""

import secrets
from itertools import chain, islice
from sys import getsizeof
from typing import cast

from structmem.errors import (
    ConditionRefused,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    QueryLimit,
    shown,
)
from structmem.identifiers import quote
from structmem.reading import GuardedReader, Prepared, check_text
from structmem.results import Parameters
from structmem.schema import Table

_ALIAS_BYTES = 16
_BATCH = 1_000
_ROWID_BYTES = getsizeof(1 << 62) + 8
"""What a large one takes, with the list's pointer to it."""

_HINT = (
    "Write one SQL expression over the table's columns, such as status = ? with its value in "
    'params; "true" means all rows.'
)


def matching_rowids(
    reader: GuardedReader, table: Table, where: str, params: Parameters, *, timeout: float
) -> list[int]:
    """The rowids of the rows of `table` for which the condition is true, each once, in the order
    in which SQLite finds them.

    To be called between `reader.begin()` and `reader.end()`; `timeout` is in seconds. Raises
    `ConditionRefused`, `NoSuchTable`, `NoSuchColumn`, `QueryLimit`, and `InvalidCall` for
    parameters that do not fit.
    """
    condition = check_condition(where)
    with reader.bounded(timeout):
        prepared = _compile(reader, table, condition)
        with reader.running(prepared, params) as rows:
            batches = iter(lambda: [cast("int", rowid) for (rowid,) in islice(rows, _BATCH)], [])
            return list(chain.from_iterable(reader.bounds.within_memory(batches, _memory_of)))


def _memory_of(rowids: list[int]) -> int:
    return len(rowids) * _ROWID_BYTES


def check_condition(where: object) -> str:
    """`where`, if it is text that could be a condition."""
    if where is None or (isinstance(where, str) and not where.strip()):
        raise ConditionRefused("where is missing.", hint=_HINT)
    if not isinstance(where, str):
        raise ConditionRefused(f"where must be SQL text, not {shown(where)}.", hint=_HINT)
    try:
        return str.__str__(check_text(where))
    except InvalidCall as error:
        raise _not_an_expression(error) from None


def _not_an_expression(error: InvalidCall) -> ConditionRefused:
    message = f"where must be one SQL expression. {error.message}"
    return ConditionRefused(message, hint=error.hint or _HINT)


def _compile(reader: GuardedReader, table: Table, condition: str) -> Prepared:
    """The first frame, if the condition passes both."""
    alias = "c" + secrets.token_hex(_ALIAS_BYTES)
    name = f"main.{quote(table.name)}"
    frame = f"SELECT {table.rowid_name} AS {quote(alias)} FROM {name} WHERE (\n{condition}\n)"
    try:
        prepared = reader.compile(frame)
        reader.compile(f"SELECT CASE WHEN\n{condition}\nTHEN 1 END FROM {name}")
    except (NoSuchTable, NoSuchColumn, QueryLimit):
        raise
    except InvalidCall as error:
        raise _not_an_expression(error) from error
    if prepared.statement.columns != (alias,):
        raise ConditionRefused("where must be one SQL expression.", hint=_HINT)
    return prepared
