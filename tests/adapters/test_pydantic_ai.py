"""A memory in the hands of Pydantic AI agents: S1, S2 and S3, with the real package and scripted
models."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls, ReinjectSystemPrompt
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.profiles.amazon import amazon_model_profile
from pydantic_ai.profiles.google import GoogleOpenAPISchemaTransformer, google_model_profile
from pydantic_ai.profiles.meta import meta_model_profile
from pydantic_ai.profiles.mistral import mistral_model_profile
from pydantic_ai.profiles.openai import openai_model_profile
from pydantic_ai.run import AgentRunResult

from structmem import AsyncStructuredMemory, Column, InvalidCall, StructuredMemory
from structmem.adapters.pydantic_ai import MemoryToolset
from structmem.tools import OPERATIONS, Level

ALL: Final[dict[str, Level]] = {
    "create_table": "allow",
    "insert": "allow",
    "update": "ask",
    "delete": "ask",
    "undo": "allow",
}
PEOPLE: Final = [
    {"email": "ada@example.com", "name": "Ada", "age": 36},
    {"email": "alan@example.com", "name": "Alan", "age": 41},
]
ADD: Final = {"table": "people", "rows": [{"email": "grace@example.com", "name": "Grace"}]}
DELETE: Final = {"table": "people", "where": "age > ?", "params": [40], "reason": "Asked to."}
PAUSING: Final[Any] = [str, DeferredToolRequests]

Run = AgentRunResult[Any]
Toolset = MemoryToolset[Any]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[StructuredMemory]:
    """People, in a memory that is verified deep at the end."""
    with StructuredMemory(tmp_path / "crm.db", actor="application") as opened:
        opened.create_table(
            "people",
            [
                Column("email", "TEXT", unique=True),
                Column("name", "TEXT"),
                Column("age", "INTEGER"),
            ],
        )
        opened.insert("people", PEOPLE)
        yield opened
        opened.verify(deep=True)


def call(name: str, arguments: Any, id: str = "call_1") -> ToolCallPart:
    return ToolCallPart(name, arguments, tool_call_id=id)


def scripted(*steps: str | list[ToolCallPart], **more: Any) -> FunctionModel:
    """A model that answers with one step after the other, counted from the start of the history."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        step = steps[sum(isinstance(message, ModelResponse) for message in messages)]
        return ModelResponse([TextPart(step)] if isinstance(step, str) else [*step])

    return FunctionModel(answer, **more)


def agent_of(toolset: Any, *steps: str | list[ToolCallPart], **more: Any) -> Agent[Any, Any]:
    options = {"output_type": PAUSING, **more}
    return Agent(scripted(*steps, "Done."), toolsets=[toolset], **options)


def run(agent: Agent[Any, Any], prompt: str | None = "Go.", **more: Any) -> Run:
    return asyncio.run(agent.run(prompt, **more))


def answers(messages: Run | list[ModelMessage]) -> list[ToolReturnPart]:
    """What the model was told by its tools."""
    listed = messages if isinstance(messages, list) else messages.all_messages()
    parts = [part for each in listed if isinstance(each, ModelRequest) for part in each.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)]


def code_of(answer: ToolReturnPart) -> str:
    assert answer.outcome == "failed"
    return json.loads(cast("str", answer.content))["error"]["code"]


def emails(memory: StructuredMemory) -> list[Any]:
    return [row[0] for row in memory.query("SELECT email FROM people ORDER BY 1").rows]


def asked(result: Run) -> DeferredToolRequests:
    assert isinstance(result.output, DeferredToolRequests)
    return result.output


def resumed(agent: Agent[Any, Any], paused: Run, **results: Any) -> Run:
    answer = asked(paused).build_results(**(results or {"approve_all": True}))
    return run(agent, None, message_history=paused.all_messages(), deferred_tool_results=answer)


# -- reading and writing -------------------------------------------------------------------------


def test_a_model_reads_and_writes(memory: StructuredMemory) -> None:
    """S1, S3: results are JSON objects; a write carries actor and call id, a read nothing."""
    toolset = Toolset(memory, permissions=ALL, actor="crm-agent")
    select = {"sql": "SELECT name FROM people WHERE age > ?", "params": [40]}
    agent = agent_of(toolset, [call("db_query", select, "a")], [call("db_insert", ADD, "b")])
    result = run(agent)
    read, written = answers(result)
    assert read.content == {"columns": ["name"], "rows": [["Alan"]], "truncated": False}
    assert cast("Any", written.content)["rowsChanged"] == 1
    (latest,) = memory.history(1)
    assert latest.actor == "crm-agent"
    assert latest.call_id is not None
    assert latest.call_id.startswith(f"{result.conversation_id}/b/")
    assert latest.approved_by is None


def test_what_json_cannot_hold_survives_the_message_history(memory: StructuredMemory) -> None:
    """S1."""
    sql = "SELECT 9223372036854775807 AS big, x'00ff' AS blob, 1e999 AS far"
    result = run(agent_of(Toolset(memory, permissions={}), [call("db_query", {"sql": sql})]))
    again = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    row = [{"$int": "9223372036854775807"}, {"$blob": "AP8="}, {"$real": "inf"}]
    assert cast("Any", answers(again)[0].content)["rows"] == [row]


def test_what_pydantic_ai_is_told_of_a_tool(memory: StructuredMemory) -> None:
    """S1, S2: writes run alone, and nothing is strict."""
    tools = definitions(Toolset(memory, permissions=ALL))
    assert set(tools) == {"db_query", "db_describe", *(f"db_{name}" for name in ALL)}
    assert {name for name, tool in tools.items() if not tool.sequential} == {
        "db_query",
        "db_describe",
    }
    assert {tool.strict for tool in tools.values()} == {False}
    assert tools["db_delete"].metadata == {
        "title": "Delete rows",
        "operation": "delete",
        "level": "ask",
        "read_only": False,
        "destructive": True,
        "idempotent": False,
    }


def definitions(toolset: Any, **more: Any) -> dict[str, ToolDefinition]:
    """The tools as they reach a model."""
    seen: list[ToolDefinition] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.extend(info.function_tools)
        return ModelResponse([TextPart("Done.")])

    agent = Agent(FunctionModel(answer, **more), toolsets=[toolset], output_type=PAUSING)
    run(agent)
    return {tool.name: tool for tool in seen}


def test_every_tool_can_be_called_blindly(memory: StructuredMemory) -> None:
    """A model that fills in the schemas with whatever fits gets answers, and its run ends."""
    toolset = Toolset(memory, permissions={**dict.fromkeys(ALL, "allow"), "history": "allow"})
    result = run(Agent(TestModel(), toolsets=[toolset]))
    assert len(answers(result)) == len(ALL) + 3


def test_permissions_and_prefix_are_checked_at_once(memory: StructuredMemory) -> None:
    """S1."""
    with pytest.raises(InvalidCall):
        Toolset(memory, permissions={"isnert": "allow"})
    with pytest.raises(InvalidCall):
        Toolset(memory, permissions={"insert": cast("Level", "always")})


@pytest.mark.parametrize("level", ["allow", "ask"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"table": "people", "rows": [{"email": "x", "nmae": "X"}]},
        {"INVALID_JSON": json.dumps(ADD)},
        {"INVALID_JSON": ADD},
        {"table": "persons", "rows": []},
        {"table": "people"},
        {"table": ["people"], "rows": 5},
        {"table": "people", "rows": [{"email": "x"}], "extra": 1},
        '{"table": "people", "rows": [{"email": "x"',
        '[{"email": "x"}]',
        '"people"',
        '{"table": "people", "table": "people", "rows": []}',
        "",
        None,
    ],
    ids=str,
)
def test_wrong_arguments_are_failed_results(
    memory: StructuredMemory, arguments: Any, level: Level
) -> None:
    """S1, S2, M9: told at once, to the model alone; three times in a row do not end the run."""
    toolset = Toolset(memory, permissions={"insert": level})
    again = [[call("db_insert", arguments, f"call_{n}")] for n in range(3)]
    result = run(agent_of(toolset, *again))
    assert result.output == "Done."
    assert len(answers(result)) == 3
    assert all(code_of(answer) for answer in answers(result))
    assert len(emails(memory)) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"table": "people", "rows": json.dumps([{"email": "x", "age": "42"}])},
        json.dumps({"table": "people", "rows": [{"email": "x", "age": 42}]}),
        {"table": "people", "rows": [json.dumps({"email": "x", "age": 42})], "reason": None},
    ],
    ids=str,
)
def test_what_a_model_meant_is_understood(memory: StructuredMemory, arguments: Any) -> None:
    """S1: JSON text for arrays and objects, numbers as text, null for what is left out."""
    run(agent_of(Toolset(memory, permissions=ALL), [call("db_insert", arguments)]))
    assert memory.query("SELECT age FROM people WHERE email = 'x'").scalar() == 42


# -- approval ------------------------------------------------------------------------------------


def inline(answer: Callable[[DeferredToolRequests], DeferredToolResults | None]) -> Any:
    """Somebody who answers while the run goes on."""
    return HandleDeferredToolCalls[Any](handler=lambda ctx, requests: answer(requests))


def test_a_person_is_shown_what_a_call_would_touch(memory: StructuredMemory) -> None:
    """S2: operation, reason, how many rows, a sample; as data and as text."""
    paused = run(agent_of(Toolset(memory, permissions=ALL), [call("db_delete", DELETE)]))
    (request,) = asked(paused).approvals
    metadata = asked(paused).metadata[request.tool_call_id]
    approval = metadata["approval"]
    assert (approval["operation"], approval["reason"]) == ("delete", "Asked to.")
    assert (approval["rowsMatched"], len(approval["sample"])) == (1, 1)
    assert "alan@example.com" in metadata["text"]
    assert json.loads(json.dumps(metadata)) == metadata
    assert len(emails(memory)) == 2


def test_a_granted_call_is_carried_out(memory: StructuredMemory) -> None:
    """S2, deferred: the approver is in the journal."""
    agent = agent_of(Toolset(memory, permissions=ALL), [call("db_delete", DELETE)])
    paused = run(agent)
    done = resumed(
        agent,
        paused,
        approvals={"call_1": True},
        metadata={"call_1": {"approved_by": "grace@example.com"}},
    )
    assert done.output == "Done."
    assert cast("Any", answers(done)[0].content)["rowsChanged"] == 1
    assert emails(memory) == ["ada@example.com"]
    assert memory.history(1)[0].approved_by == "grace@example.com"


def test_a_call_granted_inline_is_carried_out(memory: StructuredMemory) -> None:
    """S2, by a capability; its run need not be able to pause."""
    shown: list[DeferredToolRequests] = []

    def grant(requests: DeferredToolRequests) -> DeferredToolResults:
        shown.append(requests)
        return requests.build_results(approve_all=True)

    toolset = Toolset(memory, permissions=ALL)
    agent = agent_of(
        toolset, [call("db_delete", DELETE)], output_type=str, capabilities=[inline(grant)]
    )
    run(agent)
    assert "alan@example.com" in shown[0].metadata["call_1"]["text"]
    assert emails(memory) == ["ada@example.com"]
    assert memory.history(1)[0].approved_by == "pydantic-ai"


@pytest.mark.parametrize("way", ["deferred", "inline"])
def test_a_declined_call_says_that_it_was_declined(memory: StructuredMemory, way: str) -> None:
    """S2: in the person's words, and as something else than a failure."""
    toolset = Toolset(memory, permissions=ALL)
    no = {"call_1": ToolDenied("Not him, says Grace.")}
    if way == "inline":
        handler = inline(lambda requests: requests.build_results(approvals=no))
        done = run(agent_of(toolset, [call("db_delete", DELETE)], capabilities=[handler]))
    else:
        agent = agent_of(toolset, [call("db_delete", DELETE)])
        done = resumed(agent, run(agent), approvals=no)
    (answer,) = answers(done)
    assert (answer.outcome, answer.content) == ("denied", "Not him, says Grace.")
    assert len(emails(memory)) == 2


def test_where_nobody_can_be_asked_the_call_is_refused(memory: StructuredMemory) -> None:
    """S2: and the run goes on, with another code than a person's no."""
    toolset = Toolset(memory, permissions=ALL)
    done = run(agent_of(toolset, [call("db_delete", DELETE)], output_type=str))
    assert code_of(answers(done)[0]) == "nobody_to_ask"
    assert done.output == "Done."
    assert len(emails(memory)) == 2


def never(ctx: RunContext[Any]) -> bool:
    return False


@pytest.mark.parametrize("said", [False, never])
def test_an_application_says_that_nobody_can_be_asked(memory: StructuredMemory, said: Any) -> None:
    """S2: the agent could pause, but this run is nobody's."""
    toolset = Toolset(memory, permissions=ALL, can_ask=said)
    done = run(agent_of(toolset, [call("db_delete", DELETE)]))
    assert code_of(answers(done)[0]) == "nobody_to_ask"


def test_an_application_says_that_a_run_can_pause(memory: StructuredMemory) -> None:
    """S2: an output type given to a run is not told to its toolsets."""
    toolset = Toolset(memory, permissions=ALL, can_ask=lambda ctx: True)
    agent = agent_of(toolset, [call("db_delete", DELETE)], output_type=str)
    assert asked(run(agent, output_type=PAUSING)).approvals


@pytest.mark.parametrize("handles", [True, False])
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_capability_is_asked_if_it_answers(
    memory: StructuredMemory, handles: bool, is_wrapped: bool
) -> None:
    """S2: also one within another; any other kind of capability is nobody to ask."""
    handler = inline(lambda requests: requests.build_results(approve_all=True))
    capability = handler if handles else ReinjectSystemPrompt[Any]()
    agent = agent_of(
        Toolset(memory, permissions=ALL),
        [call("db_delete", DELETE)],
        output_type=str,
        capabilities=[capability.prefix_tools("other") if is_wrapped else capability],
    )
    (answer,) = answers(run(agent))
    assert answer.outcome == ("success" if handles else "failed")
    assert len(emails(memory)) == (1 if handles else 2)


@pytest.mark.parametrize(
    "output",
    [DeferredToolRequests | str, [int, [str, DeferredToolRequests]]],
    ids=["union", "list"],
)
def test_an_agent_pauses_by_any_form_of_its_output_type(
    memory: StructuredMemory, output: Any
) -> None:
    agent = agent_of(
        Toolset(memory, permissions=ALL), [call("db_delete", DELETE)], output_type=output
    )
    assert asked(run(agent)).approvals


def test_a_call_that_cannot_succeed_asks_nobody(memory: StructuredMemory) -> None:
    """S2."""
    toolset = Toolset(memory, permissions=ALL)
    wrong = call("db_delete", {**DELETE, "where": "salary > ?"}, "wrong")
    right = call("db_delete", DELETE, "right")
    paused = run(agent_of(toolset, [wrong, right]))
    assert [request.tool_call_id for request in asked(paused).approvals] == ["right"]
    (answer,) = answers(paused)
    assert (answer.tool_call_id, code_of(answer)) == ("wrong", "no_such_column")


def test_a_grant_is_void_when_other_rows_would_be_touched(memory: StructuredMemory) -> None:
    """S2: for this grant, however often it is given; asked anew, it goes through."""
    agent = agent_of(
        Toolset(memory, permissions=ALL),
        [call("db_delete", DELETE, "first")],
        [call("db_delete", DELETE, "second")],
    )
    paused = run(agent)
    memory.insert("people", {"email": "barbara@example.com", "age": 50})
    once, twice = resumed(agent, paused), resumed(agent, paused)
    assert code_of(answers(once)[0]) == code_of(answers(twice)[0]) == "approval_void"
    assert len(emails(memory)) == 3
    assert asked(once).metadata["second"]["approval"]["rowsMatched"] == 2
    resumed(agent, once)
    assert emails(memory) == ["ada@example.com"]


def test_a_grant_given_twice_is_carried_out_once(memory: StructuredMemory) -> None:
    """S2, M8: the second time it finds what was done; nothing that came since is touched."""
    agent = agent_of(Toolset(memory, permissions=ALL), [call("db_delete", DELETE)])
    paused = run(agent)
    resumed(agent, paused)
    memory.insert("people", {"email": "barbara@example.com", "age": 50})
    (answer,) = answers(resumed(agent, paused))
    assert cast("Any", answer.content)["repeated"] is True
    assert emails(memory) == ["ada@example.com", "barbara@example.com"]


def test_what_was_shown_binds_no_call_that_was_carried_out(memory: StructuredMemory) -> None:
    """S2, M8: the table that was shown is gone, and that is what the grant was for."""
    toolset = Toolset(memory, permissions={"drop_table": "ask"})
    agent = agent_of(toolset, [call("db_drop_table", {"table": "people"})])
    paused = run(agent)
    once, twice = resumed(agent, paused), resumed(agent, paused)
    assert cast("Any", answers(once)[0].content)["op"] == memory.history(1)[0].op_id
    assert cast("Any", answers(twice)[0].content)["repeated"] is True


def test_arguments_that_the_approver_edited_are_approved(memory: StructuredMemory) -> None:
    """S2."""
    agent = agent_of(Toolset(memory, permissions=ALL), [call("db_delete", DELETE)])
    edited = ToolApproved(override_args={**DELETE, "params": [30]})
    resumed(agent, run(agent), approvals={"call_1": edited})
    assert emails(memory) == []


def test_edited_arguments_may_be_wrong(memory: StructuredMemory) -> None:
    """S2: what a person makes of them is checked like what a model makes of them."""
    agent = agent_of(Toolset(memory, permissions=ALL), [call("db_delete", DELETE)])
    for arguments in ({"table": "people"}, cast("Any", {1: 2}), {"table": object()}):
        done = resumed(
            agent, run(agent), approvals={"call_1": ToolApproved(override_args=arguments)}
        )
        assert code_of(answers(done)[0]) == "invalid_call"
    assert len(emails(memory)) == 2


def test_in_another_process_the_grant_of_the_arguments_stands(memory: StructuredMemory) -> None:
    """S2: a toolset that never showed anything has nothing to hold the grant to."""
    steps = [call("db_delete", DELETE)]
    paused = run(agent_of(Toolset(memory, permissions=ALL), steps))
    memory.insert("people", {"email": "barbara@example.com", "age": 50})
    resumed(agent_of(Toolset(memory, permissions=ALL), steps), paused)
    assert emails(memory) == ["ada@example.com"]


def test_what_was_shown_in_one_conversation_binds_no_other(memory: StructuredMemory) -> None:
    """S2: equal tool-call ids, equal arguments; each grant holds for what its approver saw."""
    agent = agent_of(Toolset(memory, permissions=ALL), [call("db_delete", DELETE)])
    before = run(agent)
    memory.insert("people", {"email": "barbara@example.com", "age": 50})
    after = run(agent)
    assert code_of(answers(resumed(agent, before))[0]) == "approval_void"
    resumed(agent, after)
    assert emails(memory) == ["ada@example.com"]


def test_questions_without_answer_are_given_up_in_the_end(
    memory: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2: a question that was given up is granted by its arguments, as in another process."""
    monkeypatch.setattr("structmem.adapters.pydantic_ai.REQUESTS_MAX", 1)
    agent = agent_of(Toolset(memory, permissions=ALL), [call("db_delete", DELETE)])
    first, second = run(agent), run(agent)
    memory.insert("people", {"email": "barbara@example.com", "age": 50})
    assert code_of(answers(resumed(agent, second))[0]) == "approval_void"
    resumed(agent, first)
    assert emails(memory) == ["ada@example.com"]


@pytest.mark.parametrize("output", [PAUSING, str], ids=["pausing", "not pausing"])
def test_a_streamed_run_asks_alike(memory: StructuredMemory, output: Any) -> None:
    """S2: with what the call would touch; where nobody can be asked, it is refused."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if any(isinstance(message, ModelResponse) for message in messages):
            yield "Done."
        else:
            yield {0: DeltaToolCall("db_delete", json.dumps(DELETE)[:9], tool_call_id="call_1")}
            yield {0: DeltaToolCall(json_args=json.dumps(DELETE)[9:])}

    async def story() -> tuple[Any, list[ModelMessage]]:
        toolset = Toolset(memory, permissions=ALL)
        agent = Agent(FunctionModel(stream_function=stream), toolsets=[toolset], output_type=output)
        async with agent.run_stream("Go.") as result:
            return await result.get_output(), result.all_messages()

    output, messages = asyncio.run(story())
    if isinstance(output, DeferredToolRequests):
        assert output.metadata["call_1"]["approval"]["rowsMatched"] == 1
    else:
        assert output == "Done."
        assert code_of(answers(messages)[0]) == "nobody_to_ask"
    assert len(emails(memory)) == 2


def test_the_kind_says_so_where_it_is_wanted(memory: StructuredMemory) -> None:
    """S2: `unapproved`, with the preview, bound to what was shown; and no run ends by it."""
    toolset = Toolset(memory, permissions=ALL, unapproved=True, can_ask=True)
    kinds = {name for name, tool in definitions(toolset).items() if tool.kind == "unapproved"}
    assert kinds == {"db_update", "db_delete"}

    agent = agent_of(toolset, [call("db_delete", DELETE)])
    paused = run(agent)
    assert asked(paused).metadata["call_1"]["approval"]["rowsMatched"] == 1
    resumed(agent, paused)
    assert emails(memory) == ["ada@example.com"]


def test_an_unapproved_call_that_must_fail_asks_nobody(memory: StructuredMemory) -> None:
    """S2"""
    wrong = {"table": "peple", "where": "true"}
    toolset = Toolset(memory, permissions=ALL, unapproved=True)
    done = run(agent_of(toolset, [call("db_delete", wrong)]))
    assert code_of(answers(done)[0]) == "no_such_table"

    lonely = agent_of(toolset, [call("db_delete", DELETE)], output_type=str)
    assert code_of(answers(run(lonely))[0]) == "nobody_to_ask"
    assert len(emails(memory)) == 2


def test_a_question_sees_what_was_done_before_it(memory: StructuredMemory) -> None:
    """S2: calls of one answer are in order; the delete is of the row that was just added."""
    toolset = Toolset(memory, permissions=ALL)
    new = {"table": "people", "rows": [{"email": "barbara@example.com", "age": 50}]}
    agent = agent_of(toolset, [call("db_insert", new, "add"), call("db_delete", DELETE, "gone")])
    paused = run(agent)
    assert asked(paused).metadata["gone"]["approval"]["rowsMatched"] == 2
    resumed(agent, paused)
    assert emails(memory) == ["ada@example.com"]


# -- repeated, resumed, replayed -----------------------------------------------------------------


def test_a_repeated_tool_call_id_with_other_arguments_is_another_call(
    memory: StructuredMemory,
) -> None:
    """S3, M8: models repeat ids from turn to turn."""
    steps = [
        [call("db_insert", {"table": "people", "rows": [{"email": f"{n}"}]})] for n in range(3)
    ]
    done = run(agent_of(Toolset(memory, permissions=ALL), *steps))
    assert [cast("Any", answer.content)["rowsChanged"] for answer in answers(done)] == [1, 1, 1]
    assert emails(memory)[:3] == ["0", "1", "2"]


def test_a_repeated_call_is_done_once(memory: StructuredMemory) -> None:
    """S3, M8: the first result comes again, and says so."""
    row = {"table": "people", "rows": [{"name": "Nobody"}]}
    done = run(agent_of(Toolset(memory, permissions=ALL), *[[call("db_insert", row)]] * 3))
    first, *others = [cast("Any", answer.content) for answer in answers(done)]
    assert [other["op"] for other in others] == [first["op"]] * 2
    assert all(other["repeated"] is True for other in others)
    assert memory.query("SELECT count(*) FROM people").scalar() == 3


def test_two_conversations_do_not_meet(memory: StructuredMemory) -> None:
    """S3: equal tool-call ids and arguments in two conversations are two writes."""
    row = {"table": "people", "rows": [{"name": "Nobody"}]}
    agent = agent_of(Toolset(memory, permissions=ALL), [call("db_insert", row)])
    assert run(agent).conversation_id != run(agent).conversation_id
    assert memory.query("SELECT count(*) FROM people").scalar() == 4


def test_a_paused_run_is_resumed_from_text(memory: StructuredMemory) -> None:
    """S2, S3: history and questions as JSON, a new agent and toolset; what was done stays done."""
    steps = [[call("db_insert", ADD, "add")], [call("db_delete", DELETE, "gone")]]
    paused = run(agent_of(Toolset(memory, permissions=ALL), *steps))
    history = ModelMessagesTypeAdapter.validate_json(paused.all_messages_json())
    again = agent_of(Toolset(memory, permissions=ALL), *steps)
    done = run(
        again,
        None,
        message_history=history,
        deferred_tool_results=DeferredToolResults(approvals={"gone": True}),
    )
    assert done.conversation_id == paused.conversation_id
    assert emails(memory) == ["ada@example.com", "grace@example.com"]
    call_id = memory.history(1)[0].call_id
    assert call_id is not None
    assert call_id.startswith(f"{paused.conversation_id}/gone/")


def test_a_run_that_crashed_after_a_write_writes_once(memory: StructuredMemory) -> None:
    """S3, M7, M8: the history ends with the call, the journal with its effect."""
    steps = [call("db_insert", {"table": "people", "rows": [{"name": "Nobody"}]})]
    whole = run(agent_of(Toolset(memory, permissions=ALL), steps)).all_messages_json()
    known = ModelMessagesTypeAdapter.validate_json(whole)[:2]
    assert isinstance(known[-1], ModelResponse)
    done = run(agent_of(Toolset(memory, permissions=ALL), steps), None, message_history=known)
    assert cast("Any", answers(done)[0].content)["repeated"] is True
    assert memory.query("SELECT count(*) FROM people").scalar() == 3


# -- who, where, at the same time ----------------------------------------------------------------


def test_who_acts_and_who_approves_come_from_the_run(memory: StructuredMemory) -> None:
    """S2, S3: as the application knows them."""

    def actor(ctx: RunContext[dict[str, str]]) -> str | None:
        return ctx.deps.get("user")

    def approver(ctx: RunContext[dict[str, str]]) -> str | None:
        return ctx.deps.get("boss")

    toolset = MemoryToolset(memory, permissions=ALL, actor=actor, approver=approver)
    agent = agent_of(toolset, [call("db_delete", DELETE)], deps_type=dict[str, str])
    deps = {"user": "agent-of-ada", "boss": "grace"}
    paused = run(agent, deps=deps)
    run(
        agent,
        None,
        deps=deps,
        message_history=paused.all_messages(),
        deferred_tool_results=asked(paused).build_results(approve_all=True),
    )
    (latest,) = memory.history(1)
    assert (latest.actor, latest.approved_by) == ("agent-of-ada", "grace")


def test_an_actor_who_is_not_named_is_the_memorys_own(memory: StructuredMemory) -> None:
    """S3."""
    run(
        agent_of(Toolset(memory, permissions=ALL, actor=lambda ctx: None), [call("db_insert", ADD)])
    )
    assert memory.history(1)[0].actor == "application"


def test_an_asynchronous_memory_works_alike(tmp_path: Path) -> None:
    """S3, M3: reads, writes, questions."""

    async def story() -> None:
        async with AsyncStructuredMemory(tmp_path / "crm.db") as memory:
            await memory.create_table("people", [Column("email", "TEXT"), Column("age", "INTEGER")])
            await memory.insert("people", [{"email": "a", "age": 36}, {"email": "b", "age": 41}])
            agent = agent_of(
                Toolset(memory, permissions=ALL),
                [call("db_query", {"sql": "SELECT count(*) AS n FROM people"}, "read")],
                [call("db_delete", DELETE)],
            )
            paused = await agent.run("Go.")
            assert cast("Any", answers(paused)[0].content)["rows"] == [[2]]
            assert asked(paused).metadata["call_1"]["approval"]["rowsMatched"] == 1
            await agent.run(
                message_history=paused.all_messages(),
                deferred_tool_results=asked(paused).build_results(approve_all=True),
            )
            assert (await memory.query("SELECT email FROM people")).rows == [("a",)]
            await memory.verify(deep=True)

    asyncio.run(story())


def test_agents_share_a_toolset_at_the_same_time(memory: StructuredMemory) -> None:
    """M4, S3: eight runs of two agents, each with the same tool-call ids."""
    toolset = Toolset(memory, permissions=ALL)

    def adds(name: str) -> Agent[Any, Any]:
        rows = [
            [call("db_insert", {"table": "people", "rows": [{"name": name}]}, id)] for id in "abc"
        ]
        return agent_of(toolset, *rows)

    async def story() -> None:
        await asyncio.gather(*(each.run("Go.") for each in [adds("x"), adds("y")] * 4))

    asyncio.run(story())
    counted = memory.query("SELECT name, count(*) FROM people WHERE name IN ('x', 'y') GROUP BY 1")
    assert counted.rows == [("x", 12), ("y", 12)]


def test_one_model_holds_two_memories(memory: StructuredMemory, tmp_path: Path) -> None:
    """S1: each by its prefix."""
    with StructuredMemory(tmp_path / "notes.db") as notes:
        notes.create_table("notes", [Column("text", "TEXT")])
        agent = Agent(
            scripted(
                [
                    call("crm_insert", ADD, "a"),
                    call("notes_insert", {"table": "notes", "rows": [{"text": "hi"}]}, "b"),
                ],
                "Done.",
            ),
            toolsets=[
                Toolset(memory, permissions=ALL, prefix="crm_"),
                Toolset(notes, permissions=ALL, prefix="notes_"),
            ],
            output_type=PAUSING,
        )
        run(agent)
        assert notes.query("SELECT text FROM notes").scalar() == "hi"
        assert "grace@example.com" in emails(memory)


def test_a_clash_of_names_says_what_to_do(memory: StructuredMemory) -> None:
    toolsets = [Toolset(memory, permissions=ALL), Toolset(memory, permissions=ALL)]
    agent: Agent[Any, Any] = Agent(scripted("Done."), toolsets=toolsets, output_type=PAUSING)
    with pytest.raises(Exception, match="prefix='crm_'"):
        run(agent)


@pytest.mark.parametrize("wrap", ["prefixed", "renamed"])
def test_wrapped_toolsets_ask_and_write(memory: StructuredMemory, wrap: str) -> None:
    """S2: by Pydantic AI's own wrappers, under the names that those give."""
    toolset = Toolset(memory, permissions=ALL)
    wrapped = (
        toolset.prefixed("crm")
        if wrap == "prefixed"
        else toolset.renamed({"crm_db_delete": "db_delete"})
    )
    agent = agent_of(wrapped, [call("crm_db_delete", DELETE)])
    paused = run(agent)
    assert asked(paused).metadata["call_1"]["approval"]["rowsMatched"] == 1
    memory.insert("people", {"email": "barbara@example.com", "age": 50})
    assert code_of(answers(resumed(agent, paused))[0]) == "approval_void"


def test_a_filtered_toolset_offers_less(memory: StructuredMemory) -> None:
    toolset = Toolset(memory, permissions=ALL)
    safe = toolset.filtered(lambda ctx, tool: not (tool.metadata or {})["destructive"])
    assert set(definitions(safe)) == {"db_query", "db_describe", "db_create_table", "db_insert"}


def test_an_application_asks_for_more_than_the_permissions_do(memory: StructuredMemory) -> None:
    """S2: `approval_required` around it; the approver is recorded all the same."""
    toolset = Toolset(memory, permissions=ALL).approval_required()
    agent = agent_of(toolset, [call("db_insert", ADD)])
    paused = run(agent)
    assert len(emails(memory)) == 2
    resumed(
        agent,
        paused,
        approvals={"call_1": True},
        metadata={"call_1": {"approved_by": "grace"}},
    )
    assert "grace@example.com" in emails(memory)
    assert memory.history(1)[0].approved_by == "grace"


def test_the_memory_stays_open(memory: StructuredMemory) -> None:
    """The application opened it, and closes it."""

    async def story() -> None:
        async with agent_of(Toolset(memory, permissions=ALL), [call("db_insert", ADD)]) as agent:
            await agent.run("Go.")

    asyncio.run(story())
    assert len(emails(memory)) == 3


# -- what the model is told ----------------------------------------------------------------------


def told(toolset: Toolset) -> str:
    """The instructions that reach a model."""
    (request, _) = run(agent_of(toolset)).all_messages()
    assert isinstance(request, ModelRequest)
    return request.instructions or ""


def test_the_instructions_have_the_rules_and_the_schema(memory: StructuredMemory) -> None:
    """S1: with this prefix, as the memory is now."""
    toolset = Toolset(memory, permissions=ALL, prefix="crm_")
    assert "crm_query" in told(toolset)
    assert "email" in told(toolset)
    assert "phone" not in told(toolset)
    memory.add_column("people", Column("phone", "TEXT"))
    assert "phone" in told(toolset)


def test_instructions_can_be_left_out(memory: StructuredMemory) -> None:
    assert told(Toolset(memory, permissions=ALL, include_instructions=False)) == ""


def test_the_instructions_of_an_asynchronous_memory(tmp_path: Path) -> None:
    """M3, S3."""

    async def story() -> None:
        async with AsyncStructuredMemory(tmp_path / "crm.db") as memory:
            await memory.create_table("people", [Column("email", "TEXT")])
            done = await agent_of(Toolset(memory, permissions=ALL)).run("Go.")
            request = done.all_messages()[0]
            assert isinstance(request, ModelRequest)
            assert request.instructions is not None
            assert "email" in request.instructions

    asyncio.run(story())


PROFILES: Final[dict[str, Any]] = {
    "openai": openai_model_profile("gpt-5"),
    "gpt-oss": openai_model_profile("gpt-oss-120b"),
    "google": google_model_profile("gemini-3-pro-preview"),
    "google-openapi": ModelProfile(json_schema_transformer=GoogleOpenAPISchemaTransformer),
    "meta": meta_model_profile("llama-4"),
    "mistral": mistral_model_profile("mistral-large-latest"),
    "amazon": amazon_model_profile("nova-pro"),
}


@pytest.mark.parametrize("provider", PROFILES)
def test_a_provider_gets_schemas_in_which_a_row_can_be_written(
    memory: StructuredMemory, provider: str
) -> None:
    """S1, S3: no transformation closes an object of free keys, or takes an argument away."""
    with pytest.warns(UserWarning, match="execute is granted"):
        toolset = Toolset(memory, permissions=dict.fromkeys(OPERATIONS, "allow"))
    plain = definitions(toolset)
    assert len(plain) == len(OPERATIONS)
    sent = definitions(toolset, profile=PROFILES[provider])
    assert sent.keys() == plain.keys()
    for name, tool in plain.items():
        before, after = tool.parameters_json_schema, sent[name].parameters_json_schema
        assert sent[name].strict is False
        assert after["properties"].keys() == before["properties"].keys()
        assert after.get("required", []) == before.get("required", [])
        for key, property in before["properties"].items():
            assert after["properties"][key].get("description") == property.get("description")
    row = sent["db_insert"].parameters_json_schema["properties"]["rows"]["items"]
    assert is_free(row)
    assert is_free(sent["db_update"].parameters_json_schema["properties"]["set"])
    column = sent["db_create_table"].parameters_json_schema["properties"]["columns"]["items"]
    assert {"name", "type", "notNull", "primaryKey"} <= column["properties"].keys()
    assert definitions(toolset) == plain, "what one provider gets changes nothing for the next"


def is_free(schema: dict[str, Any]) -> bool:
    """Whether an object may have any key."""
    is_closed = schema.get("additionalProperties") is False or bool(schema.get("properties"))
    return schema["type"] == "object" and not is_closed


def test_without_the_package_the_adapter_says_what_to_install() -> None:
    """S3."""
    script = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "try:\n    import structmem.adapters.pydantic_ai\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "pip install 'structmem[pydantic-ai]'" in done.stdout
