"""What happened, as values: one event for each operation that changed the memory.

An event is an *intent* (what was asked, by whom, why) and an ordered list of *effects* (what that
did to the file). Replaying needs the effects alone; nothing is decided again, so no default,
trigger or random function runs a second time. Undoing needs the effects alone too: `inverse` turns
the list around.

Rules:

- Effects are few and general, so that a new operation needs no new format: undo, revert, and SQL
  run by `execute` are made of the same effects as an insert.
- Fields are only ever added, each with a default. A kind that a reader does not know stops it.
- Effects stand in the order in which they are applied; their inverse in the opposite order.
- A row effect is *net*: for each row at most one entry, and never one that changes nothing.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from msgspec import Struct

from structmem_journal.limits import Count, Epoch, Integer, Seq

Value: TypeAlias = int | float | str | bytes | None
"""What SQLite stores in one cell: NULL, a 64-bit integer, a float, text or a blob."""

Row: TypeAlias = list[Any]
"""`[rowid, value, value, …]`, each a `Value`, in the order of the effect's `columns`. (msgspec does
not decode a union of text and bytes, so the codec checks the items itself.)"""


class Updated(Struct, frozen=True, array_like=True):
    """Rows of one table in which the same columns changed.

    `changed` holds indexes into the effect's `columns`, ascending. Each row is
    `[rowid, *before, *after]`, with `len(changed)` values on either side.
    """

    changed: list[int]
    rows: list[Row]


class RowsChanged(Struct, frozen=True, tag="rows", omit_defaults=True):
    """The net change to the rows of one table.

    Rows are identified by rowid. `deleted` and `inserted` hold whole rows, `updated` only the
    columns that changed. Within each list rows stand in ascending order of rowid.
    """

    table: str
    columns: list[str]
    deleted: list[Row] = []
    updated: list[Updated] = []
    inserted: list[Row] = []

    @property
    def row_count(self) -> int:
        """How many rows differ."""
        return len(self.deleted) + len(self.inserted) + sum(len(u.rows) for u in self.updated)


class SchemaChanged(Struct, frozen=True, tag="schema", omit_defaults=True):
    """One schema object, by the exact text SQLite keeps of it; None where it does not exist.

    `kind` is `table`, `index`, `view` or `trigger`; `table` is the table it belongs to. The rows
    of a table that is dropped stand in an effect before this one, or were hidden by one. A table
    with both texts was redefined: its rows, indexes and triggers stay, columns keep their values by
    name, and a column that only one text has holds its default in every row.
    """

    kind: str
    name: str
    table: str
    before: str | None = None
    after: str | None = None


class SequenceChanged(Struct, frozen=True, tag="sequence", omit_defaults=True):
    """The AUTOINCREMENT counter of a table; it can move without any change to a row."""

    table: str
    before: Integer | None = None
    after: Integer | None = None


class Hidden(Struct, frozen=True, tag="hidden"):
    """The rows of `table` were set aside in a plain table `store`, rowids kept, so that a dropped
    table can come back without its rows standing in the journal."""

    table: str
    store: str
    columns: list[str]


class Shown(Struct, frozen=True, tag="shown"):
    """The opposite of `Hidden`: the rows went from `store` back to `table`."""

    table: str
    store: str
    columns: list[str]


class Undone(Struct, frozen=True, tag="undone"):
    """These operations no longer stand. `operations` holds their seq, newest first."""

    operations: list[Seq]


class Redone(Struct, frozen=True, tag="redone"):
    """These operations stand again. `operations` holds their seq, oldest first."""

    operations: list[Seq]


class Expired(Struct, frozen=True, tag="expired"):
    """The horizon of the history moved: no operation below the seq `below` stands any more, and the
    `stores` that only those could bring back are gone."""

    below: Seq
    stores: list[str] = []


class EpochBegan(Struct, frozen=True, tag="epoch"):
    """From this record on `writer` (a random id of the node) is the memory's only writer."""

    epoch: Epoch
    writer: str


class Branched(Struct, frozen=True, tag="branch"):
    """This memory begins as a copy of another one, as that stood at a position."""

    parent: str
    position: str


class Erased(Struct, frozen=True, tag="erased"):
    """Receipt: these rows were deleted for good, and the payloads of these records blanked."""

    table: str
    rowids: list[Integer]
    records: list[Seq]


Effect: TypeAlias = (
    RowsChanged
    | SchemaChanged
    | SequenceChanged
    | Hidden
    | Shown
    | Undone
    | Redone
    | Expired
    | EpochBegan
    | Branched
    | Erased
)
"""Everything that a record can say was done."""


class Intent(Struct, frozen=True, omit_defaults=True):
    """What was asked for. `arguments` holds what the effects do not show: a condition, its
    parameters, the SQL of `execute`; values in it are what MessagePack can carry. `call_digest` is
    SHA-256 over the payload's salt and *all* arguments, to tell a repeated call from a reused id.
    """

    operation: str
    table: str | None = None
    arguments: dict[str, Any] = {}
    reason: str | None = None
    actor: str | None = None
    approved_by: str | None = None
    call_id: str | None = None
    call_digest: bytes | None = None


class Outcome(Struct, frozen=True, omit_defaults=True):
    """What the caller was told, kept so that a repeated call gets the same answer.

    `rowids` are runs `[first, count]` in the order in which they were returned.
    """

    rows_changed: int = 0
    rowids: list[tuple[Integer, Count]] = []
    warnings: list[str] = []


class Event(Struct, frozen=True, omit_defaults=True):
    """One operation: what was asked, what it did to the file, what the caller was told."""

    intent: Intent
    effects: list[Effect] = []
    outcome: Outcome = Outcome()


def inverse(effects: Sequence[Effect]) -> list[Effect]:
    """The effects that take `effects` back, in the order in which to apply them.

    What expired on the way stays expired. Other effects about the history rather than the data (an
    epoch, a branch, an erasure) have no inverse; asking for one raises `ValueError`.
    """
    return [_inverse_of(e) for e in reversed(effects) if not isinstance(e, Expired)]


def _inverse_of(effect: Effect) -> Effect:
    match effect:
        case RowsChanged():
            return RowsChanged(
                table=effect.table,
                columns=effect.columns,
                deleted=effect.inserted,
                updated=[_swap_images(updated) for updated in effect.updated],
                inserted=effect.deleted,
            )
        case SchemaChanged(kind=kind, name=name, table=table, before=before, after=after):
            return SchemaChanged(kind=kind, name=name, table=table, before=after, after=before)
        case SequenceChanged(table=table, before=before, after=after):
            return SequenceChanged(table=table, before=after, after=before)
        case Hidden(table=table, store=store, columns=columns):
            return Shown(table=table, store=store, columns=columns)
        case Shown(table=table, store=store, columns=columns):
            return Hidden(table=table, store=store, columns=columns)
        case Undone(operations=operations):
            return Redone(operations=operations[::-1])
        case Redone(operations=operations):
            return Undone(operations=operations[::-1])
        case Expired() | EpochBegan() | Branched() | Erased():
            raise ValueError(f"{type(effect).__name__} cannot be taken back")
        case _:
            assert_never(effect)


def _swap_images(updated: Updated) -> Updated:
    middle = 1 + len(updated.changed)
    rows = [[row[0], *row[middle:], *row[1:middle]] for row in updated.rows]
    return Updated(updated.changed, rows)


def runs_of(rowids: Sequence[int]) -> list[tuple[int, int]]:
    """Encode rowids as runs `(first, count)` of consecutive numbers, order kept."""
    runs: list[tuple[int, int]] = []
    first = count = 0
    for rowid in rowids:
        if count and rowid == first + count:
            count += 1
        else:
            if count:
                runs.append((first, count))
            first, count = rowid, 1
    if count:
        runs.append((first, count))
    return runs


def rowids_of(runs: Sequence[tuple[int, int]]) -> list[int]:
    """The rowids that `runs_of` encoded."""
    return [rowid for first, count in runs for rowid in range(first, first + count)]
