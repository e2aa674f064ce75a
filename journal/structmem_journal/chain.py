"""Linking records into a chain, and checking that they are one. Pure: no clock, no randomness.

Invariants:

- `seq` runs 1, 2, 3 … without a gap.
- Time and epoch never go back.
- Every digest follows from the bytes before it; every payload that is there matches its header.
"""

from collections.abc import Iterable, Iterator

from structmem_journal import codec
from structmem_journal.errors import BrokenChain
from structmem_journal.limits import FORMAT
from structmem_journal.record import START, Header, Position, Record


def link(before: Position, *, payload: bytes, kind: str, at_us: int, epoch: int) -> Record:
    """The record that carries `payload` after position `before`."""
    header = codec.encode_header(
        Header(
            format=FORMAT,
            seq=before.seq + 1,
            epoch=epoch,
            at_us=at_us,
            kind=kind,
            payload_digest=codec.digest_payload(payload),
        )
    )
    return Record(header, codec.digest_record(before.digest, header), payload)


def follow(before: Position, record: Record, previous: Header | None = None) -> Header:
    """Check that `record` follows position `before`, and return its header.

    `previous` is the header of the record at `before`, if the caller has it: then time and epoch
    are checked too. Raises `BrokenChain`, `MalformedRecord` or `UnknownKind`.
    """
    header = codec.decode_header(record.header)
    if header.seq != before.seq + 1:
        raise BrokenChain(before.seq + 1, f"the next record there is {header.seq}")
    if codec.digest_record(before.digest, record.header) != record.digest:
        raise BrokenChain(header.seq, "its digest does not follow from the record before it")
    payload = record.payload
    if payload is not None and codec.digest_payload(payload) != header.payload_digest:
        raise BrokenChain(header.seq, "its payload is not the one its header names")
    if previous is not None and header.at_us < previous.at_us:
        raise BrokenChain(header.seq, "its time lies before that of the record before it")
    if previous is not None and header.epoch < previous.epoch:
        raise BrokenChain(header.seq, "its epoch is lower than that of the record before it")
    return header


def verify(
    records: Iterable[Record], after: Position = START, previous: Header | None = None
) -> Iterator[tuple[Header, Record]]:
    """Yield each record with its header, checked; raises at the first that does not follow.

    `previous` is the header of the record at `after`, if there is one: without it the time and the
    epoch of the first record have nothing to be compared with. Lazy: memory stays flat however
    long the chain is.
    """
    position = after
    for record in records:
        previous = follow(position, record, previous)
        position = Position(previous.seq, record.digest)
        yield previous, record
