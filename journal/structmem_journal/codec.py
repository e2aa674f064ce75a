"""Between values and bytes. The only place that catches msgspec's errors.

The format is MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), written and
read by msgspec. `docs/journal-format.md` describes it for readers in other languages.
"""

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar, cast, get_args

import msgspec

from structmem_journal.errors import MalformedRecord, RecordTooLarge, UnknownKind
from structmem_journal.events import Effect, Event, Row, RowsChanged
from structmem_journal.limits import FORMAT, INTEGER_MAX, PAYLOAD_BYTES_MAX, SALT_BYTES
from structmem_journal.record import Header, Record, Version

T = TypeVar("T")

_encoder: Final = msgspec.msgpack.Encoder()
_event_decoder: Final = msgspec.msgpack.Decoder(Event)
_header_decoder: Final = msgspec.msgpack.Decoder(Header)
_record_decoder: Final = msgspec.msgpack.Decoder(Record)
_version_decoder: Final = msgspec.msgpack.Decoder(Version)
_MSGSPEC_ERRORS: Final = (msgspec.MsgspecError, RecursionError)  # the second: nested too deeply
_VALUE_TYPES: Final = frozenset((int, float, str, bytes, type(None)))
_KNOWN_EFFECTS: Final = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Effect))


def encode_payload(event: Event, salt: bytes) -> bytes:
    """The payload of a record: `salt` (16 random bytes, drawn by the caller), then the event.

    Raises `RecordTooLarge` when the event needs more than `PAYLOAD_BYTES_MAX` bytes.
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"the salt has {len(salt)} bytes instead of {SALT_BYTES}")
    payload = bytearray(salt)
    _encoder.encode_into(event, payload, -1)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise RecordTooLarge(
            f"this one operation would need {len(payload):,} bytes in the journal, and a record "
            f"may have {PAYLOAD_BYTES_MAX:,}; do it in several smaller operations"
        )
    return bytes(payload)


def decode_payload(payload: bytes) -> Event:
    """The event in a payload. Raises `MalformedRecord`, or `UnknownKind` for a newer effect."""
    try:
        event = _event_decoder.decode(memoryview(payload)[SALT_BYTES:])
    except _MSGSPEC_ERRORS as error:
        _refuse_unknown_effects(payload)
        raise MalformedRecord(f"a payload is not an event: {error}") from error
    for effect in event.effects:
        if isinstance(effect, RowsChanged):
            _check_rows(effect)
    return event


def encode_header(header: Header) -> bytes:
    """The bytes of a header, once: from then on they are kept and hashed as they are."""
    return _encoder.encode(header)


def decode_header(data: bytes) -> Header:
    """The header in `data`. Raises `MalformedRecord`, or `UnknownKind` for a newer format."""
    version = _decode(_version_decoder, data, "a record's header")
    if version.format > FORMAT:
        raise UnknownKind(
            f"a record has format {version.format} and this version reads up to {FORMAT}; "
            "read it with the version that wrote it, or a later one"
        )
    return _decode(_header_decoder, data, "a record's header")


def encode_record(record: Record) -> bytes:
    """One record as bytes, for an archive or a message: its own bytes, wrapped."""
    return _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    """One record out of `encode_record`'s bytes. Raises `MalformedRecord`."""
    return _decode(_record_decoder, data, "a record")


def digest_payload(payload: bytes) -> bytes:
    """What a header says of its payload."""
    return hashlib.sha256(payload).digest()


def digest_record(digest_before: bytes, header: bytes) -> bytes:
    """The chain's digest after a record with these header bytes."""
    return hashlib.sha256(digest_before + header).digest()


def _decode(decoder: msgspec.msgpack.Decoder[T], data: bytes, what: str) -> T:
    try:
        return decoder.decode(data)
    except _MSGSPEC_ERRORS as error:
        raise MalformedRecord(f"not {what}: {error}") from error


def _refuse_unknown_effects(payload: bytes) -> None:
    """Tell an effect of a newer version from damage: only the first asks for an upgrade."""
    try:
        loose: Any = msgspec.msgpack.decode(memoryview(payload)[SALT_BYTES:])
    except _MSGSPEC_ERRORS:
        return
    if not isinstance(loose, dict):
        return
    effects = cast("dict[str, Any]", loose).get("effects")
    for effect in cast("list[Any]", effects) if isinstance(effects, list) else []:
        tag = cast("dict[str, Any]", effect).get("type") if isinstance(effect, dict) else None
        if isinstance(tag, str) and tag not in _KNOWN_EFFECTS:
            raise UnknownKind(
                f"a record holds an effect {tag!r} that this version does not know; "
                "read it with the version that wrote it, or a later one"
            )


def _check_rows(effect: RowsChanged) -> None:
    """Each row has a rowid and exactly the values its effect names."""
    width = len(effect.columns)
    _check_items(effect.deleted, 1 + width, effect.table)
    _check_items(effect.inserted, 1 + width, effect.table)
    for updated in effect.updated:
        ascending = all(a < b for a, b in pairwise([-1, *updated.changed, width]))
        if not updated.changed or not ascending:
            raise MalformedRecord(f"an update of {effect.table!r} names columns it does not have")
        _check_items(updated.rows, 1 + 2 * len(updated.changed), effect.table)


def _check_items(rows: Sequence[Row], width: int, table: str) -> None:
    for row in rows:
        if len(row) != width:
            raise MalformedRecord(f"a row of {table!r} has {len(row)} items instead of {width}")
        if type(row[0]) is not int:
            raise MalformedRecord(f"a row of {table!r} has the rowid {row[0]!r}")
        for value in row:
            too_large = type(value) is int and value > INTEGER_MAX
            if type(value) not in _VALUE_TYPES or too_large or value != value:  # NaN is not itself
                raise MalformedRecord(f"a row of {table!r} holds {value!r}, which SQLite cannot")
