"""Time and memory of SQL that a model wrote.

SQLite has no single bound for either, so there are several:

- A `Watch` is SQLite's progress handler: every `PROGRESS_OPCODES` steps it looks at the clock and
  at how far SQLite's memory has grown.
- SQLite asks it at jumps only. On a straight stretch, such as the columns of one row, `ceiling` in
  SQLite's allocator bounds memory, and `longest_value` bounds work: the longer the program, the
  shorter the values it may touch.
- One step on one value is bounded by that length, and by limits of the connection (`restrict`).
  Where the cost of a step grows with the product of two lengths, `functions` replaces it.

SQLite counts memory for the whole process. What other threads take while a query runs counts for
it, and while any query runs the ceiling holds for every APSW connection of the process.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock
from time import monotonic
from typing import TypeVar

import apsw
from msgspec import Struct

from structmem.errors import QueryLimit
from structmem.limits import (
    JSON_PATCH_BYTES_MAX,
    LIKE_PATTERN_BYTES_MAX,
    MAX_VALUE_BYTES,
    QUERY_HEAP_SLACK_BYTES,
    QUERY_MEMORY_BYTES,
    QUERY_MEMORY_VALUES,
    ROW_SLACK_BYTES,
    STEPS_OF,
    STRAIGHT_STEPS_MAX,
    VDBE_OP_MAX,
)

T = TypeVar("T")

abandoned: ContextVar[Event] = ContextVar("abandoned", default=Event())  # noqa: B039 # never set
"""Set when nobody waits any more for what runs in this context: SQL is interrupted then."""


class Bounds(Struct, frozen=True):
    """How large a value, and how large SQLite's memory or a result, may become in one query."""

    value_bytes: int
    memory_bytes: int

    @classmethod
    def allowing(cls, max_value_bytes: int) -> "Bounds":
        """The bounds under which values of `max_value_bytes` can be read."""
        longest = max_value_bytes + ROW_SLACK_BYTES
        return cls(longest, max(QUERY_MEMORY_BYTES, QUERY_MEMORY_VALUES * longest))

    def within_memory(self, found: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        """What was found, up to the bound of memory for all of it in Python."""
        used = 0
        for one in found:
            used += size(one)
            if used > self.memory_bytes:
                raise self.too_large()
            yield one

    def too_large(self) -> QueryLimit:
        return QueryLimit(
            f"The SQL needs more than the {self.memory_bytes >> 20} MB of memory it may take.",
            hint="Ask for fewer rows or columns, or aggregate in SQL.",
        )


def too_long(value_bytes: int) -> QueryLimit:
    return QueryLimit(
        f"The SQL reads or makes a value, or a row to sort, longer than the {value_bytes:,} bytes "
        "it may have in this statement.",
        hint="Read long values with a short statement, by their key; make shorter ones.",
    )


def too_complex(why: str | None = None) -> QueryLimit:
    """The error for SQL that SQLite cannot, or may not, compile. `why` is what SQLite says."""
    limit = why or f"it compiles to more than {VDBE_OP_MAX:,} steps"
    return QueryLimit(
        f"The SQL is too long or too deeply nested: {limit}.",
        hint="Split it, pass long lists as one JSON parameter and read them with json_each(?), or "
        "use fewer nested views.",
    )


class Instruction(Struct, frozen=True):
    """One step of a compiled program: its name, and its fourth operand as text. `page` is the root
    page of the table or index that it opens for reading, None when it opens none."""

    name: str
    operand: str
    page: int | None = None

    @property
    def is_call(self) -> bool:
        """Whether it calls a function, which `operand` names, `like(2)`."""
        return self.name in ("Function", "PureFunc")


class Watch:
    """Bounds one call. `interrupts` is the progress handler: true stops the statement."""

    def __init__(self, timeout: float, bounds: Bounds) -> None:
        self._timeout = timeout
        self._bounds = bounds
        self._abandoned = abandoned.get()
        self._deadline = monotonic() + timeout
        self._memory_max = apsw.memory_used() + bounds.memory_bytes

    def interrupts(self) -> bool:
        return self._is_late() or apsw.memory_used() > self._memory_max or self._abandoned.is_set()

    def look(self) -> None:
        """Raise if the call is to end: between statements that are each too short to be asked."""
        if self.interrupts():
            raise self.reason()

    def reason(self) -> QueryLimit:
        """Why a statement was interrupted. (By then its memory is given back; time is not.)"""
        if self._abandoned.is_set():
            return QueryLimit("The SQL was given up by its caller.")
        if not self._is_late():
            return self._bounds.too_large()
        return QueryLimit(
            f"The SQL ran longer than the {self._timeout:g} seconds it may take.",
            hint="Narrow it with WHERE or LIMIT, or create an index on the columns it looks up.",
        )

    def _is_late(self) -> bool:
        return monotonic() > self._deadline


def restrict(connection: apsw.Connection, bounds: Bounds) -> None:
    """Set SQLite's own limits for SQL that a model wrote."""
    for limit, value in _limits(bounds).items():
        connection.limit(limit, value)


@contextmanager
def restricted(connection: apsw.Connection, bounds: Bounds) -> Generator[None]:
    """The same limits for a while, on a connection that has others."""
    before = {limit: connection.limit(limit) for limit in _limits(bounds)}
    restrict(connection, bounds)
    try:
        yield
    finally:
        for limit, value in before.items():
            connection.limit(limit, value)


def _limits(bounds: Bounds) -> dict[int, int]:
    return {
        # One step on one value has no look in between: its length is what bounds it.
        apsw.SQLITE_LIMIT_LENGTH: bounds.value_bytes,
        # Nested views and long lists would compile for seconds, which no progress handler sees.
        apsw.SQLITE_LIMIT_VDBE_OP: VDBE_OP_MAX,
        apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: LIKE_PATTERN_BYTES_MAX,
        # The guards refuse ATTACH too; a limit of none holds without them.
        apsw.SQLITE_LIMIT_ATTACHED: 0,
        apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
    }


def longest_value(program: Sequence[Instruction], at_most: int) -> int:
    """Bytes that a value may have while `program` runs."""
    called = [step.operand for step in program if step.is_call]
    patches = sum(operand.startswith(("json_patch(", "jsonb_patch(")) for operand in called)
    steps = len(program) + sum(map(_steps_of, called))
    work_bytes = STRAIGHT_STEPS_MAX * max(at_most, MAX_VALUE_BYTES)
    longest = min(at_most, work_bytes // max(steps, 1))
    return min(longest, JSON_PATCH_BYTES_MAX // patches) if patches else longest


def _steps_of(function: str) -> int:
    """What a call counts for, beside itself; `function` is as SQLite writes it, `like(2)`."""
    return STEPS_OF.get(function) or STEPS_OF.get(function.partition("(")[0], 0)


class _Ceiling:
    """How far SQLite's memory may grow in this process while queries run.

    Each query raises it to what it may need; the last one to end puts back what was set before.
    A ceiling that the application set is kept where it is lower.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._hard_before = 0
        self._soft_before = 0

    @contextmanager
    def held(self, bounds: Bounds) -> Generator[None]:
        with self._lock:
            if self._holders == 0:
                self._hard_before = apsw.hard_heap_limit(-1)
                self._soft_before = apsw.soft_heap_limit(-1)
            self._raise(apsw.memory_used() + bounds.memory_bytes + QUERY_HEAP_SLACK_BYTES)
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    self._put_back()

    def _raise(self, wanted: int) -> None:
        if self._holders:
            wanted = max(wanted, apsw.hard_heap_limit(-1))
        apsw.hard_heap_limit(min(wanted, self._hard_before) if self._hard_before else wanted)

    def _put_back(self) -> None:
        apsw.hard_heap_limit(self._hard_before)
        apsw.soft_heap_limit(self._soft_before)  # SQLite lowers it together with the hard one

    def forget_parent(self) -> None:
        """In a forked child the other threads, their queries and their locks' owners are gone."""
        self._lock = Lock()
        if self._holders:
            self._holders = 0
            self._put_back()


ceiling = _Ceiling()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ceiling.forget_parent)
