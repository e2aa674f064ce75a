"""Frames as bytes and as messages (R1): what comes back, what is refused, where they are cut."""

import os
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structmem import FormatTooNew
from structmem_journal import START, Position, Record, digest_record
from structmem_replicator import UnsafeStream, frames
from structmem_replicator.errors import NotAFrame
from structmem_replicator.frames import Assembly, Frame
from structmem_replicator.transport import Message, message_bytes
from tests.replicator.support import chain, position_after

ID = "0123456789abcdef" * 2
SUBJECT = f"sm.f.{ID}"


def frame_of(count: int = 3, *, after: Position = START, payload_bytes: int = 40) -> Frame:
    return frames.build(ID, after, chain(count, after=after, payload_bytes=payload_bytes))


def messages_of(frame: Frame, *, bytes_max: int, first_sequence: int = 10) -> list[Message]:
    """The messages that publish `frame`, each built on the one before."""
    body, offset, sequence = frames.encode(frame), 0, first_sequence
    messages: list[Message] = []
    while offset < len(body):
        headers, data = frames.cut(frame, body, offset, expected=sequence - 1, bytes_max=bytes_max)
        size = message_bytes(len(data), headers, expected=sequence - 1)
        assert size <= bytes_max
        messages.append(Message(SUBJECT, sequence, headers, data))
        offset, sequence = offset + len(data), sequence + 1
    return messages


def take_all(messages: list[Message], assembly: Assembly | None = None) -> list[Frame | None]:
    assembly = assembly or Assembly(ID)
    return [assembly.take(message) for message in messages]


# -- bytes ---------------------------------------------------------------------------------------


@given(count=st.integers(1, 20), before=st.integers(0, 30), payload_bytes=st.integers(0, 500))
def test_a_frame_comes_back_from_its_bytes(count: int, before: int, payload_bytes: int) -> None:
    after = position_after(chain(before))
    frame = frame_of(count, after=after, payload_bytes=payload_bytes)
    again = frames.decode(frames.encode(frame), ID)
    assert again == frame
    assert again.before == after
    assert again.after == position_after(frame.records, after)


def test_j2_the_stored_bytes_of_a_record_are_relayed_unchanged() -> None:
    """A header with a field of a later version is carried as it is, and hashed as it is."""
    (record,) = chain(1)
    fields = msgspec.msgpack.decode(record.header)
    header = msgspec.msgpack.encode([*fields, "a later field"])
    later = Record(header, digest_record(START.digest, header), record.payload)
    frame = frames.decode(frames.encode(frames.build(ID, START, [later])), ID)
    assert frame.records == [later]


def test_j7_an_erased_payload_travels_as_none() -> None:
    records = [Record(r.header, r.digest, None) for r in chain(2)]
    assert frames.decode(frames.encode(frames.build(ID, START, records)), ID).records == records


def test_large_bodies_are_compressed_and_small_ones_are_not() -> None:
    small, large = frame_of(1), frame_of(100)
    plain = [len(msgspec.msgpack.encode(frame)) for frame in (small, large)]
    assert len(frames.encode(small)) == plain[0] + len(b"SMF\0\0")
    assert len(frames.encode(large)) < plain[1] * 0.8


def test_a_frame_is_of_one_epoch() -> None:
    first = chain(1)
    mixed = first + chain(1, after=position_after(first), epoch=2)
    with pytest.raises(NotAFrame, match="epoch 2"):
        frames.build(ID, START, mixed)


def changed(**changes: object) -> bytes:
    return frames.encode(msgspec.structs.replace(frame_of(), **changes))


BROKEN = {
    "of another memory": changed(memory_id="f" * 32),
    "without records": changed(records=[], last=0),
    "with a record too few": changed(records=frame_of().records[:2]),
    "beginning before the start": changed(first=0, last=2),
    "at another place": changed(first=2, last=4),
    "after another digest": changed(digest_before=b"x" * 32),
    "ending at another digest": changed(digest_after=b"x" * 32),
    "of another epoch": changed(epoch=2),
    "with records out of order": changed(records=frame_of().records[::-1]),
    "with a changed payload": changed(
        records=[Record(r.header, r.digest, b"x" * 40) for r in frame_of().records]
    ),
    "with a header that is none": changed(
        records=[Record(b"\xc1", r.digest, r.payload) for r in frame_of().records]
    ),
    "empty": b"",
    "cut after the magic": b"SMF",
    "of a server": b'{"type":"io.nats.jetstream.api.v1.stream_info_response"}',
    "not MessagePack": b"SMF\0\0\xc1",
    "compressed nonsense": b"SMF\0\1nonsense",
    "compressed and cut": b"SMF\0\1" + zlib.compress(os.urandom(99))[:-9],
    "compressed and followed by more": frames.encode(frame_of(100)) + b"more",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_what_does_not_hold_is_foreign(body: bytes) -> None:
    with pytest.raises(NotAFrame):
        frames.decode(body, ID)


@given(st.data())
def test_damage_never_passes_and_never_crashes(data: st.DataObject) -> None:
    body = bytearray(frames.encode(frame_of(data.draw(st.sampled_from([1, 60])))))
    index = data.draw(st.integers(5, len(body) - 1))
    body[index] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((NotAFrame, FormatTooNew)):
        frames.decode(bytes(body), ID)


@pytest.mark.parametrize("prefix", [b"SMF\1\0", b"SMF\0\2"], ids=["format", "flag"])
def test_j2_a_newer_frame_stops_instead_of_being_skipped(prefix: bytes) -> None:
    with pytest.raises(FormatTooNew, match="Upgrade"):
        frames.decode(prefix + frames.encode(frame_of())[5:], ID)


def test_j2_a_newer_record_stops_instead_of_being_skipped() -> None:
    (record,) = chain(1)
    header = msgspec.msgpack.encode([99, *msgspec.msgpack.decode(record.header)[1:]])
    newer = Record(header, digest_record(START.digest, header), record.payload)
    body = frames.encode(msgspec.structs.replace(frame_of(1), records=[newer]))
    with pytest.raises(FormatTooNew):
        frames.decode(body, ID)


# -- messages ------------------------------------------------------------------------------------


def whole_bytes(frame: Frame) -> int:
    """The smallest limit at which `frame` is one message."""
    (message,) = messages_of(frame, bytes_max=1 << 30)
    return message_bytes(len(message.data), message.headers, expected=9)


@pytest.mark.parametrize(("spare", "parts"), [(1, 1), (0, 1), (-1, 2)])
def test_r1_a_frame_is_cut_only_when_it_does_not_fit(spare: int, parts: int) -> None:
    frame = frame_of(1, payload_bytes=3000)
    messages = messages_of(frame, bytes_max=whole_bytes(frame) + spare)
    assert len(messages) == parts
    assert take_all(messages) == [None] * (parts - 1) + [frame]


@given(bytes_max=st.integers(400, 3000))
def test_r1_parts_make_the_frame_again(bytes_max: int) -> None:
    frame = frame_of(1, payload_bytes=3000)
    messages = messages_of(frame, bytes_max=bytes_max)
    *before, last = take_all(messages)
    assert last == frame
    assert not any(before)
    claims = [frames.claim_of(message) for message in messages]
    assert [claim.complete for claim in claims] == [False] * (len(claims) - 1) + [True]
    assert {claim.after for claim in claims} == {frame.after}


def test_a_limit_without_room_is_refused() -> None:
    frame = frame_of()
    with pytest.raises(UnsafeStream, match="max_payload"):
        frames.cut(frame, frames.encode(frame), 0, expected=1, bytes_max=200)


PARTS = messages_of(frame_of(1, payload_bytes=3000), bytes_max=900)
OTHER = messages_of(frame_of(2), bytes_max=1 << 20, first_sequence=90)[0]
FOREIGN = Message(SUBJECT, 91, {}, b"?")


def test_parts_whose_beginning_was_not_seen_are_dropped() -> None:
    assembly = Assembly(ID)
    assert not any(take_all(PARTS[1:], assembly))
    assert assembly.dropped == len(PARTS) - 1
    assert take_all(PARTS, assembly)[-1] is not None, "the set is taken when it comes again"


def test_an_incomplete_set_is_dropped_by_the_frame_that_follows() -> None:
    assembly = Assembly(ID)
    assert take_all([*PARTS[:2], OTHER], assembly)[-1] is not None
    assert assembly.dropped == 1
    assert take_all(PARTS[2:], assembly) == [None] * len(PARTS[2:])


def test_an_incomplete_set_is_dropped_when_it_begins_again() -> None:
    assembly = Assembly(ID)
    assert take_all([*PARTS[:2], *PARTS], assembly)[-1] is not None
    assert assembly.dropped == 1


def test_a_foreign_message_between_parts_drops_the_set() -> None:
    assembly = Assembly(ID)
    take_all(PARTS[:2], assembly)
    with pytest.raises(NotAFrame):
        assembly.take(FOREIGN)
    assert assembly.take(PARTS[2]) is None


@pytest.mark.parametrize("skipped", [1, 2])
def test_a_missing_part_drops_the_set(skipped: int) -> None:
    assert not any(take_all(PARTS[:skipped] + PARTS[skipped + 1 :]))


def test_a_part_of_another_frame_does_not_continue_a_set() -> None:
    other = messages_of(
        frames.build(ID, START, chain(1, payload_bytes=3000, salt="other")), bytes_max=900
    )
    assert not any(take_all([PARTS[0], *other[1:]]))


def test_a_part_that_was_built_on_another_message_does_not_continue_a_set() -> None:
    first, second, *rest = PARTS
    elsewhere = Message(SUBJECT, 50, second.headers | {"Sm-Prev": "49"}, second.data)
    assert not any(take_all([first, elsewhere, *rest]))


def test_headers_that_claim_another_frame_are_foreign() -> None:
    one, two = (messages_of(frame_of(n), bytes_max=1 << 20)[0] for n in (1, 2))
    lying = Message(SUBJECT, 5, one.headers, two.data)
    with pytest.raises(NotAFrame, match="claim"):
        frames.checked_claim(lying, ID)
    with pytest.raises(NotAFrame, match="claim"):
        Assembly(ID).take(lying)


HASH = "a" * 64
BAD_HEADERS: dict[str, dict[str, str]] = {
    "none": {},
    "no predecessor": {"Sm-Frame": f"1 1 2 {HASH}"},
    "no frame": {"Sm-Prev": "1"},
    "digest of another size": {"Sm-Frame": "1 1 2 aa", "Sm-Prev": "1"},
    "ends before it begins": {"Sm-Frame": f"1 3 2 {HASH}", "Sm-Prev": "1"},
    "seq 0": {"Sm-Frame": f"1 0 2 {HASH}", "Sm-Prev": "1"},
    "digits that are none": {"Sm-Frame": f"1 ² 2 {HASH}", "Sm-Prev": "1"},
    "part beyond its total": {"Sm-Frame": f"1 1 2 {HASH}", "Sm-Prev": "1", "Sm-Part": "8 9"},
    "part of too much": {"Sm-Frame": f"1 1 2 {HASH}", "Sm-Prev": "1", "Sm-Part": f"0 {1 << 40}"},
    "part that is none": {"Sm-Frame": f"1 1 2 {HASH}", "Sm-Prev": "1", "Sm-Part": "half"},
}


@pytest.mark.parametrize("headers", BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
def test_headers_that_are_no_claim_are_foreign(headers: dict[str, str]) -> None:
    with pytest.raises(NotAFrame):
        frames.claim_of(Message(SUBJECT, 5, headers, b"data"))


def test_a_part_without_data_is_foreign() -> None:
    headers = {"Sm-Frame": f"1 1 2 {HASH}", "Sm-Prev": "1", "Sm-Part": "0 9"}
    with pytest.raises(NotAFrame):
        frames.claim_of(Message(SUBJECT, 5, headers, b""))


def test_a_fingerprint_tells_messages_apart_and_ignores_what_the_server_adds() -> None:
    one, two = PARTS[0], PARTS[1]
    same = frames.fingerprint(one.headers | {"Nats-Sequence": "9"}, one.data)
    assert frames.fingerprint(one.headers, one.data) == same
    assert len({same, frames.fingerprint(two.headers, one.data)}) == 2
    assert len({same, frames.fingerprint(one.headers, two.data)}) == 2
