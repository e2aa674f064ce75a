"""The memory at this end: what its own chain says about messages, and taking frames into it.

All of it blocks on the memory's file, so the event loop calls it in a thread.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import assert_never

from structmem import Diverged, StructuredMemory
from structmem_replicator import protocol
from structmem_replicator.errors import NotAFrame
from structmem_replicator.frames import Assembly, Claim, Frame, checked_claim
from structmem_replicator.protocol import FrameVerdict, HeadVerdict
from structmem_replicator.transport import Message


class Sighting(StrEnum):
    """Where a message lies, seen from the memory's head."""

    KNOWN = "known"
    BEYOND = "beyond"
    NOTHING = "nothing"


def read_claim(message: Message, memory_id: str) -> Claim | NotAFrame:
    """What a message is, as a value."""
    try:
        return checked_claim(message, memory_id)
    except NotAFrame as foreign:
        return foreign


def sight(memory: StructuredMemory, message: Message) -> Sighting:
    """Whether the message's frame is on the memory's chain, beyond its head, or neither."""
    claim = read_claim(message, memory.id)
    if isinstance(claim, NotAFrame):
        return Sighting.NOTHING
    if memory.position_at(claim.last) == claim.after:
        return Sighting.KNOWN
    return Sighting.BEYOND if claim.last > memory.position().seq else Sighting.NOTHING


def judge_head(memory: StructuredMemory, claim: Claim | NotAFrame | None) -> HeadVerdict:
    return protocol.judge_head(
        claim, head=memory.position(), epoch=memory.epoch(), position_at=memory.position_at
    )


def judge_predecessor(memory: StructuredMemory, claim: Claim | NotAFrame | None) -> HeadVerdict:
    return protocol.judge_predecessor(
        claim, head=memory.position(), epoch=memory.epoch(), position_at=memory.position_at
    )


class Intake:
    """Takes the messages of the memory's subject, in order, into the memory.

    Invariants:

    - A frame is applied whole, in one transaction of the memory, together with the sequence of the
      message that completed it; the memory itself checks again, inside, that it fits. Frames that
      were heard together and follow each other share a transaction: a disk that syncs for each
      would fall behind a primary that writes many small ones.
    - Every message is counted as exactly one of applied, skipped, dead, foreign, or a part.
    """

    def __init__(self, memory: StructuredMemory, count: Callable[[str, int], None]) -> None:
        self._memory = memory
        self._assembly = Assembly(memory.id)
        self._count = count
        self._run: list[Frame] = []
        self._run_sequence = 0

    def take(self, messages: Sequence[Message]) -> FrameVerdict | None:
        """Take messages; the verdict on the last frame, None if there was none. At a gap it stops:
        what comes after is not taken.

        Raises `Diverged` for a frame of another history and `FormatTooNew` for one of a newer
        version, and whatever the memory raises when it cannot write now. What was not applied then
        has to be heard again.
        """
        verdict: FrameVerdict | None = None
        for message in messages:
            frame = self._frame_of(message)
            if frame is None:
                continue
            verdict = self._take_frame(frame, message.sequence)
            if verdict == FrameVerdict.GAP:
                break
        self._apply_run()
        return verdict

    def _frame_of(self, message: Message) -> Frame | None:
        """The frame that the message is, or completes."""
        dropped = self._assembly.dropped
        try:
            frame = self._assembly.take(message)
        except NotAFrame:
            self._count("foreign", 1)
            return None
        finally:
            self._count("dropped", self._assembly.dropped - dropped)
        if frame is None:
            self._count("parts", 1)
        return frame

    def _take_frame(self, frame: Frame, sequence: int) -> FrameVerdict:
        if not self._run or (frame.before, frame.epoch) != (
            self._run[-1].after,
            self._run[-1].epoch,
        ):
            self._apply_run()
            verdict = self._judge(frame)
            if verdict != FrameVerdict.APPLY:
                return verdict
        self._run.append(frame)
        self._run_sequence = sequence
        return FrameVerdict.APPLY

    def _judge(self, frame: Frame) -> FrameVerdict:
        memory = self._memory
        verdict = protocol.judge_frame(
            frame, head=memory.position(), epoch=memory.epoch(), position_at=memory.position_at
        )
        match verdict:
            case FrameVerdict.SKIP:
                self._count("skipped", 1)
            case FrameVerdict.DEAD:
                self._count("dead", 1)
            case FrameVerdict.DIVERGED:
                raise self._diverged(frame)
            case FrameVerdict.APPLY | FrameVerdict.GAP:
                pass
            case _:
                assert_never(verdict)
        return verdict

    def _apply_run(self) -> None:
        """Apply the frames that are known to follow each other."""
        run, self._run = self._run, []
        if run:
            records = [record for frame in run for record in frame.records]
            self._memory.apply(records, bookmark=self._run_sequence)
            self._count("applied", len(run))
            self._count("records", len(records))
            self._count("transactions", 1)

    def _diverged(self, frame: Frame) -> Diverged:
        return Diverged(
            f"The stream's records {frame.first}-{frame.last} of epoch {frame.epoch} do not fit "
            f"this memory, which is at {self._memory.position().seq} in epoch "
            f"{self._memory.epoch()}: they come from another history.",
            hint="Keep this file for a person to look at, and follow into a new one.",
        )
