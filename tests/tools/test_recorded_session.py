"""S1, S2: a session as models really hold them: each mistake gets an answer to act on, and the
memory is the same whichever kind of it was used. `tests/adapters` plays it through the doors."""

import asyncio
from pathlib import Path
from typing import Any

from structmem import AsyncStructuredMemory
from structmem.tools import ApprovalRequest, MemoryTool, ToolResult, declined, memory_tools

from .recorded import (
    ACTOR,
    APPROVER,
    PEOPLE_AND_COMPANIES,
    Outcome,
    RecordedCall,
    Trace,
    check,
    outcome_of,
    played,
    trace_of,
)

SESSION = PEOPLE_AND_COMPANIES


def test_each_mistake_gets_an_answer_to_act_on(tmp_path: Path) -> None:
    trace = played(tmp_path / "crm.db", SESSION)
    mistakes = [call.mistake for turn in SESSION.turns for call in turn.calls if call.mistake]
    assert len(SESSION.turns) > 20 and len({*mistakes}) == len(mistakes) > 20
    approved = [entry for entry in trace.log if entry[5] is not None]
    assert {entry[0] for entry in approved} == {"update", "delete"}
    assert {entry[4] for entry in trace.log} == {ACTOR}


def test_an_asynchronous_memory_ends_the_same(tmp_path: Path) -> None:
    async def main() -> Trace:
        async with AsyncStructuredMemory(tmp_path / "awaited.db") as memory:
            made = memory_tools(memory, permissions=SESSION.permissions, actor=ACTOR)
            tools = {tool.name: tool for tool in made}
            for turn in SESSION.turns:
                check(turn, [await acalled(tools.get(call.tool), call) for call in turn.calls])
            return await memory.run(trace_of, writes=False)

    assert asyncio.run(main()) == played(tmp_path / "blocking.db", SESSION)


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
