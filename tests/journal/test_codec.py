"""Bytes both ways: what is written comes back exactly, and anything else is refused (J1, J2)."""

from typing import Any

import msgspec
import pytest

from structmem_journal import (
    FORMAT,
    SALT_BYTES,
    Event,
    Intent,
    MalformedRecord,
    RecordTooLarge,
    RowsChanged,
    UnknownKind,
    Updated,
    codec,
    decode_header,
    decode_payload,
    decode_record,
    digest_record,
    encode_payload,
    encode_record,
)
from tests.journal.examples import EVENTS, SALT, chain_of, record_of, with_effects

pack = msgspec.msgpack.encode


def payload_with(**fields: Any) -> bytes:
    """A payload of raw MessagePack, with an intent, for what our own encoder cannot write."""
    return SALT + pack({"intent": {"operation": "insert"}, **fields})


def rows_effect(**fields: Any) -> dict[str, Any]:
    return {"type": "rows", "table": "t", "columns": ["a"], **fields}


def header_with(*extra: Any, **fields: Any) -> bytes:
    whole = {"format": FORMAT, "seq": 1, "epoch": 0, "at_us": 0, "kind": "insert"}
    return pack([*{**whole, "payload_digest": bytes(32), **fields}.values(), *extra])


# -- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    """J1: storage class and bytes, so the comparison is by repr: 1 is not 1.0, 0.0 not -0.0."""
    payload = encode_payload(event, SALT)
    assert payload[:SALT_BYTES] == SALT
    assert repr(decode_payload(payload)) == repr(event)


def test_empty_fields_cost_no_bytes() -> None:
    """J1: a one-row event stays close to the size of the change."""
    event = with_effects(RowsChanged("t", ["a"], inserted=[[1, 2]]))
    fields = msgspec.msgpack.decode(encode_payload(event, SALT)[SALT_BYTES:])
    assert fields == {
        "intent": {"operation": "execute"},
        "effects": [{"type": "rows", "table": "t", "columns": ["a"], "inserted": [[1, 2]]}],
    }


def test_a_record_comes_back_as_it_was() -> None:
    """J2: the stored bytes themselves travel; nothing is encoded again."""
    for record in chain_of():
        assert decode_record(encode_record(record)) == record


def test_an_erased_payload_travels_as_none() -> None:
    """J7: a record without its payload is still a record."""
    record = msgspec.structs.replace(record_of(EVENTS["rows"]), payload=None)
    assert decode_record(encode_record(record)) == record


def test_the_payload_differs_with_the_salt() -> None:
    """J1: the same event twice has two digests, so a digest tells nothing once it is erased."""
    event = EVENTS["rows"]
    one, two = encode_payload(event, SALT), encode_payload(event, bytes(SALT_BYTES))
    assert codec.digest_payload(one) != codec.digest_payload(two)


def test_the_digest_covers_header_and_previous_digest() -> None:
    """J1"""
    assert digest_record(bytes(32), b"header") != digest_record(bytes(31) + b"\1", b"header")
    assert digest_record(bytes(32), b"header") != digest_record(bytes(32), b"Header")


# -- refusals on the way in ----------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, SALT_BYTES - 1, SALT_BYTES + 1])
def test_a_salt_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="16"):
        encode_payload(EVENTS["empty"], bytes(length))


def test_an_event_larger_than_a_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    event = Event(Intent("execute", arguments={"sql": "x" * 1000}))
    size = len(encode_payload(event, SALT))
    monkeypatch.setattr(codec, "PAYLOAD_BYTES_MAX", size)
    encode_payload(event, SALT)
    monkeypatch.setattr(codec, "PAYLOAD_BYTES_MAX", size - 1)
    with pytest.raises(RecordTooLarge, match="several smaller operations"):
        encode_payload(event, SALT)


# -- refusals on the way out ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        SALT,
        SALT + b"\xc0",
        SALT + pack([1, 2]),
        SALT + pack({"effects": []}),
        SALT + pack({"intent": {"operation": 1}}),
        payload_with() + b"\xc0",
        payload_with()[:-1],
        payload_with(effects=[{"type": "rows"}]),
        payload_with(effects=[{"type": 7}]),
        payload_with(effects=[{}]),
        payload_with(effects=[None]),
        payload_with(effects=None),
        SALT + b"\x81\xa6intent\x81\xa9operation\xa3\xed\xa0\x80",  # a lone surrogate
        SALT + b"\x81\xa6intent\x81\xa9operation\xdb\xff\xff\xff\xff",  # 4 GB of text announced
        SALT + b"\x81\xa7effects\xdd\xff\xff\xff\xff",  # 4 000 million effects announced
        SALT + b"\x91" * 100_000 + b"\xc0",
        SALT + b"\x82\xa6intent\x82\xa9operation\xa0\xa9arguments\x81\xa0" + b"\x91" * 100_000,
    ],
)
def test_bytes_that_are_no_event_are_malformed(payload: bytes) -> None:
    """J2"""
    with pytest.raises(MalformedRecord):
        decode_payload(payload)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_a_payload_cut_short_anywhere_is_malformed(event: Event) -> None:
    """J5: a torn tail is never read as a shorter event."""
    payload = encode_payload(event, SALT)
    for length in range(len(payload)):
        with pytest.raises(MalformedRecord):
            decode_payload(payload[:length])


MISFITS: list[dict[str, Any]] = [
    {"inserted": [[1]]},
    {"inserted": [[1, 2, 3]]},
    {"deleted": [[]]},
    {"deleted": [["1", 2]]},
    {"deleted": [[True, 2]]},
    {"deleted": [[None, 2]]},
    {"inserted": [[1.0, 2]]},
    {"inserted": [[1, [2]]]},
    {"inserted": [[1, {"a": 2}]]},
    {"inserted": [[1, True]]},
    {"inserted": [[1, 2**63]]},
    {"inserted": [[2**63, 1]]},
    {"inserted": [[1, float("nan")]]},
    {"inserted": [[1, msgspec.msgpack.Ext(5, b"x")]]},
    {"updated": [[[], [[1]]]]},
    {"updated": [[[1], [[1, 2, 3]]]]},
    {"updated": [[[-1], [[1, 2, 3]]]]},
    {"updated": [[[0, 0], [[1, 2, 3, 4, 5]]]]},
    {"updated": [[[0], [[1, 2]]]]},
    {"updated": [[[0], [[1, 2, 3, 4]]]]},
    {"updated": [[[0], [[1, 2, float("nan")]]]]},
]


@pytest.mark.parametrize("fields", MISFITS)
def test_rows_that_do_not_fit_their_effect_are_malformed(fields: dict[str, Any]) -> None:
    """M5: nothing gets in that SQLite could not hold, or that could not be applied."""
    decode_payload(payload_with(effects=[rows_effect(inserted=[[1, 2]])]))
    with pytest.raises(MalformedRecord):
        decode_payload(payload_with(effects=[rows_effect(**fields)]))


def test_changed_columns_stand_in_ascending_order() -> None:
    effect = rows_effect(columns=["a", "b"], updated=[[[1, 0], [[1, 2, 3, 4, 5]]]])
    with pytest.raises(MalformedRecord, match="columns"):
        decode_payload(payload_with(effects=[effect]))
    effect["updated"] = [[[0, 1], [[1, 2, 3, 4, 5]]]]
    event = decode_payload(payload_with(effects=[effect]))
    assert event.effects == [
        RowsChanged("t", ["a", "b"], updated=[Updated([0, 1], [[1, 2, 3, 4, 5]])])
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"effects": [{"type": "sequence", "table": "t", "after": 2**63}]},
        {"effects": [{"type": "undone", "operations": [0]}]},
        {"effects": [{"type": "redone", "operations": [2**63]}]},
        {"effects": [{"type": "epoch", "epoch": -1, "writer": "w"}]},
        {"effects": [{"type": "erased", "table": "t", "rowids": [2**63], "records": []}]},
        {"effects": [{"type": "erased", "table": "t", "rowids": [], "records": [0]}]},
        {"outcome": {"rowids": [[1, 0]]}},
        {"outcome": {"rowids": [[1, -3]]}},
        {"outcome": {"rowids": [[2**63, 1]]}},
        {"outcome": {"rowids": [[1]]}},
    ],
)
def test_numbers_out_of_range_are_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(MalformedRecord):
        decode_payload(payload_with(**fields))


# -- newer and older versions --------------------------------------------------------------------


def test_an_unknown_effect_asks_for_a_newer_version() -> None:
    """J2: an unknown kind stops the reader with its name, and is not taken for damage."""
    effects = [rows_effect(), {"type": "vector", "table": "t"}]
    with pytest.raises(UnknownKind, match="'vector'"):
        decode_payload(payload_with(effects=effects))


def test_new_fields_of_known_kinds_are_passed_over() -> None:
    """J2: fields are only added, so an older reader still reads the rest."""
    payload = payload_with(effects=[rows_effect(hint=1)], lane=7)
    assert decode_payload(payload).effects == [RowsChanged("t", ["a"])]
    assert decode_header(header_with("lane")) == decode_header(header_with())
    assert decode_record(pack([b"h", bytes(32), None, "lane"])).header == b"h"


@pytest.mark.parametrize("data", [header_with(format=FORMAT + 1), pack([FORMAT + 1, "other"])])
def test_a_newer_format_asks_for_a_newer_version(data: bytes) -> None:
    """M10, J2: even when nothing after the format number is as we know it."""
    with pytest.raises(UnknownKind, match=f"format {FORMAT + 1}"):
        decode_header(data)


# -- headers and records -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"format": -1},
        {"format": "0"},
        {"seq": 0},
        {"seq": 2**63},
        {"seq": True},
        {"seq": 1.0},
        {"epoch": -1},
        {"epoch": 2**63},
        {"at_us": 253_402_300_800_000_000},
        {"at_us": -62_135_596_800_000_001},
        {"kind": b"insert"},
        {"payload_digest": bytes(31)},
        {"payload_digest": bytes(33)},
        {"payload_digest": "0" * 32},
    ],
)
def test_a_header_with_impossible_values_is_malformed(fields: dict[str, Any]) -> None:
    decode_header(header_with())
    with pytest.raises(MalformedRecord):
        decode_header(header_with(**fields))


def test_a_header_cut_short_anywhere_is_malformed() -> None:
    header = record_of(EVENTS["rows"]).header
    for length in range(len(header)):
        with pytest.raises(MalformedRecord):
            decode_header(header[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc0",
        pack([b"h", bytes(32)]),
        pack([b"h", bytes(31), None]),
        pack(["h", bytes(32), None]),
        pack([b"h", bytes(32), 1]),
        pack([b"h", bytes(32), None]) + b"\xc0",
    ],
)
def test_bytes_that_are_no_record_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_record(data)


def test_a_header_names_no_person_and_no_value() -> None:
    """J1: all that a person could be named in is in the payload, which can be erased."""
    event = EVENTS["rows"]
    record = record_of(event)
    said = decode_header(record.header)
    assert (said.kind, said.seq, said.epoch) == (event.intent.operation, 1, 1)
    for word in (b"people", b"Ada", b"moved", b"crm-agent", b"grace", b"run-1"):
        assert record.payload is not None and word in record.payload
        assert word not in record.header
