"""A disk that we can see into and let fail.

While it is mounted it watches the process's VFS (`fuzz.vfs`), so that a memory uses it without
knowing. Every call goes through to the real file, which therefore always holds what a process would
see, and is noted as an event. What the events leave after a power loss is told by `fuzz.survival`.

What is modelled, and what is not:

- A sync of a file makes every write and truncation of that file before it durable, and nothing
  else. (It is not passed on to the real file: it would only take time.)
- The names in the directory become durable when the directory is synced. SQLite does that within
  the first sync of a log or journal that it opened to create it, and within a deletion when asked.
- A sync that failed leaves its writes in doubt for ever, as Linux does: a later one that succeeds
  says nothing of them.
- A write that fails may have put its first half in place.
- `-shm` is memory shared between processes, and no call of it passes through here. Nothing in it
  outlives a power loss.
- What a program does to files by itself is not seen, except that a file appeared.
"""

import ctypes
import errno
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

import apsw
from msgspec import Struct

from fuzz.vfs import watched

_SECTOR_BYTES: Final = 512
_SYNCED_WITH_ITS_NAME: Final = (
    apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL
)


class Kind(StrEnum):
    """The calls that are counted, and can fail."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    SYNC = "sync"
    TRUNCATE = "truncate"
    DELETE = "delete"
    SIZE = "size"


_CODES: Final = {
    Kind.OPEN: apsw.SQLITE_CANTOPEN,
    Kind.READ: apsw.SQLITE_IOERR_READ,
    Kind.WRITE: apsw.SQLITE_IOERR_WRITE,
    Kind.SYNC: apsw.SQLITE_IOERR_FSYNC,
    Kind.TRUNCATE: apsw.SQLITE_IOERR_TRUNCATE,
    Kind.DELETE: apsw.SQLITE_IOERR_DELETE,
    Kind.SIZE: apsw.SQLITE_IOERR_FSTAT,
}


class Found(Struct, frozen=True):
    """A file that was there, durable, when the disk was mounted."""

    name: str
    file: int
    content: bytes


class Named(Struct, frozen=True):
    """A file got its name; it is empty."""

    name: str
    file: int


class Unnamed(Struct, frozen=True):
    """A name was deleted."""

    name: str


class NamesSynced(Struct, frozen=True):
    """The directory was synced."""


class Wrote(Struct, frozen=True):
    file: int
    offset: int
    data: bytes


class Truncated(Struct, frozen=True):
    file: int
    size: int


class Synced(Struct, frozen=True):
    file: int


class SyncFailed(Struct, frozen=True):
    file: int


Event = Found | Named | Unnamed | NamesSynced | Wrote | Truncated | Synced | SyncFailed


class Fault(Struct):
    """Lets the call number `at` (from 0) among those of `kinds` fail; when `lasting`, every such
    call after it as well. With `full` the disk is full, else it is broken."""

    at: int
    kinds: frozenset[Kind] = frozenset(Kind)
    full: bool = False
    lasting: bool = False
    seen: int = 0
    struck: Kind | None = None
    """What kind of call was the first to fail."""

    def strikes(self, kind: Kind) -> bool:
        if kind not in self.kinds:
            return False
        number, self.seen = self.seen, self.seen + 1
        hit = number >= self.at if self.lasting else number == self.at
        if hit and self.struck is None:
            self.struck = kind
        return hit

    def code(self, kind: Kind) -> int:
        """What SQLite makes of it, and the system's own number for it."""
        ctypes.set_errno(errno.ENOSPC if self.full else errno.EIO)
        return apsw.SQLITE_FULL if self.full and kind is Kind.WRITE else _CODES[kind]


class Disk:
    """What happens to the files of `directory` while it is mounted. A disk that is not `honest`
    says that it has synced, and has not."""

    def __init__(self, directory: Path, seed: str, *, honest: bool = True) -> None:
        self.directory = str(directory)
        self.honest = honest
        self.random = Random(seed)
        self.events: list[Event] = []
        self.calls = Counter[Kind]()
        self._files = 0
        self._names: dict[str, int] = {}
        self._uses: list[int] = []
        """The file of each use of one: a connection has a use of its own."""
        self._syncing_names: set[int] = set()
        """The uses that sync the directory with their next sync."""
        self._fault: Fault | None = None
        for path in sorted(directory.iterdir()):
            if not path.name.endswith("-shm"):
                self._note(Found(path.name, self._new_file(path.name), path.read_bytes()))

    @contextmanager
    def mounted(self) -> Generator[None]:
        """All connections that are opened inside must be closed inside."""
        with watched(self):
            yield

    @contextmanager
    def failing(self, fault: Fault) -> Generator[None]:
        self._fault = fault
        try:
            yield
        finally:
            self._fault = None

    def _reach(self, kind: Kind) -> int:
        """Before each call is carried out: the code with which it fails, or SQLITE_OK."""
        self.calls[kind] += 1
        if self._fault is not None and self._fault.strikes(kind):
            return self._fault.code(kind)
        return apsw.SQLITE_OK

    def _note(self, event: Event) -> None:
        self.events.append(event)

    def _new_file(self, name: str) -> int:
        self._files += 1
        self._names[name] = self._files
        return self._files

    # -- what happens (see `fuzz.vfs.Watcher`) ---------------------------------------------------

    def opening(self, path: str | None) -> int:
        return apsw.SQLITE_OK if self._name_of(path) is None else self._reach(Kind.OPEN)

    def opened(self, path: str | None, flags: int) -> int | None:
        """A number for this use of the file; a file that just appeared is noted."""
        name = self._name_of(path)
        if name is None:
            return None
        if name not in self._names:
            self._note(Named(name, self._new_file(name)))
        self._uses.append(self._names[name])
        use = len(self._uses) - 1
        if flags & apsw.SQLITE_OPEN_CREATE and flags & _SYNCED_WITH_ITS_NAME:
            self._syncing_names.add(use)
        return use

    def _name_of(self, path: str | None) -> str | None:
        """The name of a file in the directory; None for any other, such as one without a name."""
        directory, _, name = (path or "").rpartition("/")
        return name if directory == self.directory else None

    def deleting(self, path: str) -> int:
        return apsw.SQLITE_OK if self._name_of(path) is None else self._reach(Kind.DELETE)

    def deleted(self, path: str, synced: bool) -> None:
        name = self._name_of(path)
        if name is not None and self._names.pop(name, None) is not None:
            self._note(Unnamed(name))
        if synced and self.honest:
            self._note(NamesSynced())

    def reading(self) -> int:
        return self._reach(Kind.READ)

    def writing(self, file: int, offset: int, data: bytes) -> tuple[int, int]:
        code = self._reach(Kind.WRITE)
        done = len(data) // 2 // _SECTOR_BYTES * _SECTOR_BYTES if code else len(data)
        if done:
            self._note(Wrote(self._uses[file], offset, data[:done]))
        return code, done

    def truncating(self, file: int, size: int) -> int:
        code = self._reach(Kind.TRUNCATE)
        if not code:
            self._note(Truncated(self._uses[file], size))
        return code

    def syncing(self, file: int) -> int:
        code = self._reach(Kind.SYNC)
        if code:
            self._note(SyncFailed(self._uses[file]))
        elif self.honest:
            self._note(Synced(self._uses[file]))
            if file in self._syncing_names:
                self._note(NamesSynced())
                self._syncing_names.remove(file)
        return code

    def measuring(self) -> int:
        return self._reach(Kind.SIZE)

    def randomness(self, size: int) -> bytes:
        return self.random.randbytes(size)
