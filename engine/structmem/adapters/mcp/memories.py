"""The memories behind the door, and which of their tools there are now.

Rules: SQLite is not loaded, and nothing is opened, before the first call of a tool, or the first
list of those of a file that is there. A list does not make a file. A replica offers what reads, for
as long as it is one. One thread at a time uses everything but `instructions`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from structmem import NotGranted, StructMemError
from structmem.tools import (
    READS,
    Level,
    MemoryTool,
    ToolDefinition,
    memory_tools,
    rules,
    tool_definitions,
)

if TYPE_CHECKING:
    from structmem import StructuredMemory

Permissions = Mapping[str, Level]


class Bounds(TypedDict, total=False):
    """How much a query returns."""

    max_rows: int
    max_bytes: int


class Held:
    """One memory. `options` are for the memory, `bounds` for its tools.

    Raises `InvalidCall` for permissions or a prefix that are wrong; a wrong path shows later.
    """

    def __init__(
        self,
        path: Path,
        *,
        prefix: str,
        permissions: Permissions,
        options: Mapping[str, Any],
        bounds: Bounds,
    ) -> None:
        self._path = path
        self.prefix = prefix
        self._reading: Permissions = {
            name: level for name, level in permissions.items() if name in READS
        }
        self._permissions = self._reading if options.get("read_only") else permissions
        self._options = options
        self._bounds = bounds
        self.granted = tool_definitions(self._permissions, prefix=prefix)

    def offered(self) -> Sequence[ToolDefinition]:
        """The tools that can be called now."""
        return self._reading_tools if self._is_replica() else self.granted

    def tool(self, name: str) -> MemoryTool | None:
        """One that can be called now, if there is one of that name."""
        tools = self._reading_tools if self._is_replica() else self._tools
        return next((tool for tool in tools if tool.name == name), None)

    def load(self) -> None:
        """Have SQLite ready for the first call. Opens nothing."""
        _ = self._tools

    def close(self) -> None:
        """Close the file, if it was opened."""
        if "_memory" in vars(self):
            self._memory.close()

    def _is_replica(self) -> bool:
        """A file that cannot be read counts as none: its tools tell what is wrong with it."""
        try:
            return self._path.exists() and self._memory.role() == "replica"
        except StructMemError:
            return False

    @cached_property
    def _memory(self) -> "StructuredMemory":
        from structmem import StructuredMemory

        return StructuredMemory(self._path, **self._options)

    @cached_property
    def _tools(self) -> list[MemoryTool]:
        return self._made(self._permissions)

    @cached_property
    def _reading_tools(self) -> list[MemoryTool]:
        return self._made(self._reading)

    def _made(self, permissions: Permissions) -> list[MemoryTool]:
        return memory_tools(
            self._memory, permissions=permissions, prefix=self.prefix, **self._bounds
        )


class Memories:
    """All memories of a door, in the order of the command line."""

    def __init__(self, held: Sequence[Held]) -> None:
        self._held = held

    @property
    def instructions(self) -> str:
        """How a model should use what was granted. Opens nothing, so it does not know of replicas;
        which tools there are now, their list tells."""
        told = [(each.prefix, rules(each.granted)) for each in self._held if each.granted]
        if len(told) == 1:
            return told[0][1]
        return "\n\n".join(f"About the tools {prefix}…: {text}" for prefix, text in told)

    def offered(self) -> list[ToolDefinition]:
        """The tools that can be called now."""
        return [tool for each in self._held for tool in each.offered()]

    def tool(self, name: str) -> MemoryTool:
        """One that can be called now. Raises `NotGranted`, naming those that there are."""
        for each in self._held:
            if any(tool.name == name for tool in each.granted):
                found = each.tool(name)
                if found is not None:
                    return found
        listed = ", ".join(tool.name for tool in self.offered()) or "none"
        raise NotGranted(f"There is no tool {name!r:.200}.", hint=f"The tools are: {listed}.")

    def load(self) -> None:
        """Have SQLite ready for the first call. Opens nothing."""
        for each in self._held:
            each.load()

    def close(self) -> None:
        """Close every file that was opened."""
        for each in self._held:
            each.close()
