"""The commands of the replicator (S4, S5, R7)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from structmem import InvalidCall, NotAMemory
from structmem_replicator import cli
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


def test_publishing_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.publish_command, [str(tmp_path / "no.db")])
    assert isinstance(result.exception, NotAMemory)
    assert not (tmp_path / "no.db").exists()


@pytest.mark.parametrize("command", cli.commands, ids=lambda command: str(command.name))
def test_every_option_is_explained(command: Any) -> None:
    for option in command.params:
        assert option.param_type_name == "argument" or option.help
