"""What commands print: tables for people, JSON for programs, errors on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from structmem import InvalidCall, Operation, QueryResult, StructMemError, Unavailable, VerifyReport
from structmem.cli.json_values import to_json
from structmem_journal import Value

_CELL_CHARACTERS = 60
_PIPE_WIDTH = 10_000
_CONTROL_PICTURES = {code: 0x2400 + code for code in range(0x20)}  # U+2400 is the picture of NUL


def exit_code(error: StructMemError) -> int:
    """1: the call is wrong. 3: try again later. 4: a person must look. (2 is click's: usage.)"""
    if isinstance(error, InvalidCall):
        return 1
    return 3 if isinstance(error, Unavailable) else 4


def print_error(error: StructMemError) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error ", "bold red"), f"{error.code}: {error.message}"))
    if error.hint:
        console.print(Text(error.hint, style="yellow"))


def print_json(value: object) -> None:
    """One JSON value on one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def print_result(result: QueryResult, *, as_json: bool) -> None:
    if as_json:
        rows = [[to_json(value) for value in row] for row in result.rows]
        print_json({"columns": result.columns, "rows": rows, "truncated": result.truncated})
        return
    shown = [[_cell(value) for value in row] for row in result.rows]
    print_table(result.columns, shown)
    if result.truncated:
        Console().print("… more rows were cut off", style="dim")


def print_operations(operations: Iterable[Operation], *, as_json: bool) -> None:
    if as_json:
        for operation in operations:
            print_json(operation_json(operation))
        return
    rows = [
        [
            Text(o.op_id, style="cyan"),
            Text(o.at.strftime("%Y-%m-%d %H:%M:%S")),
            Text(o.operation, style="bold"),
            Text(o.table or ""),
            Text(str(o.rows_changed), justify="right"),
            Text(o.actor or ""),
            Text(o.reason or "", style="italic"),
        ]
        for o in operations
    ]
    print_table(["op", "at (UTC)", "operation", "table", "rows", "actor", "reason"], rows)


def operation_json(operation: Operation) -> dict[str, Any]:
    return {
        "op": operation.op_id,
        "operation": operation.operation,
        "table": operation.table,
        "reason": operation.reason,
        "rowsChanged": operation.rows_changed,
        "at": operation.at.isoformat(),
        "actor": operation.actor,
        "approvedBy": operation.approved_by,
        "callId": operation.call_id,
    }


def print_report(report: VerifyReport, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "position": str(report.position),
                "records": report.records,
                "tables": report.tables,
                "rows": report.rows,
                "content": report.content,
            }
        )
        return
    console = Console(highlight=False)
    console.print(Text.assemble(("verified ", "bold green"), f"{report.records} records"))
    console.print(f"position {report.position}", soft_wrap=True)
    if report.content is not None:
        console.print(f"replayed {report.tables} tables, {report.rows} rows: all equal")
        console.print(f"content  {report.content}", soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*row)
    # A pipe has no width to fit into: a row stays one line there.
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def _cell(value: Value) -> Text:
    """A value as a person reads it: numbers to the right, NULL and blobs told apart from text."""
    match value:
        case None:
            return Text("NULL", style="dim")
        case bytes():
            return Text(f"x'{value[:20].hex()}'{'…' if len(value) > 20 else ''}", style="dim")
        case str():
            text = value if len(value) <= _CELL_CHARACTERS else value[: _CELL_CHARACTERS - 1] + "…"
            return Text(text.translate(_CONTROL_PICTURES))
        case _:
            return Text(repr(value), justify="right")
