"""Values on their way in, and when two of them are the same (M5)."""

import pytest

from structmem import InvalidCall
from structmem.values import changed_indexes, check_value, is_plain, same
from structmem_journal import Value

MAX_BYTES = 8
STORED: list[Value] = [
    None, 0, 1, -1, 1 << 62, 0.0, -0.0, 1.0, 1.5, float("inf"), "", "1", "é", "\0", b"", b"1",
]  # fmt: skip
GIVEN: list[object] = [
    *STORED, True, False, 1 << 63, -(1 << 63), -(1 << 63) - 1, float("nan"), "x" * 8, "x" * 9,
    "é" * 5, "\ud800", b"x" * 9, bytearray(b"x"), [], {}, object(),
]  # fmt: skip


@pytest.mark.parametrize("value", GIVEN, ids=repr)
def test_what_is_plain_passes_unchanged(value: object) -> None:
    """M5: the short way takes nothing that the long one would refuse or convert."""
    if is_plain(value, MAX_BYTES):
        assert check_value(value, "x", MAX_BYTES) is value
        return
    try:
        checked = check_value(value, "x", MAX_BYTES)
    except InvalidCall:
        return
    # What passes the long way alone: it is converted, or text and bytes that need a closer look.
    assert type(checked) in (str, bytes) or checked is not value


@pytest.mark.parametrize("was", STORED, ids=repr)
@pytest.mark.parametrize("now", STORED, ids=repr)
def test_rows_differ_where_values_are_not_the_same(was: Value, now: Value) -> None:
    """H3: storage class and bytes, never Python's `==`."""
    expected = () if same(was, now) else (1,)
    assert changed_indexes([7, was, "end"], [7, now, "end"]) == expected
    assert same(was, now) == (type(was) is type(now) and repr(was) == repr(now))
