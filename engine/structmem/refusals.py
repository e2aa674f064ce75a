"""Why SQL that a model wrote did not run, said so that the model can do better.

SQLite tells what went wrong in a sentence, and names what it could not find. Here that becomes one
of our errors, with the nearest existing name, or with the operation that writes.
"""

import re
from collections.abc import Iterable

import apsw

from structmem.bounds import too_complex
from structmem.errors import InvalidCall, NoSuchColumn, NoSuchTable, QueryLimit, WriteInQuery
from structmem.guard import CHECKS, SCHEMA_TABLES, Action, Seen
from structmem.identifiers import INTERNAL_PREFIX, fold, nearest
from structmem.limits import LIKE_PATTERN_BYTES_MAX
from structmem.schema_clone import Columns, columns_near

_NAMES_LISTED_MAX = 20

_NO_TABLE = re.compile(r"no such table: (?P<name>.*)", re.DOTALL)
_NO_SUCH_TARGET = re.compile(r"table (?P<table>.*) has no column named (?P<name>.*)", re.DOTALL)
_NO_COLUMN = re.compile(
    r"no such column: (?P<name>.*?)(?P<quoted> - should this be a string literal .*)?", re.DOTALL
)

# What SQLite says of SQL beyond one of its limits: each is told in other words.
_BEYOND_LIMIT = re.compile(
    r"(?i)too (many|large|deep)|recursion limit|stack overflow|at most \d+|number must be between"
)

# The first two words of a statement, past comments. It only chooses a hint.
_FIRST_WORDS = re.compile(
    r"(?:\s|--[^\n]*|/\*.*?\*/)*(\w+)(?:\s+(?:temp|temporary|unique|virtual)\b)*\s*(\w*)",
    re.DOTALL | re.IGNORECASE,
)
_OPERATIONS = {
    "insert": "insert",
    "replace": "insert",
    "update": "update",
    "delete": "delete",
    "create table": "create_table",
    "create index": "create_index",
    "drop table": "drop_table",
    "drop index": "drop_index",
    "alter table": "add_column",
}
_ROWS = frozenset([apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE])
_PERMANENT = frozenset(
    [
        apsw.SQLITE_ALTER_TABLE,
        apsw.SQLITE_CREATE_INDEX,
        apsw.SQLITE_CREATE_TABLE,
        apsw.SQLITE_CREATE_TRIGGER,
        apsw.SQLITE_CREATE_VIEW,
        apsw.SQLITE_DROP_INDEX,
        apsw.SQLITE_DROP_TABLE,
        apsw.SQLITE_DROP_TRIGGER,
        apsw.SQLITE_DROP_VIEW,
    ]
)
_WRITES = {
    apsw.SQLITE_INSERT: "insert",
    apsw.SQLITE_UPDATE: "update",
    apsw.SQLITE_DELETE: "delete",
}


def no_such_table(name: str, columns: Columns) -> NoSuchTable:
    close = nearest(name.rpartition(".")[2], columns)
    hint = f"Did you mean {close!r}?" if close else f"The tables are: {_listed(columns)}."
    return NoSuchTable(f"no such table: {name}.", hint=hint)


def no_such_column(name: str, *, quoted: bool, columns: Iterable[str]) -> NoSuchColumn:
    bare = name.strip('"') if quoted else name.rpartition(".")[2]
    known = list(dict.fromkeys(columns))
    close = nearest(bare, known)
    hint = f"Did you mean {close!r}?" if close else f"The columns are: {_listed(known)}."
    if quoted:
        text = "'" + bare.replace("'", "''") + "'"
        hint += f" Text goes in single quotes: {text}."
    return NoSuchColumn(f"no such column: {name}.", hint=hint)


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _NAMES_LISTED_MAX} more" if len(known) > _NAMES_LISTED_MAX else ""
    return (", ".join(map(repr, known[:_NAMES_LISTED_MAX])) or "none yet") + more


def not_reading(text: str, action: Action | None) -> InvalidCall:
    """The error for a statement that does more than read. `action` is what the guard refused, None
    for a statement about which SQLite did not ask and that has no result."""
    match action:
        case Action(code=apsw.SQLITE_TRANSACTION | apsw.SQLITE_SAVEPOINT):
            return WriteInQuery(
                "SQL cannot begin or end a transaction here: each call is one.",
                hint="Leave it out; `undo` takes an operation back.",
            )
        case Action(code=apsw.SQLITE_ATTACH | apsw.SQLITE_DETACH):
            return WriteInQuery("A memory reads its own file only: nothing can be attached to it.")
        case Action(code=apsw.SQLITE_PRAGMA, first=name):
            return _pragma_refused(str(name))
        case Action(code=apsw.SQLITE_FUNCTION, second=name):
            return _refused(f"no such function: {name}")
        case _:
            return WriteInQuery(
                "`query` only reads; this SQL would do more. Nothing was changed.",
                hint=_instead(text, action),
            )


def _pragma_refused(name: str) -> WriteInQuery:
    if fold(name) in CHECKS:
        return WriteInQuery(
            f"PRAGMA {name} needs the table to look at.", hint=f"Write PRAGMA {name}(table)."
        )
    return WriteInQuery(
        f"PRAGMA {name} cannot be used like this: only PRAGMAs that read can.",
        hint="PRAGMA table_info(table), index_list(table) and foreign_key_list(table) tell the "
        "schema; so does `describe`.",
    )


def _instead(text: str, action: Action | None) -> str:
    """What to do instead. Method names stand in backticks, so that callers can rename them."""
    words = _FIRST_WORDS.match(text)
    first, second = (fold(word) for word in words.groups()) if words else ("", "")
    if action and action.first == "sqlite_temp_master":
        return "For an intermediate result write WITH name AS (SELECT ...) before the SELECT."
    if first in ("vacuum", "reindex", "analyze"):
        return "A memory looks after its file itself."
    if first in ("with", "explain"):
        operation = _WRITES.get(action.code if action else 0)
    else:
        operation = _OPERATIONS.get(first) or _OPERATIONS.get(f"{first} {second}")
    return f"Use `{operation or 'execute'}` to change the memory."


def not_executable(action: Action | None) -> InvalidCall:
    """The error for a statement that `execute` does not run. `action` is what was refused of it."""
    match action:
        case Action(code=apsw.SQLITE_TRANSACTION | apsw.SQLITE_SAVEPOINT):
            return InvalidCall(
                "SQL cannot begin or end a transaction here: each call is one.",
                hint="Leave it out; `undo` takes an operation back.",
            )
        case Action(code=apsw.SQLITE_ATTACH | apsw.SQLITE_DETACH):
            return InvalidCall("A memory is one file: nothing can be attached to it.")
        case Action(code=apsw.SQLITE_PRAGMA, first=name):
            return InvalidCall(
                f"PRAGMA {name} cannot be used here: what it sets would outlive the operation.",
                hint="Of the PRAGMAs only defer_foreign_keys can.",
            )
        case Action(code=apsw.SQLITE_CREATE_VTABLE | apsw.SQLITE_DROP_VTABLE, first=name):
            return InvalidCall(
                f"{name!r} is a virtual table: what happens in it could not be journaled.",
                hint="Use an ordinary table.",
            )
        case Action(code=apsw.SQLITE_ANALYZE | apsw.SQLITE_REINDEX):
            return InvalidCall("A memory looks after its indexes itself; leave it out.")
        case Action(code=apsw.SQLITE_FUNCTION, second=name):
            return _refused(f"no such function: {name}")
        case Action(code=code, first=name) if code in _ROWS:
            return _not_the_users(str(name))
        case Action(code=code, first=name, second=other) if code in _PERMANENT:
            return InvalidCall(
                f"Names beginning with {INTERNAL_PREFIX} belong to the memory itself, and only "
                f"main can be changed: {name!r}, {other!r}."
            )
        case _:
            return InvalidCall(
                "Temporary tables, views, indexes and triggers cannot be made here.",
                hint="Write WITH name AS (SELECT ...), or a table that the same call drops.",
            )


def _not_the_users(name: str) -> InvalidCall:
    if fold(name) == "sqlite_sequence":
        return InvalidCall("The AUTOINCREMENT counters in sqlite_sequence move by themselves only.")
    if fold(name) in SCHEMA_TABLES or fold(name).startswith("pragma_"):
        return InvalidCall(
            "`execute` neither reads nor writes the schema tables.",
            hint="Ask for the schema with `query`; change it with CREATE, ALTER and DROP.",
        )
    return NoSuchTable(f"no such table: {name}.")


def data_and_schema() -> InvalidCall:
    return InvalidCall(
        "One query cannot read both the schema (sqlite_schema, pragma_...) and data.",
        hint="Send two: first ask the schema, SELECT name, sql FROM sqlite_schema; then query the "
        "tables it names.",
    )


def not_text() -> InvalidCall:
    return InvalidCall(
        "A value in the result is text that is not valid UTF-8.",
        hint="Select CAST(... AS BLOB) to read its bytes.",
    )


def explain(error: apsw.Error, text: str, seen: Seen, columns: Columns) -> InvalidCall:
    """Our error for SQL that SQLite, or the guard that has `seen` it, refused to compile or run.
    `columns` are the names that hints can offer."""
    if isinstance(error, apsw.AuthError):
        if seen.refused is None and seen.hidden is not None:
            return no_such_table(seen.hidden, columns)
        return not_reading(text, seen.refused)
    return explain_error(str(error), text, columns)


def explain_error(message: str, text: str, columns: Columns) -> InvalidCall:
    """Our error for what SQLite says of SQL `text` that it does not compile or run."""
    if table := _NO_TABLE.fullmatch(message):
        return no_such_table(table["name"], columns)
    if target := _NO_SUCH_TARGET.fullmatch(message):
        return no_such_column(
            target["name"], quoted=False, columns=columns.get(target["table"], [])
        )
    if column := _NO_COLUMN.fullmatch(message):
        near = columns_near(columns, text)
        return no_such_column(column["name"], quoted=bool(column["quoted"]), columns=near)
    if message.startswith("LIKE or GLOB pattern too complex"):
        return QueryLimit(
            f"A pattern of LIKE or GLOB is longer than {LIKE_PATTERN_BYTES_MAX} bytes.",
            hint="To find a long text write instr(column, text) > 0.",
        )
    if is_beyond_limit(message):
        return too_complex(message)
    return _refused(message)


def is_beyond_limit(message: str) -> bool:
    """Whether SQLite says this of SQL that is beyond one of its limits."""
    return _BEYOND_LIMIT.search(message) is not None


def _refused(message: str) -> InvalidCall:
    return InvalidCall(f"SQLite refuses this: {message}.")
