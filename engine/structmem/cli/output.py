"""What commands print: tables for people, JSON for programs, errors and remarks on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from structmem import (
    InvalidCall,
    Operation,
    Preview,
    QueryResult,
    Size,
    StructMemError,
    Unavailable,
    VerifyReport,
    WriteResult,
)
from structmem.tools import shapes
from structmem_journal import Value

_CELL_CHARACTERS: Final = 60
_ROWIDS_SHOWN: Final = 10
_PIPE_WIDTH: Final = 10_000
_CONTROL_PICTURES: Final = {code: 0x2400 + code for code in range(0x20)}
"""U+2400 is the picture of NUL, and so on."""


def exit_code(error: StructMemError) -> int:
    """1: the call is wrong. 3: try again later. 4: a person must look. (2 is click's: usage.)"""
    if isinstance(error, InvalidCall):
        return 1
    return 3 if isinstance(error, Unavailable) else 4


def print_error(error: StructMemError, *, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(_line(shapes.of_error(error)))
        return
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error ", "bold red"), f"{error.code}: {error.message}"))
    if error.hint:
        console.print(Text(error.hint, style="yellow"))


def print_remark(text: str) -> None:
    """For people, beside what a command prints; on stderr, so that pipes do not get it."""
    Console(stderr=True, highlight=False).print(Text(text, style="dim"), soft_wrap=True)


def print_json(value: object) -> None:
    """One JSON value on one line."""
    sys.stdout.write(_line(value))


def print_result(result: QueryResult, *, as_json: bool) -> None:
    if as_json:
        print_json(shapes.of_result(result))
        return
    _print_rows(result.columns, result.rows)
    if result.truncated:
        Console().print("… more rows were cut off", style="dim")


def print_written(result: WriteResult, said: str, *, as_json: bool) -> None:
    """`said` is what was done, in words; it is not printed when nothing was."""
    if as_json:
        print_json(shapes.of_write(result))
        return
    console = Console(highlight=False)
    if result.op_id is None:
        console.print("nothing changed")
    else:
        again = " (this call id was carried out before)" if result.repeated else ""
        line = Text.assemble((result.op_id, "cyan"), f"  {_plain(said)}{again}")
        console.print(line, soft_wrap=True)
    for warning in result.warnings:
        line = Text.assemble(("warning ", "bold yellow"), _plain(warning))
        Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def print_preview(preview: Preview, *, as_json: bool) -> None:
    if as_json:
        print_json(shapes.of_preview(preview))
        return
    _print_rows(preview.columns, preview.sample)
    unseen = preview.rows_matched - len(preview.sample)
    if unseen:
        Console().print(f"… and {counted(unseen)} more", style="dim")
    console = Console(highlight=False)
    console.print(f"{counted(preview.rows_matched)} in all")
    console.print(f"token {preview.token}", soft_wrap=True)


def print_operations(operations: Iterable[Operation], *, as_json: bool) -> bool:
    """Print each. Returns whether there was any."""
    if as_json:
        any_printed = False
        for operation in operations:
            print_json(shapes.of_operation(operation))
            any_printed = True
        return any_printed
    rows = [
        [
            Text(o.op_id, style="cyan"),
            Text(o.at.strftime("%Y-%m-%d %H:%M:%S")),
            Text(_plain(o.operation), style="bold"),
            Text(_plain(o.table or "")),
            Text(str(o.rows_changed), justify="right"),
            Text(_plain(o.actor or "")),
            Text(_plain(o.reason or ""), style="italic"),
        ]
        for o in operations
    ]
    print_table(["op", "at (UTC)", "operation", "table", "rows", "actor", "reason"], rows)
    return bool(rows)


def print_report(report: VerifyReport, *, as_json: bool) -> None:
    if as_json:
        print_json(shapes.of_report(report))
        return
    console = Console(highlight=False)
    console.print(Text.assemble(("verified ", "bold green"), f"{report.records} records"))
    console.print(f"position {report.position}", soft_wrap=True)
    if report.content is not None:
        console.print(f"replayed {report.tables} tables, {report.rows} rows: all equal")
        console.print(f"content  {report.content}", soft_wrap=True)


def print_size(size: Size, *, as_json: bool) -> None:
    if as_json:
        print_json(shapes.of_size(size))
        return
    parts = [(f"table {_plain(name)}", size.tables[name]) for name in sorted(size.tables)]
    parts += [
        ("journal", size.journal),
        ("hidden", size.hidden),
        ("free", size.free),
        ("overhead", size.overhead),
        ("file", size.file),
        ("write-ahead log", size.write_ahead_log),
    ]
    rows = [[Text(part), Text(f"{room:,}", justify="right")] for part, room in parts]
    print_table(["part", "bytes"], rows)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(Text(_plain(column)), overflow="fold")
    for row in rows:
        table.add_row(*row)
    # A pipe has no width to fit into: a row stays one line there.
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def counted(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def listed(rowids: Sequence[int]) -> str:
    """Rowids in words; of many the first and the last."""
    if not rowids:
        return ""
    if len(rowids) == 1:
        return f": rowid {rowids[0]}"
    if len(rowids) > _ROWIDS_SHOWN:
        return f": rowids {rowids[0]} … {rowids[-1]}"
    return f": rowids {', '.join(map(str, rowids))}"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _print_rows(columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
    print_table(columns, [[_cell(value) for value in row] for row in rows])


def _plain(text: str) -> str:
    """`text` on one line, without what a terminal would obey."""
    return text.translate(_CONTROL_PICTURES)


def _cell(value: Value) -> Text:
    """A value as a person reads it: numbers to the right, NULL and blobs told apart from text."""
    match value:
        case None:
            return Text("NULL", style="dim")
        case bytes():
            return Text(f"x'{value[:20].hex()}'{'…' if len(value) > 20 else ''}", style="dim")
        case str():
            text = value if len(value) <= _CELL_CHARACTERS else value[: _CELL_CHARACTERS - 1] + "…"
            return Text(_plain(text))
        case _:
            return Text(repr(value), justify="right")
