"""What happened, as a caller sees it; and taking the last of it back."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from structmem import foreign_keys, log
from structmem.errors import CannotUndo, InvalidCall, NothingToUndo, shown
from structmem.identifiers import fold
from structmem.misfits import Misfit
from structmem.results import Operation, op_id_of
from structmem.writing import Change, Transaction
from structmem_journal import (
    Event,
    Header,
    Record,
    RowsChanged,
    Undone,
    decode_header,
    decode_payload,
    inverse,
)

_OP_ID: Final = re.compile(r"op_([1-9][0-9]{0,17})")
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
        f"{shown(op_id)} is no operation id.", hint="They look like 'op_42'; see history."
    )


def to_undo(tx: Transaction, wanted: int | None) -> int:
    """The seq of the latest operation that stands. Raises `CannotUndo` if another is `wanted`."""
    latest = next(iter(log.standing(tx.connection, before=None, limit=1)), None)
    if latest is None:
        raise NothingToUndo("No operation stands that could be undone.")
    if wanted is not None and wanted != latest:
        raise CannotUndo(
            f"{op_id_of(wanted)} is not the latest operation that stands: {op_id_of(latest)} is.",
            hint="Undo that one first.",
        )
    return latest


def undo(tx: Transaction, seq: int) -> Change:
    """Put every row and schema text back as it was before operation `seq`.

    Raises `CannotUndo` when the memory no longer holds what the operation left.
    """
    record = log.record_at(tx.connection, seq)
    if record is None or record.payload is None:
        raise CannotUndo(f"The content of {op_id_of(seq)} was erased; it cannot be undone.")
    event = decode_payload(record.payload)
    effects = inverse(event.effects)
    try:
        tx.replay(effects)
    except Misfit as misfit:
        raise CannotUndo(
            f"{op_id_of(seq)} cannot be undone exactly. {misfit}.",
            hint="The file was changed by something other than structmem; run verify(deep=True).",
        ) from misfit
    dangling = foreign_keys.dangling(tx.connection, effects)
    if dangling is not None:
        raise CannotUndo(f"{op_id_of(seq)} cannot be undone: afterwards {dangling}.")
    rows = sum(effect.row_count for effect in effects if isinstance(effect, RowsChanged))
    return Change(
        rows_changed=rows,
        effects=[*effects, Undone([seq])],
        table=event.intent.table,
    )


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
