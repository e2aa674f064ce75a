"""structmem_replicator: moving a memory's journal between hosts, over NATS JetStream.

`publish` sends what a memory commits, `follow` keeps a read replica of it. Read `protocol` for what
is decided, `frames` for what travels, `transport` for what is asked of a stream; `publisher` and
`replica` put them together, `handles` gives them threads.
"""

from structmem_replicator.errors import (
    AmbiguousLabel,
    StreamEmptied,
    StreamGap,
    TransportError,
    UnsafeStream,
)
from structmem_replicator.handles import (
    AsyncHandle,
    Handle,
    PublisherHandle,
    ReplicaHandle,
    follow,
    publish,
)
from structmem_replicator.jetstream import ConnectionSettings
from structmem_replicator.memory_transport import MemoryStream
from structmem_replicator.progress import Status
from structmem_replicator.protocol import State
from structmem_replicator.server import EmbeddedServer

__all__ = [
    "AmbiguousLabel",
    "AsyncHandle",
    "ConnectionSettings",
    "EmbeddedServer",
    "Handle",
    "MemoryStream",
    "PublisherHandle",
    "ReplicaHandle",
    "State",
    "Status",
    "StreamEmptied",
    "StreamGap",
    "TransportError",
    "UnsafeStream",
    "follow",
    "publish",
]
