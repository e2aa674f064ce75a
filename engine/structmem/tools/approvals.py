"""What a person is shown before an operation, and the proof that they approved it.

Invariants:

- An approval is for one call: one tool, one set of arguments, one state of what was shown.
- A token works once, and not for ever. It is remembered in this process only: after a restart
  nobody has approved anything.
"""

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import Struct

from structmem import (
    ApprovalTimedOut,
    ApprovalVoid,
    Declined,
    InvalidCall,
    NobodyToAsk,
    NotGranted,
    Rehearsed,
    Touched,
    WriteResult,
)
from structmem.tools.arguments import Arguments, digest_of, read_arguments
from structmem.tools.json_values import to_json
from structmem.tools.operations import Delete, Input, Insert, Sight, Update
from structmem.tools.wording import quoted

_STATEMENT_CHARACTERS_MAX: Final = 4_000
_CELL_CHARACTERS_MAX: Final = 80
_WAITING_MAX: Final = 1_000
"""Requests that wait for an answer. Beyond it the oldest is given up, so that a client that never
answers does not fill the memory of the process."""

_ASK_AGAIN: Final = "Call the tool again; a person is then asked anew."
_GO_ON: Final = "Go on without, and say what is left to approve."


class ApprovalRequest(Struct, frozen=True):
    """What a call would do, for the person who decides.

    `statement` says it in words, `reason` is the model's. `rows_matched` (or None), `columns` and
    `sample` are of the rows that it would change or add, `notes` whatever else helps. All values
    are JSON. `memory` (its id), `arguments_digest` and `binds` hold the approval to this very call
    and those rows.
    """

    tool: str
    operation: str
    statement: str
    reason: str | None
    rows_matched: int | None
    columns: list[str]
    sample: list[list[Any]]
    notes: list[str]
    memory: str
    arguments_digest: str
    binds: dict[str, Any] | None

    @property
    def data(self) -> dict[str, Any]:
        """It as JSON, for a program that shows it."""
        return {
            "tool": self.tool,
            "operation": self.operation,
            "statement": self.statement,
            "reason": self.reason,
            "rowsMatched": self.rows_matched,
            "columns": self.columns,
            "sample": self.sample,
            "notes": self.notes,
        }

    @property
    def text(self) -> str:
        """It as lines of text. What came from the model stands in quotes, on one line."""
        lines = [f"{_cut(self.statement, _STATEMENT_CHARACTERS_MAX)}."]
        lines += [f"Reason: {quoted(self.reason)}"] if self.reason else []
        if self.rows_matched is not None:
            lines += [f"Rows: {self.rows_matched:,}"]
        for row in self.sample:
            lines.append(_cut(f"- {_row(self.columns, row)}", _STATEMENT_CHARACTERS_MAX))
        if self.rows_matched is not None and self.rows_matched > len(self.sample) > 0:
            lines += [f"- and {self.rows_matched - len(self.sample):,} more"]
        return "\n".join([*lines, *(f"{note}." for note in self.notes)])


class Asked(NamedTuple):
    """Which call it is that is asked about: the id of its memory, its tool, its arguments."""

    memory: str
    tool: str
    arguments_digest: str


def request_of(
    asked: Asked, wanted: Input, sight: Sight, rehearsed: WriteResult | None
) -> ApprovalRequest:
    """What to show about a call, of which `rehearsed` is known how it would end."""
    notes = [*sight.notes, *_outcome(wanted, rehearsed)] if rehearsed is not None else sight.notes
    return ApprovalRequest(
        tool=asked.tool,
        operation=wanted.operation,
        statement=wanted.statement(),
        reason=getattr(wanted, "reason", None),
        rows_matched=sight.rows_matched,
        columns=list(sight.columns),
        sample=[[to_json(value) for value in row] for row in sight.sample],
        notes=[note.rstrip(".") for note in notes],
        memory=asked.memory,
        arguments_digest=asked.arguments_digest,
        binds=sight.binds,
    )


def _outcome(wanted: Input, rehearsed: WriteResult) -> list[str]:
    """What a rehearsal showed that the statement does not say."""
    warned = [f"It warns: {quoted(warning)}" for warning in rehearsed.warnings]
    touched = _touched(wanted, rehearsed) if isinstance(rehearsed, Rehearsed) else []
    return [*touched, *warned]


def _touched(wanted: Input, rehearsed: Rehearsed) -> list[str]:
    """Which rows change that are not those of the statement: triggers, foreign keys and conflict
    clauses see to it, or the statement names none."""
    own = _folded(wanted.table) if isinstance(wanted, Insert | Update | Delete) else None
    also = "It" if own is None else "It also"
    counts = {
        table: _beside(wanted, touched, rehearsed.rows_changed)
        if _folded(table) == own
        else _counts(touched)
        for table, touched in rehearsed.touched.items()
    }
    notes = [
        f"{also} {_in_words(count)} of {quoted(table)}"
        for table, count in counts.items()
        if any(count.values())
    ]
    is_execute = wanted.operation == "execute"
    return notes or ([f"It changes {rehearsed.rows_changed:,} rows"] if is_execute else [])


def _folded(name: str) -> bytes:
    """Equal for names that SQLite takes for the same: of bytes, the case of ASCII only is lost."""
    return name.encode().lower()


def _counts(touched: Touched) -> dict[str, int]:
    return {"inserts": touched.inserted, "updates": touched.updated, "deletes": touched.deleted}


def _beside(wanted: Input, touched: Touched, named: int) -> dict[str, int]:
    """What became of the statement's own table, but for the `named` rows."""
    counts = _counts(touched)
    if wanted.operation == "update":  # a row whose rowid changes is deleted and inserted
        moved = min(counts["deletes"], counts["inserts"])
        counts = {
            "inserts": counts["inserts"] - moved,
            "updates": counts["updates"] + moved,
            "deletes": counts["deletes"] - moved,
        }
    does = f"{wanted.operation}s"
    return counts | {does: max(0, counts[does] - named)}


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(
        f"{does} {count:,} {'row' if count == 1 else 'rows'}"
        for does, count in counts.items()
        if count
    )


def _row(columns: list[str], row: list[Any]) -> str:
    if not row:
        return "(all defaults)"
    cells = [_cut(quoted(value), _CELL_CHARACTERS_MAX) for value in row]
    return ", ".join(f"{quoted(name)}: {cell}" for name, cell in zip(columns, cells, strict=True))


def _cut(text: str, characters_max: int) -> str:
    """`text`, or its beginning with the number of characters that are not shown: whoever approves
    must know that there is more."""
    if len(text) <= characters_max:
        return text
    return f"{text[:characters_max]} […and {len(text) - characters_max:,} more characters]"


class Approvals:
    """Requests that wait for a person's answer, each under a token.

    A token is for the holder of the door, to find the request again when the answer comes. It is
    good for `seconds`, and for one redemption, whatever comes of that. Safe for threads.
    """

    def __init__(
        self, seconds: float = 300.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, ApprovalRequest]] = {}

    def ask(self, request: ApprovalRequest) -> str:
        """Remember `request`, and return its token. Raises `InvalidCall` for a `ToolResult`, which
        is for the model."""
        if not isinstance(request, ApprovalRequest):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may err
            raise InvalidCall(f"There is nothing to approve about a {type(request).__name__}.")
        token = secrets.token_urlsafe(24)
        with self._lock:
            while len(self._waiting) >= _WAITING_MAX:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[token] = self._clock() + self._seconds, request
        return token

    def redeem(self, token: str, tool: str, arguments: Arguments) -> ApprovalRequest:
        """The request that was asked under `token`, which ends. Raises `ApprovalVoid` for a token
        that is unknown, used, or of another call; `ApprovalTimedOut` for an old one."""
        with self._lock:
            until, request = self._waiting.pop(token, (0.0, None))
        if request is None:
            raise ApprovalVoid("This approval is not known, or was used.", hint=_ASK_AGAIN)
        if self._clock() > until:
            raise timed_out(self._seconds)
        if (request.tool, request.arguments_digest) != (tool, digest_of(read_arguments(arguments))):
            raise ApprovalVoid(
                "This approval was given for a call with other arguments.", hint=_ASK_AGAIN
            )
        return request


def outdated(what: str) -> ApprovalVoid:
    """What was approved is not so any more."""
    return ApprovalVoid(f"Since this was approved, things changed. {what}", hint=_ASK_AGAIN)


def unapproved(operation: str) -> NotGranted:
    """Nobody approved a call that somebody must approve."""
    return NotGranted(
        f"`{operation}` needs a person's approval, and this call has none.", hint=_GO_ON
    )


def declined(tool: str) -> Declined:
    """A person said no to a call of `tool`."""
    return Declined(
        f"A person declined this call of {tool}. Nothing was changed.",
        hint="Do not try the same again; ask the user what they want instead.",
    )


def nobody_to_ask(tool: str, why: str) -> NobodyToAsk:
    """There is no way to ask about a call of `tool`; `why`, as the rest of a sentence."""
    return NobodyToAsk(
        f"{tool} needs a person's approval, and {why}. Nothing was changed.", hint=_GO_ON
    )


def timed_out(seconds: float) -> ApprovalTimedOut:
    """A person was asked, and gave no answer for so long."""
    return ApprovalTimedOut(
        f"A person was asked, and did not answer within {seconds:g} seconds. Nothing was changed.",
        hint=_GO_ON,
    )
