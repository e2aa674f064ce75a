"""Sizes and ranges that the journal format fixes, each with the reason for its number."""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

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
"""SQLite's integers are signed 64-bit; MessagePack's go up to 2**64 - 1."""

TIME_US_MIN: Final = -62_135_596_800_000_000
TIME_US_MAX: Final = 253_402_300_799_999_999
"""The years 1 to 9999, in microseconds since 1970 UTC: what a `datetime` can show."""

Integer: TypeAlias = Annotated[int, Meta(ge=INTEGER_MIN, le=INTEGER_MAX)]
Seq: TypeAlias = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
TimeUs: TypeAlias = Annotated[int, Meta(ge=TIME_US_MIN, le=TIME_US_MAX)]
Digest: TypeAlias = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
"""Ranges, checked when bytes are decoded: nothing gets in that SQLite or a `datetime` cannot hold.
"""
