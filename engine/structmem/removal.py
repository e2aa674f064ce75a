"""Deleting a memory from the disk.

Others may have the file open, here and in other processes. They go on with what has no name any
more, and find that out at their next call. What must never happen is that a new memory at the same
path takes over side files of the old one, or loses its own to somebody who means the old ones:
SQLite finds them by name. So:

- The write lock is held. No commit is under way, and no other connection, when it closes, takes the
  side files away: for that it would need the file for itself.
- A mark takes the file's place in one step, before the side files go, and goes last. It is no
  database, so that nobody can make or open a memory there meanwhile.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from structmem import file
from structmem.connection import begin_immediate, open_writer, roll_back, translated
from structmem.errors import Busy, InvalidCall

_SIDE_FILES: Final = ("-wal", "-shm", "-journal")


@contextmanager
def locked(path: Path) -> Generator[bool]:
    """Hold the write lock of the memory at `path`, for its deletion. False if there is none: no
    file, or an empty one. Raises `NotAMemory` and `FormatTooNew` for anything else that is there.
    """
    before = file.identity(path)
    if not file.exists(path) or path.stat().st_size == 0:
        yield False
        return
    with translated(path):
        connection = open_writer(path, max_value_bytes=0)
        try:
            file.is_memory(connection, path)
            begin_immediate(connection)
            if file.identity(path) != before:
                raise Busy(f"{path} was replaced just now.", hint="Try again.")
            yield True
        finally:
            roll_back(connection)
            connection.close()


def delete(path: Path) -> None:
    """Delete a memory and its side files. To be called in `locked`."""
    mark = path.with_name(path.name + "-destroyed")
    try:
        mark.write_bytes(file.DESTROYED)
        mark.replace(path)
        for suffix in _SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.unlink()
    except OSError as error:
        raise InvalidCall(f"{path} cannot be deleted: {error.strerror}.") from error
