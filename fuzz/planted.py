"""Whether the searches find faults: each is planted in a copy of the source, and searched for.

`python -m fuzz.planted` plants one after the other and prints how long each took to find; names
given on the line choose some of them. The exit code is 0 only when all were found in time.

A fault is a replacement of text that stands in a file exactly once. When the code has changed so
that it no longer does, that is an error, and the fault is to be written anew.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

ROOT: Final = Path(__file__).parents[1]
_COPIED: Final = ("engine", "journal", "replicator", "fuzz", "tests")
_SOURCES: Final = ("engine", "journal", "replicator")


class Fault(Struct, frozen=True):
    """What is planted: in `file`, `right` becomes `wrong`; and the target that has to find it."""

    name: str
    target: str
    file: str
    right: str
    wrong: str


FAULTS: Final = (
    Fault(
        "no rollback",
        "isolation",
        "engine/structmem/sandbox.py",
        'self._run_ours("ROLLBACK")',
        'self._run_ours("COMMIT")',
    ),
    Fault(
        "transaction control let through",
        "isolation",
        "engine/structmem/guard.py",
        "return action.code not in (apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT)",
        "return True",
    ),
    Fault(
        "a second statement not noticed",
        "isolation",
        "engine/structmem/sandbox.py",
        "if self._goes_on(statements):",
        "if False:",
    ),
    Fault(
        "guard without PRAGMA",
        "isolation",
        "engine/structmem/guard.py",
        "return self._allows_pragma(action)",
        "return True",
    ),
    Fault(
        "schema rows leaking",
        "isolation",
        "engine/structmem/reading.py",
        "Guard(elsewhere=[Place.SCHEMA])",
        "Guard()",
    ),
    Fault(
        "pages of a program not looked at",
        "isolation",
        "engine/structmem/reading.py",
        "if not sandbox.gate.allows_program(program):",
        "if False:",
    ),
    Fault(
        "alias not checked",
        "conditions",
        "engine/structmem/conditions.py",
        "if prepared.statement.columns != (alias,):",
        "if False:",
    ),
    Fault(
        "alias fixed",
        "conditions",
        "engine/structmem/conditions.py",
        'alias = "c" + secrets.token_hex(_ALIAS_BYTES)',
        'alias = "c" + "0" * _ALIAS_BYTES',
    ),
    Fault(
        "a frame missing",
        "conditions",
        "engine/structmem/conditions.py",
        'reader.compile(f"SELECT CASE WHEN\\n{condition}\\nTHEN 1 END FROM {name}")',
        "pass",
    ),
    Fault(
        "before image from the wrong moment",
        "machine",
        "engine/structmem/writing.py",
        "before, after = self._writer.images, self.connection\n        touched",
        "before, after = self.connection, self.connection\n        touched",
    ),
    Fault(
        "undo without conflict check",
        "machine",
        "engine/structmem/replay.py",
        "        _check_row(table, rowid, columns, values, current.get(rowid))\n",
        "        pass\n",
    ),
    Fault(
        "a sync left out",
        "storage",
        "engine/structmem/connection.py",
        'sql.pragma(connection, "synchronous", "FULL")',
        'sql.pragma(connection, "synchronous", "NORMAL")',
    ),
    Fault(
        "no sync at all",
        "storage",
        "engine/structmem/connection.py",
        'sql.pragma(connection, "synchronous", "FULL")',
        'sql.pragma(connection, "synchronous", "OFF")',
    ),
    Fault(
        "record appended after commit",
        "storage",
        "engine/structmem/writing.py",
        "        log.append(self.connection, record, header, event)\n"
        "        self._moved_to(header, record)\n"
        "        self.commit()\n"
        "        return _result_of(event, self.position)\n",
        "        self.commit()\n"
        "        with self.connection:\n"
        "            log.append(self.connection, record, header, event)\n"
        "        self._moved_to(header, record)\n"
        "        return _result_of(event, self.position)\n",
    ),
    Fault(
        "replica position outside the transaction",
        "storage",
        "engine/structmem/memory.py",
        "            if bookmark is not None:\n"
        '                log.set_meta(tx.connection, "bookmark", bookmark)\n'
        "            tx.commit()\n",
        "            tx.commit()\n"
        "            if bookmark is not None:\n"
        '                log.set_meta(tx.connection, "bookmark", bookmark)\n',
    ),
    Fault(
        "a refused commit not forgotten",
        "storage",
        "engine/structmem/writing.py",
        "            self._forget_in_log()\n",
        "",
    ),
)


class Found(Struct, frozen=True):
    """How a search for a fault ended. `line` repeats it, empty when it found nothing."""

    seconds: float
    line: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant and search as asked; prints a table in Markdown."""
    asked = _parser().parse_args(arguments)
    chosen = [fault for fault in FAULTS if not asked.names or fault.name in asked.names]
    print("| fault | target | found after | |", "|---|---|---|---|", sep="\n", flush=True)
    missed = 0
    for fault in chosen:
        found = search_for(fault, seconds=asked.seconds, seed=asked.seed)
        missed += not found.line
        after = f"{found.seconds:.0f} s" if found.line else f"not in {found.seconds:.0f} s"
        print(f"| {fault.name} | {fault.target} | {after} | `{found.line}` |", flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} found")
    return 1 if missed or not chosen else 0


def search_for(fault: Fault, *, seconds: float, seed: int) -> Found:
    """Plant the fault in a copy, and search there, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="structmem-planted-") as made:
        copy = Path(made)
        for name in _COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        plant(fault, copy)
        began = time.monotonic()
        asked = [fault.target, "--seconds", str(seconds), "--seed", str(seed), "--no-shrinking"]
        # A fault may make a search crash, or go on for ever: that is found as well.
        ended = _run(copy, [sys.executable, "-m", "fuzz", *asked], timeout=seconds + 300)
        line = "" if ended == "clean" else ended
        return Found(time.monotonic() - began, line)


def plant(fault: Fault, directory: Path) -> None:
    """Raises `ValueError` unless the right text stands there exactly once."""
    path = directory / fault.file
    text = path.read_text("utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(
            f"{fault.name!r} cannot be planted: {fault.file} has {fault.right!r} "
            f"{text.count(fault.right)} times."
        )
    path.write_text(text.replace(fault.right, fault.wrong), "utf-8")


def _run(copy: Path, command: list[str], timeout: float) -> str:
    """`clean`, or what says how it failed."""
    paths = os.pathsep.join(str(copy / name) for name in _SOURCES)
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        ended = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return "it did not end"
    if ended.returncode == 0:
        return "clean"
    lines = ended.stdout.splitlines()
    return lines[-1] if ended.returncode == 1 and lines else f"exit code {ended.returncode}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz.planted", description=__doc__)
    parser.add_argument("names", nargs="*", help="of the faults; all when none is given")
    parser.add_argument("--seconds", type=float, default=600.0, help="to find each (600)")
    parser.add_argument("--seed", type=int, default=1, help="of each search (1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
