"""A writer that does mixed writes until it dies, and says so on its standard output, in lines:

```
begin                    a write begins
done 7:0a1b…             it has returned, with this position ("done None": there was nothing to do)
dies before a log sync   the last line, if death is of its own choosing
```

`python -m tests.engine.doomed PATH SEED [OPERATION COUNT MOMENT]`: with the last three it kills
itself when SQLite does that file operation for the n-th time. Else it waits to be killed.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw

from structmem import StructuredMemory
from tests.engine.workload import write

WRITES: Final = ("log write", "file write")
OPERATIONS_MAX: Final = {
    "log write": 1_200,
    "log sync": 20,
    "file write": 500,
    "file sync": 3,
    "file cut": 2,
}
"""The file operations, and the highest count to die at. Those on the file, once it is made, are a
checkpoint's."""


def moments(operation: str) -> tuple[str, ...]:
    """When to die: a write can also be done in part."""
    return ("before", "in", "after") if operation in WRITES else ("before", "after")


class Death:
    """Kills this process at the `count`-th of these file operations."""

    def __init__(self, operation: str, count: int, moment: str) -> None:
        self._operation, self._left, self._moment = operation, count, moment

    def is_due(self, operation: str) -> bool:
        if operation != self._operation:
            return False
        self._left -= 1
        return self._left == 0

    def at(self, moment: str) -> None:
        if moment == self._moment:
            say(f"dies {moment} a {self._operation}")
            os.kill(os.getpid(), signal.SIGKILL)


class DoomedFile(apsw.VFSFile):
    """A file whose writes, syncs and cuts death looks at. (Its methods have SQLite's names.)"""

    def __init__(self, name: Any, flags: list[int], death: Death) -> None:
        super().__init__("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._kind = "log" if path.endswith("-wal") else "file"
        self._death = death

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        half = len(data) // 2
        self._do(
            "write",
            lambda: apsw.VFSFile.xWrite(self, data, offset),  # pyright: ignore[reportUnknownMemberType]
            lambda: apsw.VFSFile.xWrite(self, data[:half], offset),  # pyright: ignore[reportUnknownMemberType]
        )

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._do("sync", lambda: apsw.VFSFile.xSync(self, flags))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._do("cut", lambda: apsw.VFSFile.xTruncate(self, newsize))

    def _do(
        self, what: str, work: Callable[[], None], half: Callable[[], None] = lambda: None
    ) -> None:
        if not self._death.is_due(f"{self._kind} {what}"):
            return work()
        self._death.at("before")
        half()
        self._death.at("in")
        work()
        return self._death.at("after")


class DoomedFileSystem(apsw.VFS):
    """What every connection of this process uses from now on."""

    def __init__(self, death: Death) -> None:
        super().__init__("doomed", "unix", makedefault=True)
        self._death = death

    def xOpen(self, name: Any, flags: list[int]) -> DoomedFile:  # noqa: N802
        return DoomedFile(name, flags, self._death)


def say(line: str) -> None:
    """One line, at once: it is in the pipe when this returns."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main(path: str, seed: str, *death: str) -> None:
    if death:
        operation, count, moment = death
        kept = DoomedFileSystem(Death(operation, int(count), moment))
        assert kept
    random = Random(int(seed))
    with StructuredMemory(Path(path), actor=f"writer {seed}") as memory:
        while True:
            say("begin")
            say(f"done {write(memory, random).position}")


if __name__ == "__main__":
    main(*sys.argv[1:])
