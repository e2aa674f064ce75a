"""A call as it was made: what goes into the journal as the intent, and how to know it again."""

import hashlib
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from structmem.arguments import utf8_size
from structmem.errors import InvalidCall, shown
from structmem.limits import NAME_BYTES_MAX
from structmem_journal import Intent

_LABEL_BYTES_MAX: Final = 1_000
"""Bound of actor, approver and call id: names, not texts."""

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


class Call(Struct, frozen=True):
    """`arguments` are journaled with the intent. `bulk` is not, because the effects hold it; it
    takes part in the digest only."""

    operation: str
    table: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    bulk: Any = None
    reason: str | None = None
    actor: str | None = None
    approved_by: str | None = None
    call_id: str | None = None

    def digest(self, salt: bytes) -> bytes:
        """Equal for the same operation with the same arguments, whatever the reason. Salted, so
        that it tells nothing about arguments that were erased."""
        try:
            arguments = _encoder.encode((self.operation, self.table, self.arguments, self.bulk))
        except UnicodeEncodeError as error:
            raise InvalidCall(f"{shown(error.object)} is not valid Unicode text.") from None
        return hashlib.sha256(salt + arguments).digest()

    def intent(self, salt: bytes, *, table: str | None) -> Intent:
        """The intent to journal; `table` is the one it turned out to be about."""
        return Intent(
            operation=self.operation,
            table=self.table or table,
            arguments=self.arguments,
            reason=self.reason,
            actor=self.actor,
            approved_by=self.approved_by,
            call_id=self.call_id,
            call_digest=self.digest(salt) if self.call_id is not None else None,
        )


def check_text(value: object, what: str, *, bytes_max: int = _LABEL_BYTES_MAX) -> str | None:
    """`value`, if it is None or text that the journal can keep."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidCall(f"{what} must be text, not {shown(value)}.")
    size = utf8_size(value, what)
    if size > bytes_max:
        raise InvalidCall(f"{what} has {size:,} bytes; {bytes_max:,} are allowed.")
    return str.__str__(value)


def check_table(name: object, what: str = "table") -> str:
    """`name`, if a table (or what `what` says) may be called that; whether there is one is found
    out later."""
    text = check_text(name, f"The {what}'s name", bytes_max=NAME_BYTES_MAX)
    if text is None:
        raise InvalidCall(f"The {what}'s name is missing.", hint="`describe` lists what there is.")
    return text


def check_call_id(value: object) -> str | None:
    call_id = check_text(value, "The call_id")
    if call_id == "":
        raise InvalidCall("The call_id is empty.", hint="Leave it out, or give a unique text.")
    return call_id
