"""An operation at level `ask` runs after a person's yes to exactly this call, and says why if it
does not (S2)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from structmem import Column, StructuredMemory
from structmem.adapters.mcp.questions import OPEN_MAX
from tests.adapters.mcp.wire import FORM, Json, Wire, content, envelope, error_code, served

YES = {"action": "accept", "content": {"approve": True}}
DELETE: Json = {"table": "people", "where": "name = ?", "params": ["Ada"]}

Serve = Callable[..., Wire]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory of three people."""
    with StructuredMemory(tmp_path / "crm.db", actor="fixture") as memory:
        memory.create_table("people", [Column("name", "TEXT")])
        memory.insert("people", [{"name": "Ada"}, {"name": "Grace"}, {"name": "Alan"}])
    return tmp_path / "crm.db"


@pytest.fixture
def memory(path: Path) -> Iterator[StructuredMemory]:
    """The same file, open beside the door, and verified when the test is over."""
    with StructuredMemory(path) as opened:
        yield opened
        opened.verify(deep=True)


def names(memory: StructuredMemory) -> list[object]:
    return [name for (name,) in memory.query("SELECT name FROM people ORDER BY name").rows]


def ask(wire: Wire, arguments: Json = DELETE, tool: str = "db_delete") -> tuple[int, Json]:
    """Call a tool in the era of the handshake; the call's id and the question that comes."""
    call = wire.send("tools/call", {"name": tool, "arguments": arguments})
    question = wire.receive()
    assert question["method"] == "elicitation/create", question
    return call, question


def outcome(wire: Wire, call: int) -> Json:
    answer = wire.receive()
    assert answer["id"] == call, answer
    return answer["result"]


# -- the era of the handshake ----------------------------------------------------------------------


def test_a_yes_runs_the_call_and_is_recorded(path: Path, memory: StructuredMemory) -> None:
    """S2: the approver, and the client as actor, are in the journal."""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        assert names(memory) == ["Ada", "Alan", "Grace"], "nothing before the answer"
        wire.answer(question, YES)
        assert content(outcome(wire, call))["rowsChanged"] == 1
    assert names(memory) == ["Alan", "Grace"]
    assert (memory.history(1)[0].actor, memory.history(1)[0].approved_by) == (
        "liner",
        "user of liner",
    )


def test_the_question_shows_what_would_be_done(path: Path) -> None:
    """S2: the condition, the reason, the rows; a form of one required boolean."""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        _, question = ask(wire, {**DELETE, "reason": "She asked for it."})
        params = question["params"]
        for part in ("name = ?", "She asked for it.", "Ada", "Tool: db_delete"):
            assert part in params["message"]
        assert params["requestedSchema"]["required"] == ["approve"]
        assert params["requestedSchema"]["properties"]["approve"]["type"] == "boolean"
        assert "mode" not in params
        assert len(wire.leave()) == 1


NO: dict[str, Json] = {
    "decline": {"action": "decline"},
    "decline with a yes": {"action": "decline", "content": {"approve": True}},
    "cancel with a yes": {"action": "cancel", "content": {"approve": True}},
    "cancel": {"action": "cancel"},
    "approve is false": {"action": "accept", "content": {"approve": False}},
    "approve is a text": {"action": "accept", "content": {"approve": "true"}},
    "approve is 1": {"action": "accept", "content": {"approve": 1}},
    "an empty form": {"action": "accept", "content": {}},
    "no form": {"action": "accept"},
    "null": {"action": "accept", "content": None},
}


@pytest.mark.parametrize("case", NO)
def test_anything_but_a_yes_is_a_no(path: Path, memory: StructuredMemory, case: str) -> None:
    """S2, in both eras"""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        wire.answer(question, NO[case])
        assert error_code(outcome(wire, call)) == "declined"
        asked = call_with(wire)
        assert error_code(again(wire, asked, answer=NO[case])) == "declined"
        assert error_code(again(wire, asked)) == "approval_void", "the token is gone"
    assert names(memory) == ["Ada", "Alan", "Grace"]


@pytest.mark.parametrize(
    "answer",
    [
        '{"action": "accept", "content": {"approve": false, "approve": true}}',
        '{"action": "decline", "action": "accept", "content": {"approve": true}}',
    ],
)
def test_an_answer_that_says_two_things_is_no_yes(
    path: Path, memory: StructuredMemory, answer: str
) -> None:
    """S2, in both eras"""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        line = f'{{"jsonrpc": "2.0", "id": "{question["id"]}", "result": {answer}}}'
        wire.send_line(line.encode())
        assert error_code(outcome(wire, call)) == "nobody_to_ask"

        params = {"name": "db_delete", "arguments": DELETE, "_meta": envelope(FORM)}
        again = params | {"requestState": call_with(wire)["requestState"]}
        again |= {"inputResponses": {"approve": "ANSWER"}}
        request = {"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": again}
        wire.send_line(json.dumps(request).replace('"ANSWER"', answer).encode())
        assert wire.receive()["error"]["code"] == -32602
    assert names(memory) == ["Ada", "Alan", "Grace"]


@pytest.mark.parametrize(
    "capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": None}, {"sampling": {}}]
)
def test_a_client_that_cannot_ask_is_refused(
    path: Path, memory: StructuredMemory, capabilities: Json
) -> None:
    """S2, in both eras"""
    with served(path, "--ask", "delete") as wire:
        wire.greet(capabilities)
        assert error_code(wire.call("db_delete", DELETE)) == "nobody_to_ask"
        meta = envelope(capabilities)
        assert error_code(wire.call("db_delete", DELETE, _meta=meta)) == "nobody_to_ask"
        assert "refused" in description(wire, "db_delete")
    assert names(memory) == ["Ada", "Alan", "Grace"]


@pytest.mark.parametrize("ways", [{}, {"form": {}}, {"form": {"x": 1}, "url": {}}])
def test_an_empty_declaration_means_forms(path: Path, ways: Json) -> None:
    """S2: as in the revisions in which there was nothing else."""
    with served(path, "--ask", "delete") as wire:
        wire.greet({"elicitation": ways})
        call, question = ask(wire)
        wire.answer(question, YES)
        assert not outcome(wire, call)["isError"]


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32601, "message": "Method not found"}},
        {"result": {}},
        {"result": "yes"},
        {"result": {"action": "approve"}},
        {"result": None},
    ],
)
def test_a_client_that_fails_to_ask_has_not_asked(
    path: Path, memory: StructuredMemory, answer: Json
) -> None:
    """S2: a client may declare what it then cannot do."""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        wire.say({"id": question["id"], **answer})
        assert error_code(outcome(wire, call)) == "nobody_to_ask"
    assert names(memory) == ["Ada", "Alan", "Grace"]


def test_silence_ends(path: Path, memory: StructuredMemory) -> None:
    """S2: the question is called off, and an answer that comes later does nothing."""
    with served(path, "--ask", "delete", "--ask-timeout", "0.05") as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        assert wire.receive() == {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": question["id"]},
        }
        assert error_code(outcome(wire, call)) == "approval_timed_out"
        wire.answer(question, YES)
        assert wire.ask("ping")["result"] == {}
    assert names(memory) == ["Ada", "Alan", "Grace"]


def test_one_answer_is_for_one_question(path: Path, memory: StructuredMemory) -> None:
    """S2: questions are told apart, answered in any order, and each once."""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        first, about_ada = ask(wire)
        second, about_alan = ask(wire, {**DELETE, "params": ["Alan"]})
        assert about_ada["id"] != about_alan["id"]
        wire.answer(about_alan, YES)
        assert content(outcome(wire, second))["rowsChanged"] == 1
        wire.answer(about_alan, YES)
        wire.answer(about_ada, {"action": "decline"})
        assert error_code(outcome(wire, first)) == "declined"
    assert names(memory) == ["Ada", "Grace"]


def test_questions_that_are_open_have_a_bound(path: Path) -> None:
    """S2: the next one is refused, and an answer makes room."""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        questions = [ask(wire)[1] for _ in range(OPEN_MAX)]
        assert error_code(wire.call("db_delete", DELETE)) == "nobody_to_ask"
        wire.answer(questions[0], {"action": "decline"})
        assert error_code(wire.receive()["result"]) == "declined"
        ask(wire)
        assert len(wire.leave()) == OPEN_MAX


def test_a_call_that_waits_blocks_nothing(path: Path) -> None:
    """S2"""
    with served(path, "--ask", "delete", "--allow", "insert") as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        inserted = wire.call("db_insert", {"table": "people", "rows": [{"name": "Kurt"}]})
        assert content(inserted)["rowsChanged"] == 1
        wire.answer(question, YES)
        assert content(outcome(wire, call))["rowsChanged"] == 1


def test_rows_that_changed_since_void_the_answer(path: Path, memory: StructuredMemory) -> None:
    """S2, in both eras: what is deleted is what was shown."""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        memory.insert("people", {"name": "Ada"})
        wire.answer(question, YES)
        assert error_code(outcome(wire, call)) == "approval_void"
        asked = call_with(wire)
        memory.insert("people", {"name": "Ada"})
        assert error_code(again(wire, asked)) == "approval_void"
    assert names(memory) == ["Ada", "Ada", "Ada", "Alan", "Grace"]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("db_delete", {"table": "people"}, "invalid_call"),
        ("db_delete", {"table": "poeple", "where": "true"}, "no_such_table"),
        ("db_delete", {"table": "people", "where": "nam = 1"}, "no_such_column"),
        ("db_update", {"table": "people", "set": {"age": 1}, "where": "true"}, "no_such_column"),
    ],
)
def test_nobody_is_asked_about_a_call_that_cannot_succeed(
    path: Path, tool: str, arguments: Json, code: str
) -> None:
    """S2, in both eras"""
    with served(path, "--ask", "delete,update") as wire:
        wire.greet(FORM)
        assert error_code(wire.call(tool, arguments)) == code
        assert error_code(wire.call(tool, arguments, _meta=envelope(FORM))) == code


# -- the era of the envelope -----------------------------------------------------------------------


def call_with(wire: Wire, arguments: Json = DELETE) -> Json:
    """What a call of the envelope era is answered with that has to be approved."""
    result = wire.call("db_delete", arguments, _meta=envelope(FORM))
    assert result["resultType"] == "input_required", result
    assert result["inputRequests"]["approve"]["method"] == "elicitation/create"
    return result


def again(wire: Wire, asked: Json, arguments: Json = DELETE, *, answer: Any = YES) -> Json:
    """The call, sent again with the answer."""
    return wire.call(
        "db_delete",
        arguments,
        _meta=envelope(FORM),
        requestState=asked["requestState"],
        inputResponses={"approve": answer},
    )


def test_a_call_sent_again_with_a_yes_runs_once(path: Path, memory: StructuredMemory) -> None:
    """S2: a state that is used again approves nothing."""
    everyone = {"table": "people", "where": "true"}
    with served(path, "--ask", "delete") as wire:
        asked = call_with(wire, everyone)
        assert "Ada" in asked["inputRequests"]["approve"]["params"]["message"]
        assert content(again(wire, asked, everyone))["rowsChanged"] == 3
        memory.undo()
        assert error_code(again(wire, asked, everyone)) == "approval_void"
    assert names(memory) == ["Ada", "Alan", "Grace"]
    deleted = next(found for found in memory.log(operation="delete"))
    assert (deleted.actor, deleted.approved_by) == ("liner", "user of liner")


def test_keys_in_another_order_are_the_same_call(path: Path, memory: StructuredMemory) -> None:
    """S2: a client may write the arguments anew."""
    with served(path, "--ask", "delete") as wire:
        asked = call_with(wire)
        turned = dict(reversed(DELETE.items()))
        assert content(again(wire, asked, turned))["rowsChanged"] == 1
    assert names(memory) == ["Alan", "Grace"]


@pytest.mark.parametrize(
    "edited",
    [
        {**DELETE, "where": "true", "params": []},
        {**DELETE, "params": ["Alan"]},
        {**DELETE, "reason": "another"},
    ],
)
def test_edited_arguments_are_another_call(
    path: Path, memory: StructuredMemory, edited: Json
) -> None:
    """S2: and the state is gone, so that nobody can try it on other arguments."""
    with served(path, "--ask", "delete") as wire:
        asked = call_with(wire)
        assert error_code(again(wire, asked, edited)) == "approval_void"
        assert error_code(again(wire, asked)) == "approval_void"
    assert names(memory) == ["Ada", "Alan", "Grace"]


def test_another_tool_is_another_call(path: Path, memory: StructuredMemory) -> None:
    """S2: a yes to one memory is none to the other."""
    with served(f"a_={path}", f"b_={path}", "--ask", "delete") as wire:
        asked = wire.call("a_delete", DELETE, _meta=envelope(FORM))
        more: Json = {"requestState": asked["requestState"], "inputResponses": {"approve": YES}}
        result = wire.call("b_delete", DELETE, _meta=envelope(FORM), **more)
        assert error_code(result) == "approval_void"
    assert names(memory) == ["Ada", "Alan", "Grace"]


@pytest.mark.parametrize(
    "more",
    [
        {"inputResponses": {"approve": YES}},
        {"inputResponses": {"approve": YES}, "requestState": "invented"},
        {"inputResponses": {}},
    ],
)
def test_an_answer_without_its_question_approves_nothing(
    path: Path, memory: StructuredMemory, more: Json
) -> None:
    """S2, whichever era the client speaks"""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        assert error_code(wire.call("db_delete", DELETE, **more)) == "approval_void"
        meta = envelope(FORM)
        assert error_code(wire.call("db_delete", DELETE, _meta=meta, **more)) == "approval_void"
    assert names(memory) == ["Ada", "Alan", "Grace"]


def test_a_state_without_an_answer_is_used_up(path: Path, memory: StructuredMemory) -> None:
    """S2"""
    with served(path, "--ask", "delete") as wire:
        asked = call_with(wire)
        state = asked["requestState"]
        result = wire.call("db_delete", DELETE, _meta=envelope(FORM), requestState=state)
        assert error_code(result) == "approval_void"
        assert error_code(again(wire, asked)) == "approval_void"
    assert names(memory) == ["Ada", "Alan", "Grace"]


def test_a_late_yes_is_too_late(path: Path, memory: StructuredMemory) -> None:
    """S2"""
    with served(path, "--ask", "delete", "--ask-timeout", "1e-9") as wire:
        assert error_code(again(wire, call_with(wire))) == "approval_timed_out"
    assert names(memory) == ["Ada", "Alan", "Grace"]


# -- who decides -----------------------------------------------------------------------------------


def description(wire: Wire, tool: str, meta: Json | None = None) -> str:
    params: Json = {} if meta is None else {"_meta": meta}
    listed = wire.ask("tools/list", params)["result"]["tools"]
    return next(each["description"] for each in listed if each["name"] == tool)


def test_the_host_may_decide(path: Path, memory: StructuredMemory) -> None:
    """S2: the operator said so; the journal says who."""
    with served(path, "--ask", "delete", "--ask-via", "host") as wire:
        wire.greet()
        assert "host" in description(wire, "db_delete")
        assert content(wire.call("db_delete", DELETE))["rowsChanged"] == 1
    assert memory.history(1)[0].approved_by == "host liner"


def test_nobody_may_decide(path: Path, memory: StructuredMemory) -> None:
    """S2: offered, so that the model can say what it would do, and refused."""
    with served(path, "--ask", "delete", "--ask-via", "deny") as wire:
        wire.greet(FORM)
        assert "refused" in description(wire, "db_delete")
        assert error_code(wire.call("db_delete", DELETE)) == "nobody_to_ask"
    assert names(memory) == ["Ada", "Alan", "Grace"]


def test_the_operator_may_say_who_acts_and_who_approves(
    path: Path, memory: StructuredMemory
) -> None:
    """S2, J6"""
    names_given = ("--actor", "crm-agent", "--approver", "ops@example.com")
    with served(path, "--ask", "delete", *names_given) as wire:
        wire.greet(FORM)
        call, question = ask(wire)
        wire.answer(question, YES)
        assert not outcome(wire, call)["isError"]
    latest = memory.history(1)[0]
    assert (latest.actor, latest.approved_by) == ("crm-agent", "ops@example.com")


def test_what_is_allowed_has_no_approver(path: Path, memory: StructuredMemory) -> None:
    """S2"""
    with served(path, "--allow", "delete") as wire:
        wire.greet()
        assert content(wire.call("db_delete", DELETE))["rowsChanged"] == 1
    latest = memory.history(1)[0]
    assert (latest.actor, latest.approved_by) == ("liner", None)


def test_a_client_is_told_that_its_user_is_asked(path: Path) -> None:
    """S2: by the request's own envelope, in that era."""
    with served(path, "--ask", "delete") as wire:
        wire.greet(FORM)
        assert "user is asked" in description(wire, "db_delete")
        assert "user is asked" in description(wire, "db_delete", envelope(FORM))
        assert "refused" in description(wire, "db_delete", envelope())
