"""Readers that remember what they were asked, so that it can be asked again, and watched.

A request reads each file once and works from those bytes. What it read, and what it looked for and did not find, is kept
with digests: `Tracker.holds` asks the same questions again and says whether the answers are the same, which makes an
answer that was computed for one client an answer for another who asked while it was computed. Nothing is ever taken
from here in place of reading a file.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from presk.cache.digest import value_digest
from presk.daemon.messages import Observed
from presk.daemon.stamps import stamp_of
from presk.elab.files import FolderReader

MAX_FILES: Final = 10_000
"""How many files of a request are told to whoever watches."""


class Tracker:
    """What one request asked of the file system through readers."""

    def __init__(self) -> None:
        self._questions: list[tuple[Callable[[FolderReader], object], Path, object]] = []
        self._files: dict[str, Observed] = {}

    def reader(self, main: Path) -> FolderReader:
        """A reader of which everything is remembered."""
        return _TrackedReader(main, self)

    def note(self, main: Path, ask: Callable[[FolderReader], object], answer: object) -> None:
        """Remembers an answer, the digest of bytes in place of them."""
        self._questions.append((ask, main, _short(answer)))

    def see(self, observed: Observed) -> None:
        """Remembers a file; the first look counts."""
        self._files.setdefault(observed.path, observed)

    def files(self) -> tuple[Observed, ...]:
        """The files that were asked for."""
        return tuple(self._files.values())[:MAX_FILES]

    def holds(self) -> bool:
        """Whether the file system answers now as it did then."""
        readers: dict[Path, FolderReader] = {}
        for ask, main, answer in self._questions:
            reader = readers.get(main)
            if reader is None:
                reader = readers[main] = FolderReader(main)
            if _short(ask(reader)) != answer:
                return False
        return True


class _TrackedReader(FolderReader):
    def __init__(self, main: Path, tracker: Tracker) -> None:
        super().__init__(main)
        self._main = main
        self._tracker = tracker
        self._asked: set[tuple[str, str]] = set()
        tracker.note(main, _home, _home(self))
        spelled = os.path.abspath(main)
        if spelled != self.path(self.main):
            # A link on the way: where it leads is part of what was found.
            tracker.see(Observed(spelled, stamp=stamp_of(spelled)))

    def resolve(self, importer: str, written: str) -> str:
        file = super().resolve(importer, written)
        if (importer, written) not in self._asked:
            self._asked.add((importer, written))
            self._tracker.note(self._main, lambda reader: reader.resolve(importer, written), file)
            spelled = os.path.normpath(os.path.join(self.path(os.path.dirname(importer)), written))
            if spelled != self.path(file) and "\0" not in spelled:
                self._tracker.see(Observed(spelled, stamp=stamp_of(spelled)))
        return file

    def read(self, file: str) -> bytes | str:
        new = file not in self._read
        found = super().read(file)
        if new:
            digest = value_digest(found).hex() if isinstance(found, bytes) else ""
            self._tracker.note(self._main, lambda reader: reader.read(file), found)
            if "\0" not in file:
                self._tracker.see(Observed(self.path(file), digest))
        return found

    def head(self, file: str) -> bytes | str | None:
        new = file not in self._heads
        before = stamp_of(self.path(file)) if new else None
        found = super().head(file)
        if new:
            self._tracker.note(self._main, lambda reader: reader.head(file), found)
            if "\0" not in file:
                self._tracker.see(Observed(self.path(file), stamp=before))
        return found


def _home(reader: FolderReader) -> str:
    return reader.path(reader.main)


def _short(answer: object) -> object:
    return value_digest(answer) if isinstance(answer, bytes) else answer
