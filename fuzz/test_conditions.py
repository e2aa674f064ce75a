"""Searching for conditions that the where check takes for something else.

Checked:

- An honest expression is accepted.
- A condition that is accepted matches exactly the rows for which the expression, standing alone as
  a column, is true; evaluated row by row, on a connection without any guard.
- A condition that is refused is refused as an `InvalidCall`.
- Whatever the condition was, nothing changed.
"""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given, note, target
from hypothesis import strategies as st

from fuzz.sql import broken, expressions
from structmem import sql
from structmem.conditions import matching_rowids
from structmem.errors import InvalidCall
from structmem.reading import GuardedReader
from structmem.schema import Table, load_table
from tests.engine.reading import guarded

_ROWS = """
DELETE FROM t;
INSERT INTO t VALUES (-1, NULL, NULL), (0, 0, ''), (1, 10, 'x'), (2, 20, 'X'), (3, 30, '10'),
  (4, 1.5, 'it''s'), (5, x'00', 'a;b'), (6, '10', '%'), (7, -1, 'é'), (99, 9e999, '1e1');
"""


class Bench:
    """A file, a reader on it, and a plain connection that answers without it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plain = guarded.plain(path)
        sql.run(self.plain, _ROWS)
        self.table: Table = load_table(self.plain, "t")
        self.reader = GuardedReader(path, max_value_bytes=1 << 20)
        self.before = guarded.state(path, self.reader.sandbox)

    def match(self, where: str) -> list[int] | None:
        """The rowids, None when the condition is refused."""
        self.reader.begin()
        try:
            return matching_rowids(self.reader, self.table, where, (), timeout=2.0)
        except InvalidCall as error:
            note(f"refused: {error}")
            return None
        finally:
            self.reader.end()

    def true_rows(self, expression: str) -> list[int]:
        """The rows for which the expression is true, each asked for alone."""
        (alone,) = sql.compiled(self.plain, f"SELECT\n{expression}\n, 7 FROM t")
        assert [name for name, *_type in alone.description or ()][1:] == ["7"]
        rowids = [rowid for (rowid,) in sql.rows(self.plain, "SELECT rowid FROM t")]
        return [rowid for rowid in rowids if self._is_true(expression, rowid)]

    def _is_true(self, expression: str, rowid: int) -> bool:
        asked = f"SELECT iif((\n{expression}\n), 1, 0) FROM t WHERE rowid = ?"
        return bool(sql.rows(self.plain, asked, (rowid,))[0][0])

    def check(self) -> None:
        assert guarded.state(self.path, self.reader.sandbox) == self.before


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(guarded.make(tmp_path_factory.mktemp("conditions") / "m.db"))
    made.plain.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    yield made
    made.reader.close()
    made.plain.close()


@given(where=expressions())
def test_w5_an_honest_expression_matches_its_rows(bench: Bench, where: str) -> None:
    matched = bench.match(where)
    assert matched is not None
    assert sorted(matched) == sorted(bench.true_rows(where))
    assert len(set(matched)) == len(matched)


@given(where=broken(expressions()))
def test_w5_an_edited_expression_is_refused_or_is_one(bench: Bench, where: str) -> None:
    matched = bench.match(where)
    target(0.0 if matched is None else 1.0)
    if matched is not None:
        assert sorted(matched) == sorted(bench.true_rows(where))
    bench.check()


@given(left=expressions(), right=expressions(), joint=st.sampled_from([") OR (", "); (", ") , ("]))
def test_w5_two_expressions_are_not_one(bench: Bench, left: str, right: str, joint: str) -> None:
    """Balanced in all, but it closes a parenthesis that it did not open."""
    assert bench.match(f"{left}\n{joint}{right}") is None
