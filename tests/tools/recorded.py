"""A recorded session of an agent, to be played through whatever door a model can have.

A session is turns of a user, each with the calls that the model made: exact arguments, what a
person answered where one was asked, and what came of it. `mistake` names what is wrong with a call.
A player carries out one turn at a time; what a door adds or leaves out must not show in the result.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from structmem import StructuredMemory
from structmem.tools import Level, MemoryTool, ToolResult, declined, memory_tools

_SESSIONS: Final = Path(__file__).with_name("sessions")
ACTOR: Final = "crm-agent"
APPROVER: Final = "grace"
"""Under these names every player acts and approves, so that the logs can be compared."""


class RecordedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call. `error` is the code that it must get, `told` what its result must hold as text. A
    tool that is `absent` is not there for the model; a door may refuse to pass such a call on."""

    tool: str
    arguments: dict[str, Any] | str
    mistake: str | None = None
    answer: Literal["approve", "decline"] | None = None
    error: str | None = None
    told: list[str] = []
    absent: bool = False


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user said, what the model called, and what it answered."""

    user: str
    calls: list[RecordedCall]
    answer: str


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it, and what the model had been granted."""

    about: str
    permissions: dict[str, Level]
    turns: list[Turn]


class Outcome(NamedTuple):
    """What the model was told: the text, and the code if it was an error."""

    text: str
    error: str | None


def outcome_of(data: dict[str, Any]) -> Outcome:
    """Of the JSON that a tool returned."""
    error = data.get("error")
    if error is not None:
        return Outcome(f"{error['message']} {error['hint']}", error["code"])
    return Outcome(json.dumps(data, ensure_ascii=False, separators=(",", ":")), None)


Player = Callable[[Turn], Sequence[Outcome | None]]
"""Carries out the calls of a turn in order. None stands for a call that the door did not pass."""


def _load(name: str) -> Session:
    return msgspec.json.decode((_SESSIONS / f"{name}.json").read_bytes(), type=Session)


PEOPLE_AND_COMPANIES: Final = _load("people_and_companies")


def play(session: Session, player: Player) -> None:
    """Play every turn, and hold each outcome against the recording."""
    for turn in session.turns:
        check(turn, player(turn))


def check(turn: Turn, outcomes: Sequence[Outcome | None]) -> None:
    """Hold what came of a turn against the recording."""
    assert len(outcomes) == len(turn.calls)
    for call, outcome in zip(turn.calls, outcomes, strict=True):
        _check(call, outcome)


def _check(call: RecordedCall, outcome: Outcome | None) -> None:
    if call.absent:
        assert outcome is None or outcome.error == "not_granted", call
        return
    assert outcome is not None and outcome.error == call.error, (call, outcome)
    missing = [text for text in call.told if text not in outcome.text]
    # Who declined is told by the harness in its own words.
    assert not missing or call.answer == "decline", (call, outcome)


class Trace(NamedTuple):
    """What a session left: the content, and who did what why."""

    content: str | None
    log: list[tuple[str, str | None, str | None, int, str | None, str | None]]


def trace_of(memory: StructuredMemory) -> Trace:
    log = [
        (each.operation, each.table, each.reason, each.rows_changed, each.actor, each.approved_by)
        for each in memory.log()
    ]
    return Trace(memory.verify(deep=True).content, log)


def played(path: Path, session: Session) -> Trace:
    """What it leaves when it is played through the tools themselves."""
    with StructuredMemory(path) as memory:
        made = memory_tools(memory, permissions=session.permissions, actor=ACTOR)
        tools = {tool.name: tool for tool in made}

        def player(turn: Turn) -> list[Outcome | None]:
            return [called(tools.get(call.tool), call) for call in turn.calls]

        play(session, player)
        return trace_of(memory)


def called(tool: MemoryTool | None, call: RecordedCall) -> Outcome | None:
    if tool is None:
        return None
    if tool.level == "allow":
        return outcome_of(tool.call(call.arguments).data)
    request = tool.request(call.arguments)
    if isinstance(request, ToolResult):
        return outcome_of(request.data)
    if call.answer == "decline":
        return outcome_of(ToolResult.of_error(declined(tool.name)).data)
    return outcome_of(tool.call(call.arguments, approved_by=APPROVER, shown=request).data)
