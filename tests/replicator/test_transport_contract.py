"""The contract of `transport.Transport`, on every transport there is (R4, R7)."""

import asyncio
import contextlib

import pytest

from structmem_replicator.errors import (
    Conflict,
    NotStored,
    ReaderLost,
    TransportError,
    Unreachable,
)
from structmem_replicator.transport import Message, Reader, Transport, message_bytes
from tests.replicator.support import StreamUnderTest, run

A, B = f"sm.f.{'a' * 32}", f"sm.f.{'b' * 32}"


async def connected(stream: StreamUnderTest) -> Transport:
    transport = stream.transport()
    await transport.connect()
    return transport


async def publish(transport: Transport, subject: str, count: int, expected: int = 0) -> list[int]:
    sequences: list[int] = []
    for index in range(count):
        expected = await transport.publish(subject, b"%d" % index, {}, expected=expected)
        sequences.append(expected)
    return sequences


async def heard(reader: Reader, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        message = await reader.next(5)
        assert message is not None, f"silence after {len(messages)} messages"
        messages.append(message)
    return messages


def test_a_message_comes_back_as_it_was_published(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        data = bytes(range(256)) * 3
        sequence = await transport.publish(A, data, {"Sm-Frame": "1 2 3"}, expected=0)
        for message in (
            await transport.last(A),
            await transport.read(sequence),
            await transport.next(A, 1),
        ):
            assert message is not None
            assert (message.subject, message.sequence, message.data) == (A, sequence, data)
            assert message.headers["Sm-Frame"] == "1 2 3"
        await transport.close()

    run(check())


def test_an_empty_message_comes_back(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        sequence = await transport.publish(A, b"", {"Sm-Frame": "x"}, expected=0)
        message = await transport.read(sequence)
        assert message is not None
        assert (message.data, message.headers["Sm-Frame"]) == (b"", "x")
        reader = await transport.reader(A, 1)
        assert (await heard(reader, 1))[0].data == b""
        await reader.close()
        await transport.close()

    run(check())


def test_r4_only_the_expected_sequence_lets_a_message_in(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        first = await transport.publish(A, b"1", {}, expected=0)
        other = await transport.publish(B, b"of another memory", {}, expected=0)
        for wrong in (0, other, first + 7):
            with pytest.raises(Conflict):
                await transport.publish(A, b"2", {}, expected=wrong)
        second = await transport.publish(A, b"2", {}, expected=first)
        assert second > other
        await transport.close()

    run(check())


def test_what_is_not_there_is_none(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        assert await transport.last(A) is None
        assert await transport.read(1) is None
        assert await transport.next(A, 1) is None
        await publish(transport, A, 2)
        assert await transport.last(B) is None
        assert await transport.read(3) is None
        assert await transport.next(A, 3) is None
        await transport.close()

    run(check())


def test_next_finds_the_first_message_at_or_after(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        first, second = await publish(transport, A, 2)
        (other,) = await publish(transport, B, 1)
        third = await transport.publish(A, b"3", {}, expected=second)
        found = [await transport.next(A, at) for at in (1, second, other, third)]
        assert [m.sequence for m in found if m] == [first, second, third, third]
        await transport.close()

    run(check())


def test_a_removed_message_is_gone_and_the_others_keep_their_sequence(
    stream: StreamUnderTest,
) -> None:
    async def check() -> None:
        transport = await connected(stream)
        first, second, third = await publish(transport, A, 3)
        await stream.remove(second)
        assert await transport.read(second) is None
        after = await transport.next(A, second)
        assert after is not None
        assert after.sequence == third
        reader = await transport.reader(A, first)
        assert [m.sequence for m in await heard(reader, 2)] == [first, third]
        await reader.close()
        await transport.close()

    run(check())


def test_subjects_are_found_by_pattern(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        subjects = [f"sm.l.6161.{c * 32}" for c in "ab"]
        for subject in (*subjects, f"sm.l.62.{'c' * 32}", A):
            await transport.publish(subject, b"", {}, expected=0)
        assert await transport.subjects("sm.l.6161.*") == subjects
        assert await transport.subjects("sm.l.63.*") == []
        await transport.close()

    run(check())


def test_a_reader_hears_its_subject_in_order_from_its_sequence(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        sequences = await publish(transport, A, 600)
        await publish(transport, B, 3)
        reader = await transport.reader(A, sequences[10])
        assert [m.sequence for m in await heard(reader, 590)] == sequences[10:]
        live = await transport.publish(A, b"live", {"Sm-Frame": "x"}, expected=sequences[-1])
        (message,) = await heard(reader, 1)
        assert (message.sequence, message.data) == (live, b"live")
        assert message.headers["Sm-Frame"] == "x"
        await reader.close()
        await transport.close()

    run(check())


def test_a_reader_waits_no_longer_than_it_is_told(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        reader = await transport.reader(A, 1)
        async with asyncio.timeout(5):
            assert await reader.next(0.05) is None
            assert await reader.next(0) is None
        await reader.close()
        await transport.close()

    run(check())


def test_a_reader_may_begin_beyond_the_end(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        (first,) = await publish(transport, A, 1)
        reader = await transport.reader(A, first + 1)
        assert await reader.next(0.05) is None
        second = await transport.publish(A, b"2", {}, expected=first)
        assert [m.sequence for m in await heard(reader, 1)] == [second]
        await reader.close()
        await transport.close()

    run(check())


def test_messages_up_to_the_limit_are_taken_and_none_beyond(stream: StreamUnderTest) -> None:
    """R1: headers and data together; a larger one does not cost the connection."""

    async def check() -> None:
        transport = await connected(stream)
        headers = {"Sm-Frame": "1 2 3"}
        room = transport.message_bytes_max - message_bytes(0, headers, expected=0)
        generation = transport.generation
        with pytest.raises(NotStored):
            await transport.publish(A, b"x" * (room + 1), headers, expected=0)
        below = await transport.publish(A, b"x" * (room - 1), headers, expected=0)
        exact = await transport.publish(A, b"x" * room, headers, expected=below)
        message = await transport.last(A)
        assert message is not None
        assert (message.sequence, len(message.data)) == (exact, room)
        reader = await transport.reader(A, 1)
        assert [len(m.data) for m in await heard(reader, 2)] == [room - 1, room]
        assert transport.generation == generation
        await reader.close()
        await transport.close()

    run(check())


def test_r7_an_outage_is_told_at_once_and_forces_a_new_generation(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        (first,) = await publish(transport, A, 1)
        reader = await transport.reader(A, first + 1)
        before = transport.generation
        stream.stop()
        async with asyncio.timeout(5):
            with pytest.raises(ReaderLost):
                while True:
                    await reader.next(1)
            with pytest.raises(NotStored):
                await transport.publish(A, b"lost", {}, expected=first)
            with pytest.raises(Unreachable):
                await transport.last(A)
            with pytest.raises(Unreachable):
                await transport.connect()
        assert transport.generation == 0
        await reader.close()
        stream.start()
        assert await transport.connect() == transport.generation > before
        message = await transport.last(A)
        assert message is not None
        assert message.sequence == first, "nothing was sent behind our back"
        await transport.close()

    run(check())


def test_before_the_first_connection_nothing_is_stored_or_read(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = stream.transport()
        assert transport.generation == 0
        with pytest.raises(NotStored):
            await transport.publish(A, b"", {}, expected=0)
        for asked in (transport.last(A), transport.reader(A, 1), transport.subjects("sm.f.*")):
            with pytest.raises(Unreachable):
                await asked
        await transport.close()
        await transport.close()

    run(check())


def test_a_transport_that_was_closed_can_connect_again(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        await publish(transport, A, 1)
        first = transport.generation
        await transport.close()
        assert transport.generation == 0
        assert await transport.connect() > first
        assert await transport.last(A) is not None
        await transport.close()

    run(check())


def test_r3_a_lost_tail_frees_its_sequences(stream: StreamUnderTest) -> None:
    async def check() -> None:
        transport = await connected(stream)
        (kept,) = await publish(transport, A, 1)
        await transport.close()
        stream.checkpoint()
        await transport.connect()
        lost = await transport.publish(A, b"lost", {}, expected=kept)
        generation = transport.generation
        stream.lose_tail()
        await reconnect(transport, generation)
        assert await transport.read(lost) is None
        assert await transport.publish(A, b"other", {}, expected=kept) == lost
        await transport.close()

    run(check())


def test_two_writers_never_both_get_in(stream: StreamUnderTest) -> None:
    """R4: of two that expect the same, one is told `Conflict`; whatever it hears, it is not in."""

    async def check() -> None:
        one, two = await connected(stream), await connected(stream)
        standing = 0
        for _ in range(30):
            results = await asyncio.gather(
                one.publish(A, b"one", {}, expected=standing),
                two.publish(A, b"two", {}, expected=standing),
                return_exceptions=True,
            )
            won = [result for result in results if isinstance(result, int)]
            assert len(won) == 1
            assert all(isinstance(r, TransportError) for r in results if not isinstance(r, int))
            (standing,) = won
        await one.close()
        await two.close()

    run(check())


async def reconnect(transport: Transport, generation: int) -> None:
    """Connect anew; that the old connection is lost may take a moment to be seen."""
    for _ in range(100):
        with contextlib.suppress(Unreachable):
            if await transport.connect() > generation:
                return
        await asyncio.sleep(0.05)
    raise AssertionError("no connection")
