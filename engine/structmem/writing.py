"""The one connection that writes, and its transactions.

A write, top to bottom: `BEGIN IMMEDIATE` → the image reader begins its snapshot → the operation
runs → the rows it touched → their images before and after → one event → its record, linked to the
chain and appended → `COMMIT`.

Invariants:

- A transaction either commits its record together with everything the record says, or nothing.
- The image reader's snapshot is the state before the transaction: it begins after the write lock
  was taken and ends with it.
- The connection knows the schema as it is. When somebody else changed it, a connection with capture
  triggers is replaced, because a trigger of a table that was renamed or dropped elsewhere can be
  neither used nor removed.
- What is written has the present file format: an older file is upgraded in the same transaction.
"""

import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

import apsw
from msgspec import Struct, field

from structmem import (
    alterations,
    functions,
    horizon,
    images,
    log,
    replay,
    schema,
    set_off,
    sql,
    views,
)
from structmem.bounds import Bounds, Watch
from structmem.calls import Call
from structmem.capture import Capture
from structmem.connection import (
    begin_immediate,
    closed,
    closed_if_it_fails,
    open_reader,
    open_writer,
    roll_back,
)
from structmem.errors import CallIdReused, InvalidCall, ReadOnly
from structmem.options import Options
from structmem.results import Rehearsed, Touched, WriteResult, op_id_of
from structmem.schema import Table
from structmem.size import bound, write_error
from structmem.upgrade import upgrade
from structmem_journal import (
    SALT_BYTES,
    Effect,
    Event,
    Expired,
    Header,
    Hidden,
    Outcome,
    Position,
    Record,
    RecordTooLarge,
    Redone,
    RowsChanged,
    SchemaChanged,
    Shown,
    Undone,
    decode_header,
    decode_payload,
    encode_payload,
    follow,
    invariant,
    link,
    rowids_of,
    runs_of,
)


class Change(Struct, frozen=True):
    """What an operation did, as its caller will be told. `effects` is there when recorded effects
    were put in place: then they tell it all. Otherwise what changed is found out by capture."""

    rows_changed: int = 0
    rowids: list[int] = field(default_factory=list[int])
    warnings: list[str] = field(default_factory=list[str])
    effects: list[Effect] | None = None
    table: str | None = None
    """The table it was about, where the call could not know it."""

    def outcome(self) -> Outcome:
        return Outcome(self.rows_changed, runs_of(self.rowids), self.warnings)


class Writer:
    """Opened at the first write. Its transactions are serialised here between threads, and by
    SQLite's write lock between processes.

    `check` raises when the file must not be written any more. It is called once the lock is held:
    whoever destroys the file holds it too.
    """

    def __init__(self, path: Path, options: Options, *, check: Callable[[], None]) -> None:
        self._path = path
        self.options = options
        self.bounds = Bounds.allowing(options.max_value_bytes)
        self._check = check
        self._lock = Lock()
        self._schema_version: int | None = None
        self._tables: dict[str, Table] = {}
        self._has_sequences: bool | None = None
        self._committed = self.schema_is_changing = self._closed = False
        self._has_present_format = False
        self._open()

    def _open(self) -> None:
        connection = open_writer(self._path, max_value_bytes=self.options.max_value_bytes)
        with closed_if_it_fails(connection):
            # What SQL of `execute` calls must end in time; from the start, because a function that
            # was replaced does not come back.
            functions.register(connection, self.bounds.value_bytes)
            capture = Capture(connection, self.bounds, self.options.query_timeout)
            images = open_reader(self._path)
        self.connection, self.images, self.capture = connection, images, capture

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.images.close()
            self.connection.close()

    @contextmanager
    def transaction(self) -> Generator["Transaction"]:
        """A write transaction. Unless it is committed it leaves nothing behind."""
        with self._lock:
            if self._closed:
                raise closed(self._path)
            try:
                self._begin()
                transaction = Transaction(self)
                yield transaction
            except apsw.Error as error:
                told = write_error(error, self.connection, self._path, self.options.size_limit)
                sql.end_statements(error)
                raise told from error
            except BaseException as error:
                sql.end_statements(error)
                raise
            finally:
                self._end()

    def table(self, name: str) -> Table:
        """The table called `name`, looked up once as long as the schema stays the same."""
        if name not in self._tables:
            self._tables[name] = schema.load_table(self.connection, name)
        return self._tables[name]

    def has_sequences(self) -> bool:
        """Whether any table ever had an AUTOINCREMENT counter; asked at the end of a transaction,
        and only again when the schema has changed."""
        if self._has_sequences is None:
            self._has_sequences = images.has_sequences(self.connection)
        return self._has_sequences

    def schema_changes(self) -> None:
        """In this transaction, by ourselves: to be called before and after."""
        self.capture.disarm()
        self._forget_schema()
        self.schema_is_changing = True

    def _forget_schema(self) -> None:
        self._tables.clear()
        self._has_sequences = None
        self.capture.schema_changed()

    def commit(self) -> None:
        """Reported means on disk: when this returns, SQLite has synced the log."""
        invariant(self.connection.in_transaction, "SQLite has not ended the transaction by itself")
        version = schema.schema_version(self.connection) if self.schema_is_changing else None
        # COMMIT may checkpoint, and a snapshot of before would keep the WAL from starting over.
        roll_back(self.images)
        try:
            sql.run(self.connection, "COMMIT")
        except (apsw.IOError, apsw.FullError):
            self._forget_in_log()
            raise
        self._committed = self._has_present_format = True
        self.capture.committed()
        if version is not None:
            self._schema_version = version

    def _forget_in_log(self) -> None:
        """After a COMMIT that the disk refused. If it was the sync, the log holds the transaction
        whole: were we killed now, the next to open the file would find it committed, although it
        was refused. So a transaction without effect is written over it, which need not be synced.
        (Setting this number writes its page even if it stays the same; an UPDATE would not.)"""
        roll_back(self.connection)
        with suppress(apsw.Error):
            begin_immediate(self.connection)
            version = sql.pragma(self.connection, "user_version")
            sql.pragma(self.connection, "user_version", version)
            sql.run(self.connection, "COMMIT")
        roll_back(self.connection)

    def _begin(self) -> None:
        self._committed = self.schema_is_changing = False
        begin_immediate(self.connection)
        version = schema.schema_version(self.connection)
        if version != self._schema_version:
            self._schema_version = self._replace_stale(version)
            self._forget_schema()
            self._has_present_format = False
        self._check()
        if not self._has_present_format and upgrade(self.connection, self._path):
            self.schema_changes()
        if self.options.size_limit is not None:
            bound(self.connection, self.options.size_limit)
        self.capture.begin()
        sql.run(self.images, "BEGIN")

    def _replace_stale(self, version: int) -> int:
        """Begin anew on a fresh connection if triggers stand that somebody's change made stale."""
        if not self.capture.armed:
            return version
        stale = self.images, self.connection
        self._open()  # first: should it fail, the next transaction tries again
        for connection in stale:
            connection.close()
        begin_immediate(self.connection)
        return schema.schema_version(self.connection)

    def _end(self) -> None:
        roll_back(self.images)
        if self._committed:
            return
        roll_back(self.connection)
        self.capture.rolled_back()
        if self.schema_is_changing:
            self._forget_schema()


class Transaction:
    """What an operation may do inside a write transaction."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.connection = writer.connection
        # The first look of the image reader, which begins its snapshot.
        head, self._facts = log.head(writer.images), log.facts(writer.images)
        self.position = head.position
        self._header = head.header
        self._remade: set[str] = set()

    def require_primary(self) -> None:
        """Raise `ReadOnly` on a replica: its records come from the primary, and only from there."""
        if self._facts.get("role") != "primary":
            raise ReadOnly(
                "This memory is a replica; it takes changes from its primary alone.",
                hint="Write to the primary.",
            )

    def table(self, name: str) -> Table:
        return self._writer.table(name)

    def arm(self, statement: str) -> None:
        """Put every table that `statement` can write under capture; to be called before it runs."""
        names = self._writer.capture.tables_written_by(statement)
        self._writer.capture.arm(self.table(name) for name in sorted(names))

    @contextmanager
    def running(self, statement: str) -> Generator[None]:
        """For `statement`, run inside with its tables under capture. What it sets off of the user's
        schema is bounded; raises `QueryLimit`."""
        self.arm(statement)
        found, options = self._writer.capture.set_off_by(statement), self._writer.options
        if not found:
            yield
            return
        with set_off.bounded(
            self.connection,
            found,
            max_value_bytes=options.max_value_bytes,
            timeout=options.query_timeout,
        ):
            yield

    def run_schema(self, statement: str) -> None:
        """Run a statement that changes the schema, and no row. Raises `QueryLimit` for a view that
        takes too much from now on."""
        self.schema_changes()
        sql.run(self.connection, statement)
        bounds = self._writer.bounds
        self.check_views(bounds, Watch(self._writer.options.query_timeout, bounds))

    def check_views(self, bounds: Bounds, watch: Watch) -> None:
        """Raise `QueryLimit` for a view that this transaction made too much to compile."""
        views.check(self._writer.images, self.connection, bounds, watch)

    def schema_changes(self, remade: Iterable[str] = ()) -> None:
        """To be called before the schema changes, and after, with the tables that were dropped or
        altered in a way that may have changed rows."""
        self._writer.schema_changes()
        self._remade |= {*remade}

    def replay(self, effects: Sequence[Effect]) -> int:
        """Put recorded effects in place. Returns how many rows they changed. Raises `Misfit`."""
        self._expect_schema_changes(effects)
        with self._writer.capture.paused():
            return replay.apply(self.connection, effects)

    @contextmanager
    def adopting(self) -> Generator[None]:
        """To be held while records are adopted."""
        with self._writer.capture.paused(), replay.images_alone(self.connection):
            yield

    def adopt(self, record: Record) -> None:
        """Replay and store a record of another copy of this memory, which must follow the last one;
        inside `adopting`.

        Raises `BrokenChain` and its siblings, or `Misfit`.
        """
        header = follow(self.position, record, self._header)
        event = log.event_of(record, header)
        self._expect_schema_changes(event.effects)
        replay.adopt(self.connection, record, header, event)
        self._moved_to(header, record)

    def earlier_result(self, call: Call) -> WriteResult | None:
        """What this call id got the first time; None if it is new.

        Raises `CallIdReused` when it belongs to a call with other arguments.
        """
        seq = log.seq_of_call(self.connection, call.call_id) if call.call_id is not None else None
        record = log.record_at(self.connection, seq) if seq is not None else None
        if seq is None or record is None:
            return None
        if record.payload is not None:
            event = decode_payload(record.payload)
            if event.intent.call_digest == call.digest(record.payload[:SALT_BYTES]):
                return _result_of(event, Position(seq, record.digest), repeated=True)
        raise CallIdReused(
            f"The call id {call.call_id!r} was used by {op_id_of(seq)} with other arguments.",
            hint="Use a new call id for a new call.",
        )

    def finish(self, call: Call, change: Change) -> WriteResult:
        """Write the event of what happened and commit; commit nothing if nothing happened."""
        effects = [*(self._captured() if change.effects is None else change.effects)]
        if not effects and not change.rows_changed:
            return WriteResult(None, None, warnings=change.warnings)
        effects += self._expired(effects)
        salt = secrets.token_bytes(SALT_BYTES)
        intent = call.intent(salt, table=change.table)
        event = Event(intent, effects, change.outcome())
        payload = _payload_of(event, salt)
        record = link(
            self.position,
            payload=payload,
            kind=call.operation,
            at_us=max(time.time_ns() // 1000, self._header.at_us if self._header else 0),
            epoch=log.epoch_in(self._facts),
        )
        header = decode_header(record.header)
        log.append(self.connection, record, header, event)
        self._moved_to(header, record)
        self.commit()
        return _result_of(event, self.position)

    def rehearsed(self, change: Change) -> Rehearsed:
        """What `finish` would return, without the record. The transaction is not committed, and so
        leaves nothing."""
        effects = [*(self._captured() if change.effects is None else change.effects)]
        return Rehearsed(
            None,
            None,
            rows_changed=change.rows_changed,
            rowids=change.rowids,
            warnings=change.warnings,
            operations=_operations(effects),
            touched=_touched(effects),
        )

    def _expired(self, effects: Sequence[Effect]) -> list[Effect]:
        """What this operation pushes beyond the horizon, and what goes with that."""
        kept = self._writer.options.max_operations
        if kept is None or not log.can_be_undone(effects):
            return []
        expired = horizon.expiry(self.connection, self.position.seq + 1, kept)
        if expired is None:
            return []
        self.replay([expired])
        return [expired]

    def _moved_to(self, header: Header, record: Record) -> None:
        self._header = header
        self.position = Position(header.seq, record.digest)

    def _expect_schema_changes(self, effects: Sequence[Effect]) -> None:
        if any(map(_is_about_schema, effects)):
            self._writer.schema_changes()

    def commit(self) -> None:
        self._writer.commit()

    def _captured(self) -> Iterator[Effect]:
        """The net change of the schema, of every row that was touched, and of the counters."""
        before, after = self._writer.images, self.connection
        touched = self._writer.capture.touched()
        if self._writer.schema_is_changing:
            yield from alterations.effects(before, after, touched, self._remade)
        else:
            tables = ((self.table(name), rowids) for name, rowids in touched.items())
            yield from alterations.net_rows(before, after, tables, images.Room())
        if self._writer.has_sequences():
            yield from images.sequences_changed(images.sequences(before), images.sequences(after))


def _touched(effects: Sequence[Effect]) -> dict[str, Touched]:
    touched: dict[str, Touched] = {}
    for each in effects:
        if isinstance(each, RowsChanged):
            before = touched.get(each.table, Touched())
            touched[each.table] = Touched(
                inserted=before.inserted + len(each.inserted),
                updated=before.updated + sum(len(group.rows) for group in each.updated),
                deleted=before.deleted + len(each.deleted),
            )
    return touched


def _is_about_schema(effect: Effect) -> bool:
    if isinstance(effect, Expired):
        return bool(effect.stores)
    return isinstance(effect, SchemaChanged | Hidden | Shown)


def _payload_of(event: Event, salt: bytes) -> bytes:
    try:
        return encode_payload(event, salt)
    except RecordTooLarge as error:
        raise InvalidCall(
            f"This call is too large: {error}.", hint="Split it into several calls."
        ) from error


def _result_of(event: Event, position: Position, *, repeated: bool = False) -> WriteResult:
    outcome = event.outcome
    return WriteResult(
        op_id=op_id_of(position.seq),
        position=position,
        rows_changed=outcome.rows_changed,
        rowids=rowids_of(outcome.rowids),
        warnings=outcome.warnings,
        repeated=repeated,
        operations=_operations(event.effects),
    )


def _operations(effects: Sequence[Effect]) -> list[str]:
    """Those that `effects` undid or redid."""
    undone = [each.operations for each in effects if isinstance(each, Undone | Redone)]
    return [op_id_of(seq) for seqs in undone for seq in seqs]
