"""Finding one's place on a stream by position (R2, R3)."""

from pathlib import Path

import pytest

from structmem import StructuredMemory, open_replica
from structmem_journal import Position, Record
from structmem_replicator import MemoryStream, frames
from structmem_replicator.memory_transport import MemoryTransport
from structmem_replicator.search import find_last_known
from structmem_replicator.subjects import frames_subject
from tests.replicator.support import make_memory, position_after, publish_records, run, write

RECORDS = 16


@pytest.fixture
def memory(tmp_path: Path) -> StructuredMemory:
    with make_memory(tmp_path / "crm.db") as memory:
        write(memory, *map(str, range(1, RECORDS)))
    return StructuredMemory(tmp_path / "crm.db")


class Asked(MemoryTransport):
    """Counts the questions."""

    questions = 0

    async def next(self, subject: str, sequence: int) -> "frames.Message | None":
        self.questions += 1
        return await super().next(subject, sequence)


async def publish_each(stream: MemoryStream, memory: StructuredMemory) -> list[int]:
    """One frame a record; the sequence of each. Other memories' messages lie between them."""
    transport = MemoryTransport(stream)
    await transport.connect()
    records, sequences = list(memory.records()), list[int]()
    for index, record in enumerate(records):
        before = position_after(records[:index])
        sequences.append(await publish_records(transport, memory.id, before, [record]))
        stream.store(f"sm.f.{index:032x}", b"of another memory", {}, 0)
    return sequences


def replica_at(path: Path, memory: StructuredMemory, seq: int) -> StructuredMemory:
    replica = open_replica(path, memory_id=memory.id)
    replica.apply(list[Record](memory.records())[:seq])
    return replica


@pytest.mark.parametrize("seq", [0, 1, 2, 9, RECORDS - 1, RECORDS])
def test_r2_every_position_is_found(memory: StructuredMemory, tmp_path: Path, seq: int) -> None:
    async def check() -> None:
        stream = MemoryStream()
        sequences = await publish_each(stream, memory)
        with replica_at(tmp_path / "replica.db", memory, seq) as replica:
            transport = Asked(stream)
            await transport.connect()
            found = await find_last_known(transport, frames_subject(memory.id), replica)
        assert (found.sequence if found else None) == ([None, *sequences][seq])
        assert transport.questions < 12

    with memory:
        run(check())


def test_r4_dead_and_foreign_messages_do_not_mislead(
    memory: StructuredMemory, tmp_path: Path
) -> None:
    """They may let it end earlier than it could, and never later."""

    async def check() -> None:
        stream = MemoryStream()
        transport = MemoryTransport(stream)
        await transport.connect()
        records = list(memory.records())
        subject = frames_subject(memory.id)
        known: dict[int, int] = {}
        for index, record in enumerate(records):
            sequence = await publish_records(
                transport, memory.id, position_after(records[:index]), [record]
            )
            known[sequence] = index + 1
            for _ in range(index % 5):
                sequence = stream.store(subject, b"?", {}, sequence)
        for seq in range(RECORDS + 1):
            path = tmp_path / f"replica {seq}.db"
            with replica_at(path, memory, seq) as replica:
                found = await find_last_known(transport, subject, replica)
            assert (known[found.sequence] if found else 0) == seq

    with memory:
        run(check())


def test_the_search_can_be_bounded(memory: StructuredMemory) -> None:
    async def check() -> None:
        stream = MemoryStream()
        sequences = await publish_each(stream, memory)
        transport = MemoryTransport(stream)
        await transport.connect()
        subject = frames_subject(memory.id)
        for up_to in (sequences[7], sequences[8] - 1):
            found = await find_last_known(transport, subject, memory, up_to=up_to)
            assert found is not None
            assert found.sequence == sequences[7]
        assert await find_last_known(transport, subject, memory, up_to=sequences[0] - 1) is None

    with memory:
        run(check())


def test_an_empty_subject_has_nothing(memory: StructuredMemory) -> None:
    async def check() -> None:
        transport = MemoryTransport(MemoryStream())
        await transport.connect()
        assert await find_last_known(transport, frames_subject(memory.id), memory) is None

    with memory:
        assert memory.position() != Position(0, bytes(32))
        run(check())
