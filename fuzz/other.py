"""Another process that writes to the same memory, asked by lines of JSON on its standard input.

`python -m fuzz.other PATH`; each line is `[method, arguments]`, each answer the code of the error,
or `done`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from structmem import InvalidCall, StructuredMemory


class Other:
    """Starts the process, and asks it."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.other", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, method: str, arguments: dict[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """Wait until it has ended."""
        self._process.communicate()


def main(path: str) -> None:
    with StructuredMemory(path) as memory:
        for line in sys.stdin:
            method, arguments = json.loads(line)
            try:
                getattr(memory, method)(**arguments)
            except InvalidCall as error:
                print(error.code, flush=True)
            else:
                print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
