"""What an engine remembers of its answers, for logs and explanations: in memory, then in the store."""

import threading
from typing import Final

from presk.cache.digest import Digest
from presk.cache.log import Outcome
from presk.cache.memory import Memory, Recent
from presk.cache.record import Earlier, Record, decode_record
from presk.cache.store import Store

_NOTED_MAX: Final = 4096
_NOTED_BYTES: Final = 1 << 16


class History:
    """The past of one engine. It takes the engine's lock by itself."""

    def __init__(self, store: Store | None, memory: Memory, lock: threading.RLock, max_entries: int) -> None:
        self._store: Final = store
        self._memory: Final = memory
        self._lock: Final = lock
        self._earlier: Final[Recent[tuple[str, str], tuple[Earlier, ...]]] = Recent(max_entries)
        self._asked: Final[Recent[tuple[str, str], Digest]] = Recent(max_entries)
        # Only without a store, which keeps both.
        self._values: Final[Recent[Digest, bytes]] = Recent(_NOTED_MAX)
        self._producers: Final[Recent[Digest, Digest]] = Recent(max_entries)

    def earlier(self, stage: str, subject: str) -> tuple[Earlier, ...]:
        """The latest answers of a stage about a subject, the newest first."""
        with self._lock:
            known = self._earlier.get((stage, subject))
        if known is not None:
            return known
        return () if self._store is None else self._store.earlier(stage, subject)

    def asked(self, stage: str, subject: str, key: Digest) -> None:
        """Notes what was asked. The caller holds the lock."""
        self._asked.set((stage, subject), key)

    def last_asked(self, stage: str, subject: str) -> Digest | None:
        """The key that was asked last, or, by this engine not at all, computed last."""
        with self._lock:
            key = self._asked.get((stage, subject))
        if key is None and (earlier := self.earlier(stage, subject)):
            key = earlier[0].key
        return key

    def made(self, stage: str, subject: str, key: Digest, value: Digest, latest: tuple[Earlier, ...]) -> None:
        """Notes an answer that was computed."""
        with self._lock:
            self._earlier.set((stage, subject), latest)
            if self._store is None:
                self._producers.set(value, key)

    def note(self, digest: Digest, data: bytes) -> None:
        """Keeps the bytes of an ingredient: in the store, or here if they are few."""
        if self._store is not None:
            self._store.put_value(digest, data)
        elif len(data) <= _NOTED_BYTES:
            with self._lock:
                self._values.set(digest, data)

    def record(self, key: Digest) -> Record | None:
        """How the answer under a key was made."""
        with self._lock:
            entry = self._memory.peek(key)
        if entry is not None and entry.record:
            return decode_record(key, entry.record)
        return None if self._store is None else self._store.record(key)

    def value(self, digest: Digest) -> bytes | None:
        """The bytes of an ingredient."""
        with self._lock:
            noted = self._values.get(digest)
        return self._store.value(digest) if noted is None and self._store is not None else noted

    def producer(self, digest: Digest) -> Digest | None:
        """The key of the answer that gave a value."""
        if self._store is not None:
            return self._store.producer(digest)
        with self._lock:
            return self._producers.get(digest)

    def outcome(self, key: Digest) -> Outcome | None:
        """How this engine had the answer the last time; nothing if it was not asked or has forgotten."""
        with self._lock:
            entry = self._memory.peek(key)
            return None if entry is None else entry.outcome
