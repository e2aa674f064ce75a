"""Names: quoting them, comparing them the way SQLite does, and finding the one that was meant."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

from structmem.arguments import utf8_size
from structmem.errors import InvalidCall, shown
from structmem.limits import NAME_BYTES_MAX

INTERNAL_PREFIX: Final = "_structmem_"
"""Our own tables. Model SQL never sees them, and no table of the user's may begin like this."""

HIDDEN_PREFIX: Final = "_structmem_hidden_"
"""Those of ours that keep the rows of dropped tables."""

_NEAREST_CHARS_MAX: Final = 200
"""Longer names are not looked for: comparing takes time that grows with the square."""

_RESERVED_PREFIXES: Final = (INTERNAL_PREFIX, "sqlite_")
_UPPER_TO_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# https://www.sqlite.org/syntax/type-name.html: names, then up to two signed numbers.
_TYPE_NAME: Final = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*(?: [A-Za-z_][A-Za-z0-9_]*)*"
    r"(?: ?\( ?[+-]?\d+(?:\.\d+)?(?: ?, ?[+-]?\d+(?:\.\d+)?)? ?\))?",
    re.ASCII,
)
# Words that would end the type and begin a constraint of the column.
_CONSTRAINT_WORDS: Final = frozenset(
    [
        "constraint",
        "primary",
        "not",
        "null",
        "unique",
        "check",
        "default",
        "collate",
        "references",
        "generated",
        "as",
        "deferrable",
        "on",
    ]
)


def quote(name: str) -> str:
    """`name` as an SQL identifier that SQLite takes literally."""
    return '"' + name.replace('"', '""') + '"'


def fold(name: str) -> str:
    """`name` as SQLite compares it: ASCII letters without case, everything else exact."""
    return name.translate(_UPPER_TO_LOWER)


def is_internal(name: str) -> bool:
    return fold(name).startswith(INTERNAL_PREFIX)


def check_name(name: object, what: str) -> str:
    """`name`, if a table or column may be called that. `what` is the noun for the message."""
    if not isinstance(name, str):
        raise InvalidCall(f"The name of a {what} must be text, not {shown(name)}.")
    if "\0" in name:
        raise InvalidCall(
            f"The {what} name {shown(name)} contains a NUL character, which SQL cannot."
        )
    size = utf8_size(name, f"The {what} name {shown(name)}")
    if size > NAME_BYTES_MAX:
        raise InvalidCall(f"A {what} name has {size:,} bytes; {NAME_BYTES_MAX:,} are allowed.")
    for prefix in _RESERVED_PREFIXES:
        if fold(name).startswith(prefix):
            raise InvalidCall(
                f"The {what} name {shown(name)} is reserved: names beginning with {prefix} belong "
                "to the memory itself.",
                hint="Choose another name.",
            )
    return str.__str__(name)


def check_type(type_name: str, column: str) -> str:
    """`type_name`, if SQLite reads it as a declared type and as nothing more."""
    words = [fold(word) for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", type_name)]
    wrong = [word for word in words if word in _CONSTRAINT_WORDS]
    if wrong or not _TYPE_NAME.fullmatch(type_name):
        raise InvalidCall(
            f"The type {shown(type_name)} of column {shown(column)} is not a type name.",
            hint="Use a plain SQLite type such as TEXT, INTEGER, REAL, BLOB or VARCHAR(80); "
            "constraints have fields of their own.",
        )
    return str.__str__(type_name)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` was probably meant to be."""
    if len(name) > _NEAREST_CHARS_MAX:
        return None
    folded = {fold(candidate): candidate for candidate in names}
    found = difflib.get_close_matches(fold(name), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None
