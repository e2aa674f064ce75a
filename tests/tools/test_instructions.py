"""S1: what a model is told before it begins fits what it was granted; call ids are safe."""

import asyncio
from typing import Any

import pytest

from structmem import AsyncStructuredMemory, InvalidCall, StructuredMemory
from structmem.tools import ainstructions, call_id_of, instructions, rules, tool_definitions


def test_rules_and_schema_are_told(people: StructuredMemory) -> None:
    text = instructions(people, prefix="crm_", permissions={"insert": "allow", "delete": "ask"})
    assert "crm_query" in text and "A person must approve each call of crm_delete." in text
    assert text.endswith(f"The schema now:\n{people.describe()}")


def test_nothing_that_was_not_granted_is_named(people: StructuredMemory) -> None:
    text = instructions(people)
    assert "db_query" in text and "db_describe" in text
    assert not [word for word in ("undo", "approve", "Change", "reason") if word in text]


def test_an_empty_memory_says_so(memory: StructuredMemory) -> None:
    assert instructions(memory).endswith("The schema now:\nThe memory has no tables yet.")


def test_an_asynchronous_memory_tells_the_same(people: StructuredMemory) -> None:
    awaited = AsyncStructuredMemory.sharing(people)
    assert asyncio.run(ainstructions(awaited)) == instructions(people)


def test_rules_need_no_memory() -> None:
    assert "db_undo" in rules(tool_definitions({"undo": "allow"}))


def test_unknown_permissions_are_errors(memory: StructuredMemory) -> None:
    with pytest.raises(InvalidCall, match="There is no operation 'inserts'"):
        instructions(memory, permissions={"inserts": "allow"})


def test_a_call_id_holds_conversation_call_and_arguments() -> None:
    """S3"""
    first = call_id_of("c1", "call_1", {"a": 1, "b": 2})
    assert first is not None and first.startswith("c1/call_1/")
    assert call_id_of("c1", "call_1", '{"b": 2, "a": 1}') == first
    others: list[tuple[str, str, Any]] = [
        ("c2", "call_1", {"a": 1, "b": 2}),
        ("c1", "call_2", {"a": 1, "b": 2}),
        ("c1", "call_1", {"a": 1}),
        ("c1", "call_1", {"a": True, "b": 2}),
        ("c1", "call_1", {"a": 1.0, "b": 2}),
    ]
    assert len({first, *(call_id_of(*each) for each in others)}) == 6


@pytest.mark.parametrize("arguments", ["{", 5, {"a": {1}}])
def test_without_an_id_or_arguments_there_is_none(arguments: Any) -> None:
    assert call_id_of("c1", "call_1", arguments) is None
    assert call_id_of("", "call_1", {}) is None
    assert call_id_of("c1", "", {}) is None


@pytest.mark.parametrize("odd", ["x" * 5_000, "\ud800", "ü" * 400, "a/b"])
def test_any_id_can_be_kept(people: StructuredMemory, odd: str) -> None:
    call_id = call_id_of(odd, odd, {})
    assert call_id is not None and len(call_id.encode()) <= 700
    people.insert("people", {"name": "Eve"}, call_id=call_id)
