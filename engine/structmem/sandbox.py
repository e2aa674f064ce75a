"""SQL that nobody here wrote, run so that nothing of it stays.

A `Sandbox` runs one statement at a time between `begin` and `end`, and `end` always rolls back.
With its `Gate`, which refuses transaction control, that alone keeps the data: nothing else ends the
transaction, and nothing that the statement wrote outlives it. A `Guard`, a read-only connection and
limits stand on top of it (see `reading`).

Invariants:

- Only the text of one compiled statement is run, never what follows it.
- No statement stays compiled: each is compiled, and so authorized, for its one use.
"""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

import apsw
from msgspec import Struct

from structmem import schema, sql
from structmem.bounds import Instruction, Watch
from structmem.errors import InvalidCall
from structmem.guard import Gate
from structmem.limits import PROGRESS_OPCODES

G = TypeVar("G", bound=Gate)


class Statement(Struct, frozen=True):
    """One compiled statement. `columns` are those of its result: none when it returns no rows.
    `parameters` has the name of each, None for a plain `?`."""

    text: str
    columns: tuple[str, ...]
    parameters: tuple[str | None, ...]
    is_explain: bool


class Runner(Generic[G]):
    """Compiles and runs statements on `connection`, whose authorizer is `gate` from now on."""

    def __init__(self, connection: apsw.Connection, gate: G) -> None:
        self.connection = connection
        self.gate = gate
        connection.authorizer = gate

    def watch(self, watch: Watch | None) -> None:
        """Interrupt what runs from now on as `watch` says, or no more."""
        self.gate.watch = watch
        # The looks must come often: memory can grow by the largest value in a few steps.
        handler = None if watch is None else watch.interrupts
        self.connection.set_progress_handler(handler, PROGRESS_OPCODES)

    def examine(self, text: str) -> Statement:
        """Compile `text`, without running it. Raises `InvalidCall` unless it is one statement, and
        APSW's errors when SQLite, or the gate, refuses it."""
        statements = self.statements(text)
        found = next(statements, None)
        if found is None:
            raise InvalidCall(
                "There is no SQL statement in this text.", hint="Send one, such as SELECT 1."
            )
        if self._goes_on(statements):
            raise InvalidCall(
                "The text has more than one SQL statement.",
                hint="Send one statement in each call.",
            )
        return found

    def statements(self, text: str) -> Iterator[Statement]:
        """Each statement of `text`, compiled when asked for, and not run. Raises APSW's errors."""
        for found in sql.compiled(self.connection, text):
            yield Statement(
                text=found.first_query,
                columns=tuple(name for name, *_type in found.description or ()),
                parameters=tuple(found.bindings_names),
                is_explain=bool(found.is_explain),
            )

    def program(self, statement: Statement) -> list[Instruction]:
        """The steps that SQLite compiled the statement to; none for EXPLAIN, which runs none."""
        if statement.is_explain:
            return []
        return program(self.connection, statement.text, len(statement.parameters))

    def run(
        self, statement: Statement, params: sql.Params
    ) -> AbstractContextManager[Iterator[tuple[Any, ...]]]:
        """The statement's rows. It ends with the `with` block, whatever was read by then."""
        return sql.once(self.connection, statement.text, params)

    @contextmanager
    def limited_to(self, value_bytes: int) -> Generator[None]:
        """Refuse longer values while the block lasts."""
        before = self.connection.limit(apsw.SQLITE_LIMIT_LENGTH, value_bytes)
        try:
            yield
        finally:
            self.connection.limit(apsw.SQLITE_LIMIT_LENGTH, before)

    def _goes_on(self, statements: Iterator[object]) -> bool:
        try:
            return next(statements, None) is not None
        except apsw.Error:  # not even SQL, or refused: not a comment, in any case
            return True


class Sandbox(Runner[G]):
    """Owns `connection`: nothing else may use it."""

    def begin(self) -> None:
        self._run_ours("BEGIN")

    def end(self) -> None:
        """Roll back. SQLite may have done so already, after a failure."""
        if self.connection.in_transaction:
            self._run_ours("ROLLBACK")

    def close(self) -> None:
        self.connection.close()

    def _run_ours(self, statement: str) -> None:
        with self.gate.ours(), sql.once(self.connection, statement):
            pass


def program(connection: apsw.Connection, text: str, parameters: int) -> list[Instruction]:
    """The steps of a statement with so many parameters, those of its triggers included."""
    with sql.once(connection, text, [None] * parameters, explain=True) as steps:
        return list(_instructions(steps))


def _instructions(steps: Iterator[tuple[Any, ...]]) -> Iterator[Instruction]:
    while True:
        try:
            _address, name, _p1, p2, p3, operand, *_rest = next(steps)
        except StopIteration:
            return
        except UnicodeDecodeError:  # a constant, of bytes that are no text; the next one follows
            yield Instruction("String8", "")
        else:
            yield Instruction(name, str(operand), _page(name, p2, p3))


def _page(name: str, page: int, database: int) -> int | None:
    """Whatever is not in main is the temporary schema: there are no other tables to read."""
    if name not in ("OpenRead", "ReopenIdx"):
        return None
    return page if database == 0 else schema.SCHEMA_PAGE
