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

SIZE_LIMIT_BYTES_MIN: Final = 128 << 10
"""The smallest `size_limit`: an empty memory takes 24 KiB, and must have room for some tables."""

ROW_SLACK_BYTES: Final = 1 << 20
"""SQLite's length limit counts a whole row with its header: room for the other columns."""

QUERY_TIMEOUT_S: Final = 10.0
"""Default time for one query or condition."""

QUERY_MEMORY_BYTES: Final = 256 << 20
"""How far one query may grow SQLite's memory, and the result in ours."""

QUERY_HEAP_SLACK_BYTES: Final = 64 << 20
"""How far above that SQLite's allocator lets its memory grow. It stops what happens between two
looks at memory, such as a row of 2 000 long values."""

QUERY_MEMORY_VALUES: Final = 4
"""A query may hold this many of the largest values, whatever the memory bound says."""

STRAIGHT_STEPS_MAX: Final = 400
"""Steps between two looks, up to which a query may touch values of the largest size: most steps
take at most 25 ms on 17 MB, so ten seconds. Longer programs get shorter values in proportion."""

STEPS_OF: Final = {
    "like": 300,
    "glob": 300,
    "trim(2)": 50,
    "ltrim(2)": 50,
    "rtrim(2)": 50,
    "replace(3)": 8,
    "instr(2)": 4,
}
"""What the slowest functions count for among these steps. LIKE compares each byte with each byte of
its pattern, six seconds for 17 MB and the longest pattern; trimming many characters takes one; ours
(see `functions`) turn their arguments into Python's texts and back."""

LIKE_PATTERN_BYTES_MAX: Final = 200
"""Longest pattern of LIKE and GLOB. `instr` has no such bound."""

JSON_PATCH_BYTES_MAX: Final = 256 << 10
"""Longest value where json_patch runs: it compares each key with each key, two seconds at this
size."""

PROGRESS_OPCODES: Final = 100
"""SQLite's virtual machine steps between two looks at the clock and at memory. Memory can grow by
one value of the largest size in a few steps, so looks must be frequent; 100 costs within noise."""

SQL_TEXT_BYTES_MAX: Final = 1_000_000
"""Longest SQL text. SQLite's own default."""

VDBE_OP_MAX: Final = 25_000
"""Longest compiled program. While SQLite compiles, only the guards are asked; they look at the
clock, and this bounds what they let through."""

VIEW_SELECTS_MAX: Final = 2_000
"""SELECTs that a view compiles to, those of the views that it reads included. SQLite has 999 for
the longest UNION; up to 2 000 compile within half a second."""

VIEWS_S: Final = 1.0
"""Seconds for which views that are there already are compiled, to know their columns for a hint, or
what a schema change made of them. Those that are left have no hint, and are let be."""

NAME_BYTES_MAX: Final = 100_000
"""Longest name of a table or column. It stands in every statement about it."""

REASON_BYTES_MAX: Final = 100_000
"""Longest reason. It is kept for ever, and read as a whole."""

IMAGE_VALUES_MAX: Final = 20_000_000
"""Values in the images of one operation, rowids included: up to a gigabyte in Python, and some ten
seconds to read and record. Empty ones count as well: in the journal they take one byte, so that its
bound alone would allow eight gigabytes of references to them."""

BATCH_RECORDS: Final = 256
"""Journal records fetched in one go: a read transaction held for long keeps the log growing."""

BATCH_BYTES: Final = 16 << 20
"""Payload bytes after which a batch ends early, so that memory stays flat."""

MAX_OPEN: Final = 128
"""Default number of memories that a store keeps open. One that was read and written takes nine file
descriptors; where a process may have 1 024 and all are used at once, lower this or raise that."""

STORE_NAME_BYTES_MAX: Final = 120
"""Longest name of a memory in a store. Written as `%XX` it must fit two parts of a path."""
