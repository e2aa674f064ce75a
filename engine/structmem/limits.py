"""Bounds of the engine, each with the reason for its number."""

from typing import Final

BUSY_TIMEOUT_MS: Final = 30_000
"""How long a writer waits for another one. Writes are short; a wait this long means a stuck
process, and then the caller should hear of it."""

PAYLOAD_PART_BYTES: Final = 8 << 20
"""A payload is stored in parts of this size, well below the length limit of one blob."""

MAX_VALUE_BYTES: Final = 16 << 20
"""Default bound of one value, for writes and reads alike, so that what was stored can be read."""

VALUE_BYTES_MAX: Final = 900_000_000
"""The largest value that `max_value_bytes` can allow: SQLite's own limit, less room for the row."""

ROW_SLACK_BYTES: Final = 1 << 20
"""SQLite's length limit counts a whole row with its header: room for the other columns."""

QUERY_TIMEOUT_S: Final = 10.0
"""Default time for one query or condition."""

QUERY_MEMORY_BYTES: Final = 256 << 20
"""How far one query may grow SQLite's memory, and the result in ours."""

PROGRESS_OPCODES: Final = 100
"""SQLite's virtual machine steps between two looks at the clock and at memory. Memory can grow by
one value of the largest size in a few steps, so looks must be frequent; 100 costs within noise."""

SQL_TEXT_BYTES_MAX: Final = 1_000_000
"""Longest SQL text. SQLite's own default."""

VDBE_OP_MAX: Final = 25_000
"""Longest compiled program. Compiling is not interrupted by the progress handler; nested views that
would compile for seconds stop here within 0.05 s."""

BATCH_RECORDS: Final = 256
"""Journal records fetched in one go: a read transaction held for long keeps the log growing."""

BATCH_BYTES: Final = 16 << 20
"""Payload bytes after which a batch ends early, so that memory stays flat."""
