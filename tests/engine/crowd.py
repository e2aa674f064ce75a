"""Many writers on one file: threads that share a memory, and processes, each with one of its own.

Invariants checked:

- No write is refused for another's sake: nothing is `Busy`, locked, or stale.
- The journal is exactly what was reported, by all of them together: no write lost, none twice, no
  gap between records.
- Each record is on the chain where it was reported, and what was captured is all that changed:
  `verify(deep=True)` passes.
"""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from structmem import Position, StructuredMemory
from tests.engine.workload import LIGHT, SCHEMA, write

THREADS: Final = 8
PROCESSES: Final = 4


class Crowd(Struct):
    """What it did: the writes that were reported, the kinds of operations among them, and the
    tables and rows there in the end."""

    writes: int
    kinds: set[str]
    tables: int
    rows: int

    def __str__(self) -> str:
        return (
            f"{THREADS} threads and {PROCESSES} processes: {self.writes} writes of "
            f"{len(self.kinds)} kinds reported, each on the chain and nothing else; {self.rows} "
            f"rows in {self.tables} tables verified."
        )


def gather(path: Path, writes: int, seed: int) -> Crowd:
    """Let each thread and process do so many writes, all at once. Raises `AssertionError`."""
    random, context = Random(seed), get_context("spawn")
    begin = context.Barrier(PROCESSES + 1)
    with (
        StructuredMemory(path, actor="threads") as memory,
        ThreadPoolExecutor(THREADS) as threads,
        ProcessPoolExecutor(PROCESSES, mp_context=context, initializer=begin.wait) as processes,
    ):
        seeds = [2 * random.getrandbits(32) + n % 2 for n in range(THREADS + PROCESSES)]
        done = [processes.submit(_work, str(path), writes, seed) for seed in seeds[:PROCESSES]]
        begin.wait(60)
        done += [threads.submit(_write, memory, writes, seed) for seed in seeds[PROCESSES:]]
        return _check(memory, [position for each in done for position in each.result()])


def _work(path: str, writes: int, seed: int) -> list[str]:
    """In a process of its own."""
    with StructuredMemory(path, actor=f"process {seed}") as memory:
        return _write(memory, writes, seed)


def _write(memory: StructuredMemory, writes: int, seed: int) -> list[str]:
    """The positions of new records, one for each write that made one. Every other writer makes
    tables and takes back, until half its writes are done, what all of them did."""
    random, reported = Random(seed), list[str]()
    for number in range(writes):
        undoes = seed % 2 and number < writes // 2
        result = write(memory, random, SCHEMA if undoes else LIGHT)
        if result.position is not None and not result.repeated:
            reported.append(str(result.position))
        if number % 10 == 0:
            memory.describe()
            memory.query("SELECT count(*) FROM sqlite_schema")
    return reported


def _check(memory: StructuredMemory, reported: list[str]) -> Crowd:
    positions = sorted(map(Position.parse, reported), key=lambda each: each.seq)
    head = memory.position()
    assert [position.seq for position in positions] == list(range(1, head.seq + 1))
    for position in positions:
        assert memory.position_at(position.seq) == position
    report = memory.verify(deep=True, expect=head)
    assert report.tables is not None and report.rows is not None
    kinds = {operation.operation for operation in memory.log()}
    return Crowd(len(reported), kinds, report.tables, report.rows)
