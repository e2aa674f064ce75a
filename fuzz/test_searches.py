"""Each target, searched shortly; and how a search behaves.

The profile of Hypothesis says how long: two rounds from one seed in `ci`, one round from a new seed
in `dev`, a hundred in `nightly`.
"""

import secrets
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from fuzz.__main__ import main
from fuzz.running import Target, Verdicts, search
from fuzz.targets import TARGETS

_EXAMPLES_A_ROUND: Final = 50
_SEARCHED_ELSEWHERE: Final = {"storage"}
"""Of these a round takes a minute; `test_storage` has a shorter one."""


@pytest.mark.parametrize("name", sorted(TARGETS.keys() - _SEARCHED_ELSEWHERE))
def test_a_short_search_finds_nothing(name: str) -> None:
    profile = settings()
    seed = 0 if profile.derandomize else secrets.randbelow(1 << 31)
    rounds = max(1, profile.max_examples // _EXAMPLES_A_ROUND)
    outcome = search(TARGETS[name], seconds=0, seed=seed, rounds=rounds)
    assert outcome.failed_seed is None
    assert len(outcome.verdicts) > 5, "the generator no longer reaches what it is for"


def fails_at_three(seed: int, directory: Path, verdicts: Verdicts) -> None:
    (directory / "empty").mkdir()  # each round has a directory of its own
    verdicts["done"] += 1
    assert seed != 3


_FAILING: Final = Target("failing", "fails at seed 3", f"{__name__}:fails_at_three")


def test_a_failure_ends_with_the_line_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "failing", _FAILING)
    assert main(["failing", "--seed", "1", "--seconds", "60"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "failing from seed 1"
    assert lines[-1] == "python -m fuzz failing --rounds 1 --seed 3"
    assert main(lines[-1].split()[3:]) == 1
    assert main(["failing", "--seed", "4", "--rounds", "2"]) == 0
    assert "2 rounds" in capsys.readouterr().out
