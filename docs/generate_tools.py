"""Write `tools-reference.md` from the code: every tool that a model can be granted."""

from pathlib import Path
from typing import Any, Final

from structmem.tools import OPERATIONS, ToolDefinition, tool_definitions

PAGE: Final = Path(__file__).with_name("tools-reference.md")

_INTRODUCTION: Final = """\
# The tools

Written from the code by `make docs`; a test fails when the two differ. How to grant them is in
[tools](tools.md).

Here every operation is granted, with the prefix `db_`. A model with fewer of them reads the same
descriptions without the sentences about those that it lacks.

| tool | operation | granted by default | reads only | may change or remove what is there |
|---|---|---|---|---|
"""
_BY_DEFAULT: Final = {tool.operation for tool in tool_definitions({})}


def page() -> str:
    """The whole page."""
    tools = tool_definitions(dict.fromkeys(OPERATIONS, "allow"))
    return "".join([_INTRODUCTION, *map(_row, tools), *map(_section, tools)])


def _row(tool: ToolDefinition) -> str:
    marks = (tool.operation in _BY_DEFAULT, tool.read_only, tool.destructive)
    cells = " | ".join("yes" if mark else "" for mark in marks)
    return f"| [`{tool.name}`](#{tool.name}) | `{tool.operation}` | {cells} |\n"


def _section(tool: ToolDefinition) -> str:
    told, _, example = tool.description.partition(" Example: ")
    shown = f"\n```json\n{example}\n```\n" if example else ""
    arguments = "".join(
        _argument(name, schema, tool.input_schema.get("required", []))
        for name, schema in tool.input_schema["properties"].items()
    )
    table = f"\n| argument | | |\n|---|---|---|\n{arguments}" if arguments else ""
    return f"\n## {tool.name}\n\n*{tool.title}.* {told}\n{shown}{table}"


def _argument(name: str, schema: dict[str, Any], required: list[str]) -> str:
    needed = ", required" if name in required else ""
    return f"| `{name}` | {_kind(schema)}{needed} | {schema.get('description', '')} |\n"


def _kind(schema: dict[str, Any]) -> str:
    match schema:
        case {"anyOf": alternatives}:
            return " or ".join(_kind(each) for each in alternatives)
        case {"type": "array", "items": {"type": str(kind)}}:
            return f"array of {kind}s"
        case _:
            return str(schema["type"])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
