"""Digests of files with a stat shortcut that holds only for settled files.

A file whose size, times and inode are as they were when it was hashed is taken as unchanged, but only if it was
clearly older than that hash: two writes within one tick of the file system's clock leave the same times, so a file
that was hashed right after it was written is hashed again until it has settled (the racy-edit rule).
"""

import os
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from presk.cache.digest import Digest, value_digest

SETTLED_NS: Final = 2_000_000_000
"""A file is settled when it was last changed this long before it was hashed: a tick of the coarsest clock (FAT)."""


class _Known(NamedTuple):
    stamp: tuple[int, int, int, int]
    settled: bool
    digest: Digest


class FileDigests:
    """Digests of files by path; ``clock`` gives nanoseconds since the epoch."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def read(self, path: str) -> tuple[bytes, Digest]:
        """The bytes of a file and their digest, from one reading; ``OSError`` where it cannot be read."""
        now = self._clock()
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            before = os.fstat(descriptor)
            data = os.read(descriptor, before.st_size + 1)
            while more := os.read(descriptor, 1 << 20):
                data += more
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        digest = value_digest(data)
        stamp = _stamp(before)
        settled = stamp == _stamp(after) and now - max(before.st_mtime_ns, before.st_ctime_ns) > SETTLED_NS
        self._known[path] = _Known(stamp, settled, digest)
        return data, digest

    def digest(self, path: str) -> Digest | None:
        """The digest of a file as it is now, hashed where the shortcut does not hold; nothing if it cannot be read."""
        known = self._known.get(path)
        try:
            if known is not None and known.settled and _stamp(os.stat(path)) == known.stamp:
                return known.digest
            return self.read(path)[1]
        except OSError:
            self._known.pop(path, None)
            return None


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
