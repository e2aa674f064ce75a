"""The arguments of `structmem mcp`, and how it starts (S4)."""

import json
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from structmem import Column, InvalidCall, StructuredMemory
from structmem.adapters.mcp.grants import Entry, permissions
from structmem.cli.app import app
from tests.adapters.mcp.wire import Json, command, content, served

WRONG: dict[str, tuple[list[str], str]] = {
    "no memory": ([], "PATH"),
    "no directory": (["nowhere/crm.db"], "there is no directory nowhere"),
    "a directory": (["."], "is a directory"),
    "an unknown operation": (["crm.db", "--allow", "inser"], "no tool 'inser'"),
    "an unknown tool": (["crm_=crm.db", "--deny", "db_insert"], "no tool 'db_insert'"),
    "two levels": (
        ["crm.db", "--allow", "insert", "--ask", "insert"],
        "insert is given two levels",
    ),
    "two memories, one prefix": (["a.db", "b.db"], "b.db have the same prefix db_"),
    "no file to read only": (["none.db", "--read-only"], "none.db, which --read-only needs"),
    "a space in a prefix": (["a b=crm.db"], "a prefix has letters, digits, _ and -"),
    "a mistyped operation": (["crm.db", "--allow", "insrt"], "did you mean insert?"),
    "an odd prefix": ([f"{'x' * 60}=crm.db"], "not a tool name"),
    "an unknown way to ask": (["crm.db", "--ask-via", "mail"], "invalid choice"),
    "no time": (["crm.db", "--ask-timeout", "0"], "'0' is not a number of seconds"),
    "endless time": (["crm.db", "--query-timeout", "inf"], "'inf' is not a number of seconds"),
    "no rows": (["crm.db", "--max-rows", "0"], "'0' is not a whole number above 0"),
    "half a byte": (["crm.db", "--max-bytes", "0.5"], "'0.5' is not a whole number above 0"),
    "too many rows": (
        ["crm.db", "--max-rows", "1000000001"],
        "is not a whole number above 0, up to",
    ),
    "too many bytes": (["crm.db", "--max-bytes", "1" * 5000], "is not a whole number above 0"),
    "a name that no file has": ([f"{'n' * 5000}"], "cannot be a path: "),
    "an empty name": ([""], "cannot be a path"),
    "a path that is no text": (["\udcff.db"], "not valid Unicode text"),
    "an actor that is no text": (["crm.db", "--actor", "\udcff"], "not valid Unicode text"),
    "a long approver": (["crm.db", "--approver", "x" * 1001], "1,000 are allowed"),
    "an unknown option": (["crm.db", "--alow", "insert"], "--alow"),
    "a shortened option": (["crm.db", "--all", "insert"], "--all"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_end_it_before_anything_is_made(tmp_path: Path, case: str) -> None:
    """S4: exit code 2, the reason on standard error."""
    arguments, reason = WRONG[case]
    done = subprocess.run(command(*arguments), cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def tools(*arguments: str | Path) -> list[str]:
    with served(*arguments) as wire:
        wire.greet()
        return [tool["name"] for tool in wire.ask("tools/list")["result"]["tools"]]


def test_a_file_of_another_kind_ends_it(tmp_path: Path) -> None:
    """S4: and stays as it was."""
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database")
    done = subprocess.run(command(notes), capture_output=True, text=True)
    assert done.returncode == 2 and "notes.txt is no database" in done.stderr
    assert [notes.read_text(), *tmp_path.iterdir()] == ["not a database", notes]


def test_grants_may_be_given_in_pieces(tmp_path: Path) -> None:
    """S1: lists, repeated options, spaces; options and memories in any order."""
    (a, b) = (f"a-={tmp_path / 'x=y.db'}", f"b-={tmp_path / 'b.db'}")
    found = tools("--allow", "insert, undo", a, "--allow=update", "--deny", "describe,b-undo,", b)
    assert found == [
        *("a-query", "a-insert", "a-update", "a-undo"),
        *("b-query", "b-insert", "b-update"),
    ]


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path) -> None:
    """S4: only what can be a prefix is one."""
    with served(f"{tmp_path}/a=b.db", "--allow", "create_table") as wire:
        arguments: Json = {"table": "t", "columns": [{"name": "a"}]}
        assert content(wire.call("db_create_table", arguments))["op"] == "op_1"
    assert (tmp_path / "a=b.db").exists()


def test_a_tool_wins_over_its_operation() -> None:
    """S1: whichever is the stricter, in whichever order."""
    entries = [Entry("deny", "a_insert"), Entry("allow", "insert"), Entry("ask", "b_undo")]
    for order in (entries, entries[::-1]):
        assert permissions(["a_", "b_"], order) == {
            "a_": {"insert": "deny"},
            "b_": {"insert": "allow", "undo": "ask"},
        }


def test_a_level_may_be_repeated_and_not_contradicted() -> None:
    """S1"""
    assert permissions(["a_"], [Entry("ask", "undo")] * 2) == {"a_": {"undo": "ask"}}
    with pytest.raises(ValueError, match="a_undo is given two levels: ask and deny"):
        permissions(["a_"], [Entry("ask", "a_undo"), Entry("deny", "a_undo")])


def test_a_grant_of_execute_is_told_to_the_operator(tmp_path: Path) -> None:
    """S1: in a line, on standard error."""
    with served(tmp_path / "crm.db", "--ask", "execute") as wire:
        wire.greet()
        wire.leave()
    assert wire.log.startswith("structmem mcp: execute is granted")
    assert wire.log.count("\n") == 1


def test_the_bounds_are_those_of_a_memory(tmp_path: Path) -> None:
    """S4: what the arguments may be, every call can use."""
    most = "1000000000"
    bounds = ("--max-rows", most, "--max-bytes", most, "--actor", "x" * 1000)
    with served(tmp_path / "crm.db", "--allow", "create_table", *bounds) as wire:
        wire.greet()
        wire.call("db_create_table", {"table": "t", "columns": [{"name": "a"}]})
        assert content(wire.call("db_query", {"sql": "SELECT 1"}))["rows"] == [[1]]
    with StructuredMemory(tmp_path / "crm.db") as memory:
        assert memory.history(1)[0].actor == "x" * 1000
        with pytest.raises(InvalidCall):
            memory.acting_as("x" * 1001)


def test_warnings_may_be_errors(tmp_path: Path) -> None:
    """S1: the one about `execute` is told, and ends no call."""
    with served(
        tmp_path / "crm.db", "--ask", "execute", environment={"PYTHONWARNINGS": "error"}
    ) as wire:
        wire.greet()
        assert not wire.call("db_describe", {})["isError"]
        wire.leave()
    assert wire.log.startswith("structmem mcp: execute is granted")


def test_a_relative_path_needs_a_working_directory(tmp_path: Path) -> None:
    """S4"""
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command("crm.db")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "'crm.db' cannot be a path" in done.stderr.splitlines()[-1]


def test_a_memory_in_memory_is_one_too(tmp_path: Path) -> None:
    """M1"""
    with served(":memory:", "--allow", "create_table") as wire:
        wire.greet()
        made = wire.call("db_create_table", {"table": "t", "columns": [{"name": "a"}]})
        assert content(made)["op"] == "op_1"


def test_an_open_memory_lives_on_beside_it(tmp_path: Path) -> None:
    """M4"""
    with StructuredMemory(tmp_path / "crm.db") as memory:
        memory.create_table("t", [Column("a")])
        with served(tmp_path / "crm.db", "--allow", "insert") as wire:
            wire.greet()
            wire.call("db_insert", {"table": "t", "rows": [{"a": 1}]})
        assert memory.query("SELECT a FROM t").scalar() == 1
        memory.verify(deep=True)


# -- the streams that it is started with -------------------------------------------------------


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1", "0 2", "1 2", "0 1 2"])
def test_streams_may_be_closed(tmp_path: Path, closed: str) -> None:
    """S3: it ends well, and nothing is printed into the file of a memory."""
    redirections = " ".join(f"{number}>&-" for number in closed.split())
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"db_describe"}}'
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *command(tmp_path / "crm.db")],
        input=call,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b'"isError":false' in done.stdout) == (closed == "2")
    if (tmp_path / "crm.db").exists():
        with StructuredMemory(tmp_path / "crm.db") as memory:
            memory.verify(deep=True)


def test_input_that_cannot_be_read_has_ended(tmp_path: Path) -> None:
    """S3"""
    with (tmp_path / "written").open("wb") as stream:
        done = subprocess.run(command(tmp_path / "crm.db"), stdin=stream, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_streams_may_be_set_not_to_wait(tmp_path: Path) -> None:
    """S3: a client may share its end of a socket; no line yet is not the end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with (
        ours,
        ours.makefile("rb") as answers,
        subprocess.Popen(
            command(tmp_path / "crm.db"), stdin=theirs.fileno(), stdout=theirs.fileno()
        ) as process,
    ):
        theirs.close()
        for _ in range(2):
            ours.sendall(PING)
            assert b'"result":{}' in answers.readline()
            assert not select.select([ours], [], [], 0.1)[0], "it is still there, and quiet"
        ours.shutdown(socket.SHUT_WR)
        assert (answers.read(), process.wait()) == (b"", 0)


# -- the start -----------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules.update({name: None for name in %r})
sys.argv = ["structmem", "mcp", sys.argv[1]]
from structmem.cli import main
main()
"""
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


def answer_without(modules: tuple[str, ...], path: Path, line: bytes) -> bytes:
    """What a server says that cannot import these."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT % (modules,), str(path)],
        input=line,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return done.stdout


def test_it_needs_no_extra(tmp_path: Path) -> None:
    """S4"""
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"db_describe"}}'
    answer = answer_without(("click", "rich", "mcp", "nats"), tmp_path / "crm.db", call)
    assert b'"isError":false' in answer


@pytest.mark.parametrize("method", ["ping", "initialize", "server/discover"])
def test_the_first_answer_needs_neither_sqlite_nor_asyncio(tmp_path: Path, method: str) -> None:
    """S3: clients wait a second for it, and loading those takes longer than all the rest."""
    line = {
        "ping": PING,
        "initialize": b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
        b'{"protocolVersion":"2025-11-25","capabilities":{}}}',
        "server/discover": b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":'
        b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{}}}}',
    }[method]
    answer = answer_without(("apsw", "asyncio", "click"), tmp_path / "crm.db", line)
    assert answer.startswith(b'{"jsonrpc":"2.0","id":1,"result":{')


def test_the_command_line_knows_it(tmp_path: Path) -> None:
    """S4: in its list, and everything that follows goes to the door."""
    assert "\n  mcp " in CliRunner().invoke(app, ["--help"]).stdout
    refused = CliRunner().invoke(app, ["mcp", str(tmp_path / "no/crm.db"), "--allow", "insert"])
    assert refused.exit_code == 2
    assert "there is no directory" in refused.stderr
    helped = CliRunner().invoke(app, ["mcp", "--help"])
    assert "--ask-via" in helped.stdout


PAGE = Path(__file__).parents[3] / "docs/mcp.md"


def test_the_configuration_of_the_page_starts(tmp_path: Path) -> None:
    """S4: as a client reads it, but for where the program and the file are."""
    _, _, after = PAGE.read_text("utf-8").partition("```json\n")
    server = json.loads(after.partition("```")[0])["mcpServers"]["crm"]
    assert server["command"] == "structmem" and server["args"][0] == "mcp"
    arguments = [part.replace("/data", str(tmp_path)) for part in server["args"][1:]]
    assert tools(*arguments) == [
        *("db_describe", "db_query", "db_create_table", "db_insert", "db_update", "db_delete")
    ]
