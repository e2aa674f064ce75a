"""A stream inside this process, for tests, for trying things out, and for a replica beside its
primary. Real code under the same contract and suite as JetStream, but nothing outlives the process.

Invariants:

- Every change and every look happens under the stream's lock, so transports of several threads and
  event loops can share one stream.
- A message is stored only if its expectation is the sequence of the last one of its subject.
- Sequences grow by one over all subjects together. `lose_after` gives lost ones out again, as a
  server does that lost its tail in a power cut.
"""

import asyncio
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Final

from structmem_replicator.errors import Conflict, NotStored, ReaderLost, StreamFull, Unreachable
from structmem_replicator.pacing import wake
from structmem_replicator.subjects import covers
from structmem_replicator.transport import EXPECTED_HEADER, Message, message_bytes

MESSAGE_BYTES_MAX: Final = 1 << 20
"""The default `max_payload` of a NATS server."""


class MemoryStream:
    """The messages, shared by the `MemoryTransport`s that are given it.

    `message_bytes_max` limits one message (headers and data), `bytes_max` the data of all.
    """

    def __init__(
        self, *, message_bytes_max: int = MESSAGE_BYTES_MAX, bytes_max: int | None = None
    ) -> None:
        self.message_bytes_max = message_bytes_max
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._subjects: dict[str, list[Message]] = {}
        self._by_sequence: dict[int, Message] = {}
        self._last_sequence = 0
        self._up = True
        self._outages = 0
        self._listeners: set[Callable[[], None]] = set()

    # -- what happens to a server --------------------------------------------------------------

    def stop(self) -> None:
        """Be unreachable: every connection is lost until `start`."""
        with self._lock:
            self._up = False
            self._outages += 1
        self._tell_listeners()

    def start(self) -> None:
        """Be there again, with everything that was stored."""
        with self._lock:
            self._up = True

    def lose_after(self, sequence: int) -> None:
        """Forget the messages above `sequence`; their sequences will be given out again."""
        with self._lock:
            self._last_sequence = sequence
            for number in [n for n in self._by_sequence if n > sequence]:
                self._remove(number)

    def remove(self, sequence: int) -> None:
        """Remove one message, as trimming does; its sequence is not used again."""
        with self._lock:
            self._remove(sequence)

    # -- what transports ask -------------------------------------------------------------------

    @property
    def last_sequence(self) -> int:
        """The sequence that was given out last."""
        return self._last_sequence

    @property
    def outages(self) -> int:
        """How often it was stopped: a connection made before that is lost."""
        return self._outages

    @property
    def is_up(self) -> bool:
        """Whether it can be reached."""
        return self._up

    def store(self, subject: str, data: bytes, headers: Mapping[str, str], expected: int) -> int:
        """See `Transport.publish`."""
        with self._lock:
            last = self._subjects.get(subject, [])
            standing = last[-1].sequence if last else 0
            if standing != expected:
                raise Conflict(f"The last message of {subject} is {standing}, not {expected}.")
            self._check_room(len(data))
            self._last_sequence += 1
            stored = {**headers, EXPECTED_HEADER: str(expected)}
            message = Message(subject, self._last_sequence, stored, data)
            self._subjects.setdefault(subject, []).append(message)
            self._by_sequence[message.sequence] = message
        self._tell_listeners()
        return message.sequence

    def last(self, subject: str) -> Message | None:
        """See `Transport.last`."""
        with self._lock:
            messages = self._subjects.get(subject)
            return messages[-1] if messages else None

    def read(self, sequence: int) -> Message | None:
        """See `Transport.read`."""
        with self._lock:
            return self._by_sequence.get(sequence)

    def next(self, subject: str, sequence: int) -> Message | None:
        """See `Transport.next`."""
        with self._lock:
            messages = self._subjects.get(subject, [])
            index = bisect_left(messages, sequence, key=lambda message: message.sequence)
            return messages[index] if index < len(messages) else None

    def subjects(self, pattern: str) -> list[str]:
        """See `Transport.subjects`."""
        with self._lock:
            return sorted(s for s, held in self._subjects.items() if held and covers(pattern, s))

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, in whatever thread it happens, after each change; returns "stop"."""
        with self._lock:
            self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _check_room(self, data_bytes: int) -> None:
        if self.bytes_max is None:
            return
        held = sum(len(message.data) for message in self._by_sequence.values())
        if held + data_bytes > self.bytes_max:
            raise StreamFull(f"The stream holds {held} of {self.bytes_max} bytes.")

    def _remove(self, sequence: int) -> None:
        message = self._by_sequence.pop(sequence)
        self._subjects[message.subject].remove(message)

    def _tell_listeners(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()


class MemoryTransport:
    """A `Transport` over a `MemoryStream`."""

    def __init__(self, stream: MemoryStream) -> None:
        self._stream = stream
        self._connections = 0
        self._connected_at: int | None = None

    @property
    def generation(self) -> int:
        return self._connections if self._is_connected() else 0

    @property
    def message_bytes_max(self) -> int:
        return self._stream.message_bytes_max

    async def connect(self) -> int:
        if not self._is_connected():
            if not self._stream.is_up:
                raise Unreachable("The stream is stopped.")
            self._connected_at = self._stream.outages
            self._connections += 1
        return self._connections

    async def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str], *, expected: int
    ) -> int:
        if not self._is_connected():
            raise NotStored("There is no connection to the stream.")
        size = message_bytes(len(data), headers, expected=expected)
        if size > self.message_bytes_max:
            raise NotStored(f"The message has {size} bytes of {self.message_bytes_max}.")
        return self._stream.store(subject, data, headers, expected)

    async def last(self, subject: str) -> Message | None:
        return self._reachable().last(subject)

    async def read(self, sequence: int) -> Message | None:
        return self._reachable().read(sequence)

    async def next(self, subject: str, sequence: int) -> Message | None:
        return self._reachable().next(subject, sequence)

    async def subjects(self, pattern: str) -> list[str]:
        return self._reachable().subjects(pattern)

    async def reader(self, subject: str, sequence: int) -> "MemoryReader":
        return MemoryReader(self._reachable(), subject, sequence)

    async def close(self) -> None:
        self._connected_at = None

    def _is_connected(self) -> bool:
        return self._stream.is_up and self._connected_at == self._stream.outages

    def _reachable(self) -> MemoryStream:
        if not self._is_connected():
            raise Unreachable("There is no connection to the stream.")
        return self._stream


class MemoryReader:
    """A `Reader` over a `MemoryStream`: it looks again whenever the stream changes."""

    def __init__(self, stream: MemoryStream, subject: str, sequence: int) -> None:
        self._stream, self._subject, self._sequence = stream, subject, sequence
        self._opened_at = stream.outages
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stop_listening = stream.listen(self._wake)

    async def next(self, wait_s: float) -> Message | None:
        deadline = self._loop.time() + wait_s
        while True:
            self._changed.clear()
            if self._stream.outages != self._opened_at:
                raise ReaderLost("The stream was stopped.")
            message = self._stream.next(self._subject, self._sequence)
            if message is not None:
                self._sequence = message.sequence + 1
                return message
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                return None

    async def close(self) -> None:
        self._stop_listening()

    def _wake(self) -> None:
        wake(self._loop, self._changed)
