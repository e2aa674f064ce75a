"""What happened, as a caller sees it; and taking it back, or doing it again.

An undo puts the effects of operations in place turned around, the newest first, and is itself a
record. A redo does the same to the record of an undo. So both go the way that replicas go, and
neither decides anything.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from structmem import foreign_keys, log
from structmem.errors import CannotUndo, InvalidCall, NothingToUndo, shown
from structmem.identifiers import fold
from structmem.misfits import Misfit
from structmem.results import Operation, op_id_of
from structmem.writing import Change, Transaction
from structmem_journal import (
    Effect,
    Event,
    Header,
    Record,
    Undone,
    decode_header,
    decode_payload,
    inverse,
)

_OP_ID: Final = re.compile(r"op_([1-9][0-9]{0,17})")
_UNDOING: Final = ("undo", "revert_to")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def operation_of(record: Record) -> Operation:
    """A record as the caller sees it. Of an erased one only the header is left."""
    header = decode_header(record.header)
    event = decode_payload(record.payload) if record.payload is not None else None
    return _operation(header, event)


def _operation(header: Header, event: Event | None) -> Operation:
    intent = event.intent if event else None
    return Operation(
        op_id=op_id_of(header.seq),
        operation=header.kind,
        table=intent.table if intent else None,
        reason=intent.reason if intent else None,
        rows_changed=event.outcome.rows_changed if event else 0,
        at=_EPOCH + timedelta(microseconds=header.at_us),
        actor=intent.actor if intent else None,
        approved_by=intent.approved_by if intent else None,
        call_id=intent.call_id if intent else None,
    )


def parse_op_id(op_id: object) -> int:
    """The seq in `op_<seq>`. Raises `InvalidCall` for anything else."""
    found = _OP_ID.fullmatch(op_id) if isinstance(op_id, str) else None
    if found is not None:
        return int(found[1])
    raise InvalidCall(
        f"{shown(op_id)} is no operation id.", hint="They look like 'op_42'; see `history`."
    )


def to_undo(tx: Transaction, wanted: int | None) -> int:
    """The seq of the latest operation that stands. Raises `CannotUndo` if another is `wanted`."""
    latest = _latest(tx)
    if latest is None:
        raise NothingToUndo("No operation stands that could be undone.")
    if wanted is None or wanted == latest:
        return latest
    _check_stands(tx, wanted)
    raise CannotUndo(
        f"{op_id_of(wanted)} is not the latest operation that stands: {op_id_of(latest)} is.",
        hint=f"Undo that one first; `revert_to` undoes all after {op_id_of(wanted)} at once.",
    )


def to_revert(tx: Transaction, target: int) -> list[int]:
    """The seq of all operations that stand after `target`, newest first. Raises `CannotUndo` unless
    that one stands."""
    _check_stands(tx, target)
    return log.standing(tx.connection, after=target)


def to_redo(tx: Transaction) -> int:
    """The seq of the latest undo that was not redone. Raises `NothingToUndo` if anything else was
    done since."""
    redone = 0
    for seq in range(tx.position.seq, 0, -1):
        kind = log.kind_at(tx.connection, seq)
        if kind == "redo":
            redone += 1
        elif kind not in _UNDOING:
            break
        elif redone:
            redone -= 1
        else:
            return seq
    raise NothingToUndo(
        "There is nothing to redo.", hint="An undo can be redone until the next write."
    )


def undo(tx: Transaction, seqs: Sequence[int]) -> Change:
    """Put every row and schema text back as it was before these operations, newest first.

    Raises `CannotUndo` when the memory no longer holds what they left.
    """
    effects: list[Effect] = []
    rows = 0
    events = [_event(tx, seq) for seq in seqs]
    for seq, event in zip(seqs, events, strict=True):
        put_back, changed = _put_back(tx, seq, event, "undone")
        effects += put_back
        rows += changed
    table = events[0].intent.table if len(events) == 1 else None
    return Change(rows, effects=[*effects, Undone([*seqs])], table=table)


def redo(tx: Transaction, seq: int) -> Change:
    """Do again what the undo `seq` took back. Raises `CannotUndo`."""
    event = _event(tx, seq)
    effects, rows = _put_back(tx, seq, event, "taken back")
    return Change(rows, effects=effects, table=event.intent.table)


def _latest(tx: Transaction) -> int | None:
    return next(iter(log.standing(tx.connection, limit=1)), None)


def _check_stands(tx: Transaction, seq: int) -> None:
    stands = log.stands(tx.connection, seq)
    if stands:
        return
    if stands is None:
        raise CannotUndo(f"There is no operation {op_id_of(seq)}.", hint="See `history`.")
    expired = seq < log.horizon(tx.connection)
    why = "is beyond the horizon of the history" if expired else "does not stand"
    raise CannotUndo(f"{op_id_of(seq)} {why}.", hint="See `history` for those that stand.")


def _event(tx: Transaction, seq: int) -> Event:
    record = log.record_at(tx.connection, seq)
    if record is None or record.payload is None:
        raise CannotUndo(f"The content of {op_id_of(seq)} was erased; it cannot be undone.")
    return decode_payload(record.payload)


def _put_back(tx: Transaction, seq: int, event: Event, what: str) -> tuple[list[Effect], int]:
    """The effects that did it, and how many rows they changed."""
    effects = inverse(event.effects)
    try:
        rows = tx.replay(effects)
    except Misfit as misfit:
        raise CannotUndo(
            f"{op_id_of(seq)} cannot be {what} exactly. {misfit}.",
            hint="Something other than structmem changed the file; run `verify` with deep=True.",
        ) from misfit
    dangling = foreign_keys.dangling(tx.connection, effects)
    if dangling is not None:
        raise CannotUndo(
            f"{op_id_of(seq)} cannot be {what}: afterwards {dangling}.",
            hint="Change or delete that row first.",
        )
    return effects, rows


def matching(
    operations: Iterator[Operation],
    *,
    table: str | None,
    actor: str | None,
    operation: str | None,
    since: datetime | None,
    until: datetime | None,
) -> Iterator[Operation]:
    """Those operations that pass every filter given; times are inclusive."""
    wanted = None if table is None else fold(table)
    for one in operations:
        if (
            (wanted is None or (one.table is not None and fold(one.table) == wanted))
            and (actor is None or one.actor == actor)
            and (operation is None or one.operation == operation)
            and (since is None or one.at >= since)
            and (until is None or one.at <= until)
        ):
            yield one
