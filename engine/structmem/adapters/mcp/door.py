"""The loop: lines in, lines out.

The thread that reads answers at once what needs no memory, so that a `ping` is answered while a
query runs. One worker carries out everything else in the order it came. A call that waits for a
person is out of both until it is answered.

Invariants:
- An answer is sent only while its request is wanted, and sending makes it unwanted: so there is at
  most one, and none after a cancellation that came in time.
- When lines end, what they asked for is carried out before the door closes; what waits for a person
  is refused, because nobody can answer any more.
"""

import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from structmem import StructMemError
from structmem.adapters.mcp import protocol
from structmem.adapters.mcp.calls import Call, Calls, Manner
from structmem.adapters.mcp.memories import Memories
from structmem.adapters.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Notification,
    Refused,
    Request,
    Response,
    error_line,
    read,
    result_line,
)
from structmem.adapters.mcp.protocol import Cancelled, Client, Handshake
from structmem.adapters.mcp.questions import Asked, Questions
from structmem.adapters.mcp.worker import Wanted, Worker

Result = dict[str, Any]
"""Of a request, as the protocol has it."""

Send = Callable[[bytes], None]
"""Writes one line, whole. Called from any thread."""


class Door:
    """Serves one client. `send` must not raise."""

    def __init__(self, memories: Memories, manner: Manner, send: Send) -> None:
        self._memories = memories
        self._manner = manner
        self._send = send
        self._wanted: Wanted[Call | Request] = Wanted()
        self._worker = Worker()
        self._questions: Questions[Call] = Questions(
            send, self._settled, seconds=manner.ask_seconds
        )
        self._calls = Calls(memories, manner, self._questions.ask)
        self._greeted = Client()
        self._loaded = False

    def serve(self, lines: Iterable[bytes]) -> None:
        """Until the lines end, and what they asked for is done."""
        for line in lines:
            if line.strip():
                self._take(line)
        self._questions.close()
        self._worker.finish()

    def abandon(self, *, seconds: float) -> bool:
        """Begin nothing more. Whether what runs was over within so many seconds."""
        return self._worker.abandon(seconds)

    # -- on the thread that reads ----------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        match read(line):
            case Refused() as refused:
                self._send(error_line(refused))
            case Notification() as notification:
                self._hear(notification)
            case Response() as response:
                self._questions.answered(response)
            case Request() as request:
                self._send_outcome(request.id, partial(self._begin, request))
                self._load_once()

    def _load_once(self) -> None:
        """After the first answer, which is waited for: SQLite, for the first call."""
        if not self._loaded:
            self._loaded = True
            self._worker.put(self._load)

    def _hear(self, notification: Notification) -> None:
        """Of what clients tell, only that they lost interest matters."""
        if notification.method == "notifications/cancelled":
            with suppress(Refused):
                self._cancel(protocol.parameters(notification.params, Cancelled))

    def _cancel(self, cancelled: Cancelled) -> None:
        if cancelled.request_id is not None:
            self._drop(self._wanted.cancel(cancelled.request_id))

    def _drop(self, request: Call | Request | None) -> None:
        """Do not ask about what wants no answer any more: a yes would do nothing."""
        if isinstance(request, Call):
            self._questions.withdraw(request)

    def _begin(self, request: Request) -> Result | None:
        """The result of a request that needs no memory. None if the worker will have it."""
        if request.method == "initialize":
            return self._greet(request)
        client = protocol.client_of(request.params, self._greeted)
        match request.method:
            case "ping":
                return protocol.pong(client)
            case "server/discover":
                return self._discover(client)
            case "tools/list":
                self._later(request, partial(self._list, client))
            case "tools/call":
                call = Call(request.id, client, protocol.tool_call(request.params))
                self._later(call, partial(self._call, call))
            case method:
                raise Refused(METHOD_NOT_FOUND, "Method not found", data=method)
        return None

    def _greet(self, request: Request) -> Result:
        handshake = protocol.parameters(request.params, Handshake)
        self._greeted = protocol.client_of_handshake(handshake)
        return protocol.greeting(handshake, self._instructions())

    def _discover(self, client: Client) -> Result:
        if not client.enveloped:
            raise Refused(INVALID_PARAMS, "server/discover needs the envelope in _meta.")
        return protocol.discovery(self._instructions())

    def _instructions(self) -> str:
        return self._memories.instructions

    def _later(self, request: Call | Request, work: Callable[[], Result | None]) -> None:
        self._drop(self._wanted.add(request))
        self._worker.put(partial(self._carry_out, request, work))

    # -- on the worker ---------------------------------------------------------------------------

    def _list(self, client: Client) -> Result:
        remark = self._manner.remark(client)
        tools = [protocol.tool_entry(tool, remark) for tool in self._memories.offered()]
        return protocol.listing(client, tools)

    def _call(self, call: Call) -> Result | None:
        result = self._calls.begin(call)
        if result is None and not self._wanted.holds(call):
            self._questions.withdraw(call)  # cancelled while the question was made
        return result

    def _load(self) -> None:
        try:
            self._memories.load()
        except Exception:  # told again, and answered, by the first call
            _print_bug()

    # -- on any thread ---------------------------------------------------------------------------

    def _settled(self, asked: Asked[Call], refusal: StructMemError | None) -> None:
        """A person answered, or will not."""
        call = asked.call
        if refusal is None:
            approved = partial(self._calls.approved, call, asked.request)
            self._worker.put(partial(self._carry_out, call, approved))
        else:
            self._carry_out(call, partial(self._calls.refused, call, refusal))

    def _carry_out(self, request: Call | Request, work: Callable[[], Result | None]) -> None:
        if self._wanted.holds(request):
            wanted = partial(self._wanted.claim, request)
            self._send_outcome(request.id, work, if_still=wanted)

    def _send_outcome(
        self,
        request_id: Id,
        work: Callable[[], Result | None],
        *,
        if_still: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send what comes of `work`, if it has a result: that, or the error it raises."""
        try:
            result = work()
            line = None if result is None else result_line(request_id, result)
        except Refused as refused:
            line = error_line(refused, request_id)
        except Exception:
            _print_bug()
            line = error_line(
                Refused(INTERNAL_ERROR, "Internal error; the log of the server has it"), request_id
            )
        if line is not None and if_still():
            self._send(line)


def _print_bug() -> None:
    with suppress(OSError):  # nobody may read standard error
        traceback.print_exc()
