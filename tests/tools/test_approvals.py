"""S2: an approval is for one call, one time, and for what was shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from structmem import (
    ApprovalTimedOut,
    ApprovalVoid,
    Column,
    InvalidCall,
    Reference,
    StructuredMemory,
)
from structmem.tools import ApprovalRequest, Approvals, MemoryTool, ToolResult

from .conftest import Tools, Unharmed, error_of, tools_of

ADA = {"table": "people", "where": "name = ?", "params": ["Ada"], "reason": "She asked."}
BOTH = 'Rows: 2\n- "name": "Ada", "age": 36\n- "name": "Bob", "age": 41'


def request_of(tool: MemoryTool, arguments: Any) -> ApprovalRequest:
    request = tool.request(arguments)
    assert isinstance(request, ApprovalRequest), request
    return request


@pytest.mark.parametrize("approved_by", [None, ""])
def test_without_an_approver_nothing_happens(
    tools: Tools, unharmed: Unharmed, approved_by: str | None
) -> None:
    error = error_of(tools["delete"].call(ADA, approved_by=approved_by))
    assert error["code"] == "not_granted" and "db_delete needs a person's" in error["message"]
    unharmed()


def test_what_was_shown_is_what_happens(tools: Tools, people: StructuredMemory) -> None:
    request = request_of(tools["delete"], ADA)
    assert (request.rows_matched, request.sample) == (1, [["Ada", 36]])
    result = tools["delete"].call(ADA, approved_by="grace", shown=request)
    assert result.data["rowsChanged"] == 1
    assert (people.history()[0].approved_by, people.history()[0].reason) == ("grace", "She asked.")


def test_the_text_tells_the_statement_the_reason_and_the_rows(tools: Tools) -> None:
    arguments = {"table": "people", "set": {"age": 50}, "where": "age > 30", "reason": "Birthdays."}
    assert request_of(tools["update"], arguments).text.splitlines() == [
        'Update "people": set "age" to 50 where "age > 30".',
        'Reason: "Birthdays."',
        "Rows: 2",
        '- "name": "Ada", "age": 36',
        '- "name": "Bob", "age": 41',
    ]


def test_more_rows_than_are_shown_are_counted(tools: Tools, people: StructuredMemory) -> None:
    people.insert("people", [{"name": f"n{i}"} for i in range(10)])
    text = request_of(tools["delete"], {"table": "people", "where": "true"}).text
    assert "Rows: 12" in text and text.endswith("- and 7 more")


@pytest.mark.parametrize(
    "odd", ["a\nRows: 0", "\u202egnp.exe", 'x".\nApproved', "\x1b[2J", "\u200b", "\u2028", "\ud83d"]
)
def test_what_a_model_wrote_cannot_pose_as_ours(tools: Tools, odd: str) -> None:
    """Lines, control characters and what changes the direction of reading are escaped."""
    where = f"name IN ('Ada', ?) /* {odd} */"
    arguments = ADA | {"params": [odd], "reason": odd, "where": where}
    request = tools["delete"].request(arguments)
    if isinstance(request, ToolResult):  # a lone surrogate is refused before anyone is asked
        assert request.is_error and odd == "\ud83d"
        return
    assert len(request.text.splitlines()) == 4
    assert all(each.isprintable() or each == "\n" for each in request.text)


@pytest.mark.parametrize(
    "odd",
    [
        "\u3164",
        "\u2800",
        "x\ufe0f",
        "\U000e0100",
        "\u034f",
        "\u0338",
        "a\u20dd",
        "e" + "\u0301" * 9,
    ],
)
def test_what_is_drawn_blank_or_over_its_neighbours_is_escaped(tools: Tools, odd: str) -> None:
    where = f"name = 'Ada' /*{odd}*/"
    text = request_of(tools["delete"], {"table": "people", "where": where, "reason": odd}).text
    assert odd not in text and text.count("\\u") >= 2


def test_letters_of_every_script_are_shown_as_they_are(tools: Tools) -> None:
    reason = "Zoe\u0301 \u0915\u094d\u0937\u093f \u05d0\u05b8\u05d1 \u65e5\u672c \U0001f389"
    assert f'"{reason}"' in request_of(tools["delete"], ADA | {"reason": reason}).text


def test_many_spaces_do_not_begin_a_line(tools: Tools) -> None:
    """Where a long line is broken, what follows them could pose as a line of ours."""
    why = "She asked." + " " * 80 + "Rows: 0"
    text = request_of(tools["delete"], ADA | {"reason": why}).text
    (reason,) = [line for line in text.splitlines() if line.startswith("Reason: ")]
    assert " " * 4 not in text and json.loads(reason.removeprefix("Reason: ")) == why


def test_a_cut_text_says_how_much_is_missing(tools: Tools) -> None:
    long = {"where": "name IN ('Ada', ?)", "params": ["x" * 9_000]}
    request = request_of(tools["delete"], ADA | long)
    assert "more characters]" in request.text and len(request.text) < 5_000
    assert "x" * 9_000 in request.statement, "a program has all of it"


def test_the_data_is_json_for_a_program(tools: Tools) -> None:
    assert request_of(tools["delete"], ADA).data == {
        "tool": "db_delete",
        "operation": "delete",
        "statement": 'Delete rows from "people" where "name = ?" with ["Ada"]',
        "reason": "She asked.",
        "rowsMatched": 1,
        "columns": ["name", "age"],
        "sample": [["Ada", 36]],
        "notes": [],
    }


# -- what was shown is not so any more -----------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "arguments", "meanwhile"),
    [
        ("delete", {"table": "people", "where": "age > 30"}, "DELETE FROM people WHERE age = 36"),
        ("delete", {"table": "people", "where": "age > 30"}, "UPDATE people SET age = 37"),
        (
            "update",
            {"table": "people", "set": {"age": 1}, "where": "true"},
            "INSERT INTO people VALUES ('Eve', 3)",
        ),
        ("undo", {}, "INSERT INTO people VALUES ('Eve', 3)"),
        ("drop_table", {"table": "people"}, "INSERT INTO people VALUES ('Eve', 3)"),
        ("revert_to", {"opId": "op_1"}, "INSERT INTO people VALUES ('Eve', 3)"),
    ],
)
def test_rows_that_changed_since_void_the_approval(
    tools: Tools, people: StructuredMemory, operation: str, arguments: Any, meanwhile: str
) -> None:
    request = request_of(tools[operation], arguments)
    people.execute(meanwhile)
    before = people.position()
    error = error_of(tools[operation].call(arguments, approved_by="ada", shown=request))
    assert error["code"] == "approval_void" and "asked anew" in error["hint"]
    assert people.position() == before

    again = request_of(tools[operation], arguments)
    assert not tools[operation].call(arguments, approved_by="ada", shown=again).is_error


def test_an_operation_that_was_named_is_undone_or_none(
    tools: Tools, people: StructuredMemory
) -> None:
    named = {"opId": "op_2"}
    request = request_of(tools["undo"], named)
    people.insert("people", {"name": "Eve"})
    error = error_of(tools["undo"].call(named, approved_by="ada", shown=request))
    assert error["code"] == "approval_void" and "op_3 is" in error["message"]
    assert people.history()[0].op_id == "op_3"


def test_a_redo_is_bound_to_the_latest_record(tools: Tools, people: StructuredMemory) -> None:
    people.undo()
    request = request_of(tools["redo"], {})
    assert "op_3 (undo" in request.text
    assert not tools["redo"].call({}, approved_by="ada", shown=request).is_error
    error = error_of(tools["redo"].call({}, approved_by="ada", shown=request))
    assert error["code"] == "approval_void"


def test_other_rows_elsewhere_void_nothing(tools: Tools, people: StructuredMemory) -> None:
    request = request_of(tools["delete"], ADA)
    people.create_table("other", [Column("a")])
    people.insert("people", {"name": "Eve"})
    assert not tools["delete"].call(ADA, approved_by="ada", shown=request).is_error


@pytest.mark.parametrize(
    "edited",
    [ADA | {"where": "true", "params": []}, ADA | {"params": ["Bob"]}, ADA | {"reason": ""}],
)
def test_edited_arguments_are_another_call(tools: Tools, unharmed: Unharmed, edited: Any) -> None:
    request = request_of(tools["delete"], ADA)
    error = error_of(tools["delete"].call(edited, approved_by="ada", shown=request))
    assert error["code"] == "approval_void" and "other arguments" in error["message"]
    unharmed()


@pytest.mark.parametrize(
    ("other", "arguments"),
    [
        ("insert", {"table": "people", "rows": "[{}]"}),
        ("delete", {"table": "people", "where": "1"}),
    ],
)
def test_a_request_of_another_tool_is_no_approval(
    tools: Tools, unharmed: Unharmed, other: str, arguments: Any
) -> None:
    request = request_of(tools["drop_table"], {"table": "people"})
    error = error_of(tools[other].call(arguments, approved_by="ada", shown=request))
    assert error["code"] == "approval_void"
    unharmed()


def test_a_row_that_is_written_over_is_told(memory: StructuredMemory) -> None:
    """Whatever its key: an insert that replaces is none to the person who says yes to it."""
    memory.execute(
        "CREATE TABLE seats (id INTEGER PRIMARY KEY ON CONFLICT REPLACE,"
        " name UNIQUE ON CONFLICT REPLACE); INSERT INTO seats VALUES (1, 'a'), (2, 'b')"
    )
    tools = tools_of(memory, insert="ask", update="ask")
    for rows, told in (
        ([{"id": 1, "name": "c"}], 'It also updates 1 row of "seats".'),
        ([{"id": 3, "name": "a"}], 'It also deletes 1 row of "seats".'),
        ([{"id": 3, "name": "c"}], '- "id": 3, "name": "c"'),
    ):
        text = request_of(tools["insert"], {"table": "SEATS", "rows": rows}).text
        assert text.splitlines()[-1] == told
    for fields, told in (
        ({"name": "b"}, 'It also deletes 1 row of "seats".'),
        ({"id": 9}, '- "id": 1, "name": "a"'),
    ):
        change = {"table": "seats", "set": fields, "where": "id = 1"}
        assert request_of(tools["update"], change).text.splitlines()[-1] == told


def test_rows_that_a_foreign_key_or_a_trigger_changes_are_told_and_bound(
    tools: Tools, people: StructuredMemory
) -> None:
    people.create_table("jobs", [Column("who", references=Reference("people", "name", "CASCADE"))])
    people.insert("jobs", [{"who": "Ada"}, {"who": "Ada"}, {"who": "Bob"}])
    people.execute(
        "CREATE TABLE audit(x);"
        "CREATE TRIGGER gone AFTER DELETE ON people BEGIN INSERT INTO audit VALUES (old.name);"
        "UPDATE people SET age = 0; END"
    )
    told = ['It also inserts 1 row of "audit".', 'It also deletes 2 rows of "jobs".']
    own = 'It also updates 1 row of "people".'
    request = request_of(tools["delete"], ADA)
    assert request.text.splitlines()[-3:] == [*told, own]

    people.insert("jobs", {"who": "Ada"})
    error = error_of(tools["delete"].call(ADA, approved_by="grace", shown=request))
    assert error["code"] == "approval_void"
    again = request_of(tools["delete"], ADA)
    assert 'It also deletes 3 rows of "jobs".' in again.text
    assert not tools["delete"].call(ADA, approved_by="grace", shown=again).is_error
    assert 'It inserts 3 rows of "jobs".' in request_of(tools["undo"], {}).text


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("delete", ADA),
        ("update", {"table": "people", "set": {"age": 1}, "where": "true"}),
        ("drop_table", {"table": "people"}),
        ("insert", {"table": "people", "rows": [{"name": "Eve"}]}),
        ("undo", {}),
        ("revert_to", {"opId": "op_1"}),
    ],
)
def test_an_approved_call_that_comes_again_gets_its_first_result(
    tools: Tools, operation: str, arguments: Any
) -> None:
    """M8: what was shown is not so any more, because this very call changed it."""
    tool = tools[operation]
    request = request_of(tool, arguments)
    done = [tool.call(arguments, call_id="c", approved_by="grace", shown=request) for _ in range(2)]
    assert [each.data.get("repeated", False) for each in done] == [False, True]
    assert done[0].data["op"] == done[1].data["op"]


@pytest.mark.parametrize(
    "column",
    [
        {"name": "a", "notNull": True, "not_null": False},
        {
            "name": "a",
            "references": {
                "table": "people",
                "column": "name",
                "onDelete": "CASCADE",
                "on_delete": "SET NULL",
            },
        },
    ],
)
def test_a_key_in_both_spellings_is_refused(tools: Tools, unharmed: Unharmed, column: Any) -> None:
    """Whoever approves would see both, and not know which holds."""
    for operation, arguments in (
        ("create_table", {"table": "t", "columns": [column]}),
        ("add_column", {"table": "people", "column": column}),
    ):
        error = error_of(tools[operation].call(arguments, approved_by="grace"))
        assert error["code"] == "invalid_call" and "is given twice" in error["message"]
    unharmed()


def test_null_is_told_from_what_a_row_leaves_out(tools: Tools) -> None:
    rows = [{"name": "Eve", "age": None}, {"name": "Mal"}]
    told = "leaves out is shown as null, and takes its default."
    assert told not in request_of(tools["insert"], {"table": "people", "rows": rows[:1]}).text
    assert told in request_of(tools["insert"], {"table": "people", "rows": rows}).text


def test_an_approval_is_for_one_memory(
    tools: Tools, people: StructuredMemory, tmp_path: Path
) -> None:
    """Another one may have tools of the same names, and equal rows."""
    with StructuredMemory(tmp_path / "other.db") as other:
        other.create_table(
            "people", [Column("name", "TEXT", not_null=True, unique=True), Column("age", "INTEGER")]
        )
        other.insert("people", [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 41}])
        for operation, arguments in (("delete", ADA), ("undo", {})):
            request = request_of(tools[operation], arguments)
            theirs = tools_of(other, **{operation: "ask"})[operation]
            error = error_of(theirs.call(arguments, approved_by="grace", shown=request))
            assert error["code"] == "approval_void" and "another memory" in error["message"]
        assert other.position().seq == 2


@pytest.mark.parametrize(
    ("operation", "arguments", "code"),
    [
        ("delete", {"table": "peple", "where": "true"}, "no_such_table"),
        ("delete", {"table": "people", "where": "nme = 1"}, "no_such_column"),
        ("delete", {"table": "people", "where": "1) OR (1"}, "condition_refused"),
        ("delete", {"table": "people"}, "invalid_call"),
        ("update", {"table": "people", "set": {"agee": 1}, "where": "true"}, "no_such_column"),
        ("insert", {"table": "people", "rows": [{"agee": 1}]}, "no_such_column"),
        ("drop_table", {"table": "nope"}, "no_such_table"),
        ("add_column", {"table": "nope", "column": {"name": "a"}}, "no_such_table"),
        ("create_index", {"table": "people", "columns": ["b`c"]}, "no_such_column"),
        ("undo", {"opId": "op_1"}, "cannot_undo"),
        ("undo", {"opId": "a\ud800"}, "invalid_call"),
        ("revert_to", {"opId": "op_99"}, "cannot_undo"),
        ("redo", {}, "nothing_to_undo"),
        ("drop_index", {"index": "nope"}, "no_such_table"),
        ("create_table", {"table": "people", "columns": [{"name": "a"}]}, "table_exists"),
        ("create_table", {"table": "t", "columns": []}, "invalid_call"),
        ("add_column", {"table": "people", "column": {"name": "age"}}, "invalid_call"),
        ("insert", {"table": "people", "rows": [{"name": "Ada"}]}, "constraint_failed"),
        ("insert", {"table": "people", "rows": [{"name": {"b": 1}}]}, "invalid_call"),
        ("update", {"table": "people", "set": {}, "where": "true"}, "invalid_call"),
        ("query", {"sql": "DELETE FROM people"}, "write_in_query"),
        ("history", {"before": "x"}, "invalid_call"),
    ],
)
def test_nobody_is_asked_about_what_must_fail(
    tools: Tools, unharmed: Unharmed, operation: str, arguments: Any, code: str
) -> None:
    result = tools[operation].request(arguments)
    assert isinstance(result, ToolResult)
    assert error_of(result)["code"] == code
    assert error_of(result)["message"] in json.loads(result.text)["error"]["message"]
    unharmed()


def test_nobody_is_asked_to_undo_nothing(memory: StructuredMemory) -> None:
    result = tools_of(memory, undo="ask")["undo"].request({})
    assert isinstance(result, ToolResult) and error_of(result)["code"] == "nothing_to_undo"


def test_every_operation_can_be_shown(tools: Tools, unharmed: Unharmed) -> None:
    """Whatever an application asks about: in words, and changing nothing."""
    for operation in ("describe", "history", "log", "undo"):
        assert request_of(tools[operation], {}).text.endswith(".")
    back = request_of(tools["revert_to"], {"opId": "op_1"}).text
    assert back.startswith('Undo every operation after "op_1".\nThat is 1 operation: op_2 (insert')
    column = {"name": "city", "type": "TEXT"}
    shown = {
        "query": ({"sql": "SELECT 1"}, 'Run the query "SELECT 1".'),
        "create_table": (
            {"table": "t", "columns": [column], "description": "Things."},
            'Create the table "t" with {"name": "city", "type": "TEXT"}, described as "Things.".',
        ),
        "add_column": (
            {"table": "people", "column": column},
            'Add the column {"name": "city", "type": "TEXT"} to "people".',
        ),
        "create_index": (
            {"table": "people", "columns": "age", "unique": True, "name": "by_age"},
            'Create a unique index called "by_age" on "people" ["age"].',
        ),
        "insert": (
            {"table": "people", "rows": [{"name": "Eve"}]},
            'Insert 1 row into "people".\nRows: 1\n- "name": "Eve"',
        ),
        "drop_table": (
            {"table": "people"},
            f'Drop the table "people" with all its rows.\n{BOTH}',
        ),
    }
    for operation, (arguments, text) in shown.items():
        assert request_of(tools[operation], arguments).text == text
    unharmed()


def test_what_execute_would_run_is_shown_whole_with_what_it_changes(
    people: StructuredMemory,
) -> None:
    with pytest.warns(UserWarning, match="execute is granted"):
        execute = tools_of(people, execute="ask")["execute"]
    script = {"sql": "DELETE FROM people;\nDROP TABLE people"}
    request = request_of(execute, script)
    assert request.text.splitlines() == [
        'Execute the SQL "DELETE FROM people;\\nDROP TABLE people".',
        'It deletes 2 rows of "people".',
    ]
    people.insert("people", {"name": "Eve"})
    error = error_of(execute.call(script, approved_by="ada", shown=request))
    assert error["code"] == "approval_void"


def test_a_warning_is_shown_before_it_comes_true(tools: Tools) -> None:
    update = {"table": "people", "set": {"age": "age + 1"}, "where": "true"}
    assert "'age + 1' is no number, and stays text" in request_of(tools["update"], update).text


def test_nobody_is_asked_about_nothing(tools: Tools, unharmed: Unharmed) -> None:
    """No row matches: the model is told, and it is no error."""
    for operation, more in (("delete", {}), ("update", {"set": {"age": 1}})):
        nothing = {"table": "people", "where": "false", **more}
        result = tools[operation].request(nothing)
        assert isinstance(result, ToolResult) and not result.is_error
        assert result.data == {
            "op": None,
            "rowsChanged": 0,
            "rowids": [],
            "warnings": ["No row matches, so there is nothing to do, and nobody was asked."],
        }
    unharmed()


# -- tokens --------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass when a test says so."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_good_for_one_use(tools: Tools) -> None:
    approvals = Approvals()
    request = request_of(tools["delete"], ADA)
    token = approvals.ask(request)
    assert approvals.redeem(token, "db_delete", dict(reversed(ADA.items()))) == request
    with pytest.raises(ApprovalVoid, match="not known, or was used"):
        approvals.redeem(token, "db_delete", ADA)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("db_update", ADA), ("db_delete", ADA | {"params": ["Bob"]}), ("db_delete", {})],
)
def test_a_token_ends_with_a_wrong_use(tools: Tools, tool: str, arguments: Any) -> None:
    approvals = Approvals()
    token = approvals.ask(request_of(tools["delete"], ADA))
    with pytest.raises(ApprovalVoid, match="other arguments"):
        approvals.redeem(token, tool, arguments)
    with pytest.raises(ApprovalVoid, match="not known, or was used"):
        approvals.redeem(token, "db_delete", ADA)


def test_a_token_expires(tools: Tools) -> None:
    clock = Clock()
    approvals = Approvals(30, clock=clock)
    in_time, late = (approvals.ask(request_of(tools["delete"], ADA)) for _ in range(2))
    clock.now += 30
    approvals.redeem(in_time, "db_delete", ADA)
    clock.now += 0.1
    with pytest.raises(ApprovalTimedOut, match="did not answer within 30 seconds"):
        approvals.redeem(late, "db_delete", ADA)


def test_a_guessed_token_is_none() -> None:
    for token in ("", "0", "x" * 32):
        with pytest.raises(ApprovalVoid):
            Approvals().redeem(token, "db_delete", ADA)


def test_requests_that_nobody_answers_do_not_pile_up(tools: Tools) -> None:
    approvals = Approvals()
    request = request_of(tools["delete"], ADA)
    first = approvals.ask(request)
    latest = [approvals.ask(request) for _ in range(1_000)][-1]
    with pytest.raises(ApprovalVoid):
        approvals.redeem(first, "db_delete", ADA)
    assert approvals.redeem(latest, "db_delete", ADA) == request


def test_what_is_for_the_model_cannot_be_approved(tools: Tools, unharmed: Unharmed) -> None:
    """An application that takes a result for a request is told so."""
    wrong: Any = tools["delete"].request(ADA | {"where": "nme = 1"})
    with pytest.raises(InvalidCall, match="shown must be an ApprovalRequest, not a ToolResult"):
        tools["delete"].call(ADA, approved_by="ada", shown=wrong)
    with pytest.raises(InvalidCall, match="nothing to approve about a ToolResult"):
        Approvals().ask(wrong)
    unharmed()
