"""The horizon of the history: how far back operations can be undone (H4)."""

from pathlib import Path

import pytest

from structmem import (
    CannotUndo,
    Column,
    InvalidCall,
    NothingToUndo,
    StructuredMemory,
    open_replica,
    sql,
)
from tests.engine.conftest import dump, raw

NUMBERS = [{"a": 1}, {"a": 2}]


def make(path: Path, max_operations: int | None) -> StructuredMemory:
    return StructuredMemory(path, max_operations=max_operations)


def stores(memory: StructuredMemory) -> list[str]:
    connection = raw(memory)
    found = sql.rows(connection, "SELECT name FROM sqlite_schema ORDER BY name")
    connection.close()
    return [name for (name,) in found if name.startswith("_structmem_hidden_")]


def standing(memory: StructuredMemory) -> list[str]:
    return [operation.op_id for operation in memory.history()]


def test_without_a_horizon_everything_can_be_undone(tmp_path: Path) -> None:
    with make(tmp_path / "a.db", None) as memory:
        memory.create_table("t", [Column("a")])
        for _ in range(50):
            memory.insert("t", NUMBERS)
        assert len(memory.history(100)) == 51


def test_the_latest_can_be_undone_and_the_journal_keeps_all(tmp_path: Path) -> None:
    with make(tmp_path / "a.db", 2) as memory:
        memory.create_table("t", [Column("a")])
        for _ in range(3):
            memory.insert("t", NUMBERS)
        assert standing(memory) == ["op_4", "op_3"]
        assert [o.op_id for o in memory.log()] == ["op_1", "op_2", "op_3", "op_4"]
        memory.undo()
        memory.undo()
        with pytest.raises(NothingToUndo):
            memory.undo()
        assert memory.query("SELECT count(*) FROM t").scalar() == 2
        memory.redo()
        memory.redo()
        assert standing(memory) == ["op_4", "op_3"]
        memory.verify(deep=True)


def test_beyond_the_horizon_is_told(tmp_path: Path) -> None:
    """M9"""
    with make(tmp_path / "a.db", 2) as memory:
        memory.create_table("t", [Column("a")])
        for _ in range(3):
            memory.insert("t", NUMBERS)
        for call in (memory.undo, memory.revert_to):
            with pytest.raises(CannotUndo, match="op_1 is beyond the horizon"):
                call("op_1")


def test_a_store_goes_with_the_operation_that_made_it(tmp_path: Path) -> None:
    """W6: nothing is lost until the operation leaves the history."""
    with make(tmp_path / "a.db", 2) as memory:
        memory.create_table("t", [Column("a")])
        memory.create_table("u", [Column("a")])
        memory.insert("t", NUMBERS)
        memory.drop_table("t")
        assert stores(memory) == ["_structmem_hidden_4"]
        memory.insert("u", NUMBERS)
        assert stores(memory) == ["_structmem_hidden_4"]
        memory.insert("u", NUMBERS)
        assert stores(memory) == []
        memory.verify(deep=True)
        assert memory.size().hidden == 0


def test_undoing_what_moved_the_horizon_does_not_move_it_back(tmp_path: Path) -> None:
    with make(tmp_path / "a.db", 1) as memory:
        memory.create_table("t", [Column("a")])
        memory.insert("t", NUMBERS)
        assert standing(memory) == ["op_2"]
        memory.undo()
        assert standing(memory) == []
        memory.redo()
        assert standing(memory) == ["op_2"]
        memory.verify(deep=True)


def test_a_history_of_nothing(tmp_path: Path) -> None:
    with make(tmp_path / "a.db", 0) as memory:
        memory.create_table("t", [Column("a")])
        memory.insert("t", NUMBERS)
        memory.drop_table("t")
        assert (standing(memory), stores(memory)) == ([], [])
        with pytest.raises(NothingToUndo):
            memory.undo()
        memory.verify(deep=True)


def test_a_horizon_that_is_set_later(tmp_path: Path) -> None:
    with make(tmp_path / "a.db", None) as memory:
        memory.create_table("t", [Column("a")])
        for _ in range(5):
            memory.insert("t", NUMBERS)
    with make(tmp_path / "a.db", 3) as memory:
        assert len(standing(memory)) == 6
        memory.insert("t", NUMBERS)
        assert standing(memory) == ["op_7", "op_6", "op_5"]
        memory.verify(deep=True)
    with make(tmp_path / "a.db", None) as memory:
        memory.insert("t", NUMBERS)
        assert standing(memory) == ["op_8", "op_7", "op_6", "op_5"]


def test_a_replica_agrees(tmp_path: Path) -> None:
    """R2: whatever it is opened with itself."""
    with make(tmp_path / "a.db", 2) as memory:
        memory.create_table("t", [Column("a")])
        memory.insert("t", NUMBERS)
        memory.drop_table("t")
        records = list(memory.records())
        memory.create_table("t", [Column("b")])
        memory.undo()
        memory.create_table("v", [Column("b")])
        memory.create_table("w", [Column("b")])
        with open_replica(tmp_path / "b.db", memory_id=memory.id) as replica:
            replica.apply(records)
            assert stores(replica) == ["_structmem_hidden_3"]
            replica.apply(memory.records())
            assert dump(replica, internal=False) == dump(memory)
            assert (stores(replica), standing(replica)) == ([], standing(memory))
            assert replica.verify(deep=True) == memory.verify(deep=True)


def test_what_is_no_number_is_refused() -> None:
    for wrong in (-1, 1.5, "3", True):
        with pytest.raises(InvalidCall, match="max_operations"):
            StructuredMemory(":memory:", max_operations=wrong)  # pyright: ignore[reportArgumentType] # that is the point
