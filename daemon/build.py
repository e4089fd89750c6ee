"""What code a daemon runs, and whether the disk still holds it.

A daemon is of one build: the sources and data files of the project as they were when it began, and the packages that
were installed. Before it answers a request it looks whether that is still so, by the stamps of some three hundred files and
forty folders (a millisecond); a file whose stamp differs, or that was too young to be judged by its stamp, is hashed. If the
code is another, the daemon leaves and the client starts a new one. So an edited compiler answers the next request, and no
client reads sources.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from presk.cache.digest import Digest, value_digest
from presk.cache.file_digests import FileDigests
from presk.cache.packages import installed_versions
from presk.cache.project import discover_project
from presk.daemon.stamps import Stamp, is_settled, stamp_of

SUFFIXES: Final = (".py", ".so", ".lark", ".json", ".toml", ".txt", ".md")
"""The files of the project that its code consists of; what editors leave beside them is none."""


class Build:
    """The code as it was when this was made. `roots` maps the project's packages to folders."""

    def __init__(self, roots: Mapping[str, Path] | None = None, path: Iterable[str] | None = None) -> None:
        folders = discover_project() if roots is None else dict(roots)
        self._roots: Final = tuple(sorted(str(folder) for folder in folders.values()))
        self._path: Final = tuple(sys.path if path is None else path)
        self._files: Final = FileDigests()
        self._listed: dict[str, Stamp | None] = {}
        self._digests: Final[Mapping[str, Digest | None]] = {file: self._files.digest(file) for file in self._list()}
        self._packages: Final = installed_versions(self._path)
        self._package_stamps = self._stamps_of_packages()

    @property
    def digest(self) -> str:
        """The digest of all of it, as hexadecimal digits."""
        parts = [f"{sys.implementation.name} {sys.version}"]
        parts += [f"{name} {version}" for name, version in sorted(self._packages.items())]
        parts += [f"{file} {'-' if found is None else found.hex()}" for file, found in sorted(self._digests.items())]
        return value_digest("\n".join(parts).encode("utf-8", "surrogateescape")).hex()

    def changed(self) -> str | None:
        """What differs from the code that this process runs, in a few words; None if nothing does."""
        for folder, stamp in self._listed.items():
            if stamp is None or stamp_of(folder) != stamp:
                files = self._list()
                if files != list(self._digests):
                    return _difference(files, self._digests)
                break
        for file, digest in self._digests.items():
            if self._files.digest(file) != digest:
                return f"{file} was changed" if os.path.exists(file) else f"{file} is gone"
        if self._package_stamps != (stamps := self._stamps_of_packages()):
            if installed_versions(self._path) != self._packages:
                return "installed packages were changed"
            self._package_stamps = stamps
        return None

    def is_there(self) -> bool:
        """Whether the folders of the project are there."""
        return all(os.path.isdir(root) for root in self._roots)

    def _list(self) -> list[str]:
        """The files of the project in a fixed order; the stamps of their folders are kept, of those that can be judged by them."""
        self._listed = {}
        files: list[str] = []
        pending = list(self._roots)
        while pending:
            folder = pending.pop()
            if folder in self._listed:
                continue
            stamp = stamp_of(folder)
            self._listed[folder] = stamp if is_settled(stamp) else None
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.name.endswith(SUFFIXES):
                    files.append(entry.path)
                elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir():
                    pending.append(entry.path)
        return files

    def _stamps_of_packages(self) -> dict[str, Stamp | None]:
        return {folder: stamp_of(folder) for folder in self._path}


def _difference(files: Iterable[str], digests: Mapping[str, Digest | None]) -> str:
    new = sorted(set(files) - set(digests))
    if new:
        return f"{new[0]} is new"
    gone = sorted(set(digests) - set(files))
    return f"{gone[0]} is gone" if gone else "files were moved"
