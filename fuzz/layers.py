"""The layers of the query, each built without the others, attacked, and asked whether it holds.

Each has a copy of the file of its own. What a layer is not for is left out: the verdicts of a
search show what each stops, and `docs/query-isolation.md` says so.
"""

import shutil
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw

from structmem import sql
from structmem.connection import open_reader
from structmem.errors import InvalidCall
from structmem.guard import Gate, Guard, Names
from structmem.identifiers import fold, is_internal
from structmem.results import Parameters
from structmem.sandbox import Sandbox
from tests.engine.reading import guarded

_STEPS_MAX: Final = 100_000
_STEPS_BETWEEN_LOOKS: Final = 1000

# They set what belongs to the whole process.
_OF_THE_PROCESS: Final = ("heap_limit", "store_directory")


class Layer:
    """One layer alone, on a copy of its own. `run` gives it a text."""

    def __init__(
        self, name: str, path: Path, connection: apsw.Connection, run: Callable[[str, Any], None]
    ) -> None:
        self._name, self._path, self._connection, self._run = name, path, connection, run
        self._before = guarded.content(path)

    def attack(self, kind: str, text: str, params: Parameters) -> str:
        """The verdict: whether the text ran."""
        kind = kind.partition(",")[0]
        if any(part in text.lower() for part in _OF_THE_PROCESS):
            return f"{self._name} alone, {kind}: left out"
        try:
            with chdir(self._path.parent):
                self._run(text, params)
        except (apsw.Error, InvalidCall, ValueError, TypeError, KeyError, OverflowError):
            return f"{self._name} alone, {kind}: stopped"
        return f"{self._name} alone, {kind}: ran"

    def check(self) -> None:
        """The content is as it was."""
        after = guarded.content(self._path)
        assert after == self._before, f"{self._name} alone let the content change"

    def close(self) -> None:
        self._connection.close()


def layers(directory: Path, path: Path) -> list[Layer]:
    """Every layer that keeps the content by itself, on copies of the file at `path`."""
    return [
        make(_copied(path, directory / make.__name__)) for make in (_rollback, _guard, _read_only)
    ]


def _copied(path: Path, directory: Path) -> Path:
    """In a directory of its own, for the files that SQL makes. The file has no log now."""
    directory.mkdir()
    return Path(shutil.copyfile(path, directory / path.name))


def _rollback(path: Path) -> Layer:
    """The gate and the rollback: SQL of every kind runs, on a connection that may write."""
    connection = _writable(path)
    sandbox = Sandbox(connection, Gate())

    def run(text: str, params: Any) -> None:
        sandbox.begin()
        try:
            with sandbox.run(sandbox.examine(text), params) as rows:
                for _row in rows:
                    pass
        finally:
            sandbox.end()

    _bound(connection)
    return Layer("rollback", path, connection, run)


def _guard(path: Path) -> Layer:
    """The guard, in autocommit, on a connection that may write, several statements at once."""
    connection = _writable(path)
    guard = Guard()
    objects = sql.rows(connection, "SELECT type, name FROM sqlite_schema")
    users = {
        kind: frozenset(fold(n) for k, n in objects if k == kind and not is_internal(n))
        for kind in ("table", "view")
    }
    guard.know(Names(users["table"], users["view"]))
    connection.authorizer = guard

    def run(text: str, params: Any) -> None:
        # SQLite does not ask about these, and they change the order of rowids only.
        if any(word in text.lower() for word in ("vacuum", "reindex")):
            raise InvalidCall("left out")
        sql.run(connection, text, params)

    _bound(connection)
    return Layer("guard", path, connection, run)


def _read_only(path: Path) -> Layer:
    """The file opened for reading, in autocommit, without a guard, several statements at once."""
    connection = open_reader(path, cached_statements=0)
    _bound(connection)
    return Layer("read-only file", path, connection, partial(sql.run, connection))


def _writable(path: Path) -> apsw.Connection:
    """Nothing stays compiled: SQLite 3.54 crashes over an EXPLAIN that was kept while VACUUM read
    the schema anew. (The engine keeps nothing compiled that it did not write.)"""
    return apsw.Connection(str(path), statementcachesize=0)


def _bound(connection: apsw.Connection) -> None:
    """End what runs on and on after a number of steps, so that a seed does the same every time."""
    looks = 0

    def is_enough() -> bool:
        nonlocal looks
        looks += 1
        return looks % (_STEPS_MAX // _STEPS_BETWEEN_LOOKS) == 0

    connection.set_progress_handler(is_enough, _STEPS_BETWEEN_LOOKS)
