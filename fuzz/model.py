"""What a memory is, in plain dictionaries: tables of rows, and the states that undo goes back to.

It knows nothing of SQLite or of the engine. Columns have no type, so that a value comes back as it
went in. A new row gets the rowid after the largest.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from msgspec import Struct, field

Row = dict[str, Any]


class Refused(Exception):
    """A rule of the schema, or nothing there to do it to."""


class Column(Struct, frozen=True):
    name: str
    unique: bool = False
    not_null: bool = False
    default: Any = None


class Table(Struct):
    columns: dict[str, Column]
    rows: dict[int, Row] = field(default_factory=dict[int, Row])


class Index(Struct, frozen=True):
    table: str
    columns: tuple[str, ...]
    unique: bool


class State(Struct):
    """All that a memory holds at one moment."""

    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    indexes: dict[str, Index] = field(default_factory=dict[str, Index])

    # -- schema ----------------------------------------------------------------------------------

    def create_table(self, name: str, columns: Iterable[Column]) -> None:
        if name in self.tables:
            raise Refused(name)
        self.tables[name] = Table({column.name: column for column in columns})

    def add_column(self, table: str, column: Column) -> None:
        there = self.table(table)
        lacks_value = column.not_null and column.default is None and there.rows
        if column.name in there.columns or lacks_value:
            raise Refused(column)
        there.columns[column.name] = column
        for row in there.rows.values():
            row[column.name] = column.default

    def drop_table(self, name: str) -> None:
        self.table(name)
        del self.tables[name]
        self.indexes = {n: index for n, index in self.indexes.items() if index.table != name}

    def create_index(self, name: str, index: Index) -> None:
        if name in self.indexes or not self.table(index.table).columns.keys() >= {*index.columns}:
            raise Refused(index)
        self.indexes[name] = index
        self._check(index.table)

    def drop_index(self, name: str) -> None:
        if self.indexes.pop(name, None) is None:
            raise Refused(name)

    def rename_table(self, name: str, to: str) -> None:
        if to in self.tables:
            raise Refused(to)
        self.tables[to] = self.table(name)
        del self.tables[name]
        self.indexes = {
            n: Index(to, index.columns, index.unique) if index.table == name else index
            for n, index in self.indexes.items()
        }

    # -- rows ------------------------------------------------------------------------------------

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        there = self.table(table)
        for row in rows:
            if not row.keys() <= there.columns.keys():
                raise Refused(row)
            values = {name: row.get(name, c.default) for name, c in there.columns.items()}
            there.rows[max(there.rows, default=0) + 1] = values
        self._check(table)

    def update(self, table: str, fields: Row, matches: Callable[[int, Row], bool]) -> int:
        """How many rows it met, changed or not."""
        there = self.table(table)
        if not fields.keys() <= there.columns.keys():
            raise Refused(fields)
        met = [row for rowid, row in there.rows.items() if matches(rowid, row)]
        for row in met:
            row |= fields
        self._check(table)
        return len(met)

    def delete(self, table: str, matches: Callable[[int, Row], bool]) -> None:
        there = self.table(table)
        there.rows = {i: row for i, row in there.rows.items() if not matches(i, row)}

    def table(self, name: str) -> Table:
        if name not in self.tables:
            raise Refused(name)
        return self.tables[name]

    def _check(self, name: str) -> None:
        """The rules of the schema hold for every row."""
        table = self.tables[name]
        for column in table.columns.values():
            if column.not_null and any(r[column.name] is None for r in table.rows.values()):
                raise Refused(column)
        keys = [(c.name,) for c in table.columns.values() if c.unique]
        keys += [i.columns for i in self.indexes.values() if i.unique and i.table == name]
        for key in keys:
            values = [tuple(row[c] for c in key) for row in table.rows.values()]
            whole = [value for value in values if None not in value]
            if len(set(whole)) < len(whole):
                raise Refused(key)


Change = Callable[[State], int | None]
"""Changes the state, and tells how many rows it met, if it is about rows that are there."""


class Model:
    """A memory and its history. `kept` is how many operations can be undone, None for all."""

    def __init__(self, kept: int | None) -> None:
        self.state = State()
        self.kept = kept
        self.before: list[State] = []
        """The state before each operation that stands and can be undone, the oldest first."""
        self._undone: list[list[State]] = []
        self.has_forgotten = False

    def do(self, change: Change) -> bool:
        """Whether it is an operation: it met rows, or changed anything. Raises `Refused`, and then
        nothing has changed."""
        after = deepcopy(self.state)
        met = change(after)
        if not met and told(after) == told(self.state):
            return False
        self.before.append(self.state)
        self.state = after
        self._undone.clear()
        if self.kept is not None and len(self.before) > self.kept:
            del self.before[0]
            self.has_forgotten = True
        return True

    def undo(self, count: int = 1) -> None:
        """Take the last `count` operations back, as one step for `redo`."""
        if not 1 <= count <= len(self.before):
            raise Refused(count)
        self._undone.append([*self.before[-count:], self.state])
        self.state = self.before[-count]
        del self.before[-count:]

    @property
    def can_redo(self) -> bool:
        return bool(self._undone)

    def redo(self) -> None:
        if not self._undone:
            raise Refused
        *before, after = self._undone.pop()
        self.before += before
        self.state = after


def told(state: State) -> dict[str, Any]:
    """The state in a form that tells 1 from 1.0, and 0.0 from -0.0."""
    tables = {
        name: ([*table.columns], {i: repr([*row.values()]) for i, row in table.rows.items()})
        for name, table in state.tables.items()
    }
    return {"tables": tables, "indexes": {n: i.table for n, i in state.indexes.items()}}
