"""One process's use of a store: its temporary files and its pins, alive as long as a lock is held.

A session is a file in ``live/`` on which its process holds a lock; it contains the digests that the process's jobs
use at the moment. Whoever collects garbage leaves those alone, and removes the files of sessions whose lock nobody
holds. Liveness is the lock, never a process number.

Pins of another process are read when garbage is collected, and written a few hundred at a time: in the worst case a
value that was pinned this instant is evicted by another process, which costs its computation and nothing else.
"""

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from presk.cache.digest import DIGEST_SIZE, Digest
from presk.cache.files import FILE_MODE, Files

LIVE: Final = "live"
TEMPORARY: Final = "tmp"

_UNWRITTEN_MAX: Final = 256
_FILE_MAX: Final = 1 << 20
_OPEN: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Session:
    """The session of one store object. It makes its files when it first needs them. The caller holds a lock."""

    def __init__(self, root: str, files: Files) -> None:
        self._live: Final = os.path.join(root, LIVE)
        self._temporaries: Final = os.path.join(root, TEMPORARY)
        self._files: Final = files
        self._descriptor: int | None = None
        self.token = ""
        self._made = 0
        self._pins: dict[Digest, int] = {}
        self._unwritten: list[Digest] = []
        self._written = 0

    def temporary(self, lost: bool = False) -> str:
        """A new path for a temporary file; ``OSError`` where the folder cannot be written.

        ``lost`` says that the folder was removed: it is made again, and so is the session's file.
        """
        if lost:
            self._end()
        self._open()
        self._made += 1
        return f"{self._temporaries}/{self.token}-{self._made}"

    def pin(self, digest: Digest) -> None:
        """Keeps a value from eviction until as many ``unpin`` follow."""
        self._pins[digest] = pins = self._pins.get(digest, 0) + 1
        if pins == 1:
            self._unwritten.append(digest)
            if len(self._unwritten) >= _UNWRITTEN_MAX:
                self.publish()

    def unpin(self, digests: Iterable[Digest]) -> None:
        """Undoes one ``pin`` of each."""
        for digest in digests:
            pins = self._pins.pop(digest, 0)
            if pins > 1:
                self._pins[digest] = pins - 1
        if not self._pins or self._written > _FILE_MAX:
            self._unwritten = list(self._pins)
            if self._written:
                self._truncate()

    def pinned(self) -> frozenset[Digest]:
        """The values that this process pins."""
        return frozenset(self._pins)

    def publish(self) -> None:
        """Shows this process's pins to others. Where that fails they are kept here only."""
        data, self._unwritten = b"".join(self._unwritten), []
        try:
            self._open()
            if self._descriptor is not None and data:
                self._written += os.pwrite(self._descriptor, data, self._written)
        except OSError:
            return

    def sweep(self) -> frozenset[Digest]:
        """Removes what dead sessions left and returns what living ones pin, this one's included."""
        pinned = set(self._pins)
        alive = {self.token}
        for entry in self._listing(self._live):
            if entry.name != self.token:
                theirs = self._inspect(entry.path)
                if theirs is not None:
                    alive.add(entry.name)
                    pinned |= theirs
        for entry in self._listing(self._temporaries):
            if entry.name.partition("-")[0] not in alive:
                self._remove(entry.path)
        return frozenset(pinned)

    def close(self) -> None:
        """Ends the session."""
        self._end()
        self._pins.clear()
        self._unwritten.clear()

    def _end(self) -> None:
        if self._descriptor is not None:
            self._remove(os.path.join(self._live, self.token))
            os.close(self._descriptor)
            self._descriptor = None
        self.token = ""
        self._written = 0
        self._unwritten = list(self._pins)

    def _open(self) -> None:
        if self._descriptor is not None:
            return
        for folder in (self._live, self._temporaries):
            self._files.make_folder(folder)
        while True:
            token = os.urandom(8).hex()
            path = os.path.join(self._live, token)
            descriptor = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, FILE_MODE)
            # A sweeper may lock the new file first and remove it as dead; then another token is taken.
            if _locked(descriptor) and _is_at(descriptor, path):
                self._descriptor, self.token = descriptor, token
                return
            os.close(descriptor)

    def _inspect(self, path: str) -> set[Digest] | None:
        """The pins of another session, or nothing after removing a dead one."""
        try:
            descriptor = os.open(path, _OPEN)
        except OSError:
            return None
        try:
            if _locked(descriptor):
                self._remove(path)
                return None
            data = os.pread(descriptor, 2 * _FILE_MAX, 0)
        except OSError:
            return set()
        finally:
            os.close(descriptor)
        whole = len(data) - len(data) % DIGEST_SIZE
        return {Digest(data[at : at + DIGEST_SIZE]) for at in range(0, whole, DIGEST_SIZE)}

    def _truncate(self) -> None:
        self._written = 0
        if self._descriptor is not None:
            # Stale pins keep values too long, no more.
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)

    def _listing(self, path: str) -> list[os.DirEntry[str]]:
        try:
            return self._files.listing(path)
        except OSError:
            return []

    def _remove(self, path: str) -> None:
        # Somebody else may have removed it.
        with suppress(OSError):
            self._files.remove(path)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
