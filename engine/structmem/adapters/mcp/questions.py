"""Questions to a client's user that are open, in the era in which we send requests.

Invariants: each question has one outcome: an answer, the time running out, or its end without
either. No lock is held while somebody is told of it.
"""

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from structmem import StructMemError
from structmem.adapters.mcp.asking import CLIENT_LEFT, TOO_MANY, question, refusal
from structmem.adapters.mcp.messages import Id, Response, notification_line, request_line
from structmem.tools import ApprovalRequest, nobody_to_ask, timed_out

C = TypeVar("C")

OPEN_MAX: Final = 100
"""Questions at one time: each has a thread that waits for its end, and no person answers more."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[C]):
    """A call that waits for a person, and what they were shown."""

    call: C
    tool: str
    request: ApprovalRequest
    timer: threading.Timer


Settled = Callable[[Asked[C], StructMemError | None], None]
"""Told the outcome of a question: None is a yes. Called from any thread, once for each question."""


class Questions(Generic[C]):
    """Which calls wait for a person. `settled` is told each outcome."""

    def __init__(
        self, send: Callable[[bytes], None], settled: Settled[C], *, seconds: float
    ) -> None:
        self._send = send
        self._settled = settled
        self._seconds = seconds
        self._ids = itertools.count(1)
        self._open: dict[Id, Asked[C]] | None = {}
        self._lock = threading.Lock()

    def ask(self, call: C, tool: str, request: ApprovalRequest) -> None:
        """Put the question. Raises `NobodyToAsk` if too many are open, or after `close`."""
        question_id = f"approve-{next(self._ids)}"
        timer = threading.Timer(self._seconds, self._expire, [question_id])
        timer.daemon = True
        with self._lock:
            if self._open is None:
                raise nobody_to_ask(tool, CLIENT_LEFT)
            if len(self._open) >= OPEN_MAX:
                raise nobody_to_ask(tool, TOO_MANY)
            self._open[question_id] = Asked(call, tool, request, timer)
        self._send(request_line(question_id, "elicitation/create", question(request)))
        timer.start()  # it ends at once if the answer is there already

    def answered(self, response: Response) -> None:
        """Settle the question that `response` answers, if it is still open."""
        asked = self._take(response.id)
        if asked is not None:
            self._settled(asked, refusal(asked.tool, response))

    def withdraw(self, call: C) -> None:
        """Forget the question about a call that is not wanted any more, if there is one."""
        with self._lock:
            mine = [key for key, asked in (self._open or {}).items() if asked.call is call]
        for question_id in mine:
            if self._take(question_id) is not None:
                self._call_off(question_id)

    def close(self) -> None:
        """Nobody can answer any more: refuse what is open, and whatever would be asked later."""
        with self._lock:
            left, self._open = list((self._open or {}).values()), None
        for asked in left:
            asked.timer.cancel()
            self._settled(asked, nobody_to_ask(asked.tool, CLIENT_LEFT))

    def _take(self, question_id: Id) -> Asked[C] | None:
        with self._lock:
            asked = (self._open or {}).pop(question_id, None)
        if asked is not None:
            asked.timer.cancel()
        return asked

    def _expire(self, question_id: Id) -> None:
        asked = self._take(question_id)
        if asked is not None:
            self._call_off(question_id)
            self._settled(asked, timed_out(self._seconds))

    def _call_off(self, question_id: Id) -> None:
        self._send(notification_line("notifications/cancelled", {"requestId": question_id}))
