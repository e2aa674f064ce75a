"""The commands that write rows (insert, update, delete, execute) or go back (undo, redo,
revert-to)."""

from typing import Final

import click

from structmem.cli import output
from structmem.cli.inputs import read_fields, read_params, read_rows
from structmem.cli.options import Write, condition, memory_path, parameters, writes

_expect: Final = click.option(
    "--expect", metavar="TOKEN", help="Of a preview: change nothing but the rows it showed."
)


@click.command()
@memory_path
@click.argument("table")
@click.argument("rows", nargs=-1, required=True)
@writes
def insert(write: Write, table: str, rows: tuple[str, ...]) -> None:
    """Insert rows, all or none, as one operation.

    ROWS are JSON objects or arrays of them, `-` for standard input (JSON lines, or an array), or
    NAME=TEXT and NAME:=JSON for the fields of one row.
    """
    given = read_rows(rows)
    with write.memory() as memory:
        result = memory.insert(table, given, **write.noted)
    said = f"{output.counted(result.rows_changed)} inserted into {table}"
    output.print_written(result, said + output.listed(result.rowids), as_json=write.as_json)


@click.command()
@memory_path
@click.argument("table")
@click.option(
    "--set", "fields", multiple=True, required=True, metavar="NAME=TEXT|NAME:=JSON|JSON",
    help="A column and its new value, or a JSON object of several.",
)  # fmt: skip
@condition
@_expect
@writes
def update(
    write: Write,
    table: str,
    fields: tuple[str, ...],
    where: str,
    params: tuple[str, ...],
    params_json: str | None,
    expect: str | None,
) -> None:
    """Set columns to values in the rows that match.

    PARAMS are texts for each `?` of --where.
    """
    new, values = read_fields(fields, "--set"), read_params(params, params_json)
    with write.memory() as memory:
        result = memory.update(table, new, where, values, expect=expect, **write.noted)
    said = f"{output.counted(result.rows_changed)} updated in {table}"
    output.print_written(result, said + output.listed(result.rowids), as_json=write.as_json)


@click.command()
@memory_path
@click.argument("table")
@condition
@_expect
@writes
def delete(
    write: Write,
    table: str,
    where: str,
    params: tuple[str, ...],
    params_json: str | None,
    expect: str | None,
) -> None:
    """Delete the rows that match.

    PARAMS are texts for each `?` of --where.
    """
    values = read_params(params, params_json)
    with write.memory() as memory:
        result = memory.delete(table, where, values, expect=expect, **write.noted)
    said = f"{output.counted(result.rows_changed)} deleted from {table}"
    output.print_written(result, said + output.listed(result.rowids), as_json=write.as_json)


@click.command()
@memory_path
@click.argument("sql")
@parameters
@click.option("--create", is_flag=True, help="Make the memory if there is none.")
@writes
def execute(
    write: Write, sql: str, params: tuple[str, ...], params_json: str | None, create: bool
) -> None:
    """Run any SQL that changes rows or the schema, as one operation.

    PARAMS are texts for each `?`; they go with one statement only.
    """
    values = read_params(params, params_json)
    with write.memory(create=create) as memory:
        result = memory.execute(sql, values, **write.noted)
    said = f"SQL executed, {output.counted(result.rows_changed)} changed"
    output.print_written(result, said, as_json=write.as_json)


@click.command()
@memory_path
@click.argument("op", required=False)
@writes
def undo(write: Write, op: str | None) -> None:
    """Take back the latest operation that stands.

    With OP, such as op_42, it is taken back only if it is OP.
    """
    with write.memory() as memory:
        result = memory.undo(op, **write.noted)
    output.print_written(result, _undone(result.operations), as_json=write.as_json)


@click.command()
@memory_path
@writes
def redo(write: Write) -> None:
    """Do again what the latest undo took back. Possible until the next write."""
    with write.memory() as memory:
        result = memory.redo(**write.noted)
    said = " ".join(["done again", *result.operations])
    output.print_written(result, said, as_json=write.as_json)


@click.command("revert-to")
@memory_path
@click.argument("op")
@writes
def revert_to(write: Write, op: str) -> None:
    """Undo every operation after OP, which must stand, as one operation."""
    with write.memory() as memory:
        result = memory.revert_to(op, **write.noted)
    output.print_written(result, _undone(result.operations), as_json=write.as_json)


COMMANDS: Final = (insert, update, delete, execute, undo, redo, revert_to)


def _undone(operations: list[str]) -> str:
    return f"took back {', '.join(operations)}"
