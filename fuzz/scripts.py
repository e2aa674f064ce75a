"""Scripts for `execute`, drawn for the schema that is there: rows and schema changed together.

A script knows what its earlier statements made, dropped and renamed, so that most of them run. Some
do not, on purpose: a refused script must leave nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import apsw
from hypothesis import strategies as st
from msgspec import Struct, field

from structmem import sql

TABLES = ("t", "u", "v", "w")
COLUMNS = ("a", "b", "c", "d")

_LITERALS = st.sampled_from(
    ["0", "1", "2", "3", "1.0", "-0.0", "0.5", "'a'", "'A'", "''", "'1'", "x'61'", "NULL"]
)
_CONFLICTS = st.sampled_from(
    ["", "", "", " OR REPLACE", " OR IGNORE", " OR FAIL", " OR ABORT", " OR ROLLBACK"]
)
_TYPES = st.sampled_from(
    ["", "", "TEXT", "INTEGER", "REAL", "NUMERIC", "BLOB", "STRING", '"odd (type"', "VARCHAR(10)"]
)
_STRICT_TYPES = st.sampled_from(["INT", "INTEGER", "REAL", "TEXT", "BLOB", "ANY", "ANY"])
_CONSTANTS = ("1", "-2", "'x'", "1.0", "NULL", "abc", "TRUE", "x'00'")
_DEFAULTS = st.sampled_from(
    [*_CONSTANTS, "(1 + 1)", "CURRENT_TIMESTAMP", "(random())", "(hex(randomblob(2)))"]
)
_CONSTANT_DEFAULTS = st.sampled_from(_CONSTANTS)
_ACTIONS = st.sampled_from(["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"])


class Names(Struct):
    """What is there, by name: the columns that tables take values for, those that views show."""

    tables: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    views: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    indexes: list[str] = field(default_factory=list[str])
    triggers: list[str] = field(default_factory=list[str])

    @staticmethod
    def of(connection: apsw.Connection) -> "Names":
        found = Names()
        objects = "SELECT type, name FROM sqlite_schema WHERE sql NOT NULL ORDER BY type, name"
        for kind, name in sql.rows(connection, objects):
            if name.startswith(("_structmem_", "sqlite_")):
                continue
            if kind == "index":
                found.indexes.append(name)
            elif kind == "trigger":
                found.triggers.append(name)
            else:
                names = found.tables if kind == "table" else found.views
                names[name] = _columns(connection, name)
        return found


def _columns(connection: apsw.Connection, name: str) -> list[str]:
    try:
        listed = sql.rows(
            connection, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,)
        )
    except apsw.SQLError:  # a view of something that is gone
        return []
    return [column for (column,) in listed]


class _Writer:
    """Writes the statements of one script."""

    def __init__(self, draw: st.DrawFn, names: Names) -> None:
        self._draw = draw
        self._names = names

    def statement(self) -> str:
        rows: Sequence[Callable[[], str]] = [
            *(self._insert, self._insert, self._insert_from, self._upsert, self._update),
            *(self._update, self._update_rowid, self._update_from, self._delete, self._with),
            *(self._into_view, self._default_row),
        ]
        objects: Sequence[Callable[[], str]] = [
            *(self._create_table, self._create_table, self._create_table_as, self._create_index),
            *(self._create_index, self._create_view, self._create_trigger, self._create_trigger),
            *(self._rename_table, self._rename_column, self._swap_columns, self._swap_tables),
            *(self._rename_and_back, self._add_column, self._drop_column, self._constrain),
            *(self._rebuild, self._drop, self._drop, self._defer),
        ]
        if not self._names.tables:
            return self._create_table()
        return self._one(self._one([rows, objects]))()

    # -- parts -----------------------------------------------------------------------------------

    def _one(self, choices: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(choices))

    def _flip(self) -> bool:
        return self._draw(st.booleans())

    def _table(self) -> str:
        return self._one(sorted(self._names.tables))

    def _column(self, table: str) -> str:
        return self._one(self._names.tables[table] or ["a"])

    def _columns_of(self, table: str) -> list[str]:
        names = self._names.tables[table] or ["a"]
        return self._draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))

    def _literal(self) -> str:
        return self._draw(_LITERALS)

    def _value(self, table: str) -> str:
        column = self._column(table)
        forms = [self._literal(), self._literal(), column, f"{column} + 1", f"{column} || 'x'"]
        return self._one([*forms, "rowid", f"-{column}"])

    def _condition(self, table: str) -> str:
        column, value = self._column(table), self._literal()
        forms = [f"{column} = {value}", f"{column} IS {value}", "rowid = 1", "rowid % 2", "1"]
        return self._one([*forms, f"{column} IN (SELECT {column} FROM {table})"])

    # -- rows ------------------------------------------------------------------------------------

    def _insert(self) -> str:
        table = self._table()
        names = self._columns_of(table)
        if self._flip():
            names = ["rowid", *(n for n in names)]
        rows = ", ".join(
            "(" + ", ".join(self._literal() for _ in names) + ")"
            for _ in range(self._draw(st.integers(1, 3)))
        )
        returning = self._one(["", "", " RETURNING *"])
        conflict = self._draw(_CONFLICTS)
        return f"INSERT{conflict} INTO {table} ({', '.join(names)}) VALUES {rows}{returning}"

    def _insert_from(self) -> str:
        table, other = self._table(), self._table()
        pair = f"{self._column(table)}) SELECT {self._column(other)}"
        end = self._one(["", " WHERE 0", " LIMIT 2"])
        return f"INSERT{self._draw(_CONFLICTS)} INTO {table} ({pair} FROM {other}{end}"

    def _default_row(self) -> str:
        return f"INSERT{self._draw(_CONFLICTS)} INTO {self._table()} DEFAULT VALUES"

    def _upsert(self) -> str:
        table = self._table()
        column = self._column(table)
        then = self._one(
            ["NOTHING", f"UPDATE SET {column} = {self._value(table)}", "UPDATE SET rowid = 9"]
        )
        values = f"{self._literal()}), ({self._literal()}"
        return f"INSERT INTO {table} ({column}) VALUES ({values}) ON CONFLICT DO {then}"

    def _update(self) -> str:
        table = self._table()
        fields = ", ".join(f"{n} = {self._value(table)}" for n in self._columns_of(table))
        end = self._one(["", "", " RETURNING rowid"])
        conflict = self._draw(_CONFLICTS)
        return f"UPDATE{conflict} {table} SET {fields} WHERE {self._condition(table)}{end}"

    def _update_rowid(self) -> str:
        table = self._table()
        to = self._one(["rowid + 10", "-rowid", "3", "rowid + 1", "3 - rowid"])
        conflict = self._draw(_CONFLICTS)
        return f"UPDATE{conflict} {table} SET rowid = {to} WHERE {self._condition(table)}"

    def _update_from(self) -> str:
        table, other = self._table(), self._table()
        pair = f"{self._column(table)} = o.{self._column(other)}"
        join = f"{table}.rowid = o.rowid"
        return f"UPDATE{self._draw(_CONFLICTS)} {table} SET {pair} FROM {other} AS o WHERE {join}"

    def _delete(self) -> str:
        table = self._table()
        where = self._one(["", f" WHERE {self._condition(table)}"])
        return f"DELETE FROM {table}{where}{self._one(['', ' RETURNING 1'])}"

    def _with(self) -> str:
        table = self._table()
        count = "WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 4)"
        conflict = self._draw(_CONFLICTS)
        write = self._one(
            [
                f"INSERT{conflict} INTO {table} ({self._column(table)}) SELECT i FROM n",
                f"DELETE FROM {table} WHERE rowid IN (SELECT i FROM n)",
                f"UPDATE {table} SET {self._column(table)} = (SELECT max(i) FROM n)",
            ]
        )
        return f"{count} {write}"

    def _into_view(self) -> str:
        if not self._names.views:
            return self._create_view()
        view = self._one(sorted(self._names.views))
        column = self._one(self._names.views[view] or ["a"])
        return self._one(
            [
                f"INSERT INTO {view} ({column}) VALUES ({self._literal()})",
                f"UPDATE {view} SET {column} = {self._literal()}",
                f"DELETE FROM {view}",
            ]
        )

    def _defer(self) -> str:
        return "PRAGMA defer_foreign_keys = 1"

    # -- objects that come -----------------------------------------------------------------------

    def _free(self, wanted: Sequence[str], taken: Sequence[str]) -> str:
        """A name that is free, if one of these is."""
        return self._one([n for n in wanted if n not in taken] or wanted)

    def _free_table(self) -> str:
        return self._free(TABLES, [*self._names.tables, *self._names.views])

    def _create_table(self) -> str:
        name = self._free_table()
        strict = self._one([False, False, True])
        names = self._draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True))
        parts = [f"{n} {self._rules(n, strict=strict)}" for n in names]
        parts += self._keys(names, strict=strict)
        last = names[0]
        if self._one([False, False, True]):
            stored = self._one(["VIRTUAL", "STORED"])
            kind = self._draw(_STRICT_TYPES) if strict else self._draw(_TYPES)
            how = self._one([f"{last} || 'g'", f"{last}", f"typeof({last})"])
            unique = self._one(["", "", " UNIQUE"])
            parts.insert(len(names), f"g {kind} AS ({how}) {stored}{unique}")
        self._names.tables[name] = [*names]
        comment = self._one(["", " /* ; */", "\n-- it's\n"])
        return f"CREATE TABLE {name} ({comment}{', '.join(parts)}){' STRICT' if strict else ''}"

    def _rules(self, name: str, *, strict: bool) -> str:
        kind = self._draw(_STRICT_TYPES if strict else _TYPES)
        actions = f"ON DELETE {self._draw(_ACTIONS)} ON UPDATE {self._draw(_ACTIONS)}"
        deferred = self._one(["", "DEFERRABLE INITIALLY DEFERRED"])
        rule = self._one(
            [
                *("", "", "", "UNIQUE", "UNIQUE ON CONFLICT REPLACE", "UNIQUE ON CONFLICT IGNORE"),
                *("NOT NULL DEFAULT 1", "COLLATE NOCASE UNIQUE", f"CHECK ({name} IS NOT 'A')"),
                f"DEFAULT {self._draw(_DEFAULTS)}",
                f"REFERENCES t (a) {actions} {deferred}",
            ]
        )
        return f"{kind} {rule}"

    def _keys(self, names: Sequence[str], *, strict: bool) -> list[str]:
        keys = ["", "", "id INTEGER PRIMARY KEY", "id INTEGER PRIMARY KEY AUTOINCREMENT"]
        keys.append("id INTEGER PRIMARY KEY AUTOINCREMENT")
        key = self._one(keys)
        found = [key] if key else []
        if not key and self._flip():
            found.append(f"PRIMARY KEY ({', '.join(names)})")
        if len(names) > 1 and self._flip():
            found.append(f"CONSTRAINT k UNIQUE ({names[1]} DESC, {names[0]} COLLATE NOCASE)")
        return found

    def _create_table_as(self) -> str:
        name, source = self._free_table(), self._table()
        column = self._column(source)
        self._names.tables[name] = ["a", "b"]
        what = self._one([column, f"CAST({column} AS TEXT)", "rowid", "1.0"])
        end = self._one(["", f" UNION ALL SELECT {self._literal()}, {self._literal()}"])
        return f"CREATE TABLE {name} AS SELECT {column} AS a, {what} AS b FROM {source}{end}"

    def _create_index(self) -> str:
        name, table = self._free(("i", "j", "k"), self._names.indexes), self._table()
        self._names.indexes.append(name)
        column = self._column(table)
        order = self._one(["", " DESC", " COLLATE NOCASE"])
        what = self._one(
            [f"{column}{order}", f"{column}, {self._column(table)}", f"lower({column})", "a || 'x'"]
        )
        where = self._one(["", "", f" WHERE {column} > 0", f" WHERE {column} IS NOT NULL"])
        unique = self._one(["", "", "UNIQUE "])
        return f"CREATE {unique}INDEX {name} ON {table} ({what}){where}"

    def _create_view(self) -> str:
        name, table = self._free(("x", "y"), [*self._names.views]), self._table()
        column = self._column(table)
        self._names.views[name] = [column]
        return f"CREATE VIEW {name} AS SELECT {column} FROM {table} -- seen"

    def _create_trigger(self) -> str:
        name = self._free(("p", "q", "r", "s"), self._names.triggers)
        self._names.triggers.append(name)
        table = self._table()
        event = self._one(
            ["INSERT", "DELETE", "UPDATE", "UPDATE", f"UPDATE OF {self._column(table)}"]
        )
        base, when = table, self._one(["BEFORE", "AFTER", "AFTER"])
        if self._names.views and self._one([False, False, True]):
            base, when = self._one(sorted(self._names.views)), "INSTEAD OF"
            event = event.split()[0]
        condition = self._one(["", "", " WHEN 1", " FOR EACH ROW"])
        body = "; ".join(self._reaction(event) for _ in range(self._draw(st.integers(1, 2))))
        return f"CREATE TRIGGER {name} {when} {event} ON {base}{condition} BEGIN {body}; END"

    def _reaction(self, event: str) -> str:
        table = self._table()
        column = self._column(table)
        row = "new" if event == "INSERT" else "old"
        return self._one(
            [
                f"INSERT{self._draw(_CONFLICTS)} INTO {table} ({column}) VALUES ('by trigger')",
                f"UPDATE{self._draw(_CONFLICTS)} {table} SET {column} = 7 WHERE rowid = 1",
                f"UPDATE {table} SET {column} = {column} || '!' WHERE rowid = 2",
                f"DELETE FROM {table} WHERE rowid = 2",
                f"INSERT OR REPLACE INTO {table} (rowid) VALUES (3)",
                f"SELECT {row}.rowid",
                "SELECT RAISE(IGNORE) WHERE 0",
            ]
        )

    # -- objects that change or go ---------------------------------------------------------------

    def _rename_table(self) -> str:
        table, to = self._table(), self._free_table()
        self._names.tables[to] = self._names.tables.pop(table)
        return f"ALTER TABLE {table} RENAME TO {to}"

    def _rename_and_back(self) -> str:
        table = self._table()
        inner = self._one([self._update_of(table), ""])
        return f"ALTER TABLE {table} RENAME TO z; {inner} ALTER TABLE z RENAME TO {table}"

    def _update_of(self, table: str) -> str:
        column = self._column(table)
        return self._one([f"UPDATE z SET {column} = {column};", "DELETE FROM z WHERE rowid = 1;"])

    def _swap_tables(self) -> str:
        one, other = self._table(), self._table()
        if one == other:
            return self._rename_table()
        tables = self._names.tables
        tables[one], tables[other] = tables[other], tables[one]
        return (
            f"ALTER TABLE {one} RENAME TO z; ALTER TABLE {other} RENAME TO {one};"
            f" ALTER TABLE z RENAME TO {other}"
        )

    def _rename_column(self) -> str:
        table = self._table()
        names = self._names.tables[table] or ["a"]
        old, new = self._one(names), self._free([*COLUMNS, "A"], names)
        self._names.tables[table] = [new if n == old else n for n in names]
        return f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}"

    def _swap_columns(self) -> str:
        table = self._table()
        names = self._columns_of(table)
        if len(names) < 2:
            return self._rename_column()
        one, other = names[:2]
        return (
            f"ALTER TABLE {table} RENAME {one} TO z; ALTER TABLE {table} RENAME {other} TO {one};"
            f" ALTER TABLE {table} RENAME z TO {other}"
        )

    def _add_column(self) -> str:
        table = self._table()
        name = self._free(COLUMNS, self._names.tables[table])
        source = self._column(table)  # one that is there: a column cannot be computed from itself
        self._names.tables[table] = [*self._names.tables[table], name]
        default = self._draw(_CONSTANT_DEFAULTS)
        rule = self._one(
            [
                *("", f"DEFAULT {default}", f"DEFAULT {default}", "NOT NULL DEFAULT 1"),
                *("REFERENCES t (a)", "AS (rowid + 0)", "COLLATE NOCASE CHECK (1)"),
                f"AS ({source}) VIRTUAL",
                "DEFAULT CURRENT_TIMESTAMP",
            ]
        )
        kind = self._one(["TEXT", "INT", "REAL", "ANY", ""])
        return f"ALTER TABLE {table} ADD COLUMN {name} {kind} {rule}"

    def _drop_column(self) -> str:
        table = self._table()
        name = self._column(table)
        self._names.tables[table] = [n for n in self._names.tables[table] if n != name]
        return f"ALTER TABLE {table} DROP COLUMN {name}"

    def _constrain(self) -> str:
        table = self._table()
        column = self._column(table)
        return f"ALTER TABLE {table} " + self._one(
            [
                f"ALTER COLUMN {column} SET NOT NULL",
                f"ALTER COLUMN {column} DROP NOT NULL",
                f"ADD CONSTRAINT e CHECK ({column} IS NOT 'no')",
                "DROP CONSTRAINT e",
            ]
        )

    def _rebuild(self) -> str:
        """How one changes a table that SQLite cannot alter so."""
        table = self._table()
        names = self._names.tables[table] or ["a"]
        more = self._one(["", ", n DEFAULT 5", ", n DEFAULT CURRENT_TIMESTAMP", ", n UNIQUE"])
        listed = ", ".join(names)
        rowid = "rowid, " if self._flip() else ""
        self._names.tables[table] = [*names, "n"] if more else names
        return (
            f"CREATE TABLE z ({listed}{more});"
            f" INSERT INTO z ({rowid}{listed}) SELECT {rowid}{listed} FROM {table};"
            f" DROP TABLE {table}; ALTER TABLE z RENAME TO {table}"
        )

    def _drop(self) -> str:
        names = self._names
        kinds = {
            "TABLE": sorted(names.tables),
            "VIEW": sorted(names.views),
            "INDEX": names.indexes,
            "TRIGGER": names.triggers,
        }
        kind, name = self._one([(kind, name) for kind, found in kinds.items() for name in found])
        again = ""
        match kind:
            case "TABLE":
                columns = names.tables.pop(name)
                if self._flip():
                    names.tables[name] = columns or ["a"]
                    again = f"; CREATE TABLE {name} ({', '.join(columns or ['a'])})"
            case "VIEW":
                del names.views[name]
            case "INDEX":
                names.indexes.remove(name)
            case _:
                names.triggers.remove(name)
        return f"DROP {kind} {name}{again}"


@st.composite
def scripts(draw: st.DrawFn, names: Names) -> str:
    """A script of a few statements for a memory that has `names`, which it changes."""
    writer = _Writer(draw, names)
    return ";\n".join(writer.statement() for _ in range(draw(st.integers(1, 4))))
