"""The official client, against a real process, in both eras of the protocol (S2, S3)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    TextContent,
)

from structmem import Column, StructuredMemory, open_replica
from tests.adapters.mcp.wire import command, environment

Mode = Literal["auto", "legacy"]
Json = dict[str, Any]
Test = Callable[[Client], Awaitable[None]]

PEOPLE: Json = {"table": "people", "columns": [{"name": "name", "type": "TEXT", "notNull": True}]}
ADA: Json = {"table": "people", "rows": [{"name": "Ada"}], "reason": "Met at a conference."}
ALL: Json = {"table": "people", "where": "true"}

pytestmark = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Person:
    """The user behind a client. `questions` are what they were shown."""

    def __init__(self, action: Literal["accept", "decline", "cancel"], approve: bool) -> None:
        self._answer = ElicitResult(
            action=action, content={"approve": approve} if action == "accept" else None
        )
        self.questions: list[str] = []

    async def __call__(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.questions.append(params.message)
        return self._answer


def converse(test: Test, *arguments: str | Path, mode: Mode, person: Person | None = None) -> None:
    """Run `test` with a client of a server that was started with these arguments."""
    program, *rest = command(*arguments)
    server = StdioServerParameters(command=program, args=rest, env=environment())

    async def main() -> None:
        info = Implementation(name="tester", version="1")
        async with Client(
            server, mode=mode, client_info=info, elicitation_callback=person
        ) as client:
            assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
            await test(client)

    asyncio.run(main())


def said(result: CallToolResult) -> Json:
    """What the model sees, the same in both places."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    data = json.loads(block.text)
    assert result.structured_content == data
    return data


def code(result: CallToolResult) -> str:
    assert result.is_error
    return said(result)["error"]["code"]


async def call(client: Client, tool: str, arguments: Json) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    return result


def test_a_model_makes_a_table_writes_reads_and_takes_back(tmp_path: Path, mode: Mode) -> None:
    """S1, S3"""

    async def test(client: Client) -> None:
        made = said(await call(client, "db_create_table", PEOPLE))
        assert made["op"] == "op_1"
        wrote = said(await call(client, "db_insert", ADA))
        assert (wrote["op"], wrote["rowsChanged"], wrote["rowids"]) == ("op_2", 1, [1])
        query: Json = {"sql": "SELECT name, 1 << 62 AS big FROM people WHERE name LIKE ?"}
        read = said(await call(client, "db_query", {**query, "params": ["A%"]}))
        assert read["rows"] == [["Ada", {"$int": str(1 << 62)}]]
        assert not (await call(client, "db_undo", {})).is_error
        assert said(await call(client, "db_query", {**query, "params": ["A%"]}))["rows"] == []

    converse(test, tmp_path / "crm.db", "--allow", "create_table,insert,undo", mode=mode)
    with StructuredMemory(tmp_path / "crm.db") as memory:
        records = [(each.operation, each.actor, each.call_id) for each in memory.log()]
        assert records == [(name, "tester", None) for name in ("create_table", "insert", "undo")]
        memory.verify(deep=True)


def test_tools_are_listed_with_title_schema_and_hints(tmp_path: Path, mode: Mode) -> None:
    """S1: only what is granted; a list makes no file."""

    async def test(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["db_describe", "db_query", "db_insert", "db_delete"]
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.title and tool.annotations.title == tool.title
            assert tool.annotations.open_world_hint is False
            assert tool.input_schema["type"] == "object"
        hints = {
            name: (each.read_only_hint, each.destructive_hint, each.idempotent_hint)
            for name, tool in tools.items()
            if (each := tool.annotations) is not None
        }
        assert hints == {
            "db_describe": (True, False, True),
            "db_query": (True, False, True),
            "db_insert": (False, False, False),
            "db_delete": (False, True, False),
        }
        assert client.instructions is not None and "db_query" in client.instructions

    converse(test, tmp_path / "crm.db", "--allow", "insert", "--ask", "delete", mode=mode)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_call_is_a_result_that_says_what_to_do(tmp_path: Path, mode: Mode) -> None:
    """S1, M9: no exception in the client, which would end the run in most harnesses."""

    async def test(client: Client) -> None:
        assert code(await call(client, "db_query", {})) == "invalid_call"
        for sql, why in (
            ("CREATE TABLE people (name)", "write_in_query"),
            ("SELECT * FROM poeple", "no_such_table"),
        ):
            assert code(await call(client, "db_query", {"sql": sql})) == why
        absent = await call(client, "db_drop_table", {"table": "people"})
        assert code(absent) == "not_granted"
        assert "db_describe, db_query" in said(absent)["error"]["hint"]

    converse(test, tmp_path / "crm.db", mode=mode)


def with_ada(path: Path) -> Path:
    with StructuredMemory(path) as memory:
        memory.create_table("people", [Column("name", "TEXT")])
        memory.insert("people", {"name": "Ada"})
    return path


def test_equal_calls_are_carried_out_each_time(tmp_path: Path, mode: Mode) -> None:
    """S3: ids of JSON-RPC are no idempotency keys, and nothing else is taken for one."""

    async def test(client: Client) -> None:
        await call(client, "db_create_table", PEOPLE)
        wrote = [said(await call(client, "db_insert", ADA)) for _ in range(3)]
        assert [each["rowids"] for each in wrote] == [[1], [2], [3]]
        assert all("repeated" not in each for each in wrote)

    converse(test, tmp_path / "crm.db", "--allow", "create_table,insert", mode=mode)


def test_a_person_approves(tmp_path: Path, mode: Mode) -> None:
    """S2"""
    person = Person("accept", approve=True)

    async def test(client: Client) -> None:
        assert said(await call(client, "db_delete", ALL))["rowsChanged"] == 1

    path = with_ada(tmp_path / "crm.db")
    converse(test, path, "--ask", "delete", mode=mode, person=person)
    assert len(person.questions) == 1 and "Ada" in person.questions[0]
    with StructuredMemory(path) as memory:
        latest = memory.history(1)[0]
        assert (latest.actor, latest.approved_by) == ("tester", "user of tester")


@pytest.mark.parametrize("person", [Person("decline", False), Person("accept", False)])
def test_a_person_declines(tmp_path: Path, mode: Mode, person: Person) -> None:
    """S2"""

    async def test(client: Client) -> None:
        assert code(await call(client, "db_delete", ALL)) == "declined"
        assert said(await call(client, "db_query", {"sql": "SELECT * FROM people"}))["rows"] == [
            ["Ada"]
        ]

    converse(test, with_ada(tmp_path / "crm.db"), "--ask", "delete", mode=mode, person=person)


def test_a_client_without_a_form_cannot_ask(tmp_path: Path, mode: Mode) -> None:
    """S2"""

    async def test(client: Client) -> None:
        assert code(await call(client, "db_delete", ALL)) == "nobody_to_ask"

    converse(test, with_ada(tmp_path / "crm.db"), "--ask", "delete", mode=mode)


def test_nobody_is_asked_about_a_wrong_call(tmp_path: Path, mode: Mode) -> None:
    """S2"""
    person = Person("accept", approve=True)

    async def test(client: Client) -> None:
        wrong = {"table": "people", "where": "nam = 'Ada'"}
        assert code(await call(client, "db_delete", wrong)) == "no_such_column"

    path = with_ada(tmp_path / "crm.db")
    converse(test, path, "--ask", "delete", mode=mode, person=person)
    assert person.questions == []


def test_several_memories_have_prefixes(tmp_path: Path, mode: Mode) -> None:
    """S1: a grant by operation is for all, one by tool for its memory, and wins."""

    async def test(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [
            *("crm_describe", "crm_query", "crm_create_table", "crm_insert"),
            *("notes_query", "notes_create_table"),
        ]
        await call(client, "crm_create_table", PEOPLE)
        await call(client, "crm_insert", ADA)
        hidden = await call(client, "notes_query", {"sql": "SELECT * FROM people"})
        assert code(hidden) == "no_such_table"
        assert client.instructions is not None
        assert {"crm_query", "notes_query"} <= {*client.instructions.replace(",", " ").split()}

    converse(
        test,
        *("--allow", "create_table,insert", "--deny", "notes_insert,notes_describe"),
        *(f"crm_={tmp_path / 'crm.db'}", f"notes_={tmp_path / 'notes.db'}"),
        mode=mode,
    )
    with StructuredMemory(tmp_path / "crm.db") as memory:
        assert memory.query("SELECT name FROM people").scalar() == "Ada"


def test_a_replica_offers_what_reads(tmp_path: Path, mode: Mode) -> None:
    """R2, S1"""
    with (
        StructuredMemory(with_ada(tmp_path / "crm.db")) as memory,
        open_replica(tmp_path / "copy.db", memory_id=memory.id) as copy,
    ):
        copy.apply(memory.records())

    async def test(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["db_describe", "db_query", "db_history"]
        assert said(await call(client, "db_query", {"sql": "SELECT * FROM people"}))["rows"] == [
            ["Ada"]
        ]
        assert code(await call(client, "db_insert", ADA)) == "not_granted"

    converse(test, tmp_path / "copy.db", "--allow", "insert,history", mode=mode)


def test_a_memory_may_be_offered_for_reading_alone(tmp_path: Path, mode: Mode) -> None:
    """S1"""

    async def test(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["db_describe", "db_query"]
        assert said(await call(client, "db_query", {"sql": "SELECT * FROM people"}))["rows"] == [
            ["Ada"]
        ]
        assert code(await call(client, "db_insert", ADA)) == "not_granted"

    path = with_ada(tmp_path / "crm.db")
    converse(test, path, "--allow", "insert", "--read-only", mode=mode)


def test_results_are_cut_as_the_operator_says(tmp_path: Path, mode: Mode) -> None:
    """Q3, S1"""

    async def test(client: Client) -> None:
        sql = "SELECT value FROM json_each('[1,2,3]')"
        read = said(await call(client, "db_query", {"sql": sql}))
        assert (read["rows"], read["truncated"]) == ([[1], [2]], True)

    converse(test, tmp_path / "crm.db", "--max-rows", "2", mode=mode)
