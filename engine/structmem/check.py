"""Whether a memory is what its journal says, found out from disk.

Invariants checked:

- The chain: seq without gaps, digests that follow, payloads that match, time and epoch that never
  go back. It shows damage, and records that are missing or were exchanged. It does not show someone
  who rewrote the whole file: for that, keep a position elsewhere and pass it as `expect`.
- Deep: the journal, replayed into an empty memory, gives the same schema texts, the same rows under
  the same rowids (storage class and bytes), the same AUTOINCREMENT counters, and the same
  operations standing. SQLite's own integrity check passes.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from structmem import file, images, log, replay, schema, sql, stores
from structmem.connection import begin_immediate, open_writer, roll_back
from structmem.errors import InvalidCall, VerificationFailed, shown
from structmem.limits import VALUE_BYTES_MAX
from structmem.misfits import Misfit
from structmem.results import VerifyReport
from structmem.schema import Table
from structmem.values import changed_indexes
from structmem_journal import (
    START,
    Event,
    Header,
    Position,
    Record,
    verify,
)

Progress = Callable[[int, int], None]
"""Called with (records done, records in all)."""

Visit = Callable[[Record, Header, Event], None]

_encode: Final = msgspec.msgpack.Encoder().encode


def verify_memory(
    live: apsw.Connection, *, deep: bool, expect: Position | None, progress: Progress | None
) -> VerifyReport:
    """Check the chain, and for `deep` everything else, on a connection in no transaction. Raises
    `VerificationFailed` at the first thing that is wrong, naming it."""
    try:
        sql.run(live, "BEGIN")  # one snapshot for journal and rows, while others write
        head = log.head(live).position
        _check_expected(live, expect)
        if not deep:
            return VerifyReport(head, _walk(live, head, progress, _ignore))
        return _verify_deep(live, head, progress)
    finally:
        roll_back(live)


def _check_expected(live: apsw.Connection, expect: Position | None) -> None:
    if expect is None:
        return
    found = log.position_at(live, expect.seq)
    if found is None:
        raise VerificationFailed(f"The journal ends before the expected position {expect}.")
    if found != expect:
        raise VerificationFailed(f"At {expect.seq} this is another history than {expect}.")


def _walk(
    live: apsw.Connection,
    head: Position,
    progress: Progress | None,
    visit: Visit,
) -> int:
    """Check the chain from start to `head`, visiting each record. Returns their count."""
    done, position = 0, START
    for header, record in verify(log.read_all(live, 0)):
        visit(record, header, log.event_of(record, header))
        done, position = done + 1, Position(header.seq, record.digest)
        if progress is not None:
            progress(done, head.seq)
    if position != head:
        raise VerificationFailed(f"The records end at {position.seq}, the journal at {head.seq}.")
    return done


def _ignore(_record: Record, _header: Header, _event: Event) -> None:
    """For a check of the chain alone."""


def _verify_deep(live: apsw.Connection, head: Position, progress: Progress | None) -> VerifyReport:
    _check_integrity(live)
    with tempfile.TemporaryDirectory(prefix="structmem-verify-") as directory:
        copy = Path(directory) / "replayed.db"
        file.ensure_memory(copy)
        replayed = open_writer(copy, max_value_bytes=VALUE_BYTES_MAX)
        try:
            begin_immediate(replayed)
            with replay.images_alone(replayed):
                count = _walk(live, head, progress, partial(_replay, replayed))
            tables, rows, content = _compare(live, replayed)
        finally:
            replayed.close()
    return VerifyReport(head, count, tables=tables, rows=rows, content=content)


def _check_integrity(live: apsw.Connection) -> None:
    """What SQLite itself knows to be wrong: pages, indexes, constraints."""
    findings = [row[0] for row in sql.rows(live, "PRAGMA integrity_check(1)")]
    if findings != ["ok"]:
        raise VerificationFailed(f"SQLite finds damage: {findings[0]}.")


def _replay(replayed: apsw.Connection, record: Record, header: Header, event: Event) -> None:
    try:
        replay.adopt(replayed, record, header, event)
    except Misfit as misfit:
        raise VerificationFailed(
            f"Record {header.seq} ({header.kind}) does not fit those before it. {misfit}."
        ) from misfit


# -- comparing the live memory with the replayed one ---------------------------------------------


def _compare(live: apsw.Connection, replayed: apsw.Connection) -> tuple[int, int, str]:
    """Tables, rows and content digest, if all is equal; raises at the first difference."""
    hasher = hashlib.sha256()
    _compare_schema(live, replayed, hasher.update)
    tables = [o.name for o in schema.objects(live) if o.kind == "table"]
    rows = 0
    for name in sorted(tables):
        table = schema.load_table(live, name)
        hasher.update(_encode([table.name, table.stored]))
        rows += _compare_rows(table, live, replayed, hasher.update)
    _compare_stores(live, replayed)
    _compare_values(
        "the AUTOINCREMENT counters", images.sequences(live), images.sequences(replayed)
    )
    _compare_values("the operations standing", log.all_standing(live), log.all_standing(replayed))
    return len(tables), rows, hasher.hexdigest()


def _compare_schema(
    live: apsw.Connection, replayed: apsw.Connection, note: Callable[[bytes], None]
) -> None:
    found = {(o.kind, o.name): o.text for o in schema.objects(live)}
    expected = {(o.kind, o.name): o.text for o in schema.objects(replayed)}
    for key in sorted(found.keys() | expected.keys()):
        _compare_values(f"the text of {key[0]} {key[1]!r}", found.get(key), expected.get(key))
        note(_encode([*key, found[key]]))
    # Triggers of a table fire in the order in which they were made.
    orders = [schema.triggers_in_order(connection) for connection in (live, replayed)]
    _compare_values("the order of triggers", *orders)


def _compare_stores(live: apsw.Connection, replayed: apsw.Connection) -> None:
    """The rows of dropped tables, which undo would bring back."""
    names = sorted(stores.names(live))
    _compare_values("the stores of dropped tables", names, sorted(stores.names(replayed)))
    for name in names:
        rows = (stores.rows(connection, name) for connection in (live, replayed))
        for found, expected in images.pairs(*rows):
            if found is None or expected is None or changed_indexes(found, expected):
                raise _difference(f"a row in {name!r}", _shown(found), _shown(expected))


def _compare_rows(
    table: Table,
    live: apsw.Connection,
    replayed: apsw.Connection,
    note: Callable[[bytes], None],
) -> int:
    count = 0
    rows = (_all_rows(connection, table) for connection in (live, replayed))
    for found, expected in images.pairs(*rows):
        rowid = (found or expected or [None])[0]
        where = f"{table.name!r} rowid {rowid}"
        if found is None or expected is None:
            _compare_values(where, _shown(found), _shown(expected))
        elif changed := changed_indexes(found, expected):
            column = table.stored[changed[0] - 1]
            there, journal = found[changed[0]], expected[changed[0]]
            raise _difference(f"{where} column {column!r}", there, journal)
        note(_encode(found))
        count += 1
    return count


def _all_rows(connection: apsw.Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    try:
        yield from images.read_all(connection, table, table.stored)
    except InvalidCall as error:
        raise VerificationFailed(f"{error.message} structmem never writes such text.") from error


def _shown(row: Sequence[Any] | None) -> object:
    return "no such row" if row is None else list(row[1:])


def _compare_values(where: str, found: object, expected: object) -> None:
    if found != expected:
        raise _difference(where, found, expected)


def _difference(where: str, found: object, expected: object) -> VerificationFailed:
    return VerificationFailed(
        f"{where}: the file holds {shown(found)}, the journal says {shown(expected)}.",
        hint="The file was changed by something other than structmem, or is damaged.",
    )
