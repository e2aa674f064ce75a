"""What is compared. Both sides work on a table of three columns in a file of its own, and each
operation is one transaction."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from structmem import Column, StructuredMemory, open_replica, sql
from tests.benchmarks import bare
from tests.benchmarks.rounds import Case, Prepare, Work
from tests.engine.conftest import writer_of

_COLUMNS = (Column("id", "INTEGER", primary_key=True), Column("name", "TEXT"), Column("score"))
_NAME = "Ada Lovelace, mathematician"
_KEY = 7  # of the row that single updates and point queries are about


class Sizes(Struct, frozen=True):
    """How much is done."""

    single_rounds: int = 500
    bulk_rounds: int = 5
    bulk_rows: int = 100_000
    replayed_inserts: int = 5_000


QUICK = Sizes(single_rounds=50, bulk_rounds=2, bulk_rows=5_000, replayed_inserts=500)


def cases(directory: Path, sizes: Sizes, files: ExitStack) -> Iterator[Case]:
    """Each case, its files made when it is asked for; `files` closes them."""
    for synchronous in ("FULL", "NORMAL"):
        yield from _single(_Files.made(directory, synchronous, files), synchronous, sizes)
    yield from _bulk(_Files.made(directory, "bulk", files, sizes.bulk_rows), sizes)
    yield from _replayed(directory, sizes, files)


class _Files(Struct, frozen=True):
    """A bare file and a memory, with like tables."""

    bare: apsw.Connection
    memory: StructuredMemory

    @classmethod
    def made(cls, directory: Path, name: str, files: ExitStack, rows: int = 100) -> "_Files":
        connection = bare.opened(directory / f"{name}-bare.db", "NORMAL")
        memory = StructuredMemory(directory / f"{name}.db", actor="benchmark")
        files.enter_context(closing(connection))
        files.enter_context(memory)
        memory.create_table("items", _COLUMNS)
        memory.insert("items", _mappings(rows))
        bare.write_many(connection, bare.INSERT, _rows(rows))
        return cls(connection, memory)

    def synchronous(self, setting: str) -> None:
        """On both sides. The product has no such setting: what it reports is on disk."""
        writer = writer_of(self.memory)
        for connection in (self.bare, writer.connection):
            sql.pragma(connection, "synchronous", setting)


def _rows(count: int) -> list[tuple[str, int]]:
    return [(_NAME, number) for number in range(count)]


def _mappings(count: int) -> list[dict[str, Any]]:
    return [{"name": name, "score": score} for name, score in _rows(count)]


# -- one row -------------------------------------------------------------------------------------


def _single(files: _Files, synchronous: str, sizes: Sizes) -> Iterator[Case]:
    files.synchronous(synchronous)
    connection, memory = files.bare, files.memory
    yield Case(
        f"insert one row, {synchronous}",
        sizes.single_rounds,
        lambda n: lambda: bare.write(connection, bare.INSERT, (_NAME, n)),
        lambda n: lambda: memory.insert("items", {"name": _NAME, "score": n}, reason="Measured."),
    )
    yield Case(
        f"update one row, {synchronous}",
        sizes.single_rounds,
        lambda n: lambda: bare.write(connection, bare.UPDATE, (n, _KEY)),
        lambda n: lambda: memory.update("items", {"score": n + 1000}, "id = ?", (_KEY,)),
    )
    if synchronous == "FULL":  # reading asks nothing of the disk
        yield Case(
            "point query",
            sizes.single_rounds,
            lambda n: lambda: sql.rows(connection, bare.SELECT, (_KEY,)),
            lambda n: lambda: memory.query(bare.SELECT, (_KEY,)).rows,
        )


# -- many rows -----------------------------------------------------------------------------------


def _bulk(files: _Files, sizes: Sizes) -> Iterator[Case]:
    files.synchronous("FULL")
    connection, memory = files.bare, files.memory
    count = f"{sizes.bulk_rows:,} rows"

    def updated(n: int) -> None:
        bare.write(connection, bare.UPDATE_ALL, (-n - 1,))

    def undone(n: int) -> Work:
        memory.update("items", {"score": -n - 1}, "true")
        return memory.undo

    yield Case(
        f"update {count}",
        sizes.bulk_rounds,
        lambda n: lambda: updated(n),
        lambda n: lambda: memory.update("items", {"score": -n - 1}, "true"),
    )
    yield Case(f"undo that of {count}", sizes.bulk_rounds, lambda n: lambda: updated(-n), undone)
    yield Case(
        f"insert {count}",
        sizes.bulk_rounds,
        _given(_rows, sizes, lambda rows: bare.write_many(connection, bare.INSERT, rows)),
        _given(_mappings, sizes, lambda rows: memory.insert("items", rows)),
    )


def _given(
    made: Callable[[int], list[Any]], sizes: Sizes, work: Callable[[list[Any]], object]
) -> Prepare:
    """`work` on rows that are made anew, untimed, for each round."""

    def prepare(_round: int) -> Work:
        rows = made(sizes.bulk_rows)
        return lambda: work(rows)

    return prepare


# -- replay --------------------------------------------------------------------------------------


def _replayed(directory: Path, sizes: Sizes, files: ExitStack) -> Iterator[Case]:
    """A history of many single inserts, then with a large one: put into an empty replica in one
    transaction, against the bare statements again; and verified, which replays and compares."""
    memory = files.enter_context(StructuredMemory(directory / "primary.db", actor="benchmark"))
    memory.create_table("items", _COLUMNS)
    for row in _mappings(sizes.replayed_inserts):
        memory.insert("items", row)
    singles = _rows(sizes.replayed_inserts)
    again = _Again(directory, memory, files)
    yield Case(
        f"replay {len(singles):,} inserts of one row",
        sizes.bulk_rounds,
        again.bare("singles", singles),
        again.replica("singles"),
    )
    memory.insert("items", _mappings(sizes.bulk_rows))
    rows = singles + _rows(sizes.bulk_rows)
    yield Case(
        f"replay {len(rows):,} rows",
        sizes.bulk_rounds,
        again.bare("replayed", rows),
        again.replica("replayed"),
    )
    yield Case(
        f"verify {len(rows):,} rows, deep",
        sizes.bulk_rounds,
        again.bare("verified", rows),
        lambda _n: lambda: memory.verify(deep=True),
    )


class _Again(Struct, frozen=True):
    """Files that are made anew, untimed, for each round."""

    directory: Path
    memory: StructuredMemory
    files: ExitStack

    def bare(self, name: str, rows: list[tuple[str, int]]) -> Prepare:
        def prepare(n: int) -> Work:
            connection = bare.opened(self.directory / f"{name}-bare-{n}.db", "FULL")
            self.files.enter_context(closing(connection))
            return lambda: bare.write_many(connection, bare.INSERT, rows)

        return prepare

    def replica(self, name: str) -> Prepare:
        records = list(self.memory.records())

        def prepare(n: int) -> Work:
            path = self.directory / f"{name}-{n}.db"
            copy = self.files.enter_context(open_replica(path, memory_id=self.memory.id))
            return lambda: copy.apply(records)

        return prepare
