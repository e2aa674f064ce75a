"""The open connections of one memory in one process.

Invariants:

- A session belongs to the file that it opened, not to another one that took its place: what was
  written to a file that is gone from its path would be lost with the session.
- Once closed it opens no connection again.
- Model SQL runs on guarded readers, our own on plain ones; a connection never serves both.
"""

from contextlib import suppress
from pathlib import Path
from threading import Lock

import apsw

from structmem import file, sql
from structmem.connection import closed, closed_if_it_fails, open_reader
from structmem.errors import NotAMemory, ReadOnly, StructMemError
from structmem.options import Options
from structmem.pool import Pool, T
from structmem.reading import GuardedReader
from structmem.writing import Writer


class Session:
    """Opens (and, unless read-only, creates) the memory at `path`.

    Raises `NotAMemory` or `FormatTooNew` when the file is something else.
    """

    def __init__(self, path: Path, options: Options) -> None:
        if options.read_only:
            file.check_memory(path)
        else:
            file.ensure_memory(path)
        self.path = path
        self.readers = Pool(self._open_reader)
        self.guarded = Pool(self._open_guarded)
        self._options = options
        self._writer: Writer | None = None
        self._lock = Lock()
        self._closed = False
        self._identity = file.identity(path)
        self.users = 0
        """Calls that are using it now; the opening counts them."""

    def check(self) -> None:
        """Refuse use of a file that is not at its path any more. Takes no lock."""
        if not self._is_in_place():
            raise NotAMemory(
                f"{self.path} was removed, moved or replaced while it was open.",
                hint="Close this memory; open it anew once the right file is there.",
            )

    def writer(self) -> Writer:
        if self._options.read_only:
            raise ReadOnly(
                f"{self.path.name} was opened for reading only.",
                hint="Write to the primary, or open it without read_only.",
            )
        with self._lock:
            self._check_open()
            if self._writer is None:
                self._writer = Writer(self.path, self._options, check=self.check)
            return self._writer

    def close(self) -> None:
        """Close all connections. A writing one goes last, if there may be one: it moves the
        write-ahead log into the file and removes it, so that the file alone is the memory."""
        with self._lock:
            self._closed = True
            writer, self._writer = self._writer, None
        self.guarded.close()
        self.readers.close()
        if writer is not None:
            writer.close()
        elif not self._options.read_only and self._is_in_place():
            # What stays behind does no harm; and the file may be another one by now.
            with suppress(StructMemError):
                file.tidy(self.path)

    def _is_in_place(self) -> bool:
        found = file.identity(self.path)
        return found is not None and found == self._identity

    def _check_open(self) -> None:
        if self._closed:
            raise closed(self.path)

    def _open_reader(self) -> apsw.Connection:
        self._check_open()
        connection = open_reader(self.path)
        with closed_if_it_fails(connection):
            sql.pragma(connection, "schema_version")  # reads, and so opens the log
        return self._in_place(connection)

    def _open_guarded(self) -> GuardedReader:
        self._check_open()
        reader = GuardedReader(self.path, max_value_bytes=self._options.max_value_bytes)
        return self._in_place(reader)

    def _in_place(self, opened: T) -> T:
        """A connection whose file and log were opened one after the other, by name: they belong
        together if the file is still the same."""
        with closed_if_it_fails(opened):
            self.check()
        return opened
