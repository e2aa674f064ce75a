"""Streams to test on: one in this process, one on a real nats-server, under the same handle."""

import asyncio
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

from nats.aio.client import Client
from structmem_replicator import MemoryStream
from structmem_replicator.jetstream import JetStreamTransport
from structmem_replicator.memory_transport import MemoryTransport
from structmem_replicator.server import EmbeddedServer
from structmem_replicator.transport import Transport

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
