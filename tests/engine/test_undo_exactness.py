"""Undo equals before, byte for byte; and what an event says is what happened (H2, H3, H5).

Each kind of operation is done in each situation that makes undo hard, then taken back and done
again. What its event says of rows is compared with two witnesses that know nothing of us: the true
difference of two full dumps, and the one that SQLite's session extension finds.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from structmem import Column, StructuredMemory, schema, sql
from structmem.identifiers import quote
from structmem_journal import RowsChanged, Value, decode_payload

from .conftest import raw
from .faults.test_schema_changes import Step, there_and_back

Rows = dict[tuple[str, int], list[Value]]
"""Each row of a memory, by table and rowid."""

UNSEEN = ("a key of two columns", "generated columns")
"""The session extension knows rows by their key, and has no generated columns."""

Changes = dict[tuple[str, int], tuple[list[Value] | None, list[Value] | None]]
"""What a row was and is; None where there is none."""

KEY = "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b); "
ROWS = "INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', x'00'), (3, NULL, -0.0); "

SITUATIONS = {
    "unique values": KEY + ROWS + "CREATE UNIQUE INDEX over ON t (b, a)",
    "a key of two columns": (
        "CREATE TABLE t (id, a COLLATE NOCASE, b, PRIMARY KEY (a, b DESC)); " + ROWS
    ),
    "REPLACE in the schema": (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE ON CONFLICT REPLACE, b); " + ROWS
    ),
    "cascades two deep": (
        KEY + "CREATE TABLE c (id INTEGER PRIMARY KEY,"
        " p REFERENCES t (a) ON DELETE CASCADE ON UPDATE CASCADE);"
        "CREATE TABLE g (p REFERENCES c (id) ON DELETE SET NULL ON UPDATE CASCADE,"
        " q REFERENCES t (a) ON DELETE CASCADE ON UPDATE SET DEFAULT);"
        + ROWS
        + "INSERT INTO c VALUES (7, 'a'), (8, 'b'); INSERT INTO g VALUES (7, 'a'), (8, NULL)"
    ),
    "a table that refers to itself": (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE,"
        " b REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE);"
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, NULL, 2)"
    ),
    "generated columns": (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b, v AS (a || '!') UNIQUE,"
        " s TEXT AS (b) STORED); INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', 2), (3, NULL, NULL);"
        "CREATE UNIQUE INDEX upper ON t (upper(a)) WHERE b > 0"
    ),
    "triggers that fire in order": (
        KEY + "CREATE TABLE log (text); " + ROWS + "".join(
            f"CREATE TRIGGER {name} AFTER {event} ON t BEGIN"
            f" INSERT INTO log SELECT coalesce(max(rowid), 0) || '{name}' FROM log; END;"
            for event in ("INSERT", "UPDATE", "DELETE")
            for name in (f"z_{event}", f"a_{event}", f"m_{event}")
        )
        + "CREATE TRIGGER own BEFORE UPDATE OF b ON t BEGIN"
        " UPDATE t SET a = a || '+' WHERE id <> old.id; END"
    ),
    "a counter": (
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE, b); "
        + ROWS
        + "DELETE FROM t WHERE id = 3; INSERT INTO t (a) VALUES ('c'); CREATE INDEX plain ON t (b)"
    ),
    "odd texts": (
        'CREATE TABLE  t (id -- "the" id; \n INTEGER PRIMARY KEY, [a] UNIQUE /* ; */, "b" DEFAULT'
        " 'it''s'); " + ROWS + "CREATE INDEX IF NOT EXISTS main.[i j] ON t(`b` DESC) WHERE b>0"
    ),
}  # fmt: skip


def swap(memory: StructuredMemory) -> object:
    """Two rows exchange their unique values, by way of a third."""
    return memory.execute(
        "UPDATE t SET a = 'x' WHERE id = 1; UPDATE t SET a = 'a' WHERE id = 2;"
        "UPDATE t SET a = 'b' WHERE id = 1"
    )


ROW_STEPS: dict[str, Step] = {
    "insert": lambda m: m.insert("t", [{"id": 9, "a": "n", "b": None}, {"id": 10}]),
    "update": lambda m: m.update("t", {"b": 1}, "id < 3"),
    "update of a key": lambda m: m.update("t", {"id": 77}, "id = 1"),
    "update of unique values": lambda m: m.update("t", {"a": "y"}, "id = 2"),
    "delete": lambda m: m.delete("t", "id <> 2"),
    "delete of all": lambda m: m.delete("t", "true"),
    "swap": swap,
    "replace": lambda m: m.execute("INSERT OR REPLACE INTO t (id, a) VALUES (1, 'b'), (12, 'a')"),
    "replace by update": lambda m: m.execute("UPDATE OR REPLACE t SET a = 'b' WHERE id = 1"),
    "upsert": lambda m: m.execute(
        "INSERT INTO t (id, a) VALUES (4, 'a'), (5, 'q') ON CONFLICT DO UPDATE SET a = 'up'"
    ),
    "rowids": lambda m: m.execute("UPDATE t SET rowid = -rowid"),
    "there and back": lambda m: m.execute(
        "UPDATE t SET a = 'x' WHERE id = 1; DELETE FROM t WHERE id = 2; UPDATE t SET a = 'a'"
        " WHERE id = 1"
    ),
}

SCHEMA_STEPS: dict[str, list[Step]] = {
    "create_table": [lambda m: m.create_table("new", [Column("a", "TEXT", unique=True)])],
    "add_column": [lambda m: m.add_column("t", Column("z", "REAL", default=1, not_null=True))],
    "create_index": [lambda m: m.create_index("t", ["b", "a"], unique=True)],
    "drop_index": [
        lambda m: m.create_index("t", "b", name="ix"),
        lambda m: m.drop_index("ix"),
        lambda m: m.create_index("t", "a", name="ix"),
    ],
    "drop_table": [
        lambda m: m.execute(
            "CREATE TABLE o (id INTEGER PRIMARY KEY, a, b REFERENCES o); CREATE INDEX oa ON o (a)"
        ),
        lambda m: m.execute("INSERT INTO o (a) SELECT a FROM t"),
        lambda m: m.drop_table("o"),
        lambda m: m.delete("t", "true"),
    ],
    "rename": [
        lambda m: m.execute("ALTER TABLE t RENAME TO n; ALTER TABLE n RENAME COLUMN b TO d"),
        lambda m: m.update("n", {"d": None}, "true"),
        lambda m: m.execute("ALTER TABLE n RENAME COLUMN d TO b; ALTER TABLE n RENAME TO t"),
    ],
    "rows and a column": [
        lambda m: m.execute(
            "UPDATE t SET b = b; ALTER TABLE t ADD COLUMN z DEFAULT 5; UPDATE t SET z = id"
        )
    ],
}
STEPS = {name: [step] for name, step in ROW_STEPS.items()} | SCHEMA_STEPS


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_undo_equals_before_and_redo_equals_after(
    memory: StructuredMemory, situation: str, steps: str
) -> None:
    """H2, H3, J4: one by one, by revert_to, and on a replica."""
    memory.execute(SITUATIONS[situation])
    there_and_back(memory, *STEPS[steps])


# -- witnesses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ROW_STEPS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_event_says_what_happened(
    memory: StructuredMemory, situation: str, step: str, tmp_path: Path
) -> None:
    """H5: rows that cascades, REPLACE and triggers changed are in it, and nothing else is."""
    memory.execute(SITUATIONS[situation])
    copy = tmp_path / "before.db"
    back_up(memory, copy)
    ROW_STEPS[step](memory)
    with closing(apsw.Connection(str(copy))) as before, closing(raw(memory)) as after:
        was, now = rows_of(before), rows_of(after)
        said = changes_said(memory, was)
        differ = {key for key in was | now if exactly(was.get(key)) != exactly(now.get(key))}
        assert {key: tuple(map(exactly, pair)) for key, pair in said.items()} == {
            key: (exactly(was.get(key)), exactly(now.get(key))) for key in differ
        }
        if situation not in UNSEEN:
            assert kinds_of(said) == kinds_seen_by_sqlite(after, copy)


def back_up(memory: StructuredMemory, path: Path) -> None:
    """Copy the file by SQLite's backup, which keeps rowids."""
    with (
        closing(raw(memory)) as source,
        closing(apsw.Connection(str(path))) as copy,
        copy.backup("main", source, "main") as backup,
    ):
        backup.step()


def rows_of(connection: apsw.Connection) -> Rows:
    found: Rows = {}
    for table in tables_of(connection):
        listed = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0"
        names = ", ".join(quote(name) for (name,) in sql.rows(connection, listed, (table,)))
        for rowid, *values in sql.rows(connection, f"SELECT rowid, {names} FROM {quote(table)}"):
            found[table, rowid] = values
    return found


def tables_of(connection: apsw.Connection) -> list[str]:
    return [o.name for o in schema.objects(connection) if o.kind == "table"]


def changes_said(memory: StructuredMemory, was: Rows) -> Changes:
    """What the last event says of each row: what it was, and what it is now. What it does not say
    of an updated row is taken from `was`."""
    record = list(memory.records())[-1]
    found: Changes = {}
    for effect in decode_payload(record.payload or b"").effects:
        if isinstance(effect, RowsChanged):
            found |= {(effect.table, row[0]): (row[1:], None) for row in effect.deleted}
            found |= {(effect.table, row[0]): (None, row[1:]) for row in effect.inserted}
            for group in effect.updated:
                for rowid, *values in group.rows:
                    before, after = [*was[effect.table, rowid]], [*was[effect.table, rowid]]
                    for place, i in enumerate(group.changed):
                        before[i], after[i] = values[place], values[len(group.changed) + place]
                    found[effect.table, rowid] = before, after
    return found


def exactly(row: Sequence[Value] | None) -> object:
    """Equal only if storage classes and bytes are."""
    return row and [(type(value), repr(value)) for value in row]


def kinds_of(changes: Changes) -> Counter[tuple[str, str]]:
    """How many rows of each table came, went, or changed as SQL's `IS` compares."""
    found: Counter[tuple[str, str]] = Counter()
    for (table, _), (before, after) in changes.items():
        kind = "INSERT" if before is None else "DELETE" if after is None else "UPDATE"
        found[table, kind] += before != after
    return +found


def kinds_seen_by_sqlite(after: apsw.Connection, before: Path) -> Counter[tuple[str, str]]:
    """The same, by the difference that the session extension finds."""
    sql.run(after, "ATTACH ? AS before", (str(before),))
    session = apsw.Session(after, "main")
    session.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, 1)
    for table in tables_of(after):
        session.attach(table)
        session.diff("before", table)
    changes: Iterable[apsw.TableChange] = apsw.Changeset.iter(session.changeset())  # pyright: ignore[reportUnknownMemberType] # APSW's stubs name Buffer, which Python 3.11 has not
    return Counter((change.name, change.op) for change in changes)
