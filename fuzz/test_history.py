"""Any history of operations: what is live, what a replay gives and what a replica has are equal.

Invariants checked:

- After each operation the chain verifies, and a replay from the start equals the live memory: every
  table, row, rowid, storage class, counter and schema text, and the order in which triggers fire
  (`verify(deep=True)`). The order of tables and indexes among themselves is not promised.
- A replica that is given the records in batches of random size, some of them twice, equals it too.
- Undo equals before: a full dump after an undo is the dump from before the operation. Redo equals
  after, revert_to equals what was there then. Undoing everything gives an empty memory.
- With a horizon as many operations can be undone as it says, and no more; what dropped tables held
  is kept exactly as long.
- An operation that is refused changes nothing, not even the journal.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import apsw
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from structmem import (
    CannotUndo,
    Column,
    InvalidCall,
    NothingToUndo,
    Reference,
    StructuredMemory,
    WriteResult,
    open_replica,
    sql,
    stores,
)
from structmem.identifiers import quote

from .scripts import Names, scripts

T = TypeVar("T")

# Few values, so that they collide and refer to each other; odd ones now and then, so that storage
# classes and bytes matter.
COMMON = st.sampled_from([0, 1, 2, 1.0, 0.0, -0.0, "a", None])
ODD = st.sampled_from([
    *(-1, 2**63 - 1, 0.5, float("inf")),
    *("", "A", "b", "1", "01", "a\0b", "é", b"", b"a", b"\0\xff"),
])  # fmt: skip
VALUES = COMMON | COMMON | ODD
TYPES = st.sampled_from([None, None, None, "TEXT", "INTEGER", "REAL", "NUMERIC", "STRING"])
TABLES = ("t", "u", "v")
COLUMNS = ("a", "b", "c")
CONDITIONS = st.sampled_from([
    *("true", "true", "rowid = 1", "rowid % 2 = 0", "rowid > 1", "a IS b", "a IS NULL", "a = 1"),
    *("b = 'a'", "typeof(a) = 'integer'", "a <= (SELECT max(a) FROM t)", "a IN (SELECT b FROM t)"),
])  # fmt: skip
OPERATIONS = st.sampled_from(
    [
        *("insert", "insert", "update", "update", "delete", "create_table", "drop_table"),
        *("add_column", "create_index", "drop_index", "execute", "execute", "execute", "execute"),
        *("undo", "undo", "redo", "redo", "revert_to"),
    ]
)
ABOUT_HISTORY = ("undo", "redo", "revert_to")


@st.composite
def columns(draw: st.DrawFn, table: str) -> list[Column]:
    """Columns a, b, c of random types; some unique, some a key, some referring to another table."""
    found: list[Column] = []
    for name in COLUMNS:
        kind = draw(st.sampled_from(["plain", "plain", "unique", "key", "child", "child", "child"]))
        has_key = any(column.primary_key for column in found)
        reference = Reference("t", "a", draw(ACTIONS), draw(ACTIONS))
        found.append(
            Column(
                name,
                draw(TYPES) if kind != "key" else "INTEGER",
                primary_key=kind == "key" and not has_key,
                unique=kind == "unique" or (table == "t" and name == "a"),
                references=reference if kind == "child" and table != "t" else None,
                description=draw(st.sampled_from([None, "x */ -- y"])),
            )
        )
    return found


ACTIONS = st.sampled_from(["CASCADE", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", None])
ROW = st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, VALUES))


@st.composite
def operations(draw: st.DrawFn, names: Names) -> tuple[str, dict[str, Any]]:
    """(name of the method, its arguments), for a memory that has `names`"""
    table = draw(st.sampled_from([*names.tables, *names.tables, *TABLES]))
    name = draw(OPERATIONS)
    match name:
        case "create_table":
            return name, {"table": draw(st.sampled_from(TABLES)), "columns": draw(columns(table))}
        case "insert":
            return name, {"table": table, "rows": draw(st.lists(ROW, min_size=1, max_size=3))}
        case "update":
            fields = draw(st.dictionaries(st.sampled_from(COLUMNS), VALUES, min_size=1, max_size=2))
            return name, {"table": table, "set": fields, "where": draw(CONDITIONS)}
        case "delete":
            return name, {"table": table, "where": draw(CONDITIONS)}
        case "add_column":
            return name, {"table": table, "column": draw(late_columns(names.tables.get(table, [])))}
        case "create_index":
            over = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=2, unique=True))
            return name, {"table": table, "columns": over, "unique": draw(st.booleans())}
        case "drop_index":
            return name, {"index": draw(st.sampled_from([*names.indexes, "none"]))}
        case "drop_table":
            return name, {"table": table}
        case "execute":
            return name, {"sql": draw(scripts(names))}
        case "revert_to":
            return name, {"back": draw(st.integers(0, 4))}
        case _:
            return name, {}


@st.composite
def late_columns(draw: st.DrawFn, there: list[str]) -> Column:
    """A column for a table that has those already."""
    name = draw(st.sampled_from([n for n in (*COLUMNS, "d", "e") if n not in there] or ["a"]))
    reference = Reference("t", "a", draw(ACTIONS), draw(ACTIONS))
    return Column(
        name,
        draw(TYPES),
        default=draw(st.just(UNSET) | VALUES),
        not_null=draw(st.sampled_from([False, False, True])),
        references=draw(st.sampled_from([None, None, reference])),
        description=draw(st.sampled_from([None, "x */ -- y"])),
    )


class Dump(Struct):
    """Everything that is promised to come back: the rows of each table with their rowids, storage
    classes and bytes; the text of each object; the triggers of each table in the order in which
    they fire; the AUTOINCREMENT counters."""

    rows: dict[str, list[tuple[Any, ...]]]
    texts: set[tuple[str, str, str, str]]
    triggers: dict[str, list[str]]
    counters: set[tuple[str, int | None]]
    has_orphans: bool = False


def dump(memory: StructuredMemory) -> Dump:
    """Read by a connection that is not the memory's."""
    return _read(memory, _dumped)


def _read(memory: StructuredMemory, read: Callable[[apsw.Connection], T]) -> T:
    memory.position()
    connection = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return read(connection)
    finally:
        connection.close()


def _dumped(connection: apsw.Connection) -> Dump:
    found = Dump({}, set(), {}, set())
    objects = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid"
    for kind, name, table, text in sql.rows(connection, objects):
        if table.startswith("_structmem_"):
            continue
        if name == "sqlite_sequence":  # stays for ever, once it was made
            found.counters = {*sql.rows(connection, "SELECT name, seq FROM sqlite_sequence")}
        elif text is not None:
            found.texts.add((kind, name, table, text))
        if kind == "table" and name != "sqlite_sequence":
            found.rows[name] = _rows(connection, name)
        elif kind == "trigger":
            found.triggers.setdefault(table, []).append(name)
    found.has_orphans = _has_orphans(connection)
    return found


def _has_orphans(connection: apsw.Connection) -> bool:
    try:
        return bool(sql.rows(connection, "PRAGMA foreign_key_check"))
    except apsw.SQLError:  # the parent is no table, or its columns are not unique
        return True


def _rows(connection: apsw.Connection, table: str) -> list[tuple[Any, ...]]:
    columns = sql.rows(connection, "SELECT name FROM pragma_table_xinfo(?)", (table,))
    exact = ", ".join(f"typeof({quote(c)}), CAST({quote(c)} AS BLOB)" for (c,) in columns)
    return sql.rows(connection, f"SELECT rowid, {exact} FROM {quote(table)} ORDER BY rowid")


class History:
    """What must be so: the dump below each operation that stands, and what a redo brings back."""

    def __init__(self, memory: StructuredMemory, kept: int | None) -> None:
        self._memory = memory
        self._kept = kept
        self._dumps = [dump(memory)]
        self._undone: list[list[Dump]] = []
        self._expired: list[str] = []

    def step(self, name: str, arguments: dict[str, Any]) -> None:
        """Do it, and look at everything."""
        head = self._memory.position()
        try:
            if name in ABOUT_HISTORY:
                getattr(self, f"_{name}")(**arguments)
            else:
                self._operate(name, arguments)
        except InvalidCall as error:
            note(f"{name} {arguments}: {error}")
            assert self._memory.position() == head
        self._check()

    def undo_all(self) -> None:
        while len(self._dumps) > 1:
            self._undo()
            assert dump(self._memory) == self._dumps[-1]
        if not self._expired:
            assert self._dumps == [Dump({}, set(), {}, set())]

    def _operate(self, name: str, arguments: dict[str, Any]) -> None:
        if getattr(self._memory, name)(**arguments).op_id is None:
            return
        self._undone.clear()
        self._dumps.append(dump(self._memory))
        if self._kept is not None and len(self._dumps) > self._kept + 1:
            del self._dumps[0]
            standing = self._standing()
            self._expired = [
                o.op_id
                for o in self._memory.log()
                if o.operation not in ABOUT_HISTORY and o.op_id not in standing
            ]

    def _undo(self) -> None:
        if len(self._dumps) == 1:
            with pytest.raises(NothingToUndo):
                self._memory.undo()
            for op_id in self._expired[-1:]:
                with pytest.raises((CannotUndo, NothingToUndo)):
                    self._memory.undo(op_id)
                with pytest.raises(CannotUndo):
                    self._memory.revert_to(op_id)
            return
        self._done(self._memory.undo, self._dumps[-2])
        self._undone.append([self._dumps.pop()])

    def _redo(self) -> None:
        if not self._undone:
            with pytest.raises(NothingToUndo):
                self._memory.redo()
            return
        self._done(self._memory.redo, *self._undone[-1])
        self._dumps += self._undone.pop()

    def _revert_to(self, back: int) -> None:
        """To the operation so many before the last one."""
        standing = self._standing()
        if back >= len(standing):
            return
        result = self._done(
            lambda: self._memory.revert_to(standing[back]), *self._dumps[-1 - back :]
        )
        assert result.operations == standing[:back]
        if back:
            self._undone.append(self._dumps[-back:])
            del self._dumps[-back:]

    def _done(self, call: Callable[[], WriteResult], *states: Dump) -> WriteResult:
        """What has been done can be taken back, and done again, whatever it was; except that undo
        leaves no row without its parent, not even one that SQLite left so. `states` are passed."""
        try:
            return call()
        except InvalidCall as error:
            assume(not any(state.has_orphans for state in states))
            raise AssertionError(f"Refused: {error}") from error

    def _standing(self) -> list[str]:
        return [o.op_id for o in self._memory.history(1000)]

    def _check(self) -> None:
        memory = self._memory
        assert dump(memory) == self._dumps[-1]
        history = memory.history(1000)
        assert len(history) == len(self._dumps) - 1
        dropped = {int(o.op_id[3:]) for o in history if o.operation == "drop_table"}
        assert set(_read(memory, stores.names).values()) == dropped
        memory.verify(deep=True)


@given(st.data())
def test_live_is_replayed_is_replica_and_undo_is_before(data: st.DataObject) -> None:
    kept = data.draw(st.sampled_from([None, None, None, 0, 1, 2, 4]), "max_operations")
    with StructuredMemory(":memory:", max_operations=kept) as memory:
        history = History(memory, kept)
        tables = TABLES[: data.draw(st.integers(1, 3), "tables")]
        for table in tables:
            history.step("create_table", {"table": table, "columns": data.draw(columns(table))})
            rows = [{"a": n, "b": n, "c": n} for n in (0, 1, 2)]  # parents, and their children
            history.step("insert", {"table": table, "rows": rows})
        for _ in range(data.draw(st.integers(6, 14), "operations")):
            names = _read(memory, Names.of)
            history.step(*data.draw(operations(names), "operation"))
        _check_replica(memory, data)
        history.undo_all()
        _check_replica(memory, data)


def _check_replica(memory: StructuredMemory, data: st.DataObject) -> None:
    report = memory.verify(deep=True)
    records = list(memory.records())
    replica_path = memory.path.with_name("replica.db")
    with open_replica(replica_path, memory_id=memory.id) as replica:
        while (done := replica.position().seq) < len(records):
            start = data.draw(st.integers(0, done), "from")
            replica.apply(records[start : data.draw(st.integers(done + 1, len(records)), "to")])
        assert replica.verify(deep=True) == report
        assert dump(replica) == dump(memory)
        assert list(replica.records()) == records
