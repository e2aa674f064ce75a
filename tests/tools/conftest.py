"""Fixtures of the tools' tests: a memory that is verified when the test is over, and its tools."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from structmem import Column, StructuredMemory
from structmem.tools import OPERATIONS, Level, MemoryTool, ToolResult, memory_tools

Tools = dict[str, MemoryTool]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[StructuredMemory]:
    with StructuredMemory(tmp_path / "crm.db", actor="agent") as opened:
        yield opened
        opened.verify(deep=True)


@pytest.fixture
def people(memory: StructuredMemory) -> StructuredMemory:
    """Two rows: Ada, 36, and Bob, 41."""
    memory.create_table(
        "people", [Column("name", "TEXT", not_null=True, unique=True), Column("age", "INTEGER")]
    )
    memory.insert("people", [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 41}])
    return memory


@pytest.fixture
def tools(people: StructuredMemory) -> Tools:
    """Every tool but `execute`, by operation; `update`, `delete`, `undo` and `drop_table` ask."""
    levels: dict[str, Level] = dict.fromkeys(OPERATIONS, "allow")
    levels |= dict.fromkeys(("update", "delete", "undo", "drop_table", "redo", "revert_to"), "ask")
    return tools_of(people, **levels | {"execute": "deny"})


def tools_of(memory: StructuredMemory, **levels: Any) -> Tools:
    return {tool.operation: tool for tool in memory_tools(memory, permissions=levels)}


def error_of(result: ToolResult) -> dict[str, Any]:
    assert result.is_error, result.data
    return result.data["error"]


Unharmed = Callable[[], None]


@pytest.fixture
def unharmed(people: StructuredMemory) -> Iterator[Unharmed]:
    """A function that checks that nothing was written since the test began."""
    before = people.position()

    def check() -> None:
        assert people.position() == before

    yield check
