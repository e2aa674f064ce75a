"""SQL text for searches: honest expressions, statements, and both with something done to them."""

from hypothesis import strategies as st

from structmem.definitions import literal

COLUMNS = ["id", "a", "b", "t.a", "main.t.b", '"a"', "[b]", "rowid", "_rowid_"]

STRINGS = [
    "",
    "x",
    "X",
    "10",
    "1e1",
    "it's",
    "a;b",
    "x) --",
    "/*",
    "*/",
    "--",
    "%",
    "_",
    "\n",
    "(",
    '"',
    "UNION SELECT 1",
    "é",
]

# What turns one statement into another, if anything can.
FRAGMENTS = [
    ";",
    "--",
    "/*",
    "*/",
    "(",
    ")",
    "()",
    ",",
    "'",
    '"',
    "`",
    "[",
    "]",
    "\n",
    " ",
    "?",
    ":x",
    "0) OR (1",
    "1) UNION SELECT (1",
    ") LIMIT (1",
    " THEN 1 END FROM t --",
    " THEN 1 WHEN ",
    " END ",
    " AS z",
    " OR 1",
    " UNION SELECT id FROM o",
    " RETURNING 1",
    " ORDER BY 1",
    "; COMMIT; DELETE FROM t; BEGIN",
    "; DELETE FROM t; --",
    " FROM _structmem_meta",
    " SELECT v FROM _structmem_meta",
    " sqlite_schema ",
    "EXPLAIN ",
    "PRAGMA ",
    "WITH x AS (SELECT 1) ",
    "main.",
    "temp.",
    "\ufeff",
    "\u00a0",
]


def expressions() -> st.SearchStrategy[str]:
    """Expressions over the table `t` that SQLite accepts and evaluates without an error. Some end
    in a comment."""
    ends = st.sampled_from(["", "", " -- ) ;", " /* ' */", "\n", "\n--\n"])
    return st.builds(str.__add__, st.recursive(_leaves(), _larger, max_leaves=8), ends)


def broken(texts: st.SearchStrategy[str], *, edits_max: int = 4) -> st.SearchStrategy[str]:
    """`texts`, each after a few edits."""
    edits = st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(0, 40),
            st.sampled_from(FRAGMENTS) | st.text(max_size=3),
        ),
        min_size=1,
        max_size=edits_max,
    )
    return st.builds(_edited, texts, edits)


def injected() -> st.SearchStrategy[str]:
    """Two expressions, put together so that what stands around them might end, or go on: none of
    these is one expression."""
    return st.builds(
        _fill, st.sampled_from(INJECTIONS), st.lists(expressions(), min_size=3, max_size=3)
    )


INJECTIONS = [
    *("{x}\n) OR (\n{y}", "{x}\n) AND rowid IN (SELECT\n{y}", "{x}\n), (\n{y}"),
    *("{x}\n) UNION SELECT id FROM t WHERE (\n{y}", "{x}\n) UNION ALL VALUES (\n{y}"),
    *("{x}\n) EXCEPT SELECT rowid FROM t WHERE (\n{y}", "{x}\n) INTERSECT SELECT 1 WHERE (\n{y}"),
    *("{x}\n) LIMIT (\n{y}", "{x}\n) ORDER BY (\n{y}", "{x}\n) GROUP BY (\n{y}"),
    *("{x}\n) WINDOW w AS (ORDER BY\n{y}", "{x}\n) --", "{x}\n) ;", "{x}\n; SELECT\n{y}"),
    *("{x}\n; DELETE FROM t WHERE (\n{y}", "{x}\n) RETURNING (\n{y}", "{x}\n) /*"),
    *("{x}\nTHEN 1 END FROM t --", "{x}\nTHEN 1 WHEN\n{y}", "{x}\nTHEN 1 ELSE\n{y}"),
    *("{x}\nTHEN 1 END, CASE WHEN\n{y}", "{x}\nTHEN 1 END FROM t UNION SELECT CASE WHEN\n{y}"),
    *("{x}\n) THEN 1 END FROM t WHERE (\n{y}", "{x}\nEND", "CASE WHEN\n{x}\nTHEN\n{y}"),
    *("{x}\n,\n{y}", "SELECT\n{x}", "VALUES (\n{x}\n)", "{x}\nUNION SELECT\n{y}"),
    *("SELECT\n{x}\nUNION SELECT\n{y}", "WITH w AS (SELECT 1) SELECT\n{x}", "{x}\nAS c"),
    *('{x}\n) AS "c0" FROM t WHERE (\n{y}', "DISTINCT\n{x}", "{x}\nORDER BY\n{y}", "{x}\nLIMIT 1"),
    *(
        "{x}\nFROM o",
        "{x}\nWHERE\n{y}",
        "{x}\nDESC",
        "*",
        "t.*",
        "({x}",
        "{x}\n)",
        "(\n{x}\n,\n{y}\n)",
    ),
    *("", " ", "--", "/*", ";", "()", "(\n{x}\n) IN", "NOT", "{x}\nCOLLATE", "CAST(\n{x}\n)"),
]


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for at, length, fragment in edits:
        start = at % (len(text) + 1)
        # Half of the edits insert, half replace.
        end = start + (length if length % 2 else 0)
        text = text[:start] + fragment + text[end:]
    return text


def _leaves() -> st.SearchStrategy[str]:
    literals = (
        st.none()
        | st.integers(-100, 100)
        | st.integers(-(2**63) + 1, 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.binary(max_size=3)
        | st.sampled_from(STRINGS)
    ).map(literal)
    words = st.sampled_from(["true", "false", "NULL", "CURRENT_DATE = 0"])
    return st.sampled_from(COLUMNS) | literals | words


def _larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    part = st.tuples(smaller, st.sampled_from(_WRAPPINGS)).map(lambda p: p[1].replace("{}", p[0]))
    forms = st.sampled_from(_FORMS)
    return st.builds(_fill, forms, st.lists(part, min_size=3, max_size=3))


def _fill(form: str, parts: list[str]) -> str:
    for name, part in zip("xyz", parts, strict=True):
        form = form.replace("{" + name + "}", part)
    return form


# What stands around a part of an expression. A comment to the end of a line ends with it.
_WRAPPINGS = ["({})", "(\n{}\n)", "( {} /* ) ; */)", "(-- ( ;\n{})", "(({}))"]

_FORMS = [
    *[f"{{x}} {operator} {{y}}" for operator in ("+", "-", "*", "/", "%", "||", "&", "|", "<<")],
    *[f"{{x}} {operator} {{y}}" for operator in ("=", "==", "<>", "<", ">=", "IS", "IS NOT")],
    *[f"{{x}} {operator} {{y}}" for operator in ("AND", "OR", "IS DISTINCT FROM")],
    "NOT {x}",
    "- {x}",
    "~ {x}",
    "{x} ISNULL",
    "{x} NOTNULL",
    "{x} NOT NULL",
    "{x} BETWEEN {y} AND {z}",
    "{x} NOT BETWEEN {y} AND {z}",
    "{x} IN ({y}, {z})",
    "{x} NOT IN ({y})",
    "{x} IN ()",
    "{x} IN (SELECT {y} FROM o)",
    "{x} IN (SELECT id FROM o UNION SELECT {y} ORDER BY 1 LIMIT 3)",
    "({x}, {y}) = ({z}, 1)",
    "EXISTS (SELECT {x} FROM o WHERE o.id = t.id)",
    "(SELECT max(u.a) FROM t AS u WHERE {x})",
    "(SELECT count(*) FROM o) > {x}",
    "(WITH w(i) AS (VALUES (1), (2)) SELECT i FROM w WHERE {x} LIMIT 1)",
    "CASE WHEN {x} THEN {y} END",
    "CASE WHEN {x} THEN {y} ELSE {z} END",
    "CASE {x} WHEN {y} THEN {z} END",
    "CAST({x} AS INTEGER)",
    "CAST({x} AS BLOB)",
    "{x} COLLATE NOCASE = {y}",
    "substr({x}, 1, 20) LIKE substr({y}, 1, 20)",
    "substr({x}, 1, 20) GLOB substr({y}, 1, 20)",
    "coalesce({x}, {y}, {z})",
    "iif({x}, {y}, {z})",
    "length({x}) > 1",
    "hex({x})",
    "typeof({x}) = 'text'",
    "instr(hex({x}), '1')",
    "replace(hex({x}), '1', hex({y}))",
    "max({x}, {y})",
]
