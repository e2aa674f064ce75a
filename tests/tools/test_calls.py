"""S1: what models send is understood or refused with what to do, and never raises."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from structmem import AsyncStructuredMemory, InvalidCall, StructuredMemory
from structmem.tools import OPERATIONS, MemoryTool, ToolResult, memory_tools
from structmem.tools.json_values import DEPTH_MAX

from .conftest import Tools, Unharmed, error_of, tools_of


@pytest.mark.parametrize(
    "rows",
    [
        [{"name": "Eve", "age": 9}],
        {"name": "Eve", "age": 9},
        '[{"name": "Eve", "age": 9}]',
        '{"name": "Eve", "age": 9}',
        ['{"name": "Eve", "age": 9}'],
        [{"name": "Eve", "age": "9"}],
        [{"name": "Eve", "age": {"$int": "9"}}],
    ],
)
def test_rows_are_understood_in_every_form(tools: Tools, rows: Any) -> None:
    result = tools["insert"].call({"table": "people", "rows": rows, "reason": None})
    assert result.data["rowids"] == [3]
    read = tools["query"].call({"sql": "SELECT name, age FROM people WHERE rowid = 3"})
    assert read.data["rows"] == [["Eve", 9]]


@pytest.mark.parametrize(
    "arguments",
    [
        {"table": "t", "columns": [{"name": "a", "notNull": True}], "ifNotExists": True},
        {"table": "t", "columns": [{"name": "a", "not_null": True}], "if_not_exists": "true"},
        {"table": "t", "columns": '[{"name": "a", "notNull": true, "type": null}]'},
        '{"table": "t", "columns": [{"name": "a", "notNull": true, "default": null}]}',
        b'{"table": "t", "columns": {"name": "a", "notNull": true}}',
    ],
)
def test_camel_case_snake_case_and_text_are_understood(tools: Tools, arguments: Any) -> None:
    assert not tools["create_table"].call(arguments).is_error
    schema = tools["describe"].call(None).data["schema"]
    assert 'CREATE TABLE "t" (\n  "a" NOT NULL\n)' in schema


def test_what_json_cannot_carry_comes_and_goes(tools: Tools, people: StructuredMemory) -> None:
    people.create_table("t", [{"name": "a"}])
    odd: list[Any] = [
        {"$int": "9223372036854775807"},
        {"$int": "-9007199254740993"},
        {"$blob": "AP8="},
        {"$real": "-inf"},
        9007199254740992,
        -0.5,
        "nul \0",
        None,
    ]
    tools["insert"].call({"table": "t", "rows": [{"a": value} for value in odd]})
    stored = [row[0] for row in people.query("SELECT a FROM t")]
    assert stored[:4] == [(1 << 63) - 1, -(1 << 53) - 1, b"\0\xff", float("-inf")]
    read = tools["query"].call({"sql": "SELECT a FROM t"})
    assert [row[0] for row in json.loads(read.text)["rows"]] == odd


@pytest.mark.parametrize(
    ("operation", "arguments", "code", "message"),
    [
        ("insert", 5, "invalid_call", "The arguments must be a JSON object, not 5."),
        ("insert", "[1]", "invalid_call", "The arguments must be a JSON object, not [1]."),
        ("insert", '{"table": ', "invalid_call", "The text of the arguments is not JSON"),
        (
            "insert",
            '{"table": "a", "table": "b"}',
            "invalid_call",
            "the key 'table' is there twice",
        ),
        ("insert", b"\xff", "invalid_call", "The arguments are not UTF-8"),
        ("insert", {"table": {1, 2}}, "invalid_call", "The arguments are not JSON"),
        ("insert", {"table": "people"}, "invalid_call", "rows is missing."),
        ("insert", {"table": "people", "row": []}, "invalid_call", 'There is no argument "row".'),
        ("insert", {"table": 5, "rows": []}, "invalid_call", "table must be text, not 5."),
        (
            "insert",
            {"table": "people", "rows": ["x"]},
            "invalid_call",
            "rows[0] must be an object.",
        ),
        ("insert", {"table": "people", "rows": [{"nme": 1}]}, "no_such_column", "'nme'"),
        ("insert", {"table": "peple", "rows": [{"name": 1}]}, "no_such_table", "'peple'"),
        ("insert", {"table": "people", "rows": [{"name": [1]}]}, "invalid_call", "list"),
        ("insert", {"table": "people", "rows": [{"name": None}]}, "constraint_failed", "NOT NULL"),
        ("insert", {"table": "people", "rows": [{"name": "Ada"}]}, "constraint_failed", "UNIQUE"),
        ("insert", {"ifNot": 1, "if_not": 2}, "invalid_call", "no argument"),
        ("query", {"sql": "SELECT 1; SELECT 2"}, "invalid_call", "more than one SQL statement"),
        ("query", {"sql": 'SELECT "Ada"'}, "no_such_column", "Ada"),
        ("query", {"sql": "SELECT ?", "params": [[5]]}, "invalid_call", "a list is not a value"),
        ("query", {"sql": "\ud800"}, "invalid_call", "not valid Unicode"),
        ("query", {"sql": "DROP TABLE people"}, "write_in_query", "db_query only reads"),
        (
            "history",
            {"limit": 0},
            "invalid_call",
            "from 1 to 200, not 0.",
        ),
        ("history", {"limit": True}, "invalid_call", "whole number from 1 to 200, not true."),
        ("history", {"before": "42"}, "invalid_call", "no operation id"),
        ("update", {"table": "people", "set": {"age": 1}}, "invalid_call", "where is missing."),
        ("add_column", {"table": "people", "column": {"nam": "x"}}, "invalid_call", "no 'nam'"),
    ],
)
def test_what_is_wrong_is_said(
    tools: Tools, unharmed: Unharmed, operation: str, arguments: Any, code: str, message: str
) -> None:
    error = error_of(tools[operation].call(arguments, approved_by="ada"))
    assert error["code"] == code
    assert message in f"{error['message']} {error['hint']}"
    unharmed()


def nested(levels: int) -> dict[str, Any]:
    """Arguments of so many arrays and objects within one another."""
    value: list[Any] = []
    for _ in range(levels - 2):
        value = [value]
    return {"reason": value}


@pytest.mark.parametrize("levels", [10, DEPTH_MAX, DEPTH_MAX + 1, 990, 5_000, 100_000])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.filterwarnings("ignore:execute is granted")
def test_how_deep_arguments_are_nested_is_bounded(
    people: StructuredMemory, unharmed: Unharmed, operation: str, levels: int
) -> None:
    """However much room the stack has. Within the bound they are judged as others are."""
    tool = tools_of(people, **dict.fromkeys(OPERATIONS, "allow"))[operation]
    text = f'{{"reason": {"[" * (levels - 1)}{"]" * (levels - 1)}}}'
    for arguments in (nested(levels), text, text.encode()):
        for result in (tool.call(arguments), tool.request(arguments)):
            assert isinstance(result, ToolResult)
            error = error_of(result)
            assert error["code"] == "invalid_call"
            too_deep = f"nested more than {DEPTH_MAX} levels deep." in error["message"]
            assert too_deep == (levels > DEPTH_MAX)
    unharmed()


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 990, 100_000])
def test_text_that_is_nested_too_deep_is_no_array(tools: Tools, levels: int) -> None:
    text = "[" * levels + "]" * levels
    for rows in (text, [text]):
        error = error_of(tools["insert"].call({"table": "people", "rows": rows}))
        assert error["message"].startswith("rows")


def test_arguments_that_hold_themselves_are_too_deep(tools: Tools) -> None:
    around: list[Any] = []
    around += [around, around]
    error = error_of(tools["query"].call({"sql": "SELECT ?", "params": around}))
    assert "nested more than" in error["message"]


def test_a_missing_where_is_explained(tools: Tools) -> None:
    error = error_of(tools["delete"].call({"table": "people"}, approved_by="ada"))
    assert error["hint"].startswith("Which rows: one SQL expression")


def test_a_long_result_is_cut_and_says_so(people: StructuredMemory) -> None:
    """Rows, and bytes of the JSON that the model reads."""
    people.insert("people", [{"name": f"{i:04}", "age": i} for i in range(1_000)])
    query = tools_of(people)["query"]
    by_rows = query.call({"sql": "SELECT name FROM people"})
    assert (len(by_rows.data["rows"]), by_rows.data["truncated"]) == (200, True)
    assert by_rows.data["note"].startswith("These are the first 200 rows only")
    whole = query.call({"sql": "SELECT name FROM people LIMIT 200"})
    assert whole.data["truncated"] is False and "note" not in whole.data

    (narrow,) = memory_tools(people, permissions={"describe": "deny"}, max_bytes=300)
    by_bytes = narrow.call({"sql": "SELECT name, age, NULL, NULL FROM people"})
    kept = by_bytes.data["rows"]
    assert by_bytes.data["truncated"] is True
    assert 200 < len(json.dumps(kept, separators=(",", ":"))) <= 300
    one = narrow.call({"sql": "SELECT printf('%.*c', 400, 'x')"})
    assert one.data["rows"] == [] and "first row alone is too long" in one.data["note"]


def test_the_rows_of_a_result_within_the_bound_are_not_lost_to_it(people: StructuredMemory) -> None:
    """The memory counts a number for eight bytes; in JSON it can have two."""
    (query,) = memory_tools(people, permissions={"describe": "deny"}, max_bytes=1_000)
    result = query.call(
        {
            "sql": "SELECT value FROM json_each('[1,2,3]'), (SELECT 1 UNION ALL SELECT 2)"
            " UNION ALL SELECT value FROM json_each(json_array(" + "1," * 180 + "1))"
        }
    )
    assert len(result.data["rows"]) == 187 and not result.data["truncated"]


def test_a_long_schema_is_cut_between_lines(memory: StructuredMemory) -> None:
    for number in range(30):
        memory.create_table(f"table_{number:02}", [{"name": "a"}])
    tool = memory_tools(memory, permissions={}, max_bytes=500)[0]
    told = tool.call({}).data
    assert told["truncated"] and memory.describe().startswith(told["schema"])
    assert told["schema"].endswith("\n") and len(told["schema"]) <= 500


def test_many_rowids_are_told_by_their_ends(tools: Tools) -> None:
    rows = [{"name": f"n{i}"} for i in range(101)]
    result = tools["insert"].call({"table": "people", "rows": rows})
    assert result.data["rowids"] == {"first": 3, "last": 103, "count": 101}


def test_history_and_log_come_in_pages(tools: Tools, people: StructuredMemory) -> None:
    people.delete("people", "age > 40", reason="old")
    people.undo()
    page = tools["history"].call({"limit": 1}).data
    assert (page["operations"][0]["op"], page["truncated"]) == ("op_2", True)
    more = tools["history"].call({"limit": "5", "before": "op_2"}).data
    assert [each["op"] for each in more["operations"]] == ["op_1"] and not more["truncated"]
    log = tools["log"].call({"after": "op_2"}).data["operations"]
    assert [(each["op"], each["operation"]) for each in log] == [
        ("op_3", "delete"),
        ("op_4", "undo"),
    ]
    assert log[0]["reason"] == "old" and "callId" not in log[0]
    of = tools["log"].call({"operation": "insert", "table": "people"}).data["operations"]
    assert [each["op"] for each in of] == ["op_2"]


def test_a_long_reason_does_not_hide_what_follows(tools: Tools, people: StructuredMemory) -> None:
    people.insert("people", {"name": "Eve"}, reason="because " * 2_000)
    (latest, *older) = tools["history"].call({}).data["operations"]
    assert latest["reason"].endswith("[…]") and len(latest["reason"]) < 600
    assert [each["op"] for each in older] == ["op_2", "op_1"]


def test_a_call_id_makes_a_call_safe_to_repeat(tools: Tools, people: StructuredMemory) -> None:
    """M8"""
    arguments = {"table": "people", "rows": [{"name": "Eve"}]}
    first = tools["insert"].call(arguments, call_id="c/1").data
    again = tools["insert"].call(arguments, call_id="c/1").data
    assert again == {**first, "repeated": True}
    assert people.query("SELECT count(*) FROM people").scalar() == 3


def test_who_acts_is_journaled(people: StructuredMemory) -> None:
    rows = {"table": "people", "rows": [{"name": "a"}]}
    tools_of(people, insert="allow")["insert"].call(rows)
    (*_, insert) = memory_tools(people, permissions={"insert": "allow"}, actor="planner")
    insert.call({"table": "people", "rows": [{"name": "b"}]})
    insert.call({"table": "people", "rows": [{"name": "c"}]}, actor="mailer", approved_by="ada")
    assert [(each.actor, each.approved_by) for each in people.history(3)] == [
        ("mailer", "ada"),
        ("planner", None),
        ("agent", None),
    ]


def test_both_kinds_of_memory_give_the_same(people: StructuredMemory) -> None:
    """S3: acall works for either."""

    async def main() -> None:
        awaited = AsyncStructuredMemory.sharing(people)
        for memory in (people, awaited):
            query, insert = memory_tools(
                memory, permissions={"describe": "deny", "insert": "allow"}
            )
            done = await insert.acall({"table": "people", "rows": {"name": repr(memory)}})
            assert done.data["rowsChanged"] == 1
            count = await query.acall({"sql": "SELECT count(*) FROM people"})
            assert not count.is_error
            assert (await insert.arequest({"table": "people", "rows": {"x": 1}})).is_error  # type: ignore[union-attr]
        with pytest.raises(InvalidCall, match="are awaited"):
            query.call({})

    asyncio.run(main())
    assert people.query("SELECT count(*) FROM people").scalar() == 4


def test_a_memory_that_was_closed_is_an_error_that_is_told(tmp_path: Path) -> None:
    """M9: awaited calls raise as little as the others."""

    async def main() -> None:
        memory = AsyncStructuredMemory(tmp_path / "closed.db")
        (delete,) = memory_tools(
            memory, permissions={"describe": "deny", "query": "deny", "delete": "allow"}
        )
        await memory.close()
        rows = {"table": "people", "where": "true"}
        for told in (await delete.acall(rows), await delete.arequest(rows)):
            assert isinstance(told, ToolResult)
            assert "is closed" in error_of(told)["message"]

    asyncio.run(main())


def test_a_query_is_cancelled_with_its_await(people: StructuredMemory) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n"
    tool: MemoryTool = tools_of(people)["query"]

    async def main() -> None:
        task = asyncio.create_task(tool.acall({"sql": endless}))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
