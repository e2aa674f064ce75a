"""What can go wrong with a stream, told apart by what the publisher or the replica does next.

Everything below `TransportError` passes: the caller waits, looks at the stream and goes on. The
others end the work and need a person.
"""

from structmem import InvalidCall, Stop, StreamUnavailable


class TransportError(StreamUnavailable):
    """The stream did not do what was asked; looking again and trying again is right."""


class Conflict(TransportError):
    """Not stored: another message is the last of the subject. Read it and decide."""


class Undecided(TransportError):
    """Stored or not, nobody knows. Wait, reconcile, then offer what is still missing."""


class NotStored(TransportError):
    """Certainly not stored: nobody was there to take the message, or it was refused whole."""


class StreamFull(TransportError):
    """Not stored: the stream or the server has no room. Back off; somebody must make room."""


class Unreachable(TransportError):
    """No connection, or no answer to a question about the stream."""


class ReaderLost(TransportError):
    """The reader is dead or deaf: messages may be passing by unheard. Open another one."""


class UnsafeStream(Stop):
    """The stream's settings let the server lose or alter messages, so nothing is built on it."""


class StreamEmptied(Stop):
    """The stream holds nothing of a memory that has been published to it."""


class StreamGap(Stop):
    """The stream no longer holds the records that follow the replica's position."""


class AmbiguousLabel(InvalidCall):
    """Several memories are published under the label."""


class NotAFrame(Exception):
    """A message on a memory's subject is not a frame of it. It is foreign: counted and skipped."""
