"""From what an application grants to the tools that a model gets."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

import structmem
from structmem import InvalidCall
from structmem.tools.arguments import digest_of, read_arguments
from structmem.tools.operations import ALL, How, Input
from structmem.tools.tool import Arguments, Box, MemoryTool, ToolDefinition, define
from structmem.tools.wording import Names

if TYPE_CHECKING:
    from structmem import AsyncStructuredMemory, StructuredMemory

Level = Literal["allow", "ask", "deny"]
"""Carried out; carried out once a person approved; not there."""

_OF: Final = {kind.operation: kind for kind in ALL}
OPERATIONS: Final = tuple(_OF)
"""Every operation that can be granted, in the order in which the tools come."""

READS: Final = tuple(kind.operation for kind in ALL if kind.read_only)
"""Those that change nothing: what a replica can offer."""

_ALLOWED_BY_DEFAULT: Final = ("describe", "query")
_TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider takes: OpenAI and Anthropic letters, digits, `_` and `-`, 64 in all; Google
the same, beginning with a letter or `_`."""

_CALL_ID_PART_CHARACTERS_MAX: Final = 300


def tool_definitions(
    permissions: Mapping[str, Level], *, prefix: str = "db_"
) -> list[ToolDefinition]:
    """What `memory_tools` would make, without a memory to call."""
    levels = _levels(permissions)
    names = _names(levels, prefix)
    return [define(_OF[name], level, names) for name, level in levels.items()]


def memory_tools(
    memory: StructuredMemory | AsyncStructuredMemory,
    *,
    permissions: Mapping[str, Level],
    prefix: str = "db_",
    actor: str | None = None,
    max_rows: int = 200,
    max_bytes: int = 16_384,
) -> list[MemoryTool]:
    """The tools for a model that may use `memory` as `permissions` say: operation names to levels.

    `describe` and `query` are allowed unless said otherwise, everything else is denied, and so not
    there. `prefix` begins the name of each tool, so that one model can hold several memories. What
    a query returns is cut at `max_rows` rows and `max_bytes` bytes of JSON. `actor` is who the
    journal is told; left out, the actor of the memory. Raises `InvalidCall` for unknown operations
    and levels, and for names that providers do not take. Warns where `execute` is granted.
    """
    if not _is_memory(memory):
        raise InvalidCall(f"memory must be a memory, not {memory!r:.200}.")
    levels = _levels(permissions)
    if "execute" in levels:
        warnings.warn(
            "execute is granted: with it a model can do whatever the other permissions deny.",
            stacklevel=2,
        )
    names = _names(levels, prefix)
    box = Box(memory, actor, _how(max_rows, max_bytes), names)
    return [_tool(_OF[name], level, box) for name, level in levels.items()]


def _is_memory(given: object) -> bool:
    """Loads asyncio only for what is not a `StructuredMemory`."""
    blocks = isinstance(given, structmem.StructuredMemory)
    return blocks or isinstance(given, structmem.AsyncStructuredMemory)


def call_id_of(conversation: str, tool_call_id: str, arguments: Arguments) -> str | None:
    """An idempotency key for a call from a harness that gives each an id.

    Models repeat those ids, so the key holds the conversation (or run) and the arguments as well.
    None where there is no id, or the arguments cannot be read: such a call is not carried out.
    """
    if not tool_call_id or not conversation:
        return None
    try:
        digest = digest_of(read_arguments(arguments))
    except InvalidCall:
        return None
    return f"{_short(conversation)}/{_short(tool_call_id)}/{digest}"


def _short(text: str) -> str:
    """`text` as a part of a call id, which is bounded and is UTF-8."""
    if len(text) <= _CALL_ID_PART_CHARACTERS_MAX and text.isascii():
        return text
    return digest_of({"text": text})


def _levels(permissions: Mapping[str, Level]) -> dict[str, Literal["allow", "ask"]]:
    """What is granted, in our order."""
    if not isinstance(permissions, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may err
        raise InvalidCall(f"permissions must map operations to levels, not {permissions!r:.200}.")
    _check_operations(permissions)
    for name, level in permissions.items():
        if level not in get_args(Level):
            raise InvalidCall(
                f"The level of {name} is {level!r:.200}.", hint="It is allow, ask or deny."
            )
    wanted = dict.fromkeys(_ALLOWED_BY_DEFAULT, "allow") | dict(permissions)
    return {
        name: cast("Literal['allow', 'ask']", wanted[name])
        for name in OPERATIONS
        if wanted.get(name, "deny") != "deny"
    }


def _check_operations(names: Iterable[str]) -> None:
    for name in names:
        if name not in OPERATIONS:
            close = get_close_matches(str(name), OPERATIONS, n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            raise InvalidCall(
                f"There is no operation {name!r:.200}.",
                hint=f"{meant}There are: {', '.join(OPERATIONS)}.",
            )


def _names(levels: Mapping[str, str], prefix: str) -> Names:
    names = {name: f"{prefix}{name}" if name in levels else None for name in OPERATIONS}
    for name in names.values():
        if name is not None and not _TOOL_NAME.fullmatch(name):
            raise InvalidCall(
                f"{name!r:.200} is not a tool name that every provider takes.",
                hint="Choose a prefix of up to 50 letters, digits, _ and -, not a digit first.",
            )
    return names


def _how(max_rows: int, max_bytes: int) -> How:
    for name, number in (("max_rows", max_rows), ("max_bytes", max_bytes)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:  # pyright: ignore[reportUnnecessaryIsInstance] # callers may err
            raise InvalidCall(f"{name} must be a whole number above 0, not {number!r:.200}.")
    return How(max_rows, max_bytes)


def _tool(kind: type[Input], level: Literal["allow", "ask"], box: Box) -> MemoryTool:
    definition = define(kind, level, box.names)
    return MemoryTool(**vars(definition), _input=kind, _box=box)
