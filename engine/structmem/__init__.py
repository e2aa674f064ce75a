"""structmem: structured memory for AI agents.

A model gets its own SQLite database. It reads with SQL that is always rolled back, and writes
through operations, each of which is an event in a journal. Start with `StructuredMemory`.
"""

from structmem.aio import AsyncStructuredMemory
from structmem.errors import (
    Busy,
    CallIdReused,
    CannotUndo,
    ConditionRefused,
    ConstraintFailed,
    Diverged,
    Fenced,
    ForkedProcess,
    FormatTooNew,
    Full,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    NotAMemory,
    NotGranted,
    NothingToUndo,
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
from structmem.memory import StructuredMemory, open_replica
from structmem.results import (
    Column,
    Operation,
    Preview,
    QueryResult,
    Reference,
    Size,
    VerifyReport,
    WriteResult,
)
from structmem.store import MemoryStore
from structmem_journal import Position

__all__ = [
    "AsyncStructuredMemory",
    "Busy",
    "CallIdReused",
    "CannotUndo",
    "Column",
    "ConditionRefused",
    "ConstraintFailed",
    "Diverged",
    "Fenced",
    "ForkedProcess",
    "FormatTooNew",
    "Full",
    "InvalidCall",
    "MemoryStore",
    "NoSuchColumn",
    "NoSuchTable",
    "NotAMemory",
    "NotGranted",
    "NothingToUndo",
    "Operation",
    "Position",
    "Preview",
    "QueryLimit",
    "QueryResult",
    "ReadOnly",
    "Reference",
    "Size",
    "Stop",
    "StreamUnavailable",
    "StructMemError",
    "StructuredMemory",
    "TableExists",
    "Unavailable",
    "VerificationFailed",
    "VerifyReport",
    "WriteInQuery",
    "WriteResult",
    "open_replica",
]
