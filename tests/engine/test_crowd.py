"""Eight threads and four processes on one file (M4). `make soak` runs the same code for long."""

from pathlib import Path

from tests.engine.crowd import gather


def test_a_crowd_loses_nothing(tmp_path: Path) -> None:
    """M4, M7, H5: schema changes among the writes, in every thread and process."""
    crowd = gather(tmp_path / "a.db", writes=40, seed=1)
    assert crowd.writes > 100
    assert crowd.kinds >= {"create_table", "drop_table", "execute", "insert", "undo", "update"}
