"""The commands that change the schema: create-table, add-column, create-index, drop-table,
drop-index.

Columns are typed as sqlite-utils has it (`NAME TYPE NAME TYPE …`, with options that name them), or
as JSON, which can say everything.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from structmem.cli import output
from structmem.cli.inputs import read_column
from structmem.cli.options import Write, memory_path, writes

_Column = dict[str, Any]

_NUMERIC_TYPES: Final = frozenset(("INT", "INTEGER", "REAL", "FLOAT", "NUMERIC"))
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}\.[0-9]{1,15}")

_JSON_COLUMN: Final = '{"name": …, "type": …, "notNull": …}'


@click.command("create-table")
@memory_path
@click.argument("table")
@click.argument("columns", nargs=-1, metavar="[NAME TYPE]...")
@click.option("--pk", "--primary-key", metavar="NAME", help="The primary key.")
@click.option("--not-null", multiple=True, metavar="NAME", help="A column that must have a value.")
@click.option("--unique", multiple=True, metavar="NAME", help="A column without equal values.")
@click.option(
    "--default", "defaults", nargs=2, multiple=True, metavar="NAME VALUE",
    help="What a column has when it is left out.",
)  # fmt: skip
@click.option(
    "--fk", "--references", "references", nargs=3, multiple=True, metavar="NAME TABLE COLUMN",
    help="A column whose values must be in another table.",
)  # fmt: skip
@click.option(
    "--column", "columns_json", multiple=True, metavar="JSON",
    help=f"One more column: {_JSON_COLUMN}.",
)  # fmt: skip
@click.option("--description", metavar="TEXT", help="What the table is for.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the same table is there.")
@writes
def create_table(
    write: Write,
    table: str,
    columns: tuple[str, ...],
    pk: str | None,
    not_null: tuple[str, ...],
    unique: tuple[str, ...],
    defaults: tuple[tuple[str, str], ...],
    references: tuple[tuple[str, str, str], ...],
    columns_json: tuple[str, ...],
    description: str | None,
    if_not_exists: bool,
) -> None:
    """Create a table, and the memory if there is none.

    Columns are pairs of NAME and TYPE. An empty TYPE keeps every value as it is given.
    """
    wanted = _Columns(columns)
    wanted.mark([pk] if pk is not None else [], "--pk", "primaryKey")
    wanted.mark(not_null, "--not-null", "notNull")
    wanted.mark(unique, "--unique", "unique")
    for name, value in defaults:
        column = wanted.named(name, "--default")
        column["default"] = _default(value, column["type"])
    for name, other, key in references:
        wanted.named(name, "--fk")["references"] = {"table": other, "column": key}
    given = [*wanted.columns, *map(read_column, columns_json)]
    with write.memory(create=True) as memory:
        result = memory.create_table(
            table, given, description=description, if_not_exists=if_not_exists, **write.noted
        )
    output.print_written(result, f"table {table} created", as_json=write.as_json)


@click.command("add-column")
@memory_path
@click.argument("table")
@click.argument("name", required=False)
@click.argument("type", required=False)
@click.option("--not-null", is_flag=True, help="It must have a value; then it needs a default.")
@click.option("--default", metavar="VALUE", help="What the rows that are there get, and new ones.")
@click.option(
    "--fk", "--references", "references", nargs=2, metavar="TABLE COLUMN",
    help="Its values must be in another table.",
)  # fmt: skip
@click.option("--description", metavar="TEXT", help="What the column is for.")
@click.option(
    "--column",
    "column_json",
    metavar="JSON",
    help=f"The column, in place of all that: {_JSON_COLUMN}.",
)
@writes
def add_column(
    write: Write,
    table: str,
    name: str | None,
    type: str | None,
    not_null: bool,
    default: str | None,
    references: tuple[str, str] | None,
    description: str | None,
    column_json: str | None,
) -> None:
    """Add a column at the end of a table."""
    typed = _typed_column(type, not_null, default, references, description)
    if column_json is None:
        if name is None:
            raise click.UsageError("The column is missing: NAME and TYPE, or --column.")
        column = {"name": name, **typed}
    elif name is None and not typed:
        column = read_column(column_json)
    else:
        raise click.UsageError("--column describes the column; nothing else may.")
    with write.memory() as memory:
        result = memory.add_column(table, column, **write.noted)
    said = f"column {column['name']} added to {table}"
    output.print_written(result, said, as_json=write.as_json)


@click.command("create-index")
@memory_path
@click.argument("table")
@click.argument("columns", nargs=-1, required=True)
@click.option("--name", metavar="NAME", help="By default made of the table and the columns.")
@click.option("--unique", is_flag=True, help="No two rows may be equal in these columns.")
@writes
def create_index(
    write: Write, table: str, columns: tuple[str, ...], name: str | None, unique: bool
) -> None:
    """Create an index on columns of a table."""
    with write.memory() as memory:
        result = memory.create_index(table, columns, name=name, unique=unique, **write.noted)
    said = f"index on {table} ({', '.join(columns)}) created"
    output.print_written(result, said, as_json=write.as_json)


@click.command("drop-table")
@memory_path
@click.argument("table")
@writes
def drop_table(write: Write, table: str) -> None:
    """Drop a table. Undo brings it back with its rows."""
    with write.memory() as memory:
        result = memory.drop_table(table, **write.noted)
    output.print_written(result, f"table {table} dropped", as_json=write.as_json)


@click.command("drop-index")
@memory_path
@click.argument("index")
@writes
def drop_index(write: Write, index: str) -> None:
    """Drop an index."""
    with write.memory() as memory:
        result = memory.drop_index(index, **write.noted)
    output.print_written(result, f"index {index} dropped", as_json=write.as_json)


COMMANDS: Final = (create_table, add_column, create_index, drop_table, drop_index)


class _Columns:
    """Columns from pairs of name and type, to which options add."""

    def __init__(self, words: Sequence[str]) -> None:
        if len(words) % 2:
            raise click.UsageError(f"Columns are pairs of NAME and TYPE; {words[-1]!r} has none.")
        pairs = zip(words[::2], words[1::2], strict=True)
        self.columns: list[_Column] = [{"name": n, "type": t or None} for n, t in pairs]

    def named(self, name: str, option: str) -> _Column:
        """The column that an option is about."""
        for column in self.columns:
            if column["name"] == name:
                return column
        raise click.UsageError(f"{option} names {name!r}, which is not among the columns.")

    def mark(self, names: Iterable[str], option: str, key: str) -> None:
        for name in names:
            self.named(name, option)[key] = True


def _typed_column(
    type: str | None,
    not_null: bool,
    default: str | None,
    references: tuple[str, str] | None,
    description: str | None,
) -> _Column:
    """A column from its options, without those that were not given."""
    column: _Column = {"type": type or None, "notNull": not_null or None}
    if default is not None:
        column["default"] = _default(default, type)
    if references is not None:
        column["references"] = {"table": references[0], "column": references[1]}
    column["description"] = description
    return {key: value for key, value in column.items() if value is not None}


def _default(value: str, type: str | None) -> str | int | float:
    """A number for a numeric type, which SQLite would make of the text anyway; else the text."""
    if (type or "").upper() in _NUMERIC_TYPES:
        if _INTEGER.fullmatch(value):
            return int(value)
        if _DECIMAL.fullmatch(value):
            return float(value)
    return value
