"""Results as JSON: the shapes that tools and the command line promise. Keys are camelCase."""

from collections.abc import Sequence
from typing import Any, Final

from structmem import (
    Operation,
    Preview,
    QueryResult,
    Size,
    StructMemError,
    VerifyReport,
    WriteResult,
)
from structmem.tools.json_values import to_json
from structmem_journal import Value

ROWIDS_LISTED_MAX: Final = 100
"""Beyond this the first, the last and their count tell enough."""


def of_error(error: StructMemError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


def of_result(result: QueryResult) -> dict[str, Any]:
    return {
        "columns": result.columns,
        "rows": _rows(result.rows),
        "truncated": result.truncated,
    }


def of_write(result: WriteResult) -> dict[str, Any]:
    return {
        "op": result.op_id,
        "position": str(result.position) if result.position is not None else None,
        "rowsChanged": result.rows_changed,
        "rowids": _rowids(result.rowids),
        "operations": result.operations,
        "warnings": result.warnings,
        "repeated": result.repeated,
    }


def of_preview(preview: Preview) -> dict[str, Any]:
    return {
        "operation": preview.operation,
        "table": preview.table,
        "rowsMatched": preview.rows_matched,
        "columns": preview.columns,
        "sample": _rows(preview.sample),
        "token": preview.token,
    }


def of_operation(operation: Operation) -> dict[str, Any]:
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


def of_report(report: VerifyReport) -> dict[str, Any]:
    return {
        "position": str(report.position),
        "records": report.records,
        "tables": report.tables,
        "rows": report.rows,
        "content": report.content,
    }


def of_size(size: Size) -> dict[str, Any]:
    return {
        "tables": dict(size.tables),
        "journal": size.journal,
        "hidden": size.hidden,
        "free": size.free,
        "overhead": size.overhead,
        "file": size.file,
        "writeAheadLog": size.write_ahead_log,
    }


def _rows(rows: Sequence[Sequence[Value]]) -> list[list[Any]]:
    return [[to_json(value) for value in row] for row in rows]


def _rowids(rowids: Sequence[int]) -> Any:
    if len(rowids) <= ROWIDS_LISTED_MAX:
        return [to_json(rowid) for rowid in rowids]
    return {"first": to_json(rowids[0]), "last": to_json(rowids[-1]), "count": len(rowids)}
