"""Many memories in one directory, each in a file of its own.

The file is named after the memory: bytes of its UTF-8 outside `a-z 0-9 _ -` stand as `%XX`. So no
two names meet, also where upper and lower case are the same, and no name leaves the directory. A
file's name may have 255 bytes; what is longer is cut once, and its beginning is a directory.

Invariants:

- While anybody holds the memory of a name, there is no other object for that name.
- A memory that is open is in `_recent`, the longest unused first. One that is closed because there
  are too many is not closed for its holders: its next call opens the file again.
- `_lock` is never held while a memory is opened, closed or asked.
"""

import os
import re
from collections import OrderedDict
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self
from urllib.parse import unquote
from weakref import WeakValueDictionary

from structmem.arguments import check_path, check_whole, utf8_size
from structmem.errors import InvalidCall, shown
from structmem.limits import MAX_OPEN, STORE_NAME_BYTES_MAX
from structmem.memory import StructuredMemory
from structmem.opening import Opening
from structmem.process import Process

_PART_MAX: Final = 240
"""Characters of one part of a path, with room for `.db` and the endings of side files."""

_ENDING: Final = ".db"
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_ENCODED: Final = re.compile(r"(?:[a-z0-9_-]|%[0-9A-F]{2})+")


class MemoryStore:
    """The memories in `directory`, by name: `store["user-42"]` is a `StructuredMemory`.

    A name is any text of 1 to 120 bytes in UTF-8. Its file is made at the first call on it, and so
    is the directory, with mode 0700. At most `max_open` memories, and those that are in use, are
    open; the least recently used others are closed, and open themselves again when they are called.
    `options` are those of `StructuredMemory`. Each open memory takes up to nine file descriptors.

    It may be used from several threads. Closing it, or leaving its `with` block, closes them all.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, max_open: int = MAX_OPEN, **options: Any
    ) -> None:
        self._directory = Path(check_path(directory)).absolute()
        self._max_open = check_whole(max_open, "max_open", least=1)
        StructuredMemory(":memory:", **options)  # what is wrong with them shows now
        self._options = options
        self._process = Process()
        self._lock = Lock()
        self._memories: WeakValueDictionary[str, _Kept] = WeakValueDictionary()
        self._recent: OrderedDict[str, _Kept] = OrderedDict()
        self._closed = False

    def __getitem__(self, name: str) -> StructuredMemory:
        """The memory of that name: always the same object, until it is closed."""
        path = self._path_of(_check_name(name))
        self._process.check("The store")
        with self._lock:
            if self._closed:
                raise InvalidCall(f"The store {self._directory} is closed.", hint="Open it anew.")
            memory = self._memories.get(name)
            if memory is None or memory.opening.is_closed:
                memory = self._memories[name] = self._make(name, path)
            if name in self._recent:
                self._recent.move_to_end(name)
        self._close_excess()
        return memory

    def __contains__(self, name: object) -> bool:
        """Whether there is a file for that name."""
        return self._path_of(_check_name(name)).is_file()

    def names(self) -> list[str]:
        """The names that have a file, sorted. Other files in the directory are left out."""
        files = [*self._directory.glob(f"*{_ENDING}"), *self._directory.glob(f"*/*{_ENDING}")]
        found = ((self._name_of(path), path) for path in files if path.is_file())
        return sorted(name for name, path in found if name and self._path_of(name) == path)

    def destroy(self, name: str) -> None:
        """Delete the memory of that name, if there is one, as `StructuredMemory.destroy` does."""
        self[name].destroy()

    def close(self) -> None:
        """Close every memory. Any other use afterwards is `InvalidCall`."""
        self._process.check("The store")
        with self._lock:
            self._closed = True
            memories = list(self._memories.values())
            self._recent.clear()
        for memory in memories:
            memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # -- open memories ---------------------------------------------------------------------------

    def _make(self, name: str, path: Path) -> "_Kept":
        memory = _Kept(path, **self._options)
        memory.opening.prepare = partial(self._make_directories, path.parent)
        # The opening keeps its memory alive, so that one who holds a view of it holds the name.
        memory.opening.on_open = partial(self._note_open, name, memory)
        return memory

    def _make_directories(self, parent: Path) -> None:
        if self._options.get("read_only"):
            return
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidCall(f"{parent} cannot be made: {error.strerror}.") from error

    def _note_open(self, name: str, memory: "_Kept") -> None:
        with self._lock:
            if self._closed or memory.opening.is_closed:
                return
            self._recent[name] = memory
            self._recent.move_to_end(name)
        self._close_excess()

    def _close_excess(self) -> None:
        with self._lock:
            candidates = list(self._recent) if len(self._recent) > self._max_open else []
        for name in candidates:
            self._rest_if_too_many(name)

    def _rest_if_too_many(self, name: str) -> None:
        with self._lock:
            if len(self._recent) <= self._max_open:
                return
            memory = self._recent.pop(name, None)
        if memory is not None and not memory.opening.rest():
            with self._lock:  # it is in use, and so not to be closed yet
                self._recent.setdefault(name, memory)

    # -- names and files -------------------------------------------------------------------------

    def _path_of(self, name: str) -> Path:
        encoded = "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in name.encode())
        folder, rest = encoded[:_PART_MAX], encoded[_PART_MAX:]
        return (
            self._directory.joinpath(folder, rest + _ENDING)
            if rest
            else (self._directory / (folder + _ENDING))
        )

    def _name_of(self, path: Path) -> str | None:
        encoded = "".join(path.relative_to(self._directory).with_suffix("").parts)
        if not _ENCODED.fullmatch(encoded):
            return None
        try:
            return _check_name(unquote(encoded, errors="strict"))
        except (UnicodeDecodeError, InvalidCall):
            return None


class _Kept(StructuredMemory):
    """One of a store's memories."""

    @property
    def opening(self) -> Opening:
        return self._opening


def _check_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidCall(f"A memory's name must be text, not {shown(name)}.")
    size = utf8_size(name, f"The name {shown(name)}")
    if not 1 <= size <= STORE_NAME_BYTES_MAX:
        raise InvalidCall(
            f"A memory's name has 1 to {STORE_NAME_BYTES_MAX} bytes in UTF-8, and "
            f"{shown(name)} has {size:,}."
        )
    return str.__str__(name)
