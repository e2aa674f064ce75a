"""Opening the file: which connections there are, and why each is set as it is.

A memory has one *writer*, and *readers* that open the file read-only. SQL that a model wrote runs
on readers of its own (see `reading`), never on a connection that our own SQL uses.

Every setting is a line with its reason. Nothing here depends on the system's SQLite: APSW brings
its own.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import apsw

from structmem import sql
from structmem.errors import (
    Busy,
    ConstraintFailed,
    FormatTooNew,
    Full,
    InvalidCall,
    NotAMemory,
    ReadOnly,
    StructMemError,
    VerificationFailed,
)
from structmem.identifiers import INTERNAL_PREFIX
from structmem.limits import BUSY_TIMEOUT_MS, PAYLOAD_PART_BYTES, ROW_SLACK_BYTES
from structmem_journal import JournalError, UnknownKind

_NO_TABLE_OF_OURS = f"no such table: main.{INTERNAL_PREFIX}"
_TAKEN = "Another row has that value: update that row instead, or give another value."
_RULES: Final[dict[int, str]] = {
    apsw.SQLITE_CONSTRAINT_UNIQUE: _TAKEN,
    apsw.SQLITE_CONSTRAINT_PRIMARYKEY: _TAKEN,
    apsw.SQLITE_CONSTRAINT_ROWID: _TAKEN,
    apsw.SQLITE_CONSTRAINT_NOTNULL: "Give the column a value.",
    apsw.SQLITE_CONSTRAINT_CHECK: "`describe` shows the rule.",
    apsw.SQLITE_CONSTRAINT_DATATYPE: "`describe` shows the types, which this table enforces.",
}
"""What to do about a broken rule. Of foreign keys the caller is told all (see `memory`)."""


class Closable(Protocol):
    """What is opened: a connection, or something that has one."""

    def close(self) -> object: ...


_CACHED_STATEMENTS = 100  # APSW's own default


def open_writer(path: Path, *, max_value_bytes: int) -> apsw.Connection:
    """A connection that may write. The file must exist."""
    connection = _open(path, apsw.SQLITE_OPEN_READWRITE)
    with closed_if_it_fails(connection):
        hide_listings(connection)
        # Reported means on disk: in WAL mode, FULL syncs the log at every commit.
        sql.pragma(connection, "synchronous", "FULL")
    # Enforced always; the setting is per connection and off by default.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
    # One length for writes and reads. A part of a payload must fit as well.
    longest = max(max_value_bytes, PAYLOAD_PART_BYTES) + ROW_SLACK_BYTES
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, longest)
    return connection


def open_reader(path: Path, *, cached_statements: int = _CACHED_STATEMENTS) -> apsw.Connection:
    """A connection that cannot write to the file. The file must exist."""
    return _open(path, apsw.SQLITE_OPEN_READONLY, cached_statements)


def _open(path: Path, flags: int, cached_statements: int = _CACHED_STATEMENTS) -> apsw.Connection:
    with translated(path):
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=cached_statements)
    with translated(path), closed_if_it_fails(connection):
        # Writers queue for this long; readers only ever wait during recovery of the log.
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        # No SQL may corrupt the file through shadow tables or writable_schema.
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        # "stauts" must be an unknown column and not the text 'stauts'.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        # A schema that somebody else wrote must not call functions with side effects.
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        # Sorting and temporary tables must leave no files behind.
        sql.pragma(connection, "temp_store", "MEMORY")
        return connection


@contextmanager
def closed_if_it_fails(opened: Closable) -> Generator[None]:
    """To be held while something that was just opened is made ready. An error keeps what it passed
    through, so that a connection which is not closed stays open as long as anyone keeps the error.
    """
    try:
        yield
    except BaseException:
        opened.close()
        raise


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Turn SQLite's errors into ours, so that no SQLite traceback reaches a user; and those of a
    file that SQLite finds sound while our own data in it is not."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except UnknownKind as error:
        raise too_new(error) from error
    except JournalError as error:
        raise _damaged(f"The journal of {path.name} is damaged: {error}.") from error
    except UnicodeDecodeError as error:
        raise _damaged(f"{path.name} is damaged: text in it is not UTF-8.") from error


def too_new(error: UnknownKind) -> FormatTooNew:
    """The error for a record that speaks of what this version does not know."""
    return FormatTooNew(
        f"{error}.", hint="Use the version of structmem that wrote it, or a later one."
    )


def _damaged(what: str) -> VerificationFailed:
    hint = "Go on with a backup or a replica; `verify` says whether one is sound."
    return VerificationFailed(what, hint=hint)


def translate(error: apsw.Error, path: Path) -> StructMemError:
    """Our error for one of SQLite's, sorted by what the caller should do."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Busy(
                f"Another process is writing to {path.name}.", hint="Try again in a moment."
            )
        case apsw.FullError():
            return disk_full(path)
        case apsw.NoMemError():
            return Full(
                "There is not enough memory for this call now; nothing was changed.",
                hint="Make it smaller, or try again when no large query runs in this process.",
            )
        case apsw.ConstraintError():
            hint = _RULES.get(getattr(error, "extendedresult", 0))
            return ConstraintFailed(f"The change breaks a rule of the schema: {error}.", hint=hint)
        case apsw.MismatchError():
            return ConstraintFailed(
                f"A value does not fit its column: {error}.",
                hint="A column that is an INTEGER PRIMARY KEY takes whole numbers only.",
            )
        case apsw.TooBigError():
            return InvalidCall(
                "A row is larger than this memory allows.",
                hint="Store it in pieces, or open the memory with a larger max_value_bytes.",
            )
        case apsw.ReadOnlyError():
            return ReadOnly(
                f"{path.name} cannot be written.", hint="Check the permissions of the file."
            )
        case apsw.NotADBError() | apsw.CorruptError():
            return NotAMemory(f"{path} is damaged or is not a memory: {error}.")
        case apsw.CantOpenError() if _no_descriptors():
            return Full(
                "This process has no file descriptors left; nothing was changed.",
                hint="Close other memories, or raise the limit (ulimit -n).",
            )
        case apsw.CantOpenError():
            return NotAMemory(
                f"{path} cannot be opened: {error}.",
                hint="Check that it is there, and its permissions.",
            )
        case apsw.IOError(extendedresult=apsw.SQLITE_IOERR_SHMSIZE):
            return disk_full(path)
        case apsw.SQLError() if _NO_TABLE_OF_OURS in str(error):
            return NotAMemory(f"{path} has lost tables of the memory's own: {error}.")
        case apsw.IOError():
            return NotAMemory(f"{path} could not be read or written: {error}.")
        case _:
            return InvalidCall(f"SQLite refuses this: {error}.")


def disk_full(path: Path) -> Full:
    """The error for a disk, a quota or a limit of the process that has no room left."""
    return Full(
        f"There is no room left for {path.name}; nothing was changed.",
        hint="Free some space, then repeat the call.",
    )


def _no_descriptors() -> bool:
    """Whether this process can open no further file, which SQLite does not tell."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


def hide_listings(connection: apsw.Connection) -> None:
    """Remove the table functions that tell of other tables than the user's. SQLite does not ask
    about them where NATURAL JOIN compares their columns and nothing else is used."""
    listed = sql.rows(connection, "PRAGMA module_list")
    kept = [name for (name,) in listed if name not in ("dbstat", "fts3tokenize")]
    connection.drop_modules(kept)


def closed(path: Path) -> InvalidCall:
    """The error for any use after `close()`."""
    return InvalidCall(f"The memory {path.name} is closed.", hint="Open it anew.")


def begin_immediate(connection: apsw.Connection) -> None:
    """Begin a write transaction with the write lock taken at once, so that a read followed by a
    write cannot find the lock gone."""
    sql.run(connection, "BEGIN IMMEDIATE")


@contextmanager
def one_snapshot(connection: apsw.Connection) -> Generator[None]:
    """Let everything that is read inside come from one moment."""
    if connection.in_transaction:
        yield
        return
    sql.run(connection, "BEGIN")
    try:
        yield
    finally:
        roll_back(connection)


def roll_back(connection: apsw.Connection) -> None:
    """End the transaction without effect. SQLite may have ended it already (a full disk, an
    interrupt, `ON CONFLICT ROLLBACK`); then there is nothing to do."""
    if connection.in_transaction:
        sql.run(connection, "ROLLBACK")
