"""What an update or delete would touch, shown before it happens, and bound to it by a token.

A token is the digest of the operation, its condition, and each row that matches with all its
values. The write that expects it computes it anew, in its own transaction: it goes through only if
the very same rows match and none of them has changed. Nothing is remembered in between.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec

from structmem import images
from structmem.errors import InvalidCall, PreviewOutdated, shown
from structmem.parameters import Bindings
from structmem.results import Preview
from structmem.schema import Table

OPERATIONS: Final = ("update", "delete")
_SAMPLE_ROWS: Final = 5

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def check_operation(operation: object) -> str:
    """`operation`, if it is one that has a condition."""
    if operation not in OPERATIONS:
        raise InvalidCall(
            f"There is no preview of {shown(operation)}.", hint="Only of update and delete."
        )
    return str(operation)


def check_token(expect: object) -> str | None:
    if expect is None or isinstance(expect, str):
        return expect
    raise InvalidCall(f"expect must be the token of a preview, not {shown(expect)}.")


def preview(
    operation: str,
    connection: apsw.Connection,
    table: Table,
    rowids: Iterable[int],
    where: str,
    params: Bindings,
) -> Preview:
    """The rows of `table` with these rowids, as they are now: their count, the first few, and the
    token for all. Raises `InvalidCall` for text that is not valid UTF-8."""
    digest = hashlib.sha256(_encode((operation, table.name, table.stored, where, params)))
    sample: list[tuple[Any, ...]] = []
    count = 0
    for row in images.read(connection, table, sorted(rowids)):
        digest.update(_encode(row))
        count += 1
        if len(sample) < _SAMPLE_ROWS:
            sample.append(row[1:])
    return Preview(operation, table.name, count, table.stored, sample, digest.hexdigest())


def check(
    operation: str,
    connection: apsw.Connection,
    table: Table,
    rowids: Iterable[int],
    where: str,
    params: Bindings,
    expect: str | None,
) -> None:
    """Raise `PreviewOutdated` unless these are the rows of the preview with the token `expect`."""
    if expect is None:
        return
    found = preview(operation, connection, table, rowids, where, params)
    if found.token != expect:
        raise PreviewOutdated(
            "The rows that the condition matches are not those of the preview any more: "
            f"{found.rows_matched:,} match now.",
            hint="Call `preview` again, and use its token.",
        )
