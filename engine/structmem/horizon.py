"""The horizon: how far back operations can be undone, when a memory is told to keep so many.

The journal keeps every record. What is beyond the horizon stands no longer, and the stores of
tables that were dropped there are dropped for good.
"""

import apsw

from structmem import log, stores
from structmem_journal import Expired


def expiry(connection: apsw.Connection, seq: int, max_operations: int) -> Expired | None:
    """What operation `seq`, which is to be recorded next, pushes out of a history of that length;
    None if nothing."""
    before = log.standing(connection, limit=max_operations)
    if len(before) < max_operations:
        return None
    below = [seq + 1, seq, *before][max_operations]
    gone = [name for name, made_by in stores.names(connection).items() if made_by < below]
    return Expired(below, sorted(gone))
