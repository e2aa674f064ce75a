"""Short workloads for a disk that fails: a few operations on a memory and on a replica of it.

A workload is drawn from a seed by doing it: what a memory refuses is left out. So it can be done
again, from the start or from what its files were before a step, and each step then succeeds.
"""

import itertools
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

import apsw
from msgspec import Struct

from structmem import Column, InvalidCall, StructuredMemory, open_replica, sql
from structmem.identifiers import quote

PRIMARY: Final = "a.db"
REPLICA: Final = "b.db"

Rows = dict[str, list[tuple[Any, ...]]]
Does = Callable[["Scene"], object]


class Step(Struct, frozen=True):
    """An operation: `file` is the one that it may change. Before a cold one nothing is open."""

    name: str
    does: Does
    file: str = PRIMARY
    is_cold: bool = False


class Settings(Struct, frozen=True):
    """What every connection is given, so that little data is much for SQLite: a log of so many
    pages is moved into the file, and a cache of so many spills into the log."""

    log_pages: int = 1000
    cache_pages: int = -2000

    def give(self, connection: apsw.Connection) -> None:
        connection.wal_autocheckpoint(self.log_pages)
        with suppress(apsw.Error):  # it reads the file; what fails there, fails for others again
            sql.pragma(connection, "cache_size", self.cache_pages)


class Scene:
    """The memories of a workload in one directory, opened when they are needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._memories: dict[str, StructuredMemory] = {}

    @property
    def primary(self) -> StructuredMemory:
        if PRIMARY not in self._memories:
            self._memories[PRIMARY] = StructuredMemory(self.path(PRIMARY), actor="tester")
        return self._memories[PRIMARY]

    @property
    def replica(self) -> StructuredMemory:
        if REPLICA not in self._memories:
            self._memories[REPLICA] = open_replica(self.path(REPLICA), memory_id=self.primary.id)
        return self._memories[REPLICA]

    def memory(self, file: str) -> StructuredMemory:
        return self.replica if file == REPLICA else self.primary

    def path(self, file: str) -> Path:
        return self._directory / file

    def warm(self, file: str) -> None:
        """Open what is there, so that a step does not begin with that."""
        if self.path(file).exists():
            self.memory(file).position()
            self.primary.rehearsal().create_table("warm", [Column("a")])

    def close(self) -> None:
        """Close all of them, even if one fails."""
        with ExitStack() as stack:
            while self._memories:
                stack.callback(self._memories.popitem()[1].close)


@contextmanager
def settled(seed: str, settings: Settings) -> Generator[None]:
    """Let everything that is drawn, and the time, be decided by the seed; and give every connection
    that is opened the settings."""
    random, ticks = Random(seed), itertools.count(1_700_000_000_000_000_000, 1_000_000)
    apsw.connection_hooks.append(settings.give)
    try:
        with (
            mock.patch.object(secrets, "token_bytes", random.randbytes),
            mock.patch.object(secrets, "token_hex", lambda size=32: random.randbytes(size).hex()),
            mock.patch.object(time, "time_ns", lambda: next(ticks)),
        ):
            yield
    finally:
        apsw.connection_hooks.remove(settings.give)


# -- steps -----------------------------------------------------------------------------------------


def opening(scene: Scene) -> object:
    return scene.primary.position()


def opening_replica(scene: Scene) -> object:
    return scene.replica.position()


def reopening(scene: Scene) -> object:
    scene.close()
    return scene.primary.position()


def undoing(scene: Scene) -> object:
    return scene.primary.undo()


def redoing(scene: Scene) -> object:
    return scene.primary.redo()


def checkpointing(scene: Scene) -> object:
    """What a tool of somebody else's may do at any time; it tells its errors to nobody."""
    with suppress(apsw.Error):
        connection = apsw.Connection(str(scene.path(PRIMARY)))
        try:
            sql.run(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
    return None


def applying(scene: Scene) -> object:
    replica = scene.replica
    position = replica.position()
    records = list(scene.primary.records(position))
    return replica.apply(records, bookmark=7 * (position.seq + len(records)))


BEGINNING: Final = Step("open", opening, is_cold=True)
REPLICATION: Final = Step("open replica", opening_replica, REPLICA, is_cold=True)
READING: Final = (
    Step("open again", opening, is_cold=True),
    Step("query", lambda scene: scene.primary.query("SELECT count(*), max(a), max(b) FROM t")),
    Step("preview", lambda scene: scene.primary.preview("delete", "t", "b > 5")),
    Step("log", lambda scene: list(scene.primary.log())),
    Step("describe", lambda scene: scene.primary.describe()),
    Step("size", lambda scene: scene.primary.size()),
    Step("verify", lambda scene: scene.primary.verify(deep=True)),
    Step("close", Scene.close),
)
"""What changes nothing."""

_COLUMNS: Final = [Column("a"), Column("b", "INTEGER"), Column("c", "TEXT", unique=True)]
_TABLES: Final = ("t", "u")
_CONDITIONS: Final = ("true", "rowid % 2 = 0", "rowid % 3 = 1", "b < 50")
_COUNTED: Final = (
    "CREATE TABLE {new} (x INTEGER PRIMARY KEY AUTOINCREMENT, y);"
    " INSERT INTO {new} (y) SELECT a FROM {table}"
)
_TRIGGERED: Final = (
    "CREATE TRIGGER {new} AFTER DELETE ON {table} BEGIN UPDATE {table} SET b = b + 1; END;"
    " DELETE FROM {table} WHERE rowid = 1"
)
_SCRIPTS: Final = (
    "ALTER TABLE {table} ADD COLUMN {new} DEFAULT 5; UPDATE {table} SET {new} = b",
    "CREATE INDEX {new} ON {table} (b, a); INSERT INTO {table} (a, b) SELECT b, 1 FROM {table}",
    _COUNTED,
    "ALTER TABLE {table} RENAME b TO {new}; ALTER TABLE {table} RENAME {new} TO b",
    _TRIGGERED,
    "CREATE VIEW {new} AS SELECT a FROM {table}; DELETE FROM {table} WHERE rowid = 2",
)


def _row(random: Random, size: int) -> dict[str, Any]:
    text = random.randbytes(size) if random.random() < 0.5 else "x" * size
    return {"a": text, "b": random.randrange(100), "c": f"{random.getrandbits(60):x}"}


def _creation(random: Random) -> Step:
    table = random.choice(_TABLES)
    return Step("create_table", lambda scene: scene.primary.create_table(table, _COLUMNS))


def _insertion(random: Random) -> Step:
    table = random.choice(_TABLES)
    rows = [_row(random, random.randrange(50)) for _ in range(random.randint(1, 3))]
    return Step("insert", lambda scene: scene.primary.insert(table, rows))


def _large_insertion(random: Random) -> Step:
    """Rows that take several pages each, and so does their record."""
    table = random.choice(_TABLES)
    rows = [_row(random, random.choice([5_000, 9_000, 20_000])) for _ in range(2)]
    return Step("insert large", lambda scene: scene.primary.insert(table, rows))


def _update(random: Random) -> Step:
    table, where = random.choice(_TABLES), random.choice(_CONDITIONS)
    fields = {"a": "y" * random.choice([10, 3_000]), "b": random.randrange(100)}
    return Step("update", lambda scene: scene.primary.update(table, fields, where))


def _deletion(random: Random) -> Step:
    table, where = random.choice(_TABLES), random.choice(_CONDITIONS)
    return Step("delete", lambda scene: scene.primary.delete(table, where))


def _execution(random: Random) -> Step:
    new = f"n{random.getrandbits(30):x}"
    script = random.choice(_SCRIPTS).format(table=random.choice(_TABLES), new=new)
    return Step("execute", lambda scene: scene.primary.execute(script))


def _dropping(random: Random) -> Step:
    table = random.choice(_TABLES)
    return Step("drop_table", lambda scene: scene.primary.drop_table(table))


def _fixed(name: str, does: Does, file: str = PRIMARY) -> Callable[[Random], Step]:
    return lambda _random: Step(name, does, file)


_DRAWN: Final[list[tuple[int, Callable[[Random], Step]]]] = [
    (1, _creation),
    (4, _insertion),
    (3, _large_insertion),
    (3, _update),
    (2, _deletion),
    (4, _execution),
    (1, _dropping),
    (2, _fixed("undo", undoing)),
    (2, _fixed("redo", redoing)),
    (3, _fixed("apply", applying, REPLICA)),
    (2, _fixed("reopen", reopening)),
    (1, _fixed("checkpoint", checkpointing)),
]
"""Each with how often it is drawn."""


class Workload(Struct, frozen=True):
    steps: list[Step]
    settings: Settings


def drawn(seed: int, directory: Path) -> Workload:
    """The workload of a seed; it is tried in `directory`."""
    random = Random(f"workload {seed}")
    settings = Settings(random.choice([8, 30, 1000]), random.choice([10, -2000]))
    wanted = random.randint(3, 7)
    table = Step("create_table", lambda scene: scene.primary.create_table("t", _COLUMNS))
    steps = [BEGINNING, table]
    scene = Scene(directory)
    with settled(f"trial {seed}", settings):
        for step in steps:
            step.does(scene)
        while len(steps) < wanted + 2:
            steps += _tried(scene, _any(random))
        scene.close()
    return Workload(steps, settings)


def _any(random: Random) -> Step:
    weights = [weight for weight, _draw in _DRAWN]
    return random.choices(_DRAWN, weights)[0][1](random)


def _tried(scene: Scene, step: Step) -> list[Step]:
    """The step, if it can be done now, after those that it needs."""
    needed: list[Step] = []
    if step.file == REPLICA and not scene.path(REPLICA).exists():
        needed = [REPLICATION]
    try:
        for each in (*needed, step):
            each.does(scene)
    except InvalidCall:
        return []
    return [*needed, step]


# -- what is in a file -----------------------------------------------------------------------------


class State(Struct):
    """Everything in a memory's file. `told` is what is promised of its user's part: texts and rows,
    in no order; `whole` is all of it, journal and marks included."""

    seq: int
    told: Rows
    whole: Rows


def state_of(path: Path) -> State:
    """Read by a connection of its own."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return _state(connection)
    finally:
        connection.close()


def _state(connection: apsw.Connection) -> State:
    assert sql.pragma(connection, "journal_mode") == "wal", "the file has lost its journal mode"
    objects = sql.rows(connection, "SELECT type, name, tbl_name, sql FROM sqlite_schema")
    tables = [name for kind, name, _table, _sql in objects if kind == "table"]
    whole: Rows = {name: _rows(connection, name) for name in tables}
    told = {name: rows for name, rows in whole.items() if not name.startswith(_NOT_TOLD)}
    texts = sorted(
        repr(row) for row in objects if row[3] is not None and not row[2].startswith(_NOT_TOLD)
    )
    (seq,) = sql.rows(connection, "SELECT coalesce(max(seq), 0) FROM _structmem_record")[0]
    schema: list[tuple[Any, ...]] = [(text,) for text in texts]
    return State(seq, {"": schema, **told}, {"": schema, **whole})


_NOT_TOLD: Final = ("_structmem_", "sqlite_")


def _rows(connection: apsw.Connection, table: str) -> list[tuple[Any, ...]]:
    """Every row with its rowid, each value as storage class and bytes."""
    without_rowid = sql.rows(connection, "SELECT wr FROM pragma_table_list(?)", (table,))[0][0]
    rowid = "" if without_rowid else "rowid, "
    columns = sql.rows(connection, "SELECT name FROM pragma_table_xinfo(?)", (table,))
    exact = ", ".join(f"typeof({quote(n)}), CAST({quote(n)} AS BLOB)" for (n,) in columns)
    found = sql.rows(connection, f"SELECT {rowid}{exact} FROM {quote(table)}")
    return sorted(found, key=repr)
