"""Texts for models and for the people they are shown to.

A model knows its tools by their names and nothing of the methods behind them. Descriptions and
errors therefore name operations in backticks; here those become the names of the tools that were
granted, and a sentence about one that was not is left out.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

_OPERATION: Final = re.compile(r"`([a-z_]+)`")
_SENTENCE_END: Final = re.compile(r"(?<=[.?!;])\s+")
_SHOWN_CHARACTERS_MAX: Final = 200

_BLANKS: Final = re.compile(r"(?<=   ) +")
"""Enough of them push what follows to the beginning of a line on the screen, where it could pose as
a line of ours."""

_NOT_TOOLS: Final = frozenset(["preview", "size", "verify"])
"""Operations that messages name and no tool carries out: a person's, or a program's."""

_UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
) | frozenset(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
"""Characters that Python calls printable and that no font shows: the rest of what Unicode lets a
program ignore (Default_Ignorable_Code_Point), and the blank of Braille."""

_MARKS_MAX: Final = 3
"""How many combining marks a letter may carry, as scripts need; more would cover what is near."""

Names = Mapping[str, str | None]
"""Every operation: the name of its tool, or None where it was not granted."""


def known(names: Names) -> dict[str, str]:
    """Those that were granted."""
    return {name: tool for name, tool in names.items() if tool is not None}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """`text` with the operations that `names` maps to tools called by those."""
    return _OPERATION.sub(lambda found: names.get(found[1], found[1]), text)


def granted(text: str, names: Names) -> str:
    """`text` without the sentences that name an operation which was not granted."""
    kept = [
        renamed(sentence, known(names))
        for sentence in _SENTENCE_END.split(text)
        if not any(_is_withheld(name, names) for name in _OPERATION.findall(sentence))
    ]
    return re.sub(r";$", ".", " ".join(kept))


def _is_withheld(name: str, names: Names) -> bool:
    return name in _NOT_TOOLS or (name in names and names[name] is None)


def quoted(value: Any) -> str:
    """A JSON value as JSON, on one line, in which nothing can pose as something else: characters
    that are not seen, or change how the others are seen, are escaped, and so are spaces after the
    third in a row."""
    text = json.dumps(value, ensure_ascii=False)
    text = _BLANKS.sub(lambda found: "\\u0020" * len(found[0]), text)
    if text.isascii() and text.isprintable():
        return text
    kept: list[str] = []
    marks = _MARKS_MAX  # none may begin a text: it would be drawn on the quote
    for each in text:
        category = unicodedata.category(each)
        marks = marks + 1 if category[0] == "M" else 0 if category[0] == "L" else _MARKS_MAX
        seen = each.isprintable() and each not in _UNSEEN and category != "Me"
        is_plain = seen and (category[0] != "M" or marks <= _MARKS_MAX)
        kept.append(each if is_plain else _escaped(each))
    return "".join(kept)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) > 0x7E else f"\\u{ord(character):04x}"


def shown(value: Any) -> str:
    """`value` in a message: its beginning, if it is long."""
    try:
        text = quoted(value)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    if len(text) <= _SHOWN_CHARACTERS_MAX:
        return text
    return f"{text[:_SHOWN_CHARACTERS_MAX]} […]"
