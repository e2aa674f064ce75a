"""structmem_journal: what happened to a memory, as values and as bytes.

Pure: it never touches SQLite, the network, the clock or a random source. Read `events` for what a
record says, `record` for how records are chained, `codec` for the bytes.
"""

from structmem_journal.chain import follow, link, verify
from structmem_journal.codec import (
    decode_header,
    decode_payload,
    decode_record,
    digest_record,
    encode_payload,
    encode_record,
)
from structmem_journal.errors import (
    BrokenChain,
    JournalError,
    MalformedRecord,
    RecordTooLarge,
    UnknownKind,
)
from structmem_journal.events import (
    Branched,
    Effect,
    EpochBegan,
    Erased,
    Event,
    Expired,
    Hidden,
    Intent,
    Outcome,
    Redone,
    Row,
    RowsChanged,
    SchemaChanged,
    SequenceChanged,
    Shown,
    Undone,
    Updated,
    Value,
    inverse,
    rowids_of,
    runs_of,
)
from structmem_journal.invariants import InvariantViolated, invariant
from structmem_journal.limits import DIGEST_BYTES, FORMAT, PAYLOAD_BYTES_MAX, SALT_BYTES
from structmem_journal.record import START, Header, Position, Record

__all__ = [
    "DIGEST_BYTES",
    "FORMAT",
    "PAYLOAD_BYTES_MAX",
    "SALT_BYTES",
    "START",
    "Branched",
    "BrokenChain",
    "Effect",
    "EpochBegan",
    "Erased",
    "Event",
    "Expired",
    "Header",
    "Hidden",
    "Intent",
    "InvariantViolated",
    "JournalError",
    "MalformedRecord",
    "Outcome",
    "Position",
    "Record",
    "RecordTooLarge",
    "Redone",
    "Row",
    "RowsChanged",
    "SchemaChanged",
    "SequenceChanged",
    "Shown",
    "Undone",
    "UnknownKind",
    "Updated",
    "Value",
    "decode_header",
    "decode_payload",
    "decode_record",
    "digest_record",
    "encode_payload",
    "encode_record",
    "follow",
    "invariant",
    "inverse",
    "link",
    "rowids_of",
    "runs_of",
    "verify",
]
