"""S1, S2: a session as models really hold them: each mistake gets an answer to act on, and the
memory is the same whichever way it was played."""

import asyncio
from pathlib import Path
from typing import Any

from structmem import AsyncStructuredMemory, StructuredMemory
from structmem.tools import (
    ApprovalRequest,
    MemoryTool,
    ToolResult,
    declined,
    memory_tools,
)

from .recorded import (
    ACTOR,
    APPROVER,
    Outcome,
    RecordedCall,
    Session,
    Trace,
    Turn,
    load,
    outcome_of,
    play,
    trace_of,
)

NAME = "people_and_companies"


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


def test_each_mistake_gets_an_answer_to_act_on(tmp_path: Path) -> None:
    session = load(NAME)
    trace = played(tmp_path / "crm.db", session)
    mistakes = [call.mistake for turn in session.turns for call in turn.calls if call.mistake]
    assert len(session.turns) > 20 and len({*mistakes}) == len(mistakes) > 20
    approved = [entry for entry in trace.log if entry[5] is not None]
    assert {entry[0] for entry in approved} == {"update", "delete"}
    assert {entry[4] for entry in trace.log} == {ACTOR}


def test_an_asynchronous_memory_ends_the_same(tmp_path: Path) -> None:
    session = load(NAME)

    async def main() -> Trace:
        async with AsyncStructuredMemory(tmp_path / "awaited.db") as memory:
            made = memory_tools(memory, permissions=session.permissions, actor=ACTOR)
            tools = {tool.name: tool for tool in made}
            for turn in session.turns:
                outcomes = [await acalled(tools.get(call.tool), call) for call in turn.calls]
                play(Session("", {}, [turn]), lambda _turn, told=outcomes: told)
            return await memory.run(trace_of, writes=False)

    assert asyncio.run(main()) == played(tmp_path / "blocking.db", session)


async def acalled(tool: MemoryTool | None, call: RecordedCall) -> Outcome | None:
    if tool is None:
        return None
    approval: dict[str, Any] = {}
    if tool.level == "ask":
        request = await tool.arequest(call.arguments)
        if isinstance(request, ToolResult):
            return outcome_of(request.data)
        assert isinstance(request, ApprovalRequest)
        if call.answer == "decline":
            return outcome_of(ToolResult.of_error(declined(tool.name)).data)
        approval = {"approved_by": APPROVER, "shown": request}
    return outcome_of((await tool.acall(call.arguments, **approval)).data)
