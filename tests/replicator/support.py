"""Streams to test on: one in this process, one on a real nats-server, under the same handle."""

import asyncio
import collections
import contextlib
import random
import shutil
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from nats.aio.client import Client

from structmem import StructMemError, StructuredMemory
from structmem_journal import (
    SALT_BYTES,
    START,
    EpochBegan,
    Event,
    Intent,
    Position,
    Record,
    encode_payload,
    link,
)
from structmem_replicator import MemoryStream, Status, TransportError, frames
from structmem_replicator.errors import StreamFull, Undecided
from structmem_replicator.handles import Worker
from structmem_replicator.jetstream import JetStreamTransport
from structmem_replicator.memory_transport import MemoryTransport
from structmem_replicator.server import EmbeddedServer
from structmem_replicator.subjects import frames_subject
from structmem_replicator.transport import Message, Reader, Transport

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine on a loop of its own; one that hangs is a failure."""

    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(bounded())


class StreamUnderTest(Protocol):
    """A stream, and what can happen to one."""

    def transport(self) -> Transport: ...
    def stop(self) -> None: ...
    def start(self) -> None: ...
    def checkpoint(self) -> None:
        """Remember what the stream holds now, as the disk would after a sync."""
        ...

    def lose_tail(self) -> None:
        """Go back to the checkpoint, as in a power cut; connections are lost."""
        ...

    async def remove(self, sequence: int) -> None:
        """Remove one message, as trimming does."""
        ...


class InProcess:
    """`StreamUnderTest` over a `MemoryStream`."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self._kept = 0

    def transport(self) -> Transport:
        return MemoryTransport(self.stream)

    def stop(self) -> None:
        self.stream.stop()

    def start(self) -> None:
        self.stream.start()

    def checkpoint(self) -> None:
        self._kept = self.stream.last_sequence

    def lose_tail(self) -> None:
        self.stop()
        self.stream.lose_after(self._kept)
        self.start()

    async def remove(self, sequence: int) -> None:
        self.stream.remove(sequence)


class OnServer:
    """`StreamUnderTest` over a real nats-server."""

    def __init__(self, server: EmbeddedServer, directory: Path) -> None:
        self.server = server
        self._copy = directory / "checkpoint"

    def transport(self) -> Transport:
        return JetStreamTransport(self.server.url, create=True)

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def checkpoint(self) -> None:
        self.server.stop()
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.server.store, self._copy)
        self.server.start()

    def lose_tail(self) -> None:
        self.server.kill()
        shutil.rmtree(self.server.store)
        shutil.copytree(self._copy, self.server.store)
        self.server.start()

    async def remove(self, sequence: int) -> None:
        client = Client()
        await client.connect(self.server.url)
        request = b'{"seq": %d}' % sequence
        await client.request("$JS.API.STREAM.MSG.DELETE.STRUCTMEM", request)
        await client.close()


def chain(
    count: int, *, after: Position = START, epoch: int = 1, payload_bytes: int = 40, salt: str = ""
) -> list[Record]:
    """`count` records that follow `after`; another `salt` makes another history. The payloads do
    not compress to less than half."""
    records: list[Record] = []
    for _ in range(count):
        event = Event(Intent("insert", "t", reason=salt + noise(payload_bytes, seed=after.seq)))
        payload = encode_payload(event, bytes(SALT_BYTES))
        record = link(after, payload=payload, kind="insert", at_us=1_000_000, epoch=epoch)
        after = Position(after.seq + 1, record.digest)
        records.append(record)
    return records


def noise(count: int, *, seed: int = 0) -> str:
    """`count` characters, the same each time, that do not compress to less than half."""
    return random.Random(seed).randbytes((count + 1) // 2).hex()[:count]


def position_after(records: Sequence[Record], after: Position = START) -> Position:
    return Position(after.seq + len(records), records[-1].digest) if records else after


# -- memories ------------------------------------------------------------------------------------


def make_memory(path: Path) -> StructuredMemory:
    memory = StructuredMemory(path)
    memory.create_table("notes", [{"name": "text"}])
    return memory


def write(memory: StructuredMemory, *texts: str) -> Position:
    """Insert one note each; the position after the last."""
    position = memory.position()
    for text in texts:
        position = memory.insert("notes", {"text": text}).position
    assert position is not None
    return position


def notes(path: Path) -> list[str]:
    with StructuredMemory(path, read_only=True) as memory:
        return [str(row[0]) for row in memory.query("SELECT text FROM notes ORDER BY rowid").rows]


def journal(path: Path) -> list[Record]:
    with StructuredMemory(path, read_only=True) as memory:
        return list(memory.records())


def copy_memory(source: Path, target: Path) -> Path:
    """Copy a memory's file while nobody has it open."""
    for suffix in ("", "-wal"):
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")
    return target


def new_epoch(after: Position, *, epoch: int = 2, writer: str = "b" * 32) -> list[Record]:
    """The record with which another node becomes the primary after `after`."""
    event = Event(Intent("promote"), [EpochBegan(epoch, writer)])
    payload = encode_payload(event, bytes(SALT_BYTES))
    return [link(after, payload=payload, kind="promote", at_us=1 << 55, epoch=epoch)]


async def publish_records(
    transport: Transport, memory_id: str, after: Position, records: list[Record]
) -> int:
    """Publish a frame as another publisher of the memory would, and return its sequence."""
    subject = frames_subject(memory_id)
    frame = frames.build(memory_id, after, records)
    last = await transport.last(subject)
    expected = last.sequence if last else 0
    headers, data = frames.cut(
        frame, frames.encode(frame), 0, expected=expected, bytes_max=transport.message_bytes_max
    )
    return await transport.publish(subject, data, headers, expected=expected)


async def eventually(holds: Callable[[], bool], what: str = "it") -> None:
    """Wait until `holds`; fail, saying `what` did not come, after 20 seconds."""
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not come true")


class Running:
    """A publisher or replica running as a task of the test's loop."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.task = asyncio.ensure_future(worker.run())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, StructMemError):
            await self.task
        await self.worker.close()

    @property
    def status(self) -> Status:
        return self.worker.progress.status

    @property
    def counts(self) -> Mapping[str, int]:
        return collections.Counter(self.status.counts)

    async def reaches(self, position: Position) -> None:
        def there() -> bool:
            if self.task.done():
                self.task.result()
            return self.status.position.seq >= position.seq

        await eventually(there, f"position {position.seq}")
        assert self.status.position == position

    async def ends_with(self, kind: type[StructMemError]) -> str:
        """The message of the error that ends the worker."""
        await eventually(self.task.done, f"the end with {kind.__name__}")
        error = self.task.exception()
        assert isinstance(error, kind), repr(error)
        return str(error)


class Faulty:
    """A `Transport` that does what `faults` says to the next publishes of frames, in order:

    `"ok"`; `"ack lost"`: stored, and the answer is lost; `"request lost"`: neither;
    `"delayed"`: reported as undecided, and stored later, when `deliver` is called; `"full"`; or a
    function that is called before the message is passed on.
    """

    def __init__(self, inner: Transport, faults: Sequence[str | Callable[[], None]] = ()) -> None:
        self._inner, self.faults = inner, deque(faults)
        self._delayed: list[tuple[str, bytes, Mapping[str, str], int]] = []

    @property
    def generation(self) -> int:
        return self._inner.generation

    @property
    def message_bytes_max(self) -> int:
        return self._inner.message_bytes_max

    async def connect(self) -> int:
        return await self._inner.connect()

    async def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str], *, expected: int
    ) -> int:
        frame = subject.startswith("sm.f.")
        fault = self.faults.popleft() if frame and self.faults else "ok"
        if callable(fault):
            fault()
        elif fault == "delayed":
            self._delayed.append((subject, data, headers, expected))
        if fault in ("request lost", "delayed"):
            raise Undecided("A test lost the request.")
        if fault == "full":
            raise StreamFull("A test has no room.")
        sequence = await self._inner.publish(subject, data, headers, expected=expected)
        if fault == "ack lost":
            raise Undecided("A test lost the answer.")
        return sequence

    async def deliver(self) -> list[int | TransportError]:
        """Let the delayed messages arrive; what became of them."""
        results: list[int | TransportError] = []
        for subject, data, headers, expected in self._delayed:
            try:
                results.append(await self._inner.publish(subject, data, headers, expected=expected))
            except TransportError as error:
                results.append(error)
        self._delayed.clear()
        return results

    async def last(self, subject: str) -> Message | None:
        return await self._inner.last(subject)

    async def read(self, sequence: int) -> Message | None:
        return await self._inner.read(sequence)

    async def next(self, subject: str, sequence: int) -> Message | None:
        return await self._inner.next(subject, sequence)

    async def subjects(self, pattern: str) -> list[str]:
        return await self._inner.subjects(pattern)

    async def reader(self, subject: str, sequence: int) -> Reader:
        return await self._inner.reader(subject, sequence)

    async def close(self) -> None:
        await self._inner.close()
