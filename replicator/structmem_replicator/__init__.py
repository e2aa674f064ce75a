"""structmem_replicator: moving a memory's journal between hosts."""

from structmem_replicator.memory_transport import MemoryStream, MemoryTransport

__all__ = ["MemoryStream", "MemoryTransport"]
