"""The way to `structmem mcp`: loaded by name, because the command line and the adapters do not know
each other. It needs no extra."""

import importlib
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

_DOOR: Final = "structmem.adapters.mcp.command"


def serve(arguments: Sequence[str]) -> NoReturn:
    """Serve as the arguments say, and end the process with what came of it."""
    sys.exit(importlib.import_module(_DOOR).main(arguments))
