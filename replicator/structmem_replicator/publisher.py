"""Publishes a memory's journal: whatever is committed and not yet on the stream, frame by frame.

The journal is the outbox. There is nothing else to keep: how far the stream is, the stream says.

Invariants:

- One message is in flight. It is built on the last message of the subject as that was read or
  acknowledged on this very connection, and carries the expectation that it still is the last.
- Nothing is published between a doubt and a reconciliation. Doubt is every answer but a plain ack,
  every new connection, and a timer.
- A record is published only after its commit is on disk, because it is read back from the journal.
- A frame counts as replicated when it was acknowledged *and* the message it was built on was then
  read and is still the one it was: sequences are reused after a lost tail, and the server's check
  alone passes by coincidence.
- The expectation 0 is never used once the memory has been published, unless a person said so: an
  emptied subject has no fence.
"""

import asyncio
import contextlib
from typing import Final, NamedTuple, assert_never

from structmem import Diverged, Fenced, StructuredMemory
from structmem_journal import START, Record, decode_header
from structmem_replicator import frames, local, protocol
from structmem_replicator.errors import (
    Conflict,
    NotAFrame,
    StreamEmptied,
    StreamGap,
    Undecided,
    Unreachable,
)
from structmem_replicator.frames import Claim, Frame
from structmem_replicator.pacing import Backoff, keep_stepping, wait_at_most, wake
from structmem_replicator.progress import Progress
from structmem_replicator.protocol import Event, FrameVerdict, HeadVerdict, State
from structmem_replicator.search import find_last_known
from structmem_replicator.subjects import frames_subject, label_subject
from structmem_replicator.transport import Message, Transport

FRAME_RECORDS_MAX: Final = 1000
FRAME_BYTES_MAX: Final = 256 << 10
"""What a frame is filled up to. Larger ones carry hardly more per second, and the look at the
message before takes milliseconds for each hundred kilobytes."""

POLL_S: Final = 0.1
"""How often to look for commits of other processes on the same file; ours are told."""

RECONCILE_S: Final = 30.0
"""How often to look at the stream although nothing seems wrong."""


EMPTY_LOOKS: Final = 3
"""A leader that has just been elected can answer from before its time, so an empty subject is
believed only when it is seen this often in a row."""


class Base(NamedTuple):
    """The message that the next one is built on; sequence 0: the subject is empty."""

    sequence: int
    fingerprint: bytes


class Seen(NamedTuple):
    """A message of the subject, and what it would mean as the last one."""

    sequence: int
    claim: Claim | NotAFrame | None
    verdict: HeadVerdict

    def require_claim(self) -> Claim:
        """The claim of a message that is a frame."""
        assert isinstance(self.claim, Claim)
        return self.claim


class Publisher:
    """One memory, published through one transport. `run` goes on until cancelled.

    With `new_stream` an emptied subject is taken as meant: the whole journal is published again.
    """

    def __init__(
        self, memory: StructuredMemory, transport: Transport, *, new_stream: bool = False
    ) -> None:
        self.progress = Progress(protocol.PUBLISHER)
        self.memory = memory
        self._transport = transport
        self._subject = frames_subject(memory.id)
        self._may_begin_anew = new_stream
        self._generation = 0
        self._base = Base(0, b"")
        self._on_stream = START
        self._reconcile_at = 0.0
        self._empty_looks = 0
        self._backoff = Backoff()
        self._committed = asyncio.Event()

    async def run(self) -> None:
        """Publish until cancelled. Raises what must stop: `Fenced`, `Diverged`, `StreamEmptied` …;
        everything that passes is waited out."""
        loop = asyncio.get_running_loop()
        unsubscribe = self.memory.on_commit(lambda _: wake(loop, self._committed))
        try:
            await keep_stepping(self.step, self.progress, self._backoff)
        finally:
            unsubscribe()

    async def close(self) -> None:
        """Give the connection up, after `run` has ended."""
        await self._transport.close()

    async def step(self) -> None:
        """Do the next thing; `Unavailable` means in doubt."""
        match self.progress.state:
            case State.CONNECTING:
                self._generation = await self._transport.connect()
                self.progress.move(Event.CONNECTED)
            case State.RECONCILING:
                await self._reconcile()
            case _:
                await self._publish_or_rest()

    # -- reconciling ---------------------------------------------------------------------------

    async def _reconcile(self) -> None:
        self.progress.count("reconciled")
        last = await self._transport.last(self._subject)
        base = _base(last)
        head = await self._see(last)
        if head.verdict == HeadVerdict.DEAD:
            self.progress.count("dead")
            head = await self._last_alive(base.sequence)
        match head.verdict:
            case HeadVerdict.EMPTY | HeadVerdict.DEAD:
                await self._stand_at(0, base)
            case HeadVerdict.MINE | HeadVerdict.BEHIND:
                await self._check_predecessor(head)
                await self._stand_at(protocol.published_up_to(head.require_claim()), base)
            case HeadVerdict.AHEAD:
                await self._catch_up(head.sequence)
                return
            case HeadVerdict.FENCED | HeadVerdict.FORKED:
                raise self._beaten(head)
            case _:
                assert_never(head.verdict)
        await self._publish_label()
        self._reconcile_at = asyncio.get_running_loop().time() + RECONCILE_S
        self.progress.move(Event.RECONCILED)

    async def _see(self, message: Message | None) -> Seen:
        """What a message of the subject is, and what it would mean as the last one."""
        if message is None:
            return Seen(0, None, HeadVerdict.EMPTY)
        claim = await asyncio.to_thread(local.read_claim, message, self.memory.id)
        verdict = await asyncio.to_thread(local.judge_head, self.memory, claim)
        return Seen(message.sequence, claim, verdict)

    async def _last_alive(self, up_to: int) -> Seen:
        """The last message up to a sequence that is not dead."""
        known = await find_last_known(self._transport, self._subject, self.memory, up_to=up_to)
        alive = await self._see(known)
        sequence = alive.sequence + 1
        while (message := await self._transport.next(self._subject, sequence)) is not None:
            if message.sequence > up_to:
                break
            seen = await self._see(message)
            alive = alive if seen.verdict == HeadVerdict.DEAD else seen
            sequence = message.sequence + 1
        return alive

    async def _check_predecessor(self, head: Seen) -> None:
        """A frame of mine at the head proves nothing about what it was let in upon.

        One predecessor is enough: nothing was published upon a message before its own was looked
        at. Only where it says nothing (it is dead, or gone), what stands before it must."""
        built_on = head.require_claim().built_on
        if built_on == 0:
            return
        before = await self._see(await self._transport.read(built_on))
        if before.verdict in (HeadVerdict.DEAD, HeadVerdict.EMPTY):
            before = await self._last_alive(head.sequence - 1)
        verdict = await asyncio.to_thread(local.judge_predecessor, self.memory, before.claim)
        if verdict in (HeadVerdict.FENCED, HeadVerdict.FORKED):
            raise self._beaten(before._replace(verdict=verdict))

    async def _stand_at(self, seq: int, base: Base) -> None:
        """The stream holds my chain up to `seq`, and the next message is built on `base`."""
        position = await asyncio.to_thread(self.memory.position_at, seq)
        assert position is not None
        if seq == 0:
            await self._check_may_begin()
        else:
            await self._note_published(base.sequence)
        self._base, self._on_stream = base, position
        self.progress.reach(position)

    async def _check_may_begin(self) -> None:
        """Nothing of this memory is on the stream. Is that so because it never was?"""
        if self._may_begin_anew or await asyncio.to_thread(self.memory.bookmark) is None:
            return
        self._empty_looks += 1
        message = f"The stream holds nothing of memory {self.memory.id}, which was published."
        if self._empty_looks < EMPTY_LOOKS:
            raise Unreachable(message)
        raise StreamEmptied(
            message,
            hint="Find out what became of the stream. To publish the whole journal again to this "
            "one, say that it is new (new_stream=True, --new-stream).",
        )

    async def _catch_up(self, up_to: int) -> None:
        """Take what the stream has beyond my head: this file lost its own last commits, or is an
        older copy. What is not of my chain raises `Diverged`."""
        before = await asyncio.to_thread(self.memory.position)
        intake = local.Intake(self.memory, self.progress.count)
        known = await find_last_known(self._transport, self._subject, self.memory)
        sequence = 1 if known is None else known.sequence + 1
        while sequence <= up_to:
            message = await self._transport.next(self._subject, sequence)
            if message is None:
                break
            if await asyncio.to_thread(intake.take, [message]) == FrameVerdict.GAP:
                break
            sequence = message.sequence + 1
        if await asyncio.to_thread(self.memory.position) == before:
            raise StreamGap(
                f"The stream is ahead of this primary, which is at {before.seq}, but does not hold "
                "the records in between.",
                hint="Restore the file from a snapshot or a replica.",
            )

    def _beaten(self, by: Seen) -> Fenced | Diverged:
        claim = by.require_claim()
        here = f"this one is at {self.memory.position().seq} in epoch {self.memory.epoch()}"
        if by.verdict == HeadVerdict.FENCED:
            return Fenced(
                f"Another primary has taken over in epoch {claim.epoch}; {here}.",
                hint="Stop writing here. Keep this file; follow the new primary into another one.",
            )
        return Diverged(
            f"Another writer has published record {claim.last} in the same epoch; {here}.",
            hint="Two copies of one file were written. Stop both, and choose one.",
        )

    async def _publish_label(self) -> None:
        """Say under which label this memory can be found, once and for all. The subject says it;
        the body is for people who look at the stream."""
        label = self.memory.label
        subject = label_subject(label, self.memory.id)
        if await self._transport.last(subject) is None:
            # A conflict means that another publisher of the same memory was faster.
            with contextlib.suppress(Conflict):
                await self._transport.publish(subject, label.encode(), {}, expected=0)

    # -- publishing ----------------------------------------------------------------------------

    async def _publish_or_rest(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._transport.generation != self._generation or now >= self._reconcile_at:
            self.progress.move(Event.IN_DOUBT)
            return
        frame = await asyncio.to_thread(self._next_frame)
        if frame is None:
            await self._rest()
        else:
            await self._publish(frame)

    async def _rest(self) -> None:
        self._backoff.reset()
        self.progress.content()
        await wait_at_most(self._committed, POLL_S)
        self._committed.clear()

    def _next_frame(self) -> Frame | None:
        """Everything committed and not on the stream, up to a frame's limits; at least a record."""
        after = self._on_stream
        if self.memory.position().seq <= after.seq:
            return None
        records: list[Record] = []
        size, epoch = 0, None
        bytes_max = min(FRAME_BYTES_MAX, self._transport.message_bytes_max // 2)
        for record in self.memory.records(after=after):
            record_epoch = decode_header(record.header).epoch
            size += len(record.header) + len(record.payload or b"")
            full = size > bytes_max or len(records) == FRAME_RECORDS_MAX
            if records and (full or record_epoch != epoch):
                break
            records.append(record)
            epoch = record_epoch
        return frames.build(self.memory.id, after, records)

    async def _publish(self, frame: Frame) -> None:
        body = await asyncio.to_thread(frames.encode, frame)
        offset = 0
        while offset < len(body):
            headers, data = frames.cut(
                frame,
                body,
                offset,
                expected=self._base.sequence,
                bytes_max=self._transport.message_bytes_max,
            )
            await self._publish_message(headers, data)
            offset += len(data)
        await self._note_published(self._base.sequence)
        self._on_stream = frame.after
        self.progress.count("frames")
        self.progress.count("records", len(frame.records))
        self.progress.reach(frame.after)

    async def _publish_message(self, headers: dict[str, str], data: bytes) -> None:
        base = self._base
        sequence = await self._transport.publish(
            self._subject, data, headers, expected=base.sequence
        )
        self.progress.count("messages")
        if base.sequence and _base(await self._transport.read(base.sequence)) != base:
            raise Undecided(
                f"The message before {sequence} is no longer the one it was built on: the stream "
                "has lost its tail, or the server answers from before that."
            )
        self._base = Base(sequence, frames.fingerprint(headers, data))
        self._backoff.reset()

    async def _note_published(self, sequence: int) -> None:
        """Remember in the file, once, that the memory has been published."""
        self._may_begin_anew = False
        self._empty_looks = 0
        if await asyncio.to_thread(self.memory.bookmark) is None:
            await asyncio.to_thread(self.memory.apply, (), bookmark=sequence)


def _base(message: Message | None) -> Base:
    if message is None:
        return Base(0, b"")
    return Base(message.sequence, frames.fingerprint(message.headers, message.data))
