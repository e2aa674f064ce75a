"""Conditions that are not what they seem: C05, C06, C30, C42.

`tests/engine/reading/test_conditions.py` has the texts, and tries them on the reader alone. Here
they go through the operations: what is refused must leave nothing, what is honest must do its work.
(C06, matching no row, is pinned there and in `test_writes.py`.)
"""

from typing import Any

import pytest

from structmem import (
    Column,
    ConditionRefused,
    ConstraintFailed,
    InvalidCall,
    StructMemError,
    StructuredMemory,
)
from tests.engine.conftest import dump
from tests.engine.faults.conftest import all_refused, refused
from tests.engine.reading.test_conditions import (
    HONEST,
    NOT_ONE_EXPRESSION,
    PARAMETERS_THAT_DO_NOT,
    PARAMETERS_THAT_FIT,
)


@pytest.mark.parametrize("where", [*NOT_ONE_EXPRESSION, "", "  ", None])
def test_c05_what_is_not_one_expression_changes_nothing(
    things: StructuredMemory, where: Any
) -> None:
    """W5, M7"""
    all_refused(
        things,
        ConditionRefused,
        lambda: things.delete("t", where),
        lambda: things.update("t", {"a": 0}, where),
    )


@pytest.mark.parametrize(("where", "rowids"), HONEST)
def test_c05_one_expression_changes_its_rows(
    things: StructuredMemory, where: str, rowids: list[int]
) -> None:
    """W5, H2"""
    before = dump(things)
    assert things.update("t", {"b": "hit"}, where).rowids == rowids
    assert [i for (i,) in things.query("SELECT id FROM t WHERE b = 'hit'")] == rowids
    _undo_if(things, rowids)
    assert things.delete("t", where).rowids == rowids
    assert things.query("SELECT count(*) FROM t").scalar() == 3 - len(rowids)
    _undo_if(things, rowids)
    assert dump(things) == before


def _undo_if(things: StructuredMemory, rowids: list[int]) -> None:
    if rowids:
        things.undo()


@pytest.mark.parametrize(
    ("where", "rowids"),
    [
        ("a < (SELECT avg(a) FROM t)", [1]),
        ("a <> (SELECT max(a) FROM t)", [1, 2]),
        ("a = (SELECT min(a) FROM t)", [1]),
        ("NOT EXISTS (SELECT 1 FROM t AS u WHERE u.id < t.id)", [1]),
        ("(SELECT count(*) FROM t) = 3", [1, 2, 3]),
        ("id IN (SELECT id + 1 FROM t)", [2, 3]),
    ],
)
def test_c30_a_condition_sees_its_own_table_as_it_was(
    things: StructuredMemory, where: str, rowids: list[int]
) -> None:
    """W4: a row at a time each of these would match others, as the rows before it are gone."""
    assert things.update("t", {"a": -1}, where).rowids == rowids
    things.undo()
    assert things.delete("t", where).rowids == rowids
    things.undo()


@pytest.mark.parametrize("text", ["id + 1", "(SELECT max(a) FROM t) + 1", "a", "NULL", "?", ":x"])
def test_c30_set_takes_values_and_never_sql(things: StructuredMemory, text: str) -> None:
    """W4"""
    things.update("t", {"a": text, "b": text}, "true")
    assert things.query("SELECT DISTINCT a, b FROM t").rows == [(text, text)]
    with refused(things, ConstraintFailed, match="whole numbers only"):
        things.update("t", {"id": text}, "true")


@pytest.mark.parametrize("conflict", ["id", "u"])
def test_c30_a_key_given_to_several_rows_is_given_to_none(
    memory: StructuredMemory, conflict: str
) -> None:
    """W4, M7"""
    key = Column("id", "INTEGER", primary_key=True)
    memory.create_table("t", [key, Column("u", unique=True)])
    memory.create_table("witness", [Column("n")])
    memory.insert("t", [{"u": n} for n in range(50)])
    for value in (99, 7):
        with refused(memory, ConstraintFailed, match=conflict):
            memory.update("t", {conflict: value}, "true")
    assert memory.update("t", {conflict: 99}, "u = 7").rowids == [8]


@pytest.mark.parametrize(("where", "params", "rowids"), PARAMETERS_THAT_FIT)
def test_c42_parameters_of_the_condition_do_not_mix_with_the_values(
    things: StructuredMemory, where: str, params: Any, rowids: list[int]
) -> None:
    """W4: whatever the values of `set` look like."""
    values = {"a": 77, "b": "'?' ?1 :x $x::y(z)"}
    assert things.update("t", values, where, params).rowids == rowids
    found = things.query("SELECT id FROM t WHERE a = 77 AND b = ?", [values["b"]])
    assert [i for (i,) in found] == rowids


@pytest.mark.parametrize(("where", "params"), PARAMETERS_THAT_DO_NOT)
def test_c42_parameters_that_do_not_fit_change_nothing(
    things: StructuredMemory, where: str, params: Any
) -> None:
    """M7, M9"""
    with refused(things, InvalidCall) as caught:
        things.update("t", {"a": 1, "b": "?"}, where, params)
    assert _speaks_of_parameters(caught.value)
    with pytest.raises(InvalidCall):
        things.delete("t", where, params)


def _speaks_of_parameters(error: StructMemError) -> bool:
    return any(word in str(error) for word in ("arameter", "values", "variable"))
