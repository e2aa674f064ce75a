"""How long a client waits for the first answer of a server: `python -m tests.benchmarks.startup`.

Our door and the official SDK's server, both over standard input and output, by turns. The time is
from the start of the process to its whole first line, which answers `server/discover`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

_ROW: Final = "{:32} {:>10} {:>10} {:>10}"

_META: Final[dict[str, object]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_DISCOVER: Final = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": _META}}
)

_SDK: Final = """
import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

async def main():
    server = Server("sdk", version="1")
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())

anyio.run(main)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a client waits for the first answer.")
    parser.add_argument("--rounds", type=int, default=20, metavar="N")
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "crm.db")
        servers = {
            "structmem mcp": ["-m", "structmem", "mcp", path, "--allow", "insert"],
            "the SDK's server, no tools": ["-c", _SDK],
            "Python alone": ["-c", "print(input())"],
        }
        times = _measure(servers, rounds)
    print(f"First answer after process start, {rounds} starts each, by turns.\n")
    print(_ROW.format("", "median", "fastest", "slowest"))
    for name, seconds in times.items():
        print(_ROW.format(name, *map(_time, (median(seconds), min(seconds), max(seconds)))))


def _measure(servers: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Of each server. The first round, in which caches fill, is not counted."""
    times: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(rounds + 1):
        for name, arguments in servers.items():
            seconds = _first_answer(arguments)
            if number:
                times[name].append(seconds)
    return times


def _first_answer(arguments: Sequence[str]) -> float:
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(_DISCOVER.encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        seconds = time.perf_counter() - start
        assert "result" in answer or "method" in answer, answer
        process.stdin.close()
    return seconds


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"


if __name__ == "__main__":
    main()
