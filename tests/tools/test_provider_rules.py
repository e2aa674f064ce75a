"""S1: every tool is accepted as it is by the providers that document what they take.

The rules, with strict mode off, as the providers' pages had them in November 2026:

- OpenAI, "Function calling" and the reference of chat completions: a name of letters, digits, `_`
  and `-`, at most 64 characters; parameters whose root is an object without a union.
- Anthropic, "Tool use" and "Custom tools": the same names; no `$ref` anywhere, no `oneOf`, `anyOf`,
  `allOf` at the root; names of properties from letters, digits, `_`, `.` and `-`, at most 64.
- Google, `FunctionDeclaration` of Vertex AI: a name that begins with a letter or `_`, at most 64
  characters; a schema of the OpenAPI subset, each part with a type or `anyOf`; names of parameters
  from letters, digits and `_`, not beginning with a digit.

`tests/adapters/test_pydantic_ai.py` has the schemas pass through what Pydantic AI makes of them for
each provider.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from structmem.tools import OPERATIONS, ToolDefinition, tool_definitions
from structmem.tools.arguments import convert
from structmem.tools.operations import ALL

TOOLS: Final = tool_definitions(dict.fromkeys(OPERATIONS, "allow"))
EXAMPLES: Final = {kind.operation: kind.example for kind in ALL}

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
DESCRIPTION_CHARACTERS_MAX: Final = 1_024
"""OpenAI refused more for years, and compatible servers still do."""

KEYWORDS: Final = frozenset(
    [
        "additionalProperties",
        "anyOf",
        "description",
        "items",
        "maximum",
        "minimum",
        "properties",
        "required",
        "type",
    ]
)
"""What all of them have. Not among them: references, titles, defaults, formats, patterns."""

DEPTH_MAX: Final = 5
"""Of objects and arrays within each other: the least that one documents (OpenAI, when strict)."""

each_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.operation)


def parts(schema: dict[str, Any], depth: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Every schema within `schema`, with the number of objects and arrays around it."""
    yield schema, depth
    inner = depth + (schema.get("type") in ("object", "array"))
    for each in schema.get("properties", {}).values():
        yield from parts(each, inner)
    if "items" in schema:
        yield from parts(schema["items"], inner)
    for each in schema.get("anyOf", []):
        yield from parts(each, depth)


@each_tool
def test_names_are_accepted(tool: ToolDefinition) -> None:
    assert NAME.fullmatch(tool.name)
    for schema, _depth in parts(tool.input_schema):
        assert all(PARAMETER.fullmatch(name) for name in schema.get("properties", {}))


@each_tool
def test_descriptions_are_short_enough(tool: ToolDefinition) -> None:
    assert 40 < len(tool.description) <= DESCRIPTION_CHARACTERS_MAX
    assert tool.title and len(tool.title) < 40


@each_tool
def test_the_root_is_a_plain_object(tool: ToolDefinition) -> None:
    assert tool.input_schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "not", "enum"} & set(tool.input_schema)


@each_tool
def test_every_part_has_a_type_and_nothing_unsupported(tool: ToolDefinition) -> None:
    for schema, depth in parts(tool.input_schema):
        assert set(schema) <= KEYWORDS
        assert ("type" in schema) != ("anyOf" in schema)
        assert isinstance(schema.get("type", ""), str), "one type, not a list of them"
        assert ("items" in schema) == (schema.get("type") == "array")
        assert set(schema.get("required", [])) <= set(schema.get("properties", {}))
        assert depth <= DEPTH_MAX


@each_tool
def test_rows_stay_free_objects(tool: ToolDefinition) -> None:
    """An object without properties says that any may come: what would close it loses every row."""
    objects = [schema for schema, _ in parts(tool.input_schema) if schema.get("type") == "object"]
    assert all(("properties" in each) != ("additionalProperties" in each) for each in objects)
    assert all(each.get("additionalProperties", True) is True for each in objects)


@each_tool
def test_schema_and_example_fit(tool: ToolDefinition) -> None:
    Draft202012Validator.check_schema(tool.input_schema)
    example = EXAMPLES[tool.operation]
    validator: Any = Draft202012Validator(tool.input_schema)
    validator.validate(example)
    kind = next(kind for kind in ALL if kind.operation == tool.operation)
    assert isinstance(convert(example, kind), kind)
    if example:
        assert tool.description.endswith(f"Example: {json.dumps(example)}")


def test_all_tools_together_are_small() -> None:
    """They are sent with each request: some 4 characters a token, so about 3 000 of them."""
    sent = json.dumps([(t.name, t.description, t.input_schema) for t in TOOLS])
    assert len(sent) < 14_000
