"""Follows a memory: hears its frames and takes them into a replica's file, in order.

Invariants:

- The replica's position is the head of its own journal, read inside the transaction that applies.
  A stream sequence is only a hint, checked before the reader is opened; where it does not hold, the
  place is searched by position.
- Nothing is skipped but what is known to be on the chain already, dead, or foreign.
- A gap is looked at twice, the second time by search. What then is still missing is gone from the
  stream, and the replica stops.
- A reader that is silent proves nothing: after a while the last message of the subject must be the
  last one that was heard.
"""

import asyncio
from pathlib import Path
from typing import Final

from structmem import InvalidCall, StructuredMemory, open_replica
from structmem_journal import Position
from structmem_replicator import frames, protocol
from structmem_replicator.errors import AmbiguousLabel, StreamGap, Unreachable
from structmem_replicator.local import Intake, Sighting, sight
from structmem_replicator.pacing import Backoff, keep_stepping
from structmem_replicator.progress import Progress
from structmem_replicator.protocol import Event, FrameVerdict, State
from structmem_replicator.search import find_last_known
from structmem_replicator.subjects import (
    frames_subject,
    is_memory_id,
    label_pattern,
    labelled_id,
)
from structmem_replicator.transport import Message, Reader, Transport

HEAR_S: Final = 1.0
"""How long to listen before looking whether something else is due."""

SILENCE_CHECK_S: Final = 5.0
"""After so much silence it is checked that there was nothing to hear."""

TOGETHER_MESSAGES_MAX: Final = 200
TOGETHER_BYTES_MAX: Final = 4 << 20
"""What is applied in one transaction: a replica that is behind must not wait for the disk at every
frame, and nobody for a transaction without end."""


class Replica:
    """One replica file, following through one transport. `run` goes on until cancelled.

    `wanted` is the id or the label of the memory to follow. With an id the file is opened (or made)
    at once, and `InvalidCall` raised if it is not a replica of that memory; with a label, as soon
    as the stream has told the id. A file that is no replica at all, or could not be made, is an
    error at once in either case: `InvalidCall`, `NotAMemory`, `FormatTooNew`.
    """

    def __init__(self, path: str | Path, wanted: str, transport: Transport) -> None:
        self.progress = Progress(protocol.REPLICA)
        self.memory: StructuredMemory | None = None
        self._path, self._wanted, self._transport = Path(path), wanted, transport
        self._backoff = Backoff()
        self._reader: Reader | None = None
        self._intake: Intake | None = None
        self._heard = 0
        self._silent_since = 0.0
        self._gap_at: Position | None = None
        _check_directory(self._path)
        if is_memory_id(wanted):
            self._open(wanted)
        else:
            _check_file(self._path)

    async def run(self) -> None:
        """Follow until cancelled. Raises what must stop: `Diverged`, `StreamGap`,
        `AmbiguousLabel` …; everything that passes is waited out."""
        try:
            await keep_stepping(self.step, self.progress, self._backoff)
        finally:
            await self._close_reader()

    async def step(self) -> None:
        """Do the next thing; `Unavailable` means in doubt."""
        match self.progress.state:
            case State.CONNECTING:
                await self._close_reader()
                await self._transport.connect()
                self.progress.move(Event.CONNECTED)
            case State.RESOLVING:
                await self._resolve()
                self.progress.move(Event.RESOLVED)
            case State.LOCATING:
                await self._locate()
                self.progress.move(Event.LOCATED)
            case _:
                await self._hear()

    async def close(self) -> None:
        """Give the connection and the file up, after `run` has ended."""
        await self._transport.close()
        if self.memory is not None:
            self.memory.close()

    # -- which memory --------------------------------------------------------------------------

    async def _resolve(self) -> None:
        """Find the memory by its label, unless it is known already."""
        if self.memory is None:
            subjects = await self._transport.subjects(label_pattern(self._wanted))
            memory_id = self._choose([labelled_id(subject) for subject in subjects])
            await asyncio.to_thread(self._open, memory_id)

    def _choose(self, ids: list[str]) -> str:
        if not ids:
            raise Unreachable(
                f"No memory labelled {self._wanted!r} is on the stream.",
                hint="It appears with its first publisher; a label is the name of the primary's "
                "file without its suffix.",
            )
        if len(ids) > 1:
            raise AmbiguousLabel(
                f"{len(ids)} memories are labelled {self._wanted!r}: {', '.join(ids)}.",
                hint="Follow one of these ids.",
            )
        return ids[0]

    def _open(self, memory_id: str) -> None:
        memory = open_replica(self._path, memory_id=memory_id)
        self.memory = memory
        self._intake = Intake(memory, self.progress.count)
        self.progress.reach(memory.position())

    # -- where to read on ----------------------------------------------------------------------

    async def _locate(self) -> None:
        assert self.memory is not None
        subject = frames_subject(self.memory.id)
        start = await self._start_by_hint(self.memory, subject)
        if start is None:
            known = await find_last_known(self._transport, subject, self.memory)
            start = 1 if known is None else known.sequence + 1
            self.progress.count("searched")
        self._reader = await self._transport.reader(subject, start)
        self._note_heard(start - 1)
        self.progress.content()

    async def _start_by_hint(self, memory: StructuredMemory, subject: str) -> int | None:
        """The sequence after the bookmark, if the message there is a frame that this memory has.
        After a gap the bookmark is not asked."""
        bookmark = await asyncio.to_thread(memory.bookmark)
        if bookmark is None or self._gap_at is not None:
            return None
        message = await self._transport.read(bookmark)
        if message is None or message.subject != subject:
            return None
        known = await asyncio.to_thread(sight, memory, message) == Sighting.KNOWN
        return bookmark + 1 if known and frames.claim_of(message).complete else None

    # -- hearing -------------------------------------------------------------------------------

    async def _hear(self) -> None:
        assert self._reader is not None
        message = await self._reader.next(HEAR_S)
        if message is None:
            await self._check_silence()
        else:
            await self._take([message, *await self._waiting(self._reader, len(message.data))])

    async def _waiting(self, reader: Reader, taken_bytes: int) -> list[Message]:
        """What has been delivered meanwhile, to be taken along."""
        messages: list[Message] = []
        while len(messages) < TOGETHER_MESSAGES_MAX and taken_bytes < TOGETHER_BYTES_MAX:
            message = await reader.next(0)
            if message is None:
                break
            messages.append(message)
            taken_bytes += len(message.data)
        return messages

    async def _take(self, messages: list[Message]) -> None:
        assert self.memory is not None
        assert self._intake is not None
        self._note_heard(messages[-1].sequence)
        verdict = await asyncio.to_thread(self._intake.take, messages)
        position = await asyncio.to_thread(self.memory.position)
        if verdict == FrameVerdict.GAP:
            self._look_again(position)
            return
        if position != self._gap_at:
            self._gap_at = None
        self._backoff.reset()
        self.progress.reach(position)

    def _look_again(self, position: Position) -> None:
        """The frame that was heard lies beyond the next record."""
        self.progress.count("gaps")
        if position == self._gap_at:
            raise StreamGap(
                f"The stream no longer holds the records after {position.seq}, where this replica "
                "stands.",
                hint="Follow into a new file, or from a snapshot of the primary.",
            )
        self._gap_at = position
        self.progress.move(Event.IN_DOUBT)

    async def _check_silence(self) -> None:
        """Nothing was heard. Was there nothing to hear, or is the stream no longer the one that
        the reader was opened on?"""
        assert self.memory is not None
        if asyncio.get_running_loop().time() - self._silent_since < SILENCE_CHECK_S:
            return
        last = await self._transport.last(frames_subject(self.memory.id))
        if (last.sequence if last else 0) == self._heard:
            self._note_heard(self._heard)
            self.progress.content()
            return
        self.progress.count("deaf")
        self.progress.move(Event.IN_DOUBT)

    def _note_heard(self, sequence: int) -> None:
        self._heard = sequence
        self._silent_since = asyncio.get_running_loop().time()

    async def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()


def _check_directory(path: Path) -> None:
    if not path.parent.is_dir():
        raise InvalidCall(f"There is no directory {path.parent} for {path.name}.")


def _check_file(path: Path) -> None:
    """Whether the file is a replica of something, or is still to be made."""
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return
    with StructuredMemory(path, read_only=True) as memory:
        if memory.role() != "replica":
            raise InvalidCall(
                f"{path} is the {memory.role()} of memory {memory.id}; a replica needs a file of "
                "its own."
            )
