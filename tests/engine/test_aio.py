"""The memory on asyncio: nothing blocks, and an await that ended has told what happened (M3)."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from structmem import (
    AsyncStructuredMemory,
    Column,
    Diverged,
    ForkedProcess,
    InvalidCall,
    Position,
    QueryLimit,
    StructuredMemory,
    VerificationFailed,
    WriteResult,
    sql,
    writing,
)
from structmem.connection import begin_immediate

from .conftest import alter

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
NOT_AWAITED = {"acting_as", "actor", "label", "log", "path", "records", "rehearsal"}

Run = Callable[[Callable[[AsyncStructuredMemory], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a test's coroutine with a memory that has a table, and verifies the memory then."""

    def run(test: Callable[[AsyncStructuredMemory], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with AsyncStructuredMemory(tmp_path / "a.db", query_timeout=100_000) as memory:
                await memory.create_table("t", [Column("a")])
                await test(memory)
                await memory.verify(deep=True)

        asyncio.run(main())

    return run


class Gate:
    """Something in a worker thread that is told of, and then waits."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(60)

    def open(self) -> None:
        self._open.set()

    async def reached(self) -> None:
        while not self._reached.is_set():
            await asyncio.sleep(0.001)


async def rows(memory: AsyncStructuredMemory) -> list[object]:
    return [a for (a,) in await memory.query("SELECT a FROM t ORDER BY rowid")]


async def assert_waits(task: asyncio.Task[Any]) -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not task.done()


# -- the face ------------------------------------------------------------------------------------


def members(face: type) -> dict[str, Any]:
    return {name: member for name, member in vars(face).items() if not name.startswith("_")}


def test_both_faces_have_the_same_methods() -> None:
    """M2, M3: so that they cannot drift apart. Beside them, the two ways across."""
    across = {"sharing", "run"}
    assert set(members(AsyncStructuredMemory)) - across == set(members(StructuredMemory))


@pytest.mark.parametrize("name", sorted({"__init__", *members(StructuredMemory)} - {"id"}))
def test_both_faces_take_the_same_arguments(name: str) -> None:
    """M2, M3"""
    here, there = (getattr(face, name) for face in (AsyncStructuredMemory, StructuredMemory))
    if isinstance(there, property):
        assert isinstance(here, property)
        return
    parameters = inspect.signature(there).parameters
    assert list(inspect.signature(here).parameters.values()) == list(parameters.values())


@pytest.mark.parametrize("name", sorted(members(StructuredMemory)))
def test_everything_that_touches_the_file_is_awaited(name: str) -> None:
    """M3"""
    method = getattr(AsyncStructuredMemory, name)
    assert inspect.iscoroutinefunction(method) == (name not in NOT_AWAITED)


def test_nothing_is_made_before_the_first_call(tmp_path: Path) -> None:
    """M1"""

    async def main() -> None:
        async with AsyncStructuredMemory(tmp_path / "a.db", actor="planner") as memory:
            assert (memory.path, memory.label) == (tmp_path / "a.db", "a")
            assert list(tmp_path.iterdir()) == []
            assert await memory.describe() == ""

    asyncio.run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


def test_it_does_what_the_memory_does(run: Run) -> None:
    async def test(memory: AsyncStructuredMemory) -> None:
        done: WriteResult = await memory.insert("t", {"a": 1}, reason="Because.", call_id="x")
        assert (await memory.insert("t", {"a": 1}, call_id="x")).repeated
        assert await memory.position() == done.position
        assert (await memory.query("SELECT a FROM t WHERE a = ?", [1])).scalar() == 1
        assert (await memory.update("t", {"a": 2}, "a = :a", {"a": 1})).rows_changed == 1
        assert (await memory.undo()).operations == ["op_3"]
        view = memory.acting_as("mailer", approved_by="Ada")
        await view.delete("t", "true")
        latest = (await memory.history(1))[0]
        assert (latest.actor, latest.approved_by) == ("mailer", "Ada")
        identity = await memory.id()
        assert len(identity) == 32
        await view.destroy()
        assert await memory.id() != identity

    run(test)


def test_errors_are_those_of_the_memory(run: Run) -> None:
    async def test(memory: AsyncStructuredMemory) -> None:
        with pytest.raises(InvalidCall):
            await memory.insert("t", {"b": 1})
        with pytest.raises(QueryLimit, match="seconds"):
            await memory.query(ENDLESS, timeout=0.01)

    run(test)


# -- the loop stays free -------------------------------------------------------------------------


def test_the_loop_runs_while_queries_do(run: Run) -> None:
    """M3: one that never ends, and others meanwhile."""

    async def test(memory: AsyncStructuredMemory) -> None:
        endless = asyncio.create_task(memory.query(ENDLESS))
        for n in range(5):
            await memory.insert("t", {"a": n})
            await assert_waits(endless)
        assert await rows(memory) == [0, 1, 2, 3, 4]
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless

    run(test)


def test_reads_do_not_stand_behind_writes(run: Run) -> None:
    """M3: any number of writes may wait for another process."""

    async def test(memory: AsyncStructuredMemory) -> None:
        other = apsw.Connection(str(memory.path))
        sql.run(other, "BEGIN IMMEDIATE")
        writes = [asyncio.create_task(memory.insert("t", {"a": n})) for n in range(20)]
        assert await rows(memory) == []
        other.close()
        await asyncio.gather(*writes)

    run(test)


def test_many_writes_at_once_keep_their_order(run: Run) -> None:
    """M3, M4"""

    async def test(memory: AsyncStructuredMemory) -> None:
        done = await asyncio.gather(*(memory.insert("t", {"a": n}) for n in range(50)))
        assert [result.rowids for result in done] == [[n] for n in range(1, 51)]
        assert await rows(memory) == list(range(50))

    run(test)


# -- cancellation --------------------------------------------------------------------------------


def test_a_cancelled_query_is_interrupted(run: Run) -> None:
    """M3: five take all the threads there are for reads, and the memory reads on."""

    async def test(memory: AsyncStructuredMemory) -> None:
        queries = [asyncio.create_task(memory.query(ENDLESS)) for _ in range(5)]
        await asyncio.sleep(0.05)
        for query in queries:
            query.cancel()
        await asyncio.wait(queries)
        assert all(query.cancelled() for query in queries)
        assert await rows(memory) == []

    run(test)


def test_a_query_that_times_out_outside_is_interrupted(run: Run) -> None:
    """M3: as programs do it."""

    async def test(memory: AsyncStructuredMemory) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await memory.query(ENDLESS)

    run(test)


def test_a_write_cancelled_while_it_waits_for_the_lock(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: the await ends when the write has, and not before."""
    gate = Gate()

    def begin(connection: apsw.Connection) -> None:
        gate.pass_through()
        begin_immediate(connection)

    async def test(memory: AsyncStructuredMemory) -> None:
        other = apsw.Connection(str(memory.path))
        sql.run(other, "BEGIN IMMEDIATE")
        monkeypatch.setattr(writing, "begin_immediate", begin)
        write = asyncio.create_task(memory.insert("t", {"a": 1}))
        await gate.reached()
        gate.open()
        for _ in range(3):
            write.cancel()
            await assert_waits(write)
        other.close()
        with pytest.raises(asyncio.CancelledError):
            await write
        assert await rows(memory) == [1]

    run(test)


def test_a_write_cancelled_before_its_turn_never_runs(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: and its await ends at once."""
    gate = Gate()

    def begin(connection: apsw.Connection) -> None:
        gate.pass_through()
        begin_immediate(connection)

    async def test(memory: AsyncStructuredMemory) -> None:
        monkeypatch.setattr(writing, "begin_immediate", begin)
        first, second, third = (asyncio.create_task(memory.insert("t", {"a": n})) for n in range(3))
        await gate.reached()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not first.done()
        gate.open()
        assert (await third).rowids == [2]
        assert await rows(memory) == [0, 2]

    run(test)


def test_a_write_cancelled_while_it_commits_is_committed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3, M7: what the await ended with, is so in the file."""
    gate = Gate()
    commit = writing.Writer.commit

    def slow(writer: writing.Writer) -> None:
        gate.pass_through()
        commit(writer)

    async def test(memory: AsyncStructuredMemory) -> None:
        monkeypatch.setattr(writing.Writer, "commit", slow)
        write = asyncio.create_task(memory.insert("t", {"a": 1}))
        await gate.reached()
        write.cancel()
        await assert_waits(write)
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await write
        connection = apsw.Connection(str(memory.path))
        assert sql.rows(connection, "SELECT a FROM t") == [(1,)]
        connection.close()

    run(test)


def test_a_write_cancelled_in_its_condition_leaves_nothing(run: Run) -> None:
    """M3, M7"""

    async def test(memory: AsyncStructuredMemory) -> None:
        await memory.insert("t", {"a": 1})
        before = await memory.position()
        write = asyncio.create_task(memory.delete("t", f"a < ({ENDLESS})"))
        await assert_waits(write)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        assert (await rows(memory), await memory.position()) == ([1], before)

    run(test)


def test_a_write_that_failed_after_it_was_cancelled(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: the cancellation is what the caller hears; nobody complains of an error unheard."""
    gate = Gate()

    def begin(_connection: apsw.Connection) -> None:
        gate.pass_through()
        raise apsw.BusyError("database is locked")

    async def test(memory: AsyncStructuredMemory) -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        with monkeypatch.context() as patch:
            patch.setattr(writing, "begin_immediate", begin)
            write = asyncio.create_task(memory.insert("t", {"a": 1}))
            await gate.reached()
            write.cancel()
            gate.open()
            with pytest.raises(asyncio.CancelledError):
                await write
        del write
        assert await rows(memory) == []
        assert complaints == []

    run(test)


# -- closing -------------------------------------------------------------------------------------


def test_close_waits_for_writes_and_cannot_be_cancelled(tmp_path: Path) -> None:
    """M3: a file that is left open by a cancellation would stay so."""

    async def main() -> None:
        memory = AsyncStructuredMemory(tmp_path / "a.db")
        await memory.create_table("t", [Column("a")])
        writes = [asyncio.create_task(memory.insert("t", {"a": n})) for n in range(10)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(memory.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert all(write.done() for write in writes)
        assert [path.name for path in tmp_path.iterdir()] == ["a.db"]

    asyncio.run(main())


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        memory = AsyncStructuredMemory(tmp_path / "a.db")
        async with memory.acting_as("somebody") as view:
            await view.position()
        await memory.close()
        for call in (memory.position, view.describe, memory.undo):
            with pytest.raises(InvalidCall, match="closed"):
                await call()
        with pytest.raises(InvalidCall, match="closed"):
            await anext(aiter(memory.log()))

    asyncio.run(main())


def test_several_loops_use_one_memory(tmp_path: Path) -> None:
    """M3: one after the other, and at the same time in threads."""
    memory = AsyncStructuredMemory(tmp_path / "a.db")

    async def write(number: int) -> None:
        await asyncio.gather(*(memory.insert("t", {"a": number}) for _ in range(10)))

    async def create() -> None:
        await memory.create_table("t", [Column("a")])

    asyncio.run(create())
    threads = [threading.Thread(target=lambda: asyncio.run(write(7))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def check() -> None:
        assert (await memory.query("SELECT count(*) FROM t WHERE a = 7")).scalar() == 30
        await memory.verify(deep=True)
        await memory.close()

    asyncio.run(check())


def test_use_after_fork_is_refused(tmp_path: Path) -> None:
    """M4: the worker threads are not there, and must not be waited for."""
    memory = AsyncStructuredMemory(tmp_path / "a.db")
    asyncio.run(memory.describe())
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for call in (memory.describe, memory.close):
                try:
                    asyncio.run(call())
                except ForkedProcess:
                    refused += 1
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    asyncio.run(memory.close())


# -- iterators and listeners ---------------------------------------------------------------------


def test_records_and_log_are_fetched_in_a_worker(run: Run) -> None:
    """M3: more than fit one fetch, by number and by size."""

    async def test(memory: AsyncStructuredMemory) -> None:
        for n in range(100):
            await memory.insert("t", {"a": n})
        for _ in range(3):
            await memory.insert("t", {"a": "x" * 900_000})
        with StructuredMemory(memory.path, read_only=True) as other:
            assert [each async for each in memory.records()] == list(other.records())
            later = [each async for each in memory.log(after="op_7")]
            assert later == list(other.log(after="op_7"))
        with pytest.raises(Diverged):
            async for _ in memory.records(Position(3, b"\0" * 32)):
                pass

    run(test)


def test_a_cancelled_step_of_an_iterator_loses_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3"""
    gate = Gate()
    read = StructuredMemory.records

    def slow(memory: StructuredMemory, after: Position) -> Any:
        gate.pass_through()
        return read(memory, after)

    async def test(memory: AsyncStructuredMemory) -> None:
        await memory.insert("t", {"a": 1})
        monkeypatch.setattr(StructuredMemory, "records", slow)
        records = memory.records()
        step = asyncio.ensure_future(anext(aiter(records)))
        await gate.reached()
        step.cancel()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert len([each async for each in records]) == 2

    run(test)


def test_an_iterator_tells_what_is_wrong_after_what_came_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncStructuredMemory(tmp_path / "a.db") as memory:
            await memory.create_table("t", [Column("a")])
            for n in range(5):
                await memory.insert("t", {"a": n})
            with StructuredMemory(memory.path) as other:
                alter(other, "UPDATE _structmem_payload SET bytes = x'00' WHERE part_id = 4096")
            found: list[str] = []
            with pytest.raises(VerificationFailed):
                async for operation in memory.log():
                    found += [operation.op_id]
            assert found == ["op_1", "op_2", "op_3"]

    asyncio.run(main())


def test_listeners_hear_in_their_loop(run: Run) -> None:
    """M3: and before the write's own await returns."""

    async def test(memory: AsyncStructuredMemory) -> None:
        heard: list[tuple[int, int]] = []

        def listener(position: Position) -> None:
            heard.append((position.seq, threading.get_ident()))

        end = await memory.on_commit(listener)
        await memory.insert("t", {"a": 1})
        assert heard == [(2, threading.get_ident())]
        end()
        await memory.insert("t", {"a": 2})
        assert len(heard) == 1
        with pytest.raises(InvalidCall, match="listener"):
            await memory.on_commit("no function")  # pyright: ignore[reportArgumentType] # the point

    run(test)


def test_a_listener_ends_with_its_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = AsyncStructuredMemory(tmp_path / "a.db")
    heard: list[Position] = []

    async def listen() -> None:
        await memory.on_commit(heard.append)
        await memory.create_table("t", [Column("a")])

    async def write() -> None:
        await memory.insert("t", {"a": 1})
        await memory.insert("t", {"a": 1})
        await memory.close()

    asyncio.run(listen())
    asyncio.run(write())
    assert [position.seq for position in heard] == [1]
    assert caplog.records == []


def test_a_memory_is_shared_between_both_worlds(tmp_path: Path) -> None:
    """M3: one open file, one order of writes, whichever object made them."""

    async def main(blocking: StructuredMemory) -> None:
        memory = AsyncStructuredMemory.sharing(blocking)
        assert (memory.actor, memory.path) == ("planner", blocking.path)
        await memory.insert("t", {"a": 1})
        assert await memory.run(lambda below: below.insert("t", {"a": 2}).rowids) == [2]
        assert blocking.query("SELECT count(*) FROM t").scalar() == 2
        await memory.close()
        with pytest.raises(InvalidCall, match="closed"):
            blocking.position()

    with StructuredMemory(tmp_path / "a.db", actor="planner") as memory:
        memory.create_table("t", [Column("a")])
        asyncio.run(main(memory))
    with StructuredMemory(tmp_path / "a.db") as memory:
        memory.verify(deep=True)


def test_only_a_memory_can_be_shared_and_only_a_function_run() -> None:
    async def main(memory: AsyncStructuredMemory) -> None:
        with pytest.raises(InvalidCall, match="work must be a function, not 5"):
            await memory.run(5)  # pyright: ignore[reportArgumentType]

    with pytest.raises(InvalidCall, match="Only a StructuredMemory can be shared"):
        AsyncStructuredMemory.sharing("a.db")  # pyright: ignore[reportArgumentType]
    asyncio.run(main(AsyncStructuredMemory(":memory:")))


def test_a_query_within_run_is_interrupted_when_its_await_is_cancelled(run: Run) -> None:
    async def test(memory: AsyncStructuredMemory) -> None:
        task = asyncio.create_task(memory.run(lambda below: below.query(ENDLESS), writes=False))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(test)
