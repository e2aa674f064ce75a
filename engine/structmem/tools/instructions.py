"""What a model is told of its memory before it begins: for a system prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from structmem.tools import shapes
from structmem.tools.granting import Level, tool_definitions
from structmem.tools.tool import ToolDefinition

if TYPE_CHECKING:
    from structmem import AsyncStructuredMemory, StructuredMemory

_SCHEMA_BYTES_MAX: Final = 16_384

_CHANGING: Final = (
    "Change it only through its tools: values are plain JSON, never SQL; "
    '{"$int": "<digits>"} is a whole number beyond 2^53, {"$blob": "<base64>"} bytes.'
)


def instructions(
    memory: StructuredMemory,
    *,
    prefix: str = "db_",
    permissions: Mapping[str, Level] | None = None,
) -> str:
    """The rules for the tools that `permissions` grant, and the schema as it is now."""
    tools = tool_definitions(permissions or {}, prefix=prefix)
    return f"{rules(tools)}\n\n{_schema(memory.describe())}"


async def ainstructions(
    memory: AsyncStructuredMemory,
    *,
    prefix: str = "db_",
    permissions: Mapping[str, Level] | None = None,
) -> str:
    """As `instructions`, for a memory that is awaited."""
    tools = tool_definitions(permissions or {}, prefix=prefix)
    return f"{rules(tools)}\n\n{_schema(await memory.describe())}"


def rules(tools: Sequence[ToolDefinition]) -> str:
    """How to use these tools, without the schema: no file is opened."""
    of = {tool.operation: tool for tool in tools}
    lines = ["You have a memory: an SQLite database of your own, which outlives this conversation."]
    if "query" in of:
        lines.append(f"Read it with SQL through {of['query'].name} before you rely on it.")
    if "describe" in of:
        lines.append(f"{of['describe'].name} shows the tables; never guess their names.")
    if any(not tool.read_only for tool in tools):
        lines += [_CHANGING, "Give a reason with every change."]
    if "undo" in of:
        lines.append(f"A mistake is taken back with {of['undo'].name}.")
    asked = [tool.name for tool in tools if tool.level == "ask"]
    if asked:
        lines.append(
            f"A person must approve each call of {', '.join(asked)}. "
            "When they decline, do not try the same again."
        )
    lines.append("An error says what to do instead; nothing was changed then.")
    return "\n".join(f"- {line}" if index else line for index, line in enumerate(lines))


def _schema(text: str) -> str:
    shaped = shapes.of_schema(text, _SCHEMA_BYTES_MAX)
    return "\n".join(["The schema now:", *filter(None, (shaped["schema"], shaped.get("note")))])
