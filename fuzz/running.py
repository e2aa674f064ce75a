"""How a search runs: rounds, each decided by its seed alone, until the time is up.

Invariants:

- A round is given a seed and an empty directory and uses nothing else, so that the same seed does
  the same again, in any process. Round n of a search from seed S has the seed S + n.
- The seed is the first thing printed, and after a failure the line that repeats the failing round
  is the last.
- Verdicts are counted, so that a generator that no longer reaches what it is for shows.
"""

import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct

T = TypeVar("T")
Verdicts = Counter[str]
Round = Callable[[int, Path, Verdicts], None]
"""Given its seed and an empty directory, it counts its verdicts, and raises what it finds wrong."""

_HEALTH: Final = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
_phases: Final = [Phase.generate, Phase.target, Phase.shrink]


class Target(Struct, frozen=True):
    """Something to search. `where` is the function that does a round, as `module:name`; the module
    is loaded when it is needed."""

    name: str
    about: str
    where: str

    def round(self) -> Round:
        module, _, name = self.where.partition(":")
        return getattr(import_module(module), name)


class Outcome(Struct):
    """What a search has come to so far."""

    rounds: int = 0
    verdicts: Verdicts = Counter()
    failed_seed: int | None = None
    seconds: float = 0.0

    def table(self) -> str:
        total = sum(self.verdicts.values()) or 1
        rows = [
            f"  {name:<40} {count:>10,}  {count / total:7.2%}"
            for name, count in sorted(self.verdicts.items())
        ]
        return "\n".join(rows)


def search(target: Target, *, seconds: float, seed: int, rounds: int | None = None) -> Outcome:
    """Do rounds until the seconds are over, at least one; or just so many `rounds`. A round that
    has begun is finished. Prints what it finds."""
    print(f"{target.name} from seed {seed}", flush=True)
    outcome = Outcome(verdicts=Counter())
    run = target.round()
    began = time.monotonic()
    while outcome.failed_seed is None:
        if not _holds(run, seed + outcome.rounds, outcome.verdicts):
            outcome.failed_seed = seed + outcome.rounds
        outcome.rounds += 1
        outcome.seconds = time.monotonic() - began
        if outcome.rounds == rounds or (rounds is None and outcome.seconds >= seconds):
            break
    _print_end(target, outcome)
    return outcome


def _holds(run: Round, seed: int, verdicts: Verdicts) -> bool:
    with tempfile.TemporaryDirectory(prefix="structmem-fuzz-", ignore_cleanup_errors=True) as made:
        try:
            run(seed, Path(made), verdicts)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            return False
    return True


def _print_end(target: Target, outcome: Outcome) -> None:
    print(outcome.table())
    counted = f"{outcome.rounds:,} rounds in {outcome.seconds:,.0f} s"
    if outcome.failed_seed is None:
        print(f"{target.name}: nothing found in {counted}", flush=True)
        return
    print(f"{target.name}: FAILED after {counted}; this repeats it:")
    print(f"python -m fuzz {target.name} --rounds 1 --seed {outcome.failed_seed}", flush=True)


def examples(
    seed: int, count: int, drawn: st.SearchStrategy[T], check: Callable[[T], None]
) -> None:
    """Let Hypothesis call `check` with about `count` examples of what is `drawn`, the same ones for
    the same seed. What fails is made smaller and raised."""

    def check_one(example: T) -> None:
        check(example)

    searching(count)(hypothesis.seed(seed)(given(drawn)(check_one)))()


def searching(count: int, **more: Any) -> settings:
    """Settings for a round of Hypothesis within a search: no clock, nothing kept."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=_HEALTH,
        phases=tuple(_phases),
        **more,
    )


def keep_as_found() -> None:
    """From now on a failure is raised as it was found, not made smaller first."""
    if Phase.shrink in _phases:
        _phases.remove(Phase.shrink)
