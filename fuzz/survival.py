"""What a disk may hold after a power loss: all that was synced, and some of what was not.

A *policy* chooses among the writes and truncations that were not synced, and among the names. Any
choice is possible for a real disk, which writes in what order it likes, sector by sector.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, assert_never

from msgspec import Struct, field

from fuzz.disk import (
    Event,
    Found,
    Named,
    NamesSynced,
    Synced,
    SyncFailed,
    Truncated,
    Unnamed,
    Wrote,
)

SECTOR_BYTES: Final = 512

Files = dict[str, bytes]


class Policy(StrEnum):
    NONE = "nothing"
    ALL = "everything"
    PREFIX = "the first ones"
    SUFFIX = "the last ones"
    SUBSET = "some"
    ONE_FILE = "those of one file"
    TORN = "some, one torn"


class _Change(Struct):
    """A write or a truncation. `kept` are the sectors that survive; None is all of it."""

    event: Wrote | Truncated
    order: int
    is_durable: bool = False
    is_doubtful: bool = False
    """Its sync failed, and no later one makes it durable."""


class _Content(Struct):
    """A file: what is durable at its beginning of time, and what changed since."""

    base: bytearray
    changes: list[_Change] = field(default_factory=list[_Change])

    def synced(self) -> None:
        for change in self.changes:
            change.is_durable = not change.is_doubtful
        while self.changes and self.changes[0].is_durable:
            _apply(self.base, self.changes.pop(0).event, None)

    def sync_failed(self) -> None:
        for change in self.changes:
            change.is_doubtful = not change.is_durable


class Platter:
    """The files as the events tell, one after the other; `surviving` may be asked at any time."""

    def __init__(self) -> None:
        self._files: dict[int, _Content] = {}
        self._names: list[dict[str, int]] = [{}]
        """The directory: as it is durable, and after each change since."""
        self._order = 0

    def take(self, event: Event) -> None:
        match event:
            case Found(name, file, content):
                self._files[file] = _Content(bytearray(content))
                self._names = [{**names, name: file} for names in self._names]
            case Named(name, file):
                self._files[file] = _Content(bytearray())
                self._names.append({**self._names[-1], name: file})
            case Unnamed(gone):
                left = {name: file for name, file in self._names[-1].items() if name != gone}
                self._names.append(left)
            case NamesSynced():
                del self._names[:-1]
            case Wrote(file) | Truncated(file):
                self._order += 1
                self._files[file].changes.append(_Change(event, self._order))
            case Synced(file):
                self._files[file].synced()
            case SyncFailed(file):
                self._files[file].sync_failed()
            case _:
                assert_never(event)

    def surviving(self, policy: Policy, random: Random) -> Files:
        """The files after a power loss now, by name."""
        choice = self._chosen(policy, random)
        torn = self._torn(choice, random) if policy is Policy.TORN else None
        return {
            name: _content(self._files[file], choice, torn, random)
            for name, file in sorted(self._surviving_names(policy, random).items())
        }

    def _chosen(self, policy: Policy, random: Random) -> set[int]:
        """Which changes survive, of those that need not."""
        at_risk = sorted(
            (change.order, file)
            for file, content in self._files.items()
            for change in content.changes
            if not change.is_durable
        )
        orders = [order for order, _file in at_risk]
        match policy:
            case Policy.NONE:
                return set()
            case Policy.ALL:
                return {*orders}
            case Policy.PREFIX:
                return {*orders[: random.randint(0, len(orders))]}
            case Policy.SUFFIX:
                return {*orders[random.randint(0, len(orders)) :]}
            case Policy.ONE_FILE:
                lucky = random.choice([file for _order, file in at_risk] or [0])
                return {order for order, file in at_risk if file == lucky}
            case Policy.SUBSET | Policy.TORN:
                share = random.choice([0.2, 0.5, 0.9])
                return {order for order in orders if random.random() < share}
            case _:
                assert_never(policy)

    def _torn(self, choice: set[int], random: Random) -> int | None:
        """One change that survives in part: often the last, which the power loss interrupts."""
        latest = max(choice, default=None)
        if latest is None or random.random() < 0.5:
            return latest
        return random.choice(sorted(choice))

    def _surviving_names(self, policy: Policy, random: Random) -> dict[str, int]:
        match policy:
            case Policy.NONE:
                return self._names[0]
            case Policy.ALL:
                return self._names[-1]
            case Policy.PREFIX:
                return random.choice(self._names)
            case _:
                return self._mixed_names(random)

    def _mixed_names(self, random: Random) -> dict[str, int]:
        """Each name as it was at a moment of its own."""
        ever = sorted({name for names in self._names for name in names})
        chosen = {name: random.choice(self._names).get(name) for name in ever}
        return {name: file for name, file in chosen.items() if file is not None}


def _content(content: _Content, choice: set[int], torn: int | None, random: Random) -> bytes:
    found = bytearray(content.base)
    for change in content.changes:
        if change.is_durable or change.order in choice:
            _apply(found, change.event, random if change.order == torn else None)
    return bytes(found)


def _apply(content: bytearray, event: Wrote | Truncated, torn: Random | None) -> None:
    """Do it to `content`; when `torn`, only to some of its sectors."""
    if isinstance(event, Truncated):
        del content[event.size :]
        content.extend(bytes(event.size - len(content)))
        return
    for start, end in _sectors(event):
        if torn is None or torn.random() < 0.5:
            content.extend(bytes(max(0, start - len(content))))
            content[start:end] = event.data[start - event.offset : end - event.offset]


def _sectors(event: Wrote) -> list[tuple[int, int]]:
    """The parts of a write that a disk does one by one."""
    end = event.offset + len(event.data)
    inner = range((event.offset // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES)
    bounds = [event.offset, *inner, end]
    return list(pairwise(bounds))


def put(files: Files, directory: Path) -> None:
    """Make `directory` with these files."""
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)


def everything(events: Iterable[Event]) -> Files:
    """What a process that dies leaves: all that it wrote. (To read the real files of an open memory
    would drop SQLite's locks.)"""
    platter = Platter()
    for event in events:
        platter.take(event)
    return platter.surviving(Policy.ALL, Random(0))
