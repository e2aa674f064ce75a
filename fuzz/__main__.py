"""`python -m fuzz TARGET --seconds N --seed S`: search one target from a seed."""

import argparse
import secrets
import sys
from collections.abc import Sequence
from typing import Final

from fuzz.running import keep_as_found, search
from fuzz.targets import TARGETS

_SEED_MAX: Final = 1 << 31


def main(arguments: Sequence[str] | None = None) -> int:
    """Search as asked. The exit code is 0 when nothing was found, 1 when something was."""
    asked = _parser().parse_args(arguments)
    if asked.no_shrinking:
        keep_as_found()
    seed = secrets.randbelow(_SEED_MAX) if asked.seed is None else asked.seed
    target = TARGETS[asked.target]
    outcome = search(target, seconds=asked.seconds, seed=seed, rounds=asked.rounds)
    return 0 if outcome.failed_seed is None else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description="Search for what breaks a promise. The seed is printed first; after a failure "
        "the last line repeats it.",
        epilog="\n".join(f"  {target.name:<12}{target.about}" for target in TARGETS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", choices=list(TARGETS), metavar="TARGET", help="see below")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="begin no round after them (60)"
    )
    parser.add_argument("--seed", type=int, help="of the first round; drawn when missing")
    parser.add_argument("--rounds", type=_positive, help="do just so many, whatever time they take")
    parser.add_argument(
        "--no-shrinking", action="store_true", help="show a failure as it was found"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
