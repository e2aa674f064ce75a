"""Foreign key actions, in undo and in replay: C33.

What a cascade did is in the operation's record. Undo and replay put images in place while no action
runs, in whichever order parents and children were captured.
"""

from pathlib import Path

import pytest

from structmem import Column, ConstraintFailed, Reference, StructuredMemory, open_replica
from tests.engine.conftest import dump
from tests.engine.faults.conftest import make_witness, refused

ACTIONS = [None, "NO ACTION", "RESTRICT", "SET NULL", "SET DEFAULT", "CASCADE"]
REFUSE = (None, "NO ACTION", "RESTRICT")


def _make_families(memory: StructuredMemory, action: str | None) -> None:
    """Parents, children, grandchildren and a tree, joined by the action."""

    def reference(table: str) -> Reference:
        return Reference(table, "k", on_delete=action, on_update=action)

    memory.create_table("p", [Column("k", "TEXT", unique=True), Column("a")])
    memory.create_table(
        "ch",
        [
            Column("k", "TEXT", unique=True, default="none", references=reference("p")),
            Column("again", "TEXT", default="none", references=reference("p")),
        ],
    )
    memory.create_table("grand", [Column("up", "TEXT", default="none", references=reference("ch"))])
    memory.create_table(
        "tree", [Column("k", "TEXT", unique=True), Column("up", references=reference("tree"))]
    )
    for table in ("p", "ch"):
        memory.insert(table, [{"k": k} for k in ("none", "x", "y", "z")])
    memory.update("ch", {"again": "x"}, "k <> 'none'")
    memory.insert("grand", [{"up": k} for k in ("x", "x", "y")])
    memory.insert("tree", [{"k": "none"}, {"k": "a", "up": "none"}, {"k": "b", "up": "a"}])
    memory.insert("tree", [{"k": "c", "up": "c"}])
    make_witness(memory)


@pytest.mark.parametrize("action", ACTIONS)
def test_c33_cascades_are_undone_and_replayed(
    memory: StructuredMemory, tmp_path: Path, action: str | None
) -> None:
    """H2, H5, J4, R2: two levels deep, two keys in a row, a table that references itself."""
    _make_families(memory, action)
    before = dump(memory)
    with open_replica(tmp_path / "replica.db", memory_id=memory.id) as replica:
        for table, k in (("p", "x"), ("p", "y"), ("ch", "x"), ("tree", "none"), ("tree", "c")):
            _try_and_undo(memory, replica, table, k, update=True, refuses=action in REFUSE)
            _try_and_undo(memory, replica, table, k, update=False, refuses=action in REFUSE)
            assert dump(memory) == before
        replica.apply(memory.records(replica.position()))
        assert dump(replica) == before


def _try_and_undo(
    memory: StructuredMemory,
    replica: StructuredMemory,
    table: str,
    k: str,
    *,
    update: bool,
    refuses: bool,
) -> None:
    """The change, as the action lets it through; the replica equal to it; and its undo."""

    def change() -> None:
        if update:
            assert memory.update(table, {"k": f"{k}2"}, "k = ?", [k]).rows_changed == 1
        else:
            assert memory.delete(table, "k = ?", [k]).rows_changed == 1

    try:
        change()
    except ConstraintFailed:
        # SET NULL and SET DEFAULT can break another rule: two children that both become 'none'.
        with refused(memory, ConstraintFailed):
            change()
        return
    assert not refuses or (table, k) == ("tree", "c"), "a row that references itself goes alone"
    replica.apply(memory.records(replica.position()))
    assert dump(replica) == dump(memory)
    memory.undo()


def test_c33_all_parents_at_once(memory: StructuredMemory) -> None:
    """H2"""
    _make_families(memory, "CASCADE")
    before = dump(memory)
    assert memory.delete("p", "true").rows_changed == 4
    assert memory.query("SELECT (SELECT count(*) FROM ch), (SELECT count(*) FROM grand)").rows == [
        (0, 0)
    ]
    memory.undo()
    assert dump(memory) == before
    memory.delete("tree", "true")
    memory.undo()
    assert dump(memory) == before


def test_c33_swapped_and_shifted_keys_are_undone(memory: StructuredMemory) -> None:
    """H3: what ON UPDATE CASCADE carried along goes back with it."""
    _make_families(memory, "CASCADE")
    before = dump(memory)
    for new, old in (("t", "x"), ("x", "y"), ("y", "t")):
        memory.update("p", {"k": new}, "k = ?", [old])
    for _ in range(3):
        memory.undo()
    assert dump(memory) == before
