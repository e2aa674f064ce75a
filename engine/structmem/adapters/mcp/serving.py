"""The process around the door: what it reads and writes, and how it ends.

Rules: standard output belongs to the protocol: it is moved aside, and whatever else prints there
goes to standard error.
"""

import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from typing import Final, NoReturn

from structmem.adapters.mcp.calls import Manner
from structmem.adapters.mcp.door import Door
from structmem.adapters.mcp.memories import Memories

_CHUNK: Final = 1 << 16
_GRACE_S: Final = 1.0
"""What a call that runs is given to end after a signal: clients kill a server two seconds after
it."""


def show_warnings() -> None:
    """Have each warning reach the operator, and none end a call as an error."""
    warnings.showwarning = _show_warning
    warnings.simplefilter("default", UserWarning)


def serve(memories: Memories, manner: Manner) -> None:
    """Serve until the client leaves, or a signal comes."""
    _open_what_is_closed()
    _wait_for_streams()
    if os.isatty(0):
        print("structmem mcp: waiting for a client on standard input; Ctrl-D ends", file=sys.stderr)
    with _standard_output() as stream:
        door = Door(memories, manner, Output(stream, _end_process).send)
        try:
            _on_signals(_interrupt)
            door.serve(_lines())
            _on_signals(_end_at_once)
        except KeyboardInterrupt:
            if not door.abandon(seconds=_GRACE_S):
                _end_at_once()
        memories.close()
        _on_signals(signal.SIG_IGN)  # ending, Python would give them their default back


def _on_signals(handler: Callable[..., object] | signal.Handlers) -> None:
    """Both, because a process that is started in the background of a shell ignores SIGINT."""
    signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGINT, handler)


def _interrupt(*_signal: object) -> NoReturn:
    """Leave the loop. The next signal does not wait, wherever it comes."""
    _on_signals(_end_at_once)
    raise KeyboardInterrupt


def _end_at_once(*_signal: object) -> NoReturn:
    """Not waiting for a query that runs: what SQLite has not committed is not stored."""
    os._exit(0)


def _lines() -> Iterator[bytes]:
    """Lines of standard input, of any length. One that cannot be read has ended."""
    begun: list[bytes] = []
    with suppress(OSError):
        for chunk in _chunks() if os.name == "posix" else iter(lambda: os.read(0, _CHUNK), b""):
            begun_here, *later = chunk.split(b"\n")
            begun.append(begun_here)
            for text in later:
                yield b"".join(begun)
                begun = [text]
    yield b"".join(begun)


def _chunks() -> Iterator[bytes]:
    """Standard input as it comes. A signal that comes between Python's last look for one and the
    system's wait would not be heard until the next line; it writes into a pipe, which ends the
    wait."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        while True:
            ready, _, _ = select.select([0, woken], [], [])
            if woken in ready:
                os.read(woken, _CHUNK)  # the handler has run by now, or will at once
            elif not (chunk := os.read(0, _CHUNK)):
                return
            else:
                yield chunk
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wakes)


def _open_what_is_closed() -> None:
    """Have all three standard descriptors: what is opened later would get their numbers, and what
    is printed would go into a file. No input has ended, and no output is not read."""
    missing = [number for number in (0, 1, 2) if not _is_open(number)]
    for number in missing:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)


def _wait_for_streams() -> None:
    """A client may have made them not wait. A read that finds no line yet would then look like the
    end."""
    if os.name == "posix":
        os.set_blocking(0, True)
        os.set_blocking(1, True)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _show_warning(message: Warning | str, *_where: object) -> None:
    """For the operator, who reads standard error, if anybody does."""
    with suppress(OSError):
        print(f"structmem mcp: {message}", file=sys.stderr)


def _standard_output() -> FileIO:
    """The stream of the protocol. Descriptor 1 leads to standard error from now on."""
    stream = FileIO(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


def _end_process() -> None:
    """End the loop as a signal does: it may be waiting for a line that will never come."""
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


class Output:
    """Lines to the client, from any thread, each whole. `gone` is called when nobody reads them."""

    def __init__(self, stream: FileIO, gone: Callable[[], None]) -> None:
        self._stream = stream
        self._gone = gone
        self._is_open = True
        self._lock = threading.Lock()

    def send(self, line: bytes) -> None:
        """Write a line. Does nothing once the client is gone."""
        with self._lock:
            if not self._is_open:
                return
            try:
                left = memoryview(line)
                while left:
                    left = left[self._stream.write(left) :]
            except (OSError, ValueError):  # nobody reads; or the process ends
                self._is_open = False
                self._gone()
            except KeyboardInterrupt:  # part of the line may be out, and nothing may follow that
                self._is_open = False
                raise
