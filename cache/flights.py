"""Computations that are under way: an answer that two threads ask for at once is computed by one of them."""

import threading
from typing import Final

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
    """One computation; ``landed`` stays empty if it failed, and whoever waited tries by itself."""

    __slots__ = ("done", "landed")

    def __init__(self) -> None:
        self.done: Final = threading.Event()
        self.landed: Landed | None = None


class Flights:
    """The computations of one engine. The caller holds the engine's lock, except in ``wait``."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock: Final = lock
        self._flights: dict[Digest, Flight] = {}
        self._waits: list[tuple[Digest, Digest]] = []

    def start(self, key: Digest) -> Flight | None:
        """A new flight that the caller has to end, or nothing where one is under way."""
        if key in self._flights:
            return None
        flight = self._flights[key] = Flight()
        return flight

    def end(self, key: Digest, landed: Landed | None) -> None:
        """Ends the caller's flight and wakes whoever waits."""
        flight = self._flights.pop(key)
        flight.landed = landed
        flight.done.set()

    def join(self, key: Digest, path: tuple[Digest, ...]) -> tuple[Flight, list[tuple[Digest, Digest]]]:
        """The flight of a key that is under way, to be waited for by a computation whose keys from the outside are ``path``.

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
        return self._flights[key], waits

    def wait(self, flight: Flight, waits: list[tuple[Digest, Digest]]) -> Landed | None:
        """Waits for a joined flight, without the lock."""
        try:
            flight.done.wait()
        finally:
            with self._lock:
                for wait in waits:
                    self._waits.remove(wait)
        return flight.landed
