"""Hypothesis strategies for events: everything that the journal's format can say."""

from typing import Final

from hypothesis import strategies as st

from structmem_journal import (
    Branched,
    Effect,
    EpochBegan,
    Erased,
    Event,
    Expired,
    Hidden,
    Intent,
    Outcome,
    Redone,
    Row,
    RowsChanged,
    SchemaChanged,
    SequenceChanged,
    Shown,
    Undone,
    Updated,
    Value,
)

INTEGERS: Final = st.integers(-(2**63), 2**63 - 1)
SEQS: Final = st.integers(1, 2**63 - 1)
# Surrogates are no UTF-8; everything else is text to SQLite, NUL too.
TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: Final[st.SearchStrategy[Value]] = st.one_of(
    st.none(),
    INTEGERS,
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=12),
    # The ones that encodings confuse, more often than chance would draw them.
    st.sampled_from([0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), "", "\0", "a\0b", "1"]),
    st.sampled_from([0.0, -0.0, 1.0, 5e-324, float("inf"), float("-inf"), b"", b"\0", b"1"]),
)


@st.composite
def rows_changed(draw: st.DrawFn) -> RowsChanged:
    columns = draw(st.lists(TEXTS, min_size=1, max_size=5, unique=True))
    rowids = draw(st.lists(INTEGERS, max_size=8, unique=True))
    groups = draw(st.lists(st.sampled_from(["deleted", "inserted", "updated"]), min_size=8))
    by_group: dict[str, list[int]] = {"deleted": [], "inserted": [], "updated": []}
    for rowid, group in zip(sorted(rowids), groups, strict=False):
        by_group[group].append(rowid)
    return RowsChanged(
        table=draw(TEXTS),
        columns=columns,
        deleted=[draw(_rows(rowid, len(columns))) for rowid in by_group["deleted"]],
        inserted=[draw(_rows(rowid, len(columns))) for rowid in by_group["inserted"]],
        updated=[draw(_updates(rowid, len(columns))) for rowid in by_group["updated"]],
    )


def _rows(rowid: int, width: int) -> st.SearchStrategy[Row]:
    values = st.lists(VALUES, min_size=width, max_size=width)
    return values.map(lambda drawn: [rowid, *drawn])


@st.composite
def _updates(draw: st.DrawFn, rowid: int, width: int) -> Updated:
    changed = draw(st.sets(st.integers(0, width - 1), min_size=1))
    return Updated(sorted(changed), [draw(_rows(rowid, 2 * len(changed)))])


KINDS: Final = st.sampled_from(["table", "index", "view", "trigger"])
COLUMNS: Final = st.lists(TEXTS, max_size=3)
DATA_EFFECTS: Final[st.SearchStrategy[Effect]] = st.one_of(
    rows_changed(),
    st.builds(SchemaChanged, KINDS, TEXTS, TEXTS, st.none() | TEXTS, st.none() | TEXTS),
    st.builds(SequenceChanged, TEXTS, st.none() | INTEGERS, st.none() | INTEGERS),
    st.builds(Hidden, TEXTS, TEXTS, COLUMNS),
    st.builds(Shown, TEXTS, TEXTS, COLUMNS),
    st.builds(Undone, st.lists(SEQS, max_size=4)),
    st.builds(Redone, st.lists(SEQS, max_size=4)),
)
"""The effects that have an inverse."""

EFFECTS: Final[st.SearchStrategy[Effect]] = st.one_of(
    DATA_EFFECTS,
    st.builds(Expired, SEQS, st.lists(TEXTS, max_size=2)),
    st.builds(EpochBegan, st.integers(0, 2**63 - 1), TEXTS),
    st.builds(Branched, TEXTS, TEXTS),
    st.builds(Erased, TEXTS, st.lists(INTEGERS, max_size=4), st.lists(SEQS, max_size=4)),
)

INTENTS: Final = st.builds(
    Intent,
    operation=TEXTS,
    table=st.none() | TEXTS,
    arguments=st.dictionaries(TEXTS, VALUES | st.lists(VALUES, max_size=3), max_size=3),
    reason=st.none() | TEXTS,
    actor=st.none() | TEXTS,
    approved_by=st.none() | TEXTS,
    call_id=st.none() | TEXTS,
)
OUTCOMES: Final = st.builds(
    Outcome,
    rows_changed=st.integers(0, 2**63 - 1),
    rowids=st.lists(st.tuples(INTEGERS, SEQS), max_size=3),
    warnings=st.lists(TEXTS, max_size=2),
)
EVENTS: Final = st.builds(Event, INTENTS, st.lists(EFFECTS, max_size=4), OUTCOMES)
