"""What takes the room, and the bound of it (M10)."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from structmem import Column, Full, InvalidCall, Size, StructuredMemory, open_replica, sql
from structmem.limits import SIZE_LIMIT_BYTES_MIN
from tests.engine.conftest import alter, dump, raw

LIMIT = 256 << 10
PAGE = 4_096


def total(size: Size) -> int:
    return sum(size.tables.values()) + size.journal + size.hidden + size.free + size.overhead


def fill(memory: StructuredMemory, *, size: int = 2_000) -> Full:
    """Insert until there is no room."""
    for _ in range(10_000):
        try:
            memory.insert("t", {"a": "x" * size})
        except Full as error:
            return error
    raise AssertionError("the bound was never met")


def test_the_parts_are_told_apart(memory: StructuredMemory) -> None:
    """M10: all of them together are the file."""
    assert memory.size() == Size({}, 4 * PAGE, 0, 0, 2 * PAGE, 6 * PAGE, 0)
    memory.create_table("small", [Column("a")])
    memory.create_table("large", [Column("a", unique=True), Column("b")])
    before = memory.size()
    assert before.tables == {"small": PAGE, "large": 2 * PAGE}
    assert total(before) == before.file
    assert before.write_ahead_log == Path(f"{memory.path}-wal").stat().st_size > 0

    memory.insert("large", [{"a": n, "b": "x" * 10_000} for n in range(20)])
    after = memory.size()
    assert after.tables["small"] == PAGE
    assert after.tables["large"] >= 200_000 and after.journal >= before.journal + 200_000
    assert (after.hidden, after.free, after.overhead) == (0, 0, before.overhead)
    assert total(after) == after.file

    memory.delete("large", "true")
    freed = memory.size()
    assert freed.tables["large"] == 2 * PAGE and freed.free > 0
    assert total(freed) == freed.file
    sql.run(raw(memory), "PRAGMA wal_checkpoint")
    assert memory.path.stat().st_size == freed.file
    with StructuredMemory(memory.path, read_only=True) as reader:
        assert reader.size() == freed


def test_tables_may_be_called_anything(unjournaled: StructuredMemory) -> None:
    """M6: also like what measures them; an index counts with its table."""
    for name in ("dbstat", 'a"b', "Übung", "pgsize"):
        unjournaled.create_table(name, [Column("a")])
    alter(unjournaled, 'CREATE INDEX dbstat_a ON "dbstat" (a); CREATE VIEW v AS SELECT 1')
    one = PAGE
    expected = {"dbstat": 2 * one, 'a"b': one, "Übung": one, "pgsize": one}
    assert unjournaled.size().tables == expected


def test_hidden_tables_are_told_from_the_journal(unjournaled: StructuredMemory) -> None:
    before = unjournaled.size()
    alter(unjournaled, "CREATE TABLE _structmem_hidden_1 (a); ANALYZE")
    after = unjournaled.size()
    assert (after.hidden, after.journal, after.tables) == (PAGE, before.journal, {})
    assert after.overhead >= before.overhead + PAGE  # the statistics


def test_a_replica_is_measured_as_its_primary_is(tmp_path: Path, memory: StructuredMemory) -> None:
    """R2"""
    memory.create_table("t", [Column("a")])
    memory.insert("t", [{"a": "x" * 5_000}] * 10)
    with open_replica(tmp_path / "replica.db", memory_id=memory.id) as replica:
        replica.apply(memory.records())
        assert replica.size().tables == memory.size().tables
        with StructuredMemory(replica.path, read_only=True) as reader:
            assert reader.size().tables == memory.size().tables


def test_the_file_stays_within_its_limit(tmp_path: Path) -> None:
    """M10, M7: what is too much is refused whole, and says why; the rest goes on."""
    path = tmp_path / "a.db"
    with StructuredMemory(path, size_limit=LIMIT) as memory:
        memory.create_table("t", [Column("a")])
        memory.insert("t", {"a": 1})
        for rows in (2_000, 2_000_000):  # SQLite ends the first itself, and leaves the other open
            before = dump(memory, internal=True)
            with pytest.raises(Full, match="size limit of 262,144 bytes") as caught:
                memory.insert("t", [{"a": "x" * rows}] * 200)
            assert "size_limit" in str(caught.value.hint) and caught.value.code == "full"
            assert dump(memory, internal=True) == before
        fill(memory)
        assert LIMIT - 8 * PAGE <= memory.size().file <= LIMIT
        assert memory.query("SELECT a FROM t LIMIT 1").scalar() == 1
        memory.verify(deep=True)
    assert path.stat().st_size <= LIMIT
    with StructuredMemory(path, size_limit=2 * LIMIT) as memory:
        memory.insert("t", {"a": "x" * 50_000})
        for _ in range(3):
            memory.undo()
        memory.verify(deep=True)


def test_a_file_beyond_its_limit_is_read_and_its_free_pages_are_used(tmp_path: Path) -> None:
    """M10"""
    path = tmp_path / "a.db"
    with StructuredMemory(path) as memory:
        memory.create_table("t", [Column("a")])
        memory.insert("t", [{"a": "x" * 2_000}] * 300)
        memory.insert("t", [{"a": "y" * 2_000}] * 300)
        memory.undo()
    size = path.stat().st_size
    with StructuredMemory(path, size_limit=LIMIT) as memory:
        free = memory.size().free
        assert size > LIMIT and free > 0
        assert memory.query("SELECT count(*) FROM t").scalar() == 300
        fill(memory)
        full = memory.size()
        assert full.free < free and full.file == size
        memory.verify(deep=True)
    assert path.stat().st_size == size


def test_the_limit_holds_after_others_grew_and_shrank_the_file(tmp_path: Path) -> None:
    """M4, M10: SQLite raises the bound when it finds the file larger."""
    path = tmp_path / "a.db"
    with StructuredMemory(path, size_limit=LIMIT) as bounded:
        bounded.create_table("t", [Column("a")])
        alter(bounded, "CREATE TABLE other (a)")
        bounded.insert("t", {"a": 1})
        alter(bounded, "INSERT INTO other VALUES (zeroblob(1000000))")
        fill(bounded)
        alter(bounded, "DELETE FROM other; PRAGMA incremental_vacuum")
        assert bounded.size().file < LIMIT
        fill(bounded)
        assert bounded.size().file <= LIMIT


def test_a_limit_binds_what_is_applied(tmp_path: Path, memory: StructuredMemory) -> None:
    """M10, R2: a replica stops whole, and goes on with more room."""
    memory.create_table("t", [Column("a")])
    memory.insert("t", [{"a": "x" * 5_000}] * 100)
    path = tmp_path / "replica.db"
    open_replica(path, memory_id=memory.id).close()
    with StructuredMemory(path, size_limit=LIMIT) as replica:
        with pytest.raises(Full, match="size limit"):
            replica.apply(memory.records())
        assert replica.position().seq == 0
    with StructuredMemory(path) as replica:
        assert replica.apply(memory.records()) == memory.position()
        replica.verify(deep=True)


@pytest.mark.parametrize("limit", [0, -1, SIZE_LIMIT_BYTES_MIN - 1, 1e9, "1 GB", True, 1 << 63])
def test_limits_that_cannot_be(tmp_path: Path, limit: Any) -> None:
    """M9"""
    with pytest.raises(InvalidCall, match="size_limit must be a whole number from 131,072"):
        StructuredMemory(tmp_path / "a.db", size_limit=limit)


def test_the_smallest_limit_has_room_for_a_table(tmp_path: Path) -> None:
    with StructuredMemory(tmp_path / "a.db", size_limit=SIZE_LIMIT_BYTES_MIN) as memory:
        memory.create_table("t", [Column("a", unique=True), Column("b")])
        memory.insert("t", {"a": 1, "b": "x" * 10_000})
        memory.undo()
        memory.verify(deep=True)


def test_measuring_waits_for_nobody(memory: StructuredMemory) -> None:
    """M4: it sees what is committed, while another writes."""
    memory.create_table("t", [Column("a")])
    writer = apsw.Connection(str(memory.path))
    sql.run(writer, "BEGIN IMMEDIATE; INSERT INTO t VALUES (zeroblob(100000))")
    assert memory.size().tables == {"t": PAGE}
    sql.run(writer, "ROLLBACK")
    writer.close()
