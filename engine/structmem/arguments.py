"""Arguments of calls that are neither names, values nor SQL: what they may be.

A call with an argument of another kind is the caller's to mend, so it is an `InvalidCall` that
shows what was given, and never a `TypeError` from somewhere below.
"""

import os
import re
from datetime import datetime
from typing import Any, Final, cast

from structmem.errors import InvalidCall, shown
from structmem_journal import Position, Record

INTEGER_MAX: Final = (1 << 63) - 1
_SECONDS_MAX: Final = 1e9
_MEMORY_ID: Final = re.compile(r"[0-9a-f]{32}")


def check_path(path: object) -> str:
    """The text of `path`, if a file can be called that, and SQLite can open it."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidCall(f"The path must be text or a path object, not {shown(path)}.")
    text: object = os.fspath(cast("str | os.PathLike[Any]", path))
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidCall(f"The path must be text, not empty and without NUL, not {shown(text)}.")
    utf8_size(text, f"The path {shown(text)}")
    return str.__str__(text)


def utf8_size(text: str, what: str) -> int:
    """The bytes of `text` in UTF-8. Raises `InvalidCall` for a lone surrogate, which has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidCall(f"{what} is not valid Unicode text.") from None


def check_whole(number: object, name: str, *, least: int = 0, most: int = INTEGER_MAX) -> int:
    """`number`, if it is a whole one from `least` to `most`."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise InvalidCall(
            f"{name} must be a whole number from {least:,} to {most:,}, not {shown(number)}."
        )
    return number


def check_timeout(timeout: object) -> float:
    """`timeout`, if it is a number of seconds above zero."""
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0:
        return float(min(timeout, _SECONDS_MAX))
    raise InvalidCall(f"timeout must be a number of seconds above 0, not {shown(timeout)}.")


def check_time(time: object, name: str) -> datetime | None:
    """`time`, if it is None or a moment that can be compared with others."""
    if time is None:
        return None
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidCall(
            f"{name} must be a datetime with a time zone, not {shown(time)}.",
            hint="Such as datetime.now(UTC).",
        )
    return time


def check_position(position: object, name: str) -> Position:
    """`position`, if it is one."""
    if not isinstance(position, Position):
        raise InvalidCall(
            f"{name} must be a Position, not {shown(position)}.",
            hint="Position.parse reads one from text.",
        )
    check_whole(position.seq, f"The seq of {name}")
    return position


def check_record(record: object) -> Record:
    """`record`, if it has the parts of one; whether it fits is for the chain to say."""
    if (
        isinstance(record, Record)
        and isinstance(record.header, bytes)  # pyright: ignore[reportUnnecessaryIsInstance] # not checked when made
        and isinstance(record.digest, bytes)  # pyright: ignore[reportUnnecessaryIsInstance]
        and isinstance(record.payload, bytes | None)  # pyright: ignore[reportUnnecessaryIsInstance]
    ):
        return record
    raise InvalidCall(f"records must be Records, as `records` yields them, not {shown(record)}.")


def check_callable(function: object, name: str) -> None:
    if not callable(function):
        raise InvalidCall(f"{name} must be a function, not {shown(function)}.")


def check_memory_id(memory_id: object) -> str:
    if isinstance(memory_id, str) and _MEMORY_ID.fullmatch(memory_id):
        return memory_id
    raise InvalidCall(
        f"memory_id must be 32 hex digits, not {shown(memory_id)}.",
        hint="Take it from the `id` of the primary.",
    )
