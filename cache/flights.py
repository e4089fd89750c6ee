"""Computations that are under way: an answer that two threads ask for at once is computed by one of them."""

import threading
from typing import Final, NamedTuple

from presk.cache.digest import Digest
from presk.cache.stage import StageCycle


class Landed:
    """What a computation gave."""

    __slots__ = ("digest", "size", "transient", "value")

    def __init__(self, digest: Digest, size: int, value: object, transient: bool) -> None:
        self.digest = digest
        self.size = size
        self.value = value
        self.transient = transient


class Flight:
    """One computation; ``landed`` stays empty if it failed, and whoever waited tries by itself.

    ``done`` is made when somebody waits: an event costs as much as a tenth of an answer from the disk.
    """

    __slots__ = ("done", "landed")

    def __init__(self) -> None:
        self.done: threading.Event | None = None
        self.landed: Landed | None = None


class Flights:
    """The computations of one engine. The caller holds the engine's lock, except in ``wait``."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock: Final = lock
        self._flights: dict[Digest, Flight] = {}
        self._waits: list[tuple[Digest, Digest]] = []
        self._waiting = 0

    def start(self, key: Digest) -> bool:
        """Begins a flight that the caller has to end, unless one is under way."""
        if key in self._flights:
            return False
        self._flights[key] = Flight()
        return True

    def end(self, key: Digest, landed: Landed | None) -> None:
        """Ends the caller's flight and wakes whoever waits."""
        flight = self._flights.pop(key)
        flight.landed = landed
        if flight.done is not None:
            flight.done.set()

    def join(self, key: Digest, path: tuple[Digest, ...]) -> "Joined":
        """The flight of a key that is under way, to be waited for by a computation inside those of ``path``.

        ``StageCycle`` where that one waits, directly or through others, for a key of ``path``: both would wait for
        ever.
        """
        reached, pending = {key}, [key]
        while pending:
            at = pending.pop()
            following = [to for source, to in self._waits if source == at and to not in reached]
            reached.update(following)
            pending.extend(following)
        if not reached.isdisjoint(path):
            raise StageCycle("a stage asks for an answer that waits for its own")
        waits = [(outer, key) for outer in path]
        self._waits.extend(waits)
        self._waiting += 1
        flight = self._flights[key]
        if flight.done is None:
            flight.done = threading.Event()
        return Joined(flight, flight.done, waits)

    def waiting(self) -> int:
        """How many threads wait for a flight."""
        with self._lock:
            return self._waiting

    def wait(self, joined: "Joined") -> Landed | None:
        """Waits for a joined flight, without the lock."""
        try:
            joined.done.wait()
        finally:
            with self._lock:
                self._waiting -= 1
                for wait in joined.waits:
                    self._waits.remove(wait)
        return joined.flight.landed


class Joined(NamedTuple):
    """A flight that somebody waits for, and who it is: pairs of a waiting key and the flight's."""

    flight: Flight
    done: threading.Event
    waits: list[tuple[Digest, Digest]]
