"""`preview` and `expect`: a write goes through for the rows that were shown, or not at all (S2)."""

from collections.abc import Callable
from typing import Any

import pytest

from structmem import Column, InvalidCall, StructuredMemory


@pytest.fixture
def people(memory: StructuredMemory) -> StructuredMemory:
    memory.create_table("people", [Column("name"), Column("age")])
    memory.insert("people", [{"name": f"p{n}", "age": n} for n in range(10)])
    return memory


def test_a_preview_shows_what_would_be_touched(people: StructuredMemory) -> None:
    position = people.position()
    shown = people.preview("delete", "People", "age > ?", [2])
    assert (shown.operation, shown.table, shown.rows_matched) == ("delete", "people", 7)
    assert shown.columns == ["name", "age"]
    assert shown.sample == [(f"p{n}", n) for n in (3, 4, 5, 6, 7)]
    assert people.position() == position


def test_a_write_with_the_token_goes_through(people: StructuredMemory) -> None:
    token = people.preview("update", "people", "age > :x", {"x": 7}).token
    assert (
        people.update("people", {"name": "old"}, "age > :x", {"x": 7}, expect=token).rows_changed
        == 2
    )
    token = people.preview("delete", "people", "age > 7").token
    assert people.delete("people", "age > 7", expect=token).rows_changed == 2


MEANWHILE: dict[str, Callable[[StructuredMemory], object]] = {
    "inserted": lambda memory: memory.insert("people", {"name": "new", "age": 9}),
    "deleted": lambda memory: memory.delete("people", "age = 9"),
    "changed": lambda memory: memory.update("people", {"name": "other"}, "age = 9"),
    "another class": lambda memory: memory.update("people", {"age": 9.0}, "age = 9"),
    "column": lambda memory: memory.add_column("people", Column("more")),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_rows_that_changed_since_are_refused(people: StructuredMemory, name: str) -> None:
    token = people.preview("delete", "people", "age > 7").token
    MEANWHILE[name](people)
    position = people.position()
    with pytest.raises(InvalidCall, match="not those of the preview"):
        people.delete("people", "age > 7", expect=token)
    assert people.position() == position


def test_rows_elsewhere_may_change(people: StructuredMemory) -> None:
    token = people.preview("delete", "people", "age > 7").token
    people.update("people", {"name": "other"}, "age < 3")
    assert people.delete("people", "age > 7", expect=token).rows_changed == 2


def test_a_token_is_for_one_condition_of_one_operation(people: StructuredMemory) -> None:
    token = people.preview("delete", "people", "age > ?", [7]).token
    for call in (
        lambda: people.delete("people", "age > ?", [6], expect=token),
        lambda: people.delete("people", "age > 7", expect=token),
        lambda: people.update("people", {"age": 1}, "age > ?", [7], expect=token),
        lambda: people.delete("people", "age > ?", [7], expect="x"),
    ):
        with pytest.raises(InvalidCall, match="not those of the preview"):
            call()


def test_what_has_no_condition_has_no_preview(people: StructuredMemory) -> None:
    """M9"""
    wrong: list[Any] = ["insert", "drop_table", "", None, []]
    for operation in wrong:
        with pytest.raises(InvalidCall, match="no preview of"):
            people.preview(operation, "people", "true")
    token: Any = 5
    with pytest.raises(InvalidCall, match="token of a preview"):
        people.delete("people", "true", expect=token)


def test_no_row_is_a_preview_too(people: StructuredMemory) -> None:
    shown = people.preview("delete", "people", "age > 100")
    assert (shown.rows_matched, shown.sample) == (0, [])
    assert people.delete("people", "age > 100", expect=shown.token).op_id is None
