"""When to try again, and waking a loop from another thread."""

import asyncio
import contextlib
import random
from typing import Final

_GROWTH: Final = 2.0
_JITTER: Final = 0.5


class Backoff:
    """Delays that double from `first_s` up to `most_s`.

    Each is shortened by chance by up to a half, so that the many publishers of a server that comes
    back do not all arrive at once.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._next_s = first_s

    def next_delay_s(self) -> float:
        delay_s = self._next_s
        self._next_s = min(delay_s * _GROWTH, self._most_s)
        return delay_s * (1 - _JITTER * random.random())

    def reset(self) -> None:
        self._next_s = self._first_s


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
