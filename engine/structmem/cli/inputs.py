"""What is typed or piped in, as arguments of the memory's methods.

`NAME=VALUE` is text, always: nothing is guessed from its looks, so that 007 stays what it is.
`NAME:=JSON` is a JSON value, for numbers, null and the forms of `json_values`. Where a text begins
with a brace or bracket, it is JSON as a whole.

Everything here raises `InvalidCall` for what it cannot read.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

from structmem import InvalidCall
from structmem.tools.json_values import from_json, parse, parse_each

STDIN: Final = "-"


def read_fields(texts: Iterable[str], what: str) -> dict[str, Any]:
    """Column names and values, each text `NAME=VALUE`, `NAME:=JSON` or a JSON object."""
    fields: dict[str, Any] = {}
    for text in texts:
        found = _object(parse(text, what), what) if text.startswith("{") else _pair(text, what)
        for name, value in found.items():
            if name in fields:
                raise InvalidCall(f"{what} names {name!r} twice.")
            fields[name] = value
    return fields


def read_rows(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Rows: each text is `-` (standard input), JSON, or a field of one more row."""
    rows: list[dict[str, Any]] = []
    typed: list[str] = []
    for text in texts:
        if text == STDIN:
            rows += _rows(_stdin(), "Standard input")
        elif text.startswith(("{", "[")):
            rows += _rows(text, "A row")
        else:
            typed.append(text)
    if typed:
        rows.append(read_fields(typed, "The row"))
    return rows


def read_params(texts: Sequence[str], as_json: str | None) -> list[Any] | dict[str, Any]:
    """Parameters: `texts` as they are, or an array or object of JSON."""
    if as_json is None:
        return list(texts)
    if texts:
        raise InvalidCall("Parameters are given twice: as PARAMS, and by --params.")
    given = parse(as_json, "--params")
    if isinstance(given, list):
        return [from_json(value) for value in cast("list[Any]", given)]
    return _object(given, "--params", "an array or an object")


def read_column(text: str) -> dict[str, Any]:
    """A column as a JSON object, such as `{"name": "email", "type": "TEXT", "notNull": true}`."""
    given = parse(text, "--column")
    if not isinstance(given, dict):
        raise InvalidCall(f"--column must be a JSON object, not {text!r:.200}.")
    column = cast("dict[str, Any]", given)
    if "default" in column:
        column["default"] = from_json(column["default"])
    return column


def _rows(text: str, what: str) -> Iterator[dict[str, Any]]:
    """JSON objects, one after the other (JSON lines), and arrays of them."""
    for given in parse_each(text, what):
        for row in cast("list[Any]", given) if isinstance(given, list) else [given]:
            yield _object(row, what, "made of objects, or arrays of objects")


def _object(given: Any, what: str, wanted: str = "an object") -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidCall(f"{what} must be {wanted}, not {given!r:.200}.")
    fields = cast("dict[str, Any]", given)
    return {name: from_json(value) for name, value in fields.items()}


def _pair(text: str, what: str) -> dict[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidCall(
            f"{what} has {text!r:.200}, which names no column.",
            hint="Write NAME=TEXT, NAME:=JSON, or a JSON object.",
        )
    if name.endswith(":"):
        name = name.removesuffix(":")
        return {name: from_json(parse(value, f"The value of {name!r}"))}
    return {name: value}


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidCall(f"Standard input is not UTF-8: {error}.") from error
