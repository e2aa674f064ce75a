"""Values on their way in: what SQLite can hold passes unchanged, anything else is refused.

Equality here is storage class and bytes. SQL's `=` and `IS`, and Python's `==`, take 1 for 1.0 and
0.0 for -0.0; for a journal these are different values.
"""

from collections.abc import Mapping, Sequence
from math import copysign
from typing import Any, cast

from structmem.errors import InvalidCall, shown
from structmem.results import Parameters
from structmem_journal import Value

_INTEGER_MIN, _INTEGER_MAX = -(1 << 63), (1 << 63) - 1


def is_plain(value: object, max_bytes: int) -> bool:
    """Whether `check_value` would return `value` itself. Nearly all values are plain, and to find
    that out needs no words about which one it is. (Text beyond ASCII takes the longer way.)"""
    kind = type(value)
    if kind is str:
        text = cast("str", value)
        return text.isascii() and len(text) <= max_bytes
    if kind is int:
        return _INTEGER_MIN <= cast("int", value) <= _INTEGER_MAX
    return value is None or (kind is float and value == value)


def check_value(value: object, what: str, max_bytes: int) -> Value:
    """`value` as SQLite will store it; raises `InvalidCall` saying which value of `what` is wrong.

    `True` and `False` become 1 and 0, buffers become bytes, members of a text enumeration their
    text. Refused: integers beyond 64 bits, NaN, text that is not valid Unicode, values over
    `max_bytes`, and every other type.
    """
    match value:
        case None:
            return None
        case bool():
            return int(value)
        case int():
            if not _INTEGER_MIN <= value <= _INTEGER_MAX:
                raise InvalidCall(
                    f"{what}: {shown(value)} does not fit into 64 bits.", hint="Use text."
                )
            return int(value)
        case float():
            if value != value:
                raise InvalidCall(f"{what}: NaN cannot be stored.", hint="Use null.")
            return float(value)
        case str():
            return _check_text(str.__str__(value), what, max_bytes)
        case bytes() | bytearray() | memoryview():
            return _check_size(bytes(cast("bytes", value)), what, max_bytes)
        case _:
            raise InvalidCall(
                f"{what}: a {type(value).__name__} is not a value that a column can hold.",
                hint="Use text, a number, bytes, true, false or null; encode lists as JSON text.",
            )


def check_parameters(params: Parameters, max_bytes: int) -> list[Value] | dict[str, Value]:
    """The parameters of SQL text, each checked; a list for `?`, a dict for `:name`."""
    if isinstance(params, Mapping):
        named: Mapping[Any, Any] = params
        for name in named:
            if not isinstance(name, str):
                raise InvalidCall(f"Parameter names must be text, not {type(name).__name__}.")
        return {
            str.__str__(name): check_value(value, f"Parameter {shown(name)}", max_bytes)
            for name, value in named.items()
        }
    if isinstance(params, str | bytes | bytearray) or not isinstance(params, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidCall(
            f"Parameters must be a list, or a mapping of names, not {type(params).__name__}.",
            hint="Put a single value into a list.",
        )
    return [
        check_value(value, f"Parameter {number}", max_bytes)
        for number, value in enumerate(params, start=1)
    ]


def same(a: Value, b: Value) -> bool:
    """Whether two stored values are the same: storage class and bytes."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b and copysign(1.0, a) == copysign(1.0, b)
    return type(a) is type(b) and a == b


def _check_text(text: str, what: str, max_bytes: int) -> str:
    try:
        _check_size(text.encode(), what, max_bytes)
    except UnicodeEncodeError as error:
        raise InvalidCall(
            f"{what}: the text is not valid Unicode (a lone surrogate at character {error.start}).",
            hint="Store it as bytes.",
        ) from None
    return text


def _check_size(data: bytes, what: str, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise InvalidCall(
            f"{what}: {len(data):,} bytes are more than the {max_bytes:,} that a value may have.",
            hint="Store it in pieces, or open the memory with a larger max_value_bytes.",
        )
    return data


def changed_indexes(before: Sequence[Value], after: Sequence[Value]) -> tuple[int, ...]:
    """The indexes at which two rows of equal length differ, as `same` tells it."""
    pairs = enumerate(zip(before, after, strict=True))
    changed = [
        i
        for i, (was, now) in pairs
        if was is not now
        and (type(was) is not type(now) or was != now or (was == 0.0 and not same(was, now)))
    ]
    return tuple(changed)
