"""S1: what is granted is there, under its name, and nothing else is."""

import warnings
from typing import Any

import pytest

from structmem import InvalidCall, StructuredMemory
from structmem.tools import OPERATIONS, READS, memory_tools, tool_definitions

from .conftest import error_of, tools_of

WRITERS = sorted({*OPERATIONS} - {*READS})


def names(memory: StructuredMemory, **levels: Any) -> list[str]:
    return [tool.name for tool in memory_tools(memory, permissions=levels)]


def test_only_reading_is_granted_by_default(memory: StructuredMemory) -> None:
    assert names(memory) == ["db_describe", "db_query"]
    assert names(memory, query="deny", describe="deny", insert="deny") == []
    assert not memory.path.exists(), "granting touches no file"


def test_every_operation_of_the_memory_is_a_tool_or_a_programs() -> None:
    """So that a new operation is a decision: none is granted by itself."""
    public = {name for name in vars(StructuredMemory) if not name.startswith("_")}
    for_programs = {
        *("acting_as", "actor", "apply", "bookmark", "close", "destroy", "epoch", "id", "label"),
        *("on_commit", "path", "position", "position_at", "preview", "records", "role", "size"),
        *("rehearsal", "verify"),
    }
    assert public == {*OPERATIONS} | for_programs


def test_hints_say_what_a_harness_may_do_by_itself() -> None:
    """S3: reads are replay-safe, writes are not; what only adds is not destructive."""
    tools = tool_definitions(dict.fromkeys(OPERATIONS, "allow"))
    assert {tool.operation for tool in tools if tool.read_only} == {*READS}
    assert {tool.operation for tool in tools if tool.idempotent} == {*READS}
    adding = {"create_table", "add_column", "create_index", "insert"}
    assert {tool.operation for tool in tools if tool.destructive} == {*WRITERS} - adding


def test_the_level_is_told(memory: StructuredMemory) -> None:
    tools = tools_of(memory, insert="allow", delete="ask")
    assert (tools["insert"].level, tools["delete"].level) == ("allow", "ask")
    assert "A person must approve each call." in tools["delete"].description
    assert "approve" not in tools["insert"].description


def test_a_schema_is_the_callers_own() -> None:
    """A harness may fill it in; the next one gets what the first one got."""
    first, second = (tool_definitions({"query": "allow"})[1].input_schema for _ in range(2))
    first["properties"]["sql"]["description"] = "changed"
    third = tool_definitions({"query": "allow"})[1].input_schema
    assert first != second == third


@pytest.mark.parametrize(
    ("permissions", "message"),
    [
        ({"inserts": "allow"}, "There is no operation 'inserts'. Did you mean insert?"),
        ({"destroy": "allow"}, "There is no operation 'destroy'."),
        ({"insert": "yes"}, "The level of insert is 'yes'. It is allow, ask or deny."),
        ({"insert": True}, "The level of insert is True."),
        (["insert"], "permissions must map operations to levels"),
    ],
)
def test_unknown_permissions_are_errors(
    memory: StructuredMemory, permissions: Any, message: str
) -> None:
    with pytest.raises(InvalidCall) as caught:
        memory_tools(memory, permissions=permissions)
    assert message in str(caught.value)


def test_a_prefix_tells_two_memories_apart(memory: StructuredMemory) -> None:
    tools = memory_tools(memory, permissions={"insert": "allow"}, prefix="crm_")
    assert [tool.name for tool in tools] == ["crm_describe", "crm_query", "crm_insert"]
    assert "crm_query" in tools[2].description
    bare = memory_tools(memory, permissions={}, prefix="")
    assert [tool.name for tool in bare] == ["describe", "query"]


@pytest.mark.parametrize("prefix", ["crm.", "a b", "ü_", "x" * 60, "a/", "1_", "-"])
def test_a_prefix_that_providers_refuse_is_an_error(memory: StructuredMemory, prefix: str) -> None:
    with pytest.raises(InvalidCall, match="not a tool name that every provider takes"):
        memory_tools(memory, permissions={}, prefix=prefix)


@pytest.mark.parametrize("given", [{"max_rows": 0}, {"max_bytes": True}, {"max_rows": "5"}])
def test_bounds_are_whole_numbers(memory: StructuredMemory, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidCall, match="must be a whole number above 0"):
        memory_tools(memory, permissions={}, **given)


def test_only_a_memory_has_tools() -> None:
    with pytest.raises(InvalidCall, match="memory must be a memory"):
        memory_tools("crm.db", permissions={})  # pyright: ignore[reportArgumentType]


def test_granting_execute_warns_once(memory: StructuredMemory) -> None:
    def grant() -> None:
        memory_tools(memory, permissions={"execute": "ask"})

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        grant()
        grant()
    assert [str(each.message)[:18] for each in caught] == ["execute is granted"]
    assert caught[0].filename == __file__, "it points to who granted it"


@pytest.mark.parametrize("granted", [[], ["insert"], ["undo", "delete"], ["execute"], WRITERS])
def test_descriptions_name_only_what_is_granted(granted: list[str]) -> None:
    tools = tool_definitions(dict.fromkeys(granted, "allow"), prefix="crm_")
    withheld = {*OPERATIONS} - {tool.operation for tool in tools}
    for tool in tools:
        assert "`" not in tool.description
        assert not [name for name in withheld if f"crm_{name}" in tool.description]


def test_errors_name_only_what_is_granted(people: StructuredMemory) -> None:
    """S1: with the prefix; a sentence about another operation is left out."""
    delete = {"sql": "DELETE FROM people"}

    def hint(**levels: Any) -> str:
        return error_of(tools_of(people, **levels)["query"].call(delete))["hint"]

    assert hint(delete="allow") == "Use db_delete to change the memory."
    assert hint(insert="allow") == "To change the memory: db_insert."
    assert hint() == "No tool that writes is granted."
    begin = tools_of(people)["query"].call({"sql": "BEGIN"})
    assert error_of(begin)["hint"] == "Leave it out."
