"""Searching for SQL that leaves something behind, or sees what is not to be seen.

Checked, after a few texts on one reader:

- Each is a result or an `InvalidCall`.
- Content, schema, files, settings, limits and attached databases are as before; the connection is
  in no transaction.
- With nothing but the gate and the rollback, on a connection that may write, the content is as
  before.
- No result holds what our own tables hold, or their names.
- SQL that names one of them is answered as if it did not exist.
"""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from fuzz.sql import FRAGMENTS, broken, expressions
from structmem.bounds import Bounds, Watch
from structmem.errors import InvalidCall
from structmem.guard import Gate
from structmem.reading import GuardedReader
from structmem.sandbox import Sandbox
from tests.engine.reading import guarded
from tests.engine.reading.test_hiding import MENTIONS, SCHEMA_READS
from tests.engine.reading.test_isolation import FORMS, SETTINGS, SMUGGLED, WRITES
from tests.engine.reading.test_reading import HONEST

_TIMEOUT_S = 0.2
_OURS = [text.replace("{}", "_structmem_meta") for text in MENTIONS]
_KNOWN = [*WRITES, *SMUGGLED, *_OURS, *SCHEMA_READS, *(text for text, _rows in HONEST)]
_WORDS = [*" ".join(_KNOWN).split(), *FRAGMENTS]


def statements() -> st.SearchStrategy[str]:
    """Known attacks and honest reads, settings, soups of their words, and all of these edited."""
    known = st.sampled_from(_KNOWN)
    settings = st.builds(str.format, st.sampled_from(FORMS), st.sampled_from(SETTINGS))
    reads = expressions().map(lambda expression: f"SELECT {expression}\nFROM t")
    soup = st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join)
    several = st.lists(known, min_size=2, max_size=3).map("; ".join)
    any_text = known | settings | reads | soup | several
    return any_text | broken(any_text)


class Guarded:
    """A file behind every layer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader = GuardedReader(path, max_value_bytes=1 << 20)
        self.before = guarded.state(path, self.reader.sandbox)

    def run(self, text: str) -> None:
        try:
            result = self.reader.query(text, (), max_rows=1000, timeout=_TIMEOUT_S)
        except InvalidCall as error:
            note(f"{text!r}: {error}")
            assert guarded.SECRET not in str(error)
            return
        assert guarded.SECRET not in repr(result)
        if "_structmem_" not in text.lower():
            assert "_structmem_" not in repr(result)

    def answer(self, text: str) -> str:
        try:
            return repr(self.reader.query(text, (), timeout=_TIMEOUT_S))
        except InvalidCall as error:
            return f"{error.code}: {error}"

    def check(self) -> None:
        assert guarded.state(self.path, self.reader.sandbox) == self.before


@pytest.fixture(scope="module")
def behind_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)  # where a file of a relative name would appear
        made = Guarded(guarded.make(directory / "m.db"))
        yield made
        made.reader.close()


@given(texts=st.lists(statements(), min_size=1, max_size=12))
def test_q2_q5_nothing_is_left_behind(behind_all: Guarded, texts: list[str]) -> None:
    for text in texts:
        behind_all.run(text)
    behind_all.check()


@given(text=st.sampled_from(_OURS) | broken(st.sampled_from(_OURS)))
def test_q5_ours_answer_like_tables_that_do_not_exist(behind_all: Guarded, text: str) -> None:
    absent = text.replace("_structmem_meta", "_structmem_none")
    found = behind_all.answer(text).replace("_structmem_meta", "_structmem_none")
    assert found == behind_all.answer(absent)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("bare")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)  # for what is attached: this layer does not refuse it
        yield guarded.make(directory / "m.db")


def run_bare(sandbox: Sandbox[Gate], text: str) -> None:
    sandbox.begin()
    sandbox.watch(Watch(_TIMEOUT_S, Bounds.allowing(1 << 20)))
    try:
        with sandbox.run(sandbox.examine(text), ()) as rows:
            for _row in rows:
                pass
    except (apsw.Error, InvalidCall, UnicodeError, ValueError) as error:
        note(f"{text!r}: {error}")
    finally:
        sandbox.watch(None)
        sandbox.end()


@given(texts=st.lists(statements(), min_size=1, max_size=12))
def test_q2_the_rollback_alone_holds_the_content(bare: Path, texts: list[str]) -> None:
    before = guarded.content(bare)
    sandbox = Sandbox(guarded.plain(bare), Gate())
    for text in texts:
        if "heap_limit" not in text:  # would be the whole process's
            run_bare(sandbox, text)
    sandbox.close()
    assert guarded.content(bare) == before
