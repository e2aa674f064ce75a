"""Q3: time, memory and size are bounded. The known fault C39."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from structmem import sql
from structmem.bounds import Bounds, Instruction, ceiling, longest_value
from structmem.errors import (
    InvalidCall,
    QueryLimit,
)
from structmem.limits import MAX_VALUE_BYTES, QUERY_MEMORY_BYTES
from structmem.reading import GuardedReader
from structmem.results import QueryResult
from tests.engine.reading import guarded
from tests.engine.reading.guarded import RECURSION, query, refused

# -- Q3: bounds ------------------------------------------------------------------------------------

ENDLESS = [
    f"{RECURSION} SELECT count(*) FROM n",
    f"{RECURSION} SELECT i FROM n WHERE i < 0",
    f"{RECURSION} SELECT sum(length(printf('%.*c', 1000000, 'a') || i)) FROM n",
    f"{RECURSION} SELECT count(*) FROM n, n AS m WHERE n.i = m.i + 1 AND n.i < 0",
]
TOO_LONG = [
    "SELECT length(randomblob(1000000000))",
    "SELECT hex(zeroblob(400000000))",
    "SELECT printf('%900000000d', 1)",
    "SELECT replace(replace(printf('%.*c', 9999, 'a'), 'a', printf('%.*c', 999, 'a')), 'a', 'aa')",
    "WITH RECURSIVE d(s) AS (SELECT 'a' UNION ALL SELECT s || s FROM d) SELECT length(s) FROM d",
    "SELECT group_concat(printf('%.*c', 9000000, 'a')) FROM t",
]
LONG = "printf('%.*c', 9000000, 'a')"
COLUMNS = ", ".join(f"s || {i}" for i in range(90))
TOO_LARGE = [
    f"{RECURSION} SELECT i FROM n ORDER BY {LONG} || i",
    f"{RECURSION} SELECT DISTINCT {LONG} || i FROM n",
    f"{RECURSION} SELECT json_group_array({LONG}) FROM n",
    # On straight stretches SQLite looks at nothing; its allocator has the last word.
    f"SELECT {COLUMNS} FROM (SELECT {LONG} AS s)",
    "SELECT json_pretty(printf('%.*c', 900, '[') || printf('%.*c', 900, ']'), hex(zeroblob(8000)))",
    # The rows are kept in Python's memory.
    f"{RECURSION} SELECT {LONG} || i FROM n",
]
NESTED = ", ".join(
    f"a{i}(x) AS (SELECT * FROM a{i - 1} UNION ALL SELECT * FROM a{i - 1})" for i in range(1, 20)
)
TOO_COMPLEX = [
    f"SELECT 1 IN ({', '.join(map(str, range(20_000)))})",
    f"SELECT {' + '.join(['1'] * 5000)}",
    f"SELECT {'(' * 5000}1{')' * 5000}",
    f"WITH a0(x) AS (SELECT 1), {NESTED} SELECT count(*) FROM a19",
    f"SELECT 1 LIKE '{'%a' * 101}'",
]


@pytest.mark.parametrize("text", ENDLESS)
def test_c39_time_is_bounded(reader: GuardedReader, path: Path, text: str) -> None:
    error = refused(reader, path, text, timeout=0.2)
    assert isinstance(error, QueryLimit)
    assert "0.2 seconds" in error.message


@pytest.mark.parametrize("text", TOO_LONG)
def test_c39_values_are_bounded(reader: GuardedReader, path: Path, text: str) -> None:
    error = refused(reader, path, text)
    assert isinstance(error, QueryLimit)
    assert "17,825,792 bytes" in error.message


@pytest.mark.parametrize("text", TOO_LARGE)
def test_c39_memory_is_bounded(reader: GuardedReader, path: Path, text: str) -> None:
    error = refused(reader, path, text, timeout=60.0)
    assert isinstance(error, QueryLimit)
    assert "256 MB" in error.message


@pytest.mark.parametrize("text", TOO_COMPLEX)
def test_c39_programs_are_bounded(reader: GuardedReader, path: Path, text: str) -> None:
    refused(reader, path, text)


def test_q3_what_was_stored_can_be_read(tmp_path: Path) -> None:
    limit = 1 << 20
    path = guarded.make(tmp_path / "m.db")
    writer = guarded.plain(path)
    sql.run(writer, "INSERT INTO t VALUES (4, zeroblob(?), 'big')", (limit,))
    writer.close()
    reader = guarded.reader(path, max_value_bytes=limit)
    assert query(reader, "SELECT a FROM t WHERE id = 4").scalar() == bytes(limit)
    assert query(reader, "SELECT length(?)", [bytes(limit)]).scalar() == limit
    with pytest.raises(InvalidCall):
        query(reader, "SELECT length(?)", [bytes(limit + 1)])
    reader.close()


def test_q3_max_rows_cuts_and_says_so(reader: GuardedReader) -> None:
    assert query(reader, "SELECT id FROM t", max_rows=2) == QueryResult(["id"], [(1,), (2,)], True)
    assert query(reader, "SELECT id FROM t", max_rows=3).truncated is False
    assert query(reader, "SELECT id FROM t", max_rows=0) == QueryResult(["id"], [], True)
    assert query(reader, "SELECT id FROM t WHERE false", max_rows=0).truncated is False
    endless = query(reader, f"{RECURSION} SELECT i FROM n", max_rows=5)
    assert (len(endless), endless.truncated) == (5, True)


def test_q3_max_bytes_cuts_and_says_so(reader: GuardedReader) -> None:
    text = "SELECT column1 FROM (VALUES ('abc'), ('\u00e9'), (x'0102'), (7), (NULL))"
    sizes = [3, 2, 2, 8, 0]
    for count in range(len(sizes)):
        fits = query(reader, text, max_bytes=sum(sizes[: count + 1]))
        assert len(fits) >= count + 1
        cut = query(reader, text, max_bytes=sum(sizes[: count + 1]) - 1)
        assert (len(cut), cut.truncated) == (min(count, 3), True)


@pytest.mark.parametrize("options", [{"max_rows": -1}, {"max_rows": "5"}, {"max_bytes": 1.5}])
def test_bounds_must_be_counts(reader: GuardedReader, path: Path, options: Any) -> None:
    refused(reader, path, "SELECT 1", **options)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), None, "1"])
def test_timeout_must_be_positive(reader: GuardedReader, path: Path, timeout: Any) -> None:
    assert "timeout" in refused(reader, path, "SELECT 1", timeout=timeout).message


# -- the parts -------------------------------------------------------------------------------------


def program(steps: int, *functions: str) -> list[Instruction]:
    called = [Instruction("Function", function) for function in functions]
    return called + [Instruction("Column", "")] * (steps - len(called))


@pytest.mark.parametrize(
    ("steps", "fraction"),
    [
        (program(1), 1),
        (program(400), 1),
        (program(800), 2),
        (program(25_000), 62.5),
        (program(100, "like(2)"), 1),
        (program(200, "like(2)", "glob(3)"), 2),
        (program(200, "trim(2)", "rtrim(2)", "trim(1)"), 1),
        (program(300, "ltrim(2)", "trim(2)"), 1),
        (program(600, "ltrim(2)", "trim(2)", "rtrim(2)", "trim(2)"), 2),
        (program(100, *["replace(3)"] * 50), 1.25),
        (program(50, "likely(1)", "lower(1)"), 1),
    ],
)
def test_q3_longer_programs_get_shorter_values(steps: list[Instruction], fraction: float) -> None:
    assert longest_value(steps, MAX_VALUE_BYTES) == int(MAX_VALUE_BYTES / fraction)


def test_q3_short_values_need_no_shortening() -> None:
    assert longest_value(program(2000), 1 << 20) == 1 << 20


def test_q3_json_patch_gets_short_values() -> None:
    assert longest_value(program(9, "json_patch(2)"), MAX_VALUE_BYTES) == 256 << 10
    assert longest_value(program(9, *["jsonb_patch(2)"] * 4), MAX_VALUE_BYTES) == 64 << 10


def test_q3_a_long_program_is_told_its_length(reader: GuardedReader, path: Path) -> None:
    text = f"SELECT {', '.join(['length(?1)'] * 500)}"
    error = refused(reader, path, text, params=[bytes(9 << 20)])
    assert isinstance(error, QueryLimit)
    assert "in this statement" in error.message
    assert query(reader, text, [bytes(1 << 20)]).rows[0][0] == 1 << 20


def test_q3_a_long_pattern_says_to_use_instr(reader: GuardedReader, path: Path) -> None:
    error = refused(reader, path, f"SELECT 1 FROM t WHERE b LIKE '%{'a' * 200}'")
    assert isinstance(error, QueryLimit)
    assert "instr" in str(error.hint)
    assert query(reader, f"SELECT 1 FROM t WHERE instr(b, '{'a' * 200}')").rows == []


def test_q3_bounds_grow_with_the_largest_value() -> None:
    small, large = Bounds.allowing(1 << 20), Bounds.allowing(900 << 20)
    assert small.memory_bytes == QUERY_MEMORY_BYTES
    assert large.memory_bytes > 3 * (900 << 20)


def test_q3_the_ceiling_is_put_back(reader: GuardedReader) -> None:
    assert apsw.hard_heap_limit(-1) == 0
    bounds = reader.bounds
    with ceiling.held(bounds):
        alone = apsw.hard_heap_limit(-1)
        assert alone > bounds.memory_bytes
        with ceiling.held(bounds):
            assert apsw.hard_heap_limit(-1) >= alone
        assert apsw.hard_heap_limit(-1) >= alone
    assert (apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1)) == (0, 0)


def test_q3_a_lower_ceiling_of_the_application_stays(reader: GuardedReader) -> None:
    apsw.hard_heap_limit(50 << 20)
    try:
        with pytest.raises(QueryLimit, match="memory"):
            query(reader, TOO_LARGE[0], timeout=60.0)
        assert apsw.hard_heap_limit(-1) == 50 << 20
    finally:
        apsw.hard_heap_limit(0)
        apsw.soft_heap_limit(0)


def test_q3_readers_in_threads_do_not_disturb_each_other(path: Path) -> None:
    def work(_number: int) -> int:
        reader = guarded.reader(path)
        counts = [query(reader, "SELECT count(*) FROM t").scalar() for _ in range(50)]
        reader.close()
        return sum(int(count) for count in counts if isinstance(count, int))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(8))) == [150] * 8
    assert apsw.hard_heap_limit(-1) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_q3_a_forked_child_is_free_of_its_parents_queries(reader: GuardedReader) -> None:
    with ceiling.held(reader.bounds):
        child = os.fork()
        if child == 0:
            with ceiling.held(reader.bounds):
                inside = apsw.hard_heap_limit(-1)
            os._exit(0 if inside and apsw.hard_heap_limit(-1) == 0 else 1)
        _pid, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
