"""Creating and describing tables (W1, M6, Q6)."""

from typing import Any

import pytest

from structmem import (
    Column,
    InvalidCall,
    NoSuchColumn,
    NoSuchTable,
    Reference,
    StructMemError,
    StructuredMemory,
    TableExists,
    sql,
)

from .conftest import alter, dump, raw


def test_descriptions_are_comments_that_run(memory: StructuredMemory) -> None:
    """Q6: any text is safe in a description."""
    nasty = "People */ -- 'x' \"y\"\n); DROP TABLE t; --\r\nlast"
    memory.create_table("t", [Column("a", "TEXT", description=nasty)], description=nasty)
    memory.create_table("b", [Column("a", description="x"), Column("c")])
    text = memory.describe()
    assert text.index('"b"') < text.index('"t"'), "by name"
    assert text.count("DROP TABLE t") == 2
    with StructuredMemory(":memory:") as copy:
        alter(copy, text)
        assert copy.describe() == text
        assert copy.query("SELECT count(*) FROM t").scalar() == 0


def test_columns_may_be_mappings(memory: StructuredMemory) -> None:
    """W1, S1: snake_case and camelCase."""
    memory.create_table("p", [{"name": "id", "type": "INTEGER", "primaryKey": True}])
    memory.create_table(
        "c",
        [
            {"name": "a", "not_null": True, "default": 0},
            {"name": "p", "references": {"table": "p", "column": "id", "on_delete": "CASCADE"}},
        ],
    )
    assert '"p" REFERENCES "p" ("id") ON DELETE CASCADE' in memory.describe()
    with pytest.raises(InvalidCall, match="colour"):
        memory.create_table("d", [{"name": "a", "colour": "red"}])


@pytest.mark.parametrize(
    "name",
    [
        *("", 'a"b', "a]b", "a`b", "a;b", "a--b", "{x}", "%s", "?1", "new", "old", "select"),
        *("É", "é", "x" * 10_000, "\u212a", "\u017fqlite_x", "t t", "a\nb", "rowid"),
    ],
)
def test_odd_names_go_all_the_way(memory: StructuredMemory, name: str) -> None:
    """M6, C36: create, write, undo, replay (the fixture verifies)."""
    memory.create_table(name, [Column(name), Column("plain", "TEXT")])
    memory.insert(name, [{name: 1, "plain": "x"}, {name: 2}])
    quoted = '"' + name.replace('"', '""') + '"'
    assert memory.update(name, {name: 5}, f"{quoted} = 1").rows_changed == 1
    assert memory.delete(name, "plain IS NULL").rows_changed == 1
    before = dump(memory)
    memory.insert(name, {"plain": "gone"})
    memory.undo()
    assert dump(memory) == before


def test_names_that_differ_in_more_than_ascii_case_are_different(memory: StructuredMemory) -> None:
    """M6, C36: SQLite folds ASCII only; Python's lower() would merge some of these."""
    for name in ("K", "\u212a", "é", "É", "e\u0301"):
        memory.create_table(name, [Column("a")])
    with pytest.raises(TableExists):
        memory.create_table("k", [Column("a")])


@pytest.mark.parametrize(
    "name", ["sqlite_x", "SQLITE_x", "_structmem_x", "_STRUCTMEM_meta", "a\0b", "\ud800", 5, None]
)
def test_reserved_and_impossible_names(memory: StructuredMemory, name: Any) -> None:
    """M6"""
    before = dump(memory, internal=True)
    with pytest.raises(InvalidCall):
        memory.create_table(name, [Column("a")])
    with pytest.raises(InvalidCall):
        memory.create_table("t", [Column(name)])
    assert dump(memory, internal=True) == before


@pytest.mark.parametrize(
    "columns",
    [
        [],
        "a",
        {"name": "a"},
        [5],
        [Column("a"), Column("A")],
        [Column("a", primary_key=True), Column("b", primary_key=True)],
        [Column("rowid"), Column("oid"), Column("_ROWID_")],
        [Column("a", "TEXT) --")],
        [Column("a", "INTEGER PRIMARY KEY")],
        [Column("a", "TEXT DEFAULT 5")],
        [Column("a", "TEXT REFERENCES p")],
        [Column("a", default=[1])],
        [Column("a", default=2**63)],
        [Column("a", description="x\0y")],
        [Column("a", references=Reference("t", "a", on_delete="EXPLODE"))],
        [Column(f"c{n}") for n in range(2_000)],
    ],
)
def test_impossible_columns_are_refused(memory: StructuredMemory, columns: Any) -> None:
    """W1, M6, C37"""
    before = dump(memory, internal=True)
    with pytest.raises(InvalidCall):
        memory.create_table("t", columns)
    assert dump(memory, internal=True) == before


def test_many_columns(memory: StructuredMemory) -> None:
    """C37"""
    columns = [Column(f"c{n}") for n in range(1_999)]
    memory.create_table("wide", columns)
    memory.insert("wide", {column.name: n for n, column in enumerate(columns)})
    memory.update("wide", {"c5": "x", "c1998": "y"}, "c0 = 0")
    memory.delete("wide", "true")
    memory.undo()
    assert memory.query("SELECT c5, c1998 FROM wide").rows == [("x", "y")]


def test_all_three_rowid_names_need_an_integer_key(memory: StructuredMemory) -> None:
    """W1: with one, it is the row's identity."""
    names = ("rowid", "oid", "_rowid_")
    memory.create_table(
        "t", [Column("id", "INTEGER", primary_key=True), *(Column(name) for name in names)]
    )
    memory.insert("t", [{"id": 7, "rowid": 1, "oid": 1, "_rowid_": 1}, {"rowid": 1}])
    assert memory.update("t", {"oid": 2}, "id = 8").rowids == [8]
    memory.undo()
    assert memory.delete("t", "rowid = 1").rowids == [7, 8]
    memory.undo()


@pytest.mark.parametrize(
    "default",
    [
        *(None, 0, -1, 2**63 - 1, -(2**63), 1.5, -0.0, 1e300, float("inf"), float("-inf")),
        *("", "it's", "a\0b", "CURRENT_TIMESTAMP", "x\ny", b"", b"\0\xff", True),
    ],
)
def test_defaults_are_values(memory: StructuredMemory, default: object) -> None:
    """W1: never SQL."""
    memory.create_table("t", [Column("a"), Column("d", default=default)])
    memory.insert("t", {"a": 1})
    stored = memory.query("SELECT d FROM t").scalar()
    expected = 1 if default is True else default
    assert (type(stored), repr(stored)) == (type(expected), repr(expected))


def test_an_existing_table_is_shown(memory: StructuredMemory) -> None:
    """W1"""
    columns = [Column("a", "TEXT"), Column("b")]
    memory.create_table("Things", columns)
    with pytest.raises(TableExists, match="'Things' already, with the columns 'a' TEXT, 'b'"):
        memory.create_table("tHINGS", columns)
    same = memory.create_table("Things", columns, if_not_exists=True)
    assert (same.op_id, memory.position().seq) == (None, 1)
    with pytest.raises(TableExists, match="no column 'c'; it has a column 'b'"):
        memory.create_table("Things", [Column("a", "TEXT"), Column("c")], if_not_exists=True)
    with pytest.raises(TableExists, match="column 'a' is of type TEXT"):
        memory.create_table("Things", [Column("a"), Column("b")], if_not_exists=True)
    with pytest.raises(TableExists, match="keys, constraints"):
        memory.create_table(
            "Things", [Column("a", "TEXT", not_null=True), Column("b")], if_not_exists=True
        )


@pytest.mark.parametrize("other", ["persons", "Per_Son", "PERSONÉ"])
def test_a_near_duplicate_is_told(memory: StructuredMemory, other: str) -> None:
    """W1"""
    memory.create_table("person", [Column("a")])
    memory.create_table("personé", [Column("a")])
    done = memory.create_table(other, [Column("a")])
    assert len(done.warnings) == 1 and "meant to be another table" in done.warnings[0]
    assert memory.create_table("cities", [Column("a")]).warnings == []


def test_a_reference_must_be_possible(memory: StructuredMemory) -> None:
    """W1, M6"""
    memory.create_table(
        "p", [Column("id", "INTEGER", primary_key=True), Column("n"), Column("u", unique=True)]
    )
    with pytest.raises(NoSuchTable, match="'q'"):
        memory.create_table("c", [Column("p", references=Reference("q", "id"))])
    with pytest.raises(NoSuchColumn, match="Did you mean 'id'"):
        memory.create_table("c", [Column("p", references=Reference("p", "idd"))])
    with pytest.raises(InvalidCall, match="neither a primary key nor unique"):
        memory.create_table("c", [Column("p", references=Reference("p", "n"))])
    memory.create_table(
        "c",
        [Column("p", references=Reference("P", "ID")), Column("q", references=Reference("p", "u"))],
    )
    memory.create_table(
        "tree", [Column("id", unique=True), Column("up", references=Reference("tree", "id"))]
    )
    with pytest.raises(StructMemError, match="FOREIGN KEY"):
        memory.insert("c", {"p": 5})


def test_a_name_that_an_index_has(memory: StructuredMemory) -> None:
    """M9, C36: tables, indexes and views share one namespace."""
    memory.create_table("t", [Column("a")])
    connection = raw(memory)
    sql.run(connection, "CREATE VIEW v AS SELECT 1")
    with pytest.raises(InvalidCall, match="v"):
        memory.create_table("v", [Column("a")])
    sql.run(connection, "DROP VIEW v")
    connection.close()


def test_what_cannot_be_used_later_is_refused_now(memory: StructuredMemory) -> None:
    """W1, M9: a name too long to be given again, a definition too long to be read as SQL."""
    with pytest.raises(InvalidCall, match="100,001 bytes"):
        memory.create_table("n" * 100_001, [Column("a")])
    with pytest.raises(InvalidCall, match="definition"):
        memory.create_table("t", [Column("a")], description="x" * 1_000_000)
    with pytest.raises(InvalidCall, match="definition"):
        memory.create_table("t", [Column("a", default="x" * 1_000_000)])
    memory.create_table("n" * 100_000, [Column("a")])
    assert memory.insert("n" * 100_000, {"a": 1}).rowids == [1]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("CREATE VIEW taken AS SELECT 1", "view"),
        ("CREATE TABLE taken (a PRIMARY KEY) WITHOUT ROWID", "WITHOUT ROWID"),
        ("CREATE VIRTUAL TABLE taken USING fts5 (a)", "virtual table"),
    ],
)
def test_a_name_that_something_else_has(
    unjournaled: StructuredMemory, made: str, kind: str
) -> None:
    """W1"""
    alter(unjournaled, made)
    with pytest.raises(TableExists, match=kind):
        unjournaled.create_table("Taken", [Column("a")])
    with pytest.raises(InvalidCall, match=kind):
        unjournaled.insert("taken", {"a": 1})


@pytest.mark.parametrize("default", ["CURRENT_TIMESTAMP", "date('now')", "(random())", "null"])
def test_a_default_that_looks_like_sql_is_told(memory: StructuredMemory, default: str) -> None:
    """W1, M9: it is a value, and whoever wrote it probably meant an expression."""
    done = memory.create_table("t", [Column("a", default=default), Column("b", default="plain")])
    assert len(done.warnings) == 1 and "'a'" in done.warnings[0]
    memory.insert("t", {"b": 1})
    assert memory.query("SELECT a FROM t").scalar() == default


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"name": "a", "primary_kye": True}, "Column 'a': there is no 'primaryKye'. Did you mean"),
        ({"name": "a", "pk": True}, "A column has name, type, primaryKey"),
        ({"name": "a", "references": "p"}, "Column 'a' is not one"),
        ({"type": "TEXT"}, "without a name"),
    ],
)
def test_a_wrong_column_is_named(
    memory: StructuredMemory, column: dict[str, object], said: str
) -> None:
    """M9"""
    with pytest.raises(InvalidCall, match=said):
        memory.create_table("t", [column])


def test_a_table_that_hides_the_list_of_modules_hides_it_from_nobody_of_ours(
    memory: StructuredMemory,
) -> None:
    """M6: every reader asks for that list when it opens the file."""
    memory.create_table("pragma_module_list", [Column("a")])
    memory.insert("pragma_module_list", {"a": 1})
    with StructuredMemory(memory.path) as again:
        assert again.query("SELECT a FROM pragma_module_list").scalar() == 1
        again.execute("UPDATE pragma_module_list SET a = 2")
