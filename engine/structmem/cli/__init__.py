"""The command line. It needs the extra `cli` (click and rich), and says so when that is missing.

`structmem mcp` needs no extra, and must answer its client at once: it is looked at first.
"""

import sys

from structmem.cli import mcp


def main() -> None:
    """Run the command line: the `structmem` script, and `python -m structmem`."""
    if sys.argv[1:2] == ["mcp"]:
        mcp.serve(sys.argv[2:])
    try:
        from structmem.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(
            "All but `structmem mcp` needs an extra: pip install 'structmem[cli]'", file=sys.stderr
        )
        sys.exit(2)
    app()
