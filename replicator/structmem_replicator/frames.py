"""A run of records as bytes, and those bytes as messages. Pure.

A frame carries consecutive records of one memory and one epoch. It travels as one message, or cut
into parts by byte offset where it is larger than the stream takes. Its headers say what it claims
to be, so that a look at one message places it; its body says it again and is what counts.

    Sm-Frame: <epoch> <first seq> <last seq> <digest after, hex>
    Sm-Prev:  <sequence of the message it was built on, 0 for none>
    Sm-Part:  <byte offset> <bytes of the whole body>               only on parts

    body = "SMF", format (1 byte), flags (1 byte), MessagePack array of `Frame`'s fields

Invariants:

- A frame is validated before it is published and after it is read, by the same function.
- A body that does not parse is foreign: `NotAFrame`, never a crash and never a stop. One written by
  a newer version is not foreign: it raises `FormatTooNew`, because skipping it would lose records.
- The parts of a frame follow each other with no other message of the subject between them.
"""

import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from structmem import FormatTooNew
from structmem_journal import (
    PAYLOAD_BYTES_MAX,
    START,
    BrokenChain,
    Header,
    MalformedRecord,
    Position,
    Record,
    UnknownKind,
    decode_header,
    follow,
)
from structmem_replicator.errors import NotAFrame, UnsafeStream
from structmem_replicator.transport import Message, message_bytes

FORMAT: Final = 0
"""Version of the frame format. It is 0 until the format is declared stable, then 1."""

COMPRESS_ABOVE_BYTES: Final = 2048
"""Smaller bodies are sent as they are: a single small record compresses to nine tenths only."""

BODY_BYTES_MAX: Final = PAYLOAD_BYTES_MAX + (1 << 20)
"""One record of the largest size fits; a larger claim is nonsense, or a decompression bomb."""

PART_BYTES_MIN: Final = 64
"""A stream that leaves less room than this beside the headers is of no use."""

_MAGIC: Final = b"SMF"
_PREFIX_BYTES: Final = len(_MAGIC) + 2
_COMPRESSED: Final = 1
_KNOWN_FLAGS: Final = _COMPRESSED

_FRAME_HEADER: Final = "Sm-Frame"
_PREV_HEADER: Final = "Sm-Prev"
_PART_HEADER: Final = "Sm-Part"
_FRAME_PATTERN: Final = re.compile(r"(\d{1,18}) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})")
_PREV_PATTERN: Final = re.compile(r"\d{1,19}")
_PART_PATTERN: Final = re.compile(r"(\d{1,18}) (\d{1,18})")

_encoder: Final = msgspec.msgpack.Encoder()


class Frame(Struct, frozen=True, array_like=True):
    """Consecutive records of one memory, all of one epoch, with the digests around them."""

    memory_id: Annotated[str, Meta(max_length=64)]
    epoch: int
    first: int
    last: int
    digest_before: bytes
    digest_after: bytes
    records: list[Record]

    @property
    def before(self) -> Position:
        return Position(self.first - 1, self.digest_before)

    @property
    def after(self) -> Position:
        return Position(self.last, self.digest_after)


class Claim(Struct, frozen=True):
    """What a message says of itself in its headers.

    `complete` is false for a part that is not the last of its frame.
    """

    epoch: int
    first: int
    last: int
    digest: bytes
    built_on: int
    complete: bool = True
    offset: int = 0
    total: int | None = None

    @property
    def after(self) -> Position:
        return Position(self.last, self.digest)


_decoder: Final = msgspec.msgpack.Decoder(Frame)


# -- frames and bytes ----------------------------------------------------------------------------


def build(memory_id: str, before: Position, records: Sequence[Record]) -> Frame:
    """The frame that carries `records` after position `before`, validated.

    Raises `NotAFrame` when the records are none, or not one run of one epoch.
    """
    headers = [decode_header(record.header) for record in records]
    if not headers:
        raise NotAFrame("it holds no record")
    frame = Frame(
        memory_id=memory_id,
        epoch=headers[0].epoch,
        first=before.seq + 1,
        last=headers[-1].seq,
        digest_before=before.digest,
        digest_after=records[-1].digest,
        records=list(records),
    )
    validate(frame, memory_id)
    return frame


def validate(frame: Frame, memory_id: str) -> None:
    """Check every rule of a frame; raises `NotAFrame` naming the first that does not hold."""
    if frame.memory_id != memory_id:
        raise NotAFrame(f"it belongs to memory {frame.memory_id!r}")
    if frame.first < 1:
        raise NotAFrame(f"its first record is {frame.first}")
    if not frame.records:
        raise NotAFrame("it holds no record")
    if frame.last - frame.first + 1 != len(frame.records):
        raise NotAFrame(f"it holds {len(frame.records)} records for {frame.first}-{frame.last}")
    if frame.first == 1 and frame.before != START:
        raise NotAFrame("it begins the chain after a digest that is not the start's")
    for header in _headers(frame):
        if header.epoch != frame.epoch:
            raise NotAFrame(f"record {header.seq} is of epoch {header.epoch}, not {frame.epoch}")
    if frame.records[-1].digest != frame.digest_after:
        raise NotAFrame("its records do not end at its digest")


def encode(frame: Frame) -> bytes:
    """The body of a frame, compressed where that pays."""
    plain = _encoder.encode(frame)
    flags = _COMPRESSED if len(plain) > COMPRESS_ABOVE_BYTES else 0
    body = zlib.compress(plain, 1) if flags else plain
    return _MAGIC + bytes((FORMAT, flags)) + body


def decode(body: bytes, memory_id: str) -> Frame:
    """The frame in a body, validated. Raises `NotAFrame`, or `FormatTooNew` for a newer one."""
    if body[: len(_MAGIC)] != _MAGIC or len(body) < _PREFIX_BYTES:
        raise NotAFrame("it does not begin like a frame")
    form, flags = body[len(_MAGIC)], body[len(_MAGIC) + 1]
    if form > FORMAT or flags & ~_KNOWN_FLAGS:
        raise FormatTooNew(
            f"A frame on the stream has format {form} with flags {flags}, and this version reads "
            f"up to format {FORMAT}.",
            hint="Upgrade structmem here to the version that publishes.",
        )
    plain = body[_PREFIX_BYTES:]
    try:
        frame = _decoder.decode(_decompress(plain) if flags & _COMPRESSED else plain)
    except msgspec.MsgspecError as error:
        raise NotAFrame(f"its body is not a frame: {error}") from error
    validate(frame, memory_id)
    return frame


def _headers(frame: Frame) -> Iterator[Header]:
    """The records' headers; raises `NotAFrame` where the records are not a chain."""
    position, previous = frame.before, None
    for record in frame.records:
        try:
            previous = follow(position, record, previous)
        except (BrokenChain, MalformedRecord) as error:
            raise NotAFrame(str(error)) from error
        except UnknownKind as error:
            raise FormatTooNew(
                f"A frame on the stream holds records of a newer version: {error}.",
                hint="Upgrade structmem here to the version that publishes.",
            ) from error
        position = Position(previous.seq, record.digest)
        yield previous


def _decompress(data: bytes) -> bytes:
    inflate = zlib.decompressobj()
    try:
        plain = inflate.decompress(data, BODY_BYTES_MAX)
    except zlib.error as error:
        raise NotAFrame(f"its body is not compressed data: {error}") from error
    if not inflate.eof or inflate.unused_data:
        raise NotAFrame("its body is cut short, followed by more, or too large")
    return plain


# -- messages ------------------------------------------------------------------------------------


def cut(
    frame: Frame, body: bytes, offset: int, *, expected: int, bytes_max: int
) -> tuple[dict[str, str], bytes]:
    """Headers and data of the message that carries `body` from `offset` on.

    `expected` is the sequence it is built on, `bytes_max` the stream's limit on headers and data
    together. A body that fits whole is one message without a part header; otherwise the data is as
    long as the limit allows. Raises `UnsafeStream` when the limit leaves no room.
    """
    whole = {
        _FRAME_HEADER: f"{frame.epoch} {frame.first} {frame.last} {frame.digest_after.hex()}",
        _PREV_HEADER: str(expected),
    }
    if offset == 0 and message_bytes(len(body), whole, expected=expected) <= bytes_max:
        return whole, body
    headers = whole | {_PART_HEADER: f"{offset} {len(body)}"}
    room = bytes_max - message_bytes(0, headers, expected=expected)
    if room < PART_BYTES_MIN:
        raise UnsafeStream(
            f"The stream takes messages of at most {bytes_max} bytes, and that leaves no room for "
            "data beside the headers.",
            hint="Raise max_payload of the server or max_msg_size of the stream.",
        )
    return headers, body[offset : offset + room]


def claim_of(message: Message) -> Claim:
    """What a message claims to be, by its headers alone. Raises `NotAFrame`."""
    headers = message.headers
    frame = _FRAME_PATTERN.fullmatch(headers.get(_FRAME_HEADER, ""))
    prev = _PREV_PATTERN.fullmatch(headers.get(_PREV_HEADER, ""))
    if frame is None or prev is None:
        raise NotAFrame("its headers are not those of a frame")
    if not 1 <= int(frame[2]) <= int(frame[3]):
        raise NotAFrame(f"it claims records {frame[2]}-{frame[3]}")
    claim = Claim(
        epoch=int(frame[1]),
        first=int(frame[2]),
        last=int(frame[3]),
        digest=bytes.fromhex(frame[4]),
        built_on=int(prev[0]),
    )
    if _PART_HEADER not in headers:
        return claim
    return _part_claim(claim, headers[_PART_HEADER], len(message.data))


def checked_claim(message: Message, memory_id: str) -> Claim:
    """As `claim_of`, and a whole frame's body must bear the claim out.

    A part's body says nothing by itself; that it is believed can be read in `docs/replication.md`.
    """
    claim = claim_of(message)
    if claim.total is None:
        _check_borne_out(claim, decode(message.data, memory_id))
    return claim


def fingerprint(headers: dict[str, str], data: bytes) -> bytes:
    """Tells whether a message at some sequence is still the one that was seen or published."""
    ours = [headers.get(name, "") for name in (_FRAME_HEADER, _PREV_HEADER, _PART_HEADER)]
    return hashlib.sha256("\n".join((*ours, "")).encode() + data).digest()


class Assembly:
    """Puts the messages of one memory's subject, taken in order, together into frames.

    Invariants:

    - A frame comes out only if all its bytes were taken, each part built on the one before.
    - At most one set of parts is held, in memory: a record has to be there whole to be applied.
    - What interrupts a set drops it; so does the beginning of another one. `dropped` counts sets
      and parts whose beginning was never seen.
    """

    def __init__(self, memory_id: str) -> None:
        self._memory_id = memory_id
        self._claim: Claim | None = None
        self._bytes = bytearray()
        self._last_sequence = 0
        self.dropped = 0

    def take(self, message: Message) -> Frame | None:
        """The frame that `message` is, or completes; None if more parts are to come or this one
        was dropped. Raises `NotAFrame` and `FormatTooNew`."""
        try:
            claim = claim_of(message)
        except NotAFrame:
            self._drop()
            raise
        if claim.total is None:
            self._drop()
            return self._whole(claim, message.data)
        return self._part(claim, message)

    def _part(self, claim: Claim, message: Message) -> Frame | None:
        if claim.offset == 0:
            self._drop()
        elif not self._continues(claim):
            self._drop()
            self.dropped += 1
            return None
        self._claim, self._last_sequence = claim, message.sequence
        self._bytes += message.data
        if not claim.complete:
            return None
        body = bytes(self._bytes)
        self._forget()
        return self._whole(claim, body)

    def _continues(self, claim: Claim) -> bool:
        held = self._claim
        return (
            held is not None
            and claim.built_on == self._last_sequence
            and claim.offset == len(self._bytes)
            and (claim.after, claim.first, claim.total) == (held.after, held.first, held.total)
        )

    def _whole(self, claim: Claim, body: bytes) -> Frame:
        frame = decode(body, self._memory_id)
        _check_borne_out(claim, frame)
        return frame

    def _drop(self) -> None:
        self.dropped += self._claim is not None
        self._forget()

    def _forget(self) -> None:
        self._claim, self._bytes = None, bytearray()


def _part_claim(claim: Claim, text: str, data_bytes: int) -> Claim:
    part = _PART_PATTERN.fullmatch(text)
    if part is None:
        raise NotAFrame("its part header is not one")
    offset, total = int(part[1]), int(part[2])
    end = offset + data_bytes
    if not data_bytes or end > total or total > BODY_BYTES_MAX:
        raise NotAFrame(f"it is a part of {data_bytes} bytes at {offset} of {total}")
    return msgspec.structs.replace(claim, offset=offset, total=total, complete=end == total)


def _check_borne_out(claim: Claim, frame: Frame) -> None:
    says = (claim.epoch, claim.first, claim.after)
    if says != (frame.epoch, frame.first, frame.after):
        raise NotAFrame("its headers claim another frame than its body holds")
