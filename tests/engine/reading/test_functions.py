"""The functions that stand in for built-in ones (Q3) give the same answers."""

import itertools
from typing import Any

import apsw
import pytest

from structmem import functions, sql
from structmem.errors import QueryLimit

TEXTS: list[Any] = ["", "a", "abcabc", "  x ", "aXa", "é", "naïve é", "a\0b", "\0", "-41-42-", "🙂"]
OTHERS: list[Any] = [None, 0, 1, -41, 1.0, 1.5, 1e20, -0.0, 1e400, b"", b"a", b"\xc3\xa9", b"4142"]
VALUES = TEXTS + OTHERS


@pytest.fixture(scope="module")
def both() -> tuple[apsw.Connection, apsw.Connection]:
    replaced = apsw.Connection(":memory:")
    functions.register(replaced, 1 << 20)
    return replaced, apsw.Connection(":memory:")


def ask(connection: apsw.Connection, name: str, arguments: tuple[Any, ...]) -> object:
    call = f"{name}({', '.join('?' * len(arguments))})"
    return sql.rows(connection, f"SELECT typeof({call}), {call}", arguments * 2)


@pytest.mark.parametrize("name", ["instr", "trim", "ltrim", "rtrim", "unhex"])
def test_two_arguments(both: tuple[apsw.Connection, apsw.Connection], name: str) -> None:
    replaced, built_in = both
    for arguments in itertools.product(VALUES, VALUES):
        assert ask(replaced, name, arguments) == ask(built_in, name, arguments), arguments


def test_replace(both: tuple[apsw.Connection, apsw.Connection]) -> None:
    replaced, built_in = both
    for arguments in itertools.product(VALUES, VALUES, [None, "", "zz", "é", 7, b"a"]):
        assert ask(replaced, "replace", arguments) == ask(built_in, "replace", arguments), arguments


@pytest.mark.parametrize("name", ["trim", "ltrim", "rtrim", "unhex"])
def test_one_argument_is_left_to_sqlite(
    both: tuple[apsw.Connection, apsw.Connection], name: str
) -> None:
    replaced, built_in = both
    for value in VALUES:
        assert ask(replaced, name, (value,)) == ask(built_in, name, (value,)), value


@pytest.mark.parametrize("name", ["trim", "ltrim", "rtrim"])
def test_trimming_many_characters(both: tuple[apsw.Connection, apsw.Connection], name: str) -> None:
    replaced, built_in = both
    many = "".join(map(chr, range(0x100, 0x200)))
    for text in (many, f"{many}a{many}", f"a{many}", f"{many}a", "a", ""):
        assert ask(replaced, name, (text, many)) == ask(built_in, name, (text, many))


def test_views_and_indexes_may_use_them(both: tuple[apsw.Connection, apsw.Connection]) -> None:
    connection, _built_in = both
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    sql.run(connection, "CREATE TABLE t(a); INSERT INTO t VALUES ('xax')")
    sql.run(
        connection,
        "CREATE INDEX i ON t(trim(a, 'x')); CREATE VIEW v AS SELECT instr(a, 'a') FROM t",
    )
    assert sql.rows(connection, "SELECT a FROM t INDEXED BY i WHERE trim(a, 'x') = 'a'") == [
        ("xax",)
    ]
    assert sql.rows(connection, "SELECT * FROM v") == [(2,)]


def test_a_result_that_would_be_too_long(both: tuple[apsw.Connection, apsw.Connection]) -> None:
    replaced, _built_in = both
    with pytest.raises(apsw.TooBigError):
        ask(replaced, "replace", ("a" * 2000, "a", "b" * 2000))


def test_unhex_ignores_only_so_many(both: tuple[apsw.Connection, apsw.Connection]) -> None:
    replaced, _built_in = both
    with pytest.raises(QueryLimit):
        ask(replaced, "unhex", ("41", "".join(map(chr, range(0x100, 0x200)))))


def test_lengths_that_would_take_hours(both: tuple[apsw.Connection, apsw.Connection]) -> None:
    """Each of these is minutes or more with the built-in function."""
    replaced, _built_in = both
    long, half = "a" * 4_000_000, "a" * 2_000_000 + "b"
    many = "".join(map(chr, range(0x100, 0x10100))).replace("\ud800", "")
    many = "".join(c for c in many if not 0xD800 <= ord(c) < 0xE000) + "a"
    assert ask(replaced, "instr", (long, half)) == [("integer", 0)]
    assert ask(replaced, "replace", (long, half, "")) == [("text", long)]
    assert ask(replaced, "trim", (long, many)) == [("text", "")]
    assert ask(replaced, "unhex", ("-" * 4_000_000, "b" * 4_000_000 + "-")) == [("blob", b"")]
