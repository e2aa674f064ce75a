"""Connections that are used by one thread at a time and kept for the next."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, Protocol, TypeVar

from structmem.sql import end_statements

_KEPT: int = 4
"""Idle connections kept open. Opening one takes well under a millisecond; each holds a cache."""


class _Closable(Protocol):
    def close(self) -> object: ...


T = TypeVar("T", bound=_Closable)


class Pool(Generic[T]):
    """Hands each caller a connection of its own, opening one when none is idle."""

    def __init__(self, open_one: Callable[[], T]) -> None:
        self._open_one = open_one
        self._idle: list[T] = []
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def borrow(self) -> Generator[T]:
        with self._lock:
            one = self._idle.pop() if self._idle else None
        one = one or self._open_one()
        try:
            yield one
        except BaseException as error:
            end_statements(error)
            raise
        finally:
            self._give_back(one)

    def _give_back(self, one: T) -> None:
        with self._lock:
            keep = not self._closed and len(self._idle) < _KEPT
            if keep:
                self._idle.append(one)
        if not keep:
            one.close()

    def close(self) -> None:
        """Close what is idle; what is out is closed when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()
