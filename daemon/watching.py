"""Watching files: who subscribes to files is told when they have changed and settled.

Events of the system are hints to look, no more. A look compares what a subscriber found when it read its files (their
digests) with what is there now, so that a change between reading and watching is seen, a file that was saved without a
change is none, and an event that never arrived costs a second: every second there is a look without a hint. (Measured: of
30,000 changes during a stall of two seconds the kernel kept 2,174, and `watchdog` tells nobody.)

What is watched are folders: editors save by renaming another file over the old one. Of a path that leads through links, the
folders of the links are watched too. A change is told when nothing more has happened for a moment, no git command holds
the index of the tree, and files that went away had the time to come back: a switch of branches is one change.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from presk.cache.file_digests import FileDigests
from presk.cli.faults import Faults
from presk.daemon.log import Log
from presk.daemon.messages import Observed, WatchState
from presk.daemon.stamps import Stamp, stamp_of

QUIET_SECONDS: Final = 0.03
"""How long nothing may happen before a change counts as settled."""
RETURN_SECONDS: Final = 0.15
"""How long a file may be away while it is saved."""
BUSY_SECONDS: Final = 10.0
"""How long git's lock is respected; one that a killed git left stays for ever."""
LOOK_SECONDS: Final = 1.0
SCAN_SECONDS: Final = 0.2
"""How often is looked without a hint, with and without watches."""

# Opening and reading are no changes; without this filter every look would cause two events.
EVENTS: Final[list[type[FileSystemEvent]]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileClosedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]

Found = str | Stamp | None
"""What a look finds of a file: its digest, its stamp where it is judged by that, or nothing."""


class Subscription:
    """The files of one subscriber."""

    def __init__(self, watcher: "Watcher", faults: Faults) -> None:
        self._watcher: Final = watcher
        self.faults: Final = faults
        self.hint: Final = asyncio.Event()
        self.left = False
        self._known: dict[str, Found] = {}
        self._whole: dict[str, bool] = {}
        self._git: tuple[str, ...] = ()

    @property
    def files(self) -> Iterable[str]:
        """The paths."""
        return self._known.keys()

    def replace(self, files: Iterable[Observed]) -> None:
        """Other files, and what the subscriber found of them."""
        # A file that is looked at for the first time is watched before it is read.
        self._whole = {one.path: one.stamp is None for one in files}
        self._known = dict.fromkeys(self._whole)
        self._watcher.plan()
        for one in files:
            self._known[one.path] = self._watcher.look(one.path, True) if one.fresh else one.digest or one.stamp
        self._git = tuple(locks_of(self._known))
        self.hint.set()  # something may have changed since the subscriber looked

    async def changed(self) -> list[str] | None:
        """The files that have changed and settled, sorted; None when the daemon leaves."""
        while True:
            await self._wait()
            if self.left:
                return None
            if self._look() == self._known:
                continue
            now = await self._settled()
            changed = sorted(path for path, found in now.items() if found != self._known.get(path))
            self._known = now
            self._watcher.plan()
            if changed:
                return changed

    async def _wait(self) -> None:
        seconds = SCAN_SECONDS if self._watcher.scanning else LOOK_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.hint.wait()
        if not self.hint.is_set():
            self._watcher.rescans += 1
        self.hint.clear()
        self._watcher.plan()

    async def _settled(self) -> dict[str, Found]:
        began = time.monotonic()
        away_since: float | None = None
        before = self._look()
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            now = self._look()
            moment = time.monotonic()
            away = any(found is None and self._known.get(path) is not None for path, found in now.items())
            away_since = (away_since or moment) if away else None
            busy = any(map(os.path.exists, self._git))
            waited = moment - began > BUSY_SECONDS
            if now == before and (
                waited or (not busy and (away_since is None or moment - away_since > RETURN_SECONDS))
            ):
                return now
            before = now

    def _look(self) -> dict[str, Found]:
        return {path: self._watcher.look(path, self._whole[path]) for path in self._known}


class Watcher:
    """The watches of a daemon: folders, shared by subscribers."""

    def __init__(self, log: Log) -> None:
        self._log: Final = log
        self._digests: Final = FileDigests()
        self._subscriptions: Final[set[Subscription]] = set()
        self._observer: BaseObserver | None = None
        self._watches: dict[str, tuple[ObservedWatch, tuple[int, int]]] = {}
        self.scanning = ""
        self.events = 0
        self.rescans = 0

    @contextmanager
    def subscribe(self, files: Iterable[Observed], faults: Faults) -> Iterator[Subscription]:
        """Watches files as long as the context lasts."""
        subscription = Subscription(self, faults)
        self._subscriptions.add(subscription)
        try:
            subscription.replace(files)
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self.plan()

    def look(self, path: str, whole: bool) -> Found:
        """What is there now, by its bytes or by its stamp."""
        if not whole:
            return stamp_of(path)
        if not os.path.isfile(path):  # a pipe would be waited for
            return None
        digest = self._digests.digest(path)
        return None if digest is None else digest.hex()

    def plan(self) -> None:
        """Watches the folders that have to be, and no others; one that was replaced is watched anew."""
        if self.scanning and not self._subscriptions:
            self.scanning = ""
        wanted = (
            {folder for one in self._subscriptions for folder in folders_of(one.files)} if not self.scanning else set()
        )
        for folder in list(self._watches):
            watch, inode = self._watches[folder]
            if folder not in wanted or _inode(folder) != inode:
                del self._watches[folder]
                if self._observer is not None:
                    # The system may have ended the watch with its folder.
                    with suppress(OSError, KeyError):
                        self._observer.unschedule(watch)
        for folder in sorted(wanted - set(self._watches)):
            there = _inode(folder)
            if there is None:
                continue
            try:
                self._watches[folder] = self._schedule(folder), there
            except FileNotFoundError:
                continue
            except OSError as error:
                self._scan(f"{folder} cannot be watched: {error.strerror or error}")
                return

    def leave(self) -> None:
        """Tells subscribers that the daemon leaves."""
        for one in self._subscriptions:
            one.left = True
            one.hint.set()

    async def close(self) -> None:
        """Ends all watches."""
        self.leave()
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            await asyncio.to_thread(observer.join, 2.0)

    def state(self) -> WatchState:
        """For the daemon's state."""
        return WatchState(
            len(self._subscriptions),
            len({path for one in self._subscriptions for path in one.files}),
            tuple(sorted(self._watches)),
            self.scanning,
            self.events,
            self.rescans,
        )

    def _schedule(self, folder: str) -> ObservedWatch:
        for one in self._subscriptions:
            if one.faults.due("watch") == "limit":
                raise OSError(28, "the limit of watches is reached")
        if self._observer is None:
            self._observer = Observer()
            self._observer.start()
        handler = _Handler(asyncio.get_running_loop(), self._hint)
        return self._observer.schedule(handler, folder, recursive=False, event_filter=EVENTS)

    def _scan(self, why: str) -> None:
        self.scanning = why
        self._log.write(f"folders are scanned: {why}")
        observer = self._observer
        self._watches.clear()
        if observer is not None:
            observer.unschedule_all()

    def _hint(self, paths: frozenset[str], folder: bool) -> None:
        self.events += 1
        for one in self._subscriptions:
            if (folder or not paths.isdisjoint(one.files)) and one.faults.due("watch") != "overflow":
                one.hint.set()


class _Handler(FileSystemEventHandler):
    """Passes events on to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hint: Callable[[frozenset[str], bool], None]) -> None:
        self._loop = loop
        self._hint = hint

    def on_any_event(self, event: FileSystemEvent) -> None:
        paths = frozenset(os.fsdecode(path) for path in (event.src_path, event.dest_path) if path)
        # The loop may have ended.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hint, paths, event.is_directory)


def folders_of(files: Iterable[str]) -> set[str]:
    """The folders whose events may tell of changes of files: their own, or the nearest that is there, and those of links."""
    folders: set[str] = set()
    for path in files:
        folder = os.path.dirname(path)
        while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        folders.add(folder)
        at = path
        while os.path.dirname(at) != at:
            if os.path.islink(at):
                folders.add(os.path.dirname(at))
            at = os.path.dirname(at)
    return folders


def locks_of(files: Iterable[str]) -> Iterator[str]:
    """The lock files of git for the trees that files lie in."""
    seen: set[str] = set()
    for path in files:
        folder = os.path.dirname(path)
        while folder not in seen:
            seen.add(folder)
            inner = os.path.join(folder, ".git")
            if os.path.isdir(inner):
                yield os.path.join(inner, "index.lock")
                break
            if os.path.isfile(inner):  # a worktree's: a file that names the folder
                with suppress(OSError, UnicodeDecodeError), open(inner, encoding="utf-8") as file:
                    word, _, where = file.read(4096).partition(":")
                    if word == "gitdir":
                        yield os.path.join(folder, where.strip(), "index.lock")
                break
            folder = os.path.dirname(folder)


def _inode(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
