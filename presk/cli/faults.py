"""Faults on demand: `PRESK_FAULT=enospc@put:7,kill@publish` makes things go wrong where they can.

A specification is a list of `ACTION@PLACE` or `ACTION@PLACE:N`, separated by commas: the action is taken at the Nth
visit of the place and at every one after it, or at every visit. So a disk that is full stays full. Visits are counted
for each request.

Tests use it, and who wants to see what a full disk does to a long run. Without the variable nothing here is reached.
"""

import ctypes
import errno
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NoReturn

from presk.cache.files import Files

VARIABLE: Final = "PRESK_FAULT"

PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "put": "the store writes bytes",
        "publish": "the store gives a file its name",
        "get": "the store reads",
        "remove": "the store removes a file",
        "folder": "the store makes a folder",
        "list": "the store lists a folder",
        "job": "a worker begins with a request",
        "answer": "a worker has answered and not said so",
        "boot": "a worker starts",
        "start": "the daemon starts",
        "accept": "the daemon has a request of a client",
        "watch": "a folder is watched (`limit`), its events arrive (`overflow`)",
    }
)
"""Where something can go wrong."""

_ERRORS: Final[Mapping[str, int]] = MappingProxyType(
    {"enospc": errno.ENOSPC, "eio": errno.EIO, "erofs": errno.EROFS, "eacces": errno.EACCES}
)
ACTIONS: Final = (*_ERRORS, "kill", "segv", "exit", "hang", "raise", "overflow", "limit")
"""What can go wrong: an error of the system, or the end, a stop or an error of the process; the last two for `watch`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens where, from which visit on."""

    action: str
    place: str
    first: int


class Faults:
    """The faults of one request, with the visits so far."""

    def __init__(self, specification: str) -> None:
        """`ValueError` for a specification that is none."""
        self._faults: Final = tuple(_parse(part) for part in specification.split(",") if part.strip())
        self._visits: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._faults)

    def due(self, place: str) -> str | None:
        """Counts a visit of a place; the action that is due there."""
        visits = self._visits[place] = self._visits.get(place, 0) + 1
        return next((one.action for one in self._faults if one.place == place and visits >= one.first), None)

    def visit(self, place: str) -> None:
        """Counts a visit of a place, and takes the action that is due there."""
        action = self.due(place)
        if action is None:
            return
        number = _ERRORS.get(action)
        if number is not None:
            raise OSError(number, os.strerror(number))
        take = _TAKE.get(action)
        if take is not None:
            take()


def faults_of(environment: Mapping[str, str]) -> Faults:
    """The faults that an environment asks for; `ValueError` as above."""
    return Faults(environment.get(VARIABLE, ""))


class FaultyFiles(Files):
    """The store's operations on files, with faults."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def read(self, path: str) -> bytes:
        self._faults.visit("get")
        return super().read(path)

    def create(self, path: str, data: bytes) -> None:
        self._faults.visit("put")
        super().create(path, data)

    def replace(self, source: str, target: str) -> None:
        self._faults.visit("publish")
        super().replace(source, target)

    def remove(self, path: str) -> None:
        self._faults.visit("remove")
        super().remove(path)

    def make_folder(self, path: str) -> None:
        self._faults.visit("folder")
        super().make_folder(path)

    def listing(self, path: str) -> list[os.DirEntry[str]]:
        self._faults.visit("list")
        return super().listing(path)

    def index(self, operation: str) -> None:
        place = {"write": "put", "read": "get"}.get(operation)
        if place is not None:
            self._faults.visit(place)


def _parse(text: str) -> Fault:
    what, _, number = text.strip().partition(":")
    action, _, place = what.partition("@")
    if action not in ACTIONS or place not in PLACES or not (number == "" or (number.isdecimal() and int(number) > 0)):
        raise ValueError(f"`{text.strip()}` is not ACTION@PLACE or ACTION@PLACE:N")
    return Fault(action, place, int(number or 1))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _crash() -> None:
    ctypes.string_at(0)


def _exit() -> NoReturn:
    os._exit(1)


def _hang() -> None:
    # Deaf, as code is that never comes back to the interpreter.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(3600)


def _raise() -> NoReturn:
    raise RuntimeError("a fault on demand")


_TAKE: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {"kill": _kill, "segv": _crash, "exit": _exit, "hang": _hang, "raise": _raise}
)
