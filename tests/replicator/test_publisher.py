"""The publisher (R1, R3, R4): nothing committed is left out, nothing is published twice or by two.

Faults are put between publisher and stream by `Faulty`; what a loss of the stream's tail does is
tried on both transports.
"""

import asyncio
from pathlib import Path

import pytest

from structmem import Diverged, Fenced, StructuredMemory
from structmem_replicator import MemoryStream, State, StreamEmptied, StreamGap, frames
from structmem_replicator.errors import StreamFull, Unreachable
from structmem_replicator.memory_transport import MemoryTransport
from structmem_replicator.publisher import Publisher
from structmem_replicator.subjects import frames_subject, label_pattern
from structmem_replicator.transport import Transport
from tests.replicator.support import (
    Faulty,
    Running,
    StreamUnderTest,
    chain,
    copy_memory,
    eventually,
    make_memory,
    new_epoch,
    noise,
    publish_records,
    run,
    write,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crm.db"


async def connected(stream: StreamUnderTest) -> Transport:
    transport = stream.transport()
    await transport.connect()
    return transport


async def on_stream(transport: Transport, memory: StructuredMemory) -> list[tuple[int, int]]:
    """First and last seq of the whole frames of `memory` on the stream, in order."""
    found: list[tuple[int, int]] = []
    assembly = frames.Assembly(memory.id)
    subject, sequence = frames_subject(memory.id), 1
    while (message := await transport.next(subject, sequence)) is not None:
        frame = assembly.take(message)
        if frame is not None:
            found.append((frame.first, frame.last))
        sequence = message.sequence + 1
    return found


async def seqs_on_stream(transport: Transport, memory: StructuredMemory) -> list[int]:
    """The records in those frames, one by one."""
    found = await on_stream(transport, memory)
    return [seq for first, last in found for seq in range(first, last + 1)]


def test_r1_what_was_committed_before_and_after_is_published_in_order(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            before = write(memory, "a", "b", "c")
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(before)
                await publisher.reaches(write(memory, "d"))
                look = MemoryTransport(stream)
                await look.connect()
                assert await on_stream(look, memory) == [(1, 4), (5, 5)]

    run(check())


def test_r1_a_commit_of_another_process_is_noticed(path: Path) -> None:
    """Nobody tells; the file is looked at."""

    async def check() -> None:
        with make_memory(path) as memory, StructuredMemory(path) as other:
            async with Running(Publisher(memory, MemoryTransport(MemoryStream()))) as publisher:
                await publisher.reaches(memory.position())
                await publisher.reaches(write(other, "from elsewhere"))

    run(check())


def test_r1_frames_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structmem_replicator.publisher.FRAME_RECORDS_MAX", 4)

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            end = write(memory, *"abcdefgh")
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(end)
                look = MemoryTransport(stream)
                await look.connect()
                assert await on_stream(look, memory) == [(1, 4), (5, 8), (9, 9)]

    run(check())


@pytest.mark.parametrize("fault", ["ack lost", "request lost", "full"])
def test_r1_a_fault_neither_loses_nor_doubles(path: Path, fault: str) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            transport = Faulty(MemoryTransport(stream), [fault, "ok", fault, fault])
            async with Running(Publisher(memory, transport)) as publisher:
                for text in "abcd":
                    await publisher.reaches(write(memory, text))
            look = MemoryTransport(stream)
            await look.connect()
            seqs = await seqs_on_stream(look, memory)
            assert seqs == [1, 2, 3, 4, 5]

    run(check())


def test_r4_a_request_that_arrives_late_does_no_harm(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            transport = Faulty(MemoryTransport(stream), ["ok", "delayed"])
            async with Running(Publisher(memory, transport)) as publisher:
                await publisher.reaches(memory.position())
                await publisher.reaches(write(memory, "a"))
                (late,) = await transport.deliver()
                assert not isinstance(late, int), "the same record is there already"
                await publisher.reaches(write(memory, "b"))
                assert await on_stream(transport, memory) == [(1, 1), (2, 2), (3, 3)]

    run(check())


def test_r7_a_stream_that_is_away_is_waited_for(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        stream.stop()
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await eventually(lambda: isinstance(publisher.status.error, Unreachable))
                assert publisher.status.state == State.CONNECTING
                stream.start()
                await publisher.reaches(memory.position())
                assert publisher.status.error is None
                stream.stop()
                position = write(memory, "while it is away")
                await eventually(lambda: publisher.status.error is not None)
                stream.start()
                await publisher.reaches(position)

    run(check())


def test_r7_a_connection_lost_while_there_is_nothing_to_publish_is_noticed(path: Path) -> None:
    """R3: nobody writes, and still the tail that went with the server comes back."""

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                kept = stream.last_sequence
                await publisher.reaches(write(memory, "a"))
                stream.stop()
                stream.lose_after(kept)
                stream.start()
                await eventually(lambda: stream.last_sequence > kept)

    run(check())


def test_r7_a_full_stream_is_waited_for(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream(bytes_max=10)
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await eventually(lambda: isinstance(publisher.status.error, StreamFull))
                stream.bytes_max = None
                await publisher.reaches(memory.position())

    run(check())


def test_r4_another_publisher_of_the_same_file_is_no_enemy(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory, StructuredMemory(path) as other:
            one = Running(Publisher(memory, MemoryTransport(stream)))
            two = Running(Publisher(other, MemoryTransport(stream)))
            async with one, two:
                for index in range(30):
                    position = write(memory if index % 2 else other, str(index))
                    if index % 5 == 0:
                        await one.reaches(position)
                position = memory.position()
                await one.reaches(position)
                await two.reaches(position)
            look = MemoryTransport(stream)
            await look.connect()
            seqs = await seqs_on_stream(look, memory)
            assert seqs == list(range(1, memory.position().seq + 1))

    run(check())


# -- the stream loses what it had ----------------------------------------------------------------


def test_r3_a_lost_tail_is_published_again(path: Path, stream: StreamUnderTest) -> None:
    async def check() -> None:
        with make_memory(path) as memory:
            async with Running(Publisher(memory, stream.transport())) as publisher:
                await publisher.reaches(write(memory, "kept"))
                stream.checkpoint()
                await publisher.reaches(write(memory, "lost", "lost too"))
                stream.lose_tail()
                position = write(memory, "after")
                await publisher.reaches(position)
                look = await connected(stream)
                seqs = await seqs_on_stream(look, memory)
                assert seqs == [1, 2, 3, 4, 5]
                await look.close()

    run(check())


def test_r4_after_a_lost_tail_our_check_sees_what_the_servers_lets_pass(path: Path) -> None:
    """Another primary's frame takes the sequence of a lost one of mine, and my next one is let in
    upon it. It is not reported as replicated, and the publisher learns that it is fenced."""

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                common, kept = memory.position(), stream.last_sequence
                before = write(memory, "lost")
                await publisher.reaches(before)
                lost = stream.last_sequence
                stream.lose_after(kept)
                other = MemoryTransport(stream)
                await other.connect()
                won = await publish_records(other, memory.id, common, new_epoch(common))
                assert won == lost
                write(memory, "let in by coincidence")
                assert "epoch 2" in await publisher.ends_with(Fenced)
                assert stream.last_sequence > won, "the server let it in"
                assert publisher.status.position == before

    run(check())


def test_r4_an_emptied_subject_is_not_begun_anew(path: Path) -> None:
    async def check() -> None:
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(MemoryStream()))) as publisher:
                await publisher.reaches(memory.position())
            emptied = MemoryStream()
            async with Running(Publisher(memory, MemoryTransport(emptied))) as publisher:
                said = await publisher.ends_with(StreamEmptied)
            assert "new_stream" in said
            assert emptied.last_sequence == 0

    run(check())


def test_r4_a_person_can_say_that_the_stream_is_new(path: Path) -> None:
    async def check() -> None:
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(MemoryStream()))) as publisher:
                await publisher.reaches(write(memory, "a"))
            look = MemoryTransport(MemoryStream())
            publisher = Running(Publisher(memory, look, new_stream=True))
            async with publisher:
                await publisher.reaches(memory.position())
                assert await on_stream(look, memory) == [(1, 2)]

    run(check())


def test_r4_an_emptied_subject_is_noticed_while_running(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                stream.lose_after(0)
                write(memory, "a")
                await publisher.ends_with(StreamEmptied)

    run(check())


# -- other writers -------------------------------------------------------------------------------


def test_r4_a_new_primary_fences_this_one(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                other = MemoryTransport(stream)
                await other.connect()
                common = memory.position()
                await publish_records(other, memory.id, common, new_epoch(common))
                write(memory, "too late")
                assert "epoch 2" in await publisher.ends_with(Fenced)
                assert publisher.status.position == common

    run(check())


def test_r4_two_copies_of_a_file_do_not_both_publish(path: Path, tmp_path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        make_memory(path).close()
        copied = copy_memory(path, tmp_path / "copy.db")
        with StructuredMemory(path) as memory, StructuredMemory(copied) as copy:
            write(memory, "one")
            write(copy, "another")
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                async with Running(Publisher(copy, MemoryTransport(stream))) as second:
                    await second.ends_with(Diverged)
                await publisher.reaches(write(memory, "more"))

    run(check())


@pytest.mark.parametrize("mine_on_top", [False, True])
def test_r4_a_foreign_message_does_not_hide_the_fence(path: Path, mine_on_top: bool) -> None:
    """A winner's frame, something foreign after it, and perhaps my own frame let in upon that by
    coincidence: the publisher is fenced all the same."""

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                common, kept = memory.position(), stream.last_sequence
                for text in "ab":
                    await publisher.reaches(write(memory, text))
                if not mine_on_top:
                    stream.stop()
                stream.lose_after(kept)
                other = MemoryTransport(stream)
                stream.start()
                await other.connect()
                won = await publish_records(other, memory.id, common, new_epoch(common))
                stream.store(frames_subject(memory.id), b"?", {}, won)
                write(memory, "too late")
                assert "epoch 2" in await publisher.ends_with(Fenced)
                assert stream.last_sequence == won + 1 + mine_on_top

    run(check())


def test_r4_foreign_messages_stop_nobody(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            subject = frames_subject(memory.id)
            stream.store(subject, b"before the first frame", {}, 0)
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                last = stream.last(subject)
                stream.store(subject, b"in between", {}, last.sequence if last else 0)
                await publisher.reaches(write(memory, "a"))
                assert publisher.counts["dead"] == 2

    run(check())


def test_r4_a_losers_frame_is_built_upon(path: Path) -> None:
    """A frame of a lower epoch that got in: the new primary takes its sequence and goes on."""

    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            common = memory.position()
            loser = chain(2, after=common)
            memory.apply(new_epoch(common))
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
                other = MemoryTransport(stream)
                await other.connect()
                await publish_records(other, memory.id, common, loser)
                await publisher.reaches(write(memory, "a"))
                assert publisher.counts["dead"] == 1

    run(check())


def test_an_older_copy_takes_what_the_stream_has_beyond_it(path: Path, tmp_path: Path) -> None:
    """R4: the stream extends my chain, so it is applied before anything is published."""

    async def check() -> None:
        stream = MemoryStream()
        make_memory(path).close()
        older = copy_memory(path, tmp_path / "older.db")
        with StructuredMemory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(write(memory, "a", "b"))
        with StructuredMemory(older) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await eventually(lambda: memory.position().seq == 3)
                await publisher.reaches(write(memory, "c"))

    run(check())


def test_r1_a_set_of_parts_that_nobody_will_finish_stops_nobody(path: Path, tmp_path: Path) -> None:
    """The file that had the record is lost; an older copy goes on."""

    async def check() -> None:
        stream = MemoryStream(message_bytes_max=2000)
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(memory.position())
        older = copy_memory(path, tmp_path / "older.db")
        with StructuredMemory(path) as memory:
            write(memory, noise(9000))
            stuck = asyncio.Event()

            def die() -> None:
                stuck.set()
                raise asyncio.CancelledError

            async with Running(Publisher(memory, Faulty(MemoryTransport(stream), ["ok", die]))):
                await stuck.wait()
        with StructuredMemory(older) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(write(memory, "another history"))

    run(check())


def test_a_stream_ahead_without_the_records_in_between_stops(path: Path, tmp_path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        make_memory(path).close()
        older = copy_memory(path, tmp_path / "older.db")
        with StructuredMemory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(write(memory, "a"))
                lost = stream.last_sequence
                await publisher.reaches(write(memory, "b"))
            stream.remove(lost)
        with StructuredMemory(older) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.ends_with(StreamGap)

    run(check())


# -- parts ---------------------------------------------------------------------------------------


def test_r1_a_record_larger_than_a_message_is_sent_in_parts(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream(message_bytes_max=2000)
        with make_memory(path) as memory:
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(write(memory, "a", noise(9000), "b"))
                look = MemoryTransport(stream)
                await look.connect()
                seqs = await seqs_on_stream(look, memory)
                assert seqs == [1, 2, 3, 4]
                assert publisher.counts["messages"] > publisher.counts["frames"]

    run(check())


@pytest.mark.parametrize("fault", ["ack lost", "request lost"])
def test_r1_an_interrupted_set_of_parts_is_sent_again(path: Path, fault: str) -> None:
    async def check() -> None:
        stream = MemoryStream(message_bytes_max=2000)
        with make_memory(path) as memory:
            transport = Faulty(MemoryTransport(stream), ["ok", "ok", "ok", fault])
            async with Running(Publisher(memory, transport)) as publisher:
                await publisher.reaches(write(memory, noise(9000)))
                assert await seqs_on_stream(transport, memory) == [1, 2]

    run(check())


def test_r1_a_set_of_parts_left_by_a_publisher_that_died_is_sent_again(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream(message_bytes_max=2000)
        died = asyncio.Event()

        def die() -> None:
            died.set()
            raise asyncio.CancelledError

        with make_memory(path) as memory:
            transport = Faulty(MemoryTransport(stream), ["ok", "ok", "ok", die])
            position = write(memory, noise(9000))
            async with Running(Publisher(memory, transport)):
                await died.wait()
            async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                await publisher.reaches(position)
            await transport.connect()
            seqs = await seqs_on_stream(transport, memory)
            assert seqs == [1, 2]

    run(check())


# -- labels --------------------------------------------------------------------------------------


def test_r1_the_label_is_published_once(path: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(path) as memory:
            for _ in range(2):
                async with Running(Publisher(memory, MemoryTransport(stream))) as publisher:
                    await publisher.reaches(memory.position())
            (subject,) = stream.subjects(label_pattern("crm"))
            assert subject.endswith(memory.id)
            assert stream.last_sequence == 2

    run(check())
