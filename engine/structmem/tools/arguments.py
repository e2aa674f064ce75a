"""What a model sends as the arguments of a tool, read leniently where it can mean one thing only.

Models send arrays as JSON text, numbers as text, `if_not_exists` for `ifNotExists`, null for what
they leave out. All of that is understood. What cannot be understood is `InvalidCall`, with what was
expected and an example: no harness checks arguments, so everything is checked here.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin

import msgspec

from structmem import InvalidCall
from structmem.tools.json_values import check_depth, parse
from structmem.tools.wording import shown

Arguments = Mapping[str, Any] | str | bytes | None
"""An object, JSON text of one, or nothing."""

T = TypeVar("T", bound=msgspec.Struct)

_WORDS: Final = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    list: "an array",
    dict: "an object",
}
_JSON_WORDS: Final = {"object": "an object", "array": "an array", "str": "text"}

_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>\w+)`.* - at `\$(?P<place>.+)`")
"""What msgspec says of a part of a value."""


def read_arguments(arguments: Arguments) -> dict[str, Any]:
    """`arguments` as a dict of JSON values. Raises `InvalidCall` for anything else, and for what is
    nested beyond `DEPTH_MAX`."""
    if isinstance(arguments, str | bytes):
        arguments = _parsed(arguments)
        if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
            arguments = _parsed(arguments)  # some harnesses write JSON into JSON
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] # models err
        raise InvalidCall(f"The arguments must be a JSON object, not {shown(arguments)}.")
    read = dict(arguments)
    check_depth(read, "What the arguments hold")
    digest_of(read)
    return read


def digest_of(arguments: Mapping[str, Any]) -> str:
    """32 hex digits, equal for equal JSON: the order of keys plays no part. Raises `InvalidCall`
    for what is not JSON."""
    try:
        text = json.dumps(arguments, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidCall(f"The arguments are not JSON: {error}.") from error
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def convert(arguments: Mapping[str, Any], kind: type[T]) -> T:
    """`arguments` as a `kind`. Raises `InvalidCall` naming what is missing, unknown or wrong."""
    fields = _fields(kind)
    given = _named(arguments, list(fields))
    for name, field in fields.items():
        if name not in given and field.required:
            raise InvalidCall(f"{name} is missing.", hint=_described(field.type))
    return kind(
        **{fields[name].name: _value(name, value, fields[name]) for name, value in given.items()}
    )


@cache  # msgspec evaluates the annotations, which are text, each time
def _fields(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """The fields of `kind`, by the names that a model gives."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _parsed(text: str | bytes) -> Any:
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise InvalidCall(f"The arguments are not UTF-8: {error}.") from error
    return parse(text, "The text of the arguments") if text.strip() else None


def _named(arguments: Mapping[str, Any], known: list[str]) -> dict[str, Any]:
    """By the names of our own; null is what is left out."""
    given: dict[str, Any] = {}
    for key, value in arguments.items():
        name = key if key in known else _camel(key)
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            listed = ", ".join(known) or "none"
            raise InvalidCall(
                f"There is no argument {shown(key)}.", hint=f"{meant}There are: {listed}."
            )
        if name in given:
            raise InvalidCall(f"{name} is given twice.")
        if value is not None:
            given[name] = value
    return given


def _camel(key: object) -> str:
    first, *rest = str(key).split("_")
    return first + "".join(word.capitalize() for word in rest)


def _value(name: str, value: Any, field: msgspec.structs.FieldInfo) -> Any:
    """`value` as the field wants it, taken out of JSON text if need be."""
    kinds = _kinds(field.type)
    if isinstance(value, str) and str not in kinds:
        value = _from_text(value)
    if kinds == [list] and isinstance(value, str | dict) and value:
        value = [value]
    if kinds == [list, dict] and isinstance(value, str | int | float):
        value = [value]
    if list in kinds and isinstance(value, list):
        value = _items_from_text(cast("list[Any]", value), field.type)
    try:
        return msgspec.convert(value, field.type, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError) as error:
        place, wanted = _place(error)
        given = "" if place else f", not {shown(value)}"
        message = f"{name}{place} must be {wanted or _words(field.type)}{given}."
        raise InvalidCall(message, hint=_described(field.type)) from error


def _from_text(text: str) -> Any:
    """The array or object that `text` is the JSON of; else the text itself."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return parse(text, "The text")
    except InvalidCall:
        return text


def _items_from_text(items: list[Any], wanted: Any) -> list[Any]:
    """`items`, each taken out of JSON text where an object is wanted and text was given."""
    if dict not in [get_origin(item) for part in _parts(wanted) for item in get_args(part)]:
        return items
    return [_from_text(item) if isinstance(item, str) else item for item in items]


def _place(error: Exception) -> tuple[str, str | None]:
    """Where in the value it is wrong, such as `[0]`, and what was expected there."""
    found = _EXPECTED.match(str(error))
    if found is None:
        return "", None
    return found["place"], _JSON_WORDS.get(found["wanted"], found["wanted"])


def _described(kind: Any) -> str | None:
    """What the schema says of an argument of this type."""
    return next((note.description for note in _notes(kind)), None)


def _notes(kind: Any) -> list[msgspec.Meta]:
    notes: tuple[Any, ...] = getattr(kind, "__metadata__", ())
    return [note for note in notes if isinstance(note, msgspec.Meta)]


def _parts(kind: Any) -> list[Any]:
    """The alternatives of a type, without its notes and without None."""
    if get_origin(kind) in (Union, UnionType):
        return [part for each in get_args(kind) for part in _parts(each)]
    if hasattr(kind, "__metadata__"):
        return _parts(kind.__origin__)
    return [] if kind is NoneType else [kind]


def _kinds(kind: Any) -> list[type]:
    return [get_origin(part) or part for part in _parts(kind)]


def _words(kind: Any) -> str:
    words = " or ".join(_WORDS[each] for each in _kinds(kind))
    for note in _notes(kind):
        if note.ge is not None and note.le is not None:
            words += f" from {note.ge} to {note.le}"
    return words
