"""The replica (R1, R2, R3, R4): every record applied once and in order, or a clear error."""

from pathlib import Path

import pytest

from structmem import (
    Diverged,
    InvalidCall,
    NotAMemory,
    Position,
    ReadOnly,
    StructuredMemory,
    open_replica,
)
from structmem_replicator import AmbiguousLabel, MemoryStream, State, StreamGap, replica
from structmem_replicator.errors import Unreachable
from structmem_replicator.memory_transport import MemoryTransport
from structmem_replicator.publisher import Publisher
from structmem_replicator.replica import Replica
from structmem_replicator.subjects import frames_subject, label_subject
from tests.replicator.support import (
    Running,
    StreamUnderTest,
    chain,
    copy_memory,
    eventually,
    journal,
    make_memory,
    new_epoch,
    noise,
    notes,
    publish_records,
    run,
    write,
)


@pytest.fixture
def primary(tmp_path: Path) -> Path:
    return tmp_path / "crm.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "replica.db"


async def published(memory: StructuredMemory, stream: MemoryStream) -> None:
    """Publish all that is in the journal, and stop."""
    async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
        await publisher.reaches(memory.position())


async def connected(stream: MemoryStream) -> MemoryTransport:
    transport = MemoryTransport(stream)
    await transport.connect()
    return transport


def following(target: Path, wanted: str, stream: MemoryStream) -> Running:
    return Running(Replica(target, wanted, MemoryTransport(stream)))


@pytest.mark.parametrize("by", ["id", "label"])
def test_r1_r2_a_replica_becomes_equal(
    primary: Path, target: Path, stream: StreamUnderTest, by: str
) -> None:
    async def check() -> None:
        with make_memory(primary) as memory:
            wanted = memory.id if by == "id" else "crm"
            publisher = Running(Publisher(memory, stream.transport()))
            follower = Running(Replica(target, wanted, stream.transport()))
            write(memory, "before")
            async with publisher, follower:
                await follower.reaches(memory.position())
                await follower.reaches(write(memory, "live", noise(3_000_000), "after"))

    run(check())
    assert journal(target) == journal(primary)
    assert notes(target) == notes(primary)


@pytest.mark.parametrize("by", ["id", "label"])
def test_r2_a_file_that_cannot_be_the_replica_is_refused_at_once(
    primary: Path, target: Path, by: str
) -> None:
    """Before there is any connection."""
    with make_memory(primary) as memory:
        wanted = memory.id if by == "id" else "crm"
    transport = MemoryTransport(MemoryStream())
    with pytest.raises(InvalidCall, match="a replica needs a file of its own"):
        Replica(primary, wanted, transport)
    with pytest.raises(InvalidCall, match="no directory"):
        Replica(target.parent / "no" / "replica.db", wanted, transport)
    target.write_text("Not a memory at all. " * 1000)
    with pytest.raises(NotAMemory):
        Replica(target, wanted, transport)


def test_r2_a_file_that_can_become_the_replica_is_not_refused(target: Path) -> None:
    Replica(target, "crm", MemoryTransport(MemoryStream()))
    assert not target.exists()
    target.touch()
    Replica(target, "crm", MemoryTransport(MemoryStream()))
    open_replica(target, memory_id="a" * 32).close()
    Replica(target, "crm", MemoryTransport(MemoryStream()))


def test_r2_a_replica_can_be_there_first(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        async with following(target, "crm", stream) as follower:
            await eventually(lambda: isinstance(follower.status.error, Unreachable))
            assert "crm" in str(follower.status.error)
            with make_memory(primary) as memory:
                await published(memory, stream)
                await follower.reaches(memory.position())

    run(check())


def test_r2_nobody_writes_to_a_replica(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            await published(memory, stream)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
                with StructuredMemory(target) as elsewhere, pytest.raises(ReadOnly):
                    write(elsewhere, "no")

    run(check())


def test_r2_a_primary_is_not_made_a_replica(primary: Path) -> None:
    with make_memory(primary) as memory:
        memory_id = memory.id
    with pytest.raises(InvalidCall):
        Replica(primary, memory_id, MemoryTransport(MemoryStream()))


def test_r2_a_replica_of_one_memory_does_not_become_one_of_another(target: Path) -> None:
    open_replica(target, memory_id="a" * 32).close()
    with pytest.raises(InvalidCall):
        Replica(target, "b" * 32, MemoryTransport(MemoryStream()))


def test_r2_it_goes_on_where_it_was(primary: Path, target: Path) -> None:
    """The bookmark, stored with the frame it belongs to, spares the search."""

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            await published(memory, stream)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
            write(memory, "while it was away")
            await published(memory, stream)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
                assert (follower.counts["searched"], follower.counts["skipped"]) == (0, 0)

    run(check())


def test_r2_a_bookmark_that_does_not_hold_is_no_harm(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            for text in "abcdefgh":
                write(memory, text)
                await published(memory, stream)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
            with open_replica(target, memory_id=memory.id) as kept:
                kept.apply((), bookmark=4711)
            write(memory, "more")
            await published(memory, stream)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
                assert (follower.counts["searched"], follower.counts["skipped"]) == (1, 0)

    run(check())


def test_r3_after_a_gap_the_bookmark_is_not_trusted(primary: Path, target: Path) -> None:
    """It names a frame that is known, but lies beyond those that are not."""

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            start, first = memory.position(), list(memory.records())
            await published(memory, stream)
            with open_replica(target, memory_id=memory.id) as kept:
                kept.apply(first)
            write(memory, "a")
            await published(memory, stream)
            before = write(memory, "b")
            await published(memory, stream)
            transport = await connected(stream)
            again = stream.next(frames_subject(memory.id), 1)
            last = stream.last(frames_subject(memory.id))
            assert again is not None
            assert last is not None
            misleading = stream.store(again.subject, again.data, again.headers, last.sequence)
            write(memory, "c")
            after = list(memory.records(after=before))
            await publish_records(transport, memory.id, before, after)
            with open_replica(target, memory_id=memory.id) as kept:
                assert kept.apply((), bookmark=misleading) == start
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
                assert follower.counts["gaps"] == 1

    run(check())


def test_r2_duplicates_are_skipped(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            start = memory.position()
            records = list(memory.records())
            await published(memory, stream)
            transport = await connected(stream)
            first = await transport.last(frames_subject(memory.id))
            assert first is not None
            stream.store(first.subject, first.data, first.headers, first.sequence)
            write(memory, "a", "b")
            both = list(memory.records(after=start))
            await publish_records(transport, memory.id, start, both[:1])
            await publish_records(transport, memory.id, start, both)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
                assert follower.counts["skipped"] == 1
                assert follower.counts["applied"] == 3
            assert journal(target) == records + both

    run(check())


def test_r2_two_processes_may_follow_into_one_file(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            one, two = (following(target, memory.id, stream) for _ in range(2))
            async with Running(Publisher(memory, MemoryTransport(stream))), one, two:
                for text in "abcdefgh":
                    await one.reaches(write(memory, text))
                await two.reaches(memory.position())

    run(check())
    assert journal(target) == journal(primary)


# -- labels --------------------------------------------------------------------------------------


def test_r1_an_ambiguous_label_is_refused_with_the_ids(tmp_path: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        ids: list[str] = []
        for directory in ("one", "two"):
            (tmp_path / directory).mkdir()
            with make_memory(tmp_path / directory / "crm.db") as memory:
                await published(memory, stream)
                ids.append(memory.id)
        async with following(target, "crm", stream) as follower:
            said = await follower.ends_with(AmbiguousLabel)
        assert all(memory_id in said for memory_id in ids)
        async with following(target, ids[1], stream) as follower:
            await eventually(lambda: follower.status.position.seq > 0)

    run(check())


def test_r1_labels_are_any_text(primary: Path, tmp_path: Path, target: Path) -> None:
    label = "Ünï.*>\tcode"

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(tmp_path / f"{label}.db") as memory:
            await published(memory, stream)
            async with following(target, label, stream) as follower:
                await follower.reaches(memory.position())

    run(check())


def test_r1_a_label_that_cannot_be_is_refused() -> None:
    for label in ("", "x" * 256, "\ud800"):
        with pytest.raises(InvalidCall):
            label_subject(label, "a" * 32)


# -- what may lie on the subject -----------------------------------------------------------------


def test_r4_foreign_messages_are_counted_and_skipped(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            await published(memory, stream)
            subject = frames_subject(memory.id)
            last = stream.last(subject)
            assert last is not None
            stream.store(subject, b"?", {}, last.sequence)
            stream.store(subject, b"?", last.headers, last.sequence + 1)
            write(memory, "a")
            await published(memory, stream)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
                assert follower.counts["foreign"] == 2

    run(check())


def test_r4_a_losers_frame_is_dead_for_all(primary: Path, target: Path, tmp_path: Path) -> None:
    """It got in after the promotion: those who follow live and those who come later skip it."""

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            await published(memory, stream)
            common, memory_id = memory.position(), memory.id
        transport = await connected(stream)
        winner = new_epoch(common)
        await publish_records(transport, memory_id, common, winner)
        await publish_records(transport, memory_id, common, chain(2, after=common))
        async with following(target, memory_id, stream) as follower:
            await eventually(lambda: follower.counts["dead"] == 1)
            await follower.reaches(Position(common.seq + 1, winner[0].digest))
            assert follower.status.state == State.FOLLOWING
        assert journal(target)[-1] == winner[0]

    run(check())


def test_r4_a_fork_stops_the_replica(primary: Path, target: Path, tmp_path: Path) -> None:
    async def check() -> None:
        make_memory(primary).close()
        copied = copy_memory(primary, tmp_path / "copy.db")
        stream, other = MemoryStream(), MemoryStream()
        with StructuredMemory(primary) as memory, StructuredMemory(copied) as copy:
            write(memory, "one")
            write(copy, "another", "and more")
            await published(memory, stream)
            async with following(target, memory.id, stream) as follower:
                await follower.reaches(memory.position())
            await published(copy, other)
            async with following(target, memory.id, other) as follower:
                await follower.ends_with(Diverged)
        assert journal(target) == journal(primary)

    run(check())


# -- what the stream may have lost ---------------------------------------------------------------


def test_r3_a_gap_stops_the_replica(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                await publisher.reaches(write(memory, "gone"))
                gone = stream.last_sequence
                await publisher.reaches(write(memory, "there"))
            stream.remove(gone)
            async with following(target, memory.id, stream) as follower:
                assert "after 1" in await follower.ends_with(StreamGap)
            assert len(journal(target)) == 1

    run(check())


def test_r3_a_replica_ahead_of_a_lost_tail_hears_what_comes(
    primary: Path, target: Path, stream: StreamUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences are reused; a reader opened past the end would wait for ever."""
    monkeypatch.setattr(replica, "SILENCE_CHECK_S", 0.5)

    async def check() -> None:
        with make_memory(primary) as memory:
            publisher = Running(Publisher(memory, stream.transport()))
            follower = Running(Replica(target, memory.id, stream.transport()))
            async with publisher, follower:
                await publisher.reaches(memory.position())
                stream.checkpoint()
                await follower.reaches(write(memory, *"abcdefgh"))
                stream.lose_tail()
                await follower.reaches(write(memory, "after"))
                await publisher.reaches(memory.position())

    run(check())
    assert journal(target) == journal(primary)


def test_r3_a_stream_that_goes_back_in_silence_is_noticed(
    primary: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No connection is lost and no error is given: the reader is deaf."""
    monkeypatch.setattr(replica, "SILENCE_CHECK_S", 0.2)
    monkeypatch.setattr(replica, "HEAR_S", 0.1)

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            await published(memory, stream)
            kept = stream.last_sequence
            async with following(target, memory.id, stream) as follower:
                for text in "abc":
                    write(memory, text)
                    await published(memory, stream)
                await follower.reaches(memory.position())
                stream.lose_after(kept)
                position = write(memory, "d")
                await published(memory, stream)
                await follower.reaches(position)
                assert follower.counts["deaf"] >= 1

    run(check())
    assert journal(target) == journal(primary)
