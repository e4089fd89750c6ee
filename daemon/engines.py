"""The engines of a worker: warm from one request to the next, one for each store, and watched.

An engine whose store has warned of something is not used again: a process that begins would warn of it as well, and
what a client sees must not depend on who asked before.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from presk.cache.engine import Engine
from presk.cache.files import default_folder
from presk.cache.fingerprint import Fingerprints
from presk.cache.log import RequestLog
from presk.cache.store import Store
from presk.cli.faults import FaultyFiles, faults_of
from presk.cli.request import Request
from presk.daemon.messages import StageReport

KEPT: Final = 4
"""How many stores a worker keeps open."""
MEMORY_BYTES: Final = 64 << 20
MEMORY_ENTRIES: Final = 1 << 14
"""What an engine keeps in memory: some thirty programs of the size of a small GPT; the rest is on the disk."""
SUBJECTS: Final = 8
"""How many subjects of a stage are named in a report."""


class WatchedEngine(Engine):
    """An engine that hands out the logs of its requests, and says what it computes."""

    def __init__(self, store: Store | None, fingerprints: Fingerprints, on_compute: Callable[[str, str], None]) -> None:
        super().__init__(
            store,
            fingerprints=fingerprints,
            memory_entries=MEMORY_ENTRIES,
            memory_bytes=MEMORY_BYTES,
            on_compute=on_compute,
        )
        self.logs: list[RequestLog] = []

    @contextmanager
    def request(self, log: RequestLog | None = None) -> Iterator[RequestLog]:
        """As `Engine.request`."""
        with super().request(log) as given:
            self.logs.append(given)
            yield given


class Engines:
    """The engines of one process, by the folders of their stores."""

    def __init__(self, fingerprints: Fingerprints, on_compute: Callable[[str, str], None]) -> None:
        self._fingerprints: Final = fingerprints
        self._on_compute: Final = on_compute
        self._kept: OrderedDict[Path | None, WatchedEngine] = OrderedDict()
        self._used: list[tuple[Path | None, WatchedEngine, bool]] = []
        self._request: Request | None = None

    def engine(self, request: Request) -> Engine:
        """The engine for a request; what it has to warn of goes to that request."""
        self._request = request
        folder = default_folder(request.env, request.cwd)
        faults = faults_of(request.env)
        kept = None if faults else self._kept.get(folder)
        if kept is None:
            store = None
            if folder is not None:
                files = FaultyFiles(faults) if faults else None
                store = Store(folder, on_warning=self._warn, files=files)
            kept = WatchedEngine(store, self._fingerprints, self._on_compute)
        self._used.append((folder, kept, not faults))
        return kept

    def finish(self) -> tuple[StageReport, ...]:
        """Ends a request: what it did, stage by stage. Engines that can be used again are kept."""
        reports = _reports([log for _, engine, _ in self._used for log in engine.logs])
        for folder, engine, keep in self._used:
            engine.logs.clear()
            store = engine.store
            if keep and (store is None or not store.health.warnings()):
                self._kept[folder] = engine
                self._kept.move_to_end(folder)
            else:
                self._kept.pop(folder, None) if keep else None
                if store is not None:
                    store.close()
        self._used.clear()
        self._request = None
        while len(self._kept) > KEPT:
            _, oldest = self._kept.popitem(last=False)
            if oldest.store is not None:
                oldest.store.close()
        return reports

    def stores(self) -> list[Store]:
        """The stores that are open between requests."""
        return [engine.store for engine in self._kept.values() if engine.store is not None]

    def close(self) -> None:
        """Lets go of everything."""
        for store in self.stores():
            store.close()
        self._kept.clear()

    def _warn(self, text: str) -> None:
        if self._request is not None:
            self._request.complain(f"presk: warning: {text}")


def _reports(logs: list[RequestLog]) -> tuple[StageReport, ...]:
    found: dict[str, StageReport] = {}
    for log in logs:
        for stage in log.stages():
            counts = log.counts(stage)
            before = found.get(stage, StageReport(stage))
            subjects = (*before.subjects, *sorted(log.computed(stage)))
            found[stage] = StageReport(
                stage,
                before.asked + counts.asked,
                before.computed + counts.computed,
                before.memory + counts.memory,
                before.disk + counts.disk,
                before.unchanged + counts.unchanged,
                tuple(dict.fromkeys(subjects))[:SUBJECTS],
            )
    return tuple(found.values())
