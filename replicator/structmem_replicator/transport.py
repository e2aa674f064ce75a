"""The stream as the replicator sees it: what it asks, and what it may rely on.

A stream numbers its messages 1, 2, 3 … over all subjects together and keeps them until they are
removed on purpose. Two implementations share one contract and one suite of tests: `jetstream`
(NATS JetStream) and `memory_transport` (inside this process).

What holds for both:

- **Reads propose, the expected sequence decides.** A read may be out of date; only a publish with
  an expectation tells who was first.
- Sequences can be *reused*: a server that lost its tail in a power cut numbers on from what it
  has left. So a sequence names a message only together with what the message says.
- Nothing is sent later than the call that asked for it: a call that ended in `NotStored`,
  `Conflict` or `StreamFull` will not store its message afterwards; after `Undecided` it may.
- A transport belongs to one event loop. It connects when asked (`connect`) and never by itself,
  so nothing is published on a connection that its user has not looked at.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

EXPECTED_HEADER: Final = "Nats-Expected-Last-Subject-Sequence"

_STATUS_LINE_BYTES: Final = len("NATS/1.0\r\n")
_HEADER_EXTRA_BYTES: Final = len(": \r\n")
_END_BYTES: Final = len("\r\n")


class Message(Struct, frozen=True):
    """A message as the stream keeps it. `headers` holds at least those it was published with."""

    subject: str
    sequence: int
    headers: dict[str, str]
    data: bytes


class Reader(Protocol):
    """Hears the messages of one subject in order, from a sequence on.

    Bounded: it asks the stream for a limited number of messages and bytes at a time.
    """

    async def next(self, wait_s: float) -> Message | None:
        """The next message, or None when none came within `wait_s` seconds.

        Raises `ReaderLost` when the stream no longer answers for this reader, at the latest a few
        heartbeats after that happened. It cannot see that a stream went back behind its place:
        compare with `Transport.last` when it has been silent for a while.
        """
        ...

    async def close(self) -> None:
        """Stop hearing. Does not raise, whatever became of the stream."""
        ...


class Transport(Protocol):
    """A connection to one stream."""

    @property
    def generation(self) -> int:
        """Counts connections; 0 while there is none. What was learnt under another generation
        must be looked at again."""
        ...

    @property
    def message_bytes_max(self) -> int:
        """Most bytes a message may have, as `message_bytes` counts them. It can change with every
        connection: read it before every message."""
        ...

    async def connect(self) -> int:
        """Make sure that there is a connection to a stream that is safe to build on, and return
        its generation. One attempt; repeating it is up to the caller.

        Raises `Unreachable`, saying why, and `UnsafeStream`.
        """
        ...

    async def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str], *, expected: int
    ) -> int:
        """Store a message if `expected` is the sequence of the last one of its subject (0: there
        is none), and return its sequence.

        Raises `Conflict`: another message is the last one; read and decide. `Undecided`: no
        answer, or an answer that says neither; wait, reconcile, offer it again. `NotStored`: it
        was not taken, for instance because it is larger than `message_bytes_max`. `StreamFull`:
        back off.
        """
        ...

    async def last(self, subject: str) -> Message | None:
        """The last message of a subject, asked of the stream's leader. Raises `Unreachable`."""
        ...

    async def read(self, sequence: int) -> Message | None:
        """The message with this sequence, None if there is none. Raises `Unreachable`."""
        ...

    async def next(self, subject: str, sequence: int) -> Message | None:
        """The first message of a subject at or after a sequence. Raises `Unreachable`."""
        ...

    async def subjects(self, pattern: str) -> list[str]:
        """The subjects matching `pattern` (`*` stands for one token) that hold a message, sorted.
        Raises `Unreachable`."""
        ...

    async def reader(self, subject: str, sequence: int) -> Reader:
        """A reader of a subject from a sequence on. Raises `Unreachable`."""
        ...

    async def close(self) -> None:
        """Give the connection up. Does not raise, and may be called again."""
        ...


def message_bytes(data_bytes: int, headers: Mapping[str, str], *, expected: int) -> int:
    """What a message of `data_bytes` counts for the limit: data and header block, which is written
    as in https://docs.nats.io/reference/reference-protocols/nats-protocol#hpub and holds the
    expectation."""
    written = {**headers, EXPECTED_HEADER: str(expected)}
    lines = sum(
        len(name.encode()) + len(value.encode()) + _HEADER_EXTRA_BYTES
        for name, value in written.items()
    )
    return _STATUS_LINE_BYTES + lines + _END_BYTES + data_bytes
