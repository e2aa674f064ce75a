"""The file itself: making a new memory, telling one from any other file.

Invariants:

- A memory is marked by its `application_id`; its format version is `user_version` (see `upgrade`).
- The mark, our tables and the identity are written in one transaction: a file has all or none.
- The identity (`id`) is drawn once and never changes; a copy of the file keeps it.
"""

import os
import secrets
import shutil
import stat
import tempfile
import time
import weakref
from pathlib import Path
from typing import Final, Literal

import apsw

from structmem import log, sql
from structmem.connection import (
    begin_immediate,
    one_snapshot,
    open_reader,
    open_writer,
    roll_back,
    translated,
)
from structmem.errors import Busy, InvalidCall, NotAMemory, shown
from structmem.limits import BUSY_TIMEOUT_MS
from structmem.process import forked
from structmem.size import write_error
from structmem.upgrade import FILE_FORMAT, check_format

APPLICATION_ID: Final = 0x534D656D
"""`SMem`; see https://www.sqlite.org/pragma.html#pragma_application_id."""

DESTROYED: Final = b"The structmem memory in this file is being destroyed.\n"
"""Stands in the place of a memory while its side files are deleted (see `removal`)."""

Role = Literal["primary", "replica"]


def ensure_memory(path: Path, *, memory_id: str | None = None, role: Role = "primary") -> None:
    """Make `path` a memory, unless it is one. Raises `NotAMemory` and `FormatTooNew`.

    `memory_id` (32 hex digits) is drawn at random when not given.
    """
    _create_empty(path)
    with translated(path):
        connection = open_writer(path, max_value_bytes=0)
        try:
            if not is_memory(connection, path):
                _initialise(connection, path, memory_id or secrets.token_hex(16), role)
            elif sql.pragma(connection, "journal_mode") != "wal":  # by another tool
                _use_write_ahead_log(connection)
        except apsw.Error as error:
            raise write_error(error, connection, path) from error
        finally:
            connection.close()


def check_memory(path: Path) -> None:
    """Raise `NotAMemory` unless `path` is an existing memory; changes nothing."""
    if not exists(path):
        raise NotAMemory(f"There is no file {path}.", hint="Check the path.")
    with translated(path):
        connection = open_reader(path)
        try:
            if not is_memory(connection, path):
                raise NotAMemory(f"{path} is an empty file, not a memory.")
        finally:
            connection.close()


def tidy(path: Path) -> None:
    """Remove the side files that read-only connections leave behind, unless others use them."""
    with translated(path):
        connection = open_writer(path, max_value_bytes=0)
        try:
            sql.pragma(connection, "schema_version")  # takes part in the log, so closing it counts
        finally:
            connection.close()


def identity(path: Path) -> tuple[int, int] | None:
    """What tells the file at `path` from any other that takes its place; None if there is none.
    (A look at the directory alone: to open and close the file would drop SQLite's locks.)"""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_memory(connection: apsw.Connection, path: Path) -> bool:
    """True for a memory, False for a file in which nothing is yet; any other file raises."""
    with one_snapshot(connection):  # another process may be making a memory of it
        return _is_memory(connection, path)


def _is_memory(connection: apsw.Connection, path: Path) -> bool:
    mark = sql.pragma(connection, "application_id")
    if mark == APPLICATION_ID:
        check_format(connection, path)
        return True
    if (
        mark
        or sql.pragma(connection, "user_version")
        or sql.first(connection, "SELECT 1 FROM sqlite_schema")
    ):
        raise NotAMemory(
            f"{path} is an SQLite database, but not a memory; it was not touched.",
            hint="Give the memory a file of its own.",
        )
    return False


class PrivateDirectory:
    """A directory that nobody else may enter, with a name that nobody can foresee.

    It goes with its owner, but only in the process that made it: a forked child that ends must not
    take it from its parent.
    """

    def __init__(self) -> None:
        self.path: Final = Path(tempfile.gettempdir()) / f"structmem-{secrets.token_hex(16)}"
        self._removal: weakref.finalize[..., object] | None = None

    def make(self, owner: object) -> None:
        """Make it, unless it is there. Raises `ForkedProcess` if a relative of ours made it."""
        if self._removal is not None:
            return
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            raise forked("A memory in :memory:") from None
        except OSError as error:
            raise InvalidCall(f"{self.path} cannot be created: {error.strerror}.") from error
        self._removal = weakref.finalize(owner, _remove_in, os.getpid(), self.path)

    def remove(self) -> None:
        if self._removal is not None:
            self._removal()


def _remove_in(process: int, directory: Path) -> None:
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def _create_empty(path: Path) -> None:
    """Create the file readable by its owner only; SQLite gives its side files the same mode."""
    if exists(path):
        return
    if not path.parent.is_dir():
        raise InvalidCall(f"The directory {path.parent} does not exist.", hint="Create it first.")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # another process made it meanwhile
    except OSError as error:
        raise InvalidCall(
            f"{path} cannot be created: {error.strerror}.",
            hint="Choose a directory in which this process may write.",
        ) from error


def exists(path: Path) -> bool:
    """Whether there is a file. Raises for a path that cannot have one, and for what is left of a
    memory."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        why = f"The path {shown(str(path))} cannot be used: {error.strerror}."
        raise InvalidCall(why, hint="Check the path.") from error
    if not stat.S_ISREG(found.st_mode):
        raise NotAMemory(f"{path} is not a file.", hint="Give the memory a file of its own.")
    if found.st_size == len(DESTROYED):  # no database has this size
        raise Busy(
            f"{path} is being destroyed.",
            hint="Try again in a moment. If it stays so, a process died in the middle of that: "
            "delete the file.",
        )
    if found.st_size == 0 and _size(path.with_name(path.name + "-wal")):
        raise NotAMemory(
            f"{path} is empty but its write-ahead log is not: the file was damaged.",
            hint="Restore it from a backup; do not delete the log.",
        )
    return True


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _initialise(connection: apsw.Connection, path: Path, memory_id: str, role: Role) -> None:
    # A journal whose deletion is not on disk can come back after a power loss, and would switch the
    # mode back behind the log that is there by then.
    sql.pragma(connection, "synchronous", "EXTRA")
    # Must come before the first table. VACUUM is out of the question, because it renumbers rowids.
    sql.pragma(connection, "auto_vacuum", "INCREMENTAL")
    _use_write_ahead_log(connection)
    begin_immediate(connection)
    try:
        if is_memory(connection, path):  # another process was faster
            return
        log.create_tables(connection)
        log.set_meta(connection, "id", memory_id)
        log.set_meta(connection, "role", role)
        log.set_meta(connection, "epoch", 1)
        sql.pragma(connection, "application_id", APPLICATION_ID)
        sql.pragma(connection, "user_version", FILE_FORMAT)
        sql.run(connection, "COMMIT")
    finally:
        roll_back(connection)


def _use_write_ahead_log(connection: apsw.Connection) -> None:
    """Switch the journal mode, which is kept in the file. SQLite does not wait for others here, so
    two processes that create one file at the same time have to be patient themselves."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            sql.pragma(connection, "journal_mode", "WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
