"""`StructuredMemory`: what each operation does, in the order in which it does it.

Only control flow stands here. How a table is created, a condition checked, a row inserted, is in
the leaves: `ddl`, `conditions`, `dml`, `history`, `reading`, `check`.
"""

import copy
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self, cast

import apsw

from structmem import (
    check,
    ddl,
    dml,
    file,
    foreign_keys,
    history,
    indexes,
    log,
    previews,
    schema,
    size,
)
from structmem.arguments import (
    check_callable,
    check_memory_id,
    check_path,
    check_position,
    check_record,
    check_time,
    check_whole,
)
from structmem.bounds import Bounds
from structmem.calls import Call, check_call_id, check_table, check_text
from structmem.columns import check_column, check_columns, check_description
from structmem.conditions import check_condition, matching_rowids
from structmem.connection import closed_if_it_fails, too_new, translate, translated
from structmem.errors import ConstraintFailed, Diverged, InvalidCall, shown
from structmem.execution import execute
from structmem.identifiers import check_name
from structmem.limits import (
    MAX_VALUE_BYTES,
    NAME_BYTES_MAX,
    QUERY_TIMEOUT_S,
    REASON_BYTES_MAX,
)
from structmem.misfits import Misfit
from structmem.opening import Listener, Opening
from structmem.options import Options
from structmem.reading import GuardedReader
from structmem.reading import check_text as check_sql
from structmem.results import (
    Column,
    Operation,
    Parameters,
    Preview,
    QueryResult,
    Size,
    VerifyReport,
    WriteResult,
)
from structmem.schema import Table
from structmem.values import check_parameters
from structmem.writing import Change, Transaction
from structmem_journal import START, JournalError, Position, Record, UnknownKind, decode_header


class StructuredMemory:
    """A memory in the SQLite file at `path`, made at the first call if it is not there.

    `actor` is written into the journal with every operation. With `read_only` the file must exist
    and no operation writes. `max_operations` is how many operations can be undone, the latest ones;
    the journal keeps all the same. `query_timeout` bounds queries and conditions, in seconds.
    `max_value_bytes` bounds one value, for writes and reads alike. `size_limit` bounds the file, in
    bytes, for writes through this object, `apply` included: beyond it they are `Full`. The path
    `":memory:"` gives a private memory that is gone when it is closed.

    One object may be used from several threads, and several processes may open one file. After
    `fork()` open a new one. Closing it, or leaving its `with` block, ends its use.

    Every write takes `reason` (why, for the journal) and `call_id` (an idempotency key of the
    caller's: a second call with the same id and arguments returns the first result). It raises
    `InvalidCall` and its kinds for what the caller can mend, `Unavailable` for what may pass, and
    `Stop` for what a person must look at; after any of them the memory is as it was before.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        actor: str | None = None,
        read_only: bool = False,
        max_operations: int | None = None,
        query_timeout: float = QUERY_TIMEOUT_S,
        max_value_bytes: int = MAX_VALUE_BYTES,
        size_limit: int | None = None,
    ) -> None:
        self._actor = check_text(actor, "The actor")
        self._approved_by: str | None = None
        self._rehearses = False
        options = Options.checked(
            read_only=read_only,
            max_value_bytes=max_value_bytes,
            size_limit=size_limit,
            max_operations=max_operations,
            query_timeout=query_timeout,
        )
        self._query_timeout = options.query_timeout
        self._max_value_bytes = options.max_value_bytes
        self._opening = Opening(check_path(path), options)
        self._path = self._opening.path

    def acting_as(self, actor: str | None, *, approved_by: str | None = None) -> Self:
        """The same open memory for another actor: what is written through it is journaled with
        `actor` and `approved_by`. It shares the connections, the options and the listeners, and
        closing either closes both."""
        view = copy.copy(self)
        view._actor = check_text(actor, "The actor")
        view._approved_by = check_text(approved_by, "The approver")
        return view

    def rehearsal(self) -> Self:
        """The same open memory, whose writes are carried out and then rolled back: to see whether
        one would succeed, and what it would return. Nothing stays, so `op_id` and `position` are
        None. What only the commit finds is not found: a deferred foreign key, a full disk."""
        view = copy.copy(self)
        view._rehearses = True
        return view

    # -- the memory itself -----------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return self._path

    @property
    def actor(self) -> str | None:
        """Who acts: what the journal is told with every operation of this object."""
        return self._actor

    @property
    def label(self) -> str:
        """The name under which it is replicated: the file's, without directory and ending."""
        return self._path.stem

    @property
    def id(self) -> str:
        """32 hex digits, drawn when the file was made; copies and replicas keep them."""
        with self._reading() as connection:
            return str(log.meta(connection, "id"))

    def role(self) -> file.Role:
        """`primary`, or `replica` for a file whose records come from elsewhere."""
        with self._reading() as connection:
            return cast("file.Role", log.meta(connection, "role"))

    def epoch(self) -> int:
        """The number of the current writer's reign; it grows with every promotion."""
        with self._reading() as connection:
            return log.epoch(connection)

    def position(self) -> Position:
        """Where the journal ends."""
        with self._reading() as connection:
            return log.head(connection).position

    def size(self) -> Size:
        """What takes the room: tables, journal, hidden and free. Reads every page of the file."""
        with translated(self._path), self._opening.session():
            return size.measure(self._path)

    def close(self) -> None:
        """Close the file. Closing twice is fine; any other use afterwards is `InvalidCall`.

        Calls that run in other threads finish, and the last of them closes the file.
        """
        self._opening.close()

    def destroy(self) -> None:
        """Delete the file, with its side files, and everything in it for good.

        The memory stays open: its next call makes an empty one, with a new `id`. Calls that run in
        other threads finish with what was there or get `Busy`; other processes that have it open
        get `NotAMemory`. Raises `ReadOnly`, and `NotAMemory` for a file that is none, which is left
        as it is.
        """
        self._refuse_rehearsal("destroy")
        self._opening.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # -- reading ---------------------------------------------------------------------------------

    def describe(self) -> str:
        """The schema as `CREATE` statements with descriptions as comments; SQL that runs."""
        with self._reading() as connection:
            return schema.describe(connection)

    def query(
        self,
        sql: str,
        params: Parameters = (),
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
    ) -> QueryResult:
        """Run one read statement, in a transaction that is always rolled back.

        `params` are values for `?` (a list) or `:name` (a mapping). `max_rows` and `max_bytes` cut
        the result and set `truncated`. Raises `WriteInQuery` for SQL that does more than read,
        `QueryLimit` when it runs out of time or memory, and `InvalidCall` for anything else.
        """
        with self._guarded() as reader:
            return reader.query(
                sql,
                params,
                max_rows=max_rows,
                max_bytes=max_bytes,
                timeout=self._query_timeout if timeout is None else timeout,
            )

    def history(self, limit: int = 50, *, before: str | None = None) -> list[Operation]:
        """The operations that stand, newest first, below the operation id `before`."""
        check_whole(limit, "limit")
        below = history.parse_op_id(before) if before is not None else None
        with self._reading() as connection:
            seqs = log.standing(connection, before=below, limit=limit)
            found = [log.record_at(connection, seq) for seq in seqs]
            return [history.operation_of(record) for record in found if record is not None]

    def log(
        self,
        *,
        table: str | None = None,
        actor: str | None = None,
        operation: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
    ) -> Iterator[Operation]:
        """Every record as an operation, oldest first, undo included; those that pass all filters.

        `since` and `until` are aware datetimes, inclusive; `after` is an operation id.
        """
        seq = history.parse_op_id(after) if after is not None else START.seq
        return history.matching(
            self._operations(seq),
            table=check_text(table, "table", bytes_max=NAME_BYTES_MAX),
            actor=check_text(actor, "actor"),
            operation=check_text(operation, "operation"),
            since=check_time(since, "since"),
            until=check_time(until, "until"),
        )

    def verify(
        self,
        *,
        deep: bool = False,
        expect: Position | None = None,
        progress: check.Progress | None = None,
    ) -> VerifyReport:
        """Check the journal's chain; `deep` also replays it and compares every table, row, rowid
        and schema text. `expect` is a position noted elsewhere that must lie on this chain.

        Raises `VerificationFailed` naming the first difference.
        """
        if expect is not None:
            check_position(expect, "expect")
        if progress is not None:
            check_callable(progress, "progress")
        with self._reading() as connection:
            return check.verify_memory(connection, deep=deep, expect=expect, progress=progress)

    # -- writing ---------------------------------------------------------------------------------

    def create_table(
        self,
        table: str,
        columns: Iterable[Column | Mapping[str, Any]],
        *,
        description: str | None = None,
        if_not_exists: bool = False,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Create a table. With `if_not_exists` the same definition does nothing; any other table
        of that name is `TableExists`, which tells the differences."""
        name = check_name(table, "table")
        wanted = check_columns(columns, self._max_value_bytes)
        told = check_description(description)
        bulk = wanted, told, bool(if_not_exists)
        call = self._call("create_table", name, reason, call_id, bulk=bulk)

        def work(tx: Transaction) -> Change:
            return ddl.create_table(tx, name, wanted, description=told, if_not_exists=if_not_exists)

        return self._write(call, work)

    def drop_table(
        self, table: str, *, reason: str | None = None, call_id: str | None = None
    ) -> WriteResult:
        """Drop a table with its indexes and triggers. Its rows are set aside, so that undo brings
        them back until the operation leaves the history; its names are free at once. Raises
        `ConstraintFailed` when another table refers to it."""
        name = check_table(table)
        call = self._call("drop_table", name, reason, call_id)
        return self._write(call, lambda tx: ddl.drop_table(tx, tx.table(name)))

    def add_column(
        self,
        table: str,
        column: Column | Mapping[str, Any],
        *,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Add a column at the end. The rows that are there get its default, or NULL; so it cannot
        be a primary key, nor unique, nor `not_null` without a default."""
        name = check_table(table)
        wanted = check_column(column, self._max_value_bytes)
        call = self._call("add_column", name, reason, call_id, bulk=wanted)
        return self._write(call, lambda tx: ddl.add_column(tx, tx.table(name), wanted))

    def create_index(
        self,
        table: str,
        columns: str | Iterable[str],
        *,
        name: str | None = None,
        unique: bool = False,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Create an index on one column or several. Without a `name` it is called after the table
        and the columns; `describe` shows it. A unique one needs rows that differ."""
        table = check_table(table)
        wanted = indexes.check_columns(columns)
        given = check_name(name, "index") if name is not None else None
        bulk = wanted, given, bool(unique)
        call = self._call("create_index", table, reason, call_id, bulk=bulk)

        def work(tx: Transaction) -> Change:
            found = tx.table(table)
            return indexes.create_index(tx, found, wanted, name=given, unique=bool(unique))

        return self._write(call, work)

    def drop_index(
        self, index: str, *, reason: str | None = None, call_id: str | None = None
    ) -> WriteResult:
        """Drop an index. One that belongs to a UNIQUE or PRIMARY KEY rule cannot be dropped."""
        name = check_table(index, "index")
        call = self._call("drop_index", None, reason, call_id, index=name)
        return self._write(call, lambda tx: indexes.drop_index(tx, name))

    def insert(
        self,
        table: str,
        rows: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Insert one row (a mapping of column to value) or any iterable of them: every row or
        none, as one operation. Columns that are left out take their default."""
        name = check_table(table)
        given = dml.check_rows(rows, self._max_value_bytes)
        call = self._call("insert", name, reason, call_id, bulk=given)
        return self._write(call, lambda tx: dml.insert(tx, tx.table(name), given))

    def update(
        self,
        table: str,
        set: Mapping[str, Any],
        where: str,
        params: Parameters = (),
        *,
        expect: str | None = None,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Set columns to values in the rows for which the SQL expression `where` is true; `"true"`
        means every row. `rows_changed` counts the rows that matched. With `expect`, the token of a
        preview, nothing is changed unless the same rows match, with the same values."""
        name = check_table(table)
        fields = dml.check_fields(set, "set", self._max_value_bytes)
        if not fields:
            raise InvalidCall("set is empty.", hint="Name at least one column and its new value.")
        values = check_parameters(params, self._max_value_bytes)
        condition = check_condition(where)
        token = previews.check_token(expect)
        arguments = {"set": fields, "where": condition, "params": values}
        call = self._call("update", name, reason, call_id, **arguments)

        def work(tx: Transaction) -> Change:
            found = tx.table(name)
            rowids = self._matching(found, condition, values)
            previews.check("update", tx.connection, found, rowids, condition, values, token)
            return dml.update(tx, found, fields, rowids)

        return self._write(call, work)

    def delete(
        self,
        table: str,
        where: str,
        params: Parameters = (),
        *,
        expect: str | None = None,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Delete the rows for which the SQL expression `where` is true; `"true"` means all.
        `expect` is as for update."""
        name = check_table(table)
        values = check_parameters(params, self._max_value_bytes)
        condition = check_condition(where)
        token = previews.check_token(expect)
        call = self._call("delete", name, reason, call_id, where=condition, params=values)

        def work(tx: Transaction) -> Change:
            found = tx.table(name)
            rowids = self._matching(found, condition, values)
            previews.check("delete", tx.connection, found, rowids, condition, values, token)
            return dml.delete(tx, found, rowids)

        return self._write(call, work)

    def preview(self, operation: str, table: str, where: str, params: Parameters = ()) -> Preview:
        """What an `update` or `delete` with this condition would touch: how many rows, a few of
        them, and a token. A call that is given the token as `expect` goes through only if the very
        same rows match then, with the same values."""
        what = previews.check_operation(operation)
        name = check_table(table)
        values = check_parameters(params, self._max_value_bytes)
        condition = check_condition(where)
        with self._reading() as connection:
            found = schema.load_table(connection, name)
            rowids = self._matching(found, condition, values)
            return previews.preview(what, connection, found, rowids, condition, values)

    def execute(
        self,
        sql: str,
        params: Parameters = (),
        *,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Run any SQL that changes rows or the schema: one statement with `params`, or several.

        This bypasses every permission on single operations. The SQL is journaled with its effects,
        and never run again: undo, replay and replicas work with those. It cannot end the
        transaction, attach files, make temporary objects, virtual tables or tables WITHOUT ROWID,
        or set PRAGMAs. Rows that statements return are dropped. `rows_changed` counts the rows that
        the statements changed themselves. Raises `QueryLimit` beyond `query_timeout`.
        """
        text = check_sql(sql)
        values = check_parameters(params, self._max_value_bytes)
        call = self._call("execute", None, reason, call_id, sql=text, params=values)
        bounds = Bounds.allowing(self._max_value_bytes)

        def work(tx: Transaction) -> Change:
            return execute(tx, text, values, bounds=bounds, timeout=self._query_timeout)

        return self._write(call, work)

    def undo(
        self,
        op_id: str | None = None,
        *,
        reason: str | None = None,
        call_id: str | None = None,
    ) -> WriteResult:
        """Take back the latest operation that stands. `op_id` guards against undoing another one:
        it must name that operation, else `CannotUndo`."""
        wanted = history.parse_op_id(op_id) if op_id is not None else None
        call = self._call("undo", None, reason, call_id, op_id=op_id)
        return self._write(call, lambda tx: history.undo(tx, [history.to_undo(tx, wanted)]))

    def redo(self, *, reason: str | None = None, call_id: str | None = None) -> WriteResult:
        """Do again what the latest undo took back. Possible until the next write; then it raises
        `NothingToUndo`."""
        call = self._call("redo", None, reason, call_id)
        return self._write(call, lambda tx: history.redo(tx, history.to_redo(tx)))

    def revert_to(
        self, op_id: str, *, reason: str | None = None, call_id: str | None = None
    ) -> WriteResult:
        """Undo every operation after `op_id`, which must stand, as one operation. Nothing happens
        when it is the latest."""
        target = history.parse_op_id(op_id)
        call = self._call("revert_to", None, reason, call_id, op_id=op_id)

        def work(tx: Transaction) -> Change:
            later = history.to_revert(tx, target)
            return history.undo(tx, later) if later else Change()

        return self._write(call, work)

    # -- for replicators -------------------------------------------------------------------------

    def position_at(self, seq: int) -> Position | None:
        """The position on this chain after record `seq` (0 is the start); None past the end."""
        check_whole(seq, "seq")
        with self._reading() as connection:
            return log.position_at(connection, seq)

    def records(self, after: Position = START) -> Iterator[Record]:
        """The journal's records after a position, oldest first, as they are stored.

        Raises `Diverged` when `after` does not lie on this chain. No transaction stays open
        between two records.
        """
        found = self.position_at(check_position(after, "after").seq)
        if found != after:
            raise Diverged(f"Position {after} is not on the chain of {self._path.name}.")
        return self._records(after.seq)

    def apply(self, records: Iterable[Record], *, bookmark: int | None = None) -> Position:
        """Replay and store records of this memory's journal, all in one transaction.

        Records that are here already are skipped. `bookmark` is a number of the caller's, kept in
        the same transaction (a replica's place in its stream). Returns the new position. Raises
        `Diverged` when a record does not follow, or does not fit the rows that are here.
        """
        if isinstance(records, str | bytes) or not isinstance(records, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidCall(f"records must be an iterable of Records, not {shown(records)}.")
        if bookmark is not None:
            check_whole(bookmark, "bookmark")
        self._refuse_rehearsal("apply")
        with (
            self._opening.session() as session,
            self._records_translated(),
            session.writer().transaction() as tx,
        ):
            with tx.adopting():
                for record in records:
                    self._adopt(tx, record)
            if bookmark is not None:
                log.set_meta(tx.connection, "bookmark", bookmark)
            tx.commit()
        self._opening.notify(tx.position)
        return tx.position

    def bookmark(self) -> int | None:
        """What `apply` was last given as `bookmark`."""
        with self._reading() as connection:
            return cast("int | None", log.meta(connection, "bookmark"))

    def on_commit(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the new position after each commit made through this object, in the
        thread that wrote, once the commit is on disk. It must be quick. Returns a function that
        ends this. Commits of other objects and processes are not heard of."""
        check_callable(listener, "listener")
        return self._opening.listen(listener)

    # -- how they all work -----------------------------------------------------------------------

    def _refuse_rehearsal(self, operation: str) -> None:
        if self._rehearses:
            raise InvalidCall(f"`{operation}` cannot be rehearsed.", hint="Only writes can.")

    @contextmanager
    def _reading(self) -> Generator[apsw.Connection]:
        with (
            self._opening.session() as session,
            translated(self._path),
            session.readers.borrow() as connection,
        ):
            yield connection

    @contextmanager
    def _guarded(self) -> Generator[GuardedReader]:
        """For SQL that a model wrote."""
        with (
            self._opening.session() as session,
            translated(self._path),
            session.guarded.borrow() as reader,
        ):
            yield reader

    def _records(self, seq: int) -> Iterator[Record]:
        while True:
            with self._reading() as connection:
                batch = log.read(connection, seq)
            if not batch:
                return
            yield from batch
            seq += len(batch)

    def _operations(self, seq: int) -> Iterator[Operation]:
        for record in self._records(seq):
            with translated(self._path):
                operation = history.operation_of(record)
            yield operation

    def _call(
        self,
        operation: str,
        table: str | None,
        reason: str | None,
        call_id: str | None,
        *,
        bulk: Any = None,
        **arguments: Any,
    ) -> Call:
        return Call(
            operation,
            table,
            arguments,
            bulk,
            reason=check_text(reason, "The reason", bytes_max=REASON_BYTES_MAX),
            actor=self._actor,
            approved_by=self._approved_by,
            call_id=check_call_id(call_id),
        )

    def _write(self, call: Call, work: Callable[[Transaction], Change]) -> WriteResult:
        """Every write goes this way: one transaction, with its event in the journal."""
        with (
            self._keys_explained(call),
            self._opening.session() as session,
            translated(self._path),
            session.writer().transaction() as tx,
        ):
            tx.require_primary()
            earlier = tx.earlier_result(call)
            if earlier is not None:
                return earlier
            change = work(tx)
            result = tx.rehearsed(change) if self._rehearses else tx.finish(call, change)
        if result.position is not None:
            self._opening.notify(result.position)
        return result

    @contextmanager
    def _keys_explained(self, call: Call) -> Generator[None]:
        """SQLite says that a foreign key was broken, and not which: add those of the table."""
        try:
            yield
        except ConstraintFailed as error:
            if call.table is None or "FOREIGN KEY" not in error.message:
                raise
            with self._reading() as connection:
                rules = foreign_keys.rules_about(connection, call.table)
            raise ConstraintFailed(error.message, hint=f"The rules are: {rules}.") from error

    def _matching(self, table: Table, where: str, params: Parameters) -> list[int]:
        """The rowids that a condition is true for. Within a write we hold the lock, so the reader's
        snapshot is the state before the change."""
        with self._guarded() as reader:
            reader.begin()
            try:
                return matching_rowids(reader, table, where, params, timeout=self._query_timeout)
            finally:
                reader.end()

    def _adopt(self, tx: Transaction, record: Record) -> None:
        seq = decode_header(check_record(record).header).seq
        if seq > tx.position.seq:
            tx.adopt(record)
            return
        here = log.position_at(tx.connection, seq)
        if here is None or here.digest != record.digest:
            raise Diverged(f"Record {seq} is not the one that {self._path.name} holds.")

    @contextmanager
    def _records_translated(self) -> Generator[None]:
        """Errors of records that come from elsewhere, sorted for the caller."""
        try:
            yield
        except UnknownKind as error:
            raise too_new(error) from error
        except JournalError as error:
            raise Diverged(f"The records do not fit {self._path.name}: {error}.") from error
        except Misfit as misfit:
            raise Diverged(f"The records do not fit {self._path.name}. {misfit}.") from misfit
        except apsw.Error as error:
            raise translate(error, self._path) from error


def open_replica(path: str | os.PathLike[str], *, memory_id: str) -> StructuredMemory:
    """Open a replica of the memory `memory_id` (32 hex digits), making the file if need be.

    It takes records through `apply`; its users can only read. Raises `InvalidCall` when the file is
    another memory, or a primary.
    """
    check_memory_id(memory_id)
    location = check_path(path)
    if location == ":memory:":
        raise InvalidCall("A replica needs a file of its own, not :memory:.")
    file.ensure_memory(Path(location).absolute(), memory_id=memory_id, role="replica")
    memory = StructuredMemory(location)
    with closed_if_it_fails(memory):
        found, role = memory.id, memory.role()
    if (found, role) == (memory_id, "replica"):
        return memory
    memory.close()
    if found == memory_id:
        raise InvalidCall(f"{path} is the primary itself; a replica needs a file of its own.")
    raise InvalidCall(
        f"{path} is the {role} of memory {found}, not a replica of {memory_id}.",
        hint="Give the replica a file of its own.",
    )
