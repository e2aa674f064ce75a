"""The commands. Each opens a memory, makes one call and prints what came of it.

Commands that need more than the engine (replication, the demo) live in `structmem_replicator`,
which this package must not import: they are looked up by name when they are asked for.
"""

import importlib
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click
from rich.progress import Progress

from structmem import InvalidCall, Position, StructMemError, StructuredMemory
from structmem.cli import output

_ELSEWHERE = "structmem_replicator.cli"

_TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])

_existing_memory = click.argument("path", type=click.Path(path_type=Path))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


class _Commands(click.Group):
    """Our own commands, and those of the replicator."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_commands_elsewhere()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _commands_elsewhere().get(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """The outermost loop: our errors become a message and an exit code."""
        try:
            return super().invoke(ctx)
        except StructMemError as error:
            output.print_error(error)
            sys.exit(output.exit_code(error))


def _commands_elsewhere() -> dict[str, click.Command]:
    commands = cast("list[click.Command]", importlib.import_module(_ELSEWHERE).commands)
    return {str(command.name): command for command in commands}


@click.group(
    cls=_Commands,
    epilog="Exit codes: 1 the call is wrong, 2 usage, 3 try again later, 4 a person must look.",
)
@click.version_option(package_name="structmem")
def app() -> None:
    """Structured memory for AI agents: query it, see who changed what, verify, replicate."""


@app.command()
@_existing_memory
@click.argument("sql")
@click.argument("params", nargs=-1)
@click.option("--max-rows", type=click.IntRange(min=1), help="Cut the result after so many rows.")
@_json
def query(
    path: Path, sql: str, params: tuple[str, ...], max_rows: int | None, as_json: bool
) -> None:
    """Run one read statement; PARAMS are texts for its `?`. Nothing it does is kept."""
    with StructuredMemory(path, read_only=True) as memory:
        output.print_result(memory.query(sql, params, max_rows=max_rows), as_json=as_json)


@app.command()
@_existing_memory
@click.option("--table", help="Only operations on this table.")
@click.option("--actor", help="Only operations by this actor.")
@click.option("--operation", help="Only operations of this kind, such as insert.")
@click.option("--since", type=_TIME, metavar="TIME", help="Only from this time (UTC) on.")
@click.option("--until", type=_TIME, metavar="TIME", help="Only up to this time (UTC).")
@click.option("--after", metavar="OP", help="Only operations after this one, such as op_42.")
@_json
def log(
    path: Path,
    table: str | None,
    actor: str | None,
    operation: str | None,
    since: datetime | None,
    until: datetime | None,
    after: str | None,
    as_json: bool,
) -> None:
    """Show every operation, oldest first: what, on which table, by whom and why."""
    with StructuredMemory(path, read_only=True) as memory:
        operations = memory.log(
            table=table,
            actor=actor,
            operation=operation,
            since=_utc(since),
            until=_utc(until),
            after=after,
        )
        output.print_operations(operations, as_json=as_json)


@app.command()
@_existing_memory
@click.option("--deep", is_flag=True, help="Replay the journal and compare every row.")
@click.option("--expect", metavar="POSITION", help="A position that must be on the chain.")
@_json
def verify(path: Path, deep: bool, expect: str | None, as_json: bool) -> None:
    """Check that a memory is what its journal says. Exits with 4 if it is not."""
    position = _position(expect) if expect is not None else None
    with (
        StructuredMemory(path, read_only=True) as memory,
        Progress(transient=True, disable=as_json or not sys.stderr.isatty()) as progress,
    ):
        task = progress.add_task("verifying", total=None)
        report = memory.verify(
            deep=deep,
            expect=position,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    output.print_report(report, as_json=as_json)


def _utc(given: datetime | None) -> datetime | None:
    return given.replace(tzinfo=UTC) if given is not None else None


def _position(text: str) -> Position:
    try:
        return Position.parse(text)
    except ValueError as error:
        raise InvalidCall(f"{error}.") from error
