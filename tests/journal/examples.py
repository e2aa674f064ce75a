"""Records to test with: small, fixed, one event for every kind of effect."""

from collections.abc import Sequence
from typing import Final

from structmem_journal import (
    START,
    Branched,
    Effect,
    EpochBegan,
    Erased,
    Event,
    Expired,
    Header,
    Hidden,
    Intent,
    Outcome,
    Position,
    Record,
    Redone,
    RowsChanged,
    SchemaChanged,
    SequenceChanged,
    Shown,
    Undone,
    Updated,
    encode_payload,
    link,
)

SALT: Final = bytes(range(16))
AT_US: Final = 1_700_000_000_000_000
PARENT: Final = f"7:{'ab' * 32}"

EVENTS: Final[dict[str, Event]] = {
    "rows": Event(
        Intent(
            operation="update",
            table="people",
            arguments={"where": "name = ?", "params": ["Ada", None, 1, 0.5, b"\xff"]},
            reason="She moved.",
            actor="crm-agent",
            approved_by="grace",
            call_id="run-1/call-2",
        ),
        [
            RowsChanged(
                table="people",
                columns=["id", "name", "note"],
                deleted=[[1, 1, "Bob", b""], [2, 2, "nul\0inside", None]],
                updated=[
                    Updated([1], [[3, "ada", "Ada"]]),
                    Updated([1, 2], [[4, 1, -0.0, 1.0, 0.0], [5, "é", b"x", "\0", None]]),
                ],
                inserted=[
                    [-(2**63), -(2**63), 5e-324, float("inf")],
                    [2**63 - 1, 2**63 - 1, float("-inf"), b"\x00\xff"],
                ],
            )
        ],
        Outcome(rows_changed=3, rowids=[(3, 3)], warnings=["column 'name': '007' is stored as 7"]),
    ),
    "schema": Event(
        Intent("create_table", table="people"),
        [
            SchemaChanged(
                kind="table",
                name="people",
                table="people",
                after='CREATE TABLE "people" ( -- Who we met.\n  "name" TEXT\n)',
            ),
            SchemaChanged(
                kind="index",
                name="old",
                table="people",
                before='CREATE INDEX "old" ON "people" ("name")',
            ),
        ],
    ),
    "sequence": Event(
        Intent("execute", arguments={"sql": "DELETE FROM sqlite_sequence"}),
        [
            SequenceChanged("people", before=None, after=0),
            SequenceChanged("tasks", before=2**63 - 1, after=None),
        ],
    ),
    "hidden": Event(
        Intent("drop_table", table="people"),
        [Hidden("people", store="_structmem_hidden_7", columns=["id", "name"])],
    ),
    "shown": Event(
        Intent("undo"),
        [Shown("people", store="_structmem_hidden_7", columns=["id", "name"])],
    ),
    "undone": Event(Intent("revert_to"), [Undone([9, 8, 7])]),
    "redone": Event(Intent("redo"), [Redone([7, 8, 9])]),
    "expired": Event(
        Intent("insert", table="people"),
        [Expired(below=7, stores=["_structmem_hidden_3", "_structmem_hidden_5"])],
    ),
    "epoch": Event(Intent("promote"), [EpochBegan(epoch=2, writer="0f" * 16)]),
    "branch": Event(Intent("recover"), [Branched(parent="c0" * 16, position=PARENT)]),
    "erased": Event(
        Intent("erase", table="people"),
        [Erased("people", rowids=[-1, 4], records=[2, 3])],
    ),
    "empty": Event(Intent("update", table="people"), outcome=Outcome(rows_changed=2)),
}
"""By the tag of the effect that each is about. In `empty` rows matched and no value changed."""


def record_of(event: Event, before: Position = START, *, at_us: int = AT_US) -> Record:
    """The record of `event` after `before`, with a fixed salt, in epoch 1."""
    payload = encode_payload(event, SALT)
    return link(before, payload=payload, kind=event.intent.operation, at_us=at_us, epoch=1)


def position_of(header: Header, record: Record) -> Position:
    return Position(header.seq, record.digest)


def chain_of(events: Sequence[Event] = tuple(EVENTS.values())) -> list[Record]:
    """The records of `events`, linked from the start, one microsecond apart."""
    records: list[Record] = []
    before = START
    for seq, event in enumerate(events, start=1):
        records.append(record_of(event, before, at_us=AT_US + seq))
        before = Position(seq, records[-1].digest)
    return records


def with_effects(*effects: Effect) -> Event:
    return Event(Intent("execute"), list(effects))
