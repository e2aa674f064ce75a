"""The journal's bytes, its chain, and the inverse of effects, on events drawn at random.

Invariants checked:

- An event comes back from its bytes exactly: storage class and bits of every value.
- Bytes that are not a record raise a `JournalError` and nothing else.
- `seq` runs without a gap; time and epoch never go back; every digest follows.
- No single change to a chain, except the erasure of a payload, leads to the same position.
- Taking back twice changes nothing.
"""

import contextlib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from fuzz.events import DATA_EFFECTS, EVENTS, INTEGERS
from structmem_journal import (
    SALT_BYTES,
    START,
    Effect,
    Event,
    JournalError,
    Position,
    Record,
    decode_header,
    decode_payload,
    decode_record,
    encode_payload,
    encode_record,
    inverse,
    link,
    rowids_of,
    runs_of,
    verify,
)

SALTS = st.binary(min_size=SALT_BYTES, max_size=SALT_BYTES)
STEPS = st.tuples(EVENTS, SALTS, st.integers(0, 10**6), st.integers(0, 1))


@st.composite
def chains(draw: st.DrawFn, min_size: int = 0) -> list[Record]:
    """Records linked from the start; time and epoch go on or stand still."""
    records: list[Record] = []
    before, at_us, epoch = START, 0, 0
    for event, salt, later, higher in draw(st.lists(STEPS, min_size=min_size, max_size=4)):
        at_us, epoch = at_us + later, epoch + higher
        payload = encode_payload(event, salt)
        kind = event.intent.operation
        records.append(link(before, payload=payload, kind=kind, at_us=at_us, epoch=epoch))
        before = Position(before.seq + 1, records[-1].digest)
    return records


@st.composite
def mutations(draw: st.DrawFn) -> tuple[list[Record], list[Record]]:
    """A chain, and the same with one change."""
    records = draw(chains(min_size=1))
    index = draw(st.integers(0, len(records) - 1))
    field = draw(st.sampled_from(["header", "digest", "payload"]))
    whole: bytes = getattr(records[index], field)
    at = draw(st.integers(0, len(whole) - 1))
    mutated = draw(
        st.sampled_from(
            [
                [*records[:index], *records[index + 1 :]],
                [*records[: index + 1], *records[index:]],
                [*records[:index], records[-1], *records[index + 1 : -1], records[index]],
                _with(records, index, field, whole[:at]),
                _with(records, index, field, whole + b"\0"),
                _with(records, index, field, _flipped(whole, at, draw(st.integers(0, 7)))),
            ]
        )
    )
    return records, mutated


def _with(records: list[Record], index: int, field: str, data: bytes) -> list[Record]:
    changes: dict[str, Any] = {field: data}
    return [*records[:index], replace(records[index], **changes), *records[index + 1 :]]


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def end_of(records: list[Record]) -> Position | None:
    """Where a chain ends, or None if it is none."""
    end = START
    try:
        for header, record in verify(records):
            end = Position(header.seq, record.digest)
    except JournalError:
        return None
    return end


@given(EVENTS, SALTS)
def test_an_event_comes_back_from_its_bytes(event: Event, salt: bytes) -> None:
    """J1, M5: by repr, which tells 1 from 1.0 and 0.0 from -0.0."""
    payload = encode_payload(event, salt)
    assert repr(decode_payload(payload)) == repr(event)
    assert encode_payload(decode_payload(payload), salt) == payload


@given(chains())
def test_a_chain_verifies_and_survives_being_relayed(records: list[Record]) -> None:
    """J2, J3"""
    relayed = [decode_record(encode_record(record)) for record in records]
    assert relayed == records
    assert [header.seq for header, _ in verify(relayed)] == list(range(1, len(records) + 1))


@given(mutations())
def test_any_single_change_of_a_chain_is_noticed(pair: tuple[list[Record], list[Record]]) -> None:
    """J3: it does not verify, or ends at another position than the one noted elsewhere."""
    records, mutated = pair
    assert mutated == records or end_of(mutated) != end_of(records)


@given(st.binary(max_size=200))
@example(bytes(SALT_BYTES) + b"\x91" * 100_000)
def test_bytes_that_are_nothing_raise_our_errors_only(data: bytes) -> None:
    """J2: whatever a damaged disk or a stranger on the network hands over."""
    for decode in (decode_payload, decode_header, decode_record):
        _decodes_or_refuses(decode, data)


@given(EVENTS, st.data())
def test_damaged_events_raise_our_errors_only(event: Event, data: st.DataObject) -> None:
    """J2: bytes that are nearly right reach further into the decoder than random ones."""
    payload = bytearray(encode_payload(event, bytes(SALT_BYTES)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(SALT_BYTES, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    _decodes_or_refuses(decode_payload, bytes(payload))


def _decodes_or_refuses(decode: Any, data: bytes) -> None:
    try:
        decode(data)
    except JournalError as error:
        assert str(error)


@given(st.lists(DATA_EFFECTS, max_size=5))
def test_taking_back_twice_changes_nothing(effects: list[Effect]) -> None:
    """H2, H4"""
    assert repr(inverse(inverse(effects))) == repr(effects)


@given(st.lists(INTEGERS | st.integers(0, 5), max_size=30))
def test_runs_keep_the_rowids(rowids: list[int]) -> None:
    """W3"""
    assert rowids_of(runs_of(rowids)) == rowids


@given(st.integers(0, 10**18 - 1), st.binary(min_size=32, max_size=32))
def test_a_position_survives_text(seq: int, digest: bytes) -> None:
    """R6"""
    position = Position(seq, digest)
    assert Position.parse(str(position)) == position


@given(st.from_regex(r"\d{1,19}:[0-9a-fA-F]{64}", fullmatch=True))
def test_a_position_has_one_text(text: str) -> None:
    """R6: what looks nearly like one is refused, so that texts can be compared."""
    with contextlib.suppress(ValueError):
        assert str(Position.parse(text)) == text
