"""What is decided about frames and heads (R2, R3, R4), and in which order things may happen."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structmem_journal import START, InvariantViolated, Position, Record
from structmem_replicator import frames, protocol
from structmem_replicator.errors import NotAFrame
from structmem_replicator.frames import Claim, Frame
from structmem_replicator.protocol import Event, FrameVerdict, HeadVerdict, State
from tests.replicator.support import chain, position_after

ID = "a" * 32
TRUNK = chain(10)
"""Epoch 1, seq 1-10: what everybody agrees on."""
FORK = chain(5, after=position_after(TRUNK), salt="other")
"""Epoch 1, seq 11-15, written by a copy."""
NEXT = chain(5, after=position_after(TRUNK))
"""Epoch 1, seq 11-15, the memory's own."""
SECOND = chain(5, after=position_after(TRUNK), epoch=2)
"""Epoch 2, seq 11-15: after a promotion at 10."""


class Chain:
    """A chain to be asked, as a memory is."""

    def __init__(self, records: Sequence[Record], *, epoch: int = 1) -> None:
        self.positions = [START] + [
            Position(seq, record.digest) for seq, record in enumerate(records, 1)
        ]
        self.epoch = epoch

    def position_at(self, seq: int) -> Position | None:
        return self.positions[seq] if seq < len(self.positions) else None

    def judge(self, frame: Frame) -> FrameVerdict:
        return protocol.judge_frame(
            frame, head=self.positions[-1], epoch=self.epoch, position_at=self.position_at
        )

    def judge_head(self, claim: Claim | NotAFrame | None) -> HeadVerdict:
        return protocol.judge_head(
            claim, head=self.positions[-1], epoch=self.epoch, position_at=self.position_at
        )

    def judge_predecessor(self, claim: Claim | NotAFrame | None) -> HeadVerdict:
        return protocol.judge_predecessor(
            claim, head=self.positions[-1], epoch=self.epoch, position_at=self.position_at
        )


def frame(records: Sequence[Record], first: int, last: int) -> Frame:
    """The frame of `records`' seq `first` to `last`."""
    return frames.build(ID, position_after(records[: first - 1]), records[first - 1 : last])


def claim(records: Sequence[Record], last: int, *, complete: bool = True) -> Claim:
    """The claim of a frame of two records up to `last`."""
    whole = frame(records, last - 1, last)
    return Claim(whole.epoch, whole.first, whole.last, whole.digest_after, 7, complete)


# -- replica -------------------------------------------------------------------------------------

OWN, OTHER, PROMOTED = TRUNK + NEXT, TRUNK + FORK, TRUNK + SECOND
FRAMES: dict[str, tuple[Frame, list[Record], int, FrameVerdict]] = {
    "what follows": (frame(OWN, 11, 12), TRUNK, 1, FrameVerdict.APPLY),
    "what overlaps": (frame(OWN, 9, 12), TRUNK, 1, FrameVerdict.APPLY),
    "the first": (frame(OWN, 1, 2), [], 1, FrameVerdict.APPLY),
    "a higher epoch that follows": (frame(PROMOTED, 11, 12), TRUNK, 1, FrameVerdict.APPLY),
    "what is known": (frame(OWN, 3, 5), TRUNK, 1, FrameVerdict.SKIP),
    "what ends at the head": (frame(OWN, 9, 10), TRUNK, 1, FrameVerdict.SKIP),
    "what is known from an older epoch": (frame(OWN, 3, 5), PROMOTED, 2, FrameVerdict.SKIP),
    "what begins too far ahead": (frame(OWN, 12, 13), TRUNK, 1, FrameVerdict.GAP),
    "anything ahead of nothing": (frame(OWN, 2, 3), [], 1, FrameVerdict.GAP),
    "a loser's frame": (frame(OWN, 11, 12), PROMOTED, 2, FrameVerdict.DEAD),
    "a loser's frame, ahead": (frame(OWN, 14, 15), TRUNK + SECOND[:1], 2, FrameVerdict.DEAD),
    "a loser's frame that follows": (frame(OWN, 11, 12), TRUNK, 2, FrameVerdict.DEAD),
    "another history": (frame(OTHER, 11, 12), OWN, 1, FrameVerdict.DIVERGED),
    # It links where both histories agree; the memory refuses it, record by record.
    "another history, longer": (frame(OTHER, 11, 15), OWN[:12], 1, FrameVerdict.APPLY),
    "another history, next": (frame(OTHER, 13, 14), OWN[:12], 1, FrameVerdict.DIVERGED),
    "a winner's frame": (frame(PROMOTED, 11, 12), OWN, 1, FrameVerdict.DIVERGED),
}


@pytest.mark.parametrize(("given_frame", "have", "epoch", "verdict"), FRAMES.values(), ids=FRAMES)
def test_r2_r4_a_replica_judges(
    given_frame: Frame, have: list[Record], epoch: int, verdict: FrameVerdict
) -> None:
    assert Chain(have, epoch=epoch).judge(given_frame) == verdict


@given(st.lists(st.tuples(st.integers(1, 15), st.integers(0, 4)), max_size=60))
def test_r2_whatever_comes_in_whatever_order_is_applied_once(runs: list[tuple[int, int]]) -> None:
    """Duplicates, overlaps, gaps: a replica that applies what it is told to has a prefix."""
    have: list[Record] = []
    for first, more in runs:
        got = frame(OWN, first, min(15, first + more))
        match Chain(have).judge(got):
            case FrameVerdict.APPLY:
                have = [*have[: got.first - 1], *got.records]
            case FrameVerdict.SKIP:
                assert got.last <= len(have)
            case verdict:
                assert verdict == FrameVerdict.GAP
                assert got.first > len(have) + 1
        assert have == OWN[: len(have)]


# -- publisher -----------------------------------------------------------------------------------

HEADS = {
    "nothing": (None, OWN, 1, HeadVerdict.EMPTY),
    "a foreign message": (NotAFrame("?"), OWN, 1, HeadVerdict.DEAD),
    "my last record": (claim(OWN, 15), OWN, 1, HeadVerdict.MINE),
    "an earlier one": (claim(OWN, 12), OWN, 1, HeadVerdict.BEHIND),
    "a part of my last frame": (claim(OWN, 15, complete=False), OWN, 1, HeadVerdict.BEHIND),
    "an older epoch of mine": (claim(TRUNK, 10), PROMOTED, 2, HeadVerdict.BEHIND),
    "a loser's frame": (claim(OWN, 12), PROMOTED, 2, HeadVerdict.DEAD),
    "a loser's frame, ahead": (claim(OWN, 15), TRUNK + SECOND[:1], 2, HeadVerdict.DEAD),
    "a winner's frame": (claim(PROMOTED, 12), OWN, 1, HeadVerdict.FENCED),
    "a winner's frame that follows": (claim(PROMOTED, 12), TRUNK, 1, HeadVerdict.FENCED),
    "a part of a winner's": (claim(PROMOTED, 12, complete=False), OWN, 1, HeadVerdict.FENCED),
    "more than I have": (claim(OWN, 15), TRUNK, 1, HeadVerdict.AHEAD),
    "a copy's record": (claim(OTHER, 12), OWN, 1, HeadVerdict.FORKED),
    "a part of a copy's": (claim(OTHER, 12, complete=False), OWN, 1, HeadVerdict.DEAD),
    "a part of what would be next": (claim(OWN, 12, complete=False), TRUNK, 1, HeadVerdict.DEAD),
    "a part of what is beyond": (claim(OWN, 13, complete=False), TRUNK, 1, HeadVerdict.AHEAD),
}


@pytest.mark.parametrize(("head", "have", "epoch", "verdict"), HEADS.values(), ids=HEADS)
def test_r4_a_publisher_judges_the_head(
    head: Claim | NotAFrame | None, have: list[Record], epoch: int, verdict: HeadVerdict
) -> None:
    assert Chain(have, epoch=epoch).judge_head(head) == verdict


PREDECESSORS = {
    "gone": (None, HeadVerdict.DEAD),
    "foreign": (NotAFrame("?"), HeadVerdict.DEAD),
    "mine": (claim(OWN, 12), HeadVerdict.MINE),
    "a winner's": (claim(PROMOTED, 12), HeadVerdict.FENCED),
    "a copy's": (claim(OTHER, 12), HeadVerdict.FORKED),
    "a copy's, longer": (claim(chain(20, salt="other"), 20), HeadVerdict.FORKED),
}


@pytest.mark.parametrize(("before", "verdict"), PREDECESSORS.values(), ids=PREDECESSORS)
def test_r4_a_publisher_judges_what_its_frame_was_let_in_upon(
    before: Claim | NotAFrame | None, verdict: HeadVerdict
) -> None:
    assert Chain(OWN).judge_predecessor(before) == verdict


def test_a_losers_frame_before_mine_says_nothing() -> None:
    assert Chain(PROMOTED, epoch=2).judge_predecessor(claim(OWN, 12)) == HeadVerdict.DEAD


def test_an_incomplete_frame_stands_for_what_came_before_it() -> None:
    assert protocol.published_up_to(claim(OWN, 12)) == 12
    assert protocol.published_up_to(claim(OWN, 12, complete=False)) == 10


# -- lifecycles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", [protocol.PUBLISHER, protocol.REPLICA])
def test_a_lifecycle_can_always_doubt_and_end_and_never_comes_back(
    lifecycle: protocol.Lifecycle,
) -> None:
    for state, moves in lifecycle.items():
        if state in protocol.ENDED:
            assert not moves
        else:
            assert moves[Event.IN_DOUBT] == State.CONNECTING
            assert {moves[Event.FAILED], moves[Event.CLOSED]} == protocol.ENDED
        assert set(moves.values()) <= set(lifecycle)


def test_nothing_is_published_without_reconciling_and_nothing_applied_without_locating() -> None:
    def ways_to(lifecycle: protocol.Lifecycle, goal: State) -> set[tuple[State, Event]]:
        return {(s, e) for s, moves in lifecycle.items() for e, to in moves.items() if to == goal}

    assert ways_to(protocol.PUBLISHER, State.PUBLISHING) == {(State.RECONCILING, Event.RECONCILED)}
    assert ways_to(protocol.REPLICA, State.FOLLOWING) == {(State.LOCATING, Event.LOCATED)}


def test_a_move_that_the_table_does_not_allow_is_a_bug() -> None:
    with pytest.raises(InvariantViolated, match="reconciled"):
        protocol.next_state(protocol.PUBLISHER, State.CONNECTING, Event.RECONCILED)
