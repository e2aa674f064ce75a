"""Which rows an operation touched: found out by SQLite, not derived from the statement.

Temporary triggers note the rowid of every row that is inserted, updated or deleted, be it by the
statement, a foreign key action or a trigger of the user's. They live in the connection's own temp
schema, so the file stays plain SQLite. They are made on demand, for exactly the tables that SQLite
says a statement will write. What they call is a function of ours, one for each table, that adds to
a set: a temporary table would cost a statement to empty, one to read, and a call of the hook below
for each row noted.

The preupdate hook records the same beside them, because triggers do not see the rows that REPLACE
deletes (they would with `recursive_triggers`, which breaks the commonest trigger there is, the one
that sets `updated_at`).

Values are never captured: `images` reads them, before from a snapshot and after from the writer.

Invariants:

- What the triggers saw, the hook saw; so what was touched is what the hook saw.
- `armed` names the tables that have triggers now: both commit, and roll back, together.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import apsw
from msgspec import Struct

from structmem import schema, sql
from structmem.bounds import Bounds, Instruction, Watch, ceiling
from structmem.errors import InvalidCall
from structmem.guard import SCHEMA_TABLES
from structmem.identifiers import INTERNAL_PREFIX, fold, is_internal, quote
from structmem.sandbox import program
from structmem.schema import Table
from structmem.set_off import SetOff
from structmem_journal import invariant

_EVENTS: Final = {
    "INSERT": "{note}({new})",
    "DELETE": "{note}({old})",
    "UPDATE": "{note}({old}), CASE WHEN {new} <> {old} THEN {note}({new}) END",
}
_WRITES = frozenset((apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE))


class Compiled(Struct, frozen=True):
    """What compiling a statement tells: the user's tables that it may write, and what it sets
    off."""

    tables: frozenset[str]
    set_off: SetOff


class Capture:
    """The triggers and the hook of one writing connection. Set up when it is opened: a statement
    that was compiled before the hook was there would pass it by."""

    def __init__(self, connection: apsw.Connection, bounds: Bounds, timeout: float) -> None:
        self._connection = connection
        self._bounds = bounds
        self._timeout = timeout
        self._hooked: dict[str, set[int]] = {}
        self._noted: dict[str, set[int]] = {}
        self._numbers: dict[str, int] = {}
        self._effects_of: dict[str, Compiled] = {}
        self._armed: frozenset[str] = frozenset()
        self._armed_before = self._armed
        connection.preupdate_hook(self._on_change)

    @property
    def armed(self) -> bool:
        """Whether a trigger stands: then a schema change by others makes the connection stale."""
        return bool(self._armed)

    def begin(self) -> None:
        """At the start of a transaction."""
        self._hooked.clear()
        for rowids in self._noted.values():
            rowids.clear()

    def committed(self) -> None:
        """The transaction's triggers stay."""
        self._armed_before = self._armed

    def rolled_back(self) -> None:
        """The transaction's triggers are gone with it. Nothing happens when it never began, as when
        another process held the write lock for too long."""
        self._armed = self._armed_before

    def schema_changed(self) -> None:
        """What statements write may be different now."""
        self._effects_of.clear()

    def disarm(self) -> None:
        """Remove all triggers, in this transaction: they stand in the way of a schema change, and
        would be stale after it."""
        for table in self._armed:
            for event in _EVENTS:
                sql.run(self._connection, f"DROP TRIGGER temp.{_trigger_name(event, table)}")
        self._armed = frozenset()

    @contextmanager
    def paused(self) -> Generator[None]:
        """While recorded effects are put in place: they tell what is touched."""
        self._connection.preupdate_hook(None)
        try:
            yield
        finally:
            self._connection.preupdate_hook(self._on_change)

    def tables_written_by(self, statement: str) -> frozenset[str]:
        """The names of the user's tables that `statement` may write, foreign key actions and
        triggers included. The statement is compiled, not run. Raises `QueryLimit` when that takes
        longer than `timeout` seconds, or the memory of a query: triggers may read nested views."""
        return self._compiled(statement).tables

    def set_off_by(self, statement: str) -> SetOff:
        """What SQL of the user's schema `statement` runs beside itself."""
        return self._compiled(statement).set_off

    def arm(self, tables: Iterable[Table]) -> None:
        """Make the triggers of these tables, where they are not there yet."""
        for table in tables:
            if table.name not in self._armed:
                for trigger in _triggers(table, self._noting(table.name)):
                    sql.run(self._connection, trigger)
                self._armed |= {table.name}

    def touched(self) -> dict[str, list[int]]:
        """The rowids touched in this transaction, ascending, by table."""
        for name, rowids in self.seen_by_triggers().items():
            seen = rowids <= self._hooked.get(name, set())
            invariant(seen, f"the hook saw every row of {name!r} that a trigger saw")
        return {name: sorted(rowids) for name, rowids in sorted(self._hooked.items())}

    def seen_by_triggers(self) -> dict[str, set[int]]:
        """The rowids that triggers noted in this transaction, by table: all but those of rows that
        REPLACE deleted. What a statement did and took back is among them."""
        return {name: rowids for name, rowids in self._noted.items() if rowids}

    def _noting(self, table: str) -> str:
        """The name of the function that notes a row of `table`."""
        function = f"{INTERNAL_PREFIX}note_{self._numbers.setdefault(table, len(self._numbers))}"
        note: Any = self._noted.setdefault(table, set()).add  # returns None: NULL to SQLite
        self._connection.create_scalar_function(function, note, 1)  # pyright: ignore[reportUnknownMemberType]
        return function

    def _compiled(self, statement: str) -> Compiled:
        if statement not in self._effects_of:
            self._effects_of[statement] = self._compile(statement)
        return self._effects_of[statement]

    def _compile(self, statement: str) -> Compiled:
        written: set[str] = set()
        ours: set[str] = set()
        listings: dict[str, str] = {}
        triggers: set[str] = set()
        watch = Watch(self._timeout, self._bounds)

        def note(
            action: int, name: str | None, _column: str | None, db: str | None, by: str | None
        ) -> int:
            if action == apsw.SQLITE_SELECT:
                watch.look()
            if by and not is_internal(by):
                triggers.add(by)
                if name and _lists_tables(name):
                    listings[name] = by
            if name and db == "main" and is_internal(name):
                ours.add(by or name)
            elif name and db == "main" and action in _WRITES:
                written.add(name)
            return apsw.SQLITE_OK

        self._connection.authorizer = note
        try:
            with ceiling.held(self._bounds):
                compiled = next(sql.compiled(self._connection, statement))
        except apsw.NoMemError as error:
            raise self._bounds.too_large() from error
        finally:
            self._connection.authorizer = None
        ours |= {by for n, by in listings.items() if not schema.is_table(self._connection, n)}
        for trigger in ours:
            raise InvalidCall(
                f"The trigger {trigger!r} uses tables of the memory's own, or the schema tables "
                "that list them; nothing was changed.",
                hint="Drop it with `execute`.",
            )
        steps = program(self._connection, statement, compiled.bindings_count)
        check_reads(self._connection, steps)
        functions = [step for step in steps if step.is_call and not is_internal(step.operand)]
        return Compiled(frozenset(self._tables(written)), SetOff(bool(triggers), tuple(functions)))

    def _tables(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if _is_users(name) and not schema.is_view(self._connection, name):
                yield name

    def _on_change(self, change: apsw.PreUpdate) -> None:
        table = change.table_name
        rowids = self._hooked.get(table)
        if rowids is None or change.database_name != "main":
            if change.database_name != "main" or not _is_users(table):
                return
            rowids = self._hooked.setdefault(table, set())
        rowids.add(change.rowid)
        rowids.add(change.rowid_new)


def check_reads(connection: apsw.Connection, steps: Iterable[Instruction]) -> None:
    """Refuse a program that reads the memory's own tables or the schema table. SQLite does not ask
    about every table that is read (see `guard`)."""
    opened = {step.page for step in steps if step.page is not None}
    tables = schema.pages(connection) if opened else {}
    for page in opened:
        name = tables.get(page, "")
        if not _is_users(name) and fold(name) != "sqlite_sequence":
            raise InvalidCall(
                "This SQL, or a trigger that it sets off, reads tables of the memory's own, or the "
                "schema tables that list them; nothing was changed.",
                hint="Read the user's tables only; ask for the schema with `query`.",
            )


@lru_cache(maxsize=1_000)
def _is_users(table: str) -> bool:
    return not is_internal(table) and not fold(table).startswith("sqlite_")


def _lists_tables(name: str) -> bool:
    """Whether SQLite lists its tables there, unless the user has a table of that name."""
    folded = fold(name)
    return folded in SCHEMA_TABLES or folded == "dbstat" or folded.startswith("pragma_")


def _triggers(table: Table, note: str) -> Iterator[str]:
    """One trigger for each way a row can change. An update of the rowid touches two rows."""
    old, new = f"old.{table.rowid_name}", f"new.{table.rowid_name}"
    for event, body in _EVENTS.items():
        yield (
            f"CREATE TEMP TRIGGER {_trigger_name(event, table.name)} AFTER {event}"
            f" ON main.{quote(table.name)} BEGIN"
            f" SELECT {body.format(note=note, old=old, new=new)}; END"
        )


def _trigger_name(event: str, table: str) -> str:
    return quote(f"{INTERNAL_PREFIX}{event.lower()}_{table}")
