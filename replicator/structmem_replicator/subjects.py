"""The names under which a memory appears on the stream.

Subjects are made of the memory's generated id and of hexadecimal, never of a user's text: a dot,
a `*` or a line break in a label must not reach the server.
"""

import re
from typing import Final

from structmem import InvalidCall

STREAM: Final = "STRUCTMEM"
"""The stream that holds all memories, unless another name is given."""

STREAM_SUBJECTS: Final = ("sm.f.*", "sm.l.*.*")
"""What the stream must store: frames, and one retained message for each label of a memory."""

LABEL_BYTES_MAX: Final = 255
"""A file name's limit on the usual file systems; a label is one by default."""

_MEMORY_ID: Final = re.compile(r"[0-9a-f]{32}")


def is_memory_id(text: str) -> bool:
    return _MEMORY_ID.fullmatch(text) is not None


def frames_subject(memory_id: str) -> str:
    """Where the frames of a memory are published. Raises `InvalidCall` if it is not an id."""
    return f"sm.f.{_checked(memory_id)}"


def label_subject(label: str, memory_id: str) -> str:
    """Where a memory says that it is called `label`."""
    return f"sm.l.{_label_token(label)}.{_checked(memory_id)}"


def label_pattern(label: str) -> str:
    """Matches the `label_subject` of every memory called `label`."""
    return f"sm.l.{_label_token(label)}.*"


def labelled_id(subject: str) -> str:
    """The memory id at the end of a `label_subject`."""
    return subject.rpartition(".")[2]


def covers(pattern: str, subject: str) -> bool:
    """Whether everything that `subject` (which may hold `*`) stands for matches `pattern`."""
    theirs, ours = pattern.split("."), subject.split(".")
    for index, token in enumerate(theirs):
        if token == ">":
            return len(ours) > index
        if index >= len(ours) or (token != "*" and token != ours[index]):
            return False
    return len(theirs) == len(ours)


def _label_token(label: str) -> str:
    try:
        data = label.encode()
    except UnicodeEncodeError as error:
        raise InvalidCall(f"The label {label!r} is not text: it has half of a pair.") from error
    if not 0 < len(data) <= LABEL_BYTES_MAX:
        raise InvalidCall(
            f"A label has 1 to {LABEL_BYTES_MAX} bytes of UTF-8, and {label!r} has {len(data)}."
        )
    return data.hex()


def _checked(memory_id: str) -> str:
    if not is_memory_id(memory_id):
        raise InvalidCall(f"A memory id has 32 digits of lower-case hex; {memory_id!r} is none.")
    return memory_id
