"""Texts for models and for the people they are shown to.

A model knows its tools by their names and nothing of the methods behind them. Descriptions and
errors therefore name operations in backticks; here those become the names of the tools that were
granted, and a sentence about one that was not is left out.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_OPERATION: Final = re.compile(r"`([a-z_]+)`")
_SENTENCE_END: Final = re.compile(r"(?<=[.?!;])\s+")
_SHOWN_CHARACTERS_MAX: Final = 200

_NOT_TOOLS: Final = frozenset(["preview", "size", "verify"])
"""Operations that messages name and no tool carries out: a person's, or a program's."""


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
    that are not seen, or change how the others are seen, are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


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
