"""Large things, measured: `make large`, or `python -m tests.engine.large [--only TEXT]`.

Each step runs in a process of its own, on the file that the steps before it left, and prints what
came of it, the seconds it took and the most memory that its process ever had. A step that is to be
refused must raise that error and leave the memory as it was: a row goes in and out afterwards. The
whole takes half an hour, 6 GB of memory and 10 GB of disk.

`docs/limits.md` has the table that this prints.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from structmem import (
    Column,
    InvalidCall,
    QueryLimit,
    StructMemError,
    StructuredMemory,
    open_replica,
)

MIB: Final = 1 << 20
VALUE: Final = bytes(16 * MIB)
"""A value of exactly the default `max_value_bytes`."""
HUGE: Final = 900_000_000
"""The largest `max_value_bytes`."""
WIDTH: Final = 1_999

Act = Callable[[StructuredMemory], object]


class Step(Struct, frozen=True):
    """One call. `refused` is the error that it must end in; None if it must work."""

    name: str
    act: Act
    refused: type[StructMemError] | None = None


class Series(Struct, frozen=True):
    """Steps on one file, one after another."""

    name: str
    steps: list[Step]
    max_value_bytes: int = len(VALUE)


def _undo(memory: StructuredMemory) -> object:
    return memory.undo()


def _redo(memory: StructuredMemory) -> object:
    return memory.redo()


def _verify(memory: StructuredMemory) -> object:
    return memory.verify(deep=True)


def _replicate(memory: StructuredMemory) -> object:
    """What a replica does with every record, one after another."""
    path = memory.path.with_suffix(".replica")
    with open_replica(path, memory_id=memory.id) as replica:
        for record in memory.records():
            replica.apply([record])
        assert replica.position() == memory.position()
    path.unlink()
    return None


# -- many rows -------------------------------------------------------------------------------------


def _insert_many(memory: StructuredMemory) -> object:
    memory.create_table("t", [Column("a", "INTEGER"), Column("b", "TEXT"), Column("c", "REAL")])
    return memory.insert("t", ({"a": n, "b": f"name {n}", "c": n / 8} for n in range(100_000)))


MANY: Final[list[Step]] = [
    Step("insert 100 000 rows of 3 columns", _insert_many),
    Step("update 100 000 rows", lambda m: m.update("t", {"b": "x"}, "true")),
    Step("undo it", _undo),
    Step("redo it", _redo),
    Step("delete 40 000 rows", lambda m: m.delete("t", "a < 40000")),
    Step("undo it", _undo),
    Step("delete 100 000 rows", lambda m: m.delete("t", "true")),
    Step("undo it", _undo),
    Step("redo it", _redo),
    Step("execute INSERT ... SELECT of 100 000 rows", lambda m: m.execute(_COPY)),
    Step("execute ALTER ... DROP COLUMN of 100 000", lambda m: m.execute(_DROP_C)),
    Step("undo it", _undo),
    Step("verify(deep=True)", _verify),
    Step("a replica of it all", _replicate),
]
_COPY: Final = (
    "INSERT INTO t WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 100000)"
    " SELECT i, 'name ' || i, i / 8.0 FROM n"
)
_DROP_C: Final = "ALTER TABLE t DROP COLUMN c"

# -- the widest table ------------------------------------------------------------------------------


def _insert_wide(memory: StructuredMemory) -> object:
    memory.create_table("t", [Column(f"c{n}") for n in range(WIDTH)])
    return memory.insert("t", [{f"c{n}": row + n for n in range(WIDTH)} for row in range(1_000)])


WIDE: Final[list[Step]] = [
    Step("insert 1 000 rows of 1 999 columns", _insert_wide),
    Step(
        "update all columns of them",
        lambda m: m.update("t", {f"c{n}": "x" for n in range(WIDTH)}, "true"),
    ),
    Step("undo it", _undo),
    Step("create_index", lambda m: m.create_index("t", ["c1998"])),
    Step("drop_table", lambda m: m.drop_table("t")),
    Step("undo it", _undo),
    Step("delete them", lambda m: m.delete("t", "true")),
    Step("undo it", _undo),
    Step("describe", lambda m: m.describe()),
    Step("verify(deep=True)", _verify),
    Step("a replica of it all", _replicate),
]

# -- more than a record can hold -------------------------------------------------------------------


def _insert_values(memory: StructuredMemory, count: int) -> object:
    return memory.insert("t", [{"n": n, "v": VALUE} for n in range(count)])


def _insert_first(memory: StructuredMemory) -> object:
    memory.create_table("t", [Column("n", "INTEGER"), Column("v")])
    return _insert_values(memory, 63)


GIGABYTE: Final[list[Step]] = [
    Step("insert 63 values of 16 MiB: 1 008 MiB", _insert_first),
    Step("undo it", _undo),
    Step("redo it", _redo),
    Step("insert 64 of them: over 1 GiB", lambda m: _insert_values(m, 64), InvalidCall),
    Step("insert 20 of them: the table has 1.3 GiB", lambda m: _insert_values(m, 20)),
    Step("update another column of all", lambda m: m.update("t", {"n": 0}, "true")),
    Step("update all the values", lambda m: m.update("t", {"v": b"x"}, "true"), InvalidCall),
    Step("delete all", lambda m: m.delete("t", "true"), InvalidCall),
    Step("execute UPDATE of them", lambda m: m.execute("UPDATE t SET v = 1"), InvalidCall),
    Step("execute DELETE of them", lambda m: m.execute("DELETE FROM t"), InvalidCall),
    Step("execute DROP TABLE", lambda m: m.execute("DROP TABLE t"), InvalidCall),
    Step(
        "execute ALTER ... DROP COLUMN",
        lambda m: m.execute("ALTER TABLE t DROP COLUMN n"),
        InvalidCall,
    ),
    Step(
        "execute ALTER ... RENAME TO", lambda m: m.execute("ALTER TABLE t RENAME TO u"), InvalidCall
    ),
    Step(
        "execute ALTER ... ADD COLUMN", lambda m: m.execute("ALTER TABLE t ADD COLUMN w DEFAULT 7")
    ),
    Step("undo it", _undo),
    Step("add_column", lambda m: m.add_column("t", {"name": "w", "default": 7})),
    Step("undo it", _undo),
    Step("create_index of the values", lambda m: m.create_index("t", ["v", "n"])),
    Step("undo it", _undo),
    Step("drop_table", lambda m: m.drop_table("t")),
    Step("undo it", _undo),
    Step("redo it", _redo),
    Step("undo it", _undo),
    Step("query all lengths", lambda m: m.query("SELECT n, length(v) FROM t")),
    Step("query all values", lambda m: m.query("SELECT v FROM t"), QueryLimit),
    Step("verify(deep=True)", _verify),
    Step("a replica of it all", _replicate),
]

# -- the largest value -----------------------------------------------------------------------------


def _insert_huge(memory: StructuredMemory) -> object:
    memory.create_table("t", [Column("a"), Column("b")])
    return memory.insert("t", {"a": bytes(HUGE)})


LARGEST: Final[list[Step]] = [
    Step("insert one value of 900 MB", _insert_huge),
    Step("insert one byte more", lambda m: m.insert("t", {"a": bytes(HUGE + 1)}), InvalidCall),
    Step(
        "insert two in a row: longer than a row",
        lambda m: m.insert("t", {"a": bytes(HUGE), "b": bytes(HUGE)}),
        InvalidCall,
    ),
    Step("query it", lambda m: m.query("SELECT a FROM t")),
    Step(
        "update it to another: 1.8 GB of images",
        lambda m: m.update("t", {"a": b"x" * HUGE}, "true"),
        InvalidCall,
    ),
    Step("update it to NULL", lambda m: m.update("t", {"a": None}, "true")),
    Step("undo it", _undo),
    Step("delete it", lambda m: m.delete("t", "length(a) > 1")),
    Step("undo it", _undo),
    Step("drop_table", lambda m: m.drop_table("t")),
    Step("undo it", _undo),
    Step("execute UPDATE", lambda m: m.execute("UPDATE t SET a = substr(a, 2)"), InvalidCall),
    Step("verify(deep=True)", _verify),
    Step("a replica of it all", _replicate),
]

SERIES: Final = {
    "rows": Series("100 000 rows", MANY),
    "wide": Series("1 999 columns", WIDE),
    "record": Series("1 GiB in one operation", GIGABYTE),
    "value": Series("values of 900 MB", LARGEST, max_value_bytes=HUGE),
}


# -- running them ----------------------------------------------------------------------------------


def take(series: Series, step: Step, path: Path) -> dict[str, object]:
    """Take one step in this process."""
    with StructuredMemory(
        path, max_value_bytes=series.max_value_bytes, query_timeout=600.0
    ) as memory:
        began, outcome = time.monotonic(), "done"
        try:
            step.act(memory)
        except StructMemError as error:
            if step.refused is None or not isinstance(error, step.refused):
                raise
            outcome = f"{type(error).__name__}: {error}"
        else:
            assert step.refused is None, f"{step.name} went through"
        seconds = time.monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if step.refused is not None:
            memory.create_table("witness", [Column("n")])
            memory.undo()
    return {"outcome": outcome, "seconds": seconds, "peak": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[*SERIES], action="append", help="these series alone")
    parser.add_argument("--directory", help="where the files go")
    parser.add_argument("--take", nargs=3, metavar=("SERIES", "STEP", "FILE"))
    wanted = parser.parse_args()
    if wanted.take:
        name, number, path = wanted.take
        series = SERIES[name]
        print(json.dumps(take(series, series.steps[int(number)], Path(path))))
        return
    for name in wanted.only or SERIES:
        with tempfile.TemporaryDirectory(prefix="structmem-large-", dir=wanted.directory) as files:
            _run(name, Path(files) / "large.db")


def _run(name: str, path: Path) -> None:
    print(f"\n{SERIES[name].name}\n\n| what | seconds | peak MB | outcome |\n|---|---|---|---|")
    for number, step in enumerate(SERIES[name].steps):
        command = [sys.executable, "-m", "tests.engine.large", "--take", name, str(number), path]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        found = json.loads(done.stdout)
        seconds, peak = f"{found['seconds']:.1f}", f"{found['peak']:,}"
        print(f"| {step.name} | {seconds} | {peak} | {found['outcome']} |", flush=True)


if __name__ == "__main__":
    main()
