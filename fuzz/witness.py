"""What plain SQLite says to somebody who may only read: the second opinion about a query.

Two databases are asked. The *file* is the memory's own, on a read-only connection without any of
the layers. The *shadow* is a private database that holds the same objects and rows of the user and
nothing of the memory's own; whatever a query shows of those, the shadow cannot know.

Neither shares code with the engine. An authorizer that lets only reading pass notes what a
statement reads, so that an answer can be demanded where there must be one.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

import apsw
from msgspec import Struct, field

from structmem import sql

ROWS_MAX: Final = 1000
_STEPS_MAX: Final = 300_000
_STEPS_BETWEEN_LOOKS: Final = 1000

_PREFIX: Final = "_structmem_"
_READING: Final = {
    *(apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE),
}
_OF_SCHEMA: Final = {
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
    "foreign_key_list",
}
# They differ between connections, or tell what a connection can do: not compared. Neither is
# `database_list`, which shows the temporary database once its schema was read.
_OF_SETTINGS: Final = {
    *("application_id", "auto_vacuum", "busy_timeout", "cache_size", "collation_list"),
    *(
        "compile_options",
        "data_version",
        "database_list",
        "encoding",
        "foreign_keys",
        "freelist_count",
    ),
    *("function_list", "journal_mode", "module_list", "page_count", "page_size", "pragma_list"),
    *(
        "database_list",
        "query_only",
        "recursive_triggers",
        "schema_version",
        "synchronous",
        "user_version",
    ),
}
_SCHEMA_TABLES: Final = {
    *("sqlite_schema", "sqlite_master", "sqlite_temp_schema", "sqlite_temp_master"),
}
_PAGES: Final = "SELECT rootpage, tbl_name FROM sqlite_schema WHERE rootpage > 0"
_OPENING: Final = ("OpenRead", "ReopenIdx")
_CHECKS: Final = {"foreign_key_check", "integrity_check", "quick_check"}


class Place(StrEnum):
    """What a statement reads."""

    DATA = "data"
    SCHEMA = "schema"
    SETTINGS = "settings"
    OURS = "ours"


class Saying(StrEnum):
    """How it went."""

    ANSWER = "answer"
    ERROR = "error"
    NOT_READING = "not reading"
    TOO_LONG = "too long"


class Said(Struct, frozen=True):
    """What one database said. `answer` has the columns and rows of an `ANSWER`."""

    how: Saying
    places: frozenset[Place] = frozenset()
    answer: str = ""
    alone: bool = True
    """Whether nothing follows the first statement."""
    fits: bool = True
    """Whether there was a value for each parameter, and no other."""


class _Notes(Struct):
    """About the statement that is being compiled."""

    places: set[Place] = field(default_factory=set[Place])
    compiling: bool = True
    refused: bool = False
    alone: bool = True
    fits: bool = True

    def read(self, place: Place | None) -> None:
        if place is not None and self.compiling:
            self.places.add(place)

    def run_pragma(self, place: Place) -> None:
        """Some are told of only when they run. What they ask for themselves is not the statement's:
        `table_list` compiles the views."""
        self.places.add(place)
        self.compiling = False


class Plain:
    """One database that is asked, on a connection that lets only reading pass."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._tables = _tables(connection)
        self._pages = dict(sql.rows(connection, _PAGES))
        self._notes = _Notes()
        self._looks = 0
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.set_progress_handler(self._is_enough, _STEPS_BETWEEN_LOOKS)
        connection.authorizer = self._authorize

    def ask(self, text: str, params: Any) -> Said:
        """Run the first statement of `text`."""
        self._notes, self._looks = _Notes(), 0
        try:
            columns, rows = self._run(text, params)
        except apsw.InterruptError:
            return self._said(Saying.TOO_LONG)
        except (apsw.Error, ValueError, TypeError, KeyError, OverflowError):
            return self._said(Saying.NOT_READING if self._notes.refused else Saying.ERROR)
        how = Saying.NOT_READING if self._notes.refused else Saying.ANSWER
        return self._said(how, repr((columns, rows)))

    def compiles(self, text: str) -> bool:
        """Whether `text` is one statement."""
        self._notes = _Notes()
        try:
            return len(list(islice(sql.compiled(self._connection, text), 2))) == 1
        except (apsw.Error, ValueError):
            return False

    def close(self) -> None:
        self._connection.close()

    def _run(self, text: str, params: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        statements = sql.compiled(self._connection, text)
        first = next(statements, None)
        if first is None:
            raise ValueError(text)
        self._notes.compiling = False
        self._notes.places |= self._opened(first.first_query, first.bindings_count)
        self._notes.refused |= not first.description  # REINDEX and VACUUM are not asked about
        self._notes.alone = _is_last(statements)
        self._notes.fits = _fit(params, list(first.bindings_names))
        with sql.once(self._connection, first.first_query, params) as rows:
            found = list(islice(rows, ROWS_MAX))
        return [name for name, *_type in first.description or ()], found

    def _said(self, how: Saying, answer: str = "") -> Said:
        notes = self._notes
        return Said(how, frozenset(notes.places), answer, notes.alone, notes.fits)

    def _is_enough(self) -> bool:
        self._looks += 1
        return self._looks * _STEPS_BETWEEN_LOOKS > _STEPS_MAX

    def _authorize(
        self, code: int, first: str | None, second: str | None, *_rest: str | None
    ) -> int:
        if code == apsw.SQLITE_READ:
            self._notes.read(self._place_of_table((first or "").lower()))
        elif code == apsw.SQLITE_PRAGMA:
            place = _place_of_pragma((first or "").lower(), second)
            if place is None:
                self._notes.refused = True
                return apsw.SQLITE_DENY
            self._notes.run_pragma(place)
        elif code not in _READING:
            self._notes.refused = True
            return apsw.SQLITE_DENY
        return apsw.SQLITE_OK

    def _opened(self, statement: str, parameters: int) -> set[Place]:
        """What the program opens: SQLite does not ask about every table that is joined."""
        values = [None] * parameters
        with sql.once(self._connection, statement, values, explain=True) as steps:
            opened = {step[3] for step in _readable(steps) if step[1] in _OPENING}
        tables = {"sqlite_schema", *self._pages.values()}
        names = {"sqlite_schema" if page == 1 else self._pages.get(page, "") for page in opened}
        places = {self._place_of_table(name.lower()) for name in names & tables}
        return {place for place in places if place is not None}

    def _place_of_table(self, name: str) -> Place | None:
        """None for what is no table of the file: a part of the statement, a table function."""
        if name.startswith(_PREFIX):
            return Place.OURS
        if name.startswith("pragma_"):
            is_schema = name.removeprefix("pragma_") in _OF_SCHEMA
            return Place.SCHEMA if is_schema else Place.SETTINGS
        if name in _SCHEMA_TABLES:
            return Place.SCHEMA
        return Place.DATA if name in self._tables else None


def _fit(params: Any, names: list[str | None]) -> bool:
    if isinstance(params, dict):
        return set(cast("dict[object, object]", params)) == set(names)
    return len(params) == len(names) and all(n is None or n.isdecimal() for n in names)


def _tables(connection: apsw.Connection) -> set[str]:
    listed = sql.rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name.lower() for (name,) in listed}


def _readable(steps: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The steps of a program, but for those that hold a constant of bytes that are no text."""
    while True:
        try:
            yield next(steps)
        except StopIteration:
            return
        except UnicodeDecodeError:
            continue


def _is_last(statements: Iterator[object]) -> bool:
    try:
        return next(statements, None) is None
    except apsw.Error:
        return False


def _place_of_pragma(name: str, value: str | None) -> Place | None:
    if name in _OF_SCHEMA:
        return Place.SCHEMA
    if name == "database_list":
        return Place.SETTINGS
    if name in _CHECKS and value is not None:
        return Place.OURS if value.lower().startswith(_PREFIX) else Place.SETTINGS
    return Place.SETTINGS if name in _OF_SETTINGS and value is None else None


def plain_file(path: Path) -> Plain:
    """The memory's file, its own tables included."""
    return Plain(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY))


def shadow(path: Path) -> Plain:
    """The user's objects and rows of the file, and nothing else."""
    source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    made = apsw.Connection(":memory:")
    made.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    objects = sql.rows(source, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid")
    user_objects = [each for each in objects if not each[2].startswith(_PREFIX)]
    for _kind, name, _table, text in user_objects:
        if text is not None and name != "sqlite_sequence":
            sql.run(made, text)
    sql.run(made, "DELETE FROM sqlite_sequence")
    for kind, name, _table, _text in user_objects:
        if kind == "table" and name != "sqlite_sequence":
            _copy_rows(source, made, name)
    made.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
    _copy_rows(source, made, "sqlite_sequence")
    source.close()
    return Plain(made)


def _copy_rows(source: apsw.Connection, made: apsw.Connection, table: str) -> None:
    """With their rowids, in their order."""
    quoted = '"' + table.replace('"', '""') + '"'
    listed = sql.rows(source, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (table,))
    names = ", ".join('"' + name.replace('"', '""') + '"' for (name,) in listed)
    places = ", ".join("?" for _ in (table, *listed))
    if table == "sqlite_sequence":
        sql.run(made, f"DELETE FROM {table}")
    rows = sql.rows(source, f"SELECT rowid, {names} FROM {quoted} ORDER BY rowid")
    sql.run_many(made, f"INSERT INTO {quoted}(rowid, {names}) VALUES ({places})", rows)
