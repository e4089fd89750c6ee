"""Counters of a store, and its warnings: each kind of trouble is told once.

The store never fails a job; what went wrong is a count here, and one warning per kind for whoever looks at it.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

COUNTERS: Final = MappingProxyType(
    {
        "record hits": "answers found",
        "record misses": "answers that are not there",
        "value hits": "values read and sound",
        "value misses": "values that are not there",
        "missing": "values whose file is gone",
        "empty": "values whose file has no bytes",
        "damaged": "values and records whose bytes are not those that were stored",
        "unreadable": "values whose file cannot be read",
        "written": "values and records written",
        "unwritten": "values and records that could not be written",
        "evicted": "entries removed to keep the size",
        "busy": "uses given up because another process held the index",
        "rebuilt": "times the index was made new",
    }
)
"""The counters of a store and what each counts."""


class Health:
    """Counters and warnings of one store object; safe to use from several threads."""

    def __init__(self, on_warning: Callable[[str], None] | None) -> None:
        self._lock: Final = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._warnings: dict[str, str] = {}
        self._on_warning: Final = on_warning

    def count(self, name: str, number: int = 1) -> None:
        """Adds to a counter."""
        with self._lock:
            self._counts[name] += number

    def counts(self) -> Mapping[str, int]:
        """All counters, in the order of ``COUNTERS``."""
        with self._lock:
            return {name: self._counts[name] for name in COUNTERS}

    def warn(self, kind: str, text: str) -> None:
        """Reports trouble unless this kind of trouble was reported."""
        with self._lock:
            if kind in self._warnings:
                return
            self._warnings[kind] = text
        if self._on_warning is not None:
            self._on_warning(text)

    def warnings(self) -> tuple[str, ...]:
        """The warnings given so far."""
        with self._lock:
            return tuple(self._warnings.values())
