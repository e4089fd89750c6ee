"""Values as plain files named by their digest.

A blob is written under a temporary name and renamed, so that a name never stands for half a value; its bytes are
checked against the name whenever they are read. It is not synced: what a power cut leaves half written is noticed
when it is read.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Literal

from presk.cache.digest import DIGEST_SIZE, Digest, value_digest
from presk.cache.files import Files

FOLDER: Final = "blobs"

Flaw = Literal["missing", "empty", "damaged", "unreadable"]


class Blobs:
    """The blobs under a root folder.

    ``temporary`` gives a new path on the same file system; its argument says that the last one's folder was gone.
    """

    def __init__(self, root: str, files: Files, temporary: Callable[[bool], str]) -> None:
        self._folder: Final = os.path.join(root, FOLDER)
        self._files: Final = files
        self._temporary: Final = temporary

    def path(self, digest: Digest) -> str:
        """Where a blob lies, if it is there."""
        name = digest.hex()
        return f"{self._folder}/{name[:2]}/{name[2:]}"

    def read(self, digest: Digest) -> bytes | Flaw:
        """The bytes of a blob, checked, or what is wrong with it."""
        try:
            data = self._files.read(self.path(digest))
        except FileNotFoundError:
            return "missing"
        except OSError:
            return "unreadable"
        if value_digest(data) == digest:
            return data
        return "damaged" if data else "empty"

    def write(self, digest: Digest, data: bytes) -> bool:
        """Stores a value unless it is there and sound; says whether it was written. ``OSError`` where it cannot be."""
        path = self.path(digest)
        if os.path.lexists(path) and self.read(digest) == data:
            return False
        temporary = self._temporary(False)
        try:
            try:
                self._files.create(temporary, data)
            except FileNotFoundError:
                temporary = self._temporary(True)
                self._files.create(temporary, data)
            try:
                self._files.replace(temporary, path)
            except FileNotFoundError:
                self._make_folders(path)
                self._files.replace(temporary, path)
        except OSError:
            self._discard(temporary)
            raise
        return True

    def remove(self, digest: Digest) -> None:
        """Removes a blob if it is there."""
        self._discard(self.path(digest))

    def scan(self) -> Iterator[tuple[Digest, int, float]]:
        """Every file named as a blob: digest, size in bytes, time of its last change. Others are passed over."""
        for outer in self._listing(self._folder):
            if len(outer.name) != 2:
                continue
            for entry in self._listing(outer.path):
                try:
                    digest = bytes.fromhex(outer.name + entry.name)
                    status = entry.stat(follow_symlinks=False)
                except (ValueError, OSError):
                    continue
                if len(digest) == DIGEST_SIZE:
                    yield Digest(digest), status.st_size, status.st_mtime

    def _listing(self, path: str) -> list[os.DirEntry[str]]:
        try:
            return self._files.listing(path)
        except OSError:
            return []

    def _make_folders(self, path: str) -> None:
        self._files.make_folder(self._folder)
        self._files.make_folder(os.path.dirname(path))

    def _discard(self, path: str) -> None:
        # Gone already, or it cannot be removed: nothing depends on it.
        with suppress(OSError):
            self._files.remove(path)
