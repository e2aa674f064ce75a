"""`publish` and `follow` (R6, R7): threads of their own, waiting, status, ends."""

import asyncio
import re
import threading
from pathlib import Path
from typing import cast

import pytest

from structmem import (
    Column,
    Diverged,
    Fenced,
    InvalidCall,
    StreamUnavailable,
    StructuredMemory,
    open_replica,
)
from structmem_journal import START, Position
from structmem_replicator import (
    ConnectionSettings,
    EmbeddedServer,
    Handle,
    MemoryStream,
    State,
    follow,
    publish,
)
from structmem_replicator.memory_transport import MemoryTransport
from tests.replicator.support import (
    journal,
    make_memory,
    new_epoch,
    publish_records,
    run,
    write,
)


@pytest.fixture
def primary(tmp_path: Path) -> Path:
    return tmp_path / "crm.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "replica.db"


def test_r6_read_your_own_writes(primary: Path, target: Path) -> None:
    stream = MemoryStream()
    with (
        make_memory(primary) as memory,
        publish(memory, stream) as publisher,
        follow(target, stream, memory="crm") as replica,
    ):
        for text in "abc":
            position = Position.parse(str(write(memory, text)))
            publisher.wait_for(position, 10)
            replica.wait_for(position, 10)
            assert publisher.replicated() == replica.position() == position
    assert journal(target) == journal(primary)


def test_r6_the_same_on_a_server(primary: Path, target: Path, server: EmbeddedServer) -> None:
    with (
        make_memory(primary) as memory,
        publish(memory, server.url) as publisher,
        follow(target, [server.url], memory=memory.id) as replica,
    ):
        position = write(memory, "a")
        publisher.wait_for(position, 10)
        replica.wait_for(position, 10)
    assert journal(target) == journal(primary)


def test_w6_w7_every_operation_travels(primary: Path, target: Path, server: EmbeddedServer) -> None:
    """R2: schema changes, dropped tables, any SQL and what takes it back, over a real server."""
    with (
        StructuredMemory(primary, max_operations=6) as memory,
        publish(memory, server.url) as publisher,
        follow(target, server.url, memory=memory.id) as replica,
    ):
        memory.create_table("t", [Column("a", "TEXT")])
        memory.insert("t", [{"a": letter} for letter in "abc"])
        memory.add_column("t", Column("b", default=1.5))
        memory.create_index("t", ["a"], unique=True)
        memory.execute(
            "CREATE TRIGGER log AFTER DELETE ON t BEGIN INSERT INTO gone VALUES (old.a); END;"
            "CREATE TABLE gone (a, at DEFAULT current_timestamp)"
        )
        memory.execute("ALTER TABLE gone DROP COLUMN at; DELETE FROM t WHERE a = 'b'")
        memory.drop_table("t")
        memory.undo()
        memory.redo()
        memory.revert_to("op_5")
        for _ in range(4):
            memory.execute("INSERT INTO gone (a) VALUES (random())")
        position = memory.position()
        publisher.wait_for(position, 30)
        replica.wait_for(position, 30)
        report = memory.verify(deep=True)
    with StructuredMemory(target, read_only=True) as copy:
        assert copy.verify(deep=True) == report
        assert copy.history() and not copy.size().hidden
    assert journal(target) == journal(primary)


def test_r6_the_same_with_an_event_loop(primary: Path, target: Path) -> None:
    async def check() -> None:
        stream = MemoryStream()
        with make_memory(primary) as memory:
            async with (
                publish(memory, stream) as publisher,
                follow(target, stream, memory="crm") as replica,
            ):
                position = write(memory, "a")
                await publisher.wait_for(position, 10)
                await replica.wait_for(position, 10)
                assert publisher.position() == replica.position() == position
                await replica.close()
                assert replica.status().state == State.CLOSED

    run(check())


def test_r6_the_start_is_always_reached(primary: Path) -> None:
    with make_memory(primary) as memory, publish(memory, MemoryStream()) as publisher:
        publisher.wait_for(START, 10)


def test_r6_waiting_ends_with_the_time_and_says_why(primary: Path, target: Path) -> None:
    stream = MemoryStream()
    stream.stop()
    with (
        make_memory(primary) as memory,
        publish(memory, stream) as publisher,
        follow(target, stream, memory="crm") as replica,
    ):
        for handle in (publisher, replica):
            with pytest.raises(TimeoutError, match=r"0\.3 s.*stopped"):
                handle.wait_for(memory.position(), 0.3)


def test_r6_a_position_of_another_history_is_an_error_and_not_a_yes(
    primary: Path, target: Path
) -> None:
    stream = MemoryStream()
    with (
        make_memory(primary) as memory,
        publish(memory, stream) as publisher,
        follow(target, stream, memory=memory.id) as replica,
    ):
        write(memory, "a", "b")
        replica.wait_for(memory.position(), 10)
        for handle in (publisher, replica):
            with pytest.raises(Diverged):
                handle.wait_for(Position(2, b"?" * 32), 10)
        waiting = [
            threading.Thread(target=expect_diverged, args=(handle, Position(4, b"?" * 32)))
            for handle in (publisher, replica)
        ]
        for thread in waiting:
            thread.start()
        write(memory, "c")
        for thread in waiting:
            thread.join(20)
            assert not thread.is_alive()


def test_r6_a_write_that_changed_nothing_is_not_waited_for(primary: Path) -> None:
    """Its position is None."""
    stream = MemoryStream()
    stream.stop()

    async def check(memory: StructuredMemory) -> None:
        async with publish(memory, stream) as publisher:
            await publisher.wait_for(None)

    with make_memory(primary) as memory:
        nothing = memory.delete("notes", "text = 'no such'").position
        assert nothing is None
        with publish(memory, stream) as publisher:
            publisher.wait_for(nothing)
        with pytest.raises(StreamUnavailable):
            publisher.wait_for(nothing)
        run(check(memory))


@pytest.mark.parametrize("odd", [3, "1-abc", (1, b"")])
def test_r6_only_a_position_is_waited_for(primary: Path, odd: object) -> None:
    with (
        make_memory(primary) as memory,
        publish(memory, MemoryStream()) as publisher,
        pytest.raises(InvalidCall, match=re.escape(f"not {odd!r}")),
    ):
        publisher.wait_for(cast("Position", odd), 10)


def test_r6_a_position_of_another_history_is_not_waited_for(primary: Path) -> None:
    """What the file says is enough; the stream need not be there."""
    stream = MemoryStream()
    stream.stop()
    with (
        make_memory(primary) as memory,
        publish(memory, stream) as publisher,
        pytest.raises(Diverged),
    ):
        publisher.wait_for(Position(1, b"?" * 32), 10)


def expect_diverged(handle: Handle, position: Position) -> None:
    with pytest.raises(Diverged):
        handle.wait_for(position, 10)


def test_r4_what_ended_it_is_kept_and_raised(primary: Path) -> None:
    stream = MemoryStream()
    with make_memory(primary) as memory, publish(memory, stream) as publisher:
        publisher.wait_for(memory.position(), 10)

        async def promote() -> None:
            transport = MemoryTransport(stream)
            await transport.connect()
            at = memory.position()
            await publish_records(transport, memory.id, at, new_epoch(at))

        run(promote())
        position = write(memory, "too late")
        for _ in range(2):
            with pytest.raises(Fenced):
                publisher.wait_for(position, 10)
        assert publisher.status().state == State.FAILED
        assert isinstance(publisher.status().error, Fenced)
    with pytest.raises(Fenced):
        publisher.wait_for(START, 10)


def test_after_close_nothing_is_left_and_waiting_is_refused(primary: Path, target: Path) -> None:
    stream = MemoryStream()
    threads = threading.active_count()
    with make_memory(primary) as memory:
        publisher = publish(memory, stream)
        replica = follow(target, stream, memory=memory.id)
        replica.wait_for(memory.position(), 10)
        for handle in (publisher, replica):
            handle.close()
            handle.close()
            assert handle.status().state == State.CLOSED
            with pytest.raises(StreamUnavailable):
                handle.wait_for(memory.position(), 10)
        assert threading.active_count() == threads
        write(memory, "the memory is still the caller's")


def test_a_waiter_is_released_by_close(primary: Path) -> None:
    with make_memory(primary) as memory:
        publisher = publish(memory, MemoryStream())
        released: list[BaseException] = []

        def wait() -> None:
            try:
                publisher.wait_for(Position(99, b"?" * 32))
            except StreamUnavailable as error:
                released.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        publisher.close()
        thread.join(10)
        assert released


def test_r2_a_replica_is_not_published(target: Path) -> None:
    with (
        open_replica(target, memory_id="a" * 32) as memory,
        pytest.raises(InvalidCall, match="replica"),
    ):
        publish(memory, MemoryStream())


def test_r7_a_missing_stream_says_what_to_do_about_it(
    primary: Path, target: Path, server: EmbeddedServer
) -> None:
    """A memory that was published before must not begin again elsewhere by mistake."""
    stream = MemoryStream()
    with make_memory(primary) as memory:
        with publish(memory, stream) as publisher:
            publisher.wait_for(write(memory, "a"), 10)
        with publish(memory, server.url) as again, pytest.raises(TimeoutError) as caught:
            again.wait_for(memory.position(), 1)
        assert "published before" in str(caught.value)
        assert "--new-stream (new_stream=True)" in str(caught.value)
        with (
            follow(target, server.url, memory=memory.id) as replica,
            pytest.raises(TimeoutError, match="The first publisher makes the stream"),
        ):
            replica.wait_for(memory.position(), 1)
        with publish(memory, server.url, new_stream=True) as publisher:
            publisher.wait_for(memory.position(), 10)


REFUSED: list[tuple[ConnectionSettings, str]] = [
    ({"user": "u"}, "password"),
    ({"credentials": "/no/such.creds"}, "/no/such.creds"),
    ({"nkey": "/no/such.nk"}, "/no/such.nk"),
    *(({"stream": name}, re.escape(repr(name))) for name in ("b ad", "a.b", "*", ">", "", "a/b")),
]


@pytest.mark.parametrize(("settings", "named"), REFUSED)
def test_r7_settings_that_cannot_be_are_refused_at_once(
    primary: Path, settings: ConnectionSettings, named: str
) -> None:
    with make_memory(primary) as memory, pytest.raises(InvalidCall, match=named):
        publish(memory, "nats://127.0.0.1:1", **settings)


def test_r7_a_setting_that_does_not_exist_is_refused_at_once(primary: Path) -> None:
    misspelt = cast("ConnectionSettings", {"tokn": "t"})
    with make_memory(primary) as memory, pytest.raises(InvalidCall, match=r"'tokn'.*token"):
        publish(memory, "nats://127.0.0.1:1", **misspelt)


def test_r7_a_stream_in_process_needs_no_connection(primary: Path) -> None:
    with make_memory(primary) as memory, pytest.raises(InvalidCall, match="no connection"):
        publish(memory, MemoryStream(), token="t")


def test_r7_no_server_is_refused_at_once(primary: Path) -> None:
    with make_memory(primary) as memory, pytest.raises(InvalidCall, match="server"):
        publish(memory, [])


@pytest.mark.parametrize(
    "url", ["nats://me:pass@host:70000", "host:70000", "nats://host:port", "nats://", "nats://[::1"]
)
def test_r7_a_url_that_cannot_be_is_refused_at_once(primary: Path, url: str) -> None:
    with make_memory(primary) as memory, pytest.raises(InvalidCall, match="URL") as caught:
        publish(memory, ["nats://127.0.0.1:1", url])
    assert "pass" not in caught.value.message


@pytest.mark.parametrize("url", ["localhost", "127.0.0.1:1", "nats://[::1]:1", "tls://u:p@host"])
def test_r7_ways_to_write_a_url(primary: Path, url: str) -> None:
    with make_memory(primary) as memory, publish(memory, url) as publisher:
        assert not publisher.status().ended


def test_a_bug_in_a_worker_is_seen(primary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody planned ends the work visibly, and not in silence."""
    with make_memory(primary) as memory, publish(memory, MemoryStream()) as publisher:
        publisher.wait_for(memory.position(), 10)

        def broken(**_: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(memory, "records", broken)
        write(memory, "a")
        with pytest.raises(ZeroDivisionError):
            publisher.wait_for(memory.position(), 10)


def test_the_replica_file_can_be_read_while_it_follows(primary: Path, target: Path) -> None:
    stream = MemoryStream()
    with (
        make_memory(primary) as memory,
        publish(memory, stream),
        follow(target, stream, memory=memory.id) as replica,
        StructuredMemory(target, read_only=True) as reading,
    ):
        replica.wait_for(write(memory, "a"), 10)
        assert reading.query("SELECT text FROM notes").rows == [("a",)]


def test_handles_do_not_need_the_callers_loop(primary: Path) -> None:
    """A loop that is blocked costs no heartbeat."""

    async def check() -> None:
        with make_memory(primary) as memory:
            async with publish(memory, MemoryStream()) as publisher:
                position = write(memory, "a")
                while publisher.position() != position:
                    threading.Event().wait(0.01)
                await asyncio.sleep(0)

    run(check())
