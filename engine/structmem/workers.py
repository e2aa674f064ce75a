"""Threads in which an asynchronous memory's calls run.

Invariants:

- The event loop never waits for a lock or for the disk.
- When an await ends, also by cancellation, its call is over: it was carried out, or never began.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from threading import Event
from typing import Final, Generic, TypeVar

from structmem.bounds import abandoned
from structmem.connection import closed
from structmem.process import Process
from structmem_journal import Record

_READERS: Final = 4
"""Threads for reads. SQLite works without Python's lock for long stretches, so they do help."""

_BATCH_ITEMS: Final = 64
_BATCH_BYTES: Final = 1 << 20
"""How much an iterator fetches in one go. A change of threads costs about as much as one record."""

T = TypeVar("T")


class Workers:
    """One thread for writes, which run one after the other anyway; and a few for reads, which so
    never stand behind writes that wait for another process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = Process()
        self._writing = ThreadPoolExecutor(1, "structmem-write")
        self._reading = ThreadPoolExecutor(_READERS, "structmem-read")
        self._closed = False

    async def read(self, work: Callable[[], T]) -> T:
        return await self._run(self._reading, work)

    async def write(self, work: Callable[[], T]) -> T:
        return await self._run(self._writing, work)

    async def close(self, last: Callable[[], None]) -> None:
        """Carry out the `last` work, which is not given up when the caller is cancelled."""
        self._process.check(self._path.name)
        if self._closed:
            return
        self._closed = True
        waiter = asyncio.wrap_future(self._writing.submit(last))
        self._writing.shutdown(wait=False)
        self._reading.shutdown(wait=False)
        await _settled(waiter)
        waiter.result()

    async def _run(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        self._process.check(self._path.name)  # the threads of a parent are not here
        if self._closed:
            raise closed(self._path)
        given_up, context = Event(), copy_context()
        context.run(abandoned.set, given_up)
        future = executor.submit(context.run, work)
        waiter = asyncio.wrap_future(future)
        try:
            await asyncio.wait([waiter])
        except asyncio.CancelledError:
            given_up.set()
            if not future.cancel():  # it has begun
                await _settled(waiter)
            raise
        return waiter.result()


async def _settled(waiter: asyncio.Future[T]) -> None:
    """Returns when the thread is done, whatever came of it. A cancellation meanwhile is raised
    then."""
    cancelled: asyncio.CancelledError | None = None
    while not waiter.done():
        try:
            await asyncio.wait([waiter])
        except asyncio.CancelledError as error:
            cancelled = error
    waiter.exception()  # seen, or asyncio would complain that nobody asked
    if cancelled is not None:
        raise cancelled


class Fetching(Generic[T]):
    """An asynchronous iterator over what `begin` returns, fetched in a worker a few at a time. A
    cancelled step loses nothing: the next one goes on with what it had fetched."""

    def __init__(self, workers: Workers, begin: Callable[[], Iterator[T]]) -> None:
        self._workers = workers
        self._begin = begin
        self._source: Iterator[T] | None = None
        self._fetched: deque[T] = deque()
        self._failed: Exception | None = None

    def __aiter__(self) -> "Fetching[T]":
        return self

    async def __anext__(self) -> T:
        if not self._fetched and self._failed is None:
            await self._workers.read(self._fetch)
        if self._fetched:
            return self._fetched.popleft()
        failed, self._failed = self._failed, None
        raise failed or StopAsyncIteration

    def _fetch(self) -> None:
        """In a worker. What goes wrong is told after what came before it."""
        size = 0
        try:
            self._source = self._source or self._begin()
            while len(self._fetched) < _BATCH_ITEMS and size < _BATCH_BYTES:
                self._fetched.append(one := next(self._source))
                size += len(one.payload or b"") if isinstance(one, Record) else 0
        except StopIteration:
            pass
        except Exception as error:
            self._failed = error
