"""Rows of the index with buffered writes, behind which nothing fails.

Writes and times of use are gathered and written in one transaction, every few thousand rows and when asked (``flush``);
what was not written when a process dies is a later miss. Reads look at the gathered rows first.

Trouble of the index is handled here and nowhere else:

* *busy* (another process writes for too long): this use is given up, the index is left alone for some seconds;
* *unwritable* (full or read-only disk, no permission): reading goes on where it can, writes are dropped;
* *damaged*: the database is removed and made new, once for all processes, and blobs that lie there are entered again.

A database that somebody removed or replaced while it was open is left for the present one before the next write.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from presk.cache.files import FILE_MODE, Files, own_folder
from presk.cache.health import Health
from presk.cache.index import COMPANIONS, DATABASE, Index, Reader, Refused, Row, failure

T = TypeVar("T")

ROW_OVERHEAD: Final = 200
"""About what a row of the index takes beside its value: key, indexes, times; in bytes."""

_USES_MAX: Final = 1 << 16
_BUFFERED_BYTES: Final = 8 << 20
_PAGE: Final = 1024
_REBUILDS_MAX: Final = 3
_LOCK_NAME: Final = "index.lock"
_POLL_SECONDS: Final = 0.01

_TROUBLE: Final = (sqlite3.Error, OSError, Refused)
"""What using a damaged, locked or unwritable index raises."""

_OPENING_TROUBLE: Final = (sqlite3.Error, OSError, ValueError, TypeError)
"""What opening one raises: diskcache's set-up takes rows for granted."""


class Rows:
    """The rows of one store object; safe to use from several threads.

    ``adopt`` gives the rows of the blobs that exist, for an index that is made new. Times are in seconds; ``clock``
    is that of the times of use.
    """

    def __init__(
        self,
        root: str,
        files: Files,
        health: Health,
        *,
        clock: Callable[[], float],
        adopt: Callable[[], Iterator[Row]],
        buffer_rows: int,
        busy_seconds: float,
        retry_seconds: float,
        use_resolution: float,
    ) -> None:
        self._root: Final = root
        self._files: Final = files
        self._health: Final = health
        self._clock: Final = clock
        self._adopt: Final = adopt
        self._buffer_rows: Final = buffer_rows
        self._busy_seconds: Final = busy_seconds
        self._retry_seconds: Final = retry_seconds
        self._use_resolution: Final = use_resolution
        self.lock: Final = threading.RLock()
        self._index: Index | Reader | None = None
        self._resume = 0.0
        self._rebuilds = 0
        self._pending: dict[bytes, Row] = {}
        self._pending_bytes = 0
        self._uses: dict[bytes, float] = {}
        self._due: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        """The value of a row."""
        with self.lock:
            row = self._pending.get(key)
            if row is not None:
                return row[1]
            index = self._opened()
            if index is None:
                return None
            try:
                self._files.index("read")
                found = index.fetch(key)
            except Refused:
                self._health.count("damaged")
                return None
            except _TROUBLE as error:
                self._handle(error)
                return None
            if found is None:
                return None
            value, used = found
            now = self._clock()
            self._use(key, now, due=now - used > self._use_resolution)
            return value

    def put(self, key: bytes, value: bytes, beside: int = 0) -> None:
        """Gathers a row; ``beside`` counts towards the bound in addition to the row itself, in bytes."""
        with self.lock:
            self._pending[key] = key, value, beside + len(value) + ROW_OVERHEAD, self._clock()
            self._pending_bytes += len(value)
            if len(self._pending) >= self._buffer_rows or self._pending_bytes >= _BUFFERED_BYTES:
                self.flush()

    def touch(self, key: bytes) -> None:
        """Notes that a row was used; it is written with the next flush whatever the row says."""
        with self.lock:
            self._use(key, self._clock(), due=True)

    def drop(self, key: bytes) -> None:
        """Removes a row now."""
        with self.lock:
            self._pending.pop(key, None)
            self._uses.pop(key, None)
            self._due.discard(key)
            self.run(lambda index: index.drop((key,)), None)

    def flush(self, all_uses: bool = False) -> bool:
        """Writes what was gathered; says whether rows were written.

        Uses are kept for later where the row's time is younger than the resolution, unless all are asked for.
        """
        with self.lock:
            rows = list(self._pending.values())
            uses = [(self._uses[key], key) for key in (self._uses if all_uses else self._due)]
            if not rows and not uses:
                return False
            done = self.run(lambda index: _write(index, rows, uses), False)
            self._health.count("written" if done else "unwritten", len(rows))
            self._pending.clear()
            self._pending_bytes = 0
            for _, key in uses:
                self._uses.pop(key, None)
            self._due.clear()
            return done and bool(rows)

    def discard(self) -> None:
        """Forgets what was gathered."""
        with self.lock:
            self._pending.clear()
            self._pending_bytes = 0
            self._due.clear()
            self._uses.clear()

    def run(self, action: Callable[[Index], T], default: T) -> T:
        """Does something with the writable index, or gives the default where there is none or it fails."""
        with self.lock:
            if isinstance(self._index, Index) and not self._index.is_current():
                self._close()
            index = self._opened()
            if not isinstance(index, Index):
                return default
            try:
                self._files.index("write")
                return action(index)
            except _TROUBLE as error:
                self._handle(error)
                return default

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        """The keys of the written rows with a prefix of one byte, in order."""
        none: list[bytes] = []
        after = prefix
        while page := self.run(partial(Index.keys, prefix=prefix, after=after, limit=_PAGE), none):
            yield from page
            after = page[-1]

    def close(self) -> None:
        """Writes what was gathered and closes the index. A row that is asked for later is a miss."""
        with self.lock:
            self.flush(all_uses=True)
            self._close()
            self._resume = float("inf")

    @property
    def writable(self) -> bool:
        """Whether the index can be written, as far as is known."""
        with self.lock:
            return isinstance(self._opened(), Index)

    def _use(self, key: bytes, now: float, due: bool) -> None:
        self._uses[key] = now
        if due:
            self._due.add(key)
        if len(self._uses) >= _USES_MAX:
            self.flush(all_uses=True)

    def _opened(self) -> Index | Reader | None:
        if not isinstance(self._index, Index) and time.monotonic() >= self._resume:
            self._close()
            self._open()
        return self._index

    def _open(self) -> None:
        try:
            own_folder(self._root)
        except OSError as error:
            # Not even read: what lies in a folder of somebody else was not stored by this user.
            self._health.warn("folder", f"the cache {self._root} cannot be used ({error}); going on without it")
            self._pause()
            return
        try:
            self._files.index("open")
            self._index = Index(self._root, self._busy_seconds)
        except _OPENING_TROUBLE as error:
            self._handle(error)

    def _handle(self, error: Exception) -> None:
        if isinstance(self._index, Index) and not self._index.is_current():
            # Removed or replaced while it was open: nothing is wrong with the one that is there now.
            self._close()
            return
        kind = failure(error)
        where = os.path.join(self._root, DATABASE)
        if kind == "busy":
            self._health.count("busy")
            self._health.warn("busy", f"the cache's index {where} is locked by another process; going on without it")
            self._close()
            self._pause()
        elif kind == "unwritable":
            self._health.warn("unwritable", f"the cache {self._root} cannot be written ({error}); going on without it")
            self._close()
            self._pause()
            self._open_for_reading()
        elif self._rebuilds < _REBUILDS_MAX:
            self._rebuilds += 1
            self._health.count("rebuilt")
            self._health.warn("damaged", f"the cache's index {where} was damaged ({error}) and is made new")
            self._rebuild()
        else:
            self._health.warn("hopeless", f"the cache's index {where} is damaged again and again; going on without it")
            self._close()
            self._resume = float("inf")

    def _open_for_reading(self) -> None:
        """Opens the index as it is, until writing is tried again after the pause."""
        try:
            self._files.index("open for reading")
            self._index = Reader(self._root, self._busy_seconds)
        except _TROUBLE:
            return

    def _rebuild(self) -> None:
        """Makes the database new, unless another process did, and enters the blobs that exist."""
        seen = self._index.identity if isinstance(self._index, Index) else _identity(self._root)
        self._close()
        try:
            own_folder(self._root)
            with _exclusive(os.path.join(self._root, _LOCK_NAME), self._busy_seconds):
                if _identity(self._root) == seen:
                    for suffix in COMPANIONS:
                        _remove(os.path.join(self._root, DATABASE + suffix))
                index = self._index = Index(self._root, self._busy_seconds)
                if index.totals()[0] == 0:
                    index.write(self._adopt(), ())
        except _OPENING_TROUBLE:
            self._close()
            self._pause()

    def _close(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            try:
                index.close()
            except sqlite3.Error:
                return  # closing a damaged database may say so once more

    def _pause(self) -> None:
        self._resume = max(self._resume, time.monotonic() + self._retry_seconds)


def _write(index: Index, rows: list[Row], uses: list[tuple[float, bytes]]) -> bool:
    index.write(rows, uses)
    return True


def _identity(root: str) -> tuple[int, int] | None:
    try:
        status = os.stat(os.path.join(root, DATABASE))
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


@contextmanager
def _exclusive(path: str, seconds: float) -> Iterator[None]:
    """Holds the lock of a file; ``OSError`` where it cannot be had in time."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)
