"""What a memory is found to be that somebody opens after a power loss, or after a death."""

import hashlib
import shutil
from pathlib import Path
from random import Random

from msgspec import Struct

from fuzz.running import Verdicts
from fuzz.survival import Files, put
from fuzz.workloads import REPLICA, State, state_of
from structmem import Column, StructMemError, StructuredMemory, open_replica
from structmem_journal import Record


class Found(Struct, frozen=True):
    """`is_new`: there was no memory yet, and opening it made one."""

    state: State
    is_new: bool


class Survivors:
    """Opens what survived, raises what is wrong with it, and uses it. The same files are opened
    once. `records` are those of the primary, for a replica to go on with."""

    def __init__(
        self, directory: Path, memory_id: str, records: list[Record], verdicts: Verdicts
    ) -> None:
        self._place = directory / "survived"
        self._memory_id = memory_id
        self._records = records
        self._verdicts = verdicts
        self._known: dict[str, Found] = {}

    def found(self, file: str, files: Files) -> Found:
        """What the memory in this one of the files is."""
        mine = {name: content for name, content in sorted(files.items()) if name.startswith(file)}
        key = hashlib.sha256(repr([file, mine]).encode()).hexdigest()
        if key not in self._known:
            self._known[key] = self._opened(file, mine, Random(key))
            self._verdicts["survivors opened"] += 1
        return self._known[key]

    def _opened(self, file: str, files: Files, random: Random) -> Found:
        shutil.rmtree(self._place, ignore_errors=True)
        put(files, self._place)
        path = self._place / file
        if files.get(file) and random.random() < 0.3:
            _read_first(path, is_made=file + "-journal" not in files)
        with self._open(path) as memory:
            memory.verify(deep=True)
            state = state_of(path)
            is_new = memory.id != self._memory_id or (file == REPLICA and state.seq == 0)
            self._go_on(memory)
        with StructuredMemory(path) as memory:
            memory.verify(deep=True)
        state_of(path)  # once more, without a log
        return Found(state, is_new)

    def _open(self, path: Path) -> StructuredMemory:
        if path.name == REPLICA:
            return open_replica(path, memory_id=self._memory_id)
        return StructuredMemory(path)

    def _go_on(self, memory: StructuredMemory) -> None:
        """Use it, and leave it as it was but for its journal."""
        if memory.role() == "replica":
            memory.apply(self._records[memory.position().seq :])
            return
        before = state_of(memory.path).told
        memory.create_table("goes on", [Column("a")])
        memory.insert("goes on", {"a": "x" * 5_000})
        memory.undo()
        memory.undo()
        assert state_of(memory.path).told == before
        if memory.history(1):
            memory.undo()
            memory.redo()
            assert state_of(memory.path).told == before


def _read_first(path: Path, *, is_made: bool) -> None:
    """Let a reader be who finds the file first; of one that is not made yet it says so."""
    with StructuredMemory(path, read_only=True) as memory:
        try:
            memory.verify(deep=True)
        except StructMemError as error:
            if "is an empty file" not in error.message and (is_made or error.code != "read_only"):
                raise


def difference(found: State, *allowed: State | None) -> str:
    """What to say of a state that is none of the allowed ones."""
    seqs = [state.seq if state is not None else "none" for state in allowed]
    lines = [f"found the state after {found.seq} records; allowed is that after {seqs}"]
    for state in allowed:
        if state is not None and state.seq == found.seq:
            names = sorted(found.whole.keys() | state.whole.keys())
            differing = [n for n in names if found.whole.get(n) != state.whole.get(n)]
            lines.append(f"of which these tables differ: {differing}")
    return "; ".join(lines)
