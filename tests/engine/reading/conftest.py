"""A file with tables of a user's and of ours, and a guarded reader on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from structmem.reading import GuardedReader
from tests.engine.reading import guarded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "memory"
    directory.mkdir()
    return guarded.make(directory / "m.db")


@pytest.fixture
def reader(path: Path) -> Iterator[GuardedReader]:
    opened = guarded.reader(path)
    yield opened
    opened.close()
