"""`execute`: SQL of the caller's, several statements if need be, as one operation.

It runs on the writing connection, one statement after the other, under a guard that lets it change
rows and schema and nothing else. What it did is found out as for every write: rows by capture, the
schema by comparing before and after.

Rules, each with its reason:

- A statement is compiled under the guard, judged, and only then run, compiled again for this one
  use: what is kept compiled would not be asked about again.
- Our temporary triggers go before a statement that changes the schema; they stand in its way.
- What could not be replayed or undone is refused where it is made: tables without rowids, and
  anything that names the memory's own tables.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Final

import apsw

from structmem import foreign_keys, refusals, schema, sql
from structmem.bounds import (
    Bounds,
    Watch,
    ceiling,
    longest_value,
    restricted,
    too_complex,
    too_long,
)
from structmem.capture import check_reads
from structmem.columns import COLUMNS_MAX
from structmem.errors import InvalidCall
from structmem.identifiers import INTERNAL_PREFIX, fold, is_internal, quote
from structmem.parameters import Bindings, check_count
from structmem.sandbox import Runner, Statement
from structmem.schema import SchemaObject, load_table
from structmem.write_guard import WriteGuard
from structmem.writing import Change, Transaction

# A bare or quoted identifier; and those that mean something as a default.
_NAME: Final = re.compile(r'[^\W\d]\w*|".*"|`.*`|\[.*\]', re.DOTALL)
_KEYWORDS: Final = frozenset(
    ["null", "true", "false", "current_timestamp", "current_date", "current_time"]
)


def execute(
    tx: Transaction, text: str, bindings: Bindings, *, bounds: Bounds, timeout: float
) -> Change:
    """Run the statements of `text` within `timeout` seconds. `bindings` are for its one statement.

    Raises `InvalidCall` and its kinds, `QueryLimit` among them; `rows_changed` counts the rows that
    statements changed themselves, not by triggers or foreign keys.
    """
    script = _Script(tx, bounds, Watch(timeout, bounds))
    with script.running():
        return Change(script.run(text, bindings))


class _Script:
    """One call of `execute`."""

    def __init__(self, tx: Transaction, bounds: Bounds, watch: Watch) -> None:
        self._tx = tx
        self._bounds = bounds
        self._watch = watch
        self._guard = WriteGuard(schema.modules(tx.connection))
        self._runner = Runner(tx.connection, self._guard)
        self._own_steps = tx.connection.limit(apsw.SQLITE_LIMIT_VDBE_OP)

    @contextmanager
    def running(self) -> Generator[None]:
        """The guard, the watch and the limits stand while this lasts."""
        with ceiling.held(self._bounds), restricted(self._tx.connection, self._bounds):
            self._runner.watch(self._watch)
            try:
                yield
            except apsw.InterruptError as error:  # one of our own statements between the caller's
                raise self._watch.reason() from error
            finally:
                self._runner.watch(None)
                self._tx.connection.authorizer = None

    def run(self, text: str, bindings: Bindings) -> int:
        """Every statement of `text`. Returns the rows that they changed."""
        changed = [self._run(statement, bindings) for statement in self._statements(text, bindings)]
        if not changed:
            raise InvalidCall("There is no SQL statement in this text.")
        return sum(changed)

    def _statements(self, text: str, bindings: Bindings) -> Iterator[Statement]:
        """Each statement, compiled and judged once the one before it has run."""
        statements, count = self._runner.statements(text), 0
        while statement := self._next(statements, text):
            self._watch.look()
            count += 1
            if count > 1 and bindings:
                raise InvalidCall(
                    "Parameters go with one statement, and the SQL has several.",
                    hint="Call `execute` for each statement, or write the values into the SQL.",
                )
            yield statement

    def _next(self, statements: Iterator[Statement], text: str) -> Statement | None:
        self._guard.forget()
        with self._explained(text):
            statement = next(statements, None)
        wrong = self._guard.judge()
        if statement is not None and wrong is not None:
            raise refusals.not_executable(wrong)
        return statement

    def _run(self, statement: Statement, bindings: Bindings) -> int:
        checked = check_count(statement.parameters, bindings)
        guard, connection = self._guard, self._tx.connection
        if statement.is_explain:
            return 0
        if guard.changes_schema:
            return self._change_schema(statement, checked)
        with self._unguarded():
            self._tx.arm(statement.text)
        self._run_to_end(statement, checked)
        return connection.changes() if guard.changes_rows else 0

    def _change_schema(self, statement: Statement, bindings: Bindings) -> int:
        remade, only_drops = self._guard.tables_remade(), self._guard.only_drops
        with self._unguarded():
            before = schema.objects(self._tx.connection), schema.internal_names(self._tx.connection)
            self._tx.schema_changes(remade)
        self._run_to_end(statement, bindings)
        with self._unguarded():
            self._tx.schema_changes()
            _check_made(self._tx.connection, *before)
            if not only_drops:  # dropping must go on however many views there are
                self._tx.check_views(self._bounds, self._watch)
        return 0

    def _run_to_end(self, statement: Statement, bindings: Bindings) -> None:
        longest = self._bounds.value_bytes
        with self._explained(statement.text):
            steps = self._runner.program(statement)
            if not self._guard.rewrites_schema:
                with self._unguarded():
                    check_reads(self._tx.connection, steps)
            longest = longest_value(steps, longest)
            with self._runner.limited_to(longest):
                self._finish(statement, bindings)

    def _finish(self, statement: Statement, bindings: Bindings) -> None:
        try:
            with self._runner.run(statement, bindings) as rows:
                for _ in rows:
                    pass
        except apsw.NoMemError as error:  # it is compiled, so it is not too long
            raise self._bounds.too_large() from error

    @contextmanager
    def _unguarded(self) -> Generator[None]:
        """For statements of our own, of any length: the widest tables need long ones. When the
        guard is set again, SQLite compiles every statement anew, and so asks about it."""
        connection = self._tx.connection
        connection.authorizer = None
        steps = connection.limit(apsw.SQLITE_LIMIT_VDBE_OP, self._own_steps)
        try:
            yield
        finally:
            connection.limit(apsw.SQLITE_LIMIT_VDBE_OP, steps)
            connection.authorizer = self._guard

    @contextmanager
    def _explained(self, text: str) -> Generator[None]:
        """Say what was wrong with a statement of `text`."""
        try:
            yield
        except apsw.AuthError as error:
            raise refusals.not_executable(self._guard.refused) from error
        except apsw.SQLError as error:
            if self._guard.refused is not None:
                raise refusals.not_executable(self._guard.refused) from error
            with self._unguarded():
                columns = schema.column_names(self._tx.connection)
            raise refusals.explain_error(str(error), text, columns) from error
        except apsw.TooBigError as error:
            raise too_long(self._bounds.value_bytes) from error
        except apsw.InterruptError as error:
            raise self._watch.reason() from error
        except apsw.NoMemError as error:
            raise too_complex() from error
        except UnicodeDecodeError as error:
            raise refusals.not_text() from error


def _check_made(
    connection: apsw.Connection, before: Sequence[SchemaObject], internal: AbstractSet[str]
) -> None:
    """Refuse what a statement made or altered and we could not journal."""
    if schema.internal_names(connection) != internal:
        raise InvalidCall(f"Names beginning with {INTERNAL_PREFIX} belong to the memory itself.")
    known = set(before)
    for made in schema.objects(connection):
        if made not in known:
            _check_object(connection, made)
    for key in foreign_keys.of(connection):
        if is_internal(key.parent):
            raise InvalidCall(f"{key.child!r} cannot refer to a table of the memory's own.")


def _check_object(connection: apsw.Connection, made: SchemaObject) -> None:
    if is_internal(made.name) or (
        made.kind in ("view", "trigger") and INTERNAL_PREFIX in fold(made.text)
    ):
        raise InvalidCall(
            f"The {made.kind} {made.name!r} names something of the memory's own: names beginning "
            f"with {INTERNAL_PREFIX} are reserved."
        )
    if made.kind != "table":
        return
    if schema.is_without_rowid(connection, made.name):
        raise InvalidCall(
            f"{made.name!r} cannot be made WITHOUT ROWID: its rows could not be journaled.",
            hint="Leave WITHOUT ROWID away; the primary key stays.",
        )
    for column, default in schema.defaults(connection, made.name):
        if _NAME.fullmatch(default) and fold(default) not in _KEYWORDS:
            raise InvalidCall(
                f"The default {default} of {column!r} is a name, which SQLite would take for text.",
                hint="Write text in single quotes: 'like this'.",
            )
    if len(load_table(connection, made.name).columns) > COLUMNS_MAX:
        raise InvalidCall(f"{made.name!r} has more than {COLUMNS_MAX:,} columns.")
    _check_readable(connection, made.name)


def _check_readable(connection: apsw.Connection, table: str) -> None:
    """SQLite makes a table whose column is computed from itself, and then reads no row of it."""
    try:
        next(sql.compiled(connection, f"SELECT * FROM main.{quote(table)}"))
    except apsw.SQLError as error:
        raise InvalidCall(
            f"{table!r} could not be read: {error}.",
            hint="Compute a generated column from columns that hold values.",
        ) from error
