"""The long run: `make soak`, or `python -m tests.engine.soak --kills 500 --writes 300 --seed 1`.

Kills writers, then crowds one file, and says what happened. It takes about a quarter of an hour. A
failure leaves the files in their directory. The seed draws the same writes and the same deaths
again, though not the same moments.
"""

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.engine.crowd import gather
from tests.engine.kills import kill_writers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="writers to kill (500)")
    parser.add_argument("--writes", type=int, default=300, help="writes of each in the crowd (300)")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), help="drawn if not given")
    wanted = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="structmem-soak-"))
    print(f"seed {wanted.seed}, files in {directory}", flush=True)
    print(kill_writers(directory, wanted.kills, wanted.seed, _show), flush=True)
    print(gather(directory / "crowd.db", wanted.writes, wanted.seed), flush=True)
    shutil.rmtree(directory)


def _show(done: int, wanted: int) -> None:
    if done % 10 == 0 or done == wanted:
        print(f"{done} of {wanted} killed", end="\n" if done == wanted else "\r", file=sys.stderr)


if __name__ == "__main__":
    main()
