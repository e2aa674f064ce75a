"""What a person is asked, and what their answer means. Pure.

Rules: only `accept` with `approve` true is a yes. A no, a silence and a client that cannot ask are
told apart, because the model should do different things about them. A client that declines by
itself looks like a person's no; the protocol has no sign for it.
"""

from typing import Any, Final

import msgspec

from structmem import ApprovalTimedOut, ApprovalVoid, Declined, NobodyToAsk, StructMemError
from structmem.adapters.mcp.messages import Response
from structmem.adapters.mcp.protocol import Answer
from structmem.tools import ApprovalRequest

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
    """Parameters of `elicitation/create`. Its mode is left out, which means a form in each
    revision."""
    return {"message": request.text, "requestedSchema": _SCHEMA}


def check_approved(tool: str, answer: Answer) -> None:
    """Return if the answer is a yes. Raises `Declined` if it is not."""
    if answer.action == "accept" and (answer.content or {}).get("approve") is True:
        return
    did = "dismissed the question" if answer.action == "cancel" else "declined"
    raise Declined(
        f"The user was asked about this call of {tool} and {did}; nothing was changed.",
        hint="Do not send it again unless the user asks for it.",
    )


def cannot_ask(tool: str) -> NobodyToAsk:
    """The refusal where no question can be put."""
    return NobodyToAsk(
        f"{tool} needs the user's approval, and there is no way to ask; nothing was changed.",
        hint="Go on without, and say what is left to approve.",
    )


def no_answer_with_it(tool: str) -> ApprovalVoid:
    """The refusal of a call that is sent again without what makes it an approved one."""
    return ApprovalVoid(
        f"This call of {tool} came with an answer but without the question it belongs to, or the "
        "other way round; nothing was changed.",
        hint="Call the tool again without either: the user will be asked.",
    )


def refusal(tool: str, response: Response) -> StructMemError | None:
    """Why a call does not run after this answer to our question; None if it was a yes."""
    if response.result is None:
        return _could_not_ask(tool)
    try:
        check_approved(tool, msgspec.json.decode(response.result, type=Answer))
    except StructMemError as refusal:
        return refusal
    except (ValueError, RecursionError):
        return _could_not_ask(tool)
    return None


def _could_not_ask(tool: str) -> NobodyToAsk:
    return NobodyToAsk(
        f"{tool} needs the user's approval, and the client failed to ask; nothing was changed.",
        hint="Go on without, and say what is left to approve.",
    )


def timed_out(tool: str, seconds: float) -> ApprovalTimedOut:
    """The refusal after a silence."""
    return ApprovalTimedOut(
        f"The user was asked about this call of {tool} and did not answer within {seconds:g} "
        "seconds; nothing was changed.",
        hint="Call the tool again when the user is there.",
    )


def client_left(tool: str) -> NobodyToAsk:
    """The refusal when the client went before its user answered."""
    return NobodyToAsk(
        f"{tool} needs the user's approval, and the client left; nothing was changed."
    )
