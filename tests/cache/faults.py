"""A file system that fails on demand, for the store's tests."""

import errno
import os
import sqlite3
from collections.abc import Callable

from presk.cache.files import Files


class FaultyFiles(Files):
    """Operations named in `failing` raise what stands there; every operation is counted.

    Operations: `read`, `create`, `replace`, `remove`, `make_folder`, `listing`, and `index <what>` with open, open for reading,
    read or write.
    """

    def __init__(self, **failing: Callable[[], Exception]) -> None:
        self.failing: dict[str, Callable[[], Exception]] = {name.replace("_", " "): e for name, e in failing.items()}
        self.count: dict[str, int] = {}

    def _maybe(self, name: str) -> None:
        self.count[name] = self.count.get(name, 0) + 1
        if name in self.failing:
            raise self.failing[name]()

    def read(self, path: str) -> bytes:
        self._maybe("read")
        return super().read(path)

    def create(self, path: str, data: bytes) -> None:
        if "create" in self.failing:
            # A disk that becomes full leaves the beginning of the file.
            super().create(path, data[: len(data) // 2])
        self._maybe("create")
        super().create(path, data)

    def replace(self, source: str, target: str) -> None:
        self._maybe("replace")
        super().replace(source, target)

    def remove(self, path: str) -> None:
        self._maybe("remove")
        super().remove(path)

    def make_folder(self, path: str) -> None:
        self._maybe("make folder")
        super().make_folder(path)

    def listing(self, path: str) -> list[os.DirEntry[str]]:
        self._maybe("listing")
        return super().listing(path)

    def index(self, operation: str) -> None:
        self._maybe(f"index {operation}")


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only() -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS))


def forbidden() -> OSError:
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def broken() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


def sqlite_error(code: int, message: str) -> Callable[[], sqlite3.Error]:
    """An error as the index raises it."""

    def make() -> sqlite3.Error:
        error = (
            sqlite3.DatabaseError
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            else sqlite3.OperationalError
        )(message)
        error.sqlite_errorcode = code
        return error

    return make


INDEX_FULL = sqlite_error(sqlite3.SQLITE_FULL, "database or disk is full")
INDEX_READ_ONLY = sqlite_error(sqlite3.SQLITE_READONLY, "attempt to write a readonly database")
INDEX_CLOSED = sqlite_error(sqlite3.SQLITE_CANTOPEN, "unable to open database file")
INDEX_BROKEN = sqlite_error(sqlite3.SQLITE_IOERR, "disk I/O error")
INDEX_LOCKED = sqlite_error(sqlite3.SQLITE_BUSY, "database is locked")
INDEX_DAMAGED = sqlite_error(sqlite3.SQLITE_CORRUPT, "database disk image is malformed")
INDEX_FOREIGN = sqlite_error(sqlite3.SQLITE_NOTADB, "file is not a database")
