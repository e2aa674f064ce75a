"""Sizes that the journal format fixes, each with the reason for its number."""

from typing import Final

FORMAT: Final = 0
"""Version of the journal format. It is 0 until the format is declared stable, then 1."""

SALT_BYTES: Final = 16
"""Random bytes at the start of a payload. 128 bits: nobody can guess a short payload from the
digest that stays behind when the payload is erased."""

DIGEST_BYTES: Final = 32
"""SHA-256."""

PAYLOAD_BYTES_MAX: Final = 1 << 30
"""Largest payload. The event of one operation is built and hashed in memory, and replicas must be
able to do the same, so a bound is stated rather than found by running out of it."""

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1
"""SQLite's integers are signed 64-bit."""
