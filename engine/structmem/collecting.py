"""Taking the rows of a result, as many as were asked for and as memory allows."""

from collections.abc import Iterable
from sys import getsizeof

from structmem.arguments import check_whole
from structmem.bounds import Bounds
from structmem_journal import Value

_NUMBER_BYTES = 8


def check_bound(bound: object, name: str) -> None:
    """Refuse `bound` unless it is None or a count."""
    if bound is not None:
        check_whole(bound, name)


def collect(
    rows: Iterable[tuple[Value, ...]],
    max_rows: int | None,
    max_bytes: int | None,
    bounds: Bounds,
) -> tuple[list[tuple[Value, ...]], bool]:
    """The first rows that fit into `max_rows` and `max_bytes`, and whether more were there.

    Text counts by its UTF-8 bytes, a blob by its bytes, a number for 8, NULL for nothing. Raises
    `QueryLimit` when the rows take more memory than `bounds` allow.
    """
    kept: list[tuple[Value, ...]] = []
    size = 0
    for row in bounds.within_memory(rows, _memory_of):
        if max_bytes is not None:
            size += sum(map(_bytes_of, row))
        if len(kept) == max_rows or (max_bytes is not None and size > max_bytes):
            return kept, True
        kept.append(row)
    return kept, False


def _memory_of(row: tuple[Value, ...]) -> int:
    return getsizeof(row) + sum(map(getsizeof, row))


def _bytes_of(value: Value) -> int:
    match value:
        case str():
            return len(value) if value.isascii() else len(value.encode())
        case bytes():
            return len(value)
        case None:
            return 0
        case _:
            return _NUMBER_BYTES
