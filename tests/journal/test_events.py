"""Turning effects around, and runs of rowids (H2, J1)."""

from typing import get_args

import pytest

from structmem_journal import (
    Branched,
    Effect,
    EpochBegan,
    Erased,
    Expired,
    Hidden,
    Redone,
    RowsChanged,
    SchemaChanged,
    SequenceChanged,
    Shown,
    Undone,
    Updated,
    inverse,
    rowids_of,
    runs_of,
)
from tests.journal.examples import EVENTS, PARENT

WITHOUT_INVERSE = [
    EpochBegan(1, "w"),
    Branched("p", PARENT),
    Erased("t", [1], [1]),
]
WITH_INVERSE = [
    effect
    for event in EVENTS.values()
    for effect in event.effects
    if not isinstance(effect, Expired | EpochBegan | Branched | Erased)
]


def test_every_kind_of_effect_is_an_example() -> None:
    seen = {type(effect) for event in EVENTS.values() for effect in event.effects}
    assert seen == set(get_args(Effect))


def test_row_images_change_places() -> None:
    """H2: insert deletes, update restores, delete inserts again."""
    effect = RowsChanged(
        table="t",
        columns=["a", "b"],
        deleted=[[1, "x", None]],
        updated=[Updated([0, 1], [[2, 1, 2, 3, 4]]), Updated([1], [[3, b"", 0.0]])],
        inserted=[[4, "y", 5]],
    )
    assert inverse([effect]) == [
        RowsChanged(
            table="t",
            columns=["a", "b"],
            deleted=[[4, "y", 5]],
            updated=[Updated([0, 1], [[2, 3, 4, 1, 2]]), Updated([1], [[3, 0.0, b""]])],
            inserted=[[1, "x", None]],
        )
    ]
    assert effect.row_count == inverse_count(effect) == 4


def inverse_count(effect: RowsChanged) -> int:
    (turned,) = inverse([effect])
    assert isinstance(turned, RowsChanged)
    return turned.row_count


@pytest.mark.parametrize(
    ("effect", "turned"),
    [
        (
            SchemaChanged("index", "i", "t", before="old", after="new"),
            SchemaChanged("index", "i", "t", before="new", after="old"),
        ),
        (SchemaChanged("view", "v", "v", after="new"), SchemaChanged("view", "v", "v", "new")),
        (SequenceChanged("t", before=None, after=7), SequenceChanged("t", before=7, after=None)),
        (Hidden("t", "s", ["a"]), Shown("t", "s", ["a"])),
        (Undone([3, 2, 1]), Redone([1, 2, 3])),
    ],
)
def test_each_effect_has_an_opposite(effect: Effect, turned: Effect) -> None:
    """H2, and back again (redo)."""
    assert inverse([effect]) == [turned]
    assert inverse([turned]) == [effect]


def test_effects_are_taken_back_in_the_opposite_order() -> None:
    """H2: what came last goes first."""
    effects: list[Effect] = [SequenceChanged("t", 1, 2), Hidden("t", "s", []), Undone([1])]
    assert inverse(effects) == [Redone([1]), Shown("t", "s", []), SequenceChanged("t", 2, 1)]


def test_what_expired_stays_expired() -> None:
    """H4: taking back the operation that moved the horizon does not move it again."""
    effects: list[Effect] = [SequenceChanged("t", 1, 2), Expired(3)]
    assert inverse(effects) == [SequenceChanged("t", 2, 1)]


def test_inverse_twice_changes_nothing() -> None:
    """H4: redo brings back exactly what was there."""
    assert repr(inverse(inverse(WITH_INVERSE))) == repr(WITH_INVERSE)


@pytest.mark.parametrize("effect", WITHOUT_INVERSE, ids=lambda effect: type(effect).__name__)
def test_what_is_not_data_cannot_be_taken_back(effect: Effect) -> None:
    with pytest.raises(ValueError, match=type(effect).__name__):
        inverse([effect])


@pytest.mark.parametrize(
    ("rowids", "runs"),
    [
        ([], []),
        ([7], [(7, 1)]),
        ([1, 2, 3], [(1, 3)]),
        ([3, 2, 1], [(3, 1), (2, 1), (1, 1)]),
        ([1, 2, 5, 6, 4], [(1, 2), (5, 2), (4, 1)]),
        ([1, 1], [(1, 1), (1, 1)]),
        ([-1, 0, 1], [(-1, 3)]),
        ([2**63 - 2, 2**63 - 1], [(2**63 - 2, 2)]),
    ],
)
def test_rowids_are_kept_as_runs(rowids: list[int], runs: list[tuple[int, int]]) -> None:
    """W3: in the order in which they were returned, without growing with a bulk insert."""
    assert runs_of(rowids) == runs
    assert rowids_of(runs) == rowids


def test_a_bulk_insert_is_one_run() -> None:
    """W3"""
    assert runs_of(range(1, 100_001)) == [(1, 100_000)]
