"""S1-S3: the recorded session, played over MCP by the official client, in both eras: the memory is
the one that the tools themselves make."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ElicitResult, TextContent

from structmem import StructuredMemory
from tests.adapters.mcp.wire import command, environment
from tests.tools.recorded import (
    ACTOR,
    APPROVER,
    PEOPLE_AND_COMPANIES,
    Outcome,
    RecordedCall,
    check,
    outcome_of,
    played,
    trace_of,
)

SESSION = PEOPLE_AND_COMPANIES


class Person:
    """Answers as the recording says for the call that is being made."""

    call: RecordedCall

    async def __call__(self, context: object, params: object) -> ElicitResult:
        assert self.call.answer is not None, self.call
        if self.call.answer == "decline":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"approve": True})


def arguments_of(call: RecordedCall) -> dict[str, Any]:
    """A host reads the text that its model wrote; the protocol takes an object."""
    return json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments


async def called(client: Client, person: Person, call: RecordedCall) -> Outcome:
    person.call = call
    result = await client.call_tool(call.tool, arguments_of(call))
    assert isinstance(result, CallToolResult)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result.structured_content
    assert result.is_error == ("error" in result.structured_content)
    return outcome_of(result.structured_content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_session_over_mcp(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "mcp.db"
    levels = [f"--{level}={name}" for name, level in SESSION.permissions.items()]
    program, *rest = command(path, *levels, "--actor", ACTOR, "--approver", APPROVER)
    server = StdioServerParameters(command=program, args=rest, env=environment())
    person = Person()

    async def main() -> None:
        async with Client(server, mode=mode, elicitation_callback=person) as client:
            for turn in SESSION.turns:
                check(turn, [await called(client, person, call) for call in turn.calls])

    asyncio.run(main())
    with StructuredMemory(path) as memory:
        assert trace_of(memory) == played(tmp_path / "tools.db", SESSION)
