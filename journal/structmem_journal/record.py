"""A record of the journal, and a position in it.

Invariants:

- A record's `seq` is one more than that of the record before it, the first is 1.
- Its digest covers its header bytes and the digest before it; the header covers the payload by
  *its* digest. So a position names one history and no other.
- The header holds nothing a person could be named in. All of that is in the payload, which can be
  erased (then it is None here) without breaking the chain.
"""

import re
from typing import Annotated, Final, Self

from msgspec import Meta, Struct

from structmem_journal.limits import DIGEST_BYTES, Digest, Epoch, Seq, TimeUs

_POSITION_PATTERN: Final = re.compile(r"(0|[1-9][0-9]{0,17}):([0-9a-f]{64})")


class Position(Struct, frozen=True):
    """A point in one history: the seq of its last record and that record's digest (32 bytes).

    `str(position)` is `"<seq>:<hex digest>"`; `Position.parse` reads it back.
    """

    seq: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest.hex()}"

    def __repr__(self) -> str:
        return f"Position({self.seq}:{self.digest.hex()[:16]}…)"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str()` wrote. Raises `ValueError` for anything else."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] # not checked when called
            raise ValueError(f"not a position: a {type(text).__name__}")  # noqa: TRY004 # one error for both
        match = _POSITION_PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"not a position: {text!r:.200} (expected '<seq>:<64 hex digits>')")
        return cls(int(match[1]), bytes.fromhex(match[2]))


START: Final = Position(0, bytes(DIGEST_BYTES))
"""The position of a memory in which nothing has happened yet."""


class Version(Struct, frozen=True, array_like=True):
    """The beginning of every header, of this format and of all later ones."""

    format: Annotated[int, Meta(ge=0)]


class Header(Struct, frozen=True, array_like=True):
    """The part of a record that stays when its payload is erased.

    `at_us` counts microseconds since 1970 UTC and never goes back along the chain. `kind` is the
    name of the operation. New fields go at the end: older readers ignore them, and hash the stored
    bytes, not what they understood of them.
    """

    format: int
    seq: Seq
    epoch: Epoch
    at_us: TimeUs
    kind: str
    payload_digest: Digest


class Record(Struct, frozen=True, array_like=True):
    """A record as it is stored and relayed: bytes that are never encoded again.

    `header` is the encoded `Header`, `digest` closes the chain up to here, and `payload` is salt
    and encoded `Event`, or None once erased.
    """

    header: bytes
    digest: Digest
    payload: bytes | None
