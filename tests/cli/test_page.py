"""The sessions of `docs/command-line.md`, run as they stand: commands in a shell, a process each,
and what they print."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs/command-line.md"
_SESSION: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_POSITION: Final = re.compile(r'"\d+:[0-9a-f]{64}"')
"""A record holds its time, so its digest is another one in every run."""


def steps() -> Iterator[tuple[str, str]]:
    """Each command of the page, and what it shall print."""
    for session in _SESSION.findall(PAGE.read_text("utf-8")):
        for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            yield command, printed


def run(command: str, directory: Path) -> str:
    program = f'structmem() {{ "{sys.executable}" -m structmem "$@"; }}\n'
    done = subprocess.run(
        ["sh", "-c", program + command],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def test_the_sessions_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    """S1, S4, M2"""
    found = list(steps())
    assert len(found) > 10
    for command, printed in found:
        assert _POSITION.sub("", run(command, tmp_path)) == _POSITION.sub("", printed), command
