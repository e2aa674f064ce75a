"""Writers killed at any moment (M7). `make soak` runs the same code for long."""

from pathlib import Path

from tests.engine.kills import kill_writers


def test_killed_writers_leave_all_or_nothing(tmp_path: Path) -> None:
    """M7, M8: what was reported is there, nothing is half there, the next process goes on."""

    def progress(_done: int, _wanted: int) -> None:
        pass

    tally = kill_writers(tmp_path, kills=20, seed=1, progress=progress)
    assert tally.kills == 20
    assert tally.reported > 20 and tally.in_a_write > 10
    assert tally.at.total() >= 5
