"""What is large and still quick: it works, or ends in a clear limit (C37).

`tests/engine/faults/test_limits.py` has wide tables and long expressions; `large.py` beside this
has what takes minutes or gigabytes.
"""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import structmem_journal.limits
from structmem import (
    Column,
    ConstraintFailed,
    InvalidCall,
    StructuredMemory,
    columns,
    images,
    limits,
    open_replica,
)
from structmem.tools import json_values
from tests.engine.conftest import dump
from tests.engine.faults.conftest import all_refused, make_witness, refused

WIDTH = columns.COLUMNS_MAX


@pytest.fixture
def wide(memory: StructuredMemory) -> StructuredMemory:
    """`w` has 1 999 columns and five rows."""
    memory.create_table("w", [Column(f"c{n}") for n in range(WIDTH)])
    memory.insert("w", [{f"c{n}": row + n for n in range(WIDTH)} for row in range(5)])
    make_witness(memory)
    return memory


def content(memory: StructuredMemory) -> tuple[str, list[object]]:
    """The schema, and the rows of `w`. (`dump` would ask for too many columns.)"""
    schema = memory.describe()
    is_there = 'CREATE TABLE "w"' in schema
    return schema, [*memory.query("SELECT rowid, * FROM w")] if is_there else []


WRITES: dict[str, Callable[[StructuredMemory], object]] = {
    "update all columns": lambda m: m.update("w", {f"c{n}": "x" for n in range(WIDTH)}, "c0 < 3"),
    "update one": lambda m: m.update("w", {"c1998": None}, "c1000 = 1001"),
    "delete": lambda m: m.delete("w", "c1998 > 2000"),
    "create_index": lambda m: m.create_index("w", ["c1998", "c0"], unique=True),
    "drop_table": lambda m: m.drop_table("w"),
    "execute DROP COLUMN": lambda m: m.execute("ALTER TABLE w DROP COLUMN c7"),
    "execute RENAME": lambda m: m.execute("ALTER TABLE w RENAME COLUMN c7 TO d; DELETE FROM w"),
    "execute DROP TABLE": lambda m: m.execute("DROP TABLE w"),
}


@pytest.mark.parametrize("what", WRITES)
def test_c37_the_widest_table_takes_every_operation(wide: StructuredMemory, what: str) -> None:
    """W1, H2"""
    before = content(wide)
    WRITES[what](wide)
    after = content(wide)
    assert after != before
    wide.undo()
    assert content(wide) == before
    wide.redo()
    assert content(wide) == after


def test_c37_the_widest_table_takes_no_column_more(wide: StructuredMemory) -> None:
    """W1, W2, M9: not by `execute` either, which SQLite would allow one more."""
    before = content(wide)
    with pytest.raises(InvalidCall, match="1,999 columns"):
        wide.add_column("w", Column("more"))
    with pytest.raises(InvalidCall, match="1,999 columns"):
        wide.execute("ALTER TABLE w ADD COLUMN more")
    with pytest.raises(InvalidCall, match="1,999 columns"):
        wide.execute(f"CREATE TABLE u ({', '.join(f'c{n}' for n in range(2_000))})")
    assert content(wide) == before
    assert before[0].count("\n") >= WIDTH


# -- the largest value -----------------------------------------------------------------------------

LONGEST = 1 << 20
FITS, TOO_LONG = b"v" * LONGEST, b"v" * (LONGEST + 1)


@pytest.fixture
def small(tmp_path: Path) -> StructuredMemory:
    """A memory of values up to 1 MiB; `t (a, b)` has one row with two of them."""
    memory = StructuredMemory(tmp_path / "m.db", max_value_bytes=LONGEST)
    memory.create_table("t", [Column("a"), Column("b"), Column("n")])
    make_witness(memory)
    memory.insert("t", {"a": FITS, "n": 1})
    return memory


def test_m5_a_value_of_just_the_limit_goes_everywhere(
    small: StructuredMemory, tmp_path: Path
) -> None:
    """M5, H2, R2: as a parameter, in a condition, through undo, a dropped table, a replica."""
    assert small.query("SELECT a FROM t WHERE a = ?", [FITS]).scalar() == FITS
    assert small.update("t", {"a": FITS[::-1]}, "a = ?", [FITS]).rows_changed == 1
    small.execute("UPDATE t SET n = 2 WHERE a = ?", [FITS])
    small.execute("INSERT INTO t(a, n) VALUES (?, 3)", [FITS])
    before = dump(small)["t"]
    small.delete("t", "a = ?", [FITS])
    small.undo()
    small.drop_table("t")
    small.undo()
    assert dump(small)["t"] == before
    small.verify(deep=True)
    with open_replica(tmp_path / "r.db", memory_id=small.id) as replica:
        replica.apply(small.records())
        assert dump(replica)["t"] == before
    small.close()


def test_m5_one_byte_more_is_refused_everywhere(small: StructuredMemory) -> None:
    """M5, M9"""
    all_refused(
        small,
        InvalidCall,
        lambda: small.insert("t", {"a": TOO_LONG}),
        lambda: small.insert("t", [{"a": FITS}, {"a": "v" * (LONGEST + 1)}]),
        lambda: small.update("t", {"a": TOO_LONG}, "true"),
        lambda: small.update("t", {"n": 1}, "a = ?", [TOO_LONG]),
        lambda: small.delete("t", "a = ?", [TOO_LONG]),
        lambda: small.query("SELECT length(?)", [TOO_LONG]),
        lambda: small.execute("UPDATE t SET a = ?", [TOO_LONG]),
        lambda: small.create_table("u", [Column("a", default="v" * (LONGEST + 1))]),
    )
    small.close()


def test_m5_a_row_is_bounded_as_well(small: StructuredMemory) -> None:
    """M5, M9: the journal's parts need 9 MiB of a row in any case; what goes beyond is told."""
    columns = [f"c{n}" for n in range(12)]
    small.create_table("u", [Column(name) for name in columns])
    small.insert("u", dict.fromkeys(columns[:8], FITS))
    assert small.query("SELECT c7 FROM u").scalar() == FITS
    all_refused(
        small,
        InvalidCall,
        lambda: small.insert("u", dict.fromkeys(columns, FITS)),
        lambda: small.update("u", dict.fromkeys(columns, FITS), "true"),
    )
    small.close()


# -- the largest operation -------------------------------------------------------------------------

TOO_MUCH: dict[str, Callable[[StructuredMemory], object]] = {
    "insert": lambda m: m.insert("t", [{"a": "x" * 10, "b": n} for n in range(40)]),
    "update": lambda m: m.update("t", {"a": "y" * 10}, "true"),
    "delete": lambda m: m.delete("t", "true"),
    "execute UPDATE": lambda m: m.execute("UPDATE t SET a = 'y', b = 'z'"),
    "execute DELETE": lambda m: m.execute("DELETE FROM t"),
    "execute DROP TABLE": lambda m: m.execute("DROP TABLE t"),
    "execute DROP COLUMN": lambda m: m.execute("ALTER TABLE t DROP COLUMN b"),
    "execute RENAME": lambda m: m.execute("ALTER TABLE t RENAME TO u"),
    "execute CREATE TABLE AS": lambda m: m.execute("CREATE TABLE u AS SELECT * FROM t, t AS s"),
}


@pytest.mark.parametrize("bound", ["IMAGE_VALUES_MAX", "PAYLOAD_BYTES_MAX"])
@pytest.mark.parametrize("what", TOO_MUCH)
def test_c37_an_operation_ends_before_its_images_fill_memory(
    memory: StructuredMemory, monkeypatch: pytest.MonkeyPatch, what: str, bound: str
) -> None:
    """M7, M9: `large.py` has the real sizes; here both bounds are smaller."""
    memory.create_table("t", [Column("a"), Column("b")])
    memory.insert("t", [{"a": "x" * 10, "b": n} for n in range(30)])
    make_witness(memory)
    monkeypatch.setattr(images, bound, 80 if bound == "IMAGE_VALUES_MAX" else 250)
    with refused(memory, InvalidCall, match="too large: .* (80 values|250 bytes)"):
        TOO_MUCH[what](memory)


def test_c37_dropping_a_table_has_no_bound(
    memory: StructuredMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W6: its rows are set aside, not journaled."""
    memory.create_table("t", [Column("a"), Column("b")])
    memory.insert("t", [{"a": "x" * 10, "b": n} for n in range(30)])
    monkeypatch.setattr(images, "IMAGE_VALUES_MAX", 10)
    before = dump(memory)
    memory.drop_table("t")
    memory.undo()
    memory.add_column("t", Column("c", default=1))
    memory.create_index("t", ["a"])
    memory.undo()
    memory.undo()
    assert dump(memory) == before
    with pytest.raises(InvalidCall, match="drop_table"):
        memory.delete("t", "true")


def test_c37_a_table_over_the_rest_of_a_row_can_still_be_filled(memory: StructuredMemory) -> None:
    """W3: a row that gives no value, in the widest table."""
    memory.create_table("w", [Column(f"c{n}", default=n) for n in range(WIDTH)])
    memory.insert("w", [{}, {"c5": 1}])
    assert memory.query("SELECT c1998 FROM w").rows == [(1998,), (1998,)]
    memory.create_table("u", [Column("a", not_null=True)])
    with pytest.raises(ConstraintFailed):
        memory.insert("u", {})


# -- the page --------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
MODULES: tuple[ModuleType, ...] = (limits, columns, json_values, structmem_journal.limits)
_ROW = re.compile(r"^\| `([A-Z_]+)` \| ([0-9_ *<+-]+)", re.MULTILINE)


def stated() -> dict[str, str]:
    return dict(_ROW.findall(PAGE.read_text("utf-8")))


@pytest.mark.parametrize("name", sorted(stated()))
def test_the_page_states_each_limit_as_it_is(name: str) -> None:
    values = [getattr(module, name) for module in MODULES if hasattr(module, name)]
    assert values, f"there is no limit {name}"
    assert int(stated()[name].replace(" ", "")) == values[0]


def test_the_page_states_every_limit() -> None:
    numbers = {
        name
        for module in MODULES
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, int | float)
    }
    ranges = {"INTEGER_MIN", "INTEGER_MAX", "TIME_US_MIN", "FORMAT"}
    assert numbers - ranges == stated().keys()
