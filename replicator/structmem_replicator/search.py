"""Finding a position on the stream. A stored sequence is only a hint; this finds the truth.

The messages of a subject lie in the order of their frames, so the last one that lies on the
memory's chain is found by bisection over `Transport.next`: some 20 questions for a million
messages. Dead and foreign messages in between, and frames published twice, can only make it err to
an earlier place: then some frames are met again, and skipped.
"""

import asyncio
from typing import Final

from structmem import StructuredMemory
from structmem_replicator.local import Sighting, sight
from structmem_replicator.transport import Message, Transport

LOOK_AHEAD: Final = 8
"""How many dead or foreign messages in a row a probe looks past before it counts as beyond."""


async def find_last_known(
    transport: Transport, subject: str, memory: StructuredMemory, *, up_to: int | None = None
) -> Message | None:
    """The last message of `subject` whose frame lies on the memory's chain, or an earlier one;
    None if there is none. `up_to`: not beyond this sequence. Raises `Unreachable`."""
    first, last = await transport.next(subject, 1), await transport.last(subject)
    if first is None or last is None:
        return None
    low = first.sequence
    high = last.sequence if up_to is None else min(last.sequence, up_to)
    found: Message | None = None
    while low <= high:
        middle = (low + high) // 2
        known = await _known_at_or_after(transport, subject, memory, middle, high)
        if known is None:
            high = middle - 1
        else:
            found, low = known, known.sequence + 1
    return found


async def _known_at_or_after(
    transport: Transport, subject: str, memory: StructuredMemory, sequence: int, high: int
) -> Message | None:
    for _ in range(LOOK_AHEAD):
        message = await transport.next(subject, sequence)
        if message is None or message.sequence > high:
            return None
        match await asyncio.to_thread(sight, memory, message):
            case Sighting.KNOWN:
                return message
            case Sighting.BEYOND:
                return None
            case Sighting.NOTHING:
                sequence = message.sequence + 1
    return None
