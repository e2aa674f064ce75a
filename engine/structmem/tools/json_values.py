"""Stored values as JSON, without loss, and back.

JSON has no blobs, no infinities, and readers that keep integers as doubles. Those values become an
object with one key: `{"$int": "9223372036854775807"}` beyond 2^53, `{"$blob": "<base64>"}`,
`{"$real": "inf"}`.

What is read must mean one thing: NaN, numbers that no double holds and objects that name a key
twice are refused, where Python's reader would change them silently. How deep it may be nested does
not depend on the room that the stack has.
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn, cast

from structmem import InvalidCall
from structmem_journal import Value

_EXACT_INTEGER_MAX: Final = 1 << 53
"""Up to here every integer is a double (IEEE 754 binary64 has 53 bits of significand)."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
"""As many digits as 64 bits have; whether it fits is for the memory to say."""

DEPTH_MAX: Final = 32
"""Arrays and objects within one another. No tool takes more than four."""

_REALS: Final = {"inf": math.inf, "-inf": -math.inf}
_CONTAINERS: Final = (dict, list, tuple)
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
        except RecursionError as error:
            raise _too_deep(what) from error
        except ValueError as error:
            raise InvalidCall(f"{what} cannot be read: {error}.") from error
        check_depth(value, what)
        yield value
        at = _after_space(text, at)


def check_depth(value: Any, what: str) -> None:
    """Raise `InvalidCall` for a value beyond `DEPTH_MAX`, saying that `what` is that."""
    if _is_deeper(value, DEPTH_MAX):
        raise _too_deep(what)


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, _CONTAINERS):
        return False
    inner = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
    return levels == 0 or any(
        _is_deeper(each, levels - 1) for each in inner if isinstance(each, _CONTAINERS)
    )


def _too_deep(what: str) -> InvalidCall:
    return InvalidCall(
        f"{what} is nested more than {DEPTH_MAX} levels deep.",
        hint="No tool takes that; a column can hold it as JSON text, in a string.",
    )


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
