"""The open connections of one memory in one process.

Invariants:

- A session belongs to the process that opened it: SQLite connections must not cross `fork()`.
- Model SQL runs on guarded readers, our own on plain ones; a connection never serves both.
"""

import os
from pathlib import Path
from threading import Lock

from structmem import file
from structmem.connection import open_reader
from structmem.errors import ForkedProcess, ReadOnly
from structmem.pool import Pool
from structmem.reading import GuardedReader
from structmem.writing import Writer


class Session:
    """Opens (and, unless `read_only`, creates) the memory at `path`.

    Raises `NotAMemory` or `FormatTooNew` when the file is something else.
    """

    def __init__(self, path: Path, *, read_only: bool, max_value_bytes: int) -> None:
        if read_only:
            file.check_memory(path)
        else:
            file.ensure_memory(path)
        self.path = path
        self.readers = Pool(lambda: open_reader(path))
        self.guarded = Pool(lambda: GuardedReader(path, max_value_bytes=max_value_bytes))
        self._read_only = read_only
        self._max_value_bytes = max_value_bytes
        self._writer: Writer | None = None
        self._lock = Lock()
        self._process = os.getpid()

    def check_process(self) -> None:
        """Refuse use after `fork()`. Takes no lock: another thread may have held it at the fork,
        and in the child nobody would ever release it."""
        if os.getpid() != self._process:
            raise ForkedProcess(
                f"{self.path.name} was opened before fork(); this process must not use it.",
                hint="Open a StructuredMemory of your own in the child process.",
            )

    def writer(self) -> Writer:
        if self._read_only:
            raise ReadOnly(
                f"{self.path.name} was opened for reading only.",
                hint="Write to the primary, or open it without read_only.",
            )
        with self._lock:
            if self._writer is None:
                self._writer = Writer(self.path, max_value_bytes=self._max_value_bytes)
            return self._writer

    def close(self) -> None:
        """Close all connections. A writing one goes last, if there may be one: it moves the
        write-ahead log into the file and removes it, so that the file alone is the memory."""
        self.guarded.close()
        self.readers.close()
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        elif not self._read_only:
            file.tidy(self.path)
