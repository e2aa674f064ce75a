"""A client made of lines: it can send what a well-behaved one cannot, and sees all that is
answered."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT: Final = "io.modelcontextprotocol/clientInfo"

FORM: Final[dict[str, Any]] = {"elicitation": {"form": {}}}
"""What a client declares that can show its user a form."""

ENDLESS: Final = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
)

Json = dict[str, Any]


def command(*arguments: str | Path) -> list[str]:
    """The process that serves, as a client starts it."""
    return [sys.executable, "-m", "structmem", "mcp", *map(str, arguments)]


def environment() -> dict[str, str]:
    """What that process needs of ours, for the official client, which passes little on."""
    path = os.environ.get("PYTHONPATH")
    return {} if path is None else {"PYTHONPATH": path}


def envelope(capabilities: Json | None = None, *, version: str = "2026-07-28") -> Json:
    """`_meta` of a request of the envelope era."""
    return {
        VERSION: version,
        CAPABILITIES: capabilities or {},
        CLIENT: {"name": "liner", "version": "1"},
    }


class Wire:
    """One server process, its lines in and out. `log` is its standard error, once it has ended."""

    def __init__(self, *arguments: str | Path, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONWARNINGS": "default"} | (environment or {}),
        )
        self.log = ""
        self._ids = 0

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def say(self, message: Json) -> None:
        """Any message."""
        self.send_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send(self, method: str, params: Json | None = None) -> int:
        """A request; its id."""
        self._ids += 1
        self.say({"id": self._ids, "method": method, "params": params or {}})
        return self._ids

    def notify(self, method: str, params: Json | None = None) -> None:
        self.say({"method": method, "params": params or {}})

    def answer(self, question: Json, result: Json) -> None:
        """What the client says to a request of the server."""
        self.say({"id": question["id"], "result": result})

    def receive(self) -> Json:
        """The next message, which must be there, whole, on a line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), "the server ended"
        return json.loads(line)

    def ask(self, method: str, params: Json | None = None) -> Json:
        """The message that answers a request, and comes next."""
        request_id = self.send(method, params)
        answer = self.receive()
        assert answer["id"] == request_id, answer
        return answer

    def call(self, tool: str, arguments: Json, **more: Any) -> Json:
        """The result of a call that is answered at once."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments, **more})["result"]

    def greet(self, capabilities: Json | None = None, *, version: str = "2025-11-25") -> Json:
        """The handshake; its result."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "liner", "version": "1"},
        }
        result = self.ask("initialize", params)["result"]
        self.notify("notifications/initialized")
        return result

    def hang_up(self) -> None:
        """Close its input, and listen on."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def leave(self) -> list[Json]:
        """Close its input; what it still had to say before it ended well."""
        out, err = self.process.communicate()
        self.log = err.decode()
        assert self.process.returncode == 0, self.log
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def served(*arguments: str | Path, environment: dict[str, str] | None = None) -> Generator[Wire]:
    """A server with these arguments. It must end by itself, with nothing unsaid, when its input
    ends."""
    wire = Wire(*arguments, environment=environment)
    try:
        yield wire
        if wire.process.returncode is None:
            assert wire.leave() == []
    finally:
        wire.process.kill()
        wire.process.communicate()


def content(result: Json) -> Json:
    """What a tool said, which must be the same in both of its places."""
    (block,) = result["content"]
    assert block["type"] == "text"
    assert json.loads(block["text"]) == result["structuredContent"]
    return result["structuredContent"]


def error_code(result: Json) -> str:
    """Why a tool refused."""
    assert result["isError"], result
    return content(result)["error"]["code"]
