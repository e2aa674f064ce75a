"""Many memories in one directory (M1)."""

import gc
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structmem import (
    Column,
    ForkedProcess,
    InvalidCall,
    MemoryStore,
    NotAMemory,
    ReadOnly,
    StructuredMemory,
)

NAMES = [
    *("ada", "Ada", "ADA", "user-42", "../x", "a/b", "a\\b", ".", "..", "a.db", "%41", "a b", "é"),
    *("e\u0301", "日本" * 20, "x" * 120, "X" * 120, "nul\0", "~", "a:b", "*", "con", "\U0001f600"),
]


def note(store: MemoryStore, name: str, text: str) -> None:
    store[name].create_table("notes", [Column("text")], if_not_exists=True)
    store[name].insert("notes", {"text": text})


def notes(store: MemoryStore, name: str) -> list[object]:
    return [text for (text,) in store[name].query("SELECT text FROM notes ORDER BY rowid")]


def open_files(folder: Path) -> set[str]:
    """The memories under `folder` that this process has open."""
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return {Path(link).stem for link in links if link.startswith(str(folder)) and ".db" in link}


def test_every_name_has_a_file_of_its_own(tmp_path: Path) -> None:
    """M1: also on disks that do not tell upper from lower case."""
    with MemoryStore(tmp_path / "store", max_open=3) as store:
        for name in NAMES:
            assert name not in store
            note(store, name, name)
        assert [notes(store, name) for name in NAMES] == [[name] for name in NAMES]
        assert store.names() == sorted(NAMES)
        assert all(name in store for name in NAMES)
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len({str(path).lower() for path in files}) == len(NAMES)
    assert {path.parts[0] for path in files} == {"store"}
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@given(st.sets(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30), min_size=2))
def test_no_two_names_meet(names: set[str]) -> None:
    """M1: in any case, and each below the directory, with names that a file system takes."""
    store = MemoryStore("/store")
    paths = {str(store[name].path) for name in names}
    assert len({path.lower() for path in paths}) == len(names)
    assert all(path.startswith("/store/") and "/../" not in path for path in paths)
    assert all(len(part) <= 245 for path in paths for part in path.split("/"))


@pytest.mark.parametrize("name", ["", "x" * 121, "é" * 61, "\ud800", None, 7, b"ada", ["a"]])
def test_what_is_no_name(tmp_path: Path, name: Any) -> None:
    """M1, M9"""
    store = MemoryStore(tmp_path / "store")
    for call in (store.__getitem__, store.__contains__, store.destroy):
        with pytest.raises(InvalidCall, match="name"):
            call(name)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_made_before_the_first_call(tmp_path: Path) -> None:
    """M1"""
    with MemoryStore(tmp_path / "a" / "b") as store:
        memory = store["ada"]
        assert store.names() == [] and "ada" not in store
        store.destroy("ada")
        assert list(tmp_path.iterdir()) == []
        memory.position()
        assert store.names() == ["ada"] and "ada" in store
    (tmp_path / "file").touch()
    with MemoryStore(tmp_path / "file") as store, pytest.raises(InvalidCall, match="cannot be"):
        store["ada"].position()
    assert store.names() == []


def test_foreign_files_are_left_out(tmp_path: Path) -> None:
    """M1"""
    for name in ("A.db", "%61.db", "%c3%a9.db", "%FF.db", "a b.db", "a.txt", "a.db-wal", ".db"):
        (tmp_path / name).touch()
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.db").touch()
    (tmp_path / ("x" * 123 + ".db")).touch()
    with MemoryStore(tmp_path) as store:
        note(store, "b", "mine")
        assert store.names() == ["b"]


def test_the_same_object_while_open(tmp_path: Path) -> None:
    """M1"""
    with MemoryStore(tmp_path) as store:
        memory = store["ada"]
        assert store["ada"] is memory
        memory.close()
        assert store["ada"] is not memory
        note(store, "ada", "again")


def test_the_least_recently_used_are_closed(tmp_path: Path) -> None:
    """M1: and open themselves again; their holders see nothing of it."""
    with MemoryStore(tmp_path, max_open=2) as store:
        held = {name: store[name] for name in "abc"}
        for name in "abc":
            note(store, name, name)
        assert open_files(tmp_path) == {"b", "c"}
        assert store["b"] is held["b"]  # now c is the one used longest ago
        view = held["a"].acting_as("somebody")
        view.insert("notes", {"text": "more"})
        assert open_files(tmp_path) == {"a", "b"}
        assert store["a"] is held["a"] and store["c"] is held["c"]
        assert notes(store, "a") == ["a", "more"]
    assert open_files(tmp_path) == set()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db", "c.db"]


def test_one_in_use_is_not_closed(tmp_path: Path) -> None:
    """M1: the bound holds again when its call is over."""
    with MemoryStore(tmp_path, max_open=1) as store:
        for name in "ab":
            note(store, name, name)
        numbers = store["a"].log()
        next(numbers)

        def records() -> Any:
            note(store, "b", "in between")
            assert open_files(tmp_path) == {"a", "b"}
            yield from ()

        store["a"].apply(records())
        note(store, "b", "after")
        assert next(numbers).operation == "insert"
        assert notes(store, "a") == ["a"]
        assert open_files(tmp_path) == {"a"}


def test_a_view_keeps_its_memory(tmp_path: Path) -> None:
    """M1: no second object for a name that somebody holds, if only by a view of it."""
    with MemoryStore(tmp_path, max_open=1) as store:
        identity = id(store["a"])
        view = store["a"].acting_as("somebody")
        view.position()
        store["b"].position()
        gc.collect()
        assert id(store["a"]) == identity
        assert view.position().seq == 0


def test_what_nobody_holds_is_forgotten(tmp_path: Path) -> None:
    with MemoryStore(tmp_path, max_open=2) as store:
        for n in range(20):
            store[str(n)].position()
        gc.collect()
        assert len(store._memories) == 2  # pyright: ignore[reportPrivateUsage] # memory use has no face


def test_destroy(tmp_path: Path) -> None:
    """M1"""
    with MemoryStore(tmp_path) as store:
        note(store, "ada", "old")
        note(store, "bob", "stays")
        memory = store["ada"]
        store.destroy("ada")
        assert store.names() == ["bob"] and open_files(tmp_path) == {"bob"}
        assert store["ada"] is memory
        note(store, "ada", "new")
        assert notes(store, "ada") == ["new"] and notes(store, "bob") == ["stays"]
        (tmp_path / "junk.db").write_bytes(b"no memory" * 100)
        with pytest.raises(NotAMemory):
            store.destroy("junk")
        assert "junk" in store


def test_options_are_those_of_the_memories(tmp_path: Path) -> None:
    with MemoryStore(tmp_path, actor="planner", max_value_bytes=10) as store:
        note(store, "ada", "short")
        assert store["ada"].history(1)[0].actor == "planner"
        with pytest.raises(InvalidCall, match="11 bytes"):
            note(store, "ada", "x" * 11)
    with MemoryStore(tmp_path, read_only=True) as store:
        assert notes(store, "ada") == ["short"]
        with pytest.raises(ReadOnly):
            store.destroy("ada")
    with MemoryStore(tmp_path / "none", read_only=True) as store, pytest.raises(NotAMemory):
        store["ada"].position()
    assert not (tmp_path / "none").exists()


def test_wrong_options_fail_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="colour"):
        MemoryStore(tmp_path, colour="red")
    with pytest.raises(InvalidCall, match="max_value_bytes"):
        MemoryStore(tmp_path, max_value_bytes=0)
    with pytest.raises(InvalidCall, match="max_open"):
        MemoryStore(tmp_path, max_open=0)
    with pytest.raises(InvalidCall, match="path"):
        MemoryStore("")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path, max_open=1)
    memories = [store["a"], store["b"]]
    for memory in memories:
        memory.position()
    store.close()
    store.close()
    with pytest.raises(InvalidCall, match=r"store .* is closed"):
        store["a"]
    for memory in memories:
        with pytest.raises(InvalidCall, match="closed"):
            memory.position()


def test_use_after_fork_is_refused(tmp_path: Path) -> None:
    """M4"""
    with MemoryStore(tmp_path) as store:
        note(store, "ada", "x")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                store["bob"]
            except ForkedProcess:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert notes(store, "ada") == ["x"]


def test_threads_share_a_store(tmp_path: Path) -> None:
    """M1, M4: many more names than may be open, and every write is there."""
    failed: list[Exception] = []

    def work(store: MemoryStore, number: int) -> None:
        try:
            for n in range(12):
                store[f"shared-{n % 4}"].insert("notes", {"text": str(number)})
                note(store, f"own-{number}-{n % 3}", str(n))
                store[f"shared-{number % 4}"].query("SELECT count(*) FROM notes")
        except Exception as error:
            failed.append(error)
            raise

    with MemoryStore(tmp_path, max_open=2) as store:
        for n in range(4):
            note(store, f"shared-{n}", "first")
        threads = [threading.Thread(target=work, args=(store, number)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert [len(notes(store, f"shared-{n}")) for n in range(4)] == [1 + 6 * 3] * 4
        assert len(open_files(tmp_path)) <= 2
        for name in store.names():
            store[name].verify(deep=True)
    assert len(store.names()) == 4 + 6 * 3


def test_a_memory_of_a_store_is_an_ordinary_file(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        note(store, "Ada", "x")
        path = store["Ada"].path
    assert path == tmp_path / "%41da.db"
    with StructuredMemory(path, read_only=True) as memory:
        assert memory.query("SELECT text FROM notes").scalar() == "x"
