"""`structmem mcp`: its arguments, checked before anything is made."""

import argparse
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from structmem import InvalidCall
from structmem.adapters.mcp.calls import Manner
from structmem.adapters.mcp.grants import Entry, permissions
from structmem.adapters.mcp.memories import Bounds, Held, Memories
from structmem.adapters.mcp.serving import serve, show_warnings
from structmem.tools import OPERATIONS, Level

_PREFIX: Final = re.compile(r"([A-Za-z0-9_-]+)=(.+)", re.DOTALL)
_DEFAULT_PREFIX: Final = "db_"
_SECONDS_MAX: Final = 86_400.0
"""A day: whoever waits longer is not waiting any more."""

_COUNT_MAX: Final = 1_000_000_000
"""More rows or bytes than any message holds, and still within the bounds of a query: the tools
multiply it."""

_LABEL_BYTES_MAX: Final = 1_000
"""What the journal takes for a name."""


class Named(NamedTuple):
    """A memory of the command line."""

    prefix: str
    path: Path


def main(argv: Sequence[str]) -> int:
    """Serve until the client leaves. The process's exit code; wrong arguments exit with 2."""
    show_warnings()
    parser = _parser()
    arguments = parser.parse_intermixed_args(argv)
    try:
        memories = _memories(arguments)
    except (ValueError, InvalidCall) as error:
        parser.error(str(error))
    manner = Manner(arguments.ask_via, arguments.ask_timeout, arguments.actor, arguments.approver)
    serve(memories, manner)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="structmem mcp",
        description="Serve memories to an agent over standard input and output (MCP). A model may "
        "query and describe; everything else is granted by operation (insert, all memories) or "
        "by tool (crm_insert, that memory).",
        allow_abbrev=False,
    )
    parser.add_argument(
        "memories",
        nargs="+",
        type=_named,
        metavar="[PREFIX=]PATH",
        help=f"a memory's file, which need not exist; the prefix of its tools ({_DEFAULT_PREFIX})",
    )
    for level, meaning in _LEVELS.items():
        parser.add_argument(f"--{level}", action="append", default=[], metavar="LIST", help=meaning)
    parser.add_argument(
        "--ask-via",
        choices=["elicit", "host", "deny"],
        default="elicit",
        help="who decides what is asked: the user, through the client (elicit); the host, by its "
        "own gate (host); nobody (deny)",
    )
    parser.add_argument(
        "--ask-timeout",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="how long an answer is waited for (300)",
    )
    parser.add_argument(
        "--actor", type=_label, metavar="NAME", help="who acts, for the journal (the client)"
    )
    parser.add_argument(
        "--approver",
        type=_label,
        metavar="NAME",
        help="who approves, for the journal (the user of the client)",
    )
    parser.add_argument("--read-only", action="store_true", help="offer what reads, and no more")
    parser.add_argument("--max-rows", type=_count, metavar="N", help="rows of a result (200)")
    parser.add_argument("--max-bytes", type=_count, metavar="N", help="bytes of a result (16384)")
    parser.add_argument(
        "--query-timeout", type=_seconds, metavar="SECONDS", help="how long a query may run (10)"
    )
    return parser


_LEVELS: Final[dict[Level, str]] = {
    "allow": "operations or tools that run at once, separated by commas",
    "ask": "those that a person has to approve, call by call",
    "deny": "those that are not offered",
}


def _named(text: str) -> Named:
    found = _PREFIX.fullmatch(text)
    if not found and "=" in text.partition("/")[0]:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a prefix has letters, digits, _ and -; for such a file write ./ first"
        )
    prefix, name = found.groups() if found else (_DEFAULT_PREFIX, text)
    if "\0" in name or not name:
        raise argparse.ArgumentTypeError(f"{name!r:.200} cannot be a path")
    try:
        name.encode()
        return Named(prefix, _located(name))
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{name!r:.200} is not valid Unicode text") from None
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{name!r:.200} cannot be a path: {error.strerror}"
        ) from None


def _located(name: str) -> Path:
    """Where the memory is, wherever the working directory may go. Raises `OSError`."""
    path = Path(name)
    if name == ":memory:":
        return path
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {path.parent}")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a directory, not a memory")
    if path.is_file() and not _is_database(path):
        raise argparse.ArgumentTypeError(f"{path} is no database, so no memory")
    return path.absolute()


def _label(text: str) -> str:
    """A name that the journal can keep."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r:.200} is not valid Unicode text") from None
    if size > _LABEL_BYTES_MAX:
        allowed = f"{_LABEL_BYTES_MAX:,} are allowed"
        raise argparse.ArgumentTypeError(f"the name has {size:,} bytes; {allowed}")
    return text


def _is_database(path: Path) -> bool:
    """By its first bytes (https://www.sqlite.org/fileformat.html). A new one may still be empty;
    one that cannot be read tells more about that when it is opened."""
    try:
        with path.open("rb") as stream:
            return stream.read(16) in (b"", b"SQLite format 3\0")
    except OSError:
        return True


def _seconds(text: str) -> float:
    with suppress(ValueError):
        seconds = float(text)
        if math.isfinite(seconds) and 0 < seconds <= _SECONDS_MAX:
            return seconds
    raise argparse.ArgumentTypeError(
        f"{text!r:.200} is not a number of seconds, above 0 up to a day"
    )


def _count(text: str) -> int:
    with suppress(ValueError):
        count = int(text)
        if 0 < count <= _COUNT_MAX:
            return count
    raise argparse.ArgumentTypeError(
        f"{text!r:.200} is not a whole number above 0, up to {_COUNT_MAX:,}"
    )


def _memories(arguments: argparse.Namespace) -> Memories:
    named: list[Named] = arguments.memories
    prefixes = [memory.prefix for memory in named]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            both = " and ".join(str(each.path) for each in named if each.prefix == prefix)
            raise ValueError(
                f"{both} have the same prefix {prefix}; give each its own: PREFIX=PATH. (A list of "
                "operations has commas, and no spaces.)"
            )
    if arguments.read_only:
        for memory in named:
            if not memory.path.exists():
                raise ValueError(f"there is no file {memory.path}, which --read-only needs")
    granted = permissions(prefixes, _entries(arguments))
    options = _given(read_only=arguments.read_only, query_timeout=arguments.query_timeout)
    bounds = cast("Bounds", _given(max_rows=arguments.max_rows, max_bytes=arguments.max_bytes))
    return Memories(
        [
            Held(
                memory.path,
                prefix=memory.prefix,
                permissions=granted[memory.prefix],
                options=options,
                bounds=bounds,
            )
            for memory in named
        ]
    )


def _entries(arguments: argparse.Namespace) -> Iterator[Entry]:
    for level in _LEVELS:
        for listed in getattr(arguments, level):
            yield from (Entry(level, _name(name)) for name in listed.split(",") if name.strip())


def _name(text: str) -> str:
    """As the memory calls it: the command line's own commands are written with hyphens."""
    name = text.strip()
    operation = name.replace("-", "_")
    return operation if operation in OPERATIONS else name


def _given(**options: Any) -> dict[str, Any]:
    """Those that were given, so that the others keep the defaults of whom they go to."""
    return {name: value for name, value in options.items() if value is not None}
