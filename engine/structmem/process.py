"""What must not cross `fork()`.

A child inherits every lock as it was at the fork. One that another thread held then is never
released in the child, so whoever guards something with a lock asks here before taking it.
"""

import os

from structmem.errors import ForkedProcess


class Process:
    """The process in which something came into use: the first that asked.

    What nobody has used yet may be used on either side of a fork, because no lock of it was taken.
    """

    def __init__(self) -> None:
        self._pid: int | None = None

    def check(self, what: str) -> None:
        """Raise `ForkedProcess` in any process but the first that called this."""
        here = os.getpid()
        if self._pid is None:
            self._pid = here
        elif self._pid != here:
            raise forked(what)


def forked(what: str) -> ForkedProcess:
    """The error for use on the wrong side of a fork."""
    return ForkedProcess(
        f"{what} was in use before fork(); this process must not use it.",
        hint="Make one of your own in this process.",
    )
