"""How much room the file takes, how that is bounded, and which bound a write has met.

The bound is SQLite's own, in pages of the file. Each connection has one, and SQLite raises it for
good whenever it finds the file larger; so the writer sets it in every transaction. The write-ahead
log is not bounded: it holds copies of pages, and starts over after each checkpoint.
"""

import errno
import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import apsw

from structmem import sql
from structmem.connection import disk_full, open_reader, translate
from structmem.errors import Full, StructMemError
from structmem.identifiers import HIDDEN_PREFIX, fold, is_internal
from structmem.results import Size

_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""A full disk, a quota, a limit of the process. SQLite calls the first one full, the others an I/O
error."""

_DISK_ROOM_BYTES: Final = 1 << 20
"""With this much free the disk is not what is full: it refuses single pages."""


def measure(path: Path) -> Size:
    """What takes the room, in one snapshot. It reads every page of the file."""
    connection = open_reader(path)
    try:
        # By a name that no table of the user's can have; a table called dbstat would hide dbstat.
        sql.run(connection, "CREATE VIRTUAL TABLE temp._structmem_pages USING dbstat(main)")
        sql.run(connection, "BEGIN")
        return _measure(connection, path)
    finally:
        connection.close()


def bound(connection: apsw.Connection, size_limit: int) -> None:
    """Let the open transaction grow the file to `size_limit` bytes at most, or, if it is larger
    already, not at all."""
    page_bytes: int = sql.pragma(connection, "page_size")
    sql.pragma(connection, "max_page_count", size_limit // page_bytes)


def write_error(
    error: apsw.Error, connection: apsw.Connection, path: Path, size_limit: int | None = None
) -> StructMemError:
    """Our error for one of a connection that writes: besides `translate`, what ran out of room."""
    if isinstance(error, apsw.FullError):
        # Nothing tells which of both it was but a look at the disk.
        if size_limit is None or shutil.disk_usage(path.parent).free < _DISK_ROOM_BYTES:
            return disk_full(path)
        return _limit_reached(path, size_limit)
    if isinstance(error, apsw.IOError) and connection.system_errno in _NO_ROOM:
        return disk_full(path)
    return translate(error, path)


def _limit_reached(path: Path, size_limit: int) -> Full:
    return Full(
        f"{path.name} has reached its size limit of {size_limit:,} bytes; nothing was changed.",
        hint="Open it with a larger size_limit; size() tells what takes the room. Deleting and "
        "undoing need room as well, because the journal keeps what they remove.",
    )


def _measure(connection: apsw.Connection, path: Path) -> Size:
    page_bytes: int = sql.pragma(connection, "page_size")
    tables, ours = _by_table(connection)
    parts = Counter[str]()
    for name, size in ours.items():
        parts["hidden" if fold(name).startswith(HIDDEN_PREFIX) else "journal"] += size
    free = sql.pragma(connection, "freelist_count") * page_bytes
    file = sql.pragma(connection, "page_count") * page_bytes
    return Size(
        tables=tables,
        journal=parts["journal"],
        hidden=parts["hidden"],
        free=free,
        overhead=file - free - sum(tables.values()) - sum(ours.values()),
        file=file,
        write_ahead_log=_bytes_of(path.with_name(path.name + "-wal")),
    )


def _by_table(connection: apsw.Connection) -> tuple[dict[str, int], dict[str, int]]:
    """The bytes of each table of the user's with its indexes, and of each of ours."""
    tables, ours = Counter[str](), Counter[str]()
    pages = dict(
        sql.rows(connection, "SELECT name, pgsize FROM temp._structmem_pages WHERE aggregate = 1")
    )
    for name, table in sql.rows(
        connection,
        "SELECT name, tbl_name FROM main.sqlite_schema WHERE rootpage > 0 ORDER BY tbl_name",
    ):
        if is_internal(table):
            ours[table] += pages[name]
        elif not fold(table).startswith("sqlite_"):
            tables[table] += pages[name]
    return dict(tables), dict(ours)


def _bytes_of(path: Path) -> int:
    """The size by the directory alone: opening a live file would drop SQLite's locks."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
