"""Writers that are killed, and what they must leave.

A writer (see `doomed`) does mixed writes and reports each one that has returned. It is killed with
SIGKILL, by us at a random moment, or by itself within a file operation that was drawn. The next one
goes on with the same file.

Invariants checked, after each kill:

- Every write that was reported is on the chain, at the position that was reported.
- At most one more is there, the one that was being done: a writer reports before it goes on.
- Nothing is half there: `verify(deep=True)` passes, and finds the last reported position.
- No call id has two records.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from signal import SIGKILL
from subprocess import PIPE
from typing import Final

from msgspec import Struct, field

from structmem import Position, StructuredMemory
from tests.engine.doomed import OPERATIONS_MAX, moments

ROOT: Final = Path(__file__).parents[2]
KILLS_PER_FILE: Final = 10
"""Verifying takes longer with each write: then a new file is begun."""

WRITES_MAX: Final = 50
"""A writer that has begun so many, and has not come to its file operation, is killed."""

Progress = Callable[[int, int], None]


class Tally(Struct):
    """What happened. `in_a_write`: writers that died while they were writing; `unreported`: where
    that write was there all the same. `at`: the file operations within which they died."""

    kills: int = 0
    reported: int = 0
    in_a_write: int = 0
    unreported: int = 0
    at: Counter[str] = field(default_factory=Counter[str])

    def __str__(self) -> str:
        at = "".join(f"\n  {count:4} {what}" for what, count in sorted(self.at.items()))
        return (
            f"{self.kills} kills, {self.in_a_write} of them in the middle of a write; of those "
            f"{self.unreported} were committed, and not reported yet.\n"
            f"{self.reported} writes reported, none lost. Chosen places of death:{at}"
        )


class Victims:
    """One file, and its writers one after the other."""

    def __init__(self, path: Path, random: Random, tally: Tally) -> None:
        self._path, self._random, self._tally = path, random, tally
        self._reported: list[Position] = []
        self._head = 0

    def kill_one(self) -> None:
        """Let a writer work and die, and check what it leaves."""
        lines = self._watch(*self._fate())
        new = [
            Position.parse(line[5:]) for line in lines if line.startswith("done ") and ":" in line
        ]
        deaths = [line[5:] for line in lines if line.startswith("dies ")]
        in_a_write = [line for line in lines if not line.startswith("dies ")][-1:] == ["begin"]
        self._reported += new
        unreported = self._check(in_a_write)
        self._tally.kills += 1
        self._tally.reported += len(new)
        self._tally.in_a_write += in_a_write
        self._tally.unreported += unreported
        self._tally.at.update(deaths)

    def _fate(self) -> tuple[list[str], int, float]:
        """How the writer dies: of itself at a file operation, or, when it has begun so many writes,
        so many seconds later."""
        if self._random.random() < 0.4:
            return [], self._random.randrange(1, 30), self._random.expovariate(30)
        operation = self._random.choice(list(OPERATIONS_MAX))
        count = self._random.randint(1, OPERATIONS_MAX[operation])
        return [operation, str(count), self._random.choice(moments(operation))], WRITES_MAX, 0.0

    def _watch(self, death: list[str], writes: int, delay: float) -> list[str]:
        """What the writer said until it died."""
        seed = str(self._random.getrandbits(32))
        command = [sys.executable, "-W", "error", "-m", "tests.engine.doomed"]
        with subprocess.Popen(
            [*command, str(self._path), seed, *death], cwd=ROOT, stdout=PIPE, stderr=PIPE, text=True
        ) as writer:
            assert writer.stdout is not None and writer.stderr is not None
            lines: list[str] = []
            while lines.count("begin") < writes and (line := writer.stdout.readline()):
                lines.append(line.strip())
            time.sleep(delay)
            writer.kill()
            lines += writer.stdout.read().splitlines()
            errors = writer.stderr.read()
        assert writer.returncode == -SIGKILL, f"writer {seed} of {self._path} failed:\n{errors}"
        return lines

    def _check(self, in_a_write: bool) -> bool:
        """Whether a write is there that was not reported. A reader may be who recovers the file."""
        read_only = self._head > 0 and self._random.random() < 0.5
        with StructuredMemory(self._path, read_only=read_only) as memory:
            for position in self._reported:
                assert memory.position_at(position.seq) == position, f"{position} was reported"
            known = max([self._head, *(position.seq for position in self._reported)])
            self._head = memory.position().seq
            assert self._head - known in ((0, 1) if in_a_write else (0,))
            memory.verify(deep=True, expect=self._reported[-1] if self._reported else None)
            calls = Counter(o.call_id for o in memory.log() if o.call_id is not None)
            assert not calls or max(calls.values()) == 1, calls
        return self._head > known


def kill_writers(directory: Path, kills: int, seed: int, progress: Progress) -> Tally:
    """Kill so many writers, all of them drawn from `seed`; what they wrote depends on time as well.
    Raises `AssertionError`, and leaves the file, when one leaves what it must not."""
    random, tally = Random(seed), Tally()
    while tally.kills < kills:
        path = directory / f"file-{tally.kills}.db"
        victims = Victims(path, random, tally)
        for _ in range(min(KILLS_PER_FILE, kills - tally.kills)):
            victims.kill_one()
            progress(tally.kills, kills)
        with StructuredMemory(path) as memory:  # the last one ends well
            memory.undo()
            memory.verify(deep=True)
    return tally
