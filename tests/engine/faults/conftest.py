"""The known faults: a memory to try them on, and the proof that a refused call left nothing.

Each test here is called after the case that it is about (`test_c05_…`). A case shows one input; its
test tries every input of the kind. The tables are those of the cases:

    t (id INTEGER PRIMARY KEY, a, b TEXT): (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')
    o (id INTEGER PRIMARY KEY, s):         (2, 'q'), (99, 'sec')

and `witness (n)`, which no case writes to: after each refused call a row goes in and out of it.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import apsw
import pytest

from structmem import Column, StructMemError, StructuredMemory, open_replica, sql
from tests.engine.conftest import dump, session_of

# Read like this they change nothing. (Some are read from the file; they must stay as well.)
_SETTINGS = (
    *("analysis_limit", "application_id", "auto_vacuum", "automatic_index", "busy_timeout"),
    *("cache_size", "cache_spill", "cell_size_check", "checkpoint_fullfsync"),
    *("defer_foreign_keys", "encoding", "foreign_keys", "fullfsync", "ignore_check_constraints"),
    *("journal_mode", "journal_size_limit", "legacy_alter_table", "locking_mode"),
    *("max_page_count", "mmap_size", "page_size", "query_only", "read_uncommitted"),
    *("recursive_triggers", "reverse_unordered_selects", "secure_delete", "short_column_names"),
    *("synchronous", "temp_store", "threads", "trusted_schema", "user_version"),
    *("wal_autocheckpoint", "writable_schema"),
)
_LIMITS = [number for number in apsw.mapping_limits if isinstance(number, int)]
_SWITCHES = (
    *(apsw.SQLITE_DBCONFIG_DEFENSIVE, apsw.SQLITE_DBCONFIG_DQS_DDL, apsw.SQLITE_DBCONFIG_DQS_DML),
    *(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER),
    *(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA),
    *(apsw.SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA),
)


Step = Callable[[StructuredMemory], object]


@pytest.fixture
def things(memory: StructuredMemory) -> StructuredMemory:
    """A memory with the tables of the cases."""
    make_things(memory)
    return memory


def make_things(memory: StructuredMemory) -> None:
    key = Column("id", "INTEGER", primary_key=True)
    memory.create_table("t", [key, Column("a"), Column("b", "TEXT")])
    memory.insert("t", [{"a": 10 * n, "b": b} for n, b in enumerate("xyz", start=1)])
    memory.create_table("o", [key, Column("s")])
    memory.insert("o", [{"id": 2, "s": "q"}, {"id": 99, "s": "sec"}])
    make_witness(memory)


def make_witness(memory: StructuredMemory) -> None:
    memory.create_table("witness", [Column("n")])


@contextmanager
def refused(
    memory: StructuredMemory, *errors: type[StructMemError], match: str | None = None
) -> Generator[pytest.ExceptionInfo[StructMemError]]:
    """Assert that the block raises one of `errors`, and that nothing else comes of it.

    Not one byte of the file's content differs, the journal included; no file is new; every
    connection is out of its transaction, has the settings it had, and sees no other database; the
    heap limits of the process stand. Then an insert and its undo work, and the journal, replayed
    into an empty memory, gives what is there.
    """
    with unharmed(memory), pytest.raises(errors, match=match) as caught:
        yield caught


def all_refused(
    memory: StructuredMemory, error: type[StructMemError], *calls: Callable[[], object]
) -> None:
    """As `refused`, for several calls one after another."""
    with unharmed(memory):
        for call in calls:
            with pytest.raises(error):
                call()


@contextmanager
def unharmed(memory: StructuredMemory) -> Generator[None]:
    """As `refused`, for a block that may also do what it is asked, as long as that is reading."""
    before = _state(memory)
    yield
    after = _state(memory)
    assert {k: (before[k], after[k]) for k in before if before[k] != after.get(k)} == {}
    memory.insert("witness", {"n": 1})
    memory.undo()
    assert dump(memory) == before["content"]
    memory.verify(deep=True)


def _state(memory: StructuredMemory) -> dict[object, object]:
    """Whatever must be the same before and after a call that was refused."""
    memory.query("SELECT 1")
    content, journal = dump(memory), dump(memory, internal=True)
    state: dict[object, object] = {
        "content": content,
        "journal": journal,
        "files": _files(memory),
        "heap": (apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1)),
    }
    for connection, ours in _connections(memory):
        assert not connection.in_transaction
        with ours:
            state[id(connection)] = _connection_state(connection)
    return state


def _files(memory: StructuredMemory) -> list[str]:
    """The files beside the memory's own."""
    return sorted(
        path.name
        for path in memory.path.parent.iterdir()
        if not path.name.startswith(memory.path.name)
    )


def _connections(
    memory: StructuredMemory,
) -> Iterator[tuple[apsw.Connection, AbstractContextManager[None]]]:
    """Every connection that the memory holds, and the block in which it runs our statements."""
    session = session_of(memory)
    writer = session.writer()
    yield writer.connection, nullcontext()
    yield writer.images, nullcontext()
    for connection in session.readers._idle:  # pyright: ignore[reportPrivateUsage]
        yield connection, nullcontext()
    for reader in session.guarded._idle:  # pyright: ignore[reportPrivateUsage]
        yield reader.sandbox.connection, reader.sandbox.gate.ours()


def _connection_state(connection: apsw.Connection) -> dict[str, object]:
    temporary = sql.rows(connection, "SELECT name FROM sqlite_temp_schema")
    assert all(name.startswith("_structmem_") for (name,) in temporary)
    databases = {name for _, name, _ in sql.rows(connection, "PRAGMA database_list")}
    assert databases <= {"main", "temp"}
    return {
        "settings": {name: sql.rows(connection, f"PRAGMA {name}") for name in _SETTINGS},
        "limits": [connection.limit(limit, -1) for limit in _LIMITS],
        "switches": [connection.config(switch, -1) for switch in _SWITCHES],
        "authorizer": connection.authorizer,
    }


# -- forth and back -------------------------------------------------------------------------------


def _state_of_file(memory: StructuredMemory) -> object:
    """The whole file. Only triggers have an order that means something; and once there was an
    AUTOINCREMENT, SQLite keeps its table for counters, be it empty."""
    found = dump(memory)
    if found.get("sqlite_sequence") == []:
        del found["sqlite_sequence"]
        found[""] = [o for o in found[""] if o[1] != "sqlite_sequence"]
    triggers = [o for o in found[""] if o[0] == "trigger"]
    return found | {"": sorted(o for o in found[""] if o[0] != "trigger") + triggers}


def there_and_back(memory: StructuredMemory, *steps: Step) -> None:
    """Do the steps, undo all, redo all, revert all; then once more on a replica."""
    states = [_state_of_file(memory)]
    for step in steps:
        step(memory)
        states.append(_state_of_file(memory))
    start = memory.history(1, before=memory.history(len(steps))[-1].op_id)
    for before in reversed(states[:-1]):
        memory.undo()
        assert _state_of_file(memory) == before
    for after in states[1:]:
        memory.redo()
        assert _state_of_file(memory) == after
    if start:
        memory.revert_to(start[0].op_id)
        assert _state_of_file(memory) == states[0]
        memory.redo()
        assert _state_of_file(memory) == states[-1]
    memory.verify(deep=True)
    with open_replica(memory.path.with_name("replica.db"), memory_id=memory.id) as replica:
        replica.apply(memory.records())
        assert _state_of_file(replica) == states[-1]
