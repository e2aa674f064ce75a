"""Real servers and real processes, killed with SIGKILL in the middle (R1, R2, R7).

Publisher and replica run as the commands of the command line, each in a process of its own.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from structmem import NotAMemory, StructuredMemory
from structmem_journal import Position
from structmem_replicator import EmbeddedServer, State, follow, publish
from tests.replicator.support import journal, make_memory, noise, write


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "structmem", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def spawn() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start a command; whatever still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def spawn_one(*arguments: str | Path) -> "subprocess.Popen[str]":
        running.append(start(*arguments))
        return running[-1]

    yield spawn_one
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def primary(tmp_path: Path) -> Path:
    return tmp_path / "crm.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "replica.db"


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.02)


def position_of(path: Path) -> int:
    try:
        with StructuredMemory(path, read_only=True) as memory:
            return memory.position().seq
    except NotAMemory:
        return 0  # nobody has made it yet


def test_r7_a_server_that_is_killed_again_and_again(
    primary: Path, target: Path, server: EmbeddedServer
) -> None:
    with (
        make_memory(primary) as memory,
        publish(memory, server.url) as publisher,
        follow(target, server.url, memory=memory.id) as replica,
    ):
        reported: list[Position] = []
        for round_number in range(4):
            for text in range(20):
                position = write(memory, f"{round_number} {text}")
                if text == 10:
                    server.kill()
                elif text == 15:
                    server.start()
                elif text == 5:
                    publisher.wait_for(position, 30)
                    reported.append(position)
        position = memory.position()
        publisher.wait_for(position, 30)
        replica.wait_for(position, 30)
        for position in reported:
            replica.wait_for(position, 0)
        assert publisher.status().state == State.PUBLISHING
        assert publisher.status().error is None
    assert journal(target) == journal(primary)


def test_r2_a_replica_that_is_killed_again_and_again(
    primary: Path, target: Path, server: EmbeddedServer, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    with make_memory(primary) as memory, publish(memory, server.url) as publisher:
        command = ("follow", target, "--memory", "crm", "--server", server.url)
        for _ in range(3):
            before = position_of(target)
            replica = spawn(*command)
            wait_until(
                lambda: write(memory, "more").seq > 0 and position_of(target) > before,  # noqa: B023
                "progress",
            )
            os.kill(replica.pid, signal.SIGKILL)
            replica.wait()
        publisher.wait_for(memory.position(), 30)
        replica = spawn(*command)
        write(memory, "more")  # the file may have everything else: then it may not have begun yet
        wait_until(lambda: position_of(target) == memory.position().seq, "catching up")
        replica.send_signal(signal.SIGTERM)
        out, err = replica.communicate(timeout=30)
        assert (replica.returncode, err) == (0, "")
        assert "following" in out
    assert journal(target) == journal(primary)


def test_r1_a_publisher_that_is_killed_again_and_again(
    primary: Path, target: Path, server: EmbeddedServer, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    """A large record among small ones: some are killed in the middle of its parts."""
    with make_memory(primary) as memory, follow(target, server.url, memory=memory.id) as replica:
        command = ("publish", primary, "--server", server.url)
        for _ in range(3):
            publisher = spawn(*command)
            before = replica.position().seq
            wait_until(lambda: replica.position().seq > before, "progress")  # noqa: B023
            write(memory, "small", noise(6_000_000), "small")
            os.kill(publisher.pid, signal.SIGKILL)
            publisher.wait()
        publisher = spawn(*command)
        write(memory, "small")  # the stream may have everything else, as above
        replica.wait_for(memory.position(), 30)
        publisher.terminate()  # not SIGINT, which a test run in the background hands down ignored
        out, err = publisher.communicate(timeout=30)
        assert (publisher.returncode, err) == (0, "")
        assert "publishing" in out
    assert journal(target) == journal(primary)


def test_r4_the_command_line_says_why_it_stops(
    primary: Path, tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    make_memory(primary).close()
    wrong = spawn("follow", primary, "--memory", "a" * 32, "--server", "nats://127.0.0.1:1")
    out, err = wrong.communicate(timeout=30)
    assert (wrong.returncode, out) == (1, "")
    assert "not a replica" in err
    with EmbeddedServer(tmp_path / "other") as server, StructuredMemory(primary) as memory:
        with publish(memory, server.url) as publisher:
            publisher.wait_for(memory.position(), 30)
        with EmbeddedServer(tmp_path / "emptied") as emptied:
            stopped = spawn("publish", primary, "--server", emptied.url)
            line = stopped.stdout.readline() if stopped.stdout else ""
            assert "connecting" in line
            assert "STRUCTMEM" in line, "the missing stream is not made, but waited for"
