"""What a memory is opened with, checked."""

from msgspec import Struct

from structmem.arguments import check_timeout, check_whole
from structmem.limits import MAX_VALUE_BYTES, QUERY_TIMEOUT_S, SIZE_LIMIT_BYTES_MIN, VALUE_BYTES_MAX


class Options(Struct, frozen=True):
    """How the file is opened, and its bounds. Nothing of this is stored in it."""

    read_only: bool = False
    max_value_bytes: int = MAX_VALUE_BYTES
    size_limit: int | None = None
    """Bytes that the file may have."""
    max_operations: int | None = None
    """Operations that can be undone."""
    query_timeout: float = QUERY_TIMEOUT_S
    """Seconds for SQL of others': queries, conditions, `execute`, what a write sets off."""

    @classmethod
    def checked(
        cls,
        *,
        read_only: bool,
        max_value_bytes: int,
        size_limit: int | None,
        max_operations: int | None,
        query_timeout: float,
    ) -> "Options":
        """Raises `InvalidCall` for a number out of range."""
        check_whole(max_value_bytes, "max_value_bytes", least=1, most=VALUE_BYTES_MAX)
        if size_limit is not None:
            check_whole(size_limit, "size_limit", least=SIZE_LIMIT_BYTES_MIN)
        if max_operations is not None:
            check_whole(max_operations, "max_operations")
        timeout = check_timeout(query_timeout)
        return cls(read_only, max_value_bytes, size_limit, max_operations, timeout)
