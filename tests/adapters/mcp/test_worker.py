"""The thread of the door that carries out calls, alone (S3)."""

from threading import Event

from structmem.adapters.mcp.worker import Worker


def test_an_abandoned_worker_begins_nothing_more() -> None:
    """S3: what runs is waited for, and not for ever."""
    worker, begun, released, done = Worker(), Event(), Event(), Event()

    def job() -> None:
        begun.set()
        released.wait()

    worker.put(job)
    worker.put(done.set)
    begun.wait()
    assert not worker.abandon(0)
    released.set()
    assert worker.abandon(60)
    assert not done.is_set()


def test_a_worker_that_finishes_leaves_nothing_undone() -> None:
    """S3: in the order in which it was put."""
    worker = Worker()
    done: list[int] = []
    for number in range(100):
        worker.put(lambda number=number: done.append(number))
    worker.finish()
    assert done == [*range(100)]
