"""What calls take and return: plain values, without behaviour that touches a file."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, field

from structmem_journal import Position, Value

_ACTION: Final = Meta(
    description="NO ACTION (the default), RESTRICT, SET NULL, SET DEFAULT or CASCADE."
)


class Reference(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A foreign key: the value must exist in `column` of `table`."""

    table: str
    column: Annotated[str, Meta(description="A primary key, or unique.")]
    on_delete: Annotated[str | None, _ACTION] = None
    on_update: Annotated[str | None, _ACTION] = None


class Column(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A column to create. Without a `type` it keeps every value exactly as given."""

    name: str
    type: Annotated[
        str | None, Meta(description="TEXT, INTEGER, REAL or BLOB; left out: any value, as given.")
    ] = None
    primary_key: bool = False
    not_null: bool = False
    unique: bool = False
    default: Annotated[Any, Meta(description="A value, never SQL.")] = UNSET
    description: Annotated[str | None, Meta(description="What the column means.")] = None
    references: Annotated[
        Reference | None, Meta(description="A foreign key: the value must exist there.")
    ] = None


class Touched(Struct, frozen=True):
    """How many rows of a table differ. One whose rowid changed was deleted and inserted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


class WriteResult(Struct, frozen=True):
    """What a write did.

    `op_id` and `position` name the record; both are None when nothing was there to change, and
    then no record was written. `rows_changed` counts the rows the call named (for update and
    delete: matched), without cascades. `rowids` are those rows, in the order given or found.
    `repeated` is true when this call id had been carried out before: then nothing ran now.
    """

    op_id: str | None
    position: Position | None
    rows_changed: int = 0
    rowids: list[int] = field(default_factory=list[int])
    warnings: list[str] = field(default_factory=list[str])
    repeated: bool = False
    operations: list[str] = field(default_factory=list[str])
    """For undo: the operations taken back."""


class Rehearsed(WriteResult, frozen=True):
    """What a write would do, as a rehearsal found. `touched` counts the rows of each table that
    would differ, those that triggers, foreign keys and conflict clauses change among them."""

    touched: dict[str, Touched] = field(default_factory=dict[str, Touched])


class Preview(Struct, frozen=True):
    """What an update or delete would touch.

    `sample` has up to five of the rows, each a tuple of the values of `columns`, by ascending
    rowid. `token` stands for the operation, its condition, and every matching row with its values.
    """

    operation: str
    table: str
    rows_matched: int
    columns: list[str]
    sample: list[tuple[Value, ...]]
    token: str


class QueryResult(Struct, frozen=True):
    """Rows as SQLite returned them: a list of tuples, in order. `truncated` is true when
    `max_rows` or `max_bytes` cut the rest off. Two columns may have the same name."""

    columns: list[str]
    rows: list[tuple[Value, ...]]
    truncated: bool = False

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def dicts(self) -> list[dict[str, Value]]:
        """Each row as a mapping by column name. Raises `ValueError` when two columns share one."""
        if len(set(self.columns)) != len(self.columns):
            raise ValueError(f"two columns share a name: {self.columns}; use .rows, or AS")
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def scalar(self) -> Value:
        """The value of a result that is one row of one column; `ValueError` for any other."""
        if len(self.rows) != 1 or len(self.columns) != 1:
            raise ValueError(f"not one value: {len(self.rows)} rows of {len(self.columns)} columns")
        return self.rows[0][0]


class Operation(Struct, frozen=True):
    """One operation of the journal. `at` is aware, in UTC."""

    op_id: str
    operation: str
    table: str | None
    reason: str | None
    rows_changed: int
    at: datetime
    actor: str | None
    approved_by: str | None
    call_id: str | None


class VerifyReport(Struct, frozen=True):
    """What `verify` found to be true, up to `position`.

    `records` counts the records whose chain was checked. The rest is there after a deep check:
    `tables` and `rows` compared with a replay, and `content`, the SHA-256 (hex) over the schema
    text and every row. Equal memories have equal content, on any host.
    """

    position: Position
    records: int
    tables: int | None = None
    rows: int | None = None
    content: str | None = None


class Size(Struct, frozen=True):
    """What takes the room of a memory, in bytes, at one moment.

    `tables` has each table of the user's, by name, with its indexes. `journal` is what keeps the
    records, `hidden` the rows of dropped tables. `free` are pages that later writes use again.
    `overhead` is SQLite's own: the schema, counters, statistics, its map of pages. All of these
    together are `file`: the size of the file once the log has moved into it. `write_ahead_log` is
    that of the log beside it, which holds newer copies of pages.
    """

    tables: Mapping[str, int]
    journal: int
    hidden: int
    free: int
    overhead: int
    file: int
    write_ahead_log: int


Parameters = Sequence[Any] | Mapping[str, Any]
"""Values for `?` (a sequence) or `:name` (a mapping) in SQL text."""


def op_id_of(seq: int) -> str:
    return f"op_{seq}"
