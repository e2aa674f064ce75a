"""Mixed writes, drawn at random: what writers are killed in, and what a crowd does.

A new operation is one line in `WRITES`.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

from structmem import (
    CannotUndo,
    Column,
    NoSuchTable,
    NothingToUndo,
    StructuredMemory,
    TableExists,
    WriteResult,
)

Write = Callable[[StructuredMemory, Random], WriteResult]

TABLES: Final = ("t0", "t1", "t2")
COLUMNS: Final = [
    Column("id", "INTEGER", primary_key=True),
    Column("name", "TEXT", unique=True),
    Column("n", "INTEGER"),
    Column("text"),
]
CALLS: Final = 40
REFUSALS: Final = (NoSuchTable, NothingToUndo, TableExists, CannotUndo)
"""What a write may meet that was drawn without a look at the memory."""


def create_table(memory: StructuredMemory, random: Random) -> WriteResult:
    """Not always the same columns, so that whoever remembers those of before is found out."""
    extra = [Column("extra", default=1.5)] * random.randrange(2)
    columns = [COLUMNS[0], *extra, *COLUMNS[1:]]
    return memory.create_table(random.choice(TABLES), columns, if_not_exists=True)


def insert_one(memory: StructuredMemory, random: Random) -> WriteResult:
    return memory.insert(random.choice(TABLES), _row(random))


def insert_some(memory: StructuredMemory, random: Random) -> WriteResult:
    return memory.insert(random.choice(TABLES), [_row(random) for _ in range(20)])


def insert_many(memory: StructuredMemory, random: Random) -> WriteResult:
    """More than SQLite's cache holds: parts of it are in the log before the commit."""
    large = {"text": random.randbytes(7_000)}
    return memory.insert(random.choice(TABLES), [_row(random) | large for _ in range(250)])


def update(memory: StructuredMemory, random: Random) -> WriteResult:
    values = {"text": random.randbytes(200), "n": random.randrange(100)}
    return memory.update(random.choice(TABLES), values, "n % 9 = ?", [random.randrange(9)])


def delete(memory: StructuredMemory, random: Random) -> WriteResult:
    return memory.delete(random.choice(TABLES), "n % 5 = ?", [random.randrange(5)])


def undo(memory: StructuredMemory, _random: Random) -> WriteResult:
    return memory.undo()


def redo(memory: StructuredMemory, _random: Random) -> WriteResult:
    return memory.redo()


def revert(memory: StructuredMemory, random: Random) -> WriteResult:
    operations = memory.history(8)
    if not operations:
        raise NothingToUndo("Nothing was done yet.")
    return memory.revert_to(random.choice(operations).op_id)


def add_column(memory: StructuredMemory, random: Random) -> WriteResult:
    return memory.add_column(random.choice(TABLES), Column(_new_name(random), default="more"))


def create_index(memory: StructuredMemory, random: Random) -> WriteResult:
    return memory.create_index(random.choice(TABLES), ["n", "text"])


def drop_index(memory: StructuredMemory, random: Random) -> WriteResult:
    return memory.drop_index(f"{random.choice(TABLES)}_n_text")


def drop_table(memory: StructuredMemory, random: Random) -> WriteResult:
    return memory.drop_table(random.choice(TABLES))


def execute(memory: StructuredMemory, random: Random) -> WriteResult:
    sql = random.choice(SCRIPTS).format(table=random.choice(TABLES), new=_new_name(random))
    return memory.execute(sql)


_TRIGGER: Final = (
    "CREATE TRIGGER IF NOT EXISTS {table}_touch AFTER INSERT ON {table} BEGIN"
    " UPDATE {table} SET n = n + 1 WHERE id = new.id - 1; END"
)
SCRIPTS: Final = (
    "UPDATE {table} SET n = n + 1 WHERE n < 50; DELETE FROM {table} WHERE n = 51",
    "INSERT OR REPLACE INTO {table} (id, name, n) SELECT id, name || 'x', 5 FROM {table} LIMIT 3",
    _TRIGGER,
    "CREATE VIEW IF NOT EXISTS {new} AS SELECT 1; DROP VIEW {new}",
    "ALTER TABLE {table} RENAME TO {new}; ALTER TABLE {new} RENAME TO {table}",
    "ALTER TABLE {table} ADD COLUMN {new} DEFAULT 1; ALTER TABLE {table} DROP COLUMN {new}",
    "ALTER TABLE {table} RENAME n TO {new}; ALTER TABLE {table} RENAME {new} TO n",
    "DROP TABLE {table}",
)


def repeatable(memory: StructuredMemory, random: Random) -> WriteResult:
    """One of a few calls, each with its own id and arguments: done once, however often called."""
    number = random.randrange(CALLS)
    row = {"name": f"call {number}", "n": number}
    return memory.insert(TABLES[number % len(TABLES)], row, call_id=f"call-{number}")


WRITES: Final[list[tuple[int, Write]]] = [
    (2, create_table),
    (12, insert_one),
    (6, insert_some),
    (1, insert_many),
    (4, update),
    (3, delete),
    (3, undo),
    (2, redo),
    (1, revert),
    (1, add_column),
    (1, create_index),
    (1, drop_index),
    (1, drop_table),
    (4, execute),
    (4, repeatable),
]
"""Each with how often it is drawn."""

LIGHT: Final = [(weight, write) for weight, write in WRITES if write is not insert_many]
"""Those that take no longer than a moment, so that a crowd gets its turns."""


SCHEMA: Final[list[tuple[int, Write]]] = [
    (1, create_table),
    (5, undo),
    (1, drop_table),
    (1, execute),
]
"""What makes tables come and go, by keeping the history short that others make."""


def write(
    memory: StructuredMemory, random: Random, among: list[tuple[int, Write]] = WRITES
) -> WriteResult:
    """Do one of them: the first drawn that is not refused."""
    weights = [weight for weight, _write in among]
    while True:
        _weight, chosen = random.choices(among, weights)[0]
        with suppress(*REFUSALS):
            return chosen(memory, random)


def _new_name(random: Random) -> str:
    return f"x{random.getrandbits(40):x}"


def _row(random: Random) -> dict[str, Any]:
    return {
        "name": f"{random.getrandbits(80):x}",
        "n": random.randrange(100),
        "text": "x" * random.randrange(400),
    }
