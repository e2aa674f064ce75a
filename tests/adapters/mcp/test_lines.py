"""Whatever stands in a line, the door answers as JSON-RPC says, and lives on (S3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from structmem.tools.json_values import DEPTH_MAX
from tests.adapters.mcp.wire import Json, Wire, envelope, error_code, served


def line(method: str, params: Json, *, id: int | str | None = 1) -> bytes:
    known = {} if id is None else {"id": id}
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | known).encode()


REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

WRONG: dict[str, tuple[bytes, int, int | str | None]] = {
    "no JSON": (b"hello", -32700, None),
    "half of it": (b'{"jsonrpc": "2.0", "id": 1', -32700, None),
    "half an array": (b"[1,", -32700, None),
    "invalid UTF-8": (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700, None),
    "invalid UTF-8 inside": (b'{"jsonrpc":"2.0","id":1,"params":{"a":"\xc3"}}', -32700, None),
    "a lone surrogate": (line("tools/call", {"name": "\ud83d"}, id="x"), -32700, "x"),
    "a lone surrogate as id": (line("ping", {}, id="\ud83d"), -32700, None),
    "a lone surrogate in a notification": (line("x", {"y": "\ud83d"}, id=None), -32700, None),
    "a control character": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":"\1"}', -32700, None),
    "a NUL": (b"\0", -32700, None),
    "NaN": (b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', -32700, None),
    "too deep": (b"[" * 200_000, -32700, None),
    "too deep inside": (b'{"params": ' + b"[" * 200_000, -32700, None),
    "too deep after something": (b'{"x": [1], "y": ' + b"[" * 200_000, -32700, None),
    "too deep in another's place": (b"{}]]" + b"[" * 200_000 + b"]" * 200_000, -32700, None),
    "a batch": (json.dumps([REQUEST, REQUEST]).encode(), -32600, None),
    "an empty batch": (b"[]", -32600, None),
    "a text": (b'"ping"', -32600, None),
    "null": (b"null", -32600, None),
    "an empty object": (b"{}", -32600, None),
    "no version": (b'{"id": 1, "method": "ping"}', -32600, 1),
    "another version": (b'{"jsonrpc": "1.0", "id": "x", "method": "ping"}', -32600, "x"),
    "no method": (b'{"jsonrpc": "2.0", "id": 1}', -32600, None),
    "a method that is no text": (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600, None),
    "a fraction as id": (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
    "null as id": (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
    "true as id": (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
    "an object as id": (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None),
    "an unknown method": (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601, 1),
    "parameters in an array": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602, 1),
    "no tool": (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602, 1),
    "a tool that is a number": (line("tools/call", {"name": 5}), -32602, 1),
    "an answer that is none": (
        line("tools/call", {"name": "x", "inputResponses": {"approve": {"action": "maybe"}}}),
        -32602,
        1,
    ),
    "no version in the handshake": (line("initialize", {"capabilities": {}}), -32602, 1),
    "discovery without envelope": (line("server/discover", {}), -32602, 1),
}

UNANSWERED: dict[str, bytes] = {
    "nothing": b"",
    "spaces": b"  \t\r",
    "a notification": b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
    "an unknown one": b'{"jsonrpc": "2.0", "method": "notifications/x", "params": [1]}',
    "a call without id": b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"db_query"}}',
    "an answer to no question": b'{"jsonrpc": "2.0", "id": 77, "result": {}}',
    "an error for no question": b'{"jsonrpc": "2.0", "id": "x", "error": {"code": 1}}',
    "a cancellation of nothing": line("notifications/cancelled", {"requestId": 99}, id=None),
    "a cancellation without id": line("notifications/cancelled", {}, id=None),
    "a cancellation by an object": line("notifications/cancelled", {"requestId": {}}, id=None),
}


def lives(wire: Wire) -> None:
    assert wire.ask("ping")["result"] == {}


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One server for all lines: each must leave it as it was."""
    with served(tmp_path_factory.mktemp("mcp") / "crm.db") as wire:
        yield wire


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_line_gets_its_error(wire: Wire, case: str) -> None:
    """S3"""
    wrong, code, request_id = WRONG[case]
    wire.send_line(wrong)
    answer = wire.receive()
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", request_id, code)
    assert answer["error"]["message"]
    lives(wire)


@pytest.mark.parametrize("case", UNANSWERED)
def test_what_wants_no_answer_gets_none(wire: Wire, case: str) -> None:
    """S3: the next message is the answer to the next request."""
    wire.send_line(UNANSWERED[case])
    lives(wire)


def test_an_id_comes_back_as_it_was(wire: Wire) -> None:
    """S3"""
    for request_id in ("", "ü\n", 0, -1, 2**53 + 1, 2**80):
        wire.send_line(json.dumps({**REQUEST, "id": request_id}).encode())
        assert wire.receive() == {"jsonrpc": "2.0", "id": request_id, "result": {}}


@pytest.mark.parametrize("levels", [10, DEPTH_MAX, DEPTH_MAX + 1, 800])
def test_what_a_call_holds_may_be_nested(wire: Wire, levels: int) -> None:
    """S1: the tool tells what is too deep."""
    wire.send_line(deep_call(levels))
    answer = wire.receive()
    assert (answer["id"], error_code(answer["result"])) == (7, "invalid_call")
    too_deep = f"nested more than {DEPTH_MAX} levels" in answer["result"]["content"][0]["text"]
    assert too_deep == (levels > DEPTH_MAX)
    lives(wire)


@pytest.mark.parametrize("levels", [990, 5_000, 100_000])
def test_a_call_that_is_nested_too_deep_to_be_read_gets_an_answer(wire: Wire, levels: int) -> None:
    """S1, S3: under its id, so that nobody waits for it."""
    wire.send_line(deep_call(levels))
    answer = wire.receive()
    assert answer["id"] == 7
    if levels > 1_000:
        assert answer["error"]["code"] == -32700
    lives(wire)


def deep_call(levels: int) -> bytes:
    """A call whose arguments are nested so deep. Brackets in a text are none."""
    array = "[" * (levels - 1) + "]" * (levels - 1)
    arguments = f"""{{"params": {array}, "sql": "SELECT '}}]\\"'"}}"""
    call = f'{{"name": "db_query", "arguments": {arguments}}}'
    return f'{{"jsonrpc":"2.0","method":"tools/call","params":{call},"id":7}}'.encode()


def test_a_line_may_be_long(wire: Wire) -> None:
    """S3"""
    wire.send_line(json.dumps({**REQUEST, "params": {"x": "ü" * 5_000_000}}).encode())
    assert wire.receive()["result"] == {}


def test_a_line_may_end_as_on_windows(wire: Wire) -> None:
    """S3"""
    wire.send_line(json.dumps(REQUEST).encode() + b"\r")
    assert wire.receive()["result"] == {}


def test_parameters_may_be_null(wire: Wire) -> None:
    """S3: some clients write what they leave out."""
    wire.send_line(json.dumps({**REQUEST, "params": None}).encode())
    assert wire.receive()["result"] == {}


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    """S3"""
    with served(tmp_path / "crm.db") as wire:
        assert wire.process.stdin is not None
        wire.process.stdin.write(json.dumps(REQUEST).encode())
        assert [answer["result"] for answer in wire.leave()] == [{}]


@pytest.mark.parametrize(
    ("meta", "code", "data"),
    [
        (
            envelope(version="2031-01-01"),
            -32022,
            {"supported": ["2026-07-28"], "requested": "2031-01-01"},
        ),
        (
            envelope(version="2025-11-25"),
            -32022,
            {"supported": ["2026-07-28"], "requested": "2025-11-25"},
        ),
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, -32602, None),
        ({"io.modelcontextprotocol/protocolVersion": 5}, -32602, None),
        ({"io.modelcontextprotocol/protocolVersion": None}, -32602, None),
        (5, -32602, None),
    ],
)
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "ping"])
def test_an_envelope_must_be_whole(
    wire: Wire, method: str, meta: Any, code: int, data: dict[str, Any] | None
) -> None:
    """S3"""
    error = wire.ask(method, {"_meta": meta})["error"]
    assert (error["code"], error.get("data")) == (code, data)
