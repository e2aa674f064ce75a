"""The format of the file's own tables, and the way from each older one to this one.

A file says its format in `user_version`. Readers read every format from 0 on as it is; the first
write brings the file to the present one, step by step.

Invariants:

- All steps run in the transaction of the write that needs them, under the write lock. Killed at any
  moment, or refused, it leaves the file in the old format, whole; of two writers one does it.
- A step touches our own tables only: no row, rowid or text of the user's, and no record.
- A step changes the schema, so that a writer of another version that has the file open notices.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw

from structmem import sql
from structmem.errors import FormatTooNew
from structmem_journal import invariant

_STEPS: Final[Sequence[str]] = (
    # From 0. Each write changed one more page for this index; a look backwards through the records
    # finds the last operation that stands as well, since it is nearly always the last record.
    "DROP INDEX IF EXISTS main._structmem_standing",
)
"""The statements that lead from each format to the next; the first is from format 0."""

FILE_FORMAT: Final = len(_STEPS)
"""The format that new files get. That of the journal's records is a number of its own."""


def check_format(connection: apsw.Connection, path: Path) -> int:
    """The format of the memory at `path`. Raises `FormatTooNew` for one of a later version."""
    found: int = sql.pragma(connection, "user_version")
    if not 0 <= found <= FILE_FORMAT:
        raise FormatTooNew(
            f"{path} has file format {found} and this version reads up to {FILE_FORMAT}.",
            hint="Open it with the version of structmem that wrote it, or a later one.",
        )
    return found


def upgrade(connection: apsw.Connection, path: Path) -> bool:
    """Bring the file to the present format, in the open write transaction. Returns whether there
    was anything to do, and with it whether the schema changed. Raises `FormatTooNew`."""
    invariant(connection.in_transaction, "an upgrade belongs to a transaction")
    found = check_format(connection, path)
    for step in _STEPS[found:]:
        sql.run(connection, step)
    if found < FILE_FORMAT:
        sql.pragma(connection, "user_version", FILE_FORMAT)
    return found < FILE_FORMAT
