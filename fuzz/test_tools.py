"""Searching for arguments that make a tool raise, or change what it must not.

Invariants checked, for JSON of any kind and for plain arguments that were edited, on tools of
every level, of a memory on disk or in memory:

- A call, and a request for approval, return. What a call returns is JSON, and reads back as it is.
- Text that is torn or names a key twice, and arguments nested beyond the bound, are errors.
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
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, cast

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
from structmem.tools.json_values import DEPTH_MAX
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

REFUSED: Final[dict[str, list[dict[str, Any]]]] = {
    "query": [{"sql": "DELETE FROM people"}, {"sql": "SELECT nick FROM people"}],
    "create_table": [{"table": "people", "columns": [{"name": "a"}]}],
    "add_column": [{"table": "people", "column": {"name": "age"}}],
    "create_index": [{"table": "people", "columns": ["nick"]}],
    "drop_index": [{"index": "by_nick"}],
    "insert": [{"table": "people", "rows": [{"name": "Ada"}]}],
    "update": [{"table": "people", "set": {"name": "Ada"}, "where": "nick = 1"}],
    "delete": [{"table": "persons", "where": "true"}],
    "undo": [{"opId": "op_99"}],
}
"""Arguments that any harness lets pass, and the memory refuses."""

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


_NAMES: Final = ("people", "tasks", "name", "age", "who", "by_age", "op_")
_MILD: Final = ("snake", "text", "one", "letter", "letter", "argument")
_ROUGH: Final = ("any", "drop", "rename", "list", "null")


@st.composite
def edited(draw: st.DrawFn, known: dict[str, Any]) -> dict[str, Any]:
    """Arguments, half of them as they are, the others with one or two edits: mild ones, as models
    make them, and now and then a rough one."""
    arguments = dict(known)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        if draw(st.sampled_from([True, True, True, False])):
            arguments = draw(mildly(arguments))
        else:
            arguments = draw(roughly(arguments))
    return arguments


@st.composite
def mildly(draw: st.DrawFn, arguments: dict[str, Any]) -> dict[str, Any]:
    """With one edit that keeps the meaning, or misspells a name."""
    key = draw(st.sampled_from([*arguments, "reason"]))
    value = arguments.get(key)
    match draw(st.sampled_from(_MILD)):
        case "snake":
            return {_snake(name): each for name, each in arguments.items()}
        case "text" if key in arguments and not isinstance(value, str):
            return arguments | {key: json.dumps(value)}
        case "one" if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
            return arguments | {key: value[0]}
        case "letter":
            name = draw(st.sampled_from(_NAMES))
            return json.loads(json.dumps(arguments).replace(name, draw(misspelt(name))))
        case "argument":
            name = draw(misspelt(key))
            return {name if each == key else each: arguments[each] for each in arguments}
        case _:
            return arguments


@st.composite
def misspelt(draw: st.DrawFn, name: str) -> str:
    """One letter off."""
    at = draw(st.integers(0, len(name)))
    return name[:at] + draw(st.sampled_from(["", "e", name[at : at + 1] * 2])) + name[at + 1 :]


def _snake(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)


@st.composite
def roughly(draw: st.DrawFn, arguments: dict[str, Any]) -> dict[str, Any]:
    """With one edit that may leave no sense."""
    key = draw(st.sampled_from([*arguments, "table", "reason", "where", "op_id", "limit", "x"]))
    others = {name: value for name, value in arguments.items() if name != key}
    match draw(st.sampled_from(_ROUGH)):
        case "any":
            return others | {key: draw(values)}
        case "drop":
            return others
        case "rename" if key in arguments:
            name = draw(st.sampled_from([key.upper(), f"{key}_", "if_not_exists"]))
            return others | {name: arguments[key]}
        case "list":
            return others | {key: [arguments.get(key)]}
        case _:
            return others | {key: None}


class Sent(NamedTuple):
    """A call, and in which of the `_FORMS` its arguments are sent; `levels`, for those nested."""

    operation: str
    given: Any
    form: str
    levels: int

    @property
    def arguments(self) -> Any:
        match self.form:
            case "text":
                return json.dumps(self.given)
            case "bytes":
                return json.dumps(self.given, ensure_ascii=False).encode(errors="replace")
            case "torn":
                return json.dumps(self.given)[:-1]
            case "twice":
                return f'{{"reason": "a", {self._reasoned("b")[1:]}'
            case "deep":
                return {**self.given, "reason": _nest(self.levels)}
            case "deep text":
                begun = self._reasoned(0).removesuffix("0}")
                return begun + "[" * self.levels + "]" * self.levels + "}"
            case _:
                return self.given

    def _reasoned(self, reason: Any) -> str:
        """With a reason at the end."""
        others = {key: value for key, value in self.given.items() if key != "reason"}
        return json.dumps({**others, "reason": reason})

    @property
    def is_broken(self) -> bool:
        """Whether it must be refused, whatever it asks for."""
        is_torn = self.form == "torn" and isinstance(self.given, dict)
        return is_torn or self.form == "twice" or self.levels >= DEPTH_MAX


def _nest(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


_FORMS: Final = (*["object"] * 6, *["text"] * 4, *["bytes"] * 3, "torn")
_FORMS_OF_OBJECTS: Final = (*_FORMS, "twice", "deep", "deep text")
_LEVELS: Final = (1, 4, DEPTH_MAX - 1, DEPTH_MAX, 100, 900, 990, 1_100, 5_000, 100_000)


@st.composite
def calls(draw: st.DrawFn) -> Sent:
    """An operation, and arguments for it; one in eight times anything at all."""
    operation = draw(st.sampled_from(OPERATIONS))
    is_honest = draw(st.sampled_from([True] * 7 + [False]))
    known = st.sampled_from(HONEST[operation] + REFUSED.get(operation, []))
    given = draw(known.flatmap(edited) if is_honest else values)
    form = draw(st.sampled_from(_FORMS_OF_OBJECTS if isinstance(given, dict) else _FORMS))
    levels = draw(st.sampled_from(_LEVELS)) if form.startswith("deep") else 0
    return Sent(operation, given, form, levels)


class Played:
    """A memory and its tools, watched."""

    def __init__(self, path: Path | str, verdicts: Counter[str]) -> None:
        self.memory = StructuredMemory(path, actor="agent")
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

    def call(self, tool: MemoryTool, sent: Sent, approved_by: str | None) -> ToolResult:
        before, at = dump(self.memory), self.memory.position()
        result = tool.call(sent.arguments, approved_by=approved_by)
        _check_json(result)
        assert result.is_error or not sent.is_broken
        if sent.form == "deep" and sent.is_broken:
            assert "nested more than" in result.text
        unapproved = tool.level == "ask" and approved_by is None
        assert result.is_error or not unapproved
        if result.is_error or tool.read_only:
            assert (dump(self.memory), self.memory.position()) == (before, at)
        else:
            assert (result.data["op"] is None) == (self.memory.position() == at)
        self._count(tool, result)
        return result

    def request(self, tool: MemoryTool, sent: Sent) -> None:
        before, at = dump(self.memory), self.memory.position()
        request = tool.request(sent.arguments)
        assert (dump(self.memory), self.memory.position()) == (before, at)
        if isinstance(request, ApprovalRequest):
            assert not sent.is_broken
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


@contextmanager
def played(on_disk: bool, verdicts: Counter[str]) -> Generator[Played]:
    with TemporaryDirectory() as folder:
        watched = Played(Path(folder) / "crm.db" if on_disk else ":memory:", verdicts)
        yield watched
        watched.close()


on_disk: Final = st.sampled_from([False, False, False, True])


@given(made=st.lists(calls(), min_size=1, max_size=6), on_disk=on_disk)
def test_s1_whatever_a_model_sends(verdicts: Counter[str], made: list[Sent], on_disk: bool) -> None:
    with played(on_disk, verdicts) as memory:
        tools = memory.tools(dict.fromkeys(OPERATIONS, "allow"))
        for sent in made:
            memory.request(tools[sent.operation], sent)
            memory.call(tools[sent.operation], sent, None)


@given(
    made=st.lists(st.tuples(calls(), st.none() | st.just("ada")), min_size=1, max_size=6),
    on_disk=on_disk,
)
def test_s1_s2_only_what_was_granted_and_approved(
    verdicts: Counter[str], made: list[tuple[Sent, str | None]], on_disk: bool
) -> None:
    levels: dict[str, Level] = dict.fromkeys(OPERATIONS, "allow")
    levels.update(dict.fromkeys(_ASKED, "ask"))
    levels.update(dict.fromkeys(_DENIED, "deny"))
    with played(on_disk, verdicts) as memory:
        tools = memory.tools(levels)
        for sent, approved_by in made:
            if sent.operation not in tools:
                continue
            result = memory.call(tools[sent.operation], sent, approved_by)
            if result.is_error and not set(_DENIED) & set(_words_of(sent.given)):
                assert not [name for name in _DENIED if f"{PREFIX}{name}" in result.text]


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
