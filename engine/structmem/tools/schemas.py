"""JSON schemas of argument structs, in the words that every provider takes.

What msgspec writes is correct, and uses references, titles, defaults and unions with null, of which
one provider or another refuses some. What is left here: `type`, `properties`, `required`, `items`,
`anyOf`, `additionalProperties`, `minimum`, `maximum`, `description`.
"""

from copy import deepcopy
from functools import cache
from typing import Any, Final

import msgspec

_KEPT: Final = (
    "type",
    "description",
    "properties",
    "required",
    "items",
    "anyOf",
    "minimum",
    "maximum",
)

_CELL: Final[dict[str, Any]] = {
    "anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]
    + [{"type": "object", "additionalProperties": True}]
}
"""A value of a column; the object is a form of `json_values`. Some providers want a type."""


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of an object with the fields of `kind`, without references; the caller's own."""
    return deepcopy(_schema_of(kind))


@cache  # making one takes twenty times as long as copying it
def _schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    (written,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    return _plain(written, parts)


def _plain(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """`schema` with its references replaced, and only what is kept. What is said at the place of a
    reference fits better than what its target says."""
    if "$ref" in schema:
        target = {**parts[schema["$ref"]], "description": None}
        schema = target | {key: schema[key] for key in schema if key != "$ref"}
    kept = {key: schema[key] for key in _KEPT if schema.get(key) is not None}
    if "properties" in kept:
        kept["properties"] = {
            name: _typed(_plain(each, parts)) for name, each in kept["properties"].items()
        }
    if kept.get("type") == "array":
        kept["items"] = _typed(_plain(kept.get("items", {}), parts))
    if kept.get("type") == "object" and "properties" not in kept:
        kept["additionalProperties"] = True
    return _without_null(kept, parts) if "anyOf" in kept else kept


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if "type" in schema or "anyOf" in schema else schema | _CELL


def _without_null(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """What may be left out need not be null as well; and one alternative is none."""
    others = [each for each in schema["anyOf"] if each != {"type": "null"}]
    described = {key: schema[key] for key in ("description",) if key in schema}
    if len(others) == 1:
        return _plain({**others[0], **described}, parts)
    return {**described, "anyOf": [_plain(each, parts) for each in others]}
