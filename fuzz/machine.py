"""Searching for a history after which a memory is not what a model in plain dictionaries says.

Invariants checked, after every step:

- Tables, columns, rows with their rowids and storage classes, and indexes are those of the model.
- What the model refuses is refused as an `InvalidCall` and moves nothing, not even the position.
- As many operations can be undone as the model says.

And at the end of a history: the chain holds, a replay gives the same, a replica that was given the
records is the same, and undoing everything that was kept leads to where it began.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
import hypothesis
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    get_state_machine_test,
    initialize,
    invariant,
    precondition,
    rule,
)

from fuzz.model import Change, Column, Index, Model, Refused, State, told
from fuzz.other import Other
from fuzz.running import Verdicts, searching
from structmem import Column as MemoryColumn
from structmem import InvalidCall, StructuredMemory, WriteResult, open_replica, sql
from structmem.identifiers import quote
from structmem.schema import internal_names

HISTORIES: Final = 10
STEPS: Final = 30

_STEPS_BETWEEN_REOPENINGS: Final = 5
_TABLES: Final = ("t", "u")
_COLUMNS: Final = ("a", "b", "c", "d")
_INDEXES: Final = ("i", "j")
_PLAIN: Final = st.sampled_from([0, 1, 2, "a", "A", None])
_VALUES: Final = _PLAIN | st.sampled_from([1.0, 0.5, -0.0, "", "é", b"a", b"", 2**62, -1])
_FLAGS: Final = st.sampled_from([False, False, True])


def run(seed: int, directory: Path, verdicts: Verdicts) -> None:
    """One round."""

    class Machine(HistoryMachine):
        def __init__(self) -> None:
            super().__init__(directory, verdicts)

    settings = searching(HISTORIES, stateful_step_count=STEPS)
    hypothesis.seed(seed)(get_state_machine_test(Machine, settings=settings))()


@st.composite
def columns(draw: st.DrawFn) -> list[Column]:
    names = draw(st.lists(st.sampled_from(_COLUMNS), min_size=1, max_size=3, unique=True))
    return [
        Column(name, unique=draw(_FLAGS), not_null=draw(_FLAGS), default=draw(st.none() | _PLAIN))
        for name in names
    ]


class HistoryMachine(RuleBasedStateMachine):
    """One history, of one memory on disk and of the model."""

    def __init__(self, directory: Path, verdicts: Verdicts) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp(dir=directory))
        self._path = self._directory / "m.db"
        self._verdicts = verdicts
        self._other: Other | None = None
        self._calls = 0
        self._steps_until_reopening = 0
        self._last_call: tuple[str, dict[str, Any]] | None = None

    @initialize(kept=st.sampled_from([None, None, None, 0, 1, 3]), made=columns())
    def open(self, kept: int | None, made: list[Column]) -> None:
        self.model = Model(kept)
        self.memory = StructuredMemory(self._path, max_operations=kept)
        self.create_table("t", made)
        rows = [{column.name: n for column in made} for n in (10, 11, 12)]
        asked = {"table": "t", "rows": rows}
        self._do("insert", asked, lambda state: state.insert("t", rows))

    # -- schema ----------------------------------------------------------------------------------

    @rule(table=st.sampled_from(_TABLES), made=columns())
    def create_table(self, table: str, made: list[Column]) -> None:
        asked = {"table": table, "columns": [_for_memory(column) for column in made]}
        self._do("create_table", asked, lambda state: state.create_table(table, made))

    @rule(data=st.data())
    def add_column(self, data: st.DataObject) -> None:
        table = data.draw(self._some_table())
        column = Column(
            data.draw(st.sampled_from(_COLUMNS)),
            not_null=data.draw(_FLAGS),
            default=data.draw(st.none() | _PLAIN),
        )
        asked = {"table": table, "column": _for_memory(column)}
        self._do("add_column", asked, lambda state: state.add_column(table, column))

    @precondition(lambda self: len(self.model.state.tables) == len(_TABLES))
    @rule(table=st.sampled_from(_TABLES))
    def drop_table(self, table: str) -> None:
        self._do("drop_table", {"table": table}, lambda state: state.drop_table(table))

    @rule(name=st.sampled_from(_INDEXES), data=st.data())
    def create_index(self, name: str, data: st.DataObject) -> None:
        table = data.draw(self._some_table())
        over = data.draw(st.lists(self._some_column(table), min_size=1, max_size=2, unique=True))
        unique = data.draw(_FLAGS)
        asked = {"table": table, "columns": over, "unique": unique, "name": name}
        index = Index(table, tuple(over), unique)
        self._do("create_index", asked, lambda state: state.create_index(name, index))

    @rule(name=st.sampled_from(_INDEXES))
    def drop_index(self, name: str) -> None:
        self._do("drop_index", {"index": name}, lambda state: state.drop_index(name))

    # -- rows ------------------------------------------------------------------------------------

    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        table = data.draw(self._some_table())
        rows = data.draw(st.lists(self._new_row(table), min_size=1, max_size=3))
        self._do("insert", {"table": table, "rows": rows}, lambda state: state.insert(table, rows))

    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        table = data.draw(self._some_table())
        fields = data.draw(self._some_row(table, min_size=1))
        where, matches = data.draw(self._some_condition(table))
        asked = {"table": table, "set": fields, "where": where}
        self._do("update", asked, lambda state: state.update(table, fields, matches))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        table = data.draw(self._some_table())
        where, matches = data.draw(self._some_condition(table))
        asked = {"table": table, "where": where}
        self._do("delete", asked, lambda state: state.delete(table, matches))

    @rule(data=st.data())
    def execute(self, data: st.DataObject) -> None:
        table = data.draw(self._some_table())
        column, rowid = data.draw(self._some_column(table)), data.draw(st.integers(1, 4))
        script = (
            f"ALTER TABLE {table} RENAME TO z; UPDATE z SET {column} = 2 WHERE rowid = {rowid};"
            f"DELETE FROM z WHERE rowid = {rowid + 1}; ALTER TABLE z RENAME TO {table}"
        )

        def change(state: State) -> int:
            state.rename_table(table, "z")
            met = state.update("z", {column: 2}, lambda i, _row: i == rowid)
            state.delete("z", lambda i, _row: i == rowid + 1)
            state.rename_table("z", table)
            return met

        self._do("execute", {"sql": script}, change)

    # -- history ---------------------------------------------------------------------------------

    @rule()
    def undo(self) -> None:
        self._move("undo", self.memory.undo, self.model.undo)

    @precondition(lambda self: self.model.can_redo)
    @rule()
    def redo(self) -> None:
        self._move("redo", self.memory.redo, self.model.redo)

    @precondition(lambda self: len(self.model.before) > 1)
    @rule(data=st.data())
    def revert_to(self, data: st.DataObject) -> None:
        standing = [operation.op_id for operation in self.memory.history(1000)]
        count = data.draw(st.integers(1, len(self.model.before) - 1))
        target = standing[count]
        self._move(
            "revert_to", lambda: self.memory.revert_to(target), lambda: self.model.undo(count)
        )

    @precondition(lambda self: bool(self.model.before))
    @rule(data=st.data())
    def meddle(self, data: st.DataObject) -> None:
        """A value that the last operation wrote is changed behind the memory's back: it cannot be
        undone until the value is as it was."""
        touched = _touched(self.model.before[-1], self.model.state)
        if not touched:
            return
        table, rowid, column = data.draw(st.sampled_from(touched))
        if _is_constrained(self.model.state, table):
            return
        self._alter(table, rowid, column, "meddled with")
        self._check_refused("undo", self.memory.undo)
        was = self.model.state.tables[table].rows[rowid][column]
        self._alter(table, rowid, column, was)

    # -- around the memory -----------------------------------------------------------------------

    @precondition(lambda self: self._steps_until_reopening <= 0)
    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.memory = StructuredMemory(self._path, max_operations=self.model.kept)
        self._steps_until_reopening = _STEPS_BETWEEN_REOPENINGS
        self._verdicts["reopen: done"] += 1

    @precondition(lambda self: self._last_call is not None)
    @rule()
    def repeat(self) -> None:
        """The same call under the same id does nothing."""
        assert self._last_call is not None
        (name, arguments), self._last_call = self._last_call, None
        head = self.memory.position()
        getattr(self.memory, name)(**arguments)
        assert self.memory.position() == head
        self._verdicts["repeat: done"] += 1

    @rule(value=_PLAIN, data=st.data())
    def other_process(self, value: Any, data: st.DataObject) -> None:
        table = data.draw(self._some_table())
        if self.model.kept is not None:
            return
        self._other = self._other or Other(self._path)
        column = data.draw(self._some_column(table))
        rows: list[dict[str, Any]] = [{column: value}]
        try:
            self.model.do(lambda state: state.insert(table, rows))
            expected = "done"
        except Refused:
            expected = "refused"
        found = self._other.ask("insert", {"table": table, "rows": rows})
        assert ("done" if found == "done" else "refused") == expected, found
        self._verdicts[f"other process: {expected}"] += 1

    # -- checks ----------------------------------------------------------------------------------

    @invariant()
    def live_is_the_model(self) -> None:
        self._steps_until_reopening -= 1
        assert read(self._path) == told(self.model.state)
        assert len(self.memory.history(1000)) == len(self.model.before)

    def teardown(self) -> None:
        if not hasattr(self, "memory"):
            return
        try:
            if self._other is not None:
                self._other.close()
            if sys.exc_info()[0] is None:  # else a step has failed, and tells more
                self._check_end()
        finally:
            self.memory.close()
            shutil.rmtree(self._directory)

    def _check_end(self) -> None:
        report = self.memory.verify(deep=True)
        with open_replica(self._directory / "r.db", memory_id=self.memory.id) as replica:
            replica.apply(list(self.memory.records()))
            assert replica.verify(deep=True) == report
        assert read(self._directory / "r.db") == told(self.model.state)
        if not self.model.can_redo:
            self._check_refused("redo", self.memory.redo)
        for state in reversed(self.model.before):
            self.memory.undo()
            assert read(self._path) == told(state)
        self._check_refused("undo", self.memory.undo)
        if not self.model.has_forgotten:
            assert read(self._path) == told(State())

    # -- steps -----------------------------------------------------------------------------------

    def _do(self, name: str, asked: dict[str, Any], change: Change) -> None:
        """One operation, on the memory and on the model."""
        call = getattr(self.memory, name)
        try:
            changed = self.model.do(change)
        except Refused as refused:
            note(f"{name} {asked}: to be refused, {refused}")
            self._check_refused(name, lambda: call(**asked))
            return
        self._calls += 1
        asked = {**asked, "call_id": f"call-{self._calls}"}
        result: WriteResult = call(**asked)
        assert changed == (result.op_id is not None), result
        if changed:
            self._last_call = (name, asked)
        self._verdicts[f"{name}: {'done' if changed else 'nothing to do'}"] += 1

    def _move(self, name: str, call: Callable[[], WriteResult], move: Callable[[], None]) -> None:
        """Along the history."""
        try:
            move()
        except Refused:
            self._check_refused(name, call)
            return
        call()
        self._verdicts[f"{name}: done"] += 1

    def _check_refused(self, name: str, call: Callable[[], object]) -> None:
        head = self.memory.position()
        try:
            call()
        except InvalidCall as error:
            note(f"{name}: {error}")
        else:
            raise AssertionError(f"{name} was not refused")
        assert self.memory.position() == head
        self._verdicts[f"{name}: refused"] += 1

    def _alter(self, table: str, rowid: int, column: str, value: Any) -> None:
        connection = apsw.Connection(str(self._path))
        text = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
        sql.run(connection, text, (value, rowid))
        connection.close()

    # -- what can be drawn now -------------------------------------------------------------------

    def _some_table(self) -> st.SearchStrategy[str]:
        return st.sampled_from([*[*self.model.state.tables] * 4, *_TABLES])

    def _some_column(self, table: str) -> st.SearchStrategy[str]:
        there = self.model.state.tables.get(table)
        return st.sampled_from([*there.columns] if there else ["a"])

    def _some_row(self, table: str, min_size: int = 0) -> st.SearchStrategy[dict[str, Any]]:
        return st.dictionaries(self._some_column(table), _VALUES, min_size=min_size, max_size=3)

    def _new_row(self, table: str) -> st.SearchStrategy[dict[str, Any]]:
        """Mostly one that has what it needs."""
        there = self.model.state.tables.get(table)
        if there is None:
            return st.just({"a": 1})
        needed = [c.name for c in there.columns.values() if c.not_null and c.default is None]
        whole = st.fixed_dictionaries(
            dict.fromkeys(needed, _VALUES.filter(lambda value: value is not None)),
            optional={c: _VALUES for c in there.columns if c not in needed},
        )
        return st.one_of(whole, whole, whole, self._some_row(table))

    def _some_condition(
        self, table: str
    ) -> st.SearchStrategy[tuple[str, Callable[[int, dict[str, Any]], bool]]]:
        def condition(column: str) -> tuple[str, Callable[[int, dict[str, Any]], bool]]:
            return f"{column} IS NULL", lambda _rowid, row: row[column] is None

        fixed: list[tuple[str, Callable[[int, dict[str, Any]], bool]]] = [
            ("true", lambda _rowid, _row: True),
            ("rowid = 1", lambda rowid, _row: rowid == 1),
            ("rowid > 1", lambda rowid, _row: rowid > 1),
            ("rowid % 2", lambda rowid, _row: rowid % 2 == 1),
        ]
        return st.sampled_from(fixed) | self._some_column(table).map(condition)


def read(path: Path) -> dict[str, Any]:
    """What the file holds, as `told` tells it, by a connection that is not the memory's."""
    if not path.exists():  # a memory makes its file with its first write
        return told(State())
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ours = internal_names(connection)
        listed = sql.rows(connection, "SELECT type, name, tbl_name, sql FROM sqlite_schema")
        users = [each for each in listed if each[1] not in ours and each[3] is not None]
        tables = {name: _table(connection, name) for kind, name, *_ in users if kind == "table"}
        indexes = {name: table for kind, name, table, _text in users if kind == "index"}
        return {"tables": tables, "indexes": indexes}
    finally:
        connection.close()


def _table(connection: apsw.Connection, name: str) -> tuple[list[str], dict[int, str]]:
    columns = [c for (c,) in sql.rows(connection, "SELECT name FROM pragma_table_info(?)", (name,))]
    rows = sql.rows(connection, f"SELECT rowid, * FROM {quote(name)} ORDER BY rowid")
    return columns, {rowid: repr([*values]) for rowid, *values in rows}


def _for_memory(column: Column) -> MemoryColumn:
    return MemoryColumn(
        column.name, unique=column.unique, not_null=column.not_null, default=column.default
    )


def _touched(before: State, after: State) -> list[tuple[str, int, str]]:
    """The (table, rowid, column) whose values are there after, and were not before, or were
    others; of tables that have the columns that they had."""
    found: list[tuple[str, int, str]] = []
    for name, table in after.tables.items():
        if name not in before.tables or before.tables[name].columns != table.columns:
            continue
        for rowid, row in table.rows.items():
            was = before.tables[name].rows.get(rowid, {})
            found += [
                (name, rowid, column)
                for column, value in row.items()
                if column not in was or repr(was[column]) != repr(value)
            ]
    return found


def _is_constrained(state: State, table: str) -> bool:
    return any(c.unique for c in state.tables[table].columns.values()) or any(
        index.unique and index.table == table for index in state.indexes.values()
    )
