"""`AsyncStructuredMemory`: the same memory for programs that run on asyncio.

Each method is that of `StructuredMemory`, carried out in a worker thread. `_reads` and `_writes`
make it, with the same parameters and the same description; a new one is one line. What runs where,
and what a cancellation does, is in `workers`.
"""

import asyncio
import copy
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from structmem.arguments import check_callable
from structmem.errors import InvalidCall, shown
from structmem.limits import MAX_VALUE_BYTES, QUERY_TIMEOUT_S
from structmem.memory import StructuredMemory
from structmem.opening import Listener
from structmem.results import Operation
from structmem.workers import Fetching, Workers
from structmem_journal import START, Position, Record

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate[StructuredMemory, P], T]
AsyncMethod = Callable[Concatenate["AsyncStructuredMemory", P], Coroutine[Any, Any, T]]


def _reads(method: Method[P, T]) -> AsyncMethod[P, T]:
    @wraps(method)
    async def call(self: "AsyncStructuredMemory", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._read(partial(method, self._memory, *args, **kwargs))  # pyright: ignore[reportPrivateUsage] # part of the class

    return call


def _writes(method: Method[P, T]) -> AsyncMethod[P, T]:
    @wraps(method)
    async def call(self: "AsyncStructuredMemory", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._write(partial(method, self._memory, *args, **kwargs))  # pyright: ignore[reportPrivateUsage] # part of the class

    return call


class AsyncStructuredMemory:
    """A `StructuredMemory` whose methods are awaited. None of them blocks the event loop.

    Its writes are carried out one after the other, in the order of the calls. A write that is
    cancelled has either committed or left nothing, and its await ends when that is known; a query
    that is cancelled is interrupted. `log` and `records` are asynchronous iterators, `acting_as`,
    `path` and `label` are not awaited. Iterables and callbacks that are passed in run in a worker
    thread, but for the listeners of `on_commit`.

    One object may be used from several event loops. `async with` closes it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        actor: str | None = None,
        read_only: bool = False,
        max_operations: int | None = None,
        query_timeout: float = QUERY_TIMEOUT_S,
        max_value_bytes: int = MAX_VALUE_BYTES,
        size_limit: int | None = None,
    ) -> None:
        self._memory = StructuredMemory(
            path,
            actor=actor,
            read_only=read_only,
            max_operations=max_operations,
            query_timeout=query_timeout,
            max_value_bytes=max_value_bytes,
            size_limit=size_limit,
        )
        self._workers = Workers(self._memory.path)

    @classmethod
    def sharing(cls, memory: StructuredMemory) -> Self:
        """The same open memory as `memory`, for a program that uses it both ways. Closing either
        closes both."""
        if not isinstance(memory, StructuredMemory):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may err
            raise InvalidCall(f"Only a StructuredMemory can be shared, not {shown(memory)}.")
        shared = cls.__new__(cls)
        shared._memory = memory
        shared._workers = Workers(memory.path)
        return shared

    # -- not awaited -----------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return self._memory.path

    @property
    def actor(self) -> str | None:
        """Who acts: what the journal is told with every operation of this object."""
        return self._memory.actor

    @property
    def label(self) -> str:
        """The name under which it is replicated: the file's, without directory and ending."""
        return self._memory.label

    def acting_as(self, actor: str | None, *, approved_by: str | None = None) -> Self:
        """The same open memory for another actor, as `StructuredMemory.acting_as`."""
        view = copy.copy(self)
        view._memory = self._memory.acting_as(actor, approved_by=approved_by)
        return view

    def rehearsal(self) -> Self:
        """The same open memory for writes that are rolled back, as `StructuredMemory.rehearsal`."""
        view = copy.copy(self)
        view._memory = self._memory.rehearsal()
        return view

    def log(
        self,
        *,
        table: str | None = None,
        actor: str | None = None,
        operation: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
    ) -> AsyncIterator[Operation]:
        """Every record as an operation, as `StructuredMemory.log`."""
        begin = partial(
            self._memory.log,
            table=table,
            actor=actor,
            operation=operation,
            since=since,
            until=until,
            after=after,
        )
        return Fetching(self._workers, begin)

    def records(self, after: Position = START) -> AsyncIterator[Record]:
        """The journal's records after a position, as `StructuredMemory.records`."""
        return Fetching(self._workers, partial(self._memory.records, after))

    # -- awaited ---------------------------------------------------------------------------------

    async def id(self) -> str:
        """32 hex digits, drawn when the file was made; copies and replicas keep them."""
        return await self._read(lambda: self._memory.id)

    async def on_commit(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the new position after each commit made through this object, in the
        event loop of this call, and before the write's own await returns. Returns a function that
        ends this; it also ends with the loop."""
        check_callable(listener, "listener")
        loop = asyncio.get_running_loop()

        def tell(position: Position) -> None:
            if loop.is_closed():
                forget()
            else:
                loop.call_soon_threadsafe(listener, position)

        forget = self._memory.on_commit(tell)
        return forget

    async def run(self, work: Callable[[StructuredMemory], T], *, writes: bool = True) -> T:
        """Call `work` with the memory as a `StructuredMemory`, in a worker thread: for several
        calls in a row, or code that is written for one. What `writes` keeps its place among the
        other writes; a cancellation interrupts queries only of what does not."""
        check_callable(work, "work")
        task = partial(work, self._memory)
        return await (self._write(task) if writes else self._read(task))

    async def close(self) -> None:
        """Close the file once the writes that were called before are over. Closing twice is fine;
        any other use afterwards is `InvalidCall`."""
        await self._workers.close(self._memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def _read(self, work: Callable[[], T]) -> T:
        return await self._workers.read(work)

    async def _write(self, work: Callable[[], T]) -> T:
        return await self._workers.write(work)

    bookmark = _reads(StructuredMemory.bookmark)
    describe = _reads(StructuredMemory.describe)
    epoch = _reads(StructuredMemory.epoch)
    history = _reads(StructuredMemory.history)
    position = _reads(StructuredMemory.position)
    position_at = _reads(StructuredMemory.position_at)
    preview = _reads(StructuredMemory.preview)
    query = _reads(StructuredMemory.query)
    role = _reads(StructuredMemory.role)
    size = _reads(StructuredMemory.size)
    verify = _reads(StructuredMemory.verify)

    add_column = _writes(StructuredMemory.add_column)
    apply = _writes(StructuredMemory.apply)
    create_index = _writes(StructuredMemory.create_index)
    create_table = _writes(StructuredMemory.create_table)
    delete = _writes(StructuredMemory.delete)
    destroy = _writes(StructuredMemory.destroy)
    drop_index = _writes(StructuredMemory.drop_index)
    drop_table = _writes(StructuredMemory.drop_table)
    execute = _writes(StructuredMemory.execute)
    insert = _writes(StructuredMemory.insert)
    redo = _writes(StructuredMemory.redo)
    revert_to = _writes(StructuredMemory.revert_to)
    undo = _writes(StructuredMemory.undo)
    update = _writes(StructuredMemory.update)
