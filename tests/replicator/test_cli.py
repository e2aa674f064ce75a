"""The commands of the replicator (S4, S5, R7)."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from structmem import InvalidCall, NotAMemory
from structmem_journal import Position
from structmem_replicator import Handle, State, Status, cli
from structmem_replicator.errors import Unreachable
from tests.replicator.support import journal, make_memory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_memory(tmp_path / "crm.db").close()
    return tmp_path / "crm.db"


def test_s5_the_demo_does_what_it_promises(tmp_path: Path) -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "structmem", "demo", "--directory", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Equal: every record, every row, every schema text." in demo.stdout
    assert journal(tmp_path / "replica.db") == journal(tmp_path / "packages.db")


def test_r7_options_are_those_of_nats(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By option and by environment variable; what is not given is not set."""
    given: dict[str, Any] = {}

    def publish(_memory: object, servers: object, **settings: Any) -> None:
        given.update(settings, servers=servers)
        raise InvalidCall("seen")

    monkeypatch.setattr(cli, "publish", publish)
    seed = path.with_name("seed.nk")
    seed.touch()
    servers = ["--server", "nats://a", "--server", "nats://b"]
    result = CliRunner().invoke(
        cli.publish_command,
        [str(path), *servers, "--nkey", str(seed), "--new-stream"],
        env={"NATS_TOKEN": "t", "NATS_USER": None, "NATS_URL": "nats://ignored"},
    )
    assert isinstance(result.exception, InvalidCall)
    assert given == {
        "servers": ("nats://a", "nats://b"),
        "nkey": seed,
        "token": "t",
        "new_stream": True,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tlsca", "notacert"], "TLS cannot use .*notacert"),
        (["--tlscert", "notacert"], "TLS cannot use .*notacert"),
        (["--tlscert", "notacert", "--tlskey", "notacert"], "notacert with .*notacert"),
        (["--tlskey", "notacert"], "--tlskey is given without --tlscert"),
    ],
)
def test_r7_certificates_that_are_none_are_refused(
    path: Path, options: list[str], message: str
) -> None:
    file = path.with_name("notacert")
    file.write_text("This is not a certificate.")
    given = [str(file) if option == "notacert" else option for option in options]
    result = CliRunner().invoke(cli.publish_command, [str(path), *given])
    assert isinstance(result.exception, InvalidCall)
    assert re.search(message, str(result.exception))


def test_r7_the_help_names_the_environment_variables() -> None:
    said = CliRunner().invoke(cli.follow_command, ["--help"]).output
    variables = [option.envvar for option in cli.follow_command.params if option.envvar]
    assert len(variables) == 9
    assert all(f"env var: {variable}" in " ".join(said.split()) for variable in variables)


def test_publishing_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.publish_command, [str(tmp_path / "no.db")])
    assert isinstance(result.exception, NotAMemory)
    assert not (tmp_path / "no.db").exists()


@pytest.mark.parametrize("command", cli.commands, ids=lambda command: str(command.name))
def test_every_option_is_explained(command: Any) -> None:
    for option in command.params:
        assert option.param_type_name == "argument" or option.help


class Scripted:
    """Stands in for a handle: one status after the other, then the end."""

    def __init__(self, *statuses: Status) -> None:
        self._left = [*statuses, Status(State.CLOSED)]

    def status(self) -> Status:
        return self._left.pop(0)

    def wait_for_change(self, status: Status, timeout: float) -> Status:
        assert timeout >= 1
        return self._left.pop(0)


def told(monkeypatch: pytest.MonkeyPatch, *statuses: Status) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(cli.click, "echo", lines.append)
    tell = cli._tell  # pyright: ignore[reportPrivateUsage]  # what a command prints, without a signal
    tell(cast("Handle", Scripted(*statuses)))
    return lines


def at(state: State, seq: int = 0, error: str = "") -> Status:
    return Status(state, Position(seq, b""), Unreachable(error) if error else None)


def test_r6_an_error_is_told_once_and_not_for_a_step_it_does_not_belong_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = [at(State.CONNECTING, 3, "no label"), at(State.RESOLVING, 3, "no label")] * 3
    lines = told(monkeypatch, at(State.CONNECTING, 3, "refused"), *again, at(State.FOLLOWING, 3))
    assert lines == [
        "connecting: refused (at 3)",
        "connecting: no label (at 3)",
        "following (at 3)",
    ]


def test_r6_an_error_that_comes_back_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    down, up = at(State.CONNECTING, 3, "refused"), at(State.PUBLISHING, 3)
    assert len(told(monkeypatch, down, up, down, up)) == 4


def test_r6_it_is_told_how_far_it_got_but_not_faster_than_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = at(State.PUBLISHING, 9, "passing")
    lines = told(
        monkeypatch,
        *(at(State.PUBLISHING, seq) for seq in (1, 1, 7, 7)),
        late,
        at(State.PUBLISHING, 9),
    )
    assert lines == ["publishing (at 1)", "publishing (at 7)"]
