"""The names of the package that stand on SQLite or asyncio, looked up when they are first used.

Loading those takes ten times as long as the rest. A program that only catches our errors, or a
server that must answer its first message at once, need not wait for them.
"""

import importlib
import sys
from typing import Any, Final

_HOMES: Final = {
    "AsyncStructuredMemory": "structmem.aio",
    "MemoryStore": "structmem.store",
    "StructuredMemory": "structmem.memory",
    "open_replica": "structmem.memory",
}


def __getattr__(name: str) -> Any:
    """For the package, which imports this (PEP 562): called for each name that it lacks, once."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'structmem' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    setattr(sys.modules["structmem"], name, value)
    return value
