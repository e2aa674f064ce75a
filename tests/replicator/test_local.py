"""Taking messages into a replica's file (R2, R4): what is applied, and what is counted."""

from collections import Counter
from pathlib import Path

import pytest

from structmem import Diverged, StructuredMemory, open_replica
from structmem_journal import Position, Record
from structmem_replicator import frames
from structmem_replicator.errors import NotAFrame
from structmem_replicator.local import Intake
from structmem_replicator.protocol import FrameVerdict
from structmem_replicator.subjects import frames_subject
from structmem_replicator.transport import Message
from tests.replicator.support import chain, copy_memory, make_memory, new_epoch, write


class Replica:
    """A replica file, its intake, and the journal of its primary to make messages of."""

    def __init__(self, primary: Path, target: Path) -> None:
        with StructuredMemory(primary) as memory:
            self.records = list(memory.records())
            self.memory = open_replica(target, memory_id=memory.id)
        self.counts: Counter[str] = Counter()
        self.intake = Intake(self.memory, self._count)

    def _count(self, name: str, by: int) -> None:
        self.counts[name] += by

    def at(self, seq: int) -> Position:
        return Position(seq, self.records[seq - 1].digest if seq else bytes(32))

    def message(self, sequence: int, first: int, last: int) -> Message:
        return self.message_of(sequence, self.at(first - 1), self.records[first - 1 : last])

    def message_of(self, sequence: int, before: Position, records: list[Record]) -> Message:
        frame = frames.build(self.memory.id, before, records)
        body = frames.encode(frame)
        headers, data = frames.cut(frame, body, 0, expected=sequence - 1, bytes_max=1 << 20)
        return Message(frames_subject(self.memory.id), sequence, headers, data)

    def foreign(self, sequence: int) -> Message:
        return Message(frames_subject(self.memory.id), sequence, {}, b"?")


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    with make_memory(tmp_path / "crm.db") as memory:
        write(memory, *"abcdefg")
    return Replica(tmp_path / "crm.db", tmp_path / "replica.db")


def test_r2_frames_that_follow_each_other_share_a_transaction(replica: Replica) -> None:
    messages = [replica.message(10 + seq, seq, seq) for seq in range(1, 9)]
    with replica.memory as memory:
        assert replica.intake.take(messages) == FrameVerdict.APPLY
        assert list(memory.records()) == replica.records
        assert memory.bookmark() == 18
    assert replica.counts == {"applied": 8, "records": 8, "transactions": 1, "dropped": 0}


def test_r2_what_lies_between_them_is_judged_in_its_place(replica: Replica) -> None:
    messages = [
        replica.message(11, 1, 2),
        replica.foreign(12),
        replica.message(13, 1, 1),
        replica.message(14, 3, 4),
        replica.message(15, 2, 6),
        replica.foreign(16),
    ]
    with replica.memory as memory:
        assert replica.intake.take(messages) == FrameVerdict.APPLY
        assert list(memory.records()) == replica.records[:6]
        assert memory.bookmark() == 15
    assert replica.counts["foreign"] == 2
    assert replica.counts["skipped"] == 1
    assert replica.counts["applied"] == 3


def test_r2_what_comes_after_a_gap_is_not_taken(replica: Replica) -> None:
    messages = [replica.message(11, 1, 2), replica.message(12, 5, 5), replica.message(13, 3, 3)]
    with replica.memory as memory:
        assert replica.intake.take(messages) == FrameVerdict.GAP
        assert memory.position() == replica.at(2)
        assert memory.bookmark() == 11


def test_r4_a_new_epoch_within_a_run_makes_the_old_one_dead(replica: Replica) -> None:
    common = replica.at(2)
    winner = new_epoch(common)
    messages = [
        replica.message(11, 1, 2),
        replica.message_of(12, common, winner),
        replica.message(13, 3, 4),
        replica.message_of(14, common, chain(1, after=common)),
    ]
    with replica.memory as memory:
        assert replica.intake.take(messages) == FrameVerdict.DEAD
        assert list(memory.records()) == replica.records[:2] + winner
        assert memory.epoch() == 2
    assert replica.counts["dead"] == 2


def test_r2_nothing_of_a_run_is_left_when_it_cannot_be_applied(replica: Replica) -> None:
    """The records are in order, and do not fit the rows: SQLite has no table for them."""
    first = replica.at(1)
    misfit = chain(1, after=first)
    with replica.memory as memory:
        replica.intake.take([replica.message(11, 1, 1)])
        broken = Record(misfit[0].header, misfit[0].digest, None)
        with pytest.raises(Diverged):
            replica.intake.take([replica.message_of(12, first, [broken])])
        assert memory.position() == first
        assert memory.bookmark() == 11
        replica.intake.take([replica.message(13, 2, 3)])
        assert memory.position() == replica.at(3)


def test_r4_another_history_is_told_apart(replica: Replica, tmp_path: Path) -> None:
    copied = copy_memory(tmp_path / "crm.db", tmp_path / "copy.db")
    with StructuredMemory(copied) as copy:
        before = copy.position()
        write(copy, "another")
        other = list(copy.records(after=before))
    with StructuredMemory(tmp_path / "crm.db") as memory:
        write(memory, "one")
        replica.records = list(memory.records())
    with replica.memory as memory:
        replica.intake.take([replica.message(11, 1, 9)])
        with pytest.raises(Diverged, match="9-9"):
            replica.intake.take([replica.message_of(12, before, other)])
        assert memory.position() == replica.at(9)


def test_a_claim_without_its_frame_is_foreign(replica: Replica) -> None:
    lying = replica.message(11, 1, 2)
    with replica.memory as memory:
        with pytest.raises(NotAFrame):
            frames.checked_claim(Message(lying.subject, 11, lying.headers, b"?"), memory.id)
        assert replica.intake.take([Message(lying.subject, 11, lying.headers, b"?")]) is None
    assert replica.counts["foreign"] == 1
