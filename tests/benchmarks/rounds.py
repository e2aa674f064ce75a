"""Timing two ways of doing the same work, by turns, so that noise hits both."""

import time
from collections.abc import Callable
from statistics import median, quantiles

from msgspec import Struct

Work = Callable[[], object]
Prepare = Callable[[int], Work]
"""Given the number of the round, makes ready, untimed, and returns the work to time."""


class Case(Struct, frozen=True):
    """The same work for bare SQLite and for structmem, to be done `rounds` times each."""

    name: str
    rounds: int
    bare: Prepare
    structmem: Prepare


class Figure(Struct, frozen=True):
    """Medians in seconds. `ratio` is that of the medians; half of the rounds' own ratios lie
    between `low` and `high`."""

    name: str
    bare: float
    structmem: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        return self.structmem / self.bare


def measure(case: Case) -> Figure:
    """Both sides by turns. The first round, in which caches fill, is not counted."""
    times = [_round(case, number) for number in range(case.rounds + 1)][1:]
    low, _median, high = quantiles((ours / bare for bare, ours in times), n=4, method="inclusive")
    return Figure(
        case.name,
        bare=median(bare for bare, _ours in times),
        structmem=median(ours for _bare, ours in times),
        low=low,
        high=high,
    )


def _round(case: Case, number: int) -> tuple[float, float]:
    return _seconds(case.bare(number)), _seconds(case.structmem(number))


def _seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
