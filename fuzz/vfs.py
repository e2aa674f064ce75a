"""SQLite's own VFS, with somebody who is asked before each call and told after it.

APSW lets a VFS be written in Python. But an error that such a VFS raises comes out of the call that
SQLite was doing, even where SQLite takes no notice of it, as of a checkpoint that fails after a
commit; so what a broken disk does could not be told from that. Here the default VFS itself gets
other functions, which return codes as C does, while a *watcher* is there. Its structures are
public: https://www.sqlite.org/c3ref/vfs.html, https://www.sqlite.org/c3ref/io_methods.html.

Locks and shared memory (`-shm`) are the real ones, and are not watched.
"""

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, Structure, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Final, Protocol

import apsw
from msgspec import Struct

_OPEN: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p, use_errno=True)
_DELETE: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, use_errno=True)
_RANDOMNESS: Final = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
_CLOSE: Final = CFUNCTYPE(c_int, c_void_p, use_errno=True)
_READ: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64, use_errno=True)
_TRUNCATE: Final = CFUNCTYPE(c_int, c_void_p, c_int64, use_errno=True)
_SYNC: Final = CFUNCTYPE(c_int, c_void_p, c_int, use_errno=True)
_SIZE: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, use_errno=True)

_POINTERS_MAX: Final = 18
"""Functions of a file in version 3 of its methods."""


class _Vfs(Structure):
    _fields_ = (
        ("version", c_int),
        ("file_bytes", c_int),
        ("path_bytes_max", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("access", c_void_p),
        ("full_pathname", c_void_p),
        ("library", c_void_p * 4),
        ("randomness", c_void_p),
    )


class _Methods(Structure):
    _fields_ = (("version", c_int), ("functions", c_void_p * _POINTERS_MAX))


class Watcher(Protocol):
    """What each call is about to do; a code other than SQLITE_OK is its answer, and it is not done.
    A file is told by what `opened` returned for it; None is a file that is not watched."""

    def opening(self, path: str | None) -> int: ...
    def opened(self, path: str | None, flags: int) -> int | None: ...
    def deleting(self, path: str) -> int: ...
    def deleted(self, path: str, synced: bool) -> None: ...
    def reading(self) -> int: ...
    def writing(self, file: int, offset: int, data: bytes) -> tuple[int, int]:
        """The code, and how many of the bytes are written all the same."""
        ...

    def truncating(self, file: int, size: int) -> int: ...
    def syncing(self, file: int) -> int: ...
    def measuring(self) -> int: ...
    def randomness(self, size: int) -> bytes: ...


class _Open(Struct):
    """An open file that is watched."""

    watcher: Watcher
    file: int


_open_files: Final[dict[int, _Open]] = {}
_methods: Final[dict[int, Any]] = {}
"""Our methods for each of the real ones, by address. They stay: a file may outlive its watcher."""

_kept: Final[list[Any]] = []
_errors: Final[list[Exception]] = []


@contextmanager
def watched(watcher: Watcher) -> Generator[None]:
    """All connections that are opened inside must be closed inside."""
    vfs = _default_vfs()
    before = vfs.open, vfs.delete, vfs.randomness
    functions = _opener(watcher, vfs.open), _deleter(watcher, vfs.delete), _random(watcher)
    vfs.open, vfs.delete, vfs.randomness = (_address(each) for each in functions)
    apsw.randomness(0)  # drawn anew, from the watcher: the salts of the log
    try:
        yield
    finally:
        vfs.open, vfs.delete, vfs.randomness = before
        apsw.randomness(0)
    if _errors:
        raise _errors.pop()


def open_files() -> int:
    """How many files are open that are watched."""
    return len(_open_files)


def _default_vfs() -> _Vfs:
    connection = apsw.Connection(":memory:")
    found = c_void_p()
    connection.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(found))
    connection.close()
    assert found.value is not None
    return _Vfs.from_address(found.value)


def _told(function: Callable[..., int]) -> Callable[..., int]:
    """An error of ours cannot pass through SQLite: it waits until nobody watches any more."""

    def call(*arguments: Any) -> int:
        try:
            return function(*arguments)
        except Exception as error:
            _errors.append(error)
            return apsw.SQLITE_INTERNAL

    return call


def _address(function: Any) -> int | None:
    return ctypes.cast(function, c_void_p).value


def _text(name: int) -> str:
    """A name, which goes on by its address, because SQLite keeps more behind it."""
    return ctypes.string_at(name).decode()


# -- the functions of the VFS ----------------------------------------------------------------------


def _opener(watcher: Watcher, address: int) -> Any:
    real = _OPEN(address)

    def xopen(vfs: int, name: int | None, file: int, flags: int, told: int | None) -> int:
        path = _text(name) if name is not None else None
        methods = c_void_p.from_address(file)
        methods.value = None
        if code := watcher.opening(path):
            return code
        if code := real(vfs, name, file, flags, told):
            return code
        number = watcher.opened(path, flags)
        if number is not None and methods.value is not None:
            _open_files[file] = _Open(watcher, number)
            methods.value = ctypes.addressof(_ours(methods.value))
        return apsw.SQLITE_OK

    return _OPEN(_told(xopen))


def _deleter(watcher: Watcher, address: int) -> Any:
    real = _DELETE(address)

    def xdelete(vfs: int, name: int, synced: int) -> int:
        if code := watcher.deleting(_text(name)):
            return code
        code = real(vfs, name, synced)
        if code == apsw.SQLITE_OK:
            watcher.deleted(_text(name), bool(synced))
        return code

    return _DELETE(_told(xdelete))


def _random(watcher: Watcher) -> Any:
    def xrandomness(_vfs: int, size: int, target: int) -> int:
        ctypes.memmove(target, watcher.randomness(size), size)
        return size

    return _RANDOMNESS(_told(xrandomness))


# -- the functions of a file -----------------------------------------------------------------------


def _ours(address: int) -> _Methods:
    if address not in _methods:
        ours = _Methods()
        ctypes.memmove(ctypes.addressof(ours), address, ctypes.sizeof(_Methods))
        real = list(ours.functions)
        replaced = [_closer, _reader, _writer, _truncater, _syncer, _sizer]
        for index, make in enumerate(replaced):
            function = make(real[index])
            _kept.append(function)
            ours.functions[index] = _address(function)
        _methods[address] = ours
    return _methods[address]


def _closer(address: int) -> Any:
    real = _CLOSE(address)

    def xclose(file: int) -> int:
        _open_files.pop(file)
        return real(file)

    return _CLOSE(_told(xclose))


def _reader(address: int) -> Any:
    real = _READ(address)

    def xread(file: int, target: int, size: int, offset: int) -> int:
        return _open_files[file].watcher.reading() or real(file, target, size, offset)

    return _READ(_told(xread))


def _writer(address: int) -> Any:
    real = _READ(address)  # of the same shape

    def xwrite(file: int, source: int, size: int, offset: int) -> int:
        found = _open_files[file]
        code, done = found.watcher.writing(found.file, offset, ctypes.string_at(source, size))
        errno = ctypes.get_errno()
        written = real(file, source, done, offset) if done else apsw.SQLITE_OK
        ctypes.set_errno(errno)
        return code or written

    return _READ(_told(xwrite))


def _truncater(address: int) -> Any:
    real = _TRUNCATE(address)

    def xtruncate(file: int, size: int) -> int:
        found = _open_files[file]
        return found.watcher.truncating(found.file, size) or real(file, size)

    return _TRUNCATE(_told(xtruncate))


def _syncer(address: int) -> Any:
    """The real one is not called: it would only take time."""
    del address

    def xsync(file: int, _flags: int) -> int:
        found = _open_files[file]
        return found.watcher.syncing(found.file)

    return _SYNC(_told(xsync))


def _sizer(address: int) -> Any:
    real = _SIZE(address)

    def xsize(file: int, target: int) -> int:
        return _open_files[file].watcher.measuring() or real(file, target)

    return _SIZE(_told(xsize))
