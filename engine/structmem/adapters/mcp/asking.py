"""What a person is asked, and what their answer means. Pure.

Rules: only `accept` with `approve` true is a yes. A no, a silence and a client that cannot ask are
told apart, because the model should do different things about them. A client that declines by
itself looks like a person's no; the protocol has no sign for it.
"""

from typing import Any, Final

from structmem import ApprovalVoid, StructMemError
from structmem.adapters.mcp.messages import Response
from structmem.adapters.mcp.protocol import Answer, answer_in
from structmem.tools import ApprovalRequest, declined, nobody_to_ask

NO_WAY: Final = "there is no way to ask here"
CLIENT_LEFT: Final = "the client has left"
TOO_MANY: Final = "too many other calls wait for an answer"
_CLIENT_FAILED: Final = "the client could not ask"
"""Why nobody was asked, as `nobody_to_ask` says it."""

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Approve",
            "description": "Yes lets this one call run. Anything else refuses it.",
        }
    },
    "required": ["approve"],
}
"""One required boolean: a form without a field cannot be filled in, in some clients."""


def question(request: ApprovalRequest) -> dict[str, Any]:
    """Parameters of `elicitation/create`. The tool is named, because its prefix tells which memory
    it is about. The mode is left out, which means a form in each revision."""
    return {"message": f"{request.text}\nTool: {request.tool}", "requestedSchema": _SCHEMA}


def is_yes(answer: Answer) -> bool:
    """Whether the user approved."""
    return answer.action == "accept" and (answer.content or {}).get("approve") is True


def refusal(tool: str, response: Response) -> StructMemError | None:
    """Why a call of `tool` does not run after this answer to our question; None if it was a yes."""
    if response.result is None:
        return nobody_to_ask(tool, _CLIENT_FAILED)
    try:
        answer = answer_in(response.result)
    except ValueError:
        return nobody_to_ask(tool, _CLIENT_FAILED)
    return None if is_yes(answer) else declined(tool)


def answer_without_question(tool: str) -> ApprovalVoid:
    """The refusal of a call that is sent again with one of the two that belong together."""
    return ApprovalVoid(
        f"This call of {tool} came with an answer but not with the state of its question, or the "
        "other way round.",
        hint="Call the tool again; a person is then asked anew.",
    )
