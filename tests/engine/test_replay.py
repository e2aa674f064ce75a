"""Records from one copy of a memory to another: apply, bookmarks, replicas (J4, R2)."""

from pathlib import Path

import pytest

from structmem import (
    Column,
    Diverged,
    FormatTooNew,
    InvalidCall,
    ReadOnly,
    StructuredMemory,
    open_replica,
    sql,
)
from structmem.schema import load_table
from structmem_journal import Position, Record, decode_header

from .conftest import alter, dump, raw


@pytest.fixture
def source(memory: StructuredMemory) -> StructuredMemory:
    memory.create_table("t", [Column("a", "TEXT", unique=True), Column("b")])
    memory.insert("t", [{"a": str(n), "b": n} for n in range(10)], call_id="c1")
    memory.update("t", {"b": None}, "b > 5")
    memory.undo()
    memory.delete("t", "b < 3")
    return memory


@pytest.fixture
def replica(source: StructuredMemory, tmp_path: Path) -> StructuredMemory:
    return open_replica(tmp_path / "replica.db", memory_id=source.id)


def test_a_replica_equals_its_primary(source: StructuredMemory, replica: StructuredMemory) -> None:
    """R2: rows, rowids, schema and journal are the same bytes."""
    assert replica.apply(source.records(), bookmark=17) == source.position()
    assert dump(replica) == dump(source)
    assert list(replica.records()) == list(source.records())
    assert replica.verify(deep=True) == source.verify(deep=True)
    assert replica.bookmark() == 17


def test_each_record_is_applied_once(source: StructuredMemory, replica: StructuredMemory) -> None:
    """R2, C47"""
    records = list(source.records())
    for upto in (2, 1, 4, 3, 5, 5):
        replica.apply(records[:upto])
    assert replica.position() == source.position()
    assert dump(replica) == dump(source)


def test_a_gap_changes_nothing(source: StructuredMemory, replica: StructuredMemory) -> None:
    """R2, C46, M7"""
    records = list(source.records())
    before = dump(replica, internal=True)
    with pytest.raises(Diverged, match="the next record there is 3"):
        replica.apply([records[0], records[2]], bookmark=3)
    assert dump(replica, internal=True) == before


def test_records_of_another_memory_are_refused(
    source: StructuredMemory, replica: StructuredMemory, tmp_path: Path
) -> None:
    replica.apply(source.records())
    with StructuredMemory(tmp_path / "other.db") as other:
        other.create_table("t", [Column("a")])
        with pytest.raises(Diverged):
            replica.apply(other.records())
    with pytest.raises(Diverged, match="not on the chain"):
        list(source.records(Position(2, bytes(32))))


def test_an_altered_record_is_refused(source: StructuredMemory, replica: StructuredMemory) -> None:
    """J1"""
    first = next(source.records())
    payload = bytearray(first.payload or b"")
    payload[-1] ^= 1
    with pytest.raises(Diverged):
        replica.apply([Record(first.header, first.digest, bytes(payload))])


def test_a_record_without_its_payload_is_refused(
    source: StructuredMemory, replica: StructuredMemory
) -> None:
    """R2: its rows would be missing in silence."""
    first, second, *_ = source.records()
    with pytest.raises(Diverged, match="payload is missing"):
        replica.apply([first, Record(second.header, second.digest, None)])
    assert replica.position().seq == 0


def test_a_newer_format_stops(replica: StructuredMemory, source: StructuredMemory) -> None:
    """J2"""
    first = next(source.records())
    header = bytearray(first.header)
    assert header[1] == 0, "the format is the first item of the array"
    header[1] = 1
    with pytest.raises(FormatTooNew, match="format 1"):
        replica.apply([Record(bytes(header), first.digest, first.payload)])


def test_a_replica_that_was_changed_by_hand_stops(
    source: StructuredMemory, replica: StructuredMemory
) -> None:
    """R2, M10: never diverge in silence."""
    records = list(source.records())
    replica.apply(records[:2])
    alter(replica, "UPDATE t SET b = 77 WHERE rowid = 8")
    with pytest.raises(Diverged, match="rowid 8 column 'b'"):
        replica.apply(records[2:])
    assert replica.position().seq == 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("CREATE UNIQUE INDEX one_b ON t (b)", r"t\.b"),
        ("CREATE TABLE later (x)", "'later'"),
        ("CREATE INDEX later ON t (a)", "later"),
        ("INSERT INTO t (rowid, a) VALUES (11, CAST(x'ff' AS TEXT))", "not valid UTF-8"),
    ],
)
def test_what_is_in_the_way_of_a_record_stops_a_replica(
    source: StructuredMemory, replica: StructuredMemory, change: str, named: str
) -> None:
    """R2, M10: never the caller's fault, whatever SQLite makes of it."""
    source.create_table("later", [Column("a")])
    source.insert("t", {"a": "new", "b": 3})
    records = list(source.records())
    replica.apply(records[:-2])
    alter(replica, change)
    before = dump(replica, internal=True)
    with pytest.raises(Diverged, match=named):
        replica.apply(records[-2:])
    assert dump(replica, internal=True) == before


def test_a_replica_takes_what_its_primary_could_store(tmp_path: Path) -> None:
    """R2, M5: a larger bound of the primary's is no reason to stop."""
    large = bytes(18 << 20)
    with StructuredMemory(tmp_path / "large.db", max_value_bytes=20 << 20) as source:
        source.create_table("t", [Column("a")])
        source.insert("t", {"a": large})
        source.delete("t", "true")
        with open_replica(tmp_path / "replica.db", memory_id=source.id) as replica:
            replica.apply(source.records())
            assert replica.position() == source.position()
    with StructuredMemory(tmp_path / "large.db") as reopened:
        reopened.undo()
        assert reopened.query("SELECT count(*) FROM t").scalar() == 1
        reopened.verify(deep=True)


def test_a_replica_is_read_only_to_its_users(
    source: StructuredMemory, replica: StructuredMemory
) -> None:
    """R2"""
    replica.apply(source.records())
    with StructuredMemory(replica.path) as writing:
        with pytest.raises(ReadOnly, match="replica"):
            writing.insert("t", {"a": "x"})
        with pytest.raises(ReadOnly):
            writing.undo()
    with StructuredMemory(replica.path, read_only=True) as reading:
        assert reading.query("SELECT count(*) FROM t").scalar() == 7
        assert reading.role() == "replica"
        with pytest.raises(ReadOnly, match="reading only"):
            reading.insert("t", {"a": "x"})
        with pytest.raises(ReadOnly):
            reading.apply(source.records())


def test_a_replica_knows_call_ids(source: StructuredMemory, replica: StructuredMemory) -> None:
    """M8: whoever is primary next must know them."""
    replica.apply(source.records())
    alter(replica, "UPDATE _structmem_meta SET value = 'primary' WHERE key = 'role'")
    again = replica.insert("t", [{"a": str(n), "b": n} for n in range(10)], call_id="c1")
    assert again.repeated and again.op_id == "op_2"


def test_a_replica_file_belongs_to_one_memory(source: StructuredMemory, tmp_path: Path) -> None:
    with open_replica(tmp_path / "r.db", memory_id=source.id):
        pass
    with pytest.raises(InvalidCall, match="not a replica of"):
        open_replica(tmp_path / "r.db", memory_id="0" * 32)
    with pytest.raises(InvalidCall, match="primary"):
        open_replica(source.path, memory_id=source.id)


def test_positions_on_the_chain(source: StructuredMemory) -> None:
    for record in source.records():
        seq = decode_header(record.header).seq
        assert source.position_at(seq) == Position(seq, record.digest)
    assert source.position_at(6) is None
    assert [
        decode_header(r.header).seq
        for r in source.records(source.position_at(3) or source.position())
    ] == [4, 5]


def test_a_table_is_read_again_when_its_indexes_change(unjournaled: StructuredMemory) -> None:
    """H3: whether an update can be put in place depends on what is unique now."""
    alter(unjournaled, "CREATE TABLE t (a, b)")
    connection = raw(unjournaled)
    assert load_table(connection, "t").unique == ()
    for condition, plain in (("", True), (" WHERE b", False)):
        sql.run(connection, f"CREATE UNIQUE INDEX i ON t (a){condition}")
        assert [index.plain for index in load_table(connection, "T").unique] == [plain]
        sql.run(connection, "DROP INDEX i")
    assert load_table(connection, "t").unique == ()
    connection.close()


def _failing(_position: Position) -> None:
    raise RuntimeError("a listener's own fault")


def test_listeners_hear_of_commits(source: StructuredMemory) -> None:
    heard: list[Position] = []
    stop = source.on_commit(heard.append)
    source.on_commit(_failing)
    done = source.insert("t", {"a": "new"})
    source.delete("t", "false")
    assert heard == [done.position]
    stop()
    source.insert("t", {"a": "newer"})
    assert len(heard) == 1
