"""Any history of operations: what is live, what a replay gives and what a replica has are equal.

Invariants checked:

- After each operation the chain verifies, and a replay from the start equals the live memory: every
  table, row, rowid, storage class and schema text (`verify(deep=True)`; at the end of each history,
  and every few steps).
- A replica that is given the records in batches of random size, some of them twice, equals it too.
- Undo equals before: a full dump after an undo is the dump from before the operation. Undoing
  everything gives an empty memory.
- An operation that is refused changes nothing, not even the journal.
"""

from collections.abc import Iterator
from typing import Any

import apsw
from hypothesis import given, note
from hypothesis import strategies as st

from structmem import Column, InvalidCall, Reference, StructuredMemory, open_replica, sql
from structmem.identifiers import quote

Dump = dict[str, list[tuple[Any, ...]]]

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
KINDS = st.sampled_from(
    ["insert", "update", "update", "update", "delete", "delete", "undo", "create"]
)


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
def operations(draw: st.DrawFn, tables: tuple[str, ...]) -> tuple[str, str, tuple[Any, ...]]:
    """(name of the method, table, further arguments)"""
    table = draw(st.sampled_from(tables))
    match draw(
        st.sampled_from(["insert", "insert", "update", "update", "delete", "undo", "create"])
    ):
        case "insert":
            return "insert", table, (draw(st.lists(ROW, min_size=1, max_size=3)),)
        case "update":
            fields = draw(st.dictionaries(st.sampled_from(COLUMNS), VALUES, min_size=1, max_size=2))
            return "update", table, (fields, draw(CONDITIONS))
        case "delete":
            return "delete", table, (draw(CONDITIONS),)
        case "undo":
            return "undo", table, ()
        case _:
            return "create_table", draw(st.sampled_from(TABLES)), (draw(columns(table)),)


@given(st.data())
def test_live_is_replayed_is_replica_and_undo_is_before(data: st.DataObject) -> None:
    with StructuredMemory(":memory:") as memory:
        states = [_dump(memory)]
        tables = TABLES[: data.draw(st.integers(1, 3), "tables")]
        for table in tables:
            _step(memory, "create_table", table, (data.draw(columns(table), table),), states)
            rows = [{"a": n, "b": n, "c": n} for n in (0, 1, 2)]  # parents, and their children
            _step(memory, "insert", table, (rows,), states)
        for name, table, arguments in data.draw(
            st.lists(operations(tables), min_size=8, max_size=20), "operations"
        ):
            _step(memory, name, table, arguments, states)
        assert _dump(memory) == states[-1]
        _check_replica(memory, data)
        while len(states) > 1:
            states.pop()
            memory.undo()
            assert _dump(memory) == states[-1]
        assert states == [{"": []}]
        memory.verify(deep=True)


def _step(
    memory: StructuredMemory, name: str, table: str, arguments: tuple[Any, ...], states: list[Dump]
) -> None:
    """Run one operation; `states` is the stack of dumps, one below each operation standing."""
    head = memory.position()
    try:
        if name == "undo":
            if len(states) > 1:
                memory.undo()
                states.pop()
        elif getattr(memory, name)(table, *arguments).op_id is not None:
            states.append(_dump(memory))
    except InvalidCall as error:
        note(f"{name} {table} {arguments}: {error}")
        assert memory.position() == head
    assert _dump(memory) == states[-1]


def _check_replica(memory: StructuredMemory, data: st.DataObject) -> None:
    report = memory.verify(deep=True)
    records = list(memory.records())
    replica_path = memory.path.with_name("replica.db")
    with open_replica(replica_path, memory_id=memory.id) as replica:
        while (done := replica.position().seq) < len(records):
            start = data.draw(st.integers(0, done), "from")
            replica.apply(records[start : data.draw(st.integers(done + 1, len(records)), "to")])
        assert replica.verify(deep=True) == report
        assert _dump(replica) == _dump(memory)
        assert list(replica.records()) == records


def _dump(memory: StructuredMemory) -> Dump:
    """Schema texts and every row with its rowid, storage classes and bytes, read by a connection of
    its own."""
    memory.position()
    connection = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return dict(_dumped(connection))
    finally:
        connection.close()


def _dumped(connection: apsw.Connection) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    objects = sql.rows(connection, "SELECT type, name, sql FROM sqlite_schema ORDER BY rowid")
    shown = [row for row in objects if "_structmem_" not in row[1]]
    yield "", shown
    for kind, name, _ in shown:
        if kind == "table":
            exact = ", ".join(f"typeof({c}), CAST({c} AS BLOB)" for c in COLUMNS)
            rows = sql.rows(connection, f"SELECT rowid, {exact} FROM {quote(name)} ORDER BY rowid")
            yield name, rows
