"""Fixtures of the engine's tests.

Every memory that a test gets here is verified, deep, when the test is over: replayed from its
journal and compared row by row. A test that leaves journal and rows apart fails, whatever it was
about.
"""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from structmem import StructuredMemory

Dump = dict[str, list[tuple[object, ...]]]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[StructuredMemory]:
    with StructuredMemory(tmp_path / "crm.db", actor="tester") as opened:
        yield opened
        opened.verify(deep=True)


@pytest.fixture
def unjournaled(tmp_path: Path) -> Iterator[StructuredMemory]:
    """A memory whose file the test changes behind the journal's back (`alter`), to get what only
    other tools or later operations make: it is not verified at the end."""
    with StructuredMemory(tmp_path / "altered.db", actor="tester") as opened:
        yield opened


def alter(memory: StructuredMemory, sql: str) -> None:
    """Run SQL on the file as another tool would."""
    connection = raw(memory)
    connection.execute(sql)
    connection.close()


def raw(memory: StructuredMemory) -> apsw.Connection:
    """A plain connection to the file, as another tool would have."""
    memory.position()  # creates the file
    return apsw.Connection(str(memory.path))


def dump(memory: StructuredMemory, *, internal: bool = False) -> Dump:
    """Everything in the file: schema texts, every row with its rowid and storage classes."""
    connection = raw(memory)
    try:
        return _dump(connection, internal)
    finally:
        connection.close()


def _dump(connection: apsw.Connection, internal: bool) -> Dump:
    objects = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid"
    ).fetchall()
    shown = [row for row in objects if internal or not str(row[2]).startswith("_structmem_")]
    found: Dump = {"": list(shown)}
    for kind, name, _table, _sql in shown:
        if kind == "table":
            found[str(name)] = _rows(connection, str(name))
    return found


def _rows(connection: apsw.Connection, table: str) -> list[tuple[object, ...]]:
    quoted = '"' + table.replace('"', '""') + '"'
    listed = connection.execute("SELECT type, wr FROM pragma_table_list(?)", (table,)).fetchone()
    rowid = "" if listed and listed[1] else "rowid, "
    columns = connection.execute("SELECT name FROM pragma_table_xinfo(?)", (table,)).fetchall()
    names = ['"' + str(name).replace('"', '""') + '"' for (name,) in columns]
    exact = ", ".join(f"typeof({n}), CAST({n} AS BLOB)" for n in names)
    return sorted(connection.execute(f"SELECT {rowid}{exact} FROM {quoted}").fetchall(), key=repr)
