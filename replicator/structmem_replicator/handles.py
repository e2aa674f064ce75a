"""`publish` and `follow`: a publisher or a replica on a thread of its own.

The thread has its own event loop, whether the caller has one or not, so a slow caller never costs
a heartbeat and a slow stream never costs the caller. Leaving the `with` block stops at once: what
is not yet published stays in the journal, and the next publisher finds it. To know that something
is replicated, `wait_for` it.

Invariants:

- What ends the work is kept, shown in the status, and raised by every `wait_for`.
- When `close` has returned, the thread is gone, and with it every connection it had.
"""

import asyncio
import contextlib
import reprlib
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias, Unpack

from structmem import Diverged, InvalidCall, StreamUnavailable, StructuredMemory
from structmem_journal import Position
from structmem_replicator.jetstream import ConnectionSettings, JetStreamTransport
from structmem_replicator.memory_transport import MemoryStream, MemoryTransport
from structmem_replicator.progress import Progress, Status
from structmem_replicator.protocol import Event, State
from structmem_replicator.publisher import Publisher
from structmem_replicator.replica import Replica
from structmem_replicator.transport import Transport

CANCEL_AGAIN_S: Final = 0.2
"""`asyncio.wait_for` of Python 3.11 can swallow a cancellation: it is repeated until it holds."""

_MISSING_TO_PUBLISHER: Final = (
    "This memory was published before, so its stream is not made anew. Check the server and the "
    "stream's name (--stream). If an empty stream is meant, say so: --new-stream (new_stream=True)."
)
_MISSING_TO_REPLICA: Final = "The first publisher makes the stream, if it has not published before."
"""What to do about a stream that is not there."""

Servers: TypeAlias = str | Sequence[str] | MemoryStream
"""A URL of a NATS server, several of one cluster, or a stream inside this process."""


class Worker(Protocol):
    """What a handle runs: a `Publisher` or a `Replica`."""

    @property
    def progress(self) -> Progress: ...
    @property
    def memory(self) -> StructuredMemory | None: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...


class Handle:
    """A worker on its own thread. All of it may be called from any thread.

    A context manager (`with`, which gives this handle) and an asynchronous one (`async with`,
    which gives an `AsyncHandle`).
    """

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker = worker
        self._progress = worker.progress
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        self._started.wait()

    def status(self) -> Status:
        """What it is doing, how far it got, and what is wrong."""
        return self._progress.status

    def position(self) -> Position:
        """How far it got: the records up to here are replicated (publisher), applied (replica)."""
        return self._progress.status.position

    def wait_for(self, position: Position | None, timeout: float | None = None) -> None:
        """Return once the records up to `position` are replicated (publisher), applied (replica).

        None, the position of a write that changed nothing, is nothing to wait for. `timeout` is in
        seconds. Raises `TimeoutError`; `Diverged` if the position is not of this history; what
        ended the work, if that has ended; `StreamUnavailable` after `close`; `InvalidCall` for what
        is no position.
        """
        _raise_end(self._progress.status)
        if position is None:
            return
        _check_position(position)
        self._refuse_other_history(position)
        status = self._progress.wait(
            lambda status: status.ended or status.position.seq >= position.seq, timeout
        )
        _raise_end(status)
        if status.position.seq < position.seq:
            why = f": {status.error}" if status.error else ""
            raise TimeoutError(
                f"Position {position.seq} was not reached in {timeout} s; it is at "
                f"{status.position.seq}, {status.state}{why}"
            )
        self._refuse_other_history(position)

    def wait_for_change(self, status: Status, timeout: float | None = None) -> Status:
        """The status once its state or error is another than in `status`, or time is up."""
        return self._progress.wait(
            lambda now: (now.state, now.error) != (status.state, status.error), timeout
        )

    def close(self) -> None:
        """Stop, and wait until everything is given up. May be called again."""
        while self._thread.is_alive():
            self._cancel()
            self._thread.join(CANCEL_AGAIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> "AsyncHandle":
        return AsyncHandle(self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def _refuse_other_history(self, position: Position) -> None:
        memory = self._worker.memory
        here = None if memory is None else memory.position_at(position.seq)
        if here is not None and here != position:
            raise Diverged(
                f"Position {position} is not of this history, which has {here} there.",
                hint="It was given by a primary that lost, or by another memory.",
            )

    def _cancel(self) -> None:
        # A loop that has ended needs no cancelling.
        if self._loop is not None and self._work is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._work.cancel)

    def _main(self) -> None:
        asyncio.run(self._supervise())

    async def _supervise(self) -> None:
        """Run the worker to its end, keep what ended it, and give up what it held."""
        self._loop = asyncio.get_running_loop()
        self._work = asyncio.ensure_future(self._worker.run())
        self._started.set()
        await asyncio.wait((self._work,))
        error = None if self._work.cancelled() else self._work.exception()
        # A cancelled worker may have left a call to the memory behind in a thread.
        await self._loop.shutdown_default_executor()
        await self._worker.close()
        self._progress.move(Event.CLOSED if error is None else Event.FAILED, error)
        if error is not None and not isinstance(error, Exception):
            raise error


class PublisherHandle(Handle):
    """A memory being published. Made by `publish`."""

    def replicated(self) -> Position:
        """The position up to which the stream is known to hold this memory's records."""
        return self.position()


class ReplicaHandle(Handle):
    """A replica that follows its memory. Made by `follow`."""


class AsyncHandle:
    """A `Handle` for a program with an event loop: the same methods, awaitable where they wait."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def status(self) -> Status:
        """See `Handle.status`; it does not wait."""
        return self._handle.status()

    def position(self) -> Position:
        """See `Handle.position`; it does not wait."""
        return self._handle.position()

    async def wait_for(self, position: Position | None, timeout: float | None = None) -> None:
        """See `Handle.wait_for`; for None it does not wait either."""
        await asyncio.to_thread(self._handle.wait_for, position, timeout)

    async def close(self) -> None:
        """See `Handle.close`."""
        await asyncio.to_thread(self._handle.close)


def publish(
    memory: StructuredMemory,
    servers: Servers,
    *,
    new_stream: bool = False,
    **connection: Unpack[ConnectionSettings],
) -> PublisherHandle:
    """Publish a memory's journal, what is in it and what will be, until the handle is closed.

    The memory stays the caller's: used as before, and closed after the handle. Servers that cannot
    be reached are tried again for ever. The stream is made if it is missing and the memory has not
    been published yet; a missing stream of one that has is waited for. `new_stream` says that an
    empty stream is meant: it is made if it is missing, and the whole journal is published again.
    Raises `InvalidCall` for a replica, and for settings that cannot be.
    """
    if memory.role() == "replica":
        raise InvalidCall(
            f"{memory.path} is a replica, and only a primary publishes.",
            hint="Publish the primary's file.",
        )
    create = new_stream or memory.bookmark() is None
    transport = _transport(servers, connection, create=create, missing_hint=_MISSING_TO_PUBLISHER)
    worker = Publisher(memory, transport, new_stream=new_stream)
    return PublisherHandle(worker, f"structmem-publish-{memory.label}")


def follow(
    path: str | Path,
    servers: Servers,
    *,
    memory: str,
    **connection: Unpack[ConnectionSettings],
) -> ReplicaHandle:
    """Keep the file at `path` a replica of a memory, until the handle is closed.

    `memory` is the id or the label of the memory. The file is made if it is missing; it can be
    opened and read by anybody at any time, and written by nobody. A memory or stream that is not
    there yet is waited for. Raises `InvalidCall` if the file is not a replica of that memory, and
    for settings that cannot be.
    """
    transport = _transport(servers, connection, create=False, missing_hint=_MISSING_TO_REPLICA)
    worker = Replica(path, memory, transport)
    return ReplicaHandle(worker, f"structmem-follow-{Path(path).name}")


def _transport(
    servers: Servers, settings: ConnectionSettings, *, create: bool, missing_hint: str
) -> Transport:
    if isinstance(servers, MemoryStream):
        if settings:
            raise InvalidCall("A stream inside this process takes no connection settings.")
        return MemoryTransport(servers)
    return JetStreamTransport(servers, settings, create=create, missing_hint=missing_hint)


def _check_position(position: object) -> None:
    if not isinstance(position, Position):
        raise InvalidCall(
            f"What is waited for must be a position or None, not {reprlib.repr(position)}.",
            hint="Pass the position of a write's result.",
        )


def _raise_end(status: Status) -> None:
    if status.state == State.FAILED and status.error is not None:
        raise status.error
    if status.state == State.CLOSED:
        raise StreamUnavailable("This publisher or replica was closed.")
