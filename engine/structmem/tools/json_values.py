"""Stored values as JSON, without loss, and back.

JSON has no blobs, no infinities, and readers that keep integers as doubles. Those values become an
object with one key: `{"$int": "9223372036854775807"}` beyond 2^53, `{"$blob": "<base64>"}`,
`{"$real": "inf"}`.

What is read must mean one thing: NaN, numbers that no double holds and objects that name a key
twice are refused, where Python's reader would change them silently.
"""

import base64
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn, cast

from structmem import InvalidCall
from structmem_journal import Value

_EXACT_INTEGER_MAX: Final = 1 << 53
"""Up to here every integer is a double (IEEE 754 binary64 has 53 bits of significand)."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
"""As many digits as 64 bits have; whether it fits is for the memory to say."""

_REALS: Final = {"inf": math.inf, "-inf": -math.inf}
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def to_json(value: Value) -> Any:
    """`value` as something that any JSON encoder writes without loss."""
    match value:
        case int() if abs(value) > _EXACT_INTEGER_MAX:
            return {"$int": str(value)}
        case float() if math.isinf(value):
            return {"$real": "inf" if value > 0 else "-inf"}
        case bytes():
            return {"$blob": base64.b64encode(value).decode()}
        case _:
            return value


def from_json(value: Any) -> Any:
    """What `to_json` made of a value, turned back. Anything else passes: the memory judges it.

    Raises `InvalidCall` for an object of these forms that is none.
    """
    match value:
        case {"$int": str(digits), **rest} if not rest and _INTEGER.fullmatch(digits):
            return int(digits)
        case {"$real": str(name), **rest} if not rest and name in _REALS:
            return _REALS[name]
        case {"$blob": str(text), **rest} if not rest:
            return _blob(text)
        case {"$int": _} | {"$real": _} | {"$blob": _}:
            raise InvalidCall(
                f"{json.dumps(value)} is not a value.",
                hint='The forms are {"$int": "<digits>"}, {"$blob": "<base64>"} and '
                '{"$real": "inf"} or "-inf".',
            )
        case _:
            return value


def parse(text: str, what: str) -> Any:
    """The one JSON value in `text`. Raises `InvalidCall` saying that `what` is not that."""
    values = list(parse_each(text, what))
    if not values:
        raise InvalidCall(f"{what} is not JSON: it is empty.")
    if len(values) > 1:
        raise InvalidCall(f"{what} is {len(values)} JSON values, not one.")
    return values[0]


def parse_each(text: str, what: str) -> Iterator[Any]:
    """The JSON values in `text`, one after the other, with white space between them or none."""
    at = _after_space(text, 0)
    while at < len(text):
        try:
            value, at = _decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InvalidCall(f"{what} is not JSON: {error}.") from error
        except (ValueError, RecursionError) as error:
            raise InvalidCall(f"{what} cannot be read: {error}.") from error
        yield value
        at = _after_space(text, at)


def _after_space(text: str, at: int) -> int:
    return cast("re.Match[str]", _SPACE.match(text, at)).end()


def _blob(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidCall(f"A $blob is not base64: {error}.") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return result


def _real(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f'{text} is beyond every double; infinity is {{"$real": "inf"}}')
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f'{text} is not JSON; infinity is {{"$real": "inf"}}, and NaN no value')


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_real, parse_constant=_constant
)
