"""Stamps of files: what the file system says of them without their being read."""

import os
import time
from typing import Final

Stamp = tuple[int, int, int, int]
"""Size in bytes, time of modification and of change in nanoseconds, inode."""

SETTLED_NS: Final = 2_000_000_000
"""A file that was changed less long ago may be changed again without its stamp showing it (see `presk.cache.file_digests`)."""


def stamp_of(path: str) -> Stamp | None:
    """The stamp of what a path leads to; None where that is nothing."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def is_settled(stamp: Stamp | None) -> bool:
    """Whether a stamp that is taken now stands for the file's bytes."""
    return stamp is None or time.time_ns() - max(stamp[1], stamp[2]) > SETTLED_NS
