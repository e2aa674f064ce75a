"""The commands that write: their arguments, what is kept, and when no memory may be made."""

import base64
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from structmem import Busy, Full, InvalidCall, NotAMemory, StructuredMemory
from structmem.cli.app import app
from structmem.cli.output import exit_code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "crm.db"
    done("create-table", made, "people", "email", "TEXT", "data", "", "--unique", "email")
    return made


def run(*arguments: object, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def done(*arguments: object, stdin: str | bytes = "") -> dict[str, Any]:
    """What a command that must succeed prints as JSON."""
    result = run(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments: object, stdin: str | bytes = "") -> dict[str, Any]:
    """The error of a command that must fail as a wrong call."""
    result = run(*arguments, "--json", stdin=stdin)
    assert (result.exit_code, result.stdout) == (1, "")
    return json.loads(result.stderr)


def rows(path: Path, columns: str = "email, data") -> list[tuple[Any, ...]]:
    with StructuredMemory(path, read_only=True) as memory:
        memory.verify(deep=True)
        return memory.query(f"SELECT {columns} FROM people ORDER BY rowid").rows


# -- every write ---------------------------------------------------------------------------------

OPERATIONS = [
    "describe", "size", "query", "create_table", "add_column", "create_index", "drop_table",
    "drop_index", "insert", "update", "delete", "preview", "execute", "history", "undo", "redo",
    "revert_to", "log", "verify",
]  # fmt: skip
READS = {"describe", "size", "query", "preview", "history", "log", "verify"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_have_the_names_of_the_methods(name: str) -> None:
    """M2, S4: with `-` for `_`; `--json` everywhere, and what the journal is told on writes."""
    assert hasattr(StructuredMemory, name)
    command = app.get_command(click.Context(app), name.replace("_", "-"))
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    told = {"--reason", "--actor", "--call-id"}
    assert "--json" in options
    assert ("--reason" not in options) if name in READS else (told <= options)


def test_a_write_tells_the_journal_who_and_why(path: Path) -> None:
    """J1, M8"""
    insert = ["insert", path, "people", "email=a", "--call-id", "c1", "--actor", "me"]
    first = done(*insert, "--reason", "Because.")
    assert (first["op"], first["repeated"], first["rowids"]) == ("op_2", False, [1])
    assert done(*insert) == {**first, "repeated": True}
    operation = done("history", path, "--limit", "1")
    told = ("op_2", "me", "Because.", "c1")
    assert tuple(operation[key] for key in ("op", "actor", "reason", "callId")) == told
    other = ["insert", path, "people", "email=b", "--call-id", "c1"]
    assert refused(*other)["code"] == "call_id_reused"


@pytest.mark.parametrize(
    "arguments",
    [
        ["insert", "MISSING", "people", "email=a"],
        ["update", "MISSING", "people", "--set", "email=a", "--where", "true"],
        ["delete", "MISSING", "people", "--where", "true"],
        ["preview", "MISSING", "delete", "people", "--where", "true"],
        ["execute", "MISSING", "DELETE FROM people"],
        ["add-column", "MISSING", "people", "x", "TEXT"],
        ["create-index", "MISSING", "people", "email"],
        ["drop-table", "MISSING", "people"],
        ["drop-index", "MISSING", "people_email"],
        ["undo", "MISSING"],
        ["redo", "MISSING"],
        ["revert-to", "MISSING", "op_1"],
        ["history", "MISSING"],
        ["describe", "MISSING"],
        ["size", "MISSING"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_mistyped_path_leaves_nothing_behind(tmp_path: Path, arguments: list[str]) -> None:
    """M1, M9: only create-table, and execute when told to, make a memory."""
    missing = tmp_path / "missing.db"
    result = run(*(str(missing) if word == "MISSING" else word for word in arguments))
    assert result.exit_code == 4
    assert "There is no file" in result.stderr
    assert not list(tmp_path.iterdir())


def test_execute_makes_a_memory_when_told_to(tmp_path: Path) -> None:
    """W7"""
    path = tmp_path / "new.db"
    assert done("execute", path, "CREATE TABLE people (email, data)", "--create")["op"] == "op_1"
    assert done("execute", path, "INSERT INTO people VALUES (?, ?)", "a", "b")["rowsChanged"] == 1
    assert rows(path) == [("a", "b")]


def test_nothing_changed_is_said(path: Path) -> None:
    """M8"""
    result = done("delete", path, "people", "--where", "false")
    assert (result["op"], result["position"], result["rowsChanged"]) == (None, None, 0)
    assert run("delete", path, "people", "--where", "false").stdout == "nothing changed\n"


def test_warnings_go_to_people_on_stderr_and_into_the_json(path: Path) -> None:
    """M5"""
    done("execute", path, "CREATE TABLE n (i INTEGER)")
    (warning,) = done("insert", path, "n", "i=007")["warnings"]
    result = run("insert", path, "n", "i=007")
    assert warning in result.stderr.replace("\n", " ")
    assert "warning" not in result.stdout


# -- rows and values -----------------------------------------------------------------------------


def test_insert_takes_fields_json_and_standard_input(path: Path) -> None:
    """W3: all of them are one operation."""
    arguments = ["insert", path, "people", '{"email": "b"}', '[{"email": "c"}, {"email": "d"}]']
    lines = '{"email": "e"}\n\n{"email": "f",\n "data": 1}\n'
    assert done(*arguments, "-", "email=a", "data:=2.5", stdin=lines)["rowsChanged"] == 6
    assert rows(path) == [
        ("b", None), ("c", None), ("d", None), ("e", None), ("f", 1), ("a", 2.5),
    ]  # fmt: skip
    assert done("insert", path, "people", "-", stdin='\ufeff[{"email": "g"}]')["rowids"] == [7]
    assert done("insert", path, "people", "-", stdin="")["op"] is None


VALUES = [2**63 - 1, -(2**63), b"", b"\0\xff", float("inf"), float("-inf"), -0.0, 1.0, None, "\0é"]


def test_values_come_in_as_they_go_out(path: Path) -> None:
    """M5, S1: what `query --json` writes, `insert` reads."""
    with StructuredMemory(path) as memory:
        memory.insert("people", [{"data": value} for value in VALUES])
    told = done("query", path, "SELECT data FROM people ORDER BY rowid")["rows"]
    lines = "\n".join(json.dumps({"data": value}) for (value,) in told)
    done("insert", path, "people", "-", stdin=lines)
    stored = [repr(value) for (value,) in rows(path, "data")]
    assert stored == [repr(value) for value in VALUES * 2]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"data": NaN}', "NaN is not JSON"),
        ('{"data": Infinity}', "Infinity is not JSON"),
        ('{"data": 1e999}', "beyond every double"),
        ('{"data": 9223372036854775808}', "64 bits"),
        ('{"data": {"$int": "1.5"}}', "is not a value"),
        ('{"data": {"$int": 1}}', "is not a value"),
        ('{"data": {"$real": "nan"}}', "is not a value"),
        ('{"data": {"$blob": "AP8=", "x": 1}}', "is not a value"),
        ('{"data": {"$blob": "A"}}', "not base64"),
        ('{"data": [1]}', "list"),
        ('{"data": "\\ud800"}', "surrogate"),
        ('{"data": 1, "data": 2}', "twice"),
        ('{"data": 1', "not JSON"),
        ("[1]", "made of objects"),
        ("[" * 100_000, "nested more than 32 levels deep"),
        ("[" * 990 + "]" * 990, "nested more than 32 levels deep"),
        ("[" * 32 + "]" * 32, "made of objects"),
        ("email", "names no column"),
        ("data:=", "not JSON"),
        ("data:=1 2", "2 JSON values"),
    ],
)
def test_what_cannot_be_read_is_refused(path: Path, row: str, said: str) -> None:
    """M5, M9: nothing is changed silently, and nothing is stored."""
    error = refused("insert", path, "people", "email=a", row)
    assert error["code"] == "invalid_call"
    assert said in error["message"]
    assert rows(path) == []


def test_standard_input_must_be_utf8(path: Path) -> None:
    """M9"""
    error = refused("insert", path, "people", "-", stdin=b'{"email": "\xff"}')
    assert "not UTF-8" in error["message"]


def test_many_rowids_are_told_by_the_first_the_last_and_their_count(path: Path) -> None:
    """S1"""
    listed = done("insert", path, "people", "-", stdin='{"email": null}' * 100)["rowids"]
    assert listed == list(range(1, 101))
    told = done("insert", path, "people", "-", stdin='{"email": null}' * 101)["rowids"]
    assert told == {"first": 101, "last": 201, "count": 101}
    assert "rowids 202 … 212" in run("insert", path, "people", json.dumps([{}] * 11)).stdout


def test_update_takes_fields_and_parameters(path: Path) -> None:
    """W4: text stays text; JSON where it is asked for."""
    done("insert", path, "people", '[{"email": "a", "data": 1}, {"email": "b", "data": 2}]')
    update = ["update", path, "people"]
    done(*update, "--set", "data=1", "--where", "email = ?", "a")
    assert rows(path) == [("a", "1"), ("b", 2)]
    done(*update, "--set", "data:=null", "--where", "data = ?", "--params", "[2]")
    done(*update, "--set", '{"data": {"$blob": "AA=="}, "email": "c"}', "--where", "email = :e",
         "--params", '{"e": "a"}')  # fmt: skip
    assert rows(path) == [("c", b"\0"), ("b", None)]
    twice = ["--set", "data=1", "--set", '{"data": 2}', "--where", "true"]
    assert "twice" in refused(*update, *twice)["message"]
    both = ["--set", "data=1", "--where", "email = ?", "a", "--params", "[1]"]
    assert "twice" in refused(*update, *both)["message"]
    assert run(*update, "--set", "data=1").exit_code == 2


def test_query_takes_typed_parameters(path: Path) -> None:
    """Q1"""
    sql = "SELECT typeof(?), typeof(?)"
    assert done("query", path, sql, "1", "2")["rows"] == [["text", "text"]]
    blob = base64.b64encode(b"x").decode()
    given = json.dumps([1, {"$blob": blob}])
    assert done("query", path, sql, "--params", given)["rows"] == [["integer", "blob"]]
    assert "array or an object" in refused("query", path, sql, "--params", "1")["message"]


def test_a_token_binds_a_write_to_the_previewed_rows(path: Path) -> None:
    """S2"""
    done("insert", path, "people", json.dumps([{"email": str(n), "data": n} for n in range(7)]))
    preview = done("preview", path, "delete", "people", "--where", "data > ?", "--params", "[0]")
    assert (preview["rowsMatched"], len(preview["sample"])) == (6, 5)
    assert (preview["columns"], preview["sample"][0]) == (["email", "data"], ["1", 1])
    shown = run("preview", path, "delete", "people", "--where", "data > 0").stdout
    assert "… and 1 row more" in shown and "6 rows in all" in shown
    delete = ["delete", path, "people", "--where", "data > ?", "--params", "[0]"]
    done("update", path, "people", "--set", "email=x", "--where", "data = 6")
    assert "preview" in refused(*delete, "--expect", preview["token"])["message"]
    again = done("preview", *delete[1:2], "delete", *delete[2:])
    assert done(*delete, "--expect", again["token"])["rowsChanged"] == 6


# -- tables --------------------------------------------------------------------------------------


def test_columns_are_typed_as_sqlite_utils_has_it(path: Path) -> None:
    """W1, W2"""
    done(
        "create-table", path, "tasks", "id", "INTEGER", "who", "TEXT",
        "done", "integer", "note", "",
        "--pk", "id", "--not-null", "done", "--default", "done", "0", "--default", "note", "0",
        "--fk", "who", "people", "email", "--description", "To do.",
        "--column", '{"name": "raw", "unique": true, "default": {"$blob": "AA=="}}',
    )  # fmt: skip
    done("add-column", path, "tasks", "due", "TEXT", "--default", "1", "--description", "Day.")
    done("add-column", path, "tasks", "--column", '{"name": "cost", "type": "REAL", "default": 1}')
    done("add-column", path, "tasks", "boss", "--fk", "people", "email")
    text = done("describe", path)["schema"]
    for part in (
        'CREATE TABLE "tasks" ( -- To do.', '"id" INTEGER PRIMARY KEY',
        '"done" integer NOT NULL DEFAULT 0', "\"note\" DEFAULT '0'", '"raw" UNIQUE DEFAULT',
        '"due" -- Day.', "TEXT DEFAULT '1'",
        '"cost" REAL DEFAULT 1', '"who" TEXT REFERENCES "people"', '"boss" REFERENCES "people"',
    ):  # fmt: skip
        assert part in text, text
    assert run("describe", path).stdout == text


def test_create_table_says_when_there_was_nothing_to_do(path: Path) -> None:
    """W1"""
    same = ["create-table", path, "people", "email", "TEXT", "data", "", "--unique", "email"]
    assert refused(*same)["code"] == "table_exists"
    assert done(*same, "--if-not-exists")["op"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["create-table", "PATH", "t", "a"],
        ["create-table", "PATH", "t", "a", "TEXT", "--pk", "b"],
        ["create-table", "PATH", "t", "a", "TEXT", "--default", "b", "1"],
        ["add-column", "PATH", "people"],
        ["add-column", "PATH", "people", "a", "--column", '{"name": "a"}'],
        ["add-column", "PATH", "people", "--not-null", "--column", '{"name": "a"}'],
        ["insert", "PATH", "people"],
        ["preview", "PATH", "insert", "people", "--where", "true"],
    ],
)
def test_usage_is_an_exit_code_of_its_own(path: Path, arguments: list[str]) -> None:
    """S4"""
    result = run(*(path if word == "PATH" else word for word in arguments))
    assert result.exit_code == 2
    assert len(run("log", path, "--json").stdout.splitlines()) == 1


def test_a_column_must_be_an_object(path: Path) -> None:
    """M9"""
    assert "JSON object" in refused("add-column", path, "people", "--column", "[]")["message"]


def test_indexes_and_tables_go_and_come_back(path: Path) -> None:
    """W2, W6, H2"""
    done("create-index", path, "people", "data", "email", "--name", "by_data", "--unique")
    assert 'CREATE UNIQUE INDEX "by_data"' in done("describe", path)["schema"]
    done("drop-index", path, "by_data")
    done("drop-table", path, "people")
    assert done("describe", path)["schema"] == ""
    assert done("undo", path)["operations"] == ["op_4"]
    assert "done again" in run("redo", path).stdout
    done("undo", path, "op_4")
    assert done("revert-to", path, "op_1")["operations"] == ["op_3", "op_2"]
    assert done("revert-to", path, "op_1")["op"] is None
    assert refused("undo", path, "op_3")["code"] == "cannot_undo"
    assert rows(path) == []


def test_what_may_pass_has_an_exit_code_of_its_own() -> None:
    """M9: 3 is for calling again."""
    errors = (InvalidCall("x"), Busy("x"), Full("x"), NotAMemory("x"))
    assert [exit_code(error) for error in errors] == [1, 3, 3, 4]


# -- for people ----------------------------------------------------------------------------------


def test_nothing_found_is_said_on_stderr(path: Path) -> None:
    """S4"""
    for arguments in (["log", path, "--actor", "nobody"], ["history", path, "--before", "op_1"]):
        for more in ([], ["--json"]):
            result = run(*arguments, *more)
            assert result.exit_code == 0
            assert result.stderr.startswith("No operation")
    assert run("log", path).stderr == ""


def test_size_tells_what_takes_the_room(path: Path) -> None:
    """M10"""
    told = done("size", path)
    parts = ["journal", "hidden", "free", "overhead"]
    assert sum(told["tables"].values()) + sum(told[part] for part in parts) == told["file"]
    shown = run("size", path).stdout.split()
    assert shown[2:5] == ["table", "people", f"{told['tables']['people']:,}"]


def test_a_terminal_gets_nothing_to_obey(path: Path) -> None:
    """M9: what a model wrote is shown, not carried out."""
    run("insert", path, "people", "email=\x1b[2J", "--reason", "two\nlines \x1b[2J")
    for command in (["log", path], ["query", path, "SELECT email FROM people"]):
        assert "\x1b" not in run(*command).stdout
