"""The daemon's log: a file to which lines are appended, by the daemon and by whatever its processes print.

It is bounded: a file that has grown is copied beside itself and begun again. All writers append, so that they go on at
its new beginning.
"""

import os
import shutil
import time
from contextlib import suppress
from typing import Final

from presk.daemon.places import FILE_MODE, LOG

MAX_BYTES: Final = 1 << 20
OLD: Final = f"{LOG}.1"


class Log:
    """The log in a runtime folder."""

    def __init__(self, folder: str, max_bytes: int = MAX_BYTES) -> None:
        self._path: Final = os.path.join(folder, LOG)
        self._old: Final = os.path.join(folder, OLD)
        self._max_bytes: Final = max_bytes
        self._descriptor: Final = os.open(
            self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE
        )

    def write(self, text: str) -> None:
        """Appends a line with the time; line breaks in it become spaces. A log that cannot be written is no error."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
        line = f"{stamp} {' '.join(text.splitlines())}\n"
        with suppress(OSError):
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))
            self.rotate()

    def rotate(self) -> None:
        """Begins the file again if it has grown too large."""
        with suppress(OSError):
            if os.fstat(self._descriptor).st_size <= self._max_bytes:
                return
            partial = f"{self._old}.new"
            shutil.copyfile(self._path, partial)
            os.chmod(partial, FILE_MODE)
            os.replace(partial, self._old)
            os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)
