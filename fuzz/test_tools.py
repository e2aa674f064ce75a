"""Searching for arguments that make a tool raise, or change what it must not.

Invariants checked, for JSON of any kind and for honest arguments that were edited, on tools of
every level:

- A call, and a request for approval, return. What a call returns is JSON, and reads back as it is.
- An error has changed nothing; neither has a tool that reads, a request, nor a tool that must be
  approved and was not.
- An error names no tool that was not granted.
- A call that went through is a record, or had nothing to do.
- What a person is shown is lines that can be printed.
- The key that a harness's call gets can be kept by the memory.
- The memory is what its journal says.
"""

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, cast

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from structmem import Column, Reference, StructuredMemory
from structmem.calls import check_call_id
from structmem.tools import (
    OPERATIONS,
    ApprovalRequest,
    Level,
    MemoryTool,
    ToolResult,
    call_id_of,
    memory_tools,
)
from tests.engine.conftest import dump

HONEST: Final[dict[str, list[dict[str, Any]]]] = {
    "describe": [{}],
    "query": [
        {"sql": "SELECT * FROM people"},
        {"sql": "SELECT name FROM people WHERE age > ?", "params": [30]},
        {"sql": "SELECT :a + 1 AS b", "params": {"a": {"$int": "9007199254740993"}}},
    ],
    "create_table": [
        {"table": "pets", "columns": [{"name": "name", "type": "TEXT"}], "ifNotExists": True},
        {
            "table": "visits",
            "columns": [
                {"name": "who", "references": {"table": "people", "column": "name"}},
                {"name": "day", "type": "TEXT", "notNull": True, "default": "today"},
            ],
            "description": "When.",
        },
    ],
    "add_column": [{"table": "people", "column": {"name": "city", "type": "TEXT"}}],
    "create_index": [{"table": "people", "columns": ["age"], "name": "by_age"}],
    "drop_index": [{"index": "by_age"}],
    "drop_table": [{"table": "tasks"}, {"table": "people"}],
    "insert": [
        {"table": "people", "rows": [{"name": "Eve", "age": 9}, {"name": "Mallory"}]},
        {"table": "tasks", "rows": [{"who": "Ada", "what": {"$blob": "AP8="}}], "reason": "new"},
    ],
    "update": [{"table": "people", "set": {"age": 1}, "where": "age = ?", "params": [36]}],
    "delete": [{"table": "tasks", "where": "true", "reason": "done"}],
    "execute": [{"sql": "UPDATE people SET age = age + 1"}],
    "undo": [{}, {"opId": "op_3"}],
    "redo": [{}],
    "revert_to": [{"opId": "op_2"}],
    "history": [{"limit": 3, "before": "op_3"}],
    "log": [{"table": "people", "operation": "insert", "after": "op_1", "actor": "agent"}],
}
"""Arguments that can succeed, for each operation."""

PREFIX: Final = "crm_"
_ASKED: Final = ("update", "drop_table", "undo")
_DENIED: Final = ("execute", "revert_to", "create_index")

_text = st.text(st.characters(codec=None), max_size=20) | st.sampled_from(
    [
        "people",
        "name",
        "op_2",
        "true",
        "1; DROP TABLE people",
        "`insert`",
        "\0",
        "[]",
        "{",
        "\ud800",
    ]
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 1 << 53, 1 << 63, -(1 << 63), 10**400])
    | st.floats()
    | _text
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    forms = st.dictionaries(st.sampled_from(["$int", "$blob", "$real"]), inner, max_size=2)
    return st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4) | forms


values: Final = st.recursive(_scalars, _nested, max_leaves=8)
"""JSON, and a little more: what Python's reader lets through."""


@st.composite
def edited(draw: st.DrawFn, honest: dict[str, Any]) -> Any:
    """Honest arguments, with up to three edits."""
    arguments = dict(honest)
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from([*arguments, "table", "reason", "where", "op_id", "limit", "x"]))
        match draw(st.sampled_from(["any", "text", "drop", "rename", "list", "null"])):
            case "any":
                arguments[key] = draw(values)
            case "text" if key in arguments:
                arguments[key] = json.dumps(arguments[key])
            case "drop":
                arguments.pop(key, None)
            case "rename" if key in arguments:
                arguments[draw(st.sampled_from([key.upper(), f"{key}_", "if_not_exists"]))] = (
                    arguments.pop(key)
                )
            case "list":
                arguments[key] = [arguments.get(key)]
            case _:
                arguments[key] = None
    return arguments


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Any]:
    """An operation, and arguments for it: as an object, as text, or anything at all."""
    operation = draw(st.sampled_from(OPERATIONS))
    arguments = draw(st.sampled_from(HONEST[operation]).flatmap(edited) | values)
    match draw(st.sampled_from(["object", "object", "text", "bytes", "torn"])):
        case "text":
            arguments = json.dumps(arguments)
        case "bytes":
            arguments = json.dumps(arguments, ensure_ascii=False).encode(errors="replace")
        case "torn":
            arguments = json.dumps(arguments)[:-1]
        case _:
            pass
    return operation, arguments


class Played:
    """A memory and its tools, watched."""

    def __init__(self, verdicts: Counter[str]) -> None:
        self.memory = StructuredMemory(":memory:", actor="agent")
        self.memory.create_table(
            "people", [Column("name", "TEXT", unique=True), Column("age", "INTEGER")]
        )
        self.memory.insert("people", [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 41}])
        who = Column("who", references=Reference("people", "name", on_delete="CASCADE"))
        self.memory.create_table("tasks", [who, Column("what")])
        self.memory.insert("tasks", {"who": "Ada", "what": "paint"})
        self._verdicts = verdicts

    def tools(self, levels: dict[str, Level]) -> dict[str, MemoryTool]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # execute is granted on purpose
            made = memory_tools(self.memory, permissions=levels, prefix=PREFIX)
        return {tool.operation: tool for tool in made}

    def call(self, tool: MemoryTool, arguments: Any, approved_by: str | None) -> ToolResult:
        before, at = dump(self.memory), self.memory.position()
        result = tool.call(arguments, approved_by=approved_by)
        _check_json(result)
        unapproved = tool.level == "ask" and approved_by is None
        assert result.is_error or not unapproved
        if result.is_error or tool.read_only:
            assert (dump(self.memory), self.memory.position()) == (before, at)
        else:
            assert (result.data["op"] is None) == (self.memory.position() == at)
        self._count(tool, result)
        return result

    def request(self, tool: MemoryTool, arguments: Any) -> None:
        before, at = dump(self.memory), self.memory.position()
        request = tool.request(arguments)
        assert (dump(self.memory), self.memory.position()) == (before, at)
        if isinstance(request, ApprovalRequest):
            json.dumps(request.data)
            assert all(each.isprintable() or each == "\n" for each in request.text)
        else:
            assert request.is_error or request.data["rowsChanged"] == 0
            _check_json(request)

    def close(self) -> None:
        self.memory.verify(deep=True)
        self.memory.close()

    def _count(self, tool: MemoryTool, result: ToolResult) -> None:
        verdict = result.data["error"]["code"] if result.is_error else "carried out"
        self._verdicts[verdict] += 1
        event(f"{tool.operation}: {verdict}")
        note(f"{tool.name}: {result.text[:200]}")


def _check_json(result: ToolResult) -> None:
    assert json.loads(result.text.encode()) == json.loads(json.dumps(result.data))
    if result.is_error:
        assert {*result.data["error"]} == {"code", "message", "hint"}


@pytest.fixture(scope="module")
def verdicts() -> Iterator[Counter[str]]:
    """How often calls ended in which way. A search in which nearly all end alike has gone stale."""
    counted: Counter[str] = Counter()
    yield counted
    print(dict(counted.most_common()))
    total = counted.total()
    assert 0.1 * total < counted["carried out"] < 0.9 * total
    assert len(counted) > 5


@given(made=st.lists(calls(), min_size=1, max_size=6))
def test_s1_whatever_a_model_sends(verdicts: Counter[str], made: list[tuple[str, Any]]) -> None:
    played = Played(verdicts)
    tools = played.tools(dict.fromkeys(OPERATIONS, "allow"))
    for operation, arguments in made:
        note(f"{operation} {arguments!r}")
        played.request(tools[operation], arguments)
        played.call(tools[operation], arguments, None)
    played.close()


@given(made=st.lists(st.tuples(calls(), st.none() | st.just("ada")), min_size=1, max_size=6))
def test_s1_s2_only_what_was_granted_and_approved(
    verdicts: Counter[str], made: list[tuple[tuple[str, Any], str | None]]
) -> None:
    played = Played(verdicts)
    levels: dict[str, Level] = dict.fromkeys(OPERATIONS, "allow")
    levels.update(dict.fromkeys(_ASKED, "ask"))
    levels.update(dict.fromkeys(_DENIED, "deny"))
    tools = played.tools(levels)
    for (operation, arguments), approved_by in made:
        if operation not in tools:
            continue
        note(f"{operation} {arguments!r} {approved_by}")
        result = played.call(tools[operation], arguments, approved_by)
        if result.is_error and not set(_DENIED) & set(_words_of(arguments)):
            assert not [name for name in _DENIED if f"{PREFIX}{name}" in result.text]
    played.close()


def _words_of(arguments: Any) -> list[str]:
    """What a message may repeat, because it was sent."""
    return repr(arguments).replace("'", " ").replace('"', " ").split()


@given(conversation=_text, tool_call_id=_text, arguments=values)
def test_s3_a_call_gets_a_key_that_can_be_kept(
    conversation: str, tool_call_id: str, arguments: Any
) -> None:
    key = call_id_of(conversation, tool_call_id, arguments)
    assert check_call_id(key) == key
    if isinstance(arguments, dict):
        turned = dict(reversed([*cast("dict[str, Any]", arguments).items()]))
        assert key == call_id_of(conversation, tool_call_id, turned)


def test_every_operation_has_honest_arguments() -> None:
    """So that one that is added is searched as well."""
    assert {*HONEST} == {*OPERATIONS}
