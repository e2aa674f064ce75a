"""One thread that carries out what it is given, in order; and what is still wanted of it.

Invariants: a thing is claimed once. Who claims it answers for it.
"""

import queue
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from structmem.adapters.mcp.messages import Id

Job = Callable[[], None]
"""Something to do. It must not raise."""


class Worker:
    """Jobs, one after the other. Its thread does not keep the process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="structmem-mcp", daemon=True)
        self._abandoned = False
        self._thread.start()

    def put(self, job: Job) -> None:
        """Do this after everything that was put before."""
        self._jobs.put(job)

    def finish(self) -> None:
        """Return when everything that was put is done."""
        self._jobs.put(None)
        self._thread.join()

    def abandon(self, seconds: float) -> bool:
        """Begin nothing more. Whether what runs was over within so many seconds."""
        self._abandoned = True
        self._jobs.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._abandoned:
            job()


class Named(Protocol):
    """What has the id of the request that it answers. Compared by identity."""

    @property
    def id(self) -> Id: ...


N = TypeVar("N", bound=Named)


class Wanted(Generic[N]):
    """The requests that are not answered yet, from any thread."""

    def __init__(self) -> None:
        self._by_id: dict[Id, N] = {}
        self._lock = threading.Lock()

    def add(self, request: N) -> N | None:
        """It wants an answer. One of the same id, which a client must not send, loses its own, and
        is returned."""
        with self._lock:
            replaced = self._by_id.get(request.id)
            self._by_id[request.id] = request
            return replaced

    def holds(self, request: N) -> bool:
        """Whether it still wants one."""
        with self._lock:
            return self._by_id.get(request.id) is request

    def claim(self, request: N) -> bool:
        """Whether it still wanted one. It does not any more."""
        with self._lock:
            if self._by_id.get(request.id) is not request:
                return False
            del self._by_id[request.id]
            return True

    def cancel(self, request_id: Id) -> N | None:
        """The request of that id, which wants no answer any more; None if none did."""
        with self._lock:
            return self._by_id.pop(request_id, None)
