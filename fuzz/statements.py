"""SQL statements of every kind, drawn from a grammar that knows the tables there are.

Reads are built so that most of them mean something: their columns are those of what they read from.
Everything else (writes, schema changes, PRAGMAs, transactions, several statements at once) is
there to be refused, and `edited` takes what the grammar made and breaks it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from hypothesis import strategies as st

from fuzz.sql import FRAGMENTS, STRINGS, broken, expressions
from structmem.definitions import literal
from structmem.results import Parameters

T = TypeVar("T")

SCHEMA: Final = """
CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT);
CREATE TABLE o(id INTEGER PRIMARY KEY AUTOINCREMENT, s);
CREATE TABLE tasks(title TEXT CHECK (title <> ''), status, t_id REFERENCES t(id), deleted_at);
CREATE TABLE "odd ""name" ("order" INT UNIQUE, é REAL, g REAL AS (é + 1) STORED, "b c" BLOB) STRICT;
CREATE INDEX tasks_by_status ON tasks(status);
CREATE INDEX t_text ON t(lower(b)) WHERE a > 5;
CREATE VIEW open_tasks AS SELECT title, t_id FROM tasks WHERE status = 'open';
CREATE VIEW both_of AS SELECT t.id AS id, o.s AS s FROM t JOIN o ON o.id = t.id;
CREATE TRIGGER kept AFTER DELETE ON o BEGIN INSERT INTO t(b) VALUES (old.s); END;
INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'X'), (3, 1.5, 'it''s'), (-4, x'00ff', '10');
INSERT INTO t VALUES (5, NULL, NULL), (9007199254740993, 9e999, 'é');
INSERT INTO o VALUES (2, 'q'), (99, '%'), (3, 0);
INSERT INTO tasks VALUES ('call', 'open', 1, NULL), ('write', 'done', 2, 'now'), ('x', '', 5, 7);
INSERT INTO "odd ""name" ("order", é, "b c") VALUES (1, -0.0, x'61'), (NULL, 2.5, NULL);
"""
"""What the grammar speaks of, to be run by whoever makes the memory."""

TABLES: Final = {
    "t": ["id", "a", "b", "rowid"],
    "o": ["id", "s", "_rowid_"],
    "tasks": ["title", "status", "t_id", "deleted_at", "oid"],
    '"odd ""name"': ['"order"', "é", "g", '"b c"'],
    "open_tasks": ["title", "t_id"],
    "both_of": ["id", "s"],
    "main.t": ["id", "a", "b"],
    "[o]": ["id", "s"],
    "sqlite_sequence": ["name", "seq"],
    'json_each(\'[1, "a", null, 2.5, {"k": []}]\')': ["key", "value", "type", "atom"],
    'json_tree(\'{"a": [1, {"b": true}]}\')': ["fullkey", "path", "value"],
    "(VALUES (1, 'a'), (2, NULL), (NULL, x'62'))": ["column1", "column2"],
}
SCHEMA_TABLES: Final = {
    "sqlite_schema": ["type", "name", "tbl_name", "sql"],
    "sqlite_master": ["name", "rootpage"],
    "sqlite_temp_schema": ["name"],
    "pragma_table_info('t')": ["name", "type", "pk"],
    "pragma_table_xinfo('tasks')": ["cid", "name", "hidden"],
    "pragma_table_list": ["schema", "name", "type", "ncol"],
    "pragma_index_list('tasks')": ["name", '"unique"'],
    "pragma_index_info('t_text')": ["cid", "name"],
    "pragma_foreign_key_list('tasks')": ['"table"', '"from"'],
    "pragma_database_list": ["name", "file"],
}
_READ_WRITE_TABLES: Final = ["t", "o", "tasks", '"odd ""name"', "main.o"]

_PARAMETER: Final = "\x00"
"""Stands for a parameter until it is known how they are written."""

_VALUES: Final = st.sampled_from([None, 0, 1, -1, 2.5, "x", "", "é", b"", b"\x00", 1 << 62])


class Drawn(NamedTuple):
    """A statement of some kind, and values for its parameters."""

    kind: str
    text: str
    params: Parameters


def statements(ours: Sequence[str]) -> st.SearchStrategy[Drawn]:
    """Statements of every kind. `ours` are the names of the memory's own tables."""
    whole = {
        "read": reads(TABLES),
        "expression read": expressions().map(lambda text: f"SELECT {text}\nFROM t"),
        "schema read": reads(SCHEMA_TABLES),
        "mixed read": reads({**TABLES, **SCHEMA_TABLES}),
        "read of ours": reads({**TABLES, **{name: ["rowid"] for name in ours}}),
        "write": writes(),
        "write of ours": writes([*ours, "sqlite_schema", "sqlite_sequence"]),
        "schema change": schema_changes(ours),
        "transaction": st.sampled_from(_TRANSACTIONS),
        "attach": st.sampled_from(_ATTACHED),
        "pragma": pragmas(ours),
    }
    any_text = st.one_of([*whole.values()])
    more = {
        "several": st.lists(any_text, min_size=2, max_size=3).map("; ".join),
        "edited": broken(any_text, edits_max=2),
        "words": st.lists(_words(ours), max_size=12).map(" ".join),
    }
    kinds = [st.tuples(st.just(kind), texts) for kind, texts in {**whole, **more}.items()]
    return _with_parameters(st.one_of(kinds), _values())


@st.composite
def _with_parameters(
    draw: st.DrawFn, texts: st.SearchStrategy[tuple[str, str]], values: st.SearchStrategy[Any]
) -> Drawn:
    """Each place of a parameter written in one style, and a value for each; now and then not."""
    kind, text = draw(texts)
    parts = text.split(_PARAMETER)
    count = len(parts) - 1
    style = _one(draw, ["?", "?#", ":p#", "@p#", "$p#"]) if count else "?"
    written = parts[0]
    for number, part in enumerate(parts[1:], start=1):
        written += style.replace("#", str(number)) + part
    given = [draw(values) for _ in range(count)]
    if _one(draw, _ONE_IN_20):
        return Drawn(f"{kind}, other values", written, draw(_odd_parameters))
    named = style[0] != "?"
    return Drawn(kind, written, {f"p{n}": v for n, v in enumerate(given, 1)} if named else given)


def _values() -> st.SearchStrategy[Any]:
    return _VALUES | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5)


@cache
def _index(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


def _one(draw: st.DrawFn, choices: Sequence[T]) -> T:
    """One of these; the earlier ones are the simpler ones. (Three times as fast as making a
    strategy for each choice, of which a statement has dozens.)"""
    return choices[draw(_index(len(choices)))]


_FLIP: Final = (False, True)
_ONE_IN_5: Final = (False, False, False, False, True)
_ONE_IN_20: Final = (*[False] * 19, True)


_odd_parameters: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [(), [1, 2, 3], {"p1": 1}, {"p1": 1, "x": 2}, [1 << 63], [object()], {1: 1}, None, "text"]
)


# -- reads ---------------------------------------------------------------------------------------


class _Scope(NamedTuple):
    """What can be named: columns, and where they can come from."""

    columns: tuple[str, ...]
    tables: dict[str, list[str]]


@st.composite
def reads(draw: st.DrawFn, tables: dict[str, list[str]]) -> str:
    """SELECTs of every shape over these tables (as written after FROM, with their columns)."""
    before = _one(draw, [*[""] * 9, "-- c\n", "/* ; */ ", "EXPLAIN ", "EXPLAIN QUERY PLAN "])
    end = _one(draw, ["", "", "", ";", " ; -- end", "\n/* unterminated", ";;"])
    return before + _whole_read(draw, _Scope((), tables)) + end


def _whole_read(draw: st.DrawFn, scope: _Scope) -> str:
    if not _one(draw, _ONE_IN_5):
        return _compound(draw, scope, 2)
    name = _one(draw, ["w", "t", '"w x"'])
    if _one(draw, _FLIP):
        columns = ["i"]
        start = f"WITH RECURSIVE {name}(i) AS {_one(draw, _RECURSIONS).format(name)}"
    else:
        columns = ["c0", "c1", "c2"][: _one(draw, [1, 2, 3])]
        how = _one(draw, ["", "", " NOT MATERIALIZED", " MATERIALIZED"])
        inner = _compound(draw, scope, 1, width=len(columns))
        start = f"WITH {name}({', '.join(columns)}) AS{how} ({inner})"
    return f"{start} {_compound(draw, _Scope((), {**scope.tables, name: columns}), 1)}"


_RECURSIONS: Final = [
    "(VALUES (1) UNION ALL SELECT i + 1 FROM {0} WHERE i < 20)",
    "(SELECT 1 UNION SELECT (i * 7) % 11 FROM {0})",
    "(SELECT 0 UNION ALL SELECT i + 1 FROM {0} LIMIT 5)",
]


def _compound(draw: st.DrawFn, scope: _Scope, depth: int, width: int | None = None) -> str:
    """One SELECT or several put together, ordered and limited."""
    wide = _one(draw, [1, 2, 3]) if width is None else width
    text = _core(draw, scope, depth, wide)
    for _ in range(_one(draw, [0, 0, 0, 1, 2])):
        text += f" {_one(draw, _SET_OPERATIONS)} {_core(draw, scope, depth, wide)}"
    if _one(draw, _FLIP):
        order = _one(draw, ["", " DESC", " COLLATE NOCASE", " NULLS LAST"])
        text += f" ORDER BY {_one(draw, range(1, wide + 1))}{order}"
    return text + _one(draw, ["", "", "", " LIMIT 3", " LIMIT 2 OFFSET 1", " LIMIT -1"])


_SET_OPERATIONS: Final = ["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]


def _core(draw: st.DrawFn, outer: _Scope, depth: int, width: int) -> str:
    """SELECT ... FROM ... WHERE ... GROUP BY ..., with so many columns."""
    sources, scope = _sources(draw, outer, depth)
    grouped = _one(draw, _ONE_IN_5)
    column = _aggregate if grouped else _column
    columns = ", ".join(column(draw, scope, depth) for _ in range(width))
    distinct = _one(draw, ["", "", "", "DISTINCT ", "ALL "])
    text = f"SELECT {distinct}{columns} FROM {sources}"
    if _one(draw, _FLIP):
        text += f" WHERE {_scalar(draw, scope, depth)}"
    if grouped and _one(draw, _FLIP):
        text += f" GROUP BY {_scalar(draw, scope, 0)}"
        text += _one(draw, ["", " HAVING count(*) > 1", " HAVING max(1, 2)"])
    return text


def _sources(draw: st.DrawFn, outer: _Scope, depth: int) -> tuple[str, _Scope]:
    """What stands after FROM, and what can be named then."""
    text, columns = "", list[str]()
    for number in range(_one(draw, [1, 1, 1, 2, 2, 3])):
        name = f"s{depth}{number}"
        if depth > 0 and _one(draw, _ONE_IN_5):
            inner = _compound(draw, _Scope((), outer.tables), depth - 1, width=2)
            source, own = f"(SELECT * FROM ({inner}))", list[str]()
        else:
            source = _one(draw, sorted(outer.tables))
            own = [f"{name}.{column}" for column in outer.tables[source]]
        join = _one(draw, _JOINS) if text else ""
        condition = "" if "NATURAL" in join else _condition(draw, columns, own)
        text += f"{join}{source} AS {name}{condition}"
        columns += own
    return text, _Scope((*columns, *outer.columns), outer.tables)


def _condition(draw: st.DrawFn, columns: list[str], own: list[str]) -> str:
    """How the next table is joined to those with these columns."""
    if not columns or not own:
        return ""
    there = {column.partition(".")[2] for column in columns}
    shared = [name for name in (column.partition(".")[2] for column in own) if name in there]
    if shared and _one(draw, _FLIP):
        return f" USING ({_one(draw, shared)})"
    return f" ON {_one(draw, columns)} = {_one(draw, own)}"


_JOINS: Final = [
    *(", ", " JOIN ", " LEFT JOIN ", " CROSS JOIN ", " RIGHT JOIN ", " FULL JOIN "),
    *(" NATURAL JOIN ", " NATURAL LEFT JOIN ", " INNER JOIN "),
]


def _column(draw: st.DrawFn, scope: _Scope, depth: int) -> str:
    return _one(draw, _COLUMN_FORMS).format(_scalar(draw, scope, depth))


_COLUMN_FORMS: Final = [
    *("{}", "{}", "{}", "{}", "{}", "{}", "{} AS z", "{} AS z"),
    "row_number() OVER (ORDER BY {})",
    "count(*) OVER (PARTITION BY {} ORDER BY 1)",
    "ntile(2) OVER (ORDER BY {})",
    "lag(7) OVER (ORDER BY {} DESC)",
    "sum(1) OVER (ORDER BY {} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
]


def _aggregate(draw: st.DrawFn, scope: _Scope, depth: int) -> str:
    return _one(draw, _AGGREGATES).format(_scalar(draw, scope, depth))


_AGGREGATES: Final = [
    *("count(*)", "count(DISTINCT {})", "sum(length({}))", "min({})", "max({})", "typeof({})"),
    *("group_concat({} ORDER BY 1)", "count({}) FILTER (WHERE 1)", "json_group_array(hex({}))"),
]


def _scalar(draw: st.DrawFn, scope: _Scope, depth: int) -> str:
    leaf = _leaf(draw, scope)
    if _one(draw, _FLIP):
        return leaf
    form = _one(draw, _FORMS_OF_ANY if depth > 0 else _FORMS_OF_TWO)
    if "{r}" in form:
        return form.replace("{r}", _compound(draw, scope, depth - 1, width=1)).replace("{x}", leaf)
    return form.replace("{x}", leaf).replace("{y}", _leaf(draw, scope))


def _leaf(draw: st.DrawFn, scope: _Scope) -> str:
    if scope.columns and not _one(draw, _ONE_IN_5):
        return _one(draw, scope.columns)
    return _one(draw, _CONSTANTS)


_CONSTANTS: Final = [
    *("1", "0", "NULL", "'x'", "2.5", "x'61'", *[_PARAMETER] * 6),
    *[literal(text) for text in STRINGS],
]
_FORMS_OF_TWO: Final = [
    *("({x} + {y})", "({x} || {y})", "({x} = {y})", "({x} IS {y})", "({x} < {y})", "-{x}"),
    *("({x} AND {y})", "({x} OR NOT {y})", "({x} IN ({y}, 1))", "({x} BETWEEN 0 AND {y})"),
    *("CASE WHEN {x} THEN {y} ELSE 0 END", "CAST({x} AS TEXT)", "coalesce({x}, {y})"),
    *("iif({x}, {y}, 3)", "typeof({x})", "length({x})", "hex({x})", "quote({x})", "lower({x})"),
    *("instr({x}, {y})", "replace({x}, {y}, 'z')", "trim({x}, {y})", "substr({x}, 1, 2)"),
    *("ltrim({x}, {y})", "rtrim({x})", "unhex({x})", "upper({x})", "abs(length({x}))"),
    *("printf('%s-%d', {x}, {y})", "json_array(hex({x}), typeof({y}))", "({x} LIKE 'x%')"),
    *("({x} GLOB '?')", "({x} COLLATE NOCASE = {y})", "(({x}, {y}) < (1, 2))", "max({x}, {y})"),
    *("json_extract('{\"a\": [1, 2]}', '$.a[1]')", "date('2026-01-01')", "round({x})"),
]
_FORMS_OF_READ: Final = [
    *("({r})", "EXISTS ({r})", "NOT EXISTS ({r})", "({x} IN ({r}))", "({x} NOT IN ({r}))"),
    *("(SELECT count(*) FROM ({r}))", "coalesce(({r}), {x})", "({x} = ({r}))"),
]

_FORMS_OF_ANY: Final = [*_FORMS_OF_TWO, *_FORMS_OF_READ]


# -- everything else -----------------------------------------------------------------------------


@st.composite
def writes(draw: st.DrawFn, tables: Sequence[str] = _READ_WRITE_TABLES) -> str:
    """INSERT, UPDATE, DELETE of every shape."""
    table = _one(draw, tables)
    columns = TABLES.get(table.removeprefix("main."), ["rowid"])
    scope = _Scope(tuple(columns), TABLES)
    text = _one(draw, _WRITES).format(
        t=table,
        c=_one(draw, columns),
        v=_scalar(draw, scope, 1),
        r=_compound(draw, scope, 0, width=1),
        o=_one(draw, ["", "", " OR REPLACE", " OR IGNORE", " OR ROLLBACK"]),
    )
    before = _one(draw, ["", "", "", "EXPLAIN ", "WITH x AS (SELECT 1) ", "/* c */ "])
    return before + text + _one(draw, ["", "", " RETURNING *", " RETURNING 1"])


_WRITES: Final = [
    "INSERT{o} INTO {t}({c}) VALUES (1)",
    "INSERT{o} INTO {t}({c}) {r}",
    "INSERT{o} INTO {t} DEFAULT VALUES",
    "INSERT INTO {t}({c}) VALUES ('x') ON CONFLICT DO UPDATE SET {c} = 7",
    "REPLACE INTO {t}({c}) VALUES (2)",
    "UPDATE{o} {t} SET {c} = {v}",
    "UPDATE{o} {t} SET {c} = 1 WHERE {v}",
    "UPDATE {t} SET {c} = n.id FROM o AS n WHERE 1",
    "DELETE FROM {t}",
    "DELETE FROM {t} WHERE {v}",
]


@st.composite
def schema_changes(draw: st.DrawFn, ours: Sequence[str]) -> str:
    """CREATE, ALTER, DROP, and what SQLite does to a file as a whole."""
    return _one(draw, _SCHEMA_CHANGES).format(
        t=_one(draw, [*_READ_WRITE_TABLES, "z", "sqlite_schema", *ours]),
        r=_compound(draw, _Scope((), TABLES), 0, width=1),
        temp=_one(draw, ["", "", "TEMP "]),
        there=_one(draw, ["", " IF NOT EXISTS"]),
    )


_SCHEMA_CHANGES: Final = [
    "CREATE {temp}TABLE{there} z(a)",
    "CREATE {temp}TABLE{there} z AS {r}",
    "CREATE {temp}VIEW{there} z AS {r}",
    "CREATE {temp}VIEW t AS {r}",
    "CREATE UNIQUE INDEX{there} z ON {t}(rowid)",
    "CREATE INDEX z ON t(a) WHERE a > 1",
    "CREATE {temp}TRIGGER{there} z AFTER INSERT ON {t} BEGIN DELETE FROM t; END",
    "CREATE VIRTUAL TABLE{there} z USING fts5(a)",
    "CREATE VIRTUAL TABLE temp.z USING dbstat",
    "ALTER TABLE {t} ADD COLUMN z",
    "ALTER TABLE {t} RENAME TO zz",
    "ALTER TABLE {t} RENAME COLUMN id TO zz",
    "ALTER TABLE {t} DROP COLUMN s",
    "DROP TABLE {t}",
    "DROP TABLE IF EXISTS {t}",
    "DROP VIEW open_tasks",
    "DROP INDEX tasks_by_status",
    "DROP TRIGGER kept",
    "ANALYZE {t}",
    "ANALYZE",
    "REINDEX {t}",
    "REINDEX",
    "VACUUM",
    "VACUUM INTO 'vacuumed.db'",
]
_TRANSACTIONS: Final = [
    *("BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "COMMIT", "END TRANSACTION", "ROLLBACK"),
    *("SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", "commit -- c", "/* c */ END", "EXPLAIN COMMIT"),
]
_ATTACHED: Final = [
    *("ATTACH 'new.db' AS z", "ATTACH DATABASE ':memory:' AS z", "ATTACH '' AS z", "DETACH main"),
    *("ATTACH 'file:n?mode=memory&cache=shared' AS z", "DETACH z", "EXPLAIN ATTACH 'e.db' AS z"),
    "ATTACH (SELECT 'sub.db') AS z",
]


@st.composite
def pragmas(draw: st.DrawFn, ours: Sequence[str]) -> str:
    """PRAGMAs read and set, called, and as table functions."""
    values = [*_PRAGMA_VALUES, *_READ_WRITE_TABLES, *ours, "tasks_by_status"]
    name, value = _one(draw, _PRAGMAS.split()), _one(draw, values)
    return _one(draw, _PRAGMA_FORMS).format(p=name, v=value)


_PRAGMA_FORMS: Final = [
    *("PRAGMA {p}", "PRAGMA {p} = {v}", "PRAGMA {p}({v})", "PRAGMA main.{p}", "EXPLAIN PRAGMA {p}"),
    *("PRAGMA main.{p} = {v}", "PRAGMA temp.{p} = {v}", "EXPLAIN PRAGMA {p} = {v}"),
    *("SELECT * FROM pragma_{p}", "SELECT * FROM pragma_{p}('{v}')", "pragma {p}={v};"),
    "EXPLAIN QUERY PLAN PRAGMA {p}({v})",
]
_PRAGMA_VALUES: Final = ["0", "1", "2", "-1", "off", "1000", "'UTF-16'", "truncate", "memory"]
_PRAGMAS: Final = """
analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill
case_sensitive_like cell_size_check checkpoint_fullfsync collation_list compile_options
data_version database_list default_cache_size defer_foreign_keys encoding foreign_key_check
foreign_key_list foreign_keys freelist_count full_column_names fullfsync function_list
ignore_check_constraints incremental_vacuum index_info index_list index_xinfo integrity_check
journal_mode journal_size_limit legacy_alter_table locking_mode max_page_count mmap_size
module_list optimize page_count page_size pragma_list query_only quick_check read_uncommitted
recursive_triggers reverse_unordered_selects schema_version secure_delete short_column_names
shrink_memory soft_heap_limit synchronous table_info table_list table_xinfo temp_store threads
trusted_schema user_version wal_autocheckpoint wal_checkpoint writable_schema hard_heap_limit
temp_store_directory data_store_directory nonsense empty_result
"""


def _words(ours: Sequence[str]) -> st.SearchStrategy[str]:
    return st.sampled_from([*_WORDS.split(), *FRAGMENTS, *ours])


_WORDS: Final = """
ALTER TABLE z ADD COLUMN RENAME TO DROP INDEX VIEW TRIGGER CREATE TEMP VIRTUAL USING fts5 IF NOT
EXISTS INSERT OR REPLACE INTO t DEFAULT VALUES UPDATE SET a = 1 WHERE DELETE FROM RETURNING *
BEGIN COMMIT END ROLLBACK SAVEPOINT RELEASE ATTACH 'new.db' AS DETACH main EXPLAIN QUERY PLAN
PRAGMA user_version query_only VACUUM REINDEX ANALYZE SELECT id IN ( ) , UNION ALL GROUP BY
ORDER LIMIT WITH RECURSIVE x CASE WHEN THEN ELSE sqlite_schema pragma_table_info('t')
json_each('[1]') count(*) OVER
"""
