"""Results as JSON: the shapes that tools and the command line promise. Keys are camelCase."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

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
from structmem.tools.wording import quoted
from structmem_journal import Value

ROWIDS_LISTED_MAX: Final = 100
"""Beyond this the first, the last and their count tell enough."""

_REASON_CHARACTERS_MAX: Final = 500
"""A list of operations is to be read at a glance, and one of them must not take all of its room."""

_T = TypeVar("_T")
_encode: Final = msgspec.json.encode


def of_error(error: StructMemError) -> dict[str, Any]:
    hint = None if error.hint is None else _valid(error.hint)
    return {"code": error.code, "message": _valid(error.message), "hint": hint}


def _valid(text: str) -> str:
    """`text` as UTF-8 can hold it: it may show what was refused for not being so."""
    return text.encode("utf-8", "backslashreplace").decode()


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


def of_write_briefly(result: WriteResult) -> dict[str, Any]:
    """For a model, which pays for every word: without what is empty, and without the position."""
    told = of_write(result)
    del told["position"]
    return {key: told[key] for key in told if told[key] or key in ("op", "rowsChanged", "rowids")}


def of_result_within(result: QueryResult, bytes_max: int) -> dict[str, Any]:
    """The first rows whose JSON has at most `bytes_max` bytes, and a note if that is not all."""
    shaped = of_result(result)
    rows = shaped["rows"]
    shaped["rows"] = _within(rows, bytes_max - len(_encode(result.columns)))
    shaped["truncated"] = result.truncated or len(shaped["rows"]) < len(rows)
    if shaped["truncated"]:
        shaped["note"] = _note(len(shaped["rows"]))
    return shaped


def of_schema(schema: str, bytes_max: int) -> dict[str, Any]:
    """The schema as one text, cut between two lines if it is longer than `bytes_max` bytes."""
    kept = _within(schema.splitlines(keepends=True), bytes_max)
    shaped: dict[str, Any] = {"schema": "".join(kept)}
    if len(shaped["schema"]) < len(schema):
        shaped |= {"truncated": True, "note": "The rest is in sqlite_schema, which can be queried."}
    elif not schema:
        shaped["note"] = "The memory has no tables yet."
    return shaped


def of_operations(operations: Sequence[Operation], limit: int, bytes_max: int) -> dict[str, Any]:
    """The first of `operations`, at most `limit`: what is known of each, for a model."""
    shaped = [_known(of_operation(each)) for each in operations[:limit]]
    kept = _within(shaped, bytes_max)
    return {"operations": kept, "truncated": len(kept) < len(operations)}


def _known(operation: dict[str, Any]) -> dict[str, Any]:
    """Without what is not known, and with a short reason; call ids are for programs."""
    known = {key: each for key, each in operation.items() if each is not None and key != "callId"}
    reason = known.get("reason", "")
    if len(reason) > _REASON_CHARACTERS_MAX:
        known["reason"] = f"{reason[:_REASON_CHARACTERS_MAX]} […]"
    return known


def in_words(operation: Operation) -> str:
    """One operation in a line, for a person."""
    table = f" on {quoted(operation.table)}" if operation.table else ""
    actor = f", by {quoted(operation.actor)}" if operation.actor else ""
    reason = f", because {quoted(operation.reason)}" if operation.reason else ""
    done = f"{operation.operation}{table}, {operation.rows_changed:,} rows"
    return f"{operation.op_id} ({done}{actor}{reason})"


def _within(items: list[_T], bytes_max: int) -> list[_T]:
    """The first of `items` whose JSON has at most `bytes_max` bytes."""
    size = 0
    for index, item in enumerate(items):
        size += len(_encode(item)) + 1
        if size > bytes_max:
            return items[:index]
    return items


def _note(rows: int) -> str:
    if rows == 0:
        return "The first row alone is too long: select fewer columns, or substr() of long values."
    return f"These are the first {rows:,} rows only: aggregate, or narrow with WHERE and LIMIT."


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
