"""What can be wrong with a journal, sorted by what the reader should do about it.

Each error is defined here once. The engine and the replicator turn them into their own errors at
their edge, where it is known which file or which subject was being read.
"""


class JournalError(Exception):
    """The bytes at hand are not a journal that this version can go on with."""


class MalformedRecord(JournalError):
    """The bytes are not a record: damaged, cut short, or never one."""


class BrokenChain(JournalError):
    """A record does not follow the one before it: missing, altered, or from another history.

    `seq` is the sequence number at which the chain breaks.
    """

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(f"the chain breaks at record {seq}: {why}")
        self.seq = seq
        self.why = why


class UnknownKind(JournalError):
    """The record was written by a newer version: it must be read by one, and never skipped."""


class RecordTooLarge(JournalError):
    """One operation would need more bytes than a record may have."""
