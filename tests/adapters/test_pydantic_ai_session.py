"""S1-S3: the recorded session, played by an agent of Pydantic AI, whose runs pause where a person
is asked: the memory is the one that the tools themselves make."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from structmem import StructuredMemory
from structmem.adapters.pydantic_ai import MemoryToolset
from tests.tools.recorded import (
    ACTOR,
    APPROVER,
    PEOPLE_AND_COMPANIES,
    Outcome,
    Turn,
    check,
    outcome_of,
    played,
    trace_of,
)

SESSION = PEOPLE_AND_COMPANIES


class Script:
    """A model that makes the calls of the turn that runs, one in each response. Calls of tools that
    it was not given are left out: a model does not see them."""

    def __init__(self) -> None:
        self._left: list[ModelResponse] = []

    def begin(self, turn: Turn, granted: Sequence[str]) -> None:
        calls = [call for call in turn.calls if call.tool in granted]
        # Models repeat these ids; here each turn begins with the same ones.
        parts = [
            ToolCallPart(call.tool, call.arguments, tool_call_id=f"call_{number}")
            for number, call in enumerate(calls)
        ]
        self._left = [ModelResponse([part]) for part in parts]
        self._left.append(ModelResponse([TextPart(turn.answer)]))

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return self._left.pop(0)


def outcomes_of(messages: Sequence[ModelMessage]) -> list[Outcome]:
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    return [_outcome(part) for part in parts if isinstance(part, ToolReturnPart)]


def _outcome(part: ToolReturnPart) -> Outcome:
    if part.outcome == "denied":
        return Outcome(part.model_response_str(), "declined")
    told: Any = part.content
    return outcome_of(json.loads(told) if isinstance(told, str) else told)


def test_the_session_of_an_agent(tmp_path: Path) -> None:
    with StructuredMemory(tmp_path / "agent.db") as memory:
        toolset: Any = MemoryToolset(
            memory, permissions=SESSION.permissions, actor=ACTOR, approver=APPROVER
        )
        granted = [f"db_{name}" for name in ("query", "describe", *SESSION.permissions)]
        script = Script()
        output: Any = [str, DeferredToolRequests]
        agent: Any = Agent(FunctionModel(script), toolsets=[toolset], output_type=output)

        async def main() -> None:
            history: list[ModelMessage] = []
            for turn in SESSION.turns:
                script.begin(turn, granted)
                answers = iter([call.answer for call in turn.calls if call.answer is not None])
                done = await agent.run(turn.user, message_history=history)
                told = outcomes_of(done.new_messages())
                while isinstance(done.output, DeferredToolRequests):
                    (request,) = done.output.approvals
                    grant = True if next(answers) == "approve" else ToolDenied("No.")
                    results = DeferredToolResults(approvals={request.tool_call_id: grant})
                    done = await agent.run(
                        message_history=done.all_messages(), deferred_tool_results=results
                    )
                    told += outcomes_of(done.new_messages())
                assert done.output == turn.answer
                history = done.all_messages()
                left = iter(told)
                check(turn, [next(left) if c.tool in granted else None for c in turn.calls])

        asyncio.run(main())
        assert trace_of(memory) == played(tmp_path / "tools.db", SESSION)
