"""Queries that would do more than read, or never end: C08, C09, C10, C11, C39.

`tests/engine/reading/` tries the reader alone, layer by layer; C40 and C41 are pinned there. Here
the queries go through a whole memory, with its writer and the other connections beside it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from structmem import Column, InvalidCall, NoSuchTable, QueryLimit, StructuredMemory, sql
from tests.engine.faults.conftest import make_things, refused, unharmed
from tests.engine.reading.test_bounds import ENDLESS, TOO_COMPLEX, TOO_LARGE, TOO_LONG
from tests.engine.reading.test_isolation import SMUGGLED, WRITES

PRAGMAS = [name for (name,) in sql.rows(apsw.Connection(""), "PRAGMA pragma_list")]
FORMS = [
    *("PRAGMA {}", "PRAGMA main.{}", "PRAGMA temp.{}", "/* c */ pragma {};", "SELECT 1; PRAGMA {}"),
    *("EXPLAIN PRAGMA {}", "EXPLAIN QUERY PLAN PRAGMA {}"),
]
VALUES = ["0", "1", "-1", "2", "1000", "on", "off", "exclusive", "memory", "'UTF-16'", "'x'", "t"]


def texts_of(pragma: str) -> Iterator[str]:
    """Every way to say it: without a value, with one, as a function, behind EXPLAIN."""
    given = [pragma, f"{pragma}()"]
    given += [f"{pragma}{how}" for v in VALUES for how in (f"={v}", f"({v})")]
    yield from (form.format(text) for form in FORMS for text in given)
    yield from (f"SELECT * FROM pragma_{pragma}{arguments}" for arguments in ("", "(1)", "('t')"))


def ask(memory: StructuredMemory, text: str) -> bool:
    """Whether the query was answered."""
    try:
        memory.query(text)
    except InvalidCall:
        return False
    return True


@pytest.mark.parametrize("pragma", PRAGMAS)
def test_c08_c09_no_pragma_of_this_sqlite_changes_anything(
    things: StructuredMemory, pragma: str
) -> None:
    """Q2: not a setting of any connection, nor a limit of the process."""
    with unharmed(things):
        for text in texts_of(pragma):
            ask(things, text)


def test_c08_after_every_pragma_another_process_can_write(things: StructuredMemory) -> None:
    """Q2, M4"""
    for pragma in PRAGMAS:
        for text in texts_of(pragma):
            ask(things, text)
    script = (
        "import sys; from structmem import StructuredMemory\n"
        "with StructuredMemory(sys.argv[1]) as memory: memory.insert('t', {'a': 40})\n"
    )
    subprocess.run([sys.executable, "-c", script, str(things.path)], check=True)
    assert things.query("SELECT id FROM t WHERE a = 40").scalar() == 4


@pytest.mark.parametrize("limit", ["hard_heap_limit", "soft_heap_limit"])
def test_c09_a_heap_limit_reaches_no_other_memory(
    things: StructuredMemory, tmp_path: Path, limit: str
) -> None:
    """Q2"""
    for form in ("PRAGMA {}=1000", "EXPLAIN PRAGMA {}=1000", "SELECT * FROM pragma_{}(1000)"):
        with refused(things, InvalidCall):
            things.query(form.format(limit))
    with StructuredMemory(tmp_path / "other.db") as other:
        other.create_table("t", [Column("a")])
        other.insert("t", {"a": "x" * 5_000_000})
        assert other.query("SELECT length(a) FROM t").scalar() == 5_000_000


def test_c10_c11_whatever_a_query_tries_comes_to_nothing(
    things: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q2: the directory is the one in which a file of a relative name would appear."""
    monkeypatch.chdir(things.path.parent)
    with unharmed(things):
        for text in [*WRITES, *SMUGGLED]:
            assert not ask(things, text), text


ENDS = [
    *("COMMIT", "END", "END TRANSACTION", "ROLLBACK", "BEGIN", "BEGIN IMMEDIATE"),
    *("SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", 'RELEASE "_apsw-0"'),
]
AROUND = ["{}", "{}; DELETE FROM t", "{}; DELETE FROM t; BEGIN", "SELECT 1; {}", "EXPLAIN {}"]


@pytest.mark.parametrize("text", ENDS)
def test_c10_a_transaction_cannot_be_ended_from_inside(things: StructuredMemory, text: str) -> None:
    """Q2, M7: neither by a query nor by a condition."""
    with unharmed(things):
        for around in AROUND:
            assert not ask(things, around.format(text)), around
        for where in (text, f"1; {text}", f"1); {text}; --", f"({text})"):
            with pytest.raises(InvalidCall):
                things.delete("t", where)


def test_c11_other_memories_stay_out_of_reach(things: StructuredMemory, tmp_path: Path) -> None:
    """M1, Q2: ATTACH would survive the rollback, and leave a file."""
    with StructuredMemory(tmp_path / "other.db") as other:
        other.create_table("secret", [Column("s")])
        with refused(things, InvalidCall, match="attached"):
            things.query(f"ATTACH '{other.path}' AS z")
        for text in ("SELECT * FROM z.secret", "SELECT * FROM secret"):
            with refused(things, NoSuchTable):
                things.query(text)
        for text in ("DETACH z", "ATTACH 'new.db' AS z", "ATTACH 'file:x?mode=memory' AS m"):
            with refused(things, InvalidCall):
                things.query(text)
    assert not Path("new.db").exists()


BOMBS = [*ENDLESS, *TOO_LONG, *TOO_LARGE, *TOO_COMPLEX]


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[StructuredMemory]:
    with StructuredMemory(tmp_path / "crm.db", query_timeout=0.3) as memory:
        make_things(memory)
        yield memory


@pytest.mark.parametrize("text", BOMBS)
def test_c39_a_bomb_ends_in_an_error(hurried: StructuredMemory, text: str) -> None:
    """Q3: as a query, and inside a condition."""
    with refused(hurried, InvalidCall):
        hurried.query(text)
    with refused(hurried, InvalidCall):
        hurried.update("t", {"a": 1}, f"7 IN (\n{text}\n)")


def test_c39_memory_stays_bounded_whatever_is_asked(tmp_path: Path) -> None:
    """Q3: the peak of a process of its own, in which every bomb goes off."""
    script = (
        "import json, resource, sys; from structmem import InvalidCall, StructuredMemory\n"
        "with StructuredMemory(sys.argv[1], query_timeout=0.8) as memory:\n"
        "    for text in json.loads(sys.argv[2]):\n"
        "        try: memory.query(text)\n"
        "        except InvalidCall: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    bombs = [text for text in BOMBS if len(text) < 10_000 and "FROM t" not in text]
    command = [sys.executable, "-c", script, str(tmp_path / "m.db"), json.dumps(bombs)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert int(done.stdout) < 1_000_000, "kilobytes"


def test_c39_the_rows_of_an_endless_query_can_be_capped(hurried: StructuredMemory) -> None:
    """Q3"""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    found = hurried.query(endless, max_rows=10)
    assert (len(found), found.truncated) == (10, True)
    with refused(hurried, QueryLimit):
        hurried.query(endless)
