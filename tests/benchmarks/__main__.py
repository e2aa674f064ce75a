"""`python -m tests.benchmarks [--quick] [--only TEXT] [--directory PATH]`."""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

import apsw

from tests.benchmarks.cases import QUICK, Sizes, cases
from tests.benchmarks.rounds import Figure, measure

_ROW = "{:32} {:>12} {:>12} {:>7} {:>16}"


def main() -> None:
    arguments = _arguments()
    sizes = QUICK if arguments.quick else Sizes()
    print(
        f"SQLite {apsw.sqlite_lib_version()}; medians of {sizes.single_rounds} rounds for", end=" "
    )
    print(f"single rows, of {sizes.bulk_rounds} for many; half of the ratios lie in the spread.\n")
    print(_ROW.format("", "bare", "structmem", "ratio", "spread"))
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory, ExitStack() as files:
        for case in cases(Path(directory), sizes, files):
            if arguments.only in case.name:
                print(_line(measure(case)), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How much slower structmem is than bare SQLite.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with TEXT in their name")
    parser.add_argument(
        "--directory", help="where the files go; on the disk that is to be measured"
    )
    return parser.parse_args()


def _line(figure: Figure) -> str:
    spread = f"{figure.low:.2f} - {figure.high:.2f}"
    bare, ours = _time(figure.bare), _time(figure.structmem)
    return _ROW.format(figure.name, bare, ours, f"{figure.ratio:.2f}", spread)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:,.0f} ms"


main()
