"""Every operation that a model can be granted: the one place that says what it is called, what it
takes, what a model is told about it, and what it does.

An operation is a struct of its arguments, whose class has the rest. `about` is made of sentences;
one that names an operation in backticks is told only to models that were granted that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypedDict, cast

from msgspec import Meta, Struct, field

from structmem import Column, Preview, WriteResult
from structmem.tools import shapes
from structmem.tools.json_values import from_json
from structmem.tools.schemas import schema_of
from structmem.tools.wording import quoted

if TYPE_CHECKING:
    from structmem import StructuredMemory


class How(Struct, frozen=True):
    """How a call is carried out: what bounds its result, in rows and in bytes of its JSON; and its
    idempotency key."""

    max_rows: int
    max_bytes: int
    call_id: str | None = None


class Noted(TypedDict):
    """What every write of the memory takes beside its own arguments."""

    reason: str | None
    call_id: str | None


class Sight(Struct, frozen=True):
    """What a person is shown of what a call would touch. `binds` are arguments that hold the call
    to exactly that."""

    rows_matched: int | None = None
    columns: Sequence[str] = ()
    sample: Sequence[Sequence[Any]] = ()
    notes: Sequence[str] = ()
    binds: dict[str, Any] | None = None


class Input(Struct, frozen=True, kw_only=True, rename="camel"):
    """The arguments of an operation."""

    operation: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    example: ClassVar[dict[str, Any]]
    read_only: ClassVar[bool] = False
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = False

    def run(self, memory: StructuredMemory, how: How, **binds: Any) -> Any:
        """Carry it out, and return what the model is told: a dict of JSON."""
        raise NotImplementedError

    def statement(self) -> str:
        """What it would do, in words."""
        raise NotImplementedError

    def rehearse(self, memory: StructuredMemory, how: How) -> WriteResult | None:
        """Raise what the call would raise, and change nothing. What a write would return."""
        raise NotImplementedError

    def sight(self, memory: StructuredMemory) -> Sight:
        """What it would touch, for a call that was rehearsed."""
        return Sight()

    def is_idle(self, sight: Sight) -> bool:
        """Whether it would do nothing, so that nobody needs to approve it."""
        return False


Table = Annotated[str, Meta(description="The table's name.")]
Index = Annotated[str, Meta(description="The index's name.")]
OpId = Annotated[str, Meta(description="An operation's id, such as op_42.")]
Where = Annotated[
    str,
    Meta(
        description="Which rows: one SQL expression over the table's columns, such as status = ? "
        'with its value in params; "true" means every row.'
    ),
]
Params = Annotated[
    list[Any] | dict[str, Any],
    Meta(description="Values for ? (an array) or :name (an object) in the SQL."),
]
Fields = Annotated[dict[str, Any], Meta(description="Column names and their values, never SQL.")]
ColumnFields = Annotated[
    dict[str, Any],
    Meta(
        description="A column: its name, and what else is said.",
        extra_json_schema=schema_of(Column),
    ),
]
"""Read by the memory, which tells more of what is wrong with one."""

Limit = Annotated[int, Meta(ge=1, le=200, description="How many, from 1 to 200; left out: 50.")]


# -- reads ---------------------------------------------------------------------------------------


class Reads(Input, frozen=True, kw_only=True):
    """An operation that changes nothing."""

    read_only = True
    idempotent = True

    def rehearse(self, memory: StructuredMemory, how: How) -> WriteResult | None:
        self.run(memory, how)
        return None


class Describe(Reads, frozen=True):
    operation = "describe"
    title = "Describe the tables"
    about = (
        "The schema: tables with their columns, indexes and descriptions, as CREATE statements. "
        "Call it before you first use the memory, and when a name is not found."
    )
    example = {}

    def run(self, memory: StructuredMemory, how: How, **binds: Any) -> Any:
        return shapes.of_schema(memory.describe(), how.max_bytes)

    def statement(self) -> str:
        return "Read the schema"


class Query(Reads, frozen=True):
    operation = "query"
    title = "Query with SQL"
    about = (
        "Run one SELECT statement (SQLite: joins, WITH, window functions, aggregates, json_each). "
        "It only reads. "
        "A long result is cut, and then says so: aggregate, or narrow with WHERE and LIMIT."
    )
    example = {
        "sql": "SELECT name, email FROM people WHERE city = ? ORDER BY name",
        "params": ["Paris"],
    }

    sql: Annotated[str, Meta(description="One SELECT; text goes in 'single' quotes.")]
    params: Params = []

    def run(self, memory: StructuredMemory, how: How, **binds: Any) -> Any:
        most = _JSON_SHORTER_MAX * how.max_bytes
        result = memory.query(self.sql, _values(self.params), max_rows=how.max_rows, max_bytes=most)
        return shapes.of_result_within(result, how.max_bytes)

    def statement(self) -> str:
        return f"Run the query {quoted(self.sql)}{_with(self.params)}"


class History(Reads, frozen=True):
    operation = "history"
    title = "List what can be undone"
    about = (
        "The operations that stand, newest first: what was done, by whom and why. "
        "`log` has undone ones as well."
    )
    example = {"limit": 10}

    limit: Limit = 50
    before: Annotated[str | None, Meta(description="Only those before this op, for more.")] = None

    def run(self, memory: StructuredMemory, how: How, **binds: Any) -> Any:
        found = memory.history(self.limit + 1, before=self.before)
        return shapes.of_operations(found, self.limit, how.max_bytes)

    def statement(self) -> str:
        return "List the operations that can be undone"


class Log(Reads, frozen=True):
    operation = "log"
    title = "Read the log"
    about = (
        "Every operation ever made, oldest first, undo and redo included; those that pass all "
        "filters. For the latest use `history`."
    )
    example = {"table": "people", "after": "op_40"}

    table: Annotated[str | None, Meta(description="Only those on this table.")] = None
    actor: Annotated[str | None, Meta(description="Only those by this actor.")] = None
    kind: Annotated[str | None, Meta(description="Only of this kind, such as update.")] = field(
        default=None, name="operation"
    )
    after: Annotated[str | None, Meta(description="Only those after this op, for more.")] = None
    limit: Limit = 50

    def run(self, memory: StructuredMemory, how: How, **binds: Any) -> Any:
        kind = self.kind
        found = memory.log(table=self.table, actor=self.actor, operation=kind, after=self.after)
        return shapes.of_operations(list(islice(found, self.limit + 1)), self.limit, how.max_bytes)

    def statement(self) -> str:
        return "Read the log"


# -- writes --------------------------------------------------------------------------------------


class Writes(Input, frozen=True, kw_only=True):
    """An operation that is journaled."""

    reason: Annotated[
        str | None, Meta(description="Why, in one sentence; it is kept with the change.")
    ] = None

    def run(self, memory: StructuredMemory, how: How, **binds: Any) -> Any:
        noted = Noted(reason=self.reason, call_id=how.call_id)
        return shapes.of_write_briefly(self.write(memory, noted, **binds))

    def rehearse(self, memory: StructuredMemory, how: How) -> WriteResult | None:
        return self.write(memory.rehearsal(), Noted(reason=self.reason, call_id=how.call_id))

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        raise NotImplementedError


class Insert(Writes, frozen=True):
    operation = "insert"
    title = "Insert rows"
    about = (
        "Add rows to a table: every one or, when one is refused, none. "
        "Columns that are left out take their default. "
        "Look with `query` whether what you add is there already."
    )
    example = {
        "table": "people",
        "rows": [{"name": "Ada Lovelace", "email": "ada@example.com"}],
        "reason": "The user introduced her.",
    }

    table: Table
    rows: Annotated[
        list[dict[str, Any]],
        Meta(description="Rows, each an object of column names and values, never SQL."),
    ]

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.insert(self.table, [_fields(row) for row in self.rows], **noted)

    def statement(self) -> str:
        return f"Insert {_count(len(self.rows), 'row')} into {quoted(self.table)}"

    def sight(self, memory: StructuredMemory) -> Sight:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        rows = [[row.get(name) for name in names] for row in self.rows[:_SAMPLE_ROWS]]
        fewer = any(len(row) < len(names) for row in self.rows[:_SAMPLE_ROWS])
        return Sight(len(self.rows), names, rows, notes=[_LEFT_OUT] if fewer else [])


class Update(Writes, frozen=True):
    operation = "update"
    title = "Update rows"
    about = (
        "Set columns to values in the rows for which a condition is true. "
        "Values are plain, never SQL: to compute new ones, read the old ones first."
    )
    example = {
        "table": "people",
        "set": {"city": "Turin"},
        "where": "email = ?",
        "params": ["ada@example.com"],
        "reason": "She moved.",
    }
    destructive = True

    table: Table
    set: Fields
    where: Where
    params: Params = []

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        fields, params = _fields(self.set), _values(self.params)
        return memory.update(self.table, fields, self.where, params, **binds, **noted)

    def statement(self) -> str:
        sets = ", ".join(f"{quoted(name)} to {quoted(value)}" for name, value in self.set.items())
        which = f"where {quoted(self.where)}{_with(self.params)}"
        return f"Update {quoted(self.table)}: set {sets} {which}"

    def sight(self, memory: StructuredMemory) -> Sight:
        return _rows(memory.preview("update", self.table, self.where, _values(self.params)))

    def is_idle(self, sight: Sight) -> bool:
        return sight.rows_matched == 0


class Delete(Writes, frozen=True):
    operation = "delete"
    title = "Delete rows"
    about = "Delete the rows for which a condition is true. `undo` brings them back."
    example = {
        "table": "people",
        "where": "email = ?",
        "params": ["ada@example.com"],
        "reason": "The user asked to forget her.",
    }
    destructive = True

    table: Table
    where: Where
    params: Params = []

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.delete(self.table, self.where, _values(self.params), **binds, **noted)

    def statement(self) -> str:
        which = f"where {quoted(self.where)}{_with(self.params)}"
        return f"Delete rows from {quoted(self.table)} {which}"

    def sight(self, memory: StructuredMemory) -> Sight:
        return _rows(memory.preview("delete", self.table, self.where, _values(self.params)))

    def is_idle(self, sight: Sight) -> bool:
        return sight.rows_matched == 0


class CreateTable(Writes, frozen=True):
    operation = "create_table"
    title = "Create a table"
    about = (
        "Make a table, for one kind of thing. "
        "Look with `describe` first whether one that fits is there already. "
        "Describe the table and its columns, for whoever reads them later."
    )
    example = {
        "table": "people",
        "columns": [
            {"name": "email", "type": "TEXT", "notNull": True, "unique": True},
            {"name": "name", "type": "TEXT"},
        ],
        "description": "People the user mentioned.",
    }

    table: Table
    columns: Annotated[
        list[ColumnFields],
        Meta(description='The columns, in order; each such as {"name": "email", "type": "TEXT"}.'),
    ]
    description: Annotated[str | None, Meta(description="What a row stands for.")] = None
    if_not_exists: Annotated[
        bool, Meta(description="Do nothing if the very same table is there.")
    ] = False

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.create_table(
            self.table,
            [_column(column) for column in self.columns],
            description=self.description,
            if_not_exists=self.if_not_exists,
            **noted,
        )

    def statement(self) -> str:
        columns = ", ".join(map(quoted, self.columns))
        about = f", described as {quoted(self.description)}" if self.description else ""
        unless = ", if it is not there" if self.if_not_exists else ""
        return f"Create the table {quoted(self.table)} with {columns}{about}{unless}"


class AddColumn(Writes, frozen=True):
    operation = "add_column"
    title = "Add a column"
    about = (
        "Add a column to a table, at the end. "
        "Rows that are there get its default, or null: so it cannot be a primary key, nor unique, "
        "nor notNull without a default."
    )
    example = {"table": "people", "column": {"name": "phone", "type": "TEXT"}}

    table: Table
    column: ColumnFields

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.add_column(self.table, _column(self.column), **noted)

    def statement(self) -> str:
        return f"Add the column {quoted(self.column)} to {quoted(self.table)}"


class CreateIndex(Writes, frozen=True):
    operation = "create_index"
    title = "Create an index"
    about = "Make look-ups by these columns fast; with unique, also refuse two equal rows."
    example = {"table": "people", "columns": ["city", "name"]}

    table: Table
    columns: Annotated[list[str], Meta(description="Column names, the most selective first.")]
    name: Annotated[str | None, Meta(description="Left out: made of table and columns.")] = None
    unique: Annotated[bool, Meta(description="Refuse a second row with equal values.")] = False

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.create_index(
            self.table, self.columns, name=self.name, unique=self.unique, **noted
        )

    def statement(self) -> str:
        kind = "a unique index" if self.unique else "an index"
        called = f" called {quoted(self.name)}" if self.name else ""
        return f"Create {kind}{called} on {quoted(self.table)} {quoted(self.columns)}"


class DropIndex(Writes, frozen=True):
    operation = "drop_index"
    title = "Drop an index"
    about = "Remove an index; no row changes. `describe` shows the indexes. `undo` makes it again."
    example = {"index": "people_city"}
    destructive = True

    index: Index

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.drop_index(self.index, **noted)

    def statement(self) -> str:
        return f"Drop the index {quoted(self.index)}"


class DropTable(Writes, frozen=True):
    operation = "drop_table"
    title = "Drop a table"
    about = "Remove a table with all its rows, indexes and triggers. `undo` brings everything back."
    example = {"table": "people_old", "reason": "Its rows were moved to people."}
    destructive = True

    table: Table

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.drop_table(self.table, **noted)

    def statement(self) -> str:
        return f"Drop the table {quoted(self.table)} with all its rows"

    def sight(self, memory: StructuredMemory) -> Sight:
        name = _identifier(self.table)
        count = memory.query(f"SELECT count(*) FROM {name}").scalar()
        rows = memory.query(f"SELECT * FROM {name} LIMIT {_SAMPLE_ROWS}")
        return Sight(cast("int", count), rows.columns, rows.rows)


class Execute(Writes, frozen=True):
    operation = "execute"
    title = "Execute any SQL"
    about = (
        "Run any SQL that changes rows or the schema, as one operation. "
        "It bypasses the permissions on all other operations: use it only for what no other tool "
        "can do, such as renaming a column, an update that computes, a view or a trigger."
    )
    example = {"sql": "UPDATE people SET name = trim(name)", "reason": "Tidy up."}
    destructive = True

    sql: Annotated[str, Meta(description="One statement with params, or several without.")]
    params: Params = []

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.execute(self.sql, _values(self.params), **noted)

    def statement(self) -> str:
        return f"Execute the SQL {quoted(self.sql)}{_with(self.params)}"


class Undo(Writes, frozen=True):
    operation = "undo"
    title = "Undo the latest operation"
    about = (
        "Take back the latest operation that stands, exactly; again for the one before. "
        "`history` lists them. `redo` takes it back in turn."
    )
    example = {"opId": "op_42", "reason": "The user said it was a mistake."}
    destructive = True

    op_id: Annotated[
        str | None,
        Meta(description="The op you mean: another one is then not undone by mistake."),
    ] = None

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.undo(**{"op_id": self.op_id, **binds}, **noted)

    def statement(self) -> str:
        return f"Undo {quoted(self.op_id) if self.op_id else 'the latest operation'}"

    def sight(self, memory: StructuredMemory) -> Sight:
        (latest,) = memory.history(1)
        notes = [f"The latest is {shapes.in_words(latest)}"]
        return Sight(notes=notes, binds={"op_id": latest.op_id})


class Redo(Writes, frozen=True):
    operation = "redo"
    title = "Redo what was undone"
    about = "Do again what the latest `undo` took back. Possible until the next change."
    example = {}
    destructive = True

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.redo(**noted)

    def statement(self) -> str:
        return "Do again what the latest undo took back"

    def sight(self, memory: StructuredMemory) -> Sight:
        last = memory.position().seq
        records = memory.log(after=f"op_{last - 1}" if last > 1 else None)
        return Sight(notes=[f"The latest record is {shapes.in_words(each)}" for each in records])


class RevertTo(Writes, frozen=True):
    operation = "revert_to"
    title = "Go back to an earlier operation"
    about = (
        "Undo every operation after one, all at once: the memory is then as it was right after it. "
        "`history` lists them."
    )
    example = {"opId": "op_12", "reason": "The import was wrong."}
    destructive = True

    op_id: OpId

    def write(self, memory: StructuredMemory, noted: Noted, **binds: Any) -> WriteResult:
        return memory.revert_to(self.op_id, **noted)

    def statement(self) -> str:
        return f"Undo every operation after {quoted(self.op_id)}"

    def sight(self, memory: StructuredMemory) -> Sight:
        latest = memory.history(_OPERATIONS_READ)
        later = list(takewhile(lambda each: each.op_id != self.op_id, latest))
        more = " or more" if len(later) == _OPERATIONS_READ else ""
        listed = "; ".join(map(shapes.in_words, later[:_OPERATIONS_SHOWN]))
        return Sight(notes=[f"That is {_count(len(later), 'operation')}{more}: {listed or 'none'}"])


ALL: Final[tuple[type[Input], ...]] = (
    Describe,
    Query,
    CreateTable,
    AddColumn,
    CreateIndex,
    DropIndex,
    DropTable,
    Insert,
    Update,
    Delete,
    Execute,
    Undo,
    Redo,
    RevertTo,
    History,
    Log,
)

_JSON_SHORTER_MAX: Final = 4
"""A query counts a number for eight bytes; its JSON has two at least, with the comma."""

_SAMPLE_ROWS: Final = 5
_LEFT_OUT: Final = "A column that a row leaves out is shown as null, and takes its default"
_OPERATIONS_SHOWN: Final = 10
_OPERATIONS_READ: Final = 200


def _rows(preview: Preview) -> Sight:
    binds = {"expect": preview.token}
    return Sight(preview.rows_matched, preview.columns, preview.sample, binds=binds)


def _identifier(name: str) -> str:
    """In backticks, which SQLite takes for nothing but a name."""
    return "`" + name.replace("`", "``") + "`"


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {name: from_json(value) for name, value in row.items()}


def _values(params: list[Any] | dict[str, Any]) -> list[Any] | dict[str, Any]:
    return _fields(params) if isinstance(params, dict) else [from_json(each) for each in params]


def _column(column: dict[str, Any]) -> dict[str, Any]:
    """Without the nulls by which models leave something out."""
    kept = {name: each for name, each in column.items() if each is not None}
    return kept | {"default": from_json(kept["default"])} if "default" in kept else kept


def _with(params: list[Any] | dict[str, Any]) -> str:
    return f" with {quoted(params)}" if params else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
