"""Bytes that were written once and must stay readable for ever (J2).

Each file under `golden/format-<n>/` is one record, as hexadecimal text, of the event with the same
name in `examples.EVENTS`. A file never changes once a version with its format was released. A new
kind of effect gets a new example and a new file: the hexadecimal text of
`encode_record(record_of(EVENTS[name]))`, 32 bytes a line.
"""

from pathlib import Path
from typing import get_args

import pytest

from structmem_journal import (
    FORMAT,
    START,
    Effect,
    Event,
    decode_header,
    decode_payload,
    decode_record,
    encode_record,
    follow,
)
from tests.journal.examples import EVENTS, record_of

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("format-*/*.hex"))


def read(path: Path) -> bytes:
    return bytes.fromhex(path.read_text("ascii"))


def event_in(path: Path) -> Event:
    payload = decode_record(read(path)).payload
    assert payload is not None
    return decode_payload(payload)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_record_says_what_it_always_said(path: Path) -> None:
    """J2: every format version that was ever written."""
    record = decode_record(read(path))
    header = follow(START, record)
    assert header == decode_header(record.header)
    assert header.format == int(path.parent.name.removeprefix("format-"))
    assert header.kind == EVENTS[path.stem].intent.operation
    assert repr(event_in(path)) == repr(EVENTS[path.stem])


@pytest.mark.parametrize("name", EVENTS)
def test_the_current_format_writes_the_same_bytes(name: str) -> None:
    """J2: two hosts of one version, and of two, agree on every byte."""
    assert read(GOLDEN / f"format-{FORMAT}" / f"{name}.hex") == encode_record(
        record_of(EVENTS[name])
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_record_survives_being_relayed(path: Path) -> None:
    """J2: stored bytes are passed on as they are."""
    assert encode_record(decode_record(read(path))) == read(path)


def test_every_kind_of_effect_has_a_golden_record() -> None:
    """J2: in every format from the one that introduced it."""
    current = [path for path in FILES if path.parent.name == f"format-{FORMAT}"]
    seen = {type(effect) for path in current for effect in event_in(path).effects}
    assert seen == set(get_args(Effect))
    assert {path.parent.name for path in FILES} == {f"format-{n}" for n in range(FORMAT + 1)}
