"""Lines of JSON-RPC 2.0 and what they hold. Nothing here knows what a method means.

Rules: a line is one message; `read` returns what it is, or the error that answers it, and raises
nothing. `params` and `result` stay text until somebody knows their shape, so that an integer beyond
64 bits or a key given twice reaches the one who judges it. Batches left the protocol one revision
after they entered it (2025-03-26), and are refused like any other line that is no message.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

Id = int | str
"""What a request is answered by. The protocol forbids null and fractions."""

_TEXT_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A text may lack its end: each byte is looked at once, however broken the line."""

_NOTHING: Final = msgspec.Raw(b"{}")
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_well_formed: Final = msgspec.json.Decoder(msgspec.Raw)
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Request:
    """Wants an answer under its `id`."""

    id: Id
    method: str
    params: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Notification:
    """Wants no answer, not even when it is wrong."""

    method: str
    params: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Response:
    """Answers a request of ours. `result` is None when it is an error."""

    id: Id
    result: msgspec.Raw | None


class Refused(Exception):
    """The JSON-RPC error that answers a message. `id` is None where none could be read."""

    def __init__(
        self, code: int, message: str, *, data: object = None, id: Id | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.id = id


Message = Request | Notification | Response | Refused


def read(line: bytes) -> Message:
    """The message that a line holds."""
    try:
        return _message(_decoded(line))
    except Refused as refused:
        return refused


def _decoded(line: bytes) -> dict[str, msgspec.Raw]:
    try:
        line.decode()  # the decoder does not look into what it leaves as text
        return _members.decode(line)
    except msgspec.ValidationError:
        _check_form(line)
        raise Refused(INVALID_REQUEST, "A message is one JSON object; batches are none.") from None
    except (ValueError, RecursionError) as error:
        raise Refused(PARSE_ERROR, f"Not JSON: {error}", id=_id_in(line)) from None


def _id_in(line: bytes) -> Id | None:
    """The id of a request that cannot be decoded, if Python's laxer reader finds one in what is not
    nested. A client that sends half of an emoji, as JavaScript writes it, or a hundred thousand
    brackets, must not wait for an answer for ever."""
    try:
        match json.loads(_flat(line)):
            case {"method": str(), "id": int() | str() as found} if not isinstance(found, bool):
                str(found).encode()
                return found
            case _:
                return None
    except ValueError:
        return None


def _flat(line: bytes) -> bytes:
    """`line` with null in place of each array and object that its own object holds."""
    kept: list[bytes] = []
    depth = end = 0
    for found in _TEXT_OR_BRACKET.finditer(line):
        if found[0] in b"[{":
            depth += 1
            if depth == 2:
                kept += [line[end : found.start()], b"null"]
                end = len(line)  # unless it is closed
        elif found[0] in b"]}":
            if depth == 2:
                end = found.end()
            depth -= 1
    return b"".join([*kept, line[end:]])


def _check_form(line: bytes) -> None:
    try:
        _well_formed.decode(line)
    except (ValueError, RecursionError) as error:
        raise Refused(PARSE_ERROR, f"Not JSON: {error}") from None


def _message(members: dict[str, msgspec.Raw]) -> Message:
    message_id = _id(members)
    method = _text(members.get("method"))
    if _text(members.get("jsonrpc")) != "2.0":
        raise Refused(INVALID_REQUEST, 'A message has "jsonrpc": "2.0".', id=message_id)
    if method is not None:
        params = members.get("params", _NOTHING)
        params = _NOTHING if bytes(params) == b"null" else params
        if "id" not in members:
            return Notification(method, params)
        if message_id is None:
            raise Refused(INVALID_REQUEST, "The id of a request is a string or an integer.")
        return Request(message_id, method, params)
    if message_id is not None and ("result" in members or "error" in members):
        return Response(message_id, None if "error" in members else members["result"])
    raise Refused(INVALID_REQUEST, "Neither a request, a notification nor a response.")


def _id(members: dict[str, msgspec.Raw]) -> Id | None:
    try:
        return msgspec.json.decode(members.get("id", b"null"), type=int | str | None)
    except ValueError:
        return None


def _text(value: msgspec.Raw | None) -> str | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=str)
    except ValueError:
        return None


def result_line(id: Id, result: dict[str, Any]) -> bytes:
    """The answer to a request."""
    return _line({"id": id, "result": result})


def error_line(refused: Refused, id: Id | None = None) -> bytes:
    """The answer to a message that is wrong. `id` is known where the message was a request."""
    error: dict[str, object] = {"code": refused.code, "message": refused.message}
    if refused.data is not None:
        error["data"] = refused.data
    return _line({"id": refused.id if id is None else id, "error": error})


def request_line(id: Id, method: str, params: dict[str, Any]) -> bytes:
    """A request of ours."""
    return _line({"id": id, "method": method, "params": params})


def notification_line(method: str, params: dict[str, Any]) -> bytes:
    """A notification of ours."""
    return _line({"method": method, "params": params})


def _line(members: dict[str, Any]) -> bytes:
    return _encoder.encode({"jsonrpc": "2.0", **members}) + b"\n"
