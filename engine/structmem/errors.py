"""Everything that can go wrong, sorted by what the caller should do about it.

- `InvalidCall`: the call is wrong; change it and call again. Nothing was changed.
- `Unavailable`: the call is right, the time is not; call again later.
- `Stop`: the file, the process or the history is not what it should be; a person must look.

Messages are written to be read by a model: what is wrong, with the name and value at fault. The
`hint` says what to do instead. `code` is stable, for programs.
"""

import re
import reprlib
from typing import ClassVar, Final

_MESSAGE_MAX: Final = 4_000
_SHOWN_MAX: Final = 200
"""Characters of a message, and of one value in it: a model has to read them."""

_repr: Final = reprlib.Repr()
_repr.maxstring = _repr.maxother = _SHOWN_MAX
_repr.maxlong = 40
_repr.maxlist = _repr.maxtuple = _repr.maxdict = _repr.maxset = 20


def _cut(text: str) -> str:
    """`text` without the middle of one that is too long, as when a name in it has megabytes."""
    if len(text) <= _MESSAGE_MAX:
        return text
    half = _MESSAGE_MAX // 2
    return f"{text[:half]} […] {text[-half:]}"


def shown(value: object) -> str:
    """`value` as a message shows it: as Python writes it, without the middle of a long one."""
    try:
        return _repr.repr(value)
    except Exception:  # what cannot be written, such as an integer of thousands of digits
        return f"a value of type {type(value).__name__}"


class StructMemError(Exception):
    """The base of every error that structmem raises on purpose."""

    code: ClassVar[str] = "struct_mem_error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = _cut(message)
        self.hint = None if hint is None else _cut(hint)
        super().__init__(self.message)

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class InvalidCall(StructMemError):
    """The call cannot be carried out as it is; nothing was changed."""


class NoSuchTable(InvalidCall):
    """No table, view or index of that name."""


class NoSuchColumn(InvalidCall):
    """The table has no such column."""


class TableExists(InvalidCall):
    """A table of that name is there already, and is not the one asked for."""


class ConstraintFailed(InvalidCall):
    """A UNIQUE, NOT NULL, CHECK or foreign key rule of the schema refused the change."""


class ConditionRefused(InvalidCall):
    """The `where` text is not one SQL expression over the table."""


class WriteInQuery(InvalidCall):
    """`query` was given SQL that does more than read."""


class QueryLimit(InvalidCall):
    """The SQL ran out of time, memory, or another bound."""


class PreviewOutdated(InvalidCall):
    """Other rows match than when the preview was made, or their values differ."""


class CannotUndo(InvalidCall):
    """The operation cannot be taken back exactly; nothing was changed."""


class NothingToUndo(InvalidCall):
    """No operation stands that could be taken back."""


class CallIdReused(InvalidCall):
    """The call id belongs to an earlier call with other arguments."""


class ReadOnly(InvalidCall):
    """This memory is a replica, or was opened for reading."""


class NotGranted(InvalidCall):
    """The operation is not among those granted."""


class Declined(NotGranted):
    """A person was asked, and did not approve."""


class NobodyToAsk(NotGranted):
    """The operation needs a person's approval, and there is no way to ask one."""


class ApprovalTimedOut(NotGranted):
    """A person was asked, and did not answer in time."""


class ApprovalVoid(NotGranted):
    """The approval is not for this call: it was used, or the call or what it would do differs."""


class Unavailable(StructMemError):
    """Not possible right now; the same call may succeed later."""


class Busy(Unavailable):
    """Another writer held the file for longer than the timeout."""


class Full(Unavailable):
    """The disk, the file's size limit or memory has no room left; nothing was changed."""


class StreamUnavailable(Unavailable):
    """The replication stream gave no answer in time."""


class Stop(StructMemError):
    """Something is not what it must be; going on could lose or hide data."""


class NotAMemory(Stop):
    """The file is missing, is not a memory, or is damaged beyond opening."""


class FormatTooNew(Stop):
    """The file or a record was written by a newer version of structmem."""


class VerificationFailed(Stop):
    """The memory is not what its journal says."""


class Diverged(Stop):
    """Records do not fit this memory: they come from another history, or the file was changed."""


class Fenced(Stop):
    """Another primary has taken over; this file must not be written any more."""


class ForkedProcess(Stop):
    """The memory was opened before `fork()`: open it again in this process."""
