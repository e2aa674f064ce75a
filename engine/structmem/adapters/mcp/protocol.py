"""What the messages say, in both eras of the protocol. Pure: values in, values out.

A client of the *handshake* era sends `initialize` once, and what it declares there holds for all
its requests. A client of the *envelope* era declares version, name and capabilities in `_meta` of
each request, and there is no request from us to it. Which era a request belongs to is seen from
that request alone: a client that asked `server/discover`, did not wait for the answer and began the
handshake must be served.

Sources: the schemas of each revision at https://modelcontextprotocol.io/specification.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec

from structmem import InvalidCall
from structmem.adapters.mcp.messages import INVALID_PARAMS, Refused
from structmem.tools import MUST_BE_APPROVED, ToolDefinition, read_arguments

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE_VERSIONS: Final = ("2026-07-28",)
UNSUPPORTED_VERSION: Final = -32022

VERSION: Final = "0.1.0"
"""Ours. A constant, because asking the installed metadata takes as long as the whole first answer;
a test compares the two."""

_SERVER: Final = {"name": "structmem", "title": "Structured memory", "version": VERSION}
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"

_NAME_MAX: Final = 200
"""Characters of a client's name: it goes into the journal with each write."""


class ClientInfo(msgspec.Struct, frozen=True):
    """Who the client says it is. It is told, never checked, and nothing depends on it."""

    name: str = ""


class Elicitation(msgspec.Struct, frozen=True):
    """In which ways the client can ask its user. An empty object means by form."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class Capabilities(msgspec.Struct, frozen=True):
    """What we need to know of the client's."""

    elicitation: Elicitation | None = None


class Envelope(msgspec.Struct, frozen=True):
    """`_meta` of a request of the envelope era; of an earlier one, without a version."""

    version: str | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="io.modelcontextprotocol/protocolVersion"
    )
    capabilities: Capabilities | None = msgspec.field(
        default=None, name="io.modelcontextprotocol/clientCapabilities"
    )
    client: ClientInfo | None = msgspec.field(
        default=None, name="io.modelcontextprotocol/clientInfo"
    )


class Handshake(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of `initialize`."""

    protocol_version: str
    capabilities: Capabilities
    client_info: ClientInfo = ClientInfo()


class Answer(msgspec.Struct, frozen=True):
    """What became of a question to the user."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class Answers(msgspec.Struct, frozen=True):
    """The answers that come with a call that is sent again."""

    approve: Answer | None = None


class ToolCall(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of `tools/call`. `arguments` stay text: the tool reads them, exactly."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    input_responses: Answers | None = None
    request_state: str | None = None

    @property
    def text(self) -> str:
        """The arguments as JSON. None at all are no arguments."""
        text = bytes(self.arguments).decode()
        return "{}" if text == "null" else text


class Cancelled(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of `notifications/cancelled`."""

    request_id: int | str | None = None


class _Meta(msgspec.Struct, frozen=True):
    meta: Envelope | None = msgspec.field(default=None, name="_meta")


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a request, and how its user can be asked.

    `enveloped`: it belongs to the era without requests from us. `asks`: it can show its user a
    form.
    """

    name: str = ""
    asks: bool = False
    enveloped: bool = False


S = TypeVar("S", bound=msgspec.Struct)


def parameters(params: msgspec.Raw, shape: type[S]) -> S:
    """The parameters of a request. Raises `Refused` if they have another shape."""
    try:
        return msgspec.json.decode(params, type=shape)
    except (ValueError, RecursionError) as error:
        raise Refused(INVALID_PARAMS, f"Wrong parameters: {error}") from None


def tool_call(params: msgspec.Raw) -> ToolCall:
    """The parameters of `tools/call`. Raises `Refused` as `parameters` does, and where an answer of
    the user comes with a key that is given twice: nobody can tell which of the two they gave."""
    call = parameters(params, ToolCall)
    if call.input_responses is not None:
        try:
            read_arguments(bytes(params))
        except InvalidCall as error:
            raise Refused(INVALID_PARAMS, f"Wrong parameters: {error.message}") from None
    return call


def answer_in(result: msgspec.Raw) -> Answer:
    """What a client answered to a question of ours. Raises `ValueError` if it is no answer, or has
    a key twice."""
    try:
        return msgspec.convert(read_arguments(bytes(result)), type=Answer)
    except InvalidCall as error:
        raise ValueError(error.message) from None


def client_of(params: msgspec.Raw, greeted: Client) -> Client:
    """Who sent a request with these parameters: `greeted`, the client of the handshake, unless an
    envelope says it. Raises `Refused` for an envelope that is not whole, or of a version
    unknown."""
    envelope = parameters(params, _Meta).meta
    if envelope is None or envelope.version is msgspec.UNSET:
        return greeted
    if envelope.capabilities is None:
        raise Refused(INVALID_PARAMS, "_meta lacks io.modelcontextprotocol/clientCapabilities.")
    if envelope.version not in ENVELOPE_VERSIONS:
        data = {"supported": list(ENVELOPE_VERSIONS), "requested": envelope.version}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)
    return _client(envelope.client or ClientInfo(), envelope.capabilities, enveloped=True)


def client_of_handshake(handshake: Handshake) -> Client:
    """Who began a session with `initialize`."""
    return _client(handshake.client_info, handshake.capabilities, enveloped=False)


def _client(info: ClientInfo, capabilities: Capabilities, *, enveloped: bool) -> Client:
    ways = capabilities.elicitation
    asks = ways is not None and (ways.form is not None or ways.url is None)
    return Client(info.name[:_NAME_MAX], asks, enveloped)


def greeting(handshake: Handshake, instructions: str) -> dict[str, Any]:
    """The result of `initialize`, with the version asked for or else the latest that it can be."""
    asked = handshake.protocol_version
    return {
        "protocolVersion": asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": {"tools": {}},
        "serverInfo": _SERVER,
        "instructions": instructions,
    }


def discovery(instructions: str) -> dict[str, Any]:
    """The result of `server/discover`."""
    return _cacheable(
        {
            "supportedVersions": list(ENVELOPE_VERSIONS),
            "capabilities": {"tools": {}},
            "instructions": instructions,
        }
    )


def pong(client: Client) -> dict[str, Any]:
    """The result of `ping`: in the handshake era peers check that it is empty."""
    return _complete({}) if client.enveloped else {}


def listing(client: Client, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of `tools/list`. `tools` are as `tool_entry` makes them."""
    return _cacheable({"tools": tools}) if client.enveloped else {"tools": tools}


def tool_entry(tool: ToolDefinition, remark: str) -> dict[str, Any]:
    """A tool as `tools/list` shows it; `remark` says of one at level `ask` what holds here."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description.replace(MUST_BE_APPROVED, remark),
        "inputSchema": tool.input_schema,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
    }


def tool_result(
    client: Client, text: str, data: dict[str, Any], *, is_error: bool
) -> dict[str, Any]:
    """The result of `tools/call`. Some hosts show the model only the text, so it says all."""
    result = {
        "content": [{"type": "text", "text": text}],
        "structuredContent": data,
        "isError": is_error,
    }
    return _complete(result) if client.enveloped else result


def input_required(question: dict[str, Any], state: str) -> dict[str, Any]:
    """The result of `tools/call` that asks for an answer to `question`, in the envelope era."""
    asked = {"approve": {"method": "elicitation/create", "params": question}}
    result: dict[str, Any] = {"inputRequests": asked, "requestState": state}
    return _stamped(result, "input_required")


def _complete(result: dict[str, Any]) -> dict[str, Any]:
    return _stamped(result, "complete")


def _cacheable(result: dict[str, Any]) -> dict[str, Any]:
    """Not for long: the tools of a replica change when it is promoted."""
    return _complete({**result, "ttlMs": 0, "cacheScope": "private"})


def _stamped(result: dict[str, Any], kind: str) -> dict[str, Any]:
    return {**result, "resultType": kind, "_meta": {_SERVER_KEY: _SERVER}}
