"""The journal inside the file: its tables, and everything that reads or writes them.

```
_structmem_meta     key -> value: id, role, epoch, bookmark, horizon
_structmem_record   seq -> header, digest, standing
_structmem_payload  seq * 1024 + part -> bytes (a payload is cut into parts)
_structmem_call     call id -> seq
```

Invariants:

- `seq` runs 1, 2, 3 … without a gap, and each record follows the one before it (`chain`).
- A record, its payload, its call id and the rows it speaks of are written in one transaction.
- `standing` is 1 for an operation that could be undone, and 0 for one that was, or never could be
  (an undo itself, a new epoch). It follows from the events alone, so every replica agrees.
"""

from collections.abc import Iterator, Mapping, Sequence

import apsw
from msgspec import Struct

from structmem import sql
from structmem.limits import BATCH_BYTES, BATCH_RECORDS, PAYLOAD_PART_BYTES
from structmem_journal import (
    START,
    Branched,
    BrokenChain,
    Effect,
    EpochBegan,
    Erased,
    Event,
    Expired,
    Header,
    Position,
    Record,
    Redone,
    Undone,
    decode_header,
    decode_payload,
    invariant,
)

_PARTS = 1024
"""Parts per payload that the key leaves room for: 8 GiB, beyond the largest payload."""

_TABLES = """
CREATE TABLE _structmem_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE _structmem_record (
  seq INTEGER PRIMARY KEY, header BLOB NOT NULL, digest BLOB NOT NULL, standing INTEGER NOT NULL
);
CREATE TABLE _structmem_payload (part_id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE _structmem_call (call_id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
"""


class Head(Struct, frozen=True):
    """The last record: its position, and its header (None while there is no record)."""

    position: Position
    header: Header | None


def create_tables(connection: apsw.Connection) -> None:
    sql.run(connection, _TABLES)


# -- facts about the memory ----------------------------------------------------------------------


def facts(connection: apsw.Connection) -> dict[str, str | int]:
    """All of them, in one look."""
    return dict(sql.rows(connection, "SELECT key, value FROM main._structmem_meta"))


def meta(connection: apsw.Connection, key: str) -> str | int | None:
    row = sql.first(connection, "SELECT value FROM main._structmem_meta WHERE key = ?", (key,))
    return row[0] if row else None


def set_meta(connection: apsw.Connection, key: str, value: str | int) -> None:
    sql.run(connection, "INSERT OR REPLACE INTO main._structmem_meta VALUES (?, ?)", (key, value))


def epoch(connection: apsw.Connection) -> int:
    return epoch_in(facts(connection))


def epoch_in(found: Mapping[str, str | int]) -> int:
    value = found.get("epoch")
    invariant(isinstance(value, int), "every memory has an epoch")
    return int(value or 0)


def horizon(connection: apsw.Connection) -> int:
    """No operation below this seq stands."""
    return int(meta(connection, "horizon") or 1)


# -- reading records -----------------------------------------------------------------------------


def head(connection: apsw.Connection) -> Head:
    row = sql.first(
        connection,
        "SELECT header, digest FROM main._structmem_record ORDER BY seq DESC LIMIT 1",
    )
    if row is None:
        return Head(START, None)
    header = decode_header(row[0])
    return Head(Position(header.seq, row[1]), header)


def position_at(connection: apsw.Connection, seq: int) -> Position | None:
    """The position after record `seq`; None beyond the head."""
    if seq == START.seq:
        return START
    row = sql.first(connection, "SELECT digest FROM main._structmem_record WHERE seq = ?", (seq,))
    return Position(seq, row[0]) if row else None


def read(connection: apsw.Connection, after: int) -> list[Record]:
    """The records after seq `after`, in order: as many as make a batch, at least one if any."""
    found: list[Record] = []
    size = 0
    for seq, header, digest in sql.each(
        connection,
        "SELECT seq, header, digest FROM main._structmem_record WHERE seq > ? ORDER BY seq LIMIT ?",
        (after, BATCH_RECORDS),
    ):
        payload = _payload(connection, seq)
        found.append(Record(header, digest, payload))
        size += len(payload or b"")
        if size > BATCH_BYTES:
            break
    return found


def read_all(connection: apsw.Connection, after: int) -> Iterator[Record]:
    """All records after seq `after`, read a batch at a time."""
    while batch := read(connection, after):
        yield from batch
        after += len(batch)


def record_at(connection: apsw.Connection, seq: int) -> Record | None:
    row = sql.first(
        connection, "SELECT header, digest FROM main._structmem_record WHERE seq = ?", (seq,)
    )
    return Record(row[0], row[1], _payload(connection, seq)) if row else None


def event_of(record: Record, header: Header) -> Event:
    """What the record says. Raises `BrokenChain` when its payload is missing: no operation of this
    version erases one, and the chain, which knows payloads by digest alone, would not notice."""
    if record.payload is None:
        raise BrokenChain(header.seq, "its payload is missing")
    return decode_payload(record.payload)


def _payload(connection: apsw.Connection, seq: int) -> bytes | None:
    """The payload put together; None where there is none."""
    parts = sql.rows(
        connection,
        "SELECT bytes FROM main._structmem_payload WHERE part_id >= ? AND part_id < ?"
        " ORDER BY part_id",
        (seq * _PARTS, (seq + 1) * _PARTS),
    )
    return b"".join(part for (part,) in parts) if parts else None


def seq_of_call(connection: apsw.Connection, call_id: str) -> int | None:
    row = sql.first(
        connection, "SELECT seq FROM main._structmem_call WHERE call_id = ?", (call_id,)
    )
    return row[0] if row else None


def standing(
    connection: apsw.Connection, *, before: int | None = None, after: int = 0, limit: int = -1
) -> list[int]:
    """The seq of operations that stand, newest first, between two seq. They are looked for from the
    end, which is over after `limit`: the last one is nearly always the last record."""
    found = sql.rows(
        connection,
        "SELECT seq FROM main._structmem_record WHERE standing AND seq < ? AND seq > ?"
        " ORDER BY seq DESC LIMIT ?",
        (
            (1 << 62) if before is None else before,
            max(after, horizon(connection) - 1),
            limit,
        ),
    )
    return [seq for (seq,) in found]


def stands(connection: apsw.Connection, seq: int) -> bool | None:
    """Whether record `seq` is an operation that stands; None if there is no such record."""
    row = sql.first(connection, "SELECT standing FROM main._structmem_record WHERE seq = ?", (seq,))
    return bool(row[0]) if row else None


def kind_at(connection: apsw.Connection, seq: int) -> str | None:
    """The kind of operation of record `seq`; None if there is no such record."""
    row = sql.first(connection, "SELECT header FROM main._structmem_record WHERE seq = ?", (seq,))
    return decode_header(row[0]).kind if row else None


def all_standing(connection: apsw.Connection) -> list[int]:
    """The seq of every operation that stands, ascending: as stored, whatever the horizon."""
    found = sql.rows(connection, "SELECT seq FROM main._structmem_record WHERE standing")
    return sorted(seq for (seq,) in found)


# -- writing records -----------------------------------------------------------------------------


def append(connection: apsw.Connection, record: Record, header: Header, event: Event) -> None:
    """Store a record that has been checked to follow the head, and what it says of others."""
    sql.run(
        connection,
        "INSERT OR ABORT INTO main._structmem_record VALUES (?, ?, ?, ?)",
        (header.seq, record.header, record.digest, int(can_be_undone(event.effects))),
    )
    sql.run_many(
        connection,
        "INSERT OR ABORT INTO main._structmem_payload VALUES (?, ?)",
        _parts(header.seq, record.payload or b""),
    )
    if event.intent.call_id is not None:
        sql.run(
            connection,
            "INSERT OR ABORT INTO main._structmem_call VALUES (?, ?)",
            (event.intent.call_id, header.seq),
        )
    for effect in event.effects:
        _note(connection, effect)


def _parts(seq: int, payload: bytes) -> Iterator[tuple[int, memoryview]]:
    whole = memoryview(payload)
    for part, start in enumerate(range(0, len(payload), PAYLOAD_PART_BYTES)):
        yield seq * _PARTS + part, whole[start : start + PAYLOAD_PART_BYTES]


def can_be_undone(effects: Sequence[Effect]) -> bool:
    """Whether these are the effects of an operation, not of the history itself."""
    return not any(
        isinstance(effect, Undone | Redone | EpochBegan | Branched | Erased) for effect in effects
    )


def _note(connection: apsw.Connection, effect: Effect) -> None:
    """Effects that speak of the history itself."""
    match effect:
        case Undone(operations=operations):
            _set_standing(connection, operations, 0)
        case Redone(operations=operations):
            _set_standing(connection, operations, 1)
        case Expired(below=seq):
            _expire(connection, seq)
        case EpochBegan(epoch=number):
            set_meta(connection, "epoch", number)
        case _:
            pass


def _expire(connection: apsw.Connection, below: int) -> None:
    sql.run(
        connection,
        "UPDATE main._structmem_record SET standing = 0 WHERE seq >= ? AND seq < ? AND standing",
        (horizon(connection), below),
    )
    set_meta(connection, "horizon", below)


def _set_standing(connection: apsw.Connection, operations: Sequence[int], value: int) -> None:
    for seq in operations:
        sql.run(
            connection,
            "UPDATE main._structmem_record SET standing = ? WHERE seq = ?",
            (value, seq),
        )
