"""structmem: structured memory for AI agents.

A model gets its own SQLite database. It reads with SQL that is always rolled back, and writes
through operations, each of which is an event in a journal. Start with `StructuredMemory`.
"""

from typing import TYPE_CHECKING

from structmem.errors import (
    ApprovalTimedOut,
    ApprovalVoid,
    Busy,
    CallIdReused,
    CannotUndo,
    ConditionRefused,
    ConstraintFailed,
    Declined,
    Diverged,
    Fenced,
    ForkedProcess,
    FormatTooNew,
    Full,
    InvalidCall,
    NobodyToAsk,
    NoSuchColumn,
    NoSuchTable,
    NotAMemory,
    NotGranted,
    NothingToUndo,
    PreviewOutdated,
    QueryLimit,
    ReadOnly,
    Stop,
    StreamUnavailable,
    StructMemError,
    TableExists,
    Unavailable,
    VerificationFailed,
    WriteInQuery,
)
from structmem.results import (
    Column,
    Operation,
    Preview,
    QueryResult,
    Reference,
    Rehearsed,
    Size,
    Touched,
    VerifyReport,
    WriteResult,
)
from structmem_journal import Position

if TYPE_CHECKING:
    from structmem.aio import AsyncStructuredMemory
    from structmem.memory import StructuredMemory, open_replica
    from structmem.store import MemoryStore
else:
    from structmem.late import __getattr__  # noqa: F401 # Python calls it

__all__ = [
    "ApprovalTimedOut",
    "ApprovalVoid",
    "AsyncStructuredMemory",
    "Busy",
    "CallIdReused",
    "CannotUndo",
    "Column",
    "ConditionRefused",
    "ConstraintFailed",
    "Declined",
    "Diverged",
    "Fenced",
    "ForkedProcess",
    "FormatTooNew",
    "Full",
    "InvalidCall",
    "MemoryStore",
    "NoSuchColumn",
    "NoSuchTable",
    "NobodyToAsk",
    "NotAMemory",
    "NotGranted",
    "NothingToUndo",
    "Operation",
    "Position",
    "Preview",
    "PreviewOutdated",
    "QueryLimit",
    "QueryResult",
    "ReadOnly",
    "Reference",
    "Rehearsed",
    "Size",
    "Stop",
    "StreamUnavailable",
    "StructMemError",
    "StructuredMemory",
    "TableExists",
    "Touched",
    "Unavailable",
    "VerificationFailed",
    "VerifyReport",
    "WriteInQuery",
    "WriteResult",
    "open_replica",
]
