"""What to do about a frame, and about the head of a subject. Pure: positions and claims in,
verdicts out; the lifecycles of publisher and replica are tables.

A memory's own chain is asked through `position_at(seq)`, which answers None beyond its head. A
claim or frame is *known* when the position it ends at lies on that chain. Everything else follows
from that one question, the epoch, and who is ahead:

    replica, frame            verdict       publisher, last message           verdict
    known                     SKIP          none                              EMPTY
    lower epoch               DEAD          not a frame                       DEAD
    begins beyond my head     GAP           known, at my head                 MINE
    begins on my chain,                     known, or a part of what is       BEHIND
      ends beyond my head     APPLY         higher epoch                      FENCED
    anything else             DIVERGED      lower epoch                       DEAD
                                            my epoch, a part of what would
                                              follow what I have              DEAD
                                            my epoch, beyond my head          AHEAD
                                            anything else                     FORKED

Invariants:

- *Dead* (an old writer's frame that got in after it lost, a frame that was never finished) is never
  applied and stops nobody. It hides nothing either: what stands before it is judged in its place.
- A frame of a higher epoch fences a publisher even if it extends the publisher's chain: somebody
  else writes now.
- Only a frame that was read says fenced, forked or diverged; no error code of the stream does.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from structmem_journal import Position, invariant
from structmem_replicator.errors import NotAFrame
from structmem_replicator.frames import Claim, Frame

PositionAt: TypeAlias = Callable[[int], Position | None]
"""The position of a chain at a seq (0: the start), None beyond its head."""


class FrameVerdict(StrEnum):
    """What a replica does with a frame."""

    APPLY = "apply"
    SKIP = "skip"
    GAP = "gap"
    DEAD = "dead"
    DIVERGED = "diverged"


class HeadVerdict(StrEnum):
    """What the last message of the subject means to a publisher."""

    EMPTY = "empty"
    MINE = "mine"
    BEHIND = "behind"
    AHEAD = "ahead"
    DEAD = "dead"
    FENCED = "fenced"
    FORKED = "forked"


def judge_frame(
    frame: Frame, *, head: Position, epoch: int, position_at: PositionAt
) -> FrameVerdict:
    """What a replica at `head`, in `epoch`, does with `frame`."""
    if position_at(frame.last) == frame.after:
        return FrameVerdict.SKIP
    if frame.epoch < epoch:
        return FrameVerdict.DEAD
    if frame.before.seq > head.seq:
        return FrameVerdict.GAP
    if frame.last > head.seq and position_at(frame.before.seq) == frame.before:
        return FrameVerdict.APPLY
    return FrameVerdict.DIVERGED


def judge_head(
    claim: Claim | NotAFrame | None, *, head: Position, epoch: int, position_at: PositionAt
) -> HeadVerdict:
    """What the last message of the subject (None: there is none) means to a publisher at `head`."""
    if claim is None:
        return HeadVerdict.EMPTY
    if isinstance(claim, NotAFrame):
        return HeadVerdict.DEAD
    if position_at(claim.last) == claim.after:
        is_head = claim.complete and claim.last == head.seq
        return HeadVerdict.MINE if is_head else HeadVerdict.BEHIND
    if claim.epoch != epoch:
        return HeadVerdict.FENCED if claim.epoch > epoch else HeadVerdict.DEAD
    if not claim.complete and claim.first - 1 <= head.seq:
        return HeadVerdict.DEAD
    return HeadVerdict.AHEAD if claim.last > head.seq else HeadVerdict.FORKED


def judge_predecessor(
    claim: Claim | NotAFrame | None, *, head: Position, epoch: int, position_at: PositionAt
) -> HeadVerdict:
    """What the message means on which a known last message was built.

    After a lost tail another writer's frame can stand there, and the server let ours follow it by
    coincidence. MINE: nothing is wrong. DEAD: it says nothing; what stands before it does.
    """
    match judge_head(claim, head=head, epoch=epoch, position_at=position_at):
        case HeadVerdict.FENCED:
            return HeadVerdict.FENCED
        case HeadVerdict.FORKED | HeadVerdict.AHEAD:
            return HeadVerdict.FORKED
        case HeadVerdict.EMPTY | HeadVerdict.DEAD:
            return HeadVerdict.DEAD
        case _:
            return HeadVerdict.MINE


def published_up_to(claim: Claim) -> int:
    """The seq up to which a subject holds a chain whose last known message has this claim.

    Frames are published in order, so before an incomplete one everything up to its first record
    is there.
    """
    return claim.last if claim.complete else claim.first - 1


# -- lifecycles ----------------------------------------------------------------------------------


class State(StrEnum):
    """What a publisher or a replica is trying to do. Whether it gets there, its error says."""

    CONNECTING = "connecting"
    RESOLVING = "resolving"
    RECONCILING = "reconciling"
    PUBLISHING = "publishing"
    LOCATING = "locating"
    FOLLOWING = "following"
    FAILED = "failed"
    CLOSED = "closed"


class Event(StrEnum):
    """What moves a lifecycle on."""

    CONNECTED = "connected"
    RESOLVED = "resolved"
    RECONCILED = "reconciled"
    LOCATED = "located"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    CLOSED = "closed"


Lifecycle: TypeAlias = Mapping[State, Mapping[Event, State]]

_ENDS: Final = {Event.FAILED: State.FAILED, Event.CLOSED: State.CLOSED}
_ALIVE: Final = {Event.IN_DOUBT: State.CONNECTING, **_ENDS}

PUBLISHER: Final[Lifecycle] = {
    State.CONNECTING: {Event.CONNECTED: State.RECONCILING, **_ALIVE},
    State.RECONCILING: {Event.RECONCILED: State.PUBLISHING, **_ALIVE},
    State.PUBLISHING: _ALIVE,
    State.FAILED: {},
    State.CLOSED: {},
}
"""Nothing is published but in PUBLISHING, and the only way there is to reconcile."""

REPLICA: Final[Lifecycle] = {
    State.CONNECTING: {Event.CONNECTED: State.RESOLVING, **_ALIVE},
    State.RESOLVING: {Event.RESOLVED: State.LOCATING, **_ALIVE},
    State.LOCATING: {Event.LOCATED: State.FOLLOWING, **_ALIVE},
    State.FOLLOWING: _ALIVE,
    State.FAILED: {},
    State.CLOSED: {},
}
"""Nothing is applied but in FOLLOWING, and the only way there is to find one's place."""

ENDED: Final = frozenset((State.FAILED, State.CLOSED))


def next_state(lifecycle: Lifecycle, state: State, event: Event) -> State:
    """The state after `event`; an event that the table does not allow is a bug."""
    allowed = lifecycle[state]
    invariant(event in allowed, f"{event!r} cannot happen while {state!r}")
    return allowed[event]
