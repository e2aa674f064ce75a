"""The read path: any one SQL statement that reads, on a connection that nothing else uses.

Around the sandbox, whose transaction is always rolled back, stand the other layers: a guard that
allows reading only, a connection that cannot write, SQLite's limits, and bounds of time and memory.
Each holds on its own for what it is for; `docs/query-isolation.md` lists them.

Two databases answer. The file answers for data. For the schema (`sqlite_schema`, `pragma_...`) a
clone answers that holds the user's objects and nothing else. What is wrong with a statement is
asked of the clone too, so that the answer is the one SQLite would give if the memory's own tables
did not exist.

Invariants:

- Between calls a reader is in no transaction, except between `begin` and `end`.
- Model SQL and our own never meet on a connection, but for transaction control and the schema.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw
from msgspec import Struct

from structmem import functions, refusals, schema, sql
from structmem.arguments import check_timeout, utf8_size
from structmem.bounds import (
    Bounds,
    Instruction,
    Watch,
    ceiling,
    longest_value,
    restrict,
    too_complex,
    too_long,
)
from structmem.collecting import check_bound, collect
from structmem.connection import (
    closed_if_it_fails,
    hide_listings,
    open_reader,
    translate,
    translated,
)
from structmem.errors import InvalidCall, StructMemError
from structmem.guard import Guard, Names, Place, Seen
from structmem.identifiers import INTERNAL_PREFIX, fold
from structmem.limits import SQL_TEXT_BYTES_MAX
from structmem.parameters import check_count
from structmem.results import Parameters, QueryResult
from structmem.sandbox import Sandbox, Statement
from structmem.schema_clone import SchemaClone
from structmem.values import check_parameters
from structmem_journal import Value

Rows = Iterator[tuple[Value, ...]]


class Prepared(Struct, frozen=True):
    """A statement that may run, and where."""

    sandbox: Sandbox[Guard]
    statement: Statement
    program: list[Instruction]


class _ToldLate(InvalidCall):
    """The statement reads the schema, and SQLite told only when it ran: it does not ask about a
    `pragma_...` function of which nothing but its arguments is used, as in a NATURAL JOIN."""

    def __init__(self, said: apsw.AuthError) -> None:
        mixed = refusals.data_and_schema()
        super().__init__(mixed.message, hint=mixed.hint)
        self.said: Final = said


class GuardedReader:
    """A read-only connection to the memory at `path`, for SQL that a model wrote.

    One thread at a time. Raises `NotAMemory` when the file cannot be opened.
    """

    def __init__(self, path: Path, *, max_value_bytes: int) -> None:
        self._path = path
        self._max_value_bytes = max_value_bytes
        self.bounds: Final = Bounds.allowing(max_value_bytes)
        with translated(path):
            connection = open_for_queries(path, self.bounds)
            with closed_if_it_fails(connection):
                self._modules = schema.modules(connection)
        self.sandbox: Final = Sandbox(connection, Guard(elsewhere=[Place.SCHEMA]))
        self._schema_version: int | None = None
        self._objects: list[schema.SchemaObject] = []
        self._clone: SchemaClone | None = None
        self._watch: Watch | None = None

    def query(
        self,
        text: str,
        params: Parameters = (),
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        timeout: float,
    ) -> QueryResult:
        """Run one statement that reads. `timeout` is in seconds.

        `max_rows` and `max_bytes` (UTF-8 text, blobs, 8 for a number) cut the result short, and
        `truncated` says so. Raises `WriteInQuery` for SQL that does more than read, `NoSuchTable`,
        `NoSuchColumn`, `QueryLimit`, and `InvalidCall` for whatever else is wrong with it.
        """
        check_bound(max_rows, "max_rows")
        check_bound(max_bytes, "max_bytes")

        def result_of(prepared: Prepared) -> QueryResult:
            with self.running(prepared, params) as rows:
                kept, truncated = collect(rows, max_rows, max_bytes, self.bounds)
            return QueryResult(list(prepared.statement.columns), kept, truncated)

        with self._snapshot(), self.bounded(timeout):
            try:
                return result_of(self.compile(text))
            except _ToldLate as late:
                return result_of(self._ask_clone(text, late.said))

    @contextmanager
    def _snapshot(self) -> Generator[None]:
        self.begin()
        try:
            yield
        finally:
            self.end()

    # -- the steps of a query, for those who need them apart --------------------------------------

    def begin(self) -> None:
        """Begin a read transaction, and take its snapshot now."""
        with translated(self._path):
            self.sandbox.begin()
            try:
                self._notice_schema()
            except BaseException:
                self.sandbox.end()
                raise

    def end(self) -> None:
        """Roll back."""
        with translated(self._path):
            self.sandbox.end()

    @contextmanager
    def bounded(self, timeout: float) -> Generator[None]:
        """Bound the time (seconds, for the whole block) and memory of SQL that runs inside."""
        self._set_watch(Watch(check_timeout(timeout), self.bounds))
        try:
            with ceiling.held(self.bounds):
                yield
        finally:
            self._set_watch(None)

    def compile(self, text: str) -> Prepared:
        """`text`, if it is one statement that reads; not run yet. To be called in `bounded`."""
        check_text(text)
        if INTERNAL_PREFIX in fold(text):
            # SQLite does not ask about every mention of a table: not about a subquery that it
            # optimizes away. In the clone our tables do not exist, however they are mentioned.
            self._examine_in_clone(text)
        try:
            return _examine(self.sandbox, text)
        except (apsw.AuthError, apsw.SQLError) as error:
            return self._ask_clone(text, error)
        except apsw.Error as error:
            raise self._beyond_bounds(error, too_complex()) from error

    @contextmanager
    def running(self, prepared: Prepared, params: Parameters) -> Generator[Rows]:
        """The rows of a statement, while the block lasts. To be called in `bounded`."""
        sandbox, statement = prepared.sandbox, prepared.statement
        checked = check_parameters(params, self._max_value_bytes)
        bindings = check_count(statement.parameters, checked)
        longest = self.bounds.value_bytes
        try:
            longest = longest_value(prepared.program, longest)
            with sandbox.limited_to(longest), sandbox.run(statement, bindings) as rows:
                yield rows
        except UnicodeDecodeError as error:
            raise refusals.not_text() from error
        except (apsw.AuthError, apsw.SQLError) as error:
            seen = sandbox.gate.seen
            if isinstance(error, apsw.AuthError) and seen.is_elsewhere:
                raise _ToldLate(error) from error
            raise self._refusal(error, statement.text, seen) from error
        except apsw.TooBigError as error:
            raise too_long(longest) from error
        except apsw.Error as error:
            raise self._beyond_bounds(error, self.bounds.too_large()) from error

    def close(self) -> None:
        self._drop_clone()
        self.sandbox.close()

    # -- the schema --------------------------------------------------------------------------------

    def _notice_schema(self) -> None:
        """Learn the names in the file again when anyone has changed the schema."""
        connection = self.sandbox.connection
        with self.sandbox.gate.ours():
            version = schema.schema_version(connection)
            if version == self._schema_version:
                return
            self._objects = schema.objects(connection)
            pages = schema.pages(connection)
        self.sandbox.gate.know(self._names(), pages)
        self._drop_clone()
        self._schema_version = version

    def _names(self) -> Names:
        by_kind = {
            kind: frozenset(fold(o.name) for o in self._objects if o.kind == kind)
            for kind in ("table", "view")
        }
        return Names(by_kind["table"], by_kind["view"], self._modules)

    def _the_clone(self) -> SchemaClone:
        if self._clone is None:
            self._clone = SchemaClone(self._objects, self._names(), self.bounds)
            self._clone.sandbox.watch(self._watch)
        return self._clone

    def _drop_clone(self) -> None:
        if self._clone is not None:
            self._clone.sandbox.close()
            self._clone = None

    def _set_watch(self, watch: Watch | None) -> None:
        self._watch = watch
        self.sandbox.watch(watch)
        if self._clone is not None:
            self._clone.sandbox.watch(watch)

    # -- what is wrong with a statement ------------------------------------------------------------

    def _ask_clone(self, text: str, error: apsw.Error) -> Prepared:
        """The statement, to run on the clone, if it is about the schema; else raises what is wrong
        with it. `error` is what the file said."""
        seen = self.sandbox.gate.seen
        if seen.refused is not None:
            raise refusals.not_reading(text, seen.refused) from error
        prepared = self._examine_in_clone(text)
        if Place.SCHEMA not in seen.places:
            raise self._refusal(error, text, seen) from error
        if Place.DATA in prepared.sandbox.gate.seen.places:
            raise refusals.data_and_schema() from error
        return prepared

    def _examine_in_clone(self, text: str) -> Prepared:
        clone = self._the_clone().sandbox
        try:
            return _examine(clone, text)
        except (apsw.AuthError, apsw.SQLError) as error:
            raise self._refusal(error, text, clone.gate.seen) from error
        except apsw.Error as error:
            raise self._beyond_bounds(error, too_complex()) from error

    def _refusal(self, error: apsw.Error, text: str, seen: Seen) -> InvalidCall:
        return refusals.explain(error, text, seen, self._the_clone().columns)

    def _beyond_bounds(self, error: apsw.Error, no_memory: StructMemError) -> StructMemError:
        if isinstance(error, apsw.InterruptError) and self._watch is not None:
            return self._watch.reason()
        return no_memory if isinstance(error, apsw.NoMemError) else translate(error, self._path)


def open_for_queries(path: Path, bounds: Bounds) -> apsw.Connection:
    """A connection that cannot write, for SQL that a model wrote; its guard is yet to be set."""
    # Nothing stays compiled: what is compiled again is authorized again.
    connection = open_reader(path, cached_statements=0)
    with closed_if_it_fails(connection):
        # A read-only file could still be given temporary tables.
        sql.pragma(connection, "query_only", 1)
        hide_listings(connection)
        functions.register(connection, bounds.value_bytes)
        restrict(connection, bounds)
    return connection


def check_text(text: object) -> str:
    """`text`, if SQLite can read it as SQL."""
    if not isinstance(text, str):
        raise InvalidCall(f"SQL must be text, not {type(text).__name__}.")
    if "\0" in text:
        raise InvalidCall(
            "The SQL contains a NUL character, where SQLite would end it.",
            hint="Pass values as parameters.",
        )
    size = utf8_size(text, "The SQL")
    if size > SQL_TEXT_BYTES_MAX:
        raise InvalidCall(
            f"The SQL has {size:,} bytes; at most {SQL_TEXT_BYTES_MAX:,} are read.",
            hint="Pass values as parameters.",
        )
    return text


def _examine(sandbox: Sandbox[Guard], text: str) -> Prepared:
    """The statement, if it may run there. Raises APSW's errors, and `InvalidCall`."""
    sandbox.gate.forget()
    statement = _reading(sandbox.examine(text))
    program = sandbox.program(statement)
    if not sandbox.gate.allows_program(program):
        raise apsw.AuthError("not authorized")
    return Prepared(sandbox, statement, program)


def _reading(statement: Statement) -> Statement:
    """`statement`, if it has a result. SQLite does not ask about some that have none, such as
    VACUUM and REINDEX; every statement that reads has one."""
    if not statement.columns:
        raise refusals.not_reading(statement.text, None)
    return statement
