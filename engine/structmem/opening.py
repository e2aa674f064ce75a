"""A memory's file while it is in use: opened at the first call, shared by every face over it.

Invariants:

- No lock is taken in a process other than the one that first took it.
- A session stays open as long as a call uses it, whatever other threads do meanwhile. The last call
  to leave one that is not wanted any more closes it.
- After `close` no session begins.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from structmem import file, removal
from structmem.connection import closed
from structmem.errors import Busy, NotAMemory, ReadOnly
from structmem.options import Options
from structmem.process import Process
from structmem.session import Session
from structmem_journal import Position

_logger: Final = logging.getLogger("structmem")

Listener = Callable[[Position], None]


class Opening:
    """What the faces of one memory have in common. `path` may be `":memory:"`.

    `prepare` is called before the file is opened, with the lock held; `on_open` when it is open,
    without the lock.
    """

    def __init__(self, path: str, options: Options) -> None:
        self.prepare: Callable[[], None] = _nothing
        self.on_open: Callable[[], None] = _nothing
        self._private: file.PrivateDirectory | None = None
        self.path: Final = self._locate(path)
        self._options = options
        self._process = Process()
        self._lock = Lock()
        self._session: Session | None = None
        self._closed = False
        self._listeners_lock = Lock()  # never held for long, so that listening never waits
        self._listeners: tuple[Listener, ...] = ()

    def _locate(self, path: str) -> Path:
        if path == ":memory:":  # SQLite's own in-memory files have no snapshots
            self._private = file.PrivateDirectory()
            return self._private.path / "memory.db"
        return Path(path).absolute()

    # -- the session -----------------------------------------------------------------------------

    @contextmanager
    def session(self) -> Generator[Session]:
        """The open connections, for one call; opened now if need be."""
        session = self._enter()
        try:
            session.check()
            yield session
        except NotAMemory as error:
            if self._was_destroyed(session):
                raise Busy(
                    f"{self.path.name} was destroyed while this call began.", hint="Call again."
                ) from error
            raise
        finally:
            self._leave(session)

    def close(self) -> None:
        """No call begins any more. Those that run finish, and the last of them closes the file."""
        self._check_process()
        with self._lock:
            self._closed = True
            session = self._retire()
            in_use = session is not None and session.users > 0
        if not in_use:
            self._end(session)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def rest(self) -> bool:
        """Close the connections until the next call; False while calls use them."""
        self._check_process()
        with self._lock:
            if self._session is not None and self._session.users > 0:
                return False
            session = self._retire()
        self._end(session)
        return True

    def destroy(self) -> None:
        """Delete the file with its side files; the next call begins with an empty one. Calls that
        run go on with the old one, or get `Busy`."""
        self._check_process()
        if self._options.read_only:
            raise ReadOnly(f"{self.path.name} was opened for reading only.")
        with self._lock:
            self._check_open()
            session = self._session
        if session is not None and file.exists(self.path):
            session.check()
        # While we wait for the write lock, no lock of ours is held: who has it may need one.
        with removal.locked(self.path) as found, self._lock:
            self._check_open()
            if found:
                removal.delete(self.path)
            session = self._retire()
            in_use = session is not None and session.users > 0
        if not in_use:
            self._end(session)

    def _was_destroyed(self, session: Session) -> bool:
        with self._lock:
            return session is not self._session and not self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise closed(self.path)

    def _enter(self) -> Session:
        self._check_process()
        with self._lock:
            self._check_open()
            begins = self._session is None
            session = self._session = self._session or self._begin()
            session.users += 1
        if begins:
            self.on_open()
        return session

    def _begin(self) -> Session:
        if self._private is not None:
            self._private.make(self)
        self.prepare()
        return Session(self.path, self._options)

    def _leave(self, session: Session) -> None:
        with self._lock:
            session.users -= 1
            last = session.users == 0 and session is not self._session
        if last:
            self._end(session)

    def _retire(self) -> Session | None:
        """Let the next call begin another session."""
        session, self._session = self._session, None
        return session

    def _end(self, session: Session | None) -> None:
        if session is not None:
            session.close()
        if self._closed and self._private is not None:
            self._private.remove()

    def _check_process(self) -> None:
        self._process.check(self.path.name)

    # -- listeners -------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` of every commit from now on, until the function returned is called."""
        self._check_process()
        with self._listeners_lock:
            self._listeners = (*self._listeners, listener)
        return lambda: self._forget(listener)

    def notify(self, position: Position) -> None:
        for listener in self._listeners:
            try:
                listener(position)
            except Exception:  # the write is on disk: a listener's fault must not undo that answer
                _logger.exception("a commit listener failed")

    def _forget(self, listener: Listener) -> None:
        self._check_process()
        with self._listeners_lock:
            listeners = list(self._listeners)
            if listener in listeners:
                listeners.remove(listener)
            self._listeners = tuple(listeners)


def _nothing() -> None:
    """For an opening that nobody else wants to hear of."""
