"""Going on for ever: when to try again, and waking a loop from another thread."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final, Never

from structmem import Unavailable
from structmem_replicator.progress import Progress
from structmem_replicator.protocol import Event

BACKOFF_FIRST_S: Final = 0.05
BACKOFF_MOST_S: Final = 5.0
_GROWTH: Final = 2.0
_JITTER: Final = 0.5


class Backoff:
    """Delays that double from `BACKOFF_FIRST_S` up to `BACKOFF_MOST_S`.

    Each is shortened by chance by up to a half, so that the many publishers of a server that comes
    back do not all arrive at once.
    """

    def __init__(self) -> None:
        self._next_s = BACKOFF_FIRST_S

    def next_delay_s(self) -> float:
        delay_s = self._next_s
        self._next_s = min(delay_s * _GROWTH, BACKOFF_MOST_S)
        return delay_s * (1 - _JITTER * random.random())

    def reset(self) -> None:
        self._next_s = BACKOFF_FIRST_S


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set `event` of `loop` from any thread. A loop that has ended has nobody left to wake."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(event.set)


async def wait_at_most(event: asyncio.Event, wait_s: float) -> bool:
    """Wait for `event`, at most `wait_s` seconds; whether it came."""
    try:
        async with asyncio.timeout(wait_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def keep_stepping(
    step: Callable[[], Awaitable[None]], progress: Progress, backoff: Backoff
) -> Never:
    """Take one step after the other until cancelled. What is `Unavailable` is waited out; any other
    error is raised."""
    while True:
        try:
            await step()
        except Unavailable as error:
            progress.move(Event.IN_DOUBT, error)
            await asyncio.sleep(backoff.next_delay_s())
