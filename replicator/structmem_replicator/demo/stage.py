"""Runs the demo: a server, a replica, an agent that is killed and started again, and the check.

Every process is a child of this one and has ended when `run` returns, whatever happened.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from structmem import NotAMemory, Operation, Position, StructuredMemory, VerifyReport
from structmem_replicator.demo.agent import MEMORY
from structmem_replicator.server import EmbeddedServer

REPLICA: Final = "replica.db"

_KILL_AFTER_LINES: Final = 12
"""By then the tables are there and files are being inserted: the middle of the work."""

_PATIENCE_S: Final = 30.0
_LOG_HEAD, _LOG_TAIL = 7, 8

_console: Final = Console(highlight=False, soft_wrap=True)


class DemoFailed(Exception):
    """Something that the demo promises did not come true."""


def run(directory: Path | None = None) -> None:
    """Play the demo, printing as it goes. Raises `DemoFailed`.

    The two memories stay in `directory`, if one is given; otherwise nothing stays.
    """
    with _place(directory) as place:
        with EmbeddedServer(place / "stream") as server:
            _chapter(
                "A stream", f"nats-server with JetStream on {server.url}, process {server.pid}"
            )
            with _replica(place, server.url) as replica:
                _chapter("A replica", f"follows in process {replica.pid}")
                _agent_is_killed(place, server.url)
                _agent_finishes(place, server.url)
                with StructuredMemory(place / MEMORY, read_only=True) as memory:
                    _wait_for(place / REPLICA, memory.position())
        _compare(place)


# -- the processes -------------------------------------------------------------------------------


def _agent_is_killed(place: Path, url: str) -> None:
    with _agent(place, url) as agent:
        _chapter("An agent", f"keeps what is installed here, in process {agent.pid}")
        lines = _lines(agent)
        for _, line in zip(range(_KILL_AFTER_LINES), lines, strict=False):
            _console.print(Text(line))
        agent.kill()
        if agent.wait() != -9 and sys.platform != "win32":
            raise DemoFailed("the agent ended before it could be killed")
    _console.print(Text("SIGKILL: the agent is gone, in the middle of its work", style="bold red"))


def _agent_finishes(place: Path, url: str) -> None:
    with _agent(place, url) as agent:
        _chapter("The agent again", f"runs the same script from the top, in process {agent.pid}")
        for line in _lines(agent):
            _console.print(Text(line))
        if agent.wait() != 0:
            raise DemoFailed(f"the agent ended with {agent.returncode}")


def _wait_for(replica: Path, position: Position) -> None:
    """Until the replica's own file, read from this third process, is at `position`."""
    deadline = time.monotonic() + _PATIENCE_S
    while _position(replica) != position:
        if time.monotonic() > deadline:
            raise DemoFailed(f"the replica did not reach {position}")
        time.sleep(0.05)


def _position(path: Path) -> Position | None:
    try:
        with StructuredMemory(path, read_only=True) as memory:
            return memory.position()
    except NotAMemory:
        return None  # the replica has not made its file yet


def _replica(place: Path, url: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    label = Path(MEMORY).stem
    return _process("structmem", "follow", str(place / REPLICA), "--memory", label, "--server", url)


def _agent(place: Path, url: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    return _process("structmem_replicator.demo.agent", str(place), url)


@contextlib.contextmanager
def _process(module: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """A Python process running `module`, ended with the block if it has not ended by then."""
    command = [sys.executable, "-m", module, *arguments]
    # A session of its own: Ctrl-C is for us alone, and we end it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    for line in process.stdout or ():
        yield line.rstrip("\n")


@contextlib.contextmanager
def _place(directory: Path | None) -> Generator[Path]:
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise DemoFailed(f"{directory} is not empty; give a directory that is")
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="structmem-demo-") as temporary:
        yield Path(temporary)


# -- the check -----------------------------------------------------------------------------------


def _compare(place: Path) -> None:
    with (
        StructuredMemory(place / MEMORY, read_only=True) as primary,
        StructuredMemory(place / REPLICA, read_only=True) as replica,
    ):
        _chapter("The log", "every operation, with its reason; the replica has the same")
        _show_log(list(primary.log()))
        _chapter("The check", "both journals replayed from the start, every row compared")
        reports = {"primary": primary.verify(deep=True), "replica": replica.verify(deep=True)}
        same_log = list(primary.records()) == list(replica.records())
    _show_reports(reports)
    if reports["primary"] != reports["replica"] or not same_log:
        raise DemoFailed("primary and replica differ")
    _console.print(Text("Equal: every record, every row, every schema text.", style="bold green"))


def _show_log(operations: list[Operation]) -> None:
    table = _table("op", "operation", "table", "rows", "reason")
    hidden = len(operations) - _LOG_HEAD - _LOG_TAIL
    for index, o in enumerate(operations):
        if index < _LOG_HEAD or index >= len(operations) - _LOG_TAIL:
            table.add_row(o.op_id, o.operation, o.table or "", str(o.rows_changed), o.reason or "")
        elif index == _LOG_HEAD:
            table.add_row("…", f"{hidden} more inserts", "", "", "", style="dim")
    _console.print(table)


def _show_reports(reports: dict[str, VerifyReport]) -> None:
    for name, report in reports.items():
        counts = f"{report.records} records, {report.tables} tables, {report.rows} rows"
        _console.print(Text.assemble((name, "bold"), f"   {counts}"))
        _console.print(f"  position  {report.position}")
        _console.print(f"  content   {report.content}")


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column != "reason")
    return table


def _chapter(title: str, what: str) -> None:
    _console.print(Text.assemble(("\n" + title, "bold cyan"), f"  {what}"))
