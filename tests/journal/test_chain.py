"""Linking records, and noticing when they are not the chain that was written (J1, J3)."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from structmem_journal import (
    FORMAT,
    START,
    BrokenChain,
    Header,
    JournalError,
    Position,
    Record,
    decode_header,
    follow,
    link,
    verify,
)
from tests.journal.examples import AT_US, EVENTS, chain_of, record_of


def relinked(records: list[Record], index: int, **changes: int) -> list[Record]:
    """The chain with one header field changed and every digest made to fit again."""
    changed: list[Record] = []
    before = START
    for i, record in enumerate(records):
        header = decode_header(record.header)
        at_us, epoch = header.at_us, header.epoch
        if i == index:
            at_us, epoch = changes.get("at_us", at_us), changes.get("epoch", epoch)
        assert record.payload is not None
        again = link(before, payload=record.payload, kind=header.kind, at_us=at_us, epoch=epoch)
        changed.append(again)
        before = Position(header.seq, again.digest)
    return changed


def end_of(records: list[Record]) -> Position:
    """The position that verifying the whole chain ends at."""
    end = START
    for header, record in verify(records):
        end = Position(header.seq, record.digest)
    return end


def test_link_says_what_it_was_given() -> None:
    """J1: the header of every record, from the first one on."""
    before = Position(41, b"\7" * 32)
    record = link(before, payload=b"payload", kind="insert", at_us=AT_US, epoch=3)
    header = decode_header(record.header)
    assert header == Header(FORMAT, 42, 3, AT_US, "insert", header.payload_digest)
    assert follow(before, record) == header


def test_a_chain_verifies_to_its_end() -> None:
    """J3: seq runs 1, 2, 3 … and every record comes out with its header."""
    records = chain_of()
    seen = list(verify(records))
    assert [record for _, record in seen] == records
    assert [header.seq for header, _ in seen] == list(range(1, len(records) + 1))
    assert end_of(records) == Position(len(records), records[-1].digest)


def test_verify_is_lazy() -> None:
    """J3: memory stays flat; a record is checked before the next one is asked for."""
    asked: list[int] = []

    def reading() -> Iterator[Record]:
        for number, record in enumerate(chain_of(), start=1):
            asked.append(number)
            yield record

    checked = verify(reading())
    assert asked == []
    next(checked)
    assert asked == [1]


def test_verify_goes_on_from_a_position() -> None:
    """J3: incrementally; what was checked before is not needed again."""
    records = chain_of()
    start = Position(3, records[2].digest)
    previous = decode_header(records[2].header)
    assert len(list(verify(records[3:], start))) == len(records) - 3
    assert len(list(verify(records[3:], start, previous))) == len(records) - 3


def test_a_chain_without_a_payload_verifies() -> None:
    """J7: an erased payload leaves the chain whole."""
    records = chain_of()
    records[1] = replace(records[1], payload=None)
    assert end_of(records) == end_of(chain_of())


def test_bit_flips_anywhere_are_noticed() -> None:
    """J3: every bit of every byte of a record, header and digest and payload."""
    first, second, third = chain_of([EVENTS["undone"], EVENTS["epoch"], EVENTS["redone"]])
    assert second.payload is not None
    for field in ("header", "digest", "payload"):
        whole: bytes = getattr(second, field)
        for bit in range(len(whole) * 8):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            damaged = replace(second, **{field: bytes(flipped)})
            with pytest.raises(JournalError):
                list(verify([first, damaged, third]))


@pytest.mark.parametrize("index", [0, 1, -2])
def test_a_missing_record_is_noticed(index: int) -> None:
    """J1: no gaps."""
    records = chain_of()
    del records[index]
    with pytest.raises(BrokenChain, match="the next record there is"):
        list(verify(records))


def test_a_cut_tail_shows_in_the_position() -> None:
    """J3: a shorter chain is a chain; only a position noted elsewhere tells that it was longer."""
    records = chain_of()
    assert end_of(records[:-1]) != end_of(records)


def test_records_out_of_order_or_doubled_are_noticed() -> None:
    """J1"""
    a, b, c, *rest = chain_of()
    for wrong in ([a, c, b, *rest], [a, b, b, c, *rest], [b, a, c, *rest]):
        with pytest.raises(BrokenChain):
            list(verify(wrong))


def test_a_record_of_another_history_is_noticed() -> None:
    """J3: same seq, same kind, another past."""
    ours = chain_of([EVENTS["empty"], EVENTS["rows"]])
    theirs = chain_of([EVENTS["undone"], EVENTS["rows"]])
    with pytest.raises(BrokenChain, match="does not follow") as caught:
        list(verify([ours[0], theirs[1]]))
    assert caught.value.seq == 2


def test_an_exchanged_payload_is_noticed() -> None:
    """J1: the header covers the payload by its digest."""
    records = chain_of()
    records[1] = replace(records[1], payload=records[2].payload)
    with pytest.raises(BrokenChain, match="payload") as caught:
        list(verify(records))
    assert caught.value.seq == 2


def test_time_never_goes_back() -> None:
    """J1: even where every digest fits. Two records may share a time."""
    records = chain_of()
    same = decode_header(records[1].header).at_us
    end_of(relinked(records, 2, at_us=same))
    with pytest.raises(BrokenChain, match="time"):
        list(verify(relinked(records, 2, at_us=same - 1)))


def test_the_epoch_never_goes_back() -> None:
    """J1, R4: a record of a writer that was replaced cannot follow the new one's."""
    records = chain_of()
    raised = relinked(records, len(records) - 1, epoch=2)
    end_of(raised)
    with pytest.raises(BrokenChain, match="epoch"):
        list(verify(relinked(records, 2, epoch=0)))


def test_the_seam_of_an_incremental_run_is_checked() -> None:
    """J3: with the header before, time and epoch of the first record are checked as well."""
    records = relinked(chain_of(), 2, at_us=AT_US - 1)
    before = Position(2, records[1].digest)
    previous = decode_header(records[1].header)
    with pytest.raises(BrokenChain, match="time"):
        list(verify(records[2:3], before, previous))


def test_follow_names_the_record_at_which_it_breaks() -> None:
    """J3"""
    record = record_of(EVENTS["rows"], Position(9, bytes(32)))
    with pytest.raises(BrokenChain, match="breaks at record 6") as caught:
        follow(Position(5, bytes(32)), record)
    assert caught.value.seq == 6
