"""What happens to one call of a tool: it runs, is refused, or a person is asked first.

Rules: a refusal is a result with `isError`, so that the model reads it and can act. The tool itself
reads and checks the arguments. No call id is passed on: ids of JSON-RPC begin anew with each
process.

Invariants: an operation at level `ask` runs only with an approver: from an answer to exactly this
call, or, in the mode `host`, because the operator left the question to the host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from structmem import StructMemError
from structmem.adapters.mcp import protocol
from structmem.adapters.mcp.asking import NO_WAY, answer_without_question, is_yes, question
from structmem.adapters.mcp.memories import Memories
from structmem.adapters.mcp.messages import Id
from structmem.adapters.mcp.protocol import Client, ToolCall
from structmem.tools import (
    ApprovalRequest,
    Approvals,
    MemoryTool,
    ToolResult,
    declined,
    nobody_to_ask,
)

AskVia = Literal["elicit", "host", "deny"]
"""Who decides about an operation at level `ask`: the user, asked by the client; the host, by
whatever gate it has; nobody."""


@dataclass(frozen=True, slots=True)
class Manner:
    """What the operator chose. `actor` and `approver` are None for a text that names the client."""

    ask_via: AskVia = "elicit"
    ask_seconds: float = 300.0
    actor: str | None = None
    approver: str | None = None

    def actor_of(self, client: Client) -> str:
        """Who acts, for the journal."""
        return self.actor or client.name or "an MCP client"

    def approver_of(self, client: Client) -> str:
        """Who approved, for the journal."""
        name = client.name or "an MCP client"
        return self.approver or (f"host {name}" if self.ask_via == "host" else f"user of {name}")

    def remark(self, client: Client) -> str:
        """What a model should know of the tools at level `ask`, for their descriptions."""
        if self.ask_via == "host":
            return "The host of this session decides whether its user is asked."
        if self.ask_via == "elicit" and client.asks:
            return "The user is asked when you call it."
        return "Here nobody can be asked, so each call is refused."


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One `tools/call`. Two calls are never equal, even under the same id."""

    id: Id
    client: Client
    params: ToolCall


Park = Callable[[Call, str, ApprovalRequest], None]
"""Keeps a call until a person answered; its outcome comes later."""


class Calls:
    """Carries out calls, one at a time. A method returns the result of `tools/call`."""

    def __init__(self, memories: Memories, manner: Manner, park: Park) -> None:
        self._memories = memories
        self._manner = manner
        self._park = park
        self._approvals = Approvals(manner.ask_seconds)

    def begin(self, call: Call) -> dict[str, Any] | None:
        """Carry out a call, or ask about it. None if it is parked now."""
        try:
            outcome = self._outcome(call, self._memories.tool(call.params.name))
        except StructMemError as refusal:
            return self.refused(call, refusal)
        return _result(call, outcome) if isinstance(outcome, ToolResult) else outcome

    def approved(self, call: Call, shown: ApprovalRequest) -> dict[str, Any]:
        """Carry out a call that was parked, and that the user approved after they saw `shown`."""
        try:
            tool = self._memories.tool(call.params.name)
            return _result(call, self._run(call, tool, shown=shown))
        except StructMemError as refusal:
            return self.refused(call, refusal)

    def refused(self, call: Call, refusal: StructMemError) -> dict[str, Any]:
        """The result of a call that does not run."""
        return _result(call, ToolResult.of_error(refusal))

    def _outcome(self, call: Call, tool: MemoryTool) -> ToolResult | dict[str, Any] | None:
        if tool.level == "allow":
            return tool.call(call.params.text, actor=self._manner.actor_of(call.client))
        match self._manner.ask_via:
            case "host":
                return self._run(call, tool, shown=None)
            case "elicit":
                return self._elicit(call, tool)
            case "deny":
                raise nobody_to_ask(tool.name, NO_WAY)

    def _run(self, call: Call, tool: MemoryTool, *, shown: ApprovalRequest | None) -> ToolResult:
        return tool.call(
            call.params.text,
            actor=self._manner.actor_of(call.client),
            approved_by=self._manner.approver_of(call.client),
            shown=shown,
        )

    def _elicit(self, call: Call, tool: MemoryTool) -> ToolResult | dict[str, Any] | None:
        if call.params.input_responses is not None or call.params.request_state is not None:
            return self._run(call, tool, shown=self._redeemed(call, tool))
        if not call.client.asks:
            raise nobody_to_ask(tool.name, NO_WAY)
        request = tool.request(call.params.text)
        if isinstance(request, ToolResult):
            return request
        if call.client.enveloped:
            return protocol.input_required(question(request), self._approvals.ask(request))
        self._park(call, tool.name, request)
        return None

    def _redeemed(self, call: Call, tool: MemoryTool) -> ApprovalRequest:
        """What the user approved. The token is gone afterwards, whatever they answered."""
        state, answers = call.params.request_state, call.params.input_responses
        if state is None:
            raise answer_without_question(tool.name)
        shown = self._approvals.redeem(state, tool.name, call.params.text)
        if answers is None or answers.approve is None:
            raise answer_without_question(tool.name)
        if not is_yes(answers.approve):
            raise declined(tool.name)
        return shown


def _result(call: Call, outcome: ToolResult) -> dict[str, Any]:
    return protocol.tool_result(call.client, outcome.text, outcome.data, is_error=outcome.is_error)
