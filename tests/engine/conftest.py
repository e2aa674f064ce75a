"""Fixtures of the engine's tests.

Every memory that a test gets here is verified, deep, when the test is over: replayed from its
journal and compared row by row. A test that leaves journal and rows apart fails, whatever it was
about.
"""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from structmem import StructuredMemory, sql
from structmem.identifiers import quote
from structmem.session import Session
from structmem.writing import Writer

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


def alter(memory: StructuredMemory, statements: str) -> None:
    """Run SQL on the file as another tool would."""
    connection = raw(memory)
    sql.run(connection, statements)
    connection.close()


def raw(memory: StructuredMemory) -> apsw.Connection:
    """A plain connection to the file, as another tool would have."""
    memory.position()  # creates the file
    return apsw.Connection(str(memory.path))


def writer_of(memory: StructuredMemory) -> Writer:
    """What writes for this memory, for a test that looks at it or gets in its way."""
    return session_of(memory).writer()


def session_of(memory: StructuredMemory) -> Session:
    """All connections that this memory has open, until it is closed."""
    with memory._opening.session() as session:  # pyright: ignore[reportPrivateUsage] # has no other door
        return session


def dump(memory: StructuredMemory, *, internal: bool = False) -> Dump:
    """Everything in the file: schema texts, every row with its rowid and storage classes."""
    connection = raw(memory)
    try:
        return _dump(connection, internal)
    finally:
        connection.close()


def _dump(connection: apsw.Connection, internal: bool) -> Dump:
    objects = sql.rows(
        connection, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid"
    )
    shown = [row for row in objects if internal or not row[2].startswith("_structmem_")]
    tables = [name for kind, name, _table, _text in shown if kind == "table"]
    return {"": shown} | {name: _rows(connection, name) for name in tables}


def _rows(connection: apsw.Connection, table: str) -> list[tuple[object, ...]]:
    """Every row with its rowid, each value as storage class and bytes."""
    listed = sql.rows(connection, "SELECT wr FROM pragma_table_list(?)", (table,))
    rowid = "" if listed[0][0] else "rowid, "
    columns = sql.rows(connection, "SELECT name FROM pragma_table_xinfo(?)", (table,))
    exact = ", ".join(f"typeof({quote(n)}), CAST({quote(n)} AS BLOB)" for (n,) in columns)
    found = sql.rows(connection, f"SELECT {rowid}{exact} FROM {quote(table)}")
    return sorted(found, key=repr)
