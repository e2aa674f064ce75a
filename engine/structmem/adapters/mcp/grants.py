"""What the operator grants: from words of the command line to levels for each memory. Pure.

Rules: an entry is the name of an operation, and holds for every memory, or the name of a tool,
which holds for that memory and wins. An entry that means nothing, or is given twice with different
levels, is an error: a mistyped grant must not be missed, nor a mistyped denial.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from structmem.tools import OPERATIONS, Level


class Entry(NamedTuple):
    """One word, and the level that the option gives it: `allow`, `ask` or `deny`."""

    level: Level
    name: str


def permissions(prefixes: Iterable[str], entries: Iterable[Entry]) -> dict[str, dict[str, Level]]:
    """For each prefix the operations named, with their levels. Raises `ValueError`, in words."""
    levels = _levels(entries)
    known = {prefix: {prefix + name: name for name in OPERATIONS} for prefix in prefixes}
    _check_known(levels, known)
    return {prefix: _of_one(tools, levels) for prefix, tools in known.items()}


def _levels(entries: Iterable[Entry]) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for level, name in entries:
        if levels.setdefault(name, level) != level:
            raise ValueError(f"{name} is given two levels: {levels[name]} and {level}")
    return levels


def _check_known(levels: Mapping[str, Level], known: Mapping[str, Mapping[str, str]]) -> None:
    tools = {tool for names in known.values() for tool in names}
    for name in levels:
        if name not in OPERATIONS and name not in tools:
            close = get_close_matches(name, [*OPERATIONS, *tools], n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(
                f"there is no operation and no tool {name!r}{meant}; the operations are "
                f"{', '.join(OPERATIONS)}; tools have the prefix {' or '.join(known)}"
            )


def _of_one(tools: Mapping[str, str], levels: Mapping[str, Level]) -> dict[str, Level]:
    of_one: dict[str, Level] = {}
    of_one.update((name, level) for name, level in levels.items() if name in OPERATIONS)
    of_one.update((tools[name], level) for name, level in levels.items() if name in tools)
    return of_one
