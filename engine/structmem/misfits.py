"""What keeps recorded effects from being put in place: the file is not what the journal says."""

from collections.abc import Generator
from contextlib import contextmanager

import apsw

from structmem.errors import InvalidCall, shown


class Misfit(Exception):
    """The file does not hold what an effect says it found. `where` names table, row and column."""

    def __init__(self, where: str, expected: object, found: object) -> None:
        super().__init__(
            f"{where}: the journal says {shown(expected)}, the file holds {shown(found)}"
        )


class InTheWay(Misfit):
    """Something in the file that the journal does not know of, such as a row with the same key,
    keeps an image from being put in place."""

    def __init__(self, where: str, why: object) -> None:
        Exception.__init__(self, f"{where}: something else in the file is in the way: {why}")


@contextmanager
def unhindered(where: str) -> Generator[None]:
    """What SQLite does not take inside, though it was there once, does not fit this file."""
    try:
        yield
    except (apsw.ConstraintError, apsw.MismatchError, apsw.SQLError, InvalidCall) as error:
        raise InTheWay(where, error) from error
