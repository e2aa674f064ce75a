"""The commands that read: describe, size, query, preview, history, log, verify. The memory must be
there, and none of them changes it."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.progress import Progress

from structmem import InvalidCall, Position, StructuredMemory
from structmem.cli import output
from structmem.cli.inputs import read_params
from structmem.cli.options import condition, json_option, memory_path, parameters

_TIME: Final = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])


@click.command()
@memory_path
@json_option
def describe(path: Path, as_json: bool) -> None:
    """Print the schema as SQL, with descriptions as comments."""
    with StructuredMemory(path, read_only=True) as memory:
        text = memory.describe()
    if as_json:
        output.print_json({"schema": text})
    else:
        sys.stdout.write(text)


@click.command()
@memory_path
@json_option
def size(path: Path, as_json: bool) -> None:
    """Tell what takes the room: tables, journal, hidden and free. In bytes."""
    with StructuredMemory(path, read_only=True) as memory:
        output.print_size(memory.size(), as_json=as_json)


@click.command()
@memory_path
@click.argument("sql")
@parameters
@click.option("--max-rows", type=click.IntRange(min=1), help="Cut the result after so many rows.")
@json_option
def query(
    path: Path,
    sql: str,
    params: tuple[str, ...],
    params_json: str | None,
    max_rows: int | None,
    as_json: bool,
) -> None:
    """Run one read statement; PARAMS are texts for its `?`. Nothing it does is kept."""
    values = read_params(params, params_json)
    with StructuredMemory(path, read_only=True) as memory:
        output.print_result(memory.query(sql, values, max_rows=max_rows), as_json=as_json)


@click.command()
@memory_path
@click.argument("operation", type=click.Choice(["update", "delete"]))
@click.argument("table")
@condition
@json_option
def preview(
    path: Path,
    operation: str,
    table: str,
    where: str,
    params: tuple[str, ...],
    params_json: str | None,
    as_json: bool,
) -> None:
    """Show what an update or delete would touch, and a token that binds it to these rows.

    PARAMS are texts for each `?` of --where.
    """
    values = read_params(params, params_json)
    with StructuredMemory(path, read_only=True) as memory:
        output.print_preview(memory.preview(operation, table, where, values), as_json=as_json)


@click.command()
@memory_path
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--before", metavar="OP", help="Only operations before this one, such as op_42.")
@json_option
def history(path: Path, limit: int, before: str | None, as_json: bool) -> None:
    """Show the operations that stand and can be undone, newest first."""
    with StructuredMemory(path, read_only=True) as memory:
        if not output.print_operations(memory.history(limit, before=before), as_json=as_json):
            output.print_remark("No operation stands.")


@click.command()
@memory_path
@click.option("--table", help="Only operations on this table.")
@click.option("--actor", help="Only operations by this actor.")
@click.option("--operation", help="Only operations of this kind, such as insert.")
@click.option("--since", type=_TIME, metavar="TIME", help="Only from this time (UTC) on.")
@click.option("--until", type=_TIME, metavar="TIME", help="Only up to this time (UTC).")
@click.option("--after", metavar="OP", help="Only operations after this one, such as op_42.")
@json_option
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
        if not output.print_operations(operations, as_json=as_json):
            output.print_remark("No operation matches.")


@click.command()
@memory_path
@click.option("--deep", is_flag=True, help="Replay the journal and compare every row.")
@click.option("--expect", metavar="POSITION", help="A position that must be on the chain.")
@json_option
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


COMMANDS: Final = (describe, size, query, preview, history, log, verify)


def _utc(given: datetime | None) -> datetime | None:
    return given.replace(tzinfo=UTC) if given is not None else None


def _position(text: str) -> Position:
    try:
        return Position.parse(text)
    except ValueError as error:
        raise InvalidCall(f"{error}.") from error
