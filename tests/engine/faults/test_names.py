"""Names that are not what they seem: C36.

(`test_create_table.py` has the writes; here a name also goes through the schema's text, a foreign
key, a replica and the errors about it.)
"""

from pathlib import Path
from typing import Any

import pytest

from structmem import (
    Column,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    Reference,
    StructuredMemory,
    open_replica,
)
from structmem.identifiers import quote
from tests.engine.conftest import alter, dump
from tests.engine.faults.conftest import all_refused, refused

ODD = [
    *("", " ", "\t", "\n", 'a"b', '"', '""', "a]b", "[a]", "a`b", "a;b", "a--b", "/*", "*/", "a'b"),
    *("{x}", "{0}", "%s", "%(x)s", "?", "?1", ":x", "$x", "@x", "\\", "\\0", "a.b", "main.t", "*"),
    *("new", "old", "select", "table", "rowid", "true", "null", "main", "temp", "t", "c", "p"),
    *("é", "e\u0301", "É", "\u212a", "\u017fqlite_x", "\u202e", "\ufeff", "\U0001f600", "0", "1a"),
    *("x" * 10_000, "pragma_table_info", "json_each", "structmem_x", "excluded", "inserted"),
]
IMPOSSIBLE: list[Any] = [
    *("a\0b", "\0", "\ud800", None, 5, b"t", ["t"], "x" * 100_001),
    *("sqlite_x", "SQLITE_x", "Sqlite_schema", "_structmem_x", "_STRUCTMEM_meta"),
]


@pytest.mark.parametrize("name", ODD, ids=lambda name: ascii(name)[:20])
def test_c36_an_odd_name_goes_all_the_way(
    memory: StructuredMemory, tmp_path: Path, name: str
) -> None:
    """M6, Q6, H2, R2: as a table, a column, and what a foreign key names."""
    memory.create_table(name, [Column(name, unique=True), Column("plain", "TEXT")])
    memory.create_table(f"{name}_2", [Column("up", references=Reference(name, name))])
    memory.insert(name, [{name: 1, "plain": "x"}, {name: 2}])
    memory.insert(f"{name}_2", {"up": 1})
    assert memory.update(name, {name: 5}, f"{quote(name)} = 2").rowids == [2]
    assert memory.query(f"SELECT plain, {quote(name)} FROM {quote(name)}").rows[0] == ("x", 1)
    before = dump(memory)
    memory.delete(f"{name}_2", "true")
    memory.delete(name, f"{quote(name)} IS NOT NULL")
    memory.undo()
    memory.undo()
    assert dump(memory) == before
    _same_from_its_text(memory)
    with open_replica(tmp_path / "replica.db", memory_id=memory.id) as replica:
        replica.apply(memory.records())
        assert dump(replica) == before
    while memory.history(1):
        memory.undo()
    assert dump(memory) == {"": []}


def _same_from_its_text(memory: StructuredMemory) -> None:
    text = memory.describe()
    with StructuredMemory(":memory:") as copy:
        alter(copy, text)
        assert copy.describe() == text


@pytest.mark.parametrize("name", IMPOSSIBLE, ids=lambda name: ascii(name)[:20])
def test_c36_a_name_that_cannot_be_is_refused(things: StructuredMemory, name: Any) -> None:
    """M6, M7, M9: in every place that takes one."""
    reference = {"name": "a", "references": {"table": name, "column": "id"}}
    all_refused(
        things,
        InvalidCall,
        lambda: things.create_table(name, [Column("a")]),
        lambda: things.create_table("new", [Column(name)]),
        lambda: things.create_table("new", [reference]),
        lambda: things.insert(name, {"a": 1}),
        lambda: things.update(name, {"a": 1}, "true"),
        lambda: things.delete(name, "true"),
        lambda: things.drop_table(name),
        lambda: things.add_column("t", Column(name)),
        lambda: things.add_column(name, Column("new")),
        lambda: things.create_index("t", [name]),
        lambda: things.create_index(name, ["a"]),
        lambda: things.drop_index(name),
    )
    if name != ["t"]:  # which is no key of a mapping
        all_refused(
            things,
            InvalidCall,
            lambda: things.insert("t", {name: 1}),
            lambda: things.update("t", {name: 1}, "true"),
        )
    if name is not None:
        with refused(things, InvalidCall):
            things.create_index("t", ["a"], name=name)


ONE_NAME = [("a", "A"), ("K", "k"), ("Straße", "STRAßE"), ("É1a", "É1A")]
TWO_NAMES = [
    *(("K", "\u212a"), ("k", "\u212a"), ("é", "É"), ("é", "e\u0301"), ("s", "\u017f")),
    *(("ß", "ss"), ("ﬁ", "fi"), ("i", "\u0131"), ("I", "\u0130"), ("a", "a "), ("\uff41", "a")),
]


@pytest.mark.parametrize(("first", "second"), ONE_NAME)
def test_c36_case_is_ignored_in_ascii(things: StructuredMemory, first: str, second: str) -> None:
    """M6"""
    things.create_table(first, [Column(first)])
    all_refused(
        things,
        InvalidCall,
        lambda: things.create_table(second, [Column("x")]),
        lambda: things.create_table("new", [Column(first), Column(second)]),
        lambda: things.insert(first, {first: 1, second: 2}),
        lambda: things.add_column(first, Column(second)),
        lambda: things.create_index(first, [first, second]),
    )
    assert things.insert(second, {second: 1}).rowids == [1]


@pytest.mark.parametrize(("first", "second"), TWO_NAMES)
def test_c36_nothing_else_is_folded(things: StructuredMemory, first: str, second: str) -> None:
    """M6: SQLite compares bytes, where Python's lower() and casefold() would merge the two."""
    things.create_table(first, [Column(first), Column(second)])
    things.create_table(second, [Column(second)])
    things.insert(first, {first: 1, second: 2})
    things.insert(second, {second: 3})
    with refused(things, NoSuchColumn):
        things.insert(second, {first: 3})
    things.undo()
    things.undo()
    things.undo()
    with refused(things, NoSuchTable):
        things.insert(second, {second: 3})
    assert things.insert(first, {second: 4}).rowids == [1]
