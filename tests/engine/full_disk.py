"""A disk that is full at a chosen byte, and what a memory must hold to on it.

It runs in a process of its own, because a limit binds the whole process:
`python -m tests.engine.full_disk limit DIRECTORY`.

- `limit`: no file may grow beyond so many bytes (RLIMIT_FSIZE). SQLite calls it an I/O error.
- `disk`: DIRECTORY is a small file system of its own, filled up until so much is left. SQLite calls
  it full.

Each kind of write is tried with more and more room, from none, until it succeeds. It fails where
the statement ran out of SQLite's cache, where the record is appended, and at the commit.

Invariants checked, after each failure:

- The error is `Full`, and does not speak of the size limit, which is far off. No row, record or
  event of the write is there; the connection is in autocommit; reading works with the disk full.
- With room again the next write works, earlier ones can be undone, and `verify(deep=True)` passes.
"""

import json
import os
import resource
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from structmem import Column, Full, Position, StructuredMemory, sql
from tests.engine.conftest import dump, raw, writer_of

Write = Callable[[StructuredMemory], object]

LARGE: Final = [{"a": "x" * 3_000, "b": n} for n in range(800)]
"""More than SQLite's cache of 2 MB holds, so that part of it is written before the commit."""


class Limit:
    """No file of this process may be larger than `size` bytes."""

    @contextmanager
    def room(self, size: int) -> Generator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Disk:
    """The file system of `directory` has `size` bytes left."""

    def __init__(self, directory: Path) -> None:
        self._ballast = directory / "ballast"

    @contextmanager
    def room(self, size: int) -> Generator[None]:
        stat = os.statvfs(self._ballast.parent)
        free = stat.f_bavail * stat.f_frsize
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(free - size, 1))
        try:
            yield
        finally:
            self._ballast.unlink()


def insert_one(memory: StructuredMemory) -> None:
    memory.insert("t", {"a": 1, "b": -1})


def insert_many(memory: StructuredMemory) -> None:
    memory.insert("t", LARGE)


def update_all(memory: StructuredMemory) -> None:
    memory.update("t", {"a": "y" * 3_000}, "true")


def delete_all(memory: StructuredMemory) -> None:
    memory.delete("t", "true")


def undo(memory: StructuredMemory) -> None:
    memory.undo()


def create(memory: StructuredMemory) -> None:
    memory.create_table("u", [Column("a", unique=True)])


WRITES: Final[list[tuple[Write, int]]] = [
    (insert_one, 6_000),
    (create, 6_000),
    (insert_many, 1_000_000),
    (update_all, 1_500_000),
    (undo, 1_500_000),
    (delete_all, 1_500_000),
]
"""In this order, each with the bytes by which the room grows."""


class Sweep:
    """Where writes failed, by name and place."""

    def __init__(self, directory: Path, disk: "Limit | Disk") -> None:
        self.failed = Counter[str]()
        self._disk = disk
        self._path = directory / "a.db"
        self._memory = self._open()
        self._heard: list[Position] = []

    def _open(self) -> StructuredMemory:
        return StructuredMemory(self._path, actor="tester", size_limit=1 << 40)

    def run(self) -> None:
        self._create_the_file()
        self._memory.on_commit(self._heard.append)
        self._memory.create_table("t", [Column("a"), Column("b", "INTEGER", unique=True)])
        for write, step in WRITES:
            size = 0
            while not self._try(write, size):
                size += step
        self._close_while_full()

    def _create_the_file(self) -> None:
        """A new memory needs room at once; what is there when it had none is no obstacle later."""
        size = 0
        while not self._ends_well("open", size, StructuredMemory.position):
            self._memory.close()
            self._memory = self._open()
            size += 6_000

    def _try(self, write: Write, size: int) -> bool:
        """Whether the write succeeds with so much room, from an empty log on."""
        self._empty_the_log()
        before = dump(self._memory, internal=True)
        position, heard = self._memory.position(), len(self._heard)
        if self._ends_well(write.__name__, size, write):
            return True
        writer = writer_of(self._memory)
        assert not writer.connection.in_transaction
        assert dump(self._memory, internal=True) == before
        assert self._memory.position() == position
        assert len(self._heard) == heard
        self._memory.insert("t", {"a": "next", "b": -2})
        self._memory.undo()
        self._memory.verify(deep=True)
        return False

    def _ends_well(self, name: str, size: int, work: Write) -> bool:
        with self._disk.room(size):
            try:
                work(self._memory)
            except Full as error:
                assert error.message.startswith("There is no room left for a.db"), error
                self.failed[f"{name} {place_of(error)}"] += 1
                if name != "open":
                    self._memory.query("SELECT count(*) FROM t")
                return False
        return True

    def _close_while_full(self) -> None:
        """The log cannot be moved into the file: it stays, and nothing is lost."""
        self._empty_the_log()
        self._memory.insert("t", LARGE[:300])
        position = self._memory.position()
        with self._disk.room(0):
            self._memory.close()
        with StructuredMemory(self._memory.path) as memory:
            assert memory.position() == position
            memory.verify(deep=True)

    def _empty_the_log(self) -> None:
        connection = raw(self._memory)
        sql.run(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


def place_of(error: Full) -> str:
    """Where in a write SQLite ran out of room."""
    cause = error.__cause__
    assert cause is not None
    names = {frame.name for frame in traceback.extract_tb(cause.__traceback__)}
    return next((place for place in ("commit", "append") if place in names), "statement")


def main(kind: str, directory: str) -> None:
    place = Path(directory)
    sweep = Sweep(place, Limit() if kind == "limit" else Disk(place))
    sweep.run()
    print(json.dumps(sweep.failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
