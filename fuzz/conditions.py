"""Searching for conditions that the where check takes for something else.

Invariants checked:

- A condition that is accepted matches exactly the rows for which the expression, standing alone as
  a column, is true; each row asked for by itself, on a connection without any guard.
- What plain SQLite takes for one expression over the table, in places unlike our frames, is
  accepted; what it does not is refused, as an `InvalidCall`.
- Two expressions, put together in any way that might end what stands around them, are refused.
- A result with any other column than the alias is refused, and no alias is used a second time.
- Whatever the condition was, nothing changed.

Each part of the check is also left out in turn; the verdicts say how often it alone refused.
"""

from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from hypothesis import note, target
from hypothesis import strategies as st

from fuzz.running import Verdicts, examples
from fuzz.sql import broken, expressions, injected
from fuzz.witness import Place, Saying, plain_file
from structmem import sql
from structmem.conditions import matching_rowids
from structmem.errors import ConditionRefused, InvalidCall, QueryLimit
from structmem.reading import GuardedReader, Prepared
from structmem.schema import load_table
from tests.engine.reading import guarded

EXAMPLES: Final = 200
_TIMEOUT_S: Final = 5.0
_ROWS: Final = """
DELETE FROM t;
INSERT INTO t VALUES (-1, NULL, NULL), (0, 0, ''), (1, 10, 'x'), (2, 20, 'X'), (3, 30, '10'),
  (4, 1.5, 'it''s'), (5, x'00', 'a;b'), (6, '10', '%'), (7, -1, 'é'), (99, 9e999, '1e1');
"""
_CASE: Final = "SELECT CASE WHEN\n"


def run(seed: int, directory: Path, verdicts: Verdicts) -> None:
    """One round."""
    bench = Bench(directory)
    try:
        examples(seed, EXAMPLES, conditions(), partial(bench.check, verdicts))
    finally:
        bench.close()


def conditions() -> st.SearchStrategy[tuple[str, str]]:
    """(what it is, the text)"""
    honest = expressions()
    kinds = {"honest": honest, "edited": broken(honest), "injected": injected()}
    kinds["edited injection"] = broken(injected())
    return st.one_of([st.tuples(st.just(kind), texts) for kind, texts in kinds.items()])


class Bench:
    """A file, readers on it with and without parts of the check, and a second opinion."""

    def __init__(self, directory: Path) -> None:
        self.path = guarded.make(directory / "m.db")
        with_rows = guarded.plain(self.path)
        sql.run(with_rows, _ROWS)
        self._table = load_table(with_rows, "t")
        self._rowids = [rowid for (rowid,) in sql.rows(with_rows, "SELECT rowid FROM t")]
        with_rows.close()
        self._plain = plain_file(self.path)
        self._whole = Observed(self.path, max_value_bytes=1 << 20)
        self._without = {
            "the CASE frame": WithoutCase(self.path, max_value_bytes=1 << 20),
            "the parentheses": WithoutParentheses(self.path, max_value_bytes=1 << 20),
        }
        self._misled = Misled(self.path, max_value_bytes=1 << 20)
        self._before = guarded.state(self.path, self._whole.sandbox)

    def check(self, verdicts: Verdicts, drawn: tuple[str, str]) -> None:
        kind, text = drawn
        matched = self._match(self._whole, text)
        self._whole.check_aliases()
        if isinstance(matched, InvalidCall):
            verdict = self._check_refusal(kind, text, matched)
        else:
            verdict = self._check_match(kind, text, matched)
        verdicts[f"{kind}: {verdict}"] += 1
        assert guarded.state(self.path, self._whole.sandbox) == self._before

    def close(self) -> None:
        for each in (self._whole, self._misled, self._plain, *self._without.values()):
            each.close()

    def _match(self, reader: GuardedReader, text: str) -> list[int] | InvalidCall:
        reader.begin()
        try:
            return matching_rowids(reader, self._table, text, (), timeout=_TIMEOUT_S)
        except InvalidCall as error:
            note(f"refused: {error}")
            return error
        finally:
            reader.end()

    def _check_match(self, kind: str, text: str, matched: list[int]) -> str:
        assert kind != "injected", matched
        assert self._is_expression(text), matched
        assert len(set(matched)) == len(matched)
        assert sorted(matched) == sorted(self._true_rows(text))
        misled = self._match(self._misled, text)
        assert isinstance(misled, ConditionRefused), misled
        target(float(self._whole.different_steps), label="different steps of the program")
        return "matched some" if matched else "matched none"

    def _check_refusal(self, kind: str, text: str, error: InvalidCall) -> str:
        assert kind != "honest" or isinstance(error, QueryLimit), error
        if isinstance(error, QueryLimit):
            return "a bound"
        if self._is_expression(text):
            said = self._plain.ask(_alone(text), (0,))
            elsewhere = {Place.SCHEMA, Place.OURS, Place.SETTINGS} & said.places
            assert said.how is not Saying.ANSWER or elsewhere or not said.fits, error
            return "refused, an expression that cannot be answered"
        for part, reader in self._without.items():
            if not isinstance(self._match(reader, text), InvalidCall):
                return f"needs {part}"
        return "refused"

    def _is_expression(self, text: str) -> bool:
        """Whether SQLite compiles the text as the one argument of a function and in parentheses,
        where no aggregate may stand, and as one column before another."""
        places = (
            "SELECT 7 FROM t WHERE abs(\n{}\n)",
            "SELECT 7 FROM t WHERE 1 = (\n{}\n)",
            "SELECT\n{}\n, 7 FROM t",
        )
        return all(self._plain.compiles(place.replace("{}", text)) for place in places)

    def _true_rows(self, text: str) -> list[int]:
        """The rows for which the expression is true, each asked for alone."""
        return [rowid for rowid in self._rowids if self._is_true(text, rowid)]

    def _is_true(self, text: str, rowid: int) -> bool:
        said = self._plain.ask(_alone(text), (rowid,))
        assert said.how is Saying.ANSWER, said
        return said.answer.endswith("[(1,)])")


def _alone(text: str) -> str:
    return f"SELECT iif((\n{text}\n), 1, 0) FROM t WHERE rowid = ?"


class Observed(GuardedReader):
    """A reader that notes the aliases of the frames it compiles, and how rich the last one is."""

    def __init__(self, path: Path, *, max_value_bytes: int) -> None:
        super().__init__(path, max_value_bytes=max_value_bytes)
        self._used: set[str] = set()
        self._now: set[str] = set()
        self.different_steps = 0

    def compile(self, text: str) -> Prepared:
        prepared = super().compile(text)
        if not text.startswith(_CASE):
            self._now.update(prepared.statement.columns)
            self.different_steps = len({step.name for step in prepared.program})
        return prepared

    def check_aliases(self) -> None:
        assert not self._now & self._used, self._now
        self._used |= self._now
        self._now = set()


class WithoutCase(GuardedReader):
    """A reader for which the second frame always compiles."""

    def compile(self, text: str) -> Prepared:
        return super().compile("SELECT 1" if text.startswith(_CASE) else text)


class WithoutParentheses(GuardedReader):
    """A reader for which the first frame has no parentheses around the condition."""

    def compile(self, text: str) -> Prepared:
        if not text.startswith(_CASE):
            before, _, condition = text.partition(" WHERE (\n")
            text = f"{before} WHERE\n{condition.removesuffix(')')}"
        return super().compile(text)


class Misled(GuardedReader):
    """A reader whose frames have a column more than they say."""

    def compile(self, text: str) -> Prepared:
        prepared = super().compile(text)
        columns = (*prepared.statement.columns, "another")
        statement = msgspec.structs.replace(prepared.statement, columns=columns)
        return msgspec.structs.replace(prepared, statement=statement)
