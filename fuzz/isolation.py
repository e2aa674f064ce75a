"""Searching for SQL that leaves something behind, or sees what is not to be seen.

Invariants checked, for any SQL and any parameters:

- A query is a result or an `InvalidCall`.
- A result is what a plain read-only connection answers. About the schema it is what a database
  without the memory's own tables answers, and so it is about data.
- What such a connection answers by reading data alone, or the schema alone, is not refused, unless
  a bound is met. What reads both, or our own tables, is refused.
- Our own tables are answered for like tables that do not exist. No result and no error holds what
  they hold.
- Content, schema, the journal, files, settings, limits, temporary objects and attached databases
  are as before; the connection is in no transaction.
- Each of three layers alone keeps the content as it was, on a connection that may write where the
  layer is not about that: the gate with the rollback, the guard, the file opened for reading.
"""

from collections.abc import Generator, Sequence
from contextlib import chdir, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from hypothesis import note, target
from hypothesis import strategies as st

from fuzz.layers import layers
from fuzz.running import Verdicts, examples
from fuzz.statements import SCHEMA, Drawn, statements
from fuzz.witness import ROWS_MAX, Place, Said, Saying, plain_file, shadow
from structmem import StructuredMemory, sql
from structmem.errors import InvalidCall, QueryLimit
from structmem.reading import GuardedReader
from tests.engine.reading import guarded

EXAMPLES: Final = 200
TEXTS_MAX: Final = 10
_TIMEOUT_S: Final = 5.0
_TIMEOUT_OF_ENDLESS_S: Final = 0.05
_TEXT_FUNCTIONS: Final = ("instr", "replace", "trim", "unhex")
_SECRET: Final = "do not show this"


def run(seed: int, directory: Path, verdicts: Verdicts) -> None:
    """One round."""
    with bench(directory) as made:
        texts = st.lists(statements(made.ours), min_size=1, max_size=TEXTS_MAX)
        examples(seed, EXAMPLES, texts, partial(made.check, verdicts))


class Bench:
    """A memory's file behind every layer, behind each layer alone, and the second opinions."""

    def __init__(self, directory: Path) -> None:
        self.path = _make(directory)
        self.ours = _ours(self.path)
        self.reader = GuardedReader(self.path, max_value_bytes=1 << 20)
        self._file, self._shadow = plain_file(self.path), shadow(self.path)
        self._layers = layers(directory, self.path)
        self._before = guarded.state(self.path, self.reader.sandbox)

    def check(self, verdicts: Verdicts, drawn: Sequence[Drawn]) -> None:
        """Ask everything, then look whether anything changed."""
        found = [self._check_one(each) for each in drawn]
        found += [layer.attack(*each) for layer in self._layers for each in drawn]
        verdicts.update(found)
        target(float(len(set(found))), label="different verdicts")
        assert not _difference(self._before, guarded.state(self.path, self.reader.sandbox))
        for layer in self._layers:
            layer.check()

    def close(self) -> None:
        self.reader.close()
        for each in (self._file, self._shadow, *self._layers):
            each.close()

    def _check_one(self, drawn: Drawn) -> str:
        """The verdict on one text."""
        note(f"{drawn.kind}: {drawn.text!r} with {drawn.params!r}")
        expected = self._file.ask(drawn.text, drawn.params)
        endless = expected.how is Saying.TOO_LONG
        answer = self._answer(drawn, _TIMEOUT_OF_ENDLESS_S if endless else _TIMEOUT_S)
        kind = drawn.kind.partition(",")[0]
        if any(name in drawn.text.lower() for name in self.ours):
            self._check_absence(drawn, answer, endless=endless)
        if endless:
            return f"{kind}: too long"
        if isinstance(answer, str):
            return f"{kind}: {self._check_answer(drawn, expected, answer)}"
        return f"{kind}: {self._check_refusal(drawn, expected, answer)}"

    def _answer(self, drawn: Drawn, timeout: float) -> str | InvalidCall:
        try:
            result = self.reader.query(drawn.text, drawn.params, max_rows=ROWS_MAX, timeout=timeout)
        except InvalidCall as error:
            assert _SECRET not in str(error), error
            return error
        answer = repr((result.columns, result.rows))
        assert _SECRET not in answer, answer
        if "_structmem_" not in drawn.text.lower():
            assert "_structmem_" not in answer, answer
        return answer

    def _check_answer(self, drawn: Drawn, expected: Said, answer: str) -> str:
        assert expected.how is Saying.ANSWER, (expected, answer)
        assert expected.alone, answer
        assert Place.OURS not in expected.places, answer
        if Place.SETTINGS in expected.places:
            return "a setting"
        if "explain" in drawn.text.lower():  # a program depends on what was compiled before
            return "a program"
        if Place.SCHEMA in expected.places:
            assert Place.DATA not in expected.places, answer
            assert answer == self._shadow.ask(drawn.text, drawn.params).answer
            return "the schema"
        assert answer == expected.answer
        assert answer == self._shadow.ask(drawn.text, drawn.params).answer
        return "the data"

    def _check_refusal(self, drawn: Drawn, expected: Said, error: InvalidCall) -> str:
        if isinstance(error, QueryLimit):
            return "a bound"
        if expected.how is not Saying.ANSWER:
            return f"refused, {expected.how}"
        if "not valid UTF-8" in error.message:  # our text functions refuse what SQLite's take
            assert any(name in drawn.text for name in _TEXT_FUNCTIONS), error
            return "refused, no text"
        if "other values" in drawn.kind or not expected.fits:
            return "refused, values"
        if not expected.alone:
            return "refused, several"
        expected_places = [{Place.DATA, Place.SCHEMA}, {Place.OURS}, {Place.SETTINGS}]
        if any(places <= expected.places for places in expected_places):
            return "refused, mixed or ours"
        absent = self._shadow.ask(drawn.text, drawn.params)
        assert absent.how is not Saying.ANSWER, str(error)
        return "refused, ours"

    def _check_absence(self, drawn: Drawn, answer: str | InvalidCall, *, endless: bool) -> None:
        """Nothing tells one of our tables from a table that does not exist."""
        if endless:
            return
        said = _told(answer)
        text = drawn.text
        for name in self.ours:
            text, said = (
                text.replace(name, "_structmem_none"),
                said.replace(name, "_structmem_none"),
            )
        asked = self._answer(Drawn(drawn.kind, text, drawn.params), _TIMEOUT_S)
        assert said == _told(asked)


@contextmanager
def bench(directory: Path) -> Generator[Bench]:
    """A bench, in whose directory files of relative names would appear."""
    made = Bench(directory)
    try:
        with chdir(made.path.parent):
            yield made
    finally:
        made.close()


def _make(directory: Path) -> Path:
    """A memory of which the journal, and what it keeps of a dropped table, hold a secret. It has a
    directory of its own, so that no file can appear unseen."""
    path = directory / "memory" / "m.db"
    path.parent.mkdir()
    with StructuredMemory(path, actor=_SECRET) as memory:
        memory.execute(SCHEMA, reason=_SECRET, call_id=_SECRET)
        memory.execute(f"CREATE TABLE gone(a); INSERT INTO gone VALUES ('{_SECRET}')")
        memory.drop_table("gone")
    return path


def _ours(path: Path) -> list[str]:
    connection = guarded.plain(path)
    named = (
        "SELECT name FROM sqlite_schema WHERE name LIKE '\\_structmem\\_%' ESCAPE '\\' ORDER BY 1"
    )
    names = [name for (name,) in sql.rows(connection, named)]
    connection.close()
    return names


def _difference(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    return {what: (before[what], after[what]) for what in before if after[what] != before[what]}


def _told(answer: str | InvalidCall) -> str:
    return answer if isinstance(answer, str) else f"{answer.code}: {answer}"
