"""What SQL that a model wrote may do: read, and nothing else.

SQLite asks a connection's authorizer about every action while it compiles a statement (and again
when a `pragma_*` table function runs). A `Guard` is such an authorizer. It is an allow-list:
SELECT, functions, reads of the memory's own tables and views, and the PRAGMAs listed here.

Rules:

- What a statement reads is also seen by the pages that its program opens. SQLite does not ask about
  a table of which NATURAL JOIN or USING compares columns and nothing else is used.
- A guard never changes its mind about what SQL of a model may do. A statement that was compiled
  while the guard was off would run without being asked about again.
- Our own transaction control and catalogue reads go through `Gate.ours`, one constant statement at
  a time, on a connection that keeps no compiled statements.
- What exists and is not to be seen is *hidden*; the callers report it as if it did not exist.
"""

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from enum import Enum, auto

import apsw
from msgspec import Struct, field

from structmem.bounds import Instruction, Watch
from structmem.identifiers import fold, is_internal

SCHEMA_TABLES = frozenset(
    ["sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema"]
)
"""SQLite's names for the tables that hold the schema."""

_SCHEMA_PRAGMAS = frozenset(
    [
        "database_list",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "table_info",
        "table_list",
        "table_xinfo",
    ]
)
# Read when given no value; with one, SQLite sets them.
_SETTINGS = frozenset(
    [
        "application_id",
        "auto_vacuum",
        "busy_timeout",
        "cache_size",
        "collation_list",
        "compile_options",
        "data_version",
        "encoding",
        "foreign_keys",
        "freelist_count",
        "function_list",
        "journal_mode",
        "module_list",
        "page_count",
        "page_size",
        "pragma_list",
        "query_only",
        "recursive_triggers",
        "schema_version",
        "synchronous",
        "user_version",
    ]
)
CHECKS = frozenset(["foreign_key_check", "integrity_check", "quick_check"])
"""PRAGMAs whose value is the table to look at. Without one they would look at our own tables."""

TABLE_FUNCTIONS = frozenset(["json_each", "json_tree"])

# Side effects, or parts of table kinds that a memory does not have: some of these run SQL of their
# own or take time that grows with the square of their input.
_FUNCTIONS_REFUSED = frozenset(["load_extension", "sqlite_log"])
_FUNCTION_FAMILIES_REFUSED = ("fts3", "fts5", "geopoly", "rtree")


# How SQLite calls a subquery that has no name.
_PART = re.compile(r"\((subquery|join)-\w+\)")


class Place(Enum):
    """Where an answer comes from."""

    ANYWHERE = auto()
    """Not from the file: table functions, common table expressions, views (not their tables)."""
    DATA = auto()
    SCHEMA = auto()
    HIDDEN = auto()


class Names(Struct, frozen=True):
    """The names that a statement can meet, folded as SQLite compares them."""

    tables: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    """Table functions that this SQLite has built in."""

    def place_of(self, table: str, column: str) -> Place:
        """Where a read of `table` goes. SQLite asks with an empty column when no column is used,
        and then also about names that stand for no table but for part of the statement."""
        name = fold(table)
        if name in SCHEMA_TABLES:
            return Place.SCHEMA
        if name in self.tables or name == "sqlite_sequence":
            return Place.DATA
        if name in self.views or name in TABLE_FUNCTIONS or _PART.fullmatch(name):
            return Place.ANYWHERE
        if name.startswith("pragma_"):
            return _place_of_pragma(name.removeprefix("pragma_"))
        reserved = is_internal(name) or name.startswith("sqlite_") or name in self.modules
        return Place.HIDDEN if column or reserved else Place.ANYWHERE


def _place_of_pragma(name: str) -> Place:
    if name in _SCHEMA_PRAGMAS:
        return Place.SCHEMA
    return Place.DATA if name in _SETTINGS or name in CHECKS else Place.HIDDEN


class Action(Struct, frozen=True):
    """What SQLite asked about: its code and the two names that come with it."""

    code: int
    first: str | None
    second: str | None


class Seen(Struct):
    """What the guard was asked about while one statement was compiled and run."""

    places: set[Place] = field(default_factory=set[Place])
    refused: Action | None = None
    """The first action that is not reading."""
    hidden: str | None = None
    """The first table that was asked for and is not to be seen."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the schema was asked for, and nothing that nobody may do."""
        return Place.SCHEMA in self.places and self.refused is None and self.hidden is None


class Gate:
    """An authorizer that refuses transaction control, except from ourselves.

    With this alone, and one statement at a time, a transaction that is always rolled back keeps
    the data as it is. `Guard` refuses everything else that is not reading.
    """

    def __init__(self) -> None:
        self._is_ours = False
        self.watch: Watch | None = None
        """What bounds the time of compiling, too: no progress handler is asked meanwhile. It is
        looked at with each SELECT, of which nested views have thousands."""

    @contextmanager
    def ours(self) -> Generator[None]:
        """For one constant statement of our own, compiled and run to its end inside."""
        self._is_ours = True
        try:
            yield
        finally:
            self._is_ours = False

    def __call__(
        self,
        code: int,
        first: str | None,
        second: str | None,
        database: str | None,
        source: str | None,
    ) -> int:
        if self._is_ours:
            return apsw.SQLITE_OK
        self.look(code)
        if self.allows(Action(code, first, second)):
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    def look(self, code: int) -> None:
        """Raise if what is being compiled is to end. The error passes through SQLite."""
        if code == apsw.SQLITE_SELECT and self.watch is not None:
            self.watch.look()

    def allows(self, action: Action) -> bool:
        return action.code not in (apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT)


class Guard(Gate):
    """An authorizer that allows reading only, and notes where it reads.

    `elsewhere` are places that are refused here because another connection answers for them.
    """

    def __init__(self, elsewhere: Iterable[Place] = ()) -> None:
        super().__init__()
        self._refused_places = frozenset([*elsewhere, Place.HIDDEN])
        self._names = Names()
        self._pages: Mapping[int, str] = {}
        self.seen = Seen()

    def know(self, names: Names, pages: Mapping[int, str] | None = None) -> None:
        """Take these names for the ones in the file, from now on, and these root pages for theirs
        (see `schema.pages`)."""
        self._names = names
        self._pages = pages or {}

    def allows_program(self, program: Iterable[Instruction]) -> bool:
        """Whether a compiled statement reads only where it may. Notes where that is."""
        tables = {self._pages.get(step.page, "") for step in program if step.page is not None}
        allowed = [self._may_go_to(self._names.place_of(name, "*"), name) for name in tables]
        return all(allowed)

    def forget(self) -> None:
        """Begin anew with what was seen."""
        self.seen = Seen()

    def allows(self, action: Action) -> bool:
        match action.code:
            case apsw.SQLITE_SELECT | apsw.SQLITE_RECURSIVE:
                return True
            case apsw.SQLITE_READ:
                place = self._names.place_of(action.first or "", action.second or "")
                return self._may_go_to(place, action.first)
            case apsw.SQLITE_FUNCTION if is_harmless(action.second or ""):
                return True
            case apsw.SQLITE_PRAGMA:
                return self._allows_pragma(action)
            case _:
                return self._refuse(action)

    def _allows_pragma(self, action: Action) -> bool:
        name = fold(action.first or "")
        if name in _SCHEMA_PRAGMAS:
            return self._may_go_to(Place.SCHEMA, name)
        if name in _SETTINGS and action.second is None:
            return self._may_go_to(Place.DATA, name)
        if name in CHECKS and action.second is not None:
            known = fold(action.second) in self._names.tables
            return self._may_go_to(Place.DATA if known else Place.HIDDEN, action.second)
        return self._refuse(action)

    def _may_go_to(self, place: Place, table: str | None) -> bool:
        self.seen.places.add(place)
        if place is Place.HIDDEN and self.seen.hidden is None:
            self.seen.hidden = table
        return place not in self._refused_places

    def _refuse(self, action: Action) -> bool:
        self.seen.refused = self.seen.refused or action
        return False


def is_harmless(function: str) -> bool:
    """Whether SQL of a model may call it."""
    name = fold(function)
    return name not in _FUNCTIONS_REFUSED and not name.startswith(_FUNCTION_FAMILIES_REFUSED)
