"""The door while things go on, and how it ends (S3)."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import cast

import apsw
import pytest

from structmem import Column, StructuredMemory, sql
from structmem.adapters.mcp.serving import Output
from tests.adapters.mcp.wire import ENDLESS, FORM, Json, Wire, content, error_code, served

DELETE: Json = {"name": "db_delete", "arguments": {"table": "people", "where": "true"}}
COUNT: Json = {"sql": "SELECT count(*) FROM people"}


def insert(name: str) -> Json:
    """The parameters of a call that adds one person."""
    return {"name": "db_insert", "arguments": {"table": "people", "rows": [{"name": name}]}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with StructuredMemory(tmp_path / "crm.db") as memory:
        memory.create_table("people", [Column("name", "TEXT")])
    return tmp_path / "crm.db"


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Another program writes: whatever would write meanwhile waits."""
    connection = apsw.Connection(str(path))
    sql.run(connection, "BEGIN IMMEDIATE")
    yield
    connection.close()


def endless(wire: Wire) -> int:
    """A query that runs: all that came before it is answered, so nothing holds it up."""
    wire.greet(FORM)
    wire.call("db_query", {"sql": "SELECT 1"})
    request = wire.send("tools/call", {"name": "db_query", "arguments": {"sql": ENDLESS}})
    wire.ask("ping")
    return request


# -- several things at once ----------------------------------------------------------------------


def test_a_ping_is_answered_while_a_query_runs(path: Path) -> None:
    """S3: and whatever else needs no memory."""
    with served(path, "--query-timeout", "100") as wire:
        endless(wire)
        assert wire.ask("ping")["result"] == {}
        assert wire.ask("nothing/such")["error"]["code"] == -32601
        wire.process.send_signal(signal.SIGTERM)
        assert wire.leave() == [], "the query had not ended"


def test_calls_are_carried_out_in_the_order_they_came(path: Path) -> None:
    """S3: a write that was sent before a query is seen by it."""
    with served(path, "--allow", "insert") as wire:
        wire.greet()
        sent: list[int] = []
        for _ in range(5):
            sent.append(wire.send("tools/call", insert("Ada")))
            sent.append(wire.send("tools/call", {"name": "db_query", "arguments": COUNT}))
        answers = [wire.receive() for _ in sent]
        assert [answer["id"] for answer in answers] == sent
        counts = [content(answer["result"])["rows"] for answer in answers[1::2]]
        assert counts == [[[number]] for number in range(1, 6)]


# -- cancellation --------------------------------------------------------------------------------


def test_what_was_cancelled_before_it_began_is_not_done(path: Path) -> None:
    """S3: and what runs already is not answered."""
    with served(path, "--allow", "insert") as wire:
        wire.call("db_query", COUNT)
        with locked(path):
            running = wire.send("tools/call", insert("Ada"))
            wire.ask("ping")
            waiting = wire.send("tools/call", insert("Alan"))
            for request in (waiting, running, waiting, 99):
                wire.notify("notifications/cancelled", {"requestId": request})
            wire.ask("ping")
        names = {"sql": "SELECT name FROM people WHERE name = 'Alan'"}
        assert content(wire.call("db_query", names))["rows"] == []


def test_a_question_about_a_cancelled_call_is_called_off(path: Path) -> None:
    """S2: a yes that comes all the same does nothing."""
    with served(path, "--ask", "delete", "--allow", "insert") as wire:
        wire.greet(FORM)
        wire.ask("tools/call", insert("Ada"))
        call = wire.send("tools/call", DELETE)
        question = wire.receive()
        wire.notify("notifications/cancelled", {"requestId": call})
        called_off = wire.receive()
        assert called_off["method"] == "notifications/cancelled"
        assert called_off["params"] == {"requestId": question["id"]}
        wire.answer(question, {"action": "accept", "content": {"approve": True}})
        assert content(wire.call("db_query", COUNT))["rows"] == [[1]]


def test_a_question_about_a_call_whose_id_comes_again_is_called_off(path: Path) -> None:
    """S2: nobody answers in vain; the second of them is asked about, and answered."""
    with served(path, "--ask", "delete", "--allow", "insert") as wire:
        wire.greet(FORM)
        wire.ask("tools/call", insert("Ada"))
        call = wire.send("tools/call", DELETE)
        first = wire.receive()
        wire.ask("tools/list")
        wire.say({"id": call, "method": "tools/call", "params": DELETE})
        assert wire.receive()["params"] == {"requestId": first["id"]}
        second = wire.receive()
        for question in (first, second):
            wire.answer(question, {"action": "accept", "content": {"approve": True}})
        answer = wire.receive()
        assert (answer["id"], content(answer["result"])["rowsChanged"]) == (call, 1)


def test_another_id_cancels_nothing(path: Path) -> None:
    """S3: 2 and "2" are two requests."""
    with served(path, "--allow", "insert", "--query-timeout", "0.5") as wire:
        running = endless(wire)
        wire.notify("notifications/cancelled", {"requestId": str(running)})
        assert wire.receive()["id"] == running


# -- the end -------------------------------------------------------------------------------------

ENDING = """
import os, sys
from structmem.adapters.mcp import command, serving

def signalled(work, kill=os.kill, process=os.getpid(), number=int(sys.argv[2])):
    def first(*args, **kwargs):  # the last of them finds no globals any more
        kill(process, number)
        return work(*args, **kwargs)
    return first

class Last:  # of what Python takes down
    __del__ = signalled(lambda self: None)

match sys.argv[3]:
    case "closing":
        serving.Memories.close = signalled(serving.Memories.close)
    case "after another":
        serving.Door.serve = signalled(serving.Door.serve)
        serving.Door.abandon = signalled(serving.Door.abandon)
    case "leaving":
        last = Last()
sys.exit(command.main(sys.argv[1:2]))
"""


def test_what_was_asked_before_the_end_is_answered(path: Path) -> None:
    """S3: a client may write all it wants, close, and read."""
    with served(path, "--allow", "insert") as wire:
        wire.greet()
        sent = [wire.send("tools/call", insert("Ada")) for _ in range(10)]
        answers = wire.leave()
        assert [answer["id"] for answer in answers] == sent
        assert not any(answer["result"]["isError"] for answer in answers)
    with StructuredMemory(path) as memory:
        assert memory.query(COUNT["sql"]).scalar() == 10
        memory.verify(deep=True)


def test_a_question_that_nobody_can_answer_any_more_is_refused(path: Path) -> None:
    """S2: of a call that waits, and of one that would have to."""
    with served(path, "--ask", "delete", "--allow", "insert") as wire:
        wire.greet(FORM)
        wire.call("db_insert", {"table": "people", "rows": [{"name": "Bob"}]})
        asked = wire.send("tools/call", DELETE)
        assert wire.receive()["method"] == "elicitation/create"
        with locked(path):
            running = wire.send("tools/call", insert("Ada"))
            queued = wire.send("tools/call", DELETE)
            wire.hang_up()
            first = wire.receive()
            assert (first["id"], error_code(first["result"])) == (asked, "nobody_to_ask")
        second, third = wire.receive(), wire.receive()
        assert (second["id"], second["result"]["isError"]) == (running, False)
        assert (third["id"], error_code(third["result"])) == (queued, "nobody_to_ask")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("begin", [Wire.greet, endless], ids=["idle", "busy"])
def test_a_signal_ends_it(path: Path, number: int, begin: Callable[[Wire], object]) -> None:
    """S3: quietly, and at once even if a query would go on."""
    with served(path, "--query-timeout", "1000") as wire:
        begin(wire)
        wire.process.send_signal(number)
        assert wire.process.wait() == 0
        assert wire.leave() == []
        assert wire.log == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["closing", "after another", "leaving"])
def test_a_signal_while_it_ends_is_quiet_too(path: Path, number: int, moment: str) -> None:
    """S3: a client that hangs up may send one at once, or two."""
    done = subprocess.run(
        [sys.executable, "-c", ENDING, str(path), str(int(number)), moment],
        input=b"",
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_nothing_follows_a_line_that_was_interrupted(tmp_path: Path) -> None:
    """S3: a signal may come when half of it is out."""

    class Interrupted(FileIO):
        def write(self, data: object, /) -> int:
            super().write(bytes(cast("memoryview", data)[:2]))
            raise KeyboardInterrupt

    with Interrupted(tmp_path / "out", "w") as stream:
        output = Output(stream, pytest.fail)
        with pytest.raises(KeyboardInterrupt):
            output.send(b"line\n")
        output.send(b"another\n")
    assert (tmp_path / "out").read_bytes() == b"li"


def test_a_client_that_reads_no_more_ends_it(path: Path) -> None:
    """S3: even if it holds the other end open."""
    with served(path, "--allow", "insert") as wire:
        wire.greet()
        assert wire.process.stdout is not None and wire.process.stderr is not None
        wire.process.stdout.close()
        wire.send("tools/call", insert("Ada"))
        assert wire.process.wait() == 0
        assert wire.process.stderr.read() == b""
    with StructuredMemory(path) as memory:
        assert memory.query(COUNT["sql"]).scalar() == 1, "what was sent was done"


# -- what goes wrong inside ----------------------------------------------------------------------

FAULTY = """
import os, sys
from structmem.adapters.mcp import calls, command

def fail(self, call):
    print("astray")
    os.write(1, b"astray too\\n")
    raise RuntimeError("a bug")

calls.Calls.begin = fail
sys.exit(command.main(sys.argv[1:]))
"""


def test_a_bug_is_told_and_the_door_lives_on(path: Path) -> None:
    """S3: what is printed meanwhile is no message."""
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "db_query"}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    done = subprocess.run(
        [sys.executable, "-c", FAULTY, str(path)],
        input="\n".join(map(json.dumps, messages)),
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["id"], first["error"]["code"]) == (1, -32603)
    assert "bug" not in first["error"]["message"]
    assert second["id"] == 2 and second["result"]["tools"]
    for part in ("astray\n", "astray too\n", "RuntimeError: a bug"):
        assert part in done.stderr


def test_it_needs_no_standard_error(path: Path) -> None:
    """S3: a bug, or a warning, has nowhere to go then."""
    (reader, writer) = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-c", FAULTY, str(path), "--allow", "execute"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writer,
    ) as process:
        os.close(writer)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        out, _ = process.communicate("\n".join(map(json.dumps, (call, ping))).encode())
        assert {json.loads(line)["id"] for line in out.splitlines()} == {1, 2}


def test_a_file_that_is_no_memory_is_told_by_its_tools(tmp_path: Path) -> None:
    """M10: the list is answered, so that the client can start."""
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 2000)
    with served(tmp_path / "x.db") as wire:
        wire.greet()
        assert len(wire.ask("tools/list")["result"]["tools"]) == 2
        assert error_code(wire.call("db_query", COUNT)) == "not_a_memory"


def test_a_file_may_come_while_it_serves(tmp_path: Path) -> None:
    """M1"""
    with served(tmp_path / "crm.db") as wire:
        wire.greet()
        wire.ask("tools/list")
        assert not (tmp_path / "crm.db").exists()
        with StructuredMemory(tmp_path / "crm.db") as memory:
            memory.create_table("people", [Column("name", "TEXT")])
        assert content(wire.call("db_query", COUNT))["rows"] == [[0]]
