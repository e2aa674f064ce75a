"""Any SQL as an operation: what C03, C08, C10, C11, C13-C15, C17, C22-C24, C30-C35, C38 and C39 are
about where SQL itself writes.

What is refused leaves nothing; what runs is taken back, done again and replayed to the byte.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from structmem import (
    CannotUndo,
    ConstraintFailed,
    Full,
    InvalidCall,
    QueryLimit,
    StructuredMemory,
    sql,
)
from tests.engine.conftest import dump, writer_of
from tests.engine.faults.conftest import (
    Step,
    make_things,
    make_witness,
    refused,
    there_and_back,
    unharmed,
)
from tests.engine.faults.test_queries import AROUND, ENDS, PRAGMAS, texts_of

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def running(*statements: str) -> list[Step]:
    """A call of execute for each."""

    def step(statement: str) -> Step:
        return lambda memory: memory.execute(statement)

    return [step(statement) for statement in statements]


# -- refused ---------------------------------------------------------------------------------------


def takes(memory: StructuredMemory, text: str) -> bool:
    """Whether it ran."""
    try:
        memory.execute(text)
    except InvalidCall:
        return False
    return True


@pytest.mark.parametrize("pragma", PRAGMAS)
def test_c08_c09_no_pragma_changes_a_connection(things: StructuredMemory, pragma: str) -> None:
    """W7: also none that is read."""
    with unharmed(things):
        for text in texts_of(pragma):
            takes(things, text)


@pytest.mark.parametrize("text", ENDS)
def test_c10_the_transaction_cannot_be_ended(things: StructuredMemory, text: str) -> None:
    """W7, M7"""
    with unharmed(things):
        for around in AROUND:
            if around != "EXPLAIN {}":  # which changes nothing
                assert not takes(things, around.format(text)), around
        assert not takes(
            things, f"INSERT INTO t(a) VALUES (1); {text}; INSERT INTO t(a) VALUES (2)"
        )


FORBIDDEN = [
    *("ATTACH 'new.db' AS z", "ATTACH ':memory:' AS z", "DETACH main", "VACUUM INTO 'x.db'"),
    *("VACUUM", "SELECT load_extension('x')", "CREATE TEMP TABLE z(a)", "CREATE TABLE temp.z(a)"),
    *("CREATE TEMP VIEW z AS SELECT 1", "CREATE TEMPORARY TABLE z AS SELECT * FROM t"),
    "CREATE TEMP TRIGGER z AFTER INSERT ON main.t BEGIN DELETE FROM t; END",
    *("CREATE VIRTUAL TABLE z USING fts5(a)", "CREATE VIRTUAL TABLE z USING rtree(a, b, c)"),
    "CREATE TABLE z(a PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE z(a TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
    *("DELETE FROM _structmem_record", "DROP TABLE _structmem_meta", "DELETE FROM sqlite_schema"),
    *("CREATE TABLE _structmem_z(a)", "CREATE INDEX z ON _structmem_record(seq)"),
    *("ALTER TABLE t RENAME TO _structmem_t", "CREATE VIEW z AS SELECT * FROM _structmem_meta"),
    "CREATE TRIGGER z AFTER INSERT ON t BEGIN DELETE FROM _structmem_record; END",
    *("INSERT INTO t(a) SELECT value FROM _structmem_meta", "UPDATE _STRUCTMEM_META SET value = 1"),
    *("DROP TRIGGER temp._structmem_3_insert", "DELETE FROM sqlite_temp_master"),
    *("DROP TABLE temp._structmem_touched", "DELETE FROM temp._structmem_touched"),
    *("", " ", ";", "-- c", "/* c", "nonsense", "SELECT 1; nonsense", "INSERT INTO z VALUES (1)"),
    *("DELETE FROM t; DROP TABLE nosuch", "UPDATE t SET a = 1; ROLLBACK"),
    *("INSERT INTO t(id) VALUES (1)", "UPDATE t SET a = 5; INSERT INTO t(id) VALUES (1)"),
    *("INSERT OR ROLLBACK INTO t(id) VALUES (1)", "UPDATE OR ROLLBACK t SET id = 1"),
    *("UPDATE OR FAIL t SET id = 9", "INSERT OR FAIL INTO t(id) VALUES (8), (1)"),
    *("DELETE FROM t WHERE id = ?", "SELECT \0", "INSERT INTO t(a) VALUES (CAST(x'ff' AS TEXT))"),
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_c11_c31_what_execute_must_not_do(
    things: StructuredMemory, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W7, M7: alone, and after statements that had their effect."""
    monkeypatch.chdir(things.path.parent)
    things.insert("t", {"a": 40})  # so that it is under capture
    with unharmed(things):
        assert not takes(things, text)
        if text.strip(" ;-/*c"):
            assert not takes(things, f"CREATE TABLE y(a); INSERT INTO t(a) VALUES (50); {text}")


QUOTED = [
    'CREATE INDEX z ON t("aa")',
    'CREATE UNIQUE INDEX z ON t("aa")',
    'CREATE TABLE z(a CHECK (a <> "hello"))',
    'CREATE TABLE z(a, b AS (a || "hello"))',
    'CREATE INDEX z ON t(a) WHERE b = "hello"',
    'INSERT INTO t(b) VALUES ("hello")',
    'UPDATE t SET b = "hello"',
    'DELETE FROM t WHERE b <> "hello"',
]


@pytest.mark.parametrize("text", QUOTED)
def test_c03_a_misspelled_column_is_no_text(things: StructuredMemory, text: str) -> None:
    """M6, W7"""
    with refused(things, InvalidCall):
        things.execute(text)


@pytest.mark.parametrize("default", ['"hello"', "hello", "`hello`", "[hello]", '"a""b"', "éa"])
@pytest.mark.parametrize(
    "sql", ["CREATE TABLE new (a DEFAULT {})", "ALTER TABLE t ADD COLUMN new DEFAULT {}"]
)
def test_c03_a_name_is_no_default(things: StructuredMemory, sql: str, default: str) -> None:
    """M6: SQLite's grammar takes one for text, whatever is set about double quotes."""
    with refused(things, InvalidCall, match="single quotes"):
        things.execute(sql.format(default))


@pytest.mark.parametrize(
    "default", ["'hello'", "NULL", "true", "-5", "1e5", "x'00'", "current_timestamp", "('a' || 1)"]
)
def test_c03_what_is_a_default_stays_one(things: StructuredMemory, default: str) -> None:
    things.execute(f"CREATE TABLE new (a DEFAULT {default}); INSERT INTO new DEFAULT VALUES")


# -- failing halfway -------------------------------------------------------------------------------


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[StructuredMemory]:
    with StructuredMemory(tmp_path / "crm.db", query_timeout=0.3) as memory:
        make_things(memory)
        yield memory


@pytest.mark.parametrize(
    "slow",
    [
        f"UPDATE t SET a = 1 WHERE ({ENDLESS}) > 0",
        f"INSERT INTO t(a) {ENDLESS}",
        f"INSERT INTO t(a) SELECT value FROM json_each('[1, 2]'), ({ENDLESS})",
        f"CREATE TABLE z AS {ENDLESS}",
        ENDLESS,
        f"DELETE FROM t WHERE id = 1; {ENDLESS}",
    ],
)
def test_c13_a_write_that_runs_out_of_time(hurried: StructuredMemory, slow: str) -> None:
    """Q3, M7: SQLite rolls an interrupted write back by itself."""
    with refused(hurried, QueryLimit):
        hurried.execute(f"INSERT INTO t(a) VALUES (1); {slow}; INSERT INTO t(a) VALUES (2)")


BOMBS = [
    "UPDATE t SET a = randomblob(1000000000)",
    "UPDATE t SET b = printf('%900000000d', 1)",
    "INSERT INTO t(a) SELECT hex(zeroblob(400000000))",
    "CREATE TABLE z(a, b DEFAULT (randomblob(1000000000))); INSERT INTO z(a) VALUES (1)",
    "CREATE TABLE z(a, b AS (zeroblob(1000000000)) STORED); INSERT INTO z(a) VALUES (1)",
    "CREATE TABLE z(a CHECK (length(hex(zeroblob(900000000))) > a)); INSERT INTO z VALUES (1)",
    "CREATE TRIGGER z AFTER UPDATE ON t BEGIN SELECT zeroblob(1e9); END; UPDATE t SET a = 1",
]


@pytest.mark.parametrize("text", BOMBS)
def test_c39_a_bomb_in_a_write_ends_in_an_error(hurried: StructuredMemory, text: str) -> None:
    """Q3"""
    with refused(hurried, InvalidCall):
        hurried.execute(text)


@pytest.mark.parametrize("size", [100_000, 8_000_000])
def test_c14_a_full_disk_in_the_middle(things: StructuredMemory, size: int) -> None:
    """M7"""
    text = f"INSERT INTO t(a) VALUES (1); INSERT INTO t(a) VALUES (zeroblob({size}))"
    writer = writer_of(things).connection
    before = sql.pragma(writer, "max_page_count")
    with refused(things, Full):
        sql.pragma(writer, "max_page_count", sql.pragma(writer, "page_count") + 1)
        try:
            things.execute(text)
        finally:
            sql.pragma(writer, "max_page_count", before)
    there_and_back(things, lambda m: m.execute(text))


def test_c15_a_commit_that_fails(things: StructuredMemory) -> None:
    """M7: a deferred key is looked at last. The record goes with the rows."""
    things.execute("CREATE TABLE c(t REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED)")
    heard: list[object] = []
    things.on_commit(heard.append)
    for call in (
        lambda: things.insert("c", {"t": 9}),
        lambda: things.execute("INSERT INTO c VALUES (1); INSERT INTO c VALUES (9)"),
        lambda: things.execute("INSERT INTO c VALUES (1); DELETE FROM t WHERE id = 1"),
    ):
        before = len(heard)
        with refused(things, ConstraintFailed):
            call()
        assert len(heard) == before + 2, "of the insert and undo that show all is well"
    there_and_back(
        things,
        *running("INSERT INTO c VALUES (9); INSERT INTO t(id) VALUES (9)", "DELETE FROM c"),
        lambda m: m.insert("c", {"t": 1}),
    )


# -- forth and back --------------------------------------------------------------------------------

KEYED = "CREATE TABLE u(id INTEGER PRIMARY KEY, a UNIQUE, b UNIQUE, c)"
ROWS = "INSERT INTO u VALUES (1, 1, 1, 'one'), (2, 2, 2, 'two'), (3, 3, 3, 'three')"
STORIES: dict[str, list[Step]] = {
    "C17 conflicts": running(
        KEYED,
        ROWS,
        "INSERT OR IGNORE INTO u VALUES (1, 9, 9, 'x'), (4, 1, 9, 'x'), (5, 5, 5, 'new')",
        "INSERT OR REPLACE INTO u VALUES (1, 2, 3, 'over all three')",
        "REPLACE INTO u(a, b) VALUES (5, 7), (8, 8)",
        "UPDATE OR IGNORE u SET a = 7",
        "UPDATE OR REPLACE u SET b = 8",
        "INSERT INTO u(a, b) VALUES (7, 9) ON CONFLICT DO UPDATE SET c = 'upsert'",
        "INSERT INTO u(a, b) VALUES (70, 90), (70, 91) ON CONFLICT DO NOTHING",
    ),
    "C30 at once": running(
        "CREATE TABLE v(id INTEGER PRIMARY KEY, v UNIQUE)",
        "INSERT INTO v VALUES (2, 1), (3, 2), (4, 3)",
        "UPDATE v SET id = id - 1",
        "UPDATE v SET v = -v",
        "UPDATE v SET v = (SELECT max(v) FROM v) + id",
        "DELETE FROM v WHERE v < (SELECT avg(v) FROM v)",
    ),
    "C31 keys": running(
        "CREATE TABLE d(id INTEGER PRIMARY KEY DESC, a)",
        "CREATE TABLE n(id INT PRIMARY KEY, a)",
        "CREATE TABLE s(id INTEGER PRIMARY KEY AUTOINCREMENT, a)",
        "INSERT INTO d VALUES (NULL, 1), (NULL, 2); INSERT INTO n VALUES (NULL, 1), (NULL, 2)",
        "INSERT INTO s VALUES (NULL, 1), (9223372036854775806, 2)",
        "INSERT INTO s(a) VALUES (3)",
        "DELETE FROM s",
        "UPDATE d SET id = 7 WHERE a = 1; UPDATE n SET a = id",
    ),
    "C32 generated": running(
        "CREATE TABLE g(a, g AS (a * 2), h AS (a + 1) STORED, UNIQUE (g))",
        "INSERT INTO g VALUES (1), (2), (3)",
        "UPDATE g SET a = -a",
        "CREATE INDEX g_h ON g(h) WHERE g < 0",
        "ALTER TABLE g ADD COLUMN i AS (a || 'x')",
        "DELETE FROM g WHERE h = 0",
        "INSERT INTO g(a) VALUES (9)",
    ),
    "C34 triggers": running(
        "CREATE TABLE w(a, at DEFAULT 0); CREATE TABLE log(what, n)",
        "CREATE TRIGGER w1 AFTER INSERT ON w BEGIN"
        " UPDATE w SET at = at + 1 WHERE rowid = new.rowid; INSERT INTO log VALUES ('in', new.a);"
        " END",
        "CREATE TRIGGER w2 BEFORE DELETE ON w BEGIN INSERT INTO log VALUES ('out', old.a); END",
        "CREATE TRIGGER w3 AFTER UPDATE OF a ON w BEGIN INSERT INTO log VALUES (old.a, new.a); END",
        "INSERT INTO w(a) VALUES (1), (2)",
        "UPDATE w SET a = a + 10",
        "CREATE TRIGGER w0 AFTER INSERT ON w BEGIN DELETE FROM log; END",
        "INSERT INTO w(a) VALUES (3)",
        "DROP TRIGGER w1",
        "DELETE FROM w",
        "DROP TABLE w",
    ),
    "C34 views": running(
        "CREATE TABLE w(a)",
        "CREATE VIEW x AS SELECT a AS b FROM w",
        "CREATE TRIGGER xi INSTEAD OF INSERT ON x BEGIN INSERT INTO w VALUES (new.b); END",
        "INSERT INTO x VALUES (1), (2)",
        "DROP VIEW x",
        "DROP TABLE w",
    ),
    "C35 at random": running(
        "CREATE TABLE r(a, at DEFAULT CURRENT_TIMESTAMP, n DEFAULT (random()),"
        " h DEFAULT (hex(randomblob(4))))",
        # Enough of them that a coin for each does not fall on one side alone.
        "INSERT INTO r(a) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 99)"
        " SELECT i FROM n",
        "UPDATE r SET n = random(), at = datetime('now') WHERE random() % 2",
        "DELETE FROM r WHERE random() % 2",
        "INSERT INTO r(a) SELECT abs(random()) FROM r",
    ),
    "C24 a default of now": running(
        "CREATE TABLE e(a)",
        "ALTER TABLE e ADD COLUMN at DEFAULT CURRENT_TIMESTAMP",
        "INSERT INTO e(a) VALUES (1), (2)",
    ),
    "C24 altering": running(
        "CREATE TABLE e(a, b, c)",
        "INSERT INTO e VALUES (1, 'user data', x'00'), (2, 'more', -0.0)",
        "CREATE INDEX e_b ON e(b)",
        "ALTER TABLE e RENAME COLUMN b TO bee",
        "DROP INDEX e_b; ALTER TABLE e DROP COLUMN bee",
        "ALTER TABLE e ADD COLUMN b DEFAULT 'later'",
        "ALTER TABLE e RENAME TO E2",
        "UPDATE e2 SET b = 'now'",
    ),
    "C38 strict": running(
        "CREATE TABLE z(a ANY, i INTEGER, r REAL, t TEXT, b BLOB) STRICT",
        "INSERT INTO z VALUES ('000123', 1, 1, '1', x'01'), (-0.0, 2, -0.0, '', x'')",
        "UPDATE z SET a = 1.0 WHERE i = 1",
        "DELETE FROM z",
    ),
    "C33 cascades": running(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, up REFERENCES p ON DELETE CASCADE)",
        "CREATE TABLE c(p REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE, x UNIQUE)",
        "INSERT INTO p VALUES (1, NULL), (2, 1), (3, 2)",
        "INSERT INTO c VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE p SET id = id + 10 WHERE id = 3",
        "DELETE FROM p WHERE id = 1",
        "DROP TABLE c; DROP TABLE p",
    ),
    "C33 a parent that goes": running(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, u UNIQUE)",
        "CREATE TABLE c(u REFERENCES p(u) ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO p VALUES (1, 1), (2, 2); INSERT INTO c VALUES (1), (2), (NULL)",
        "DROP TABLE p",
        "CREATE VIEW p AS SELECT * FROM nosuch",
        "DROP VIEW p; CREATE TABLE p(id INTEGER PRIMARY KEY)",
        "DROP TABLE p",
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_execute_did_is_undone_redone_and_replayed(
    memory: StructuredMemory, story: str
) -> None:
    """W7, H2, H5, J4: C17, C24, C30-C35, C38."""
    make_witness(memory)
    there_and_back(memory, *STORIES[story])


# -- single cases ----------------------------------------------------------------------------------


def test_c22_a_broken_view_is_named_or_in_nobodys_way(memory: StructuredMemory) -> None:
    """W6: never a half-done drop."""
    make_witness(memory)
    memory.execute("CREATE TABLE q(a); CREATE TABLE other(a); CREATE VIEW v AS SELECT a FROM q")
    memory.insert("q", {"a": 1})
    there_and_back(
        memory,
        lambda m: m.drop_table("q"),
        lambda m: m.add_column("other", {"name": "b", "default": 5}),
        lambda m: m.insert("other", {"a": 1}),
        lambda m: m.drop_table("other"),
    )
    with refused(memory, InvalidCall, match="v"):
        memory.execute("CREATE TABLE z(a); ALTER TABLE z RENAME TO y")


@pytest.mark.parametrize("column", ["g", "h"])
def test_c32_a_computed_column_is_not_written(memory: StructuredMemory, column: str) -> None:
    """W3, M9"""
    make_witness(memory)
    memory.execute("CREATE TABLE g(a, g AS (a * 2), h AS (a + 1) STORED)")
    memory.insert("g", {"a": 1})
    with refused(memory, InvalidCall, match="computed"):
        memory.update("g", {column: 5}, "true")
    with refused(memory, InvalidCall, match="computed"):
        memory.insert("g", {"a": 1, column: 5})
    with refused(memory, InvalidCall):
        memory.execute(f"UPDATE g SET {column} = 5")
    with refused(memory, InvalidCall):
        memory.execute("ALTER TABLE g ADD COLUMN g2 AS (a) STORED")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE z(a, g AS (g))",
        "CREATE TABLE z(a, g AS (h), h AS (i + a), i AS (g))",
        "ALTER TABLE t ADD COLUMN g AS (g)",
    ],
)
def test_c32_a_column_is_not_computed_from_itself(things: StructuredMemory, text: str) -> None:
    """W7: SQLite makes such a table, and reads no row of it."""
    with refused(things, InvalidCall, match="loop"):
        things.execute(text)


def test_c24_a_column_that_a_rule_needs_is_not_dropped(memory: StructuredMemory) -> None:
    """H3, W7"""
    make_witness(memory)
    memory.execute("CREATE TABLE e(a, b UNIQUE, c AS (a), CHECK (a > 0))")
    memory.insert("e", {"a": 1, "b": "x"})
    for column in "ab":
        with refused(memory, InvalidCall):
            memory.execute(f"ALTER TABLE e DROP COLUMN {column}")
    memory.execute("CREATE TABLE f(a); INSERT INTO f VALUES (1)")
    with refused(memory, InvalidCall):
        memory.execute("ALTER TABLE f ADD COLUMN at DEFAULT CURRENT_TIMESTAMP")


@pytest.mark.parametrize("given", ["5", 2.5, b"x", 10**18])
def test_c38_a_strict_table_takes_its_types_only(memory: StructuredMemory, given: Any) -> None:
    """M5, M9"""
    make_witness(memory)
    memory.execute("CREATE TABLE z(b BLOB, i INTEGER) STRICT")
    calls: list[Callable[[], object]] = [lambda: memory.insert("z", {"i": given})]
    if given != b"x":
        calls.append(lambda: memory.insert("z", {"b": given}))
    if given not in ("5", 10**18):
        with refused(memory, ConstraintFailed):
            calls[0]()
    for call in calls[1:]:
        with refused(memory, ConstraintFailed, match="z"):
            call()
    with refused(memory, InvalidCall):
        memory.execute("CREATE TABLE y(a varchar(5)) STRICT")


def test_c31_an_exhausted_counter_leaves_nothing(memory: StructuredMemory) -> None:
    """M7: AUTOINCREMENT gives no more keys after the largest; SQLite calls that full."""
    make_witness(memory)
    memory.execute("CREATE TABLE s(id INTEGER PRIMARY KEY AUTOINCREMENT, a)")
    memory.insert("s", {"id": 2**63 - 1})
    with refused(memory, Full, InvalidCall):
        memory.insert("s", {"a": 1})
    before = dump(memory)
    memory.delete("s", "true")
    with refused(memory, Full, InvalidCall):
        memory.insert("s", {"a": 1})
    memory.undo()
    assert dump(memory) == before


def test_c21_a_drop_by_sql_is_not_undone_out_of_turn(things: StructuredMemory) -> None:
    """H2, H3"""
    dropped = things.execute("DROP TABLE o")
    things.execute("CREATE TABLE o(other)")
    with refused(things, CannotUndo):
        things.undo(dropped.op_id)
    things.undo()
    things.undo()
    assert things.query("SELECT s FROM o").rows == [("q",), ("sec",)]


@pytest.mark.parametrize("listing", ["sqlite_schema", "sqlite_temp_schema", "dbstat"])
@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO n SELECT n.name FROM n NATURAL JOIN {}",
        "UPDATE n SET name = 1 WHERE name IN (SELECT n.name FROM n NATURAL JOIN {})",
        "CREATE TABLE seen AS SELECT n.name FROM n NATURAL JOIN {}",
        (
            "CREATE TRIGGER y AFTER INSERT ON t BEGIN SELECT 1 FROM n NATURAL JOIN {}; END; "
            "INSERT INTO t (a) VALUES (1)"
        ),
        "CREATE VIEW v AS SELECT n.name FROM n NATURAL JOIN {}; INSERT INTO n SELECT * FROM v",
    ],
)
def test_q5_what_a_join_compares_is_read(things: StructuredMemory, text: str, listing: str) -> None:
    """W7: SQLite does not ask about a table of which a join compares columns and no more."""
    things.execute("CREATE TABLE n (name); INSERT INTO n VALUES ('n'), ('_struct' || 'mem_meta')")
    with refused(things, InvalidCall):
        things.execute(text.format(listing))


@pytest.mark.parametrize(
    "source", ["sqlite_schema", "sqlite_master", "pragma_table_list", "dbstat", "seen"]
)
def test_q5_a_trigger_does_not_tell_our_tables(things: StructuredMemory, source: str) -> None:
    """W7: what `execute` cannot read, a trigger that it made cannot when a write fires it."""
    things.execute("CREATE VIEW seen AS SELECT name FROM sqlite_schema")
    body = f"INSERT INTO o (s) SELECT name FROM {source}"
    things.execute(f"CREATE TRIGGER spy AFTER INSERT ON t BEGIN {body}; END")
    for call in (
        lambda: things.insert("t", {"a": 1}),
        lambda: things.execute("INSERT INTO t (a) VALUES (1)"),
    ):
        with pytest.raises(InvalidCall):
            call()
    things.execute("DROP TRIGGER spy")
    things.insert("t", {"a": 1})
