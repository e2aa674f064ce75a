"""The command line. It needs the extra `cli` (click and rich), and says so when that is missing."""

import sys


def main() -> None:
    """Run the command line: the `structmem` script, and `python -m structmem`."""
    try:
        from structmem.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("The structmem command needs an extra: pip install 'structmem[cli]'")
    app()
