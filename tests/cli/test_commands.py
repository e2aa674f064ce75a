"""The command line: what it prints, for people and for programs, and its exit codes (S4)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from structmem import Column, StructuredMemory
from structmem.cli.app import app


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with StructuredMemory(tmp_path / "crm.db", actor="crm-agent") as memory:
        memory.create_table("people", [Column("name", "TEXT"), Column("data")])
        rows = [{"name": "Ada", "data": b"\0\xff"}, {"name": "Grace", "data": 2**60}]
        memory.insert("people", rows, reason="Met at a conference.")
        memory.update("people", {"data": float("inf")}, "name = 'Ada'")
        memory.undo()
    return tmp_path / "crm.db"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_query_prints_a_table(path: Path) -> None:
    """S4"""
    result = run("query", path, "SELECT name, data FROM people ORDER BY name")
    assert result.exit_code == 0
    assert result.stdout.split() == ["name", "data", "Ada", "x'00ff'", "Grace", str(2**60)]


def test_query_prints_json_without_loss(path: Path) -> None:
    """S1, S4"""
    sql = "SELECT data AS d FROM people UNION ALL SELECT -9e999 UNION ALL SELECT NULL"
    result = run("query", path, sql, "--json")
    assert json.loads(result.stdout) == {
        "columns": ["d"],
        "rows": [[{"$blob": "AP8="}], [{"$int": str(2**60)}], [{"$real": "-inf"}], [None]],
        "truncated": False,
    }


def test_query_takes_parameters_and_cuts(path: Path) -> None:
    """S4, Q3"""
    result = run("query", path, "SELECT name FROM people WHERE name LIKE ?", "%a%", "--json")
    assert json.loads(result.stdout)["rows"] == [["Ada"], ["Grace"]]
    result = run("query", path, "SELECT name FROM people", "--max-rows", "1", "--json")
    assert json.loads(result.stdout)["truncated"] is True


def test_log_shows_every_operation(path: Path) -> None:
    """S4, H1"""
    result = run("log", path)
    assert result.exit_code == 0
    for word in ("op_1", "create_table", "insert", "Met at a conference.", "undo", "crm-agent"):
        assert word in result.stdout
    lines = run("log", path, "--operation", "insert", "--json").stdout.splitlines()
    (line,) = [json.loads(line) for line in lines]
    assert (line["op"], line["rowsChanged"], line["reason"]) == ("op_2", 2, "Met at a conference.")
    assert run("log", path, "--since", "2100-01-01", "--json").stdout == ""
    assert len(run("log", path, "--after", "op_2", "--json").stdout.splitlines()) == 2


def test_verify_reports(path: Path) -> None:
    """S4, J3"""
    assert "verified 4 records" in run("verify", path).stdout
    report = json.loads(run("verify", path, "--deep", "--json").stdout)
    assert (report["records"], report["tables"], report["rows"]) == (4, 1, 2)
    assert run("verify", path, "--expect", report["position"]).exit_code == 0
    wrong = report["position"][:-1] + ("0" if report["position"][-1] != "0" else "1")
    assert run("verify", path, "--expect", wrong).exit_code == 4
    assert run("verify", path, "--expect", "nonsense").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["query", "PATH", "DELETE FROM people"], 1, "write_in_query"),
        (["query", "PATH", "SELECT * FROM peple"], 1, "Did you mean 'people'"),
        (["log", "PATH", "--after", "4"], 1, "no operation id"),
        (["verify", "MISSING"], 4, "There is no file"),
        (["verify", "PATH", "--deeper"], 2, "No such option"),
        (["no-such-command"], 2, "No such command"),
    ],
)
def test_exit_codes_mean_something(path: Path, arguments: list[str], code: int, said: str) -> None:
    """S4, M9: 1 mend the call, 2 usage, 4 a person must look."""
    places = {"PATH": str(path), "MISSING": str(path.with_name("missing.db"))}
    result = run(*(places.get(argument, argument) for argument in arguments))
    assert result.exit_code == code
    assert said in result.stderr.replace("\n", " ")


def test_commands_of_the_replicator_are_there() -> None:
    """S4: looked up by name."""
    result = run("--help")
    for command in ("demo", "follow", "log", "publish", "query", "verify"):
        assert f"\n  {command}" in result.stdout


def test_without_the_extra_it_says_what_to_install() -> None:
    """S4"""
    script = (
        "import sys; sys.modules['click'] = None; sys.argv = ['structmem', 'log', 'x']\n"
        "from structmem.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'structmem[cli]'" in done.stderr
