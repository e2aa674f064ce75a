"""Nested views, whose compilation doubles with each level: no call may hang because of one.

None of this is timed. Without the bounds each test would take minutes and run into the timeout.
"""

from pathlib import Path

import pytest

from structmem import Column, InvalidCall, QueryLimit, StructuredMemory, views
from tests.engine.conftest import alter

_SHAPES = [
    "SELECT a FROM {v} UNION ALL SELECT a FROM {v}",
    "SELECT x.a FROM {v} x, {v} y",
    "SELECT a FROM {v} WHERE a IN (SELECT a FROM {v})",
    "SELECT (SELECT a FROM {v}) + (SELECT a FROM {v}) AS a",
]
_LEVELS = 24


def nested(shape: str, levels: int, base: str = "t") -> str:
    """Views v0 to v`levels`, each reading the one before it as `shape` says."""
    texts = [f"CREATE VIEW v0 AS SELECT a FROM {base}"]
    texts += [f"CREATE VIEW v{i + 1} AS {shape.format(v=f'v{i}')}" for i in range(levels)]
    return ";".join(texts)


@pytest.fixture
def quick(tmp_path: Path) -> StructuredMemory:
    """A memory whose calls have two seconds."""
    memory = StructuredMemory(tmp_path / "quick.db", query_timeout=2)
    memory.create_table("t", [Column("a")])
    return memory


def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let views be made as versions did that had no bound for them."""

    def accept(*_: object) -> None: ...

    monkeypatch.setattr(views, "check", accept)


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_view_that_takes_too_much_is_refused_by_name(
    memory: StructuredMemory, shape: str
) -> None:
    """Q3, W7"""
    memory.create_table("t", [Column("a")])
    with pytest.raises(QueryLimit, match=r"The view 'v\d+' is too") as error:
        memory.execute(nested(shape, _LEVELS))
    assert error.value.hint and "table" in error.value.hint
    memory.execute(nested(shape, 4))
    assert memory.insert("t", {"a": 1}).rowids == [1]


def test_a_table_that_makes_a_broken_view_take_too_much_is_refused(
    memory: StructuredMemory,
) -> None:
    """Q3, W7: by whichever operation makes it."""
    memory.execute(nested(_SHAPES[0], 12, base="missing"))
    with pytest.raises(QueryLimit, match=r"The view 'v\d+' is too"):
        memory.create_table("missing", [Column("a")])
    with pytest.raises(QueryLimit, match=r"The view 'v\d+' is too"):
        memory.execute("CREATE TABLE missing (a)")
    memory.execute("DROP VIEW v0")
    memory.create_table("missing", [Column("a")])


def test_broken_views_are_allowed(memory: StructuredMemory) -> None:
    """W7"""
    memory.execute("CREATE VIEW lost AS SELECT a FROM nowhere")
    memory.execute("CREATE VIEW one AS SELECT * FROM two; CREATE VIEW two AS SELECT * FROM one")
    memory.create_table("t", [Column("a")])


def test_undo_and_redo_refuse_no_view(memory: StructuredMemory) -> None:
    """H2, W7: what was accepted once comes back."""
    memory.create_table("t", [Column("a")])
    memory.execute(nested(_SHAPES[0], 8))
    text = memory.describe()
    memory.undo()
    memory.redo()
    assert memory.describe() == text


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_memory_that_has_such_views_goes_on(
    quick: StructuredMemory, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    """Q3, W3, W4: files that were made before there was a bound."""
    with quick as memory:
        with monkeypatch.context() as patch:
            as_before(patch)
            memory.execute(nested(shape, _LEVELS))
        for value in range(20):
            memory.insert("t", {"a": value})
        assert memory.update("t", {"a": 30}, where="a = 3").rows_changed == 1
        assert memory.delete("t", where="a = 30").rows_changed == 1
        memory.create_table("u", [Column("a")])
        assert memory.query("SELECT count(*) FROM t").scalar() == 19
        assert "v24" in memory.describe()
        for statement in ("SELECT * FROM v24", "PRAGMA table_list"):
            with pytest.raises(QueryLimit):
                memory.query(statement)
        with pytest.raises(QueryLimit):
            memory.delete("t", where="a IN (SELECT a FROM v24)")
        with pytest.raises(QueryLimit):
            memory.execute("CREATE VIEW more AS SELECT a FROM v24")
        memory.execute("DROP VIEW v24")
        memory.undo()
        memory.verify(deep=True)


def test_compiling_ends_when_the_time_is_up(
    quick: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q3: no progress handler is asked while SQLite compiles; the guard is."""
    with quick as memory:
        with monkeypatch.context() as patch:
            as_before(patch)
            memory.execute(nested(_SHAPES[1], 15))
        for call in (memory.query, memory.execute):
            with pytest.raises(QueryLimit, match="seconds"):
                call("SELECT * FROM v15")
        with monkeypatch.context() as patch:
            as_before(patch)
            memory.execute(
                "CREATE TABLE w (a);"
                "CREATE TRIGGER g AFTER INSERT ON w BEGIN SELECT count(*) FROM v15; END"
            )
        with pytest.raises(QueryLimit, match="seconds"):
            memory.insert("w", {"a": 1})


def test_a_table_is_looked_up_by_its_name_alone(unjournaled: StructuredMemory) -> None:
    """W3, W7: kinds of tables are told apart without compiling views."""
    alter(unjournaled, 'CREATE TABLE "a""b" (k PRIMARY KEY) WITHOUT ROWID')
    alter(unjournaled, "CREATE VIRTUAL TABLE ft USING fts5 (q); CREATE TABLE ft_notes (a)")
    for name, kind in (('A"b', "WITHOUT ROWID"), ("ft", "virtual"), ("FT_data", "part of a")):
        with pytest.raises(InvalidCall, match=kind):
            unjournaled.insert(name, {"k": 1})
    assert unjournaled.insert("FT_notes", {"a": 1}).rowids == [1]
