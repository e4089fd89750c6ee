"""The operations on the file system that the store uses, and where the store lies.

All file access of the store goes through one ``Files`` object. Tests hand the store an object of a subclass whose
operations fail as a full, read-only or broken disk would; nothing else replaces it.
"""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Files:
    """File operations with the rules of the store: private modes, no links followed, no waiting for a pipe."""

    def read(self, path: str) -> bytes:
        """The whole of a regular file. A pipe or a folder of that name is an ``OSError`` and does not block."""
        descriptor = os.open(path, _READ)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            data = os.read(descriptor, status.st_size + 1)
            while len(data) < status.st_size:
                more = os.read(descriptor, status.st_size - len(data) + 1)
                if not more:
                    break
                data += more
            return data
        finally:
            os.close(descriptor)

    def create(self, path: str, data: bytes) -> None:
        """A new file with these bytes; ``FileExistsError`` if there is one."""
        descriptor = os.open(path, _CREATE, FILE_MODE)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)

    def replace(self, source: str, target: str) -> None:
        """Gives a file its final name in one step."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Removes a file."""
        os.unlink(path)

    def make_folder(self, path: str) -> None:
        """Makes a private folder; one that exists is left as it is."""
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def listing(self, path: str) -> list[os.DirEntry[str]]:
        """The entries of a folder."""
        with os.scandir(path) as entries:
            return list(entries)

    def index(self, operation: str) -> None:
        """Called before the index is used (``open``, ``open for reading``, ``read``, ``write``); does nothing."""


def own_folder(path: str) -> None:
    """Makes a folder and checks that it is private and the caller's own, not a link; ``OSError`` where it is not.

    Stored answers may hold machine code, so whoever can write there can run code as the user (CWE-379).
    """
    os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, FOLDER_MODE)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "the folder belongs to another user", path)
    if stat.S_IMODE(status.st_mode) != FOLDER_MODE:
        os.chmod(path, FOLDER_MODE)


def default_folder(environment: Mapping[str, str], directory: Path | None = None) -> Path | None:
    """Where the store lies, by the caller's environment; nothing where the environment names no place.

    ``PRESK_CACHE``, or ``cache`` in ``PRESK_HOME``, or ``presk`` in ``XDG_CACHE_HOME`` (ignored unless absolute, as
    the XDG specification asks), or ``.cache/presk`` in ``HOME``. A variable that is empty counts as unset. A relative
    path is meant from ``directory``, the directory of whoever asks; without one it is a ``ValueError``.
    """
    for name, inner in (("PRESK_CACHE", ""), ("PRESK_HOME", "cache")):
        value = environment.get(name, "")
        if value:
            path = Path(value) / inner
            if path.is_absolute():
                return path
            if directory is None:
                raise ValueError(f"{name} is the relative path {value!r}")
            return directory / path
    shared = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(shared):
        return Path(shared) / "presk"
    home = environment.get("HOME", "")
    return Path(home) / ".cache" / "presk" if os.path.isabs(home) else None
