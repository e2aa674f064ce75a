"""Histories of faults drawn at random (R1, R2, R4): whatever happens, in whatever order, a replica
ends up equal to its primary, and nothing that was reported as replicated is lost.

The primary lives through all of it, so a tail that the stream loses is published again.
"""

import random
from pathlib import Path

import pytest

from structmem import StructuredMemory
from structmem_journal import Position
from structmem_replicator import MemoryStream, pacing, replica
from structmem_replicator.memory_transport import MemoryTransport
from structmem_replicator.publisher import Publisher
from structmem_replicator.replica import Replica
from structmem_replicator.subjects import frames_subject
from tests.replicator.support import Faulty, Running, journal, make_memory, noise, run, write

STEPS = 40


class History:
    """One run: a primary, a stream, a replica that comes and goes."""

    def __init__(self, memory: StructuredMemory, target: Path, seed: int) -> None:
        self._memory, self._target = memory, target
        self._random = random.Random(seed)
        self._stream = MemoryStream(message_bytes_max=3000)
        self._faulty = Faulty(MemoryTransport(self._stream))
        self._kept = 0
        self.reported: list[Position] = []

    async def play(self) -> None:
        async with Running(Publisher(self._memory, self._faulty)) as publishing:
            await publishing.reaches(self._memory.position())
        self._kept = self._stream.last_sequence
        for _ in range(self._random.randint(2, 4)):
            async with (
                Running(Publisher(self._memory, self._faulty)) as publishing,
                self._replica(),
            ):
                for _ in range(STEPS // 4):
                    await self._step(publishing)
                await publishing.reaches(self._memory.position())
        await self._settle()

    def _replica(self) -> Running:
        return Running(Replica(self._target, self._memory.id, MemoryTransport(self._stream)))

    async def _step(self, publishing: Running) -> None:
        match self._random.randrange(8):
            case 0:
                self._faulty.faults.extend(
                    self._random.choices(["ok", "ack lost", "request lost", "delayed"], k=4)
                )
            case 1:
                await self._faulty.deliver()
            case 2:
                self._stream.stop()
                self._stream.lose_after(self._kept)
                self._stream.start()
            case 3:
                self._kept = self._stream.last_sequence
            case 4:
                subject = frames_subject(self._memory.id)
                last = self._stream.last(subject)
                if last is not None:
                    self._stream.store(subject, b"foreign", {}, last.sequence)
            case 5:
                write(self._memory, noise(self._random.randrange(20_000)))
            case 6:
                await publishing.reaches(write(self._memory, "waited for"))
                self.reported.append(self._memory.position())
            case _:
                write(self._memory, "a", "b")

    async def _settle(self) -> None:
        """Faults off: both catch up."""
        self._faulty.faults.clear()
        async with Running(Publisher(self._memory, self._faulty)) as publishing:
            await publishing.reaches(write(self._memory, "the end"))
            async with self._replica() as following:
                await following.reaches(self._memory.position())


@pytest.mark.parametrize("seed", range(6))
def test_a_replica_ends_up_equal(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "BACKOFF_MOST_S", 0.1)
    monkeypatch.setattr(replica, "SILENCE_CHECK_S", 0.2)
    monkeypatch.setattr(replica, "HEAR_S", 0.1)
    with make_memory(tmp_path / "crm.db") as memory:
        history = History(memory, tmp_path / "replica.db", seed)
        run(history.play())
        memory_id = memory.id
    assert journal(tmp_path / "replica.db") == journal(tmp_path / "crm.db")
    with StructuredMemory(tmp_path / "replica.db", read_only=True) as copy:
        assert copy.id == memory_id
        assert all(copy.position_at(p.seq) == p for p in history.reported)
        copy.verify(deep=True)
