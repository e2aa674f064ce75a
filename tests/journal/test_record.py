"""Positions as text: they travel, and are compared elsewhere (R6)."""

import pytest

from structmem_journal import START, Position

DIGEST = bytes(range(32))


@pytest.mark.parametrize("seq", [0, 1, 42, 10**18 - 1])
def test_a_position_survives_text(seq: int) -> None:
    position = Position(seq, DIGEST)
    assert str(position) == f"{seq}:{DIGEST.hex()}"
    assert Position.parse(str(position)) == position


def test_the_start_is_a_position() -> None:
    assert str(START) == f"0:{'0' * 64}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        ":" + DIGEST.hex(),
        "7:",
        "7:" + DIGEST.hex()[:-1],
        "7:" + DIGEST.hex() + "0",
        "7:" + DIGEST.hex().upper(),
        " 7:" + DIGEST.hex(),
        "7:" + DIGEST.hex() + "\n",
        "07:" + DIGEST.hex(),
        "-7:" + DIGEST.hex(),
        "+7:" + DIGEST.hex(),
        "\N{ARABIC-INDIC DIGIT SEVEN}:" + DIGEST.hex(),  # int() takes it
        "1" + "0" * 18 + ":" + DIGEST.hex(),
    ],
)
def test_anything_else_is_no_position(text: str) -> None:
    """One text for each position, so that texts can be compared."""
    with pytest.raises(ValueError, match="not a position"):
        Position.parse(text)


def test_positions_of_two_histories_differ() -> None:
    """R6: the digest is part of the position."""
    assert Position(7, DIGEST) != Position(7, bytes(32))
