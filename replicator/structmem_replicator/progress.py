"""What a publisher or replica is doing, as other threads see it, and waiting for it to get there.

Invariants:

- A status is a value: it is replaced whole, under the lock, and everybody waiting is told.
- The state changes only as the lifecycle's table allows.
- The error of an end stays; any other is gone once things go well again.
"""

import threading
from collections.abc import Callable
from typing import Final

from msgspec import Struct, structs

from structmem_journal import START, Position
from structmem_replicator.protocol import ENDED, Event, Lifecycle, State, next_state

_FIRST: Final = State.CONNECTING


class Status(Struct, frozen=True):
    """A publisher or replica at one moment.

    `position` is how far it got: replicated, or applied. `error` is why it does not get further
    just now or, in state `failed`, at all. `counts` tells what has happened since it was made, by
    name: `applied`, `skipped`, `dead`, `foreign` …
    """

    state: State = _FIRST
    position: Position = START
    error: BaseException | None = None
    counts: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        """Whether it will do nothing more."""
        return self.state in ENDED


class Progress:
    """The status of one publisher or replica. Thread-safe."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._status = Status()
        self._changed = threading.Condition()

    @property
    def status(self) -> Status:
        return self._status

    @property
    def state(self) -> State:
        return self._status.state

    def move(self, event: Event, error: BaseException | None = None) -> None:
        """Something happened. `IN_DOUBT` and `FAILED` say why; the other events keep the error
        until `reach` or `content` says that things go well."""
        with self._changed:
            state = next_state(self._lifecycle, self._status.state, event)
            self._replace(state=state, error=error or self._status.error)

    def reach(self, position: Position) -> None:
        """It got to `position`."""
        with self._changed:
            self._replace(position=position, error=None)

    def content(self) -> None:
        """There is nothing to do and nothing wrong."""
        if self._status.error is not None:
            with self._changed:
                self._replace(error=None)

    def count(self, name: str, by: int = 1) -> None:
        """`by` more of what `name` says have happened."""
        if by:
            with self._changed:
                counts = self._status.counts
                self._replace(counts=counts | {name: counts.get(name, 0) + by})

    def wait(self, until: Callable[[Status], bool], timeout_s: float | None) -> Status:
        """The first status for which `until` holds, or the present one when time is up."""
        with self._changed:
            self._changed.wait_for(lambda: until(self._status), timeout_s)
            return self._status

    def _replace(self, **changes: object) -> None:
        self._status = structs.replace(self._status, **changes)
        self._changed.notify_all()
