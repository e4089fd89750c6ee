"""The engine: answers stages from memory, from the disk, or by computing them.

``engine.get(stage, *inputs, subject=..., **options)`` makes the key of the answer from the stage's name, fingerprint
and codec, the digests of the inputs and the values of all declared options, and returns a result with the value and
its digest. What depends on the answer is keyed by that digest, so a stage that gives the value it gave before stops
the wave of recomputation (early cutoff) without anybody comparing values.

What the engine guarantees:

* equal keys give equal values, whatever happened to memory and disk in between: a value that was lost is computed
  again, and if that gives another value the stage is not a function of its ingredients (``NotDeterministic``, a bug);
* an exception in a stage passes through and nothing is kept; a ``Transient`` value is used and not kept, and neither
  is the answer of a composite stage that used one;
* one key is computed by one thread at a time; engines share nothing but what they are given.

``subject`` names what the answer is about ("fn mse"): it is no part of the key; logs and explanations speak of it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from presk.cache.codec import BYTES, Codec
from presk.cache.digest import Digest, value_digest
from presk.cache.explain import Explanation, explain
from presk.cache.fingerprint import Fingerprints
from presk.cache.flights import Flights, Landed
from presk.cache.handles import Answer, Group, Handle, Leaf
from presk.cache.history import History
from presk.cache.keys import Call, Prepared
from presk.cache.log import Outcome, RequestLog
from presk.cache.memory import UNLOADED, Entry, Memory
from presk.cache.packages import Packages
from presk.cache.record import Earlier, Record, encode_record, latest
from presk.cache.scope import Scope
from presk.cache.stage import NotDeterministic, NotFaithful, Result, Stage, Transient
from presk.cache.store import Store

T = TypeVar("T")

Data = bytes
"""The type, where a method of that name hides it."""

MEMORY_ENTRIES: Final = 1 << 16
MEMORY_BYTES: Final = 512 << 20

_IMPORTS_MEMO: Final = "imports"
_TOUCH_SECONDS: Final = 600.0
"""How often an answer that is used from memory is reported to the disk as used."""


class Engine:
    """An engine over a store, or over memory alone; see the module's text. Safe to use from several threads.

    ``fingerprints`` may be shared by engines of one process; without it the sources of ``project`` (import name →
    folder; by default the project's own packages) are read now, and ``packages`` identifies third-party packages.
    Memory is bounded by the number of answers and by about their bytes. With ``roundtrip`` every computed value is
    replaced by its decoded encoding and must encode to the same bytes (``NotFaithful``): answers are then the same
    objects as from the disk, which tests use. ``on_compute`` is told the stage and the subject of what is about to be
    computed, so that whoever watches the process knows what it does.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        fingerprints: Fingerprints | None = None,
        project: Mapping[str, Path] | None = None,
        packages: Packages | None = None,
        memory_entries: int = MEMORY_ENTRIES,
        memory_bytes: int = MEMORY_BYTES,
        roundtrip: bool = False,
        on_compute: Callable[[str, str], None] | None = None,
    ) -> None:
        self.store: Final = store
        self.subject: Final = ""
        self.fingerprints: Final = Fingerprints(project, packages) if fingerprints is None else fingerprints
        self._roundtrip: Final = roundtrip
        self._on_compute: Final = on_compute
        self._lock: Final = threading.RLock()
        self._memory: Final = Memory(memory_entries, memory_bytes)
        self._flights: Final = Flights(self._lock)
        self._history: Final = History(store, self._memory, self._lock, memory_entries)
        self._prepared: dict[str, Prepared[Any]] = {}
        self._current: Final = threading.local()
        self._remembers = False

    def get(self, stage: Stage[T], /, *inputs: Result[Any], subject: str = "", **options: object) -> Result[T]:
        """The answer of ``stage`` for these inputs and options.

        Inputs are results of this engine: of stages, or made by ``leaf``, ``bytes`` or ``group``. An option that the
        stage does not declare, a wrong number of inputs or an option that has no canonical encoding is a
        ``TypeError``. Exceptions of the stage's function pass through.
        """
        return self._get(stage, inputs, subject, options, None)

    def leaf(self, name: str, value: T, codec: Codec[T]) -> Result[T]:
        """A given value as an input. What was looked for and is absent is one too, with a codec of an optional type."""
        return Leaf(self, name, value, codec.encode(value), codec.name)

    def bytes(self, name: str, data: bytes) -> Result[bytes]:
        """Given bytes as an input."""
        return self.leaf(name, data, BYTES)

    def group(self, name: str, entries: Mapping[str, Result[T]]) -> Result[Mapping[str, T]]:
        """Results by name as one input, keyed by names and digests; its value maps the names, in order."""
        return Group(self, name, {entry: self._own(held) for entry, held in entries.items()})

    @contextmanager
    def request(self, log: RequestLog | None = None) -> Iterator[RequestLog]:
        """The log of what this thread asks inside; when it ends, what was computed is written to the disk.

        A log that another thread began can be given, so that both threads' events go there. Values used inside stay
        on the disk until the end.
        """
        log = RequestLog() if log is None else log
        outer = getattr(self._current, "log", None)
        self._current.log = log
        try:
            yield log
        finally:
            self._current.log = outer
            pinned = log.unpin()
            if self.store is not None:
                if pinned:
                    self.store.unpin(pinned)
                self.flush()

    def flush(self) -> None:
        """Writes what was computed to the disk."""
        if self.store is not None:
            imports = self.fingerprints.remembered()
            if imports is not None:
                self.store.put_memo(_IMPORTS_MEMO, imports)
            self.store.flush()

    def explain(self, key: Digest) -> Explanation | None:
        """Why the answer under a key was computed when it was, and how it was had the last time this engine was asked.

        Nothing where no record of it is kept.
        """
        return explain(key, self._history)

    def explain_last(self, stage: str, subject: str = "") -> Explanation | None:
        """The explanation of the latest answer of a stage about a subject; nothing where none is known."""
        key = self._history.last_asked(stage, subject)
        return None if key is None else explain(key, self._history)

    def _own(self, held: Result[Any]) -> Handle[Any]:
        # Cheaper than asking for the class first, on a path that is walked for every input of every question.
        if getattr(held, "engine", None) is self:
            return cast("Handle[Any]", held)
        if isinstance(held, Handle):
            raise TypeError("an input is a result of another engine")
        raise TypeError(f"an input is a result of the engine, not {type(held).__qualname__}; see Engine.leaf")

    def _prepare(self, stage: Stage[T]) -> Prepared[T]:
        with self._lock:
            prepared = self._prepared.get(stage.name)
            if prepared is None:
                if not self._remembers and self.store is not None:
                    self._remembers = True
                    memo = self.store.memo(_IMPORTS_MEMO)
                    if memo is not None:
                        with suppress(ValueError):  # of an older form; it is made again
                            self.fingerprints.remember(memo)
                fingerprint = self.fingerprints.of(stage.module, stage.packages)
                prepared = self._prepared[stage.name] = Prepared(stage, fingerprint)
            elif prepared.stage is not stage and not _same(prepared.stage, stage):
                raise TypeError(f"two stages are named {stage.name}")
            return prepared

    def _get(
        self,
        stage: Stage[T],
        inputs: tuple[Result[Any], ...],
        subject: str,
        options: Mapping[str, object],
        scope: Scope | None,
    ) -> Answer[T]:
        began = time.perf_counter()
        prepared = self._prepare(stage)
        handles = tuple([self._own(held) for held in inputs])
        names = prepared.names(handles)
        complete = prepared.complete(options)
        call = Call(prepared, names, handles, complete, subject, prepared.key(names, handles, complete))
        if scope is None:
            return self._answer(call, (), getattr(self._current, "log", None), began)
        scope.admit(prepared)
        answer = self._answer(call, scope.path, scope.log, began)
        scope.passed(answer.transient, time.perf_counter() - began)
        return answer

    def _answer(
        self, call: Call[T], path: tuple[Digest, ...], log: RequestLog | None, began: float, lost: bool = False
    ) -> Answer[T]:
        """The answer of a call made by computations with the keys ``path``; computed in any case if it was ``lost``."""
        key = call.key
        while True:
            with self._lock:
                entry = None if lost else self._memory.get(key)
                if entry is not None:
                    entry.outcome = "memory"
                    return self._reuse(call, entry, "memory", log, began)
                if self._flights.start(key):
                    break
                joined = self._flights.join(key, path)
            landed = self._flights.wait(joined)
            if landed is not None:
                self._log_reuse(call, "memory", log, began)
                return self._landed(call, landed, log)
        landed = None
        try:
            entry = None if lost else self._from_disk(call, began)
            if entry is not None:
                landed = Landed(entry.digest, entry.size, UNLOADED, False)
                return self._reuse(call, entry, "disk", log, began)
            landed = self._compute(call, path, log, began)
            return self._landed(call, landed, log)
        finally:
            with self._lock:
                self._flights.end(key, landed)

    def _from_disk(self, call: Call[T], began: float) -> Entry | None:
        head = None if self.store is None else self.store.answer(call.key)
        if head is None:
            return None
        entry = Entry(head.value, head.size, b"", UNLOADED, 0, began)
        entry.outcome = "disk"
        with self._lock:
            self._memory.put(call.key, entry)
        return entry

    def _reuse(self, call: Call[T], entry: Entry, outcome: Outcome, log: RequestLog | None, began: float) -> Answer[T]:
        store = self.store
        if store is not None:
            if entry.value is UNLOADED and log is not None and log.pin(entry.digest):
                store.pin(entry.digest)
            if began - entry.used > _TOUCH_SECONDS:
                entry.used = began
                store.touch(call.key, entry.digest)
        self._log_reuse(call, outcome, log, began)
        return self._landed(call, Landed(entry.digest, entry.size, entry.value, False), log)

    def _log_reuse(self, call: Call[T], outcome: Outcome, log: RequestLog | None, began: float) -> None:
        name = call.prepared.stage.name
        with self._lock:
            self._history.asked(name, call.subject, call.key)
        if log is not None:
            log.reused(name, outcome, time.perf_counter() - began)

    def _landed(self, call: Call[T], landed: Landed, log: RequestLog | None) -> Answer[T]:
        read = partial(self._read, call, landed, log) if landed.value is UNLOADED else None
        codec = call.prepared.stage.codec
        return Answer(self, call.key, landed.digest, codec.name, landed.value, read, landed.transient)

    def _read(self, call: Call[T], landed: Landed, log: RequestLog | None) -> T:
        """The value of an answer that was found on the disk; computed again where it is lost."""
        began = time.perf_counter()
        stage = call.prepared.stage
        with self._lock:
            entry = self._memory.peek(call.key)
            if entry is not None and entry.value is not UNLOADED and entry.digest == landed.digest:
                return cast("T", entry.value)
        data = None if self.store is None else self.store.value(landed.digest)
        if data is not None and self.store is not None:
            try:
                value = stage.codec.decode(data)
            except ValueError:
                self.store.health.count("damaged")
                self.store.discard(landed.digest)
            else:
                with self._lock:
                    self._memory.load(call.key, value, len(data) * stage.codec.weight)
                if log is not None:
                    log.read(stage.name, time.perf_counter() - began)
                return value
        with self._lock:
            self._memory.drop(call.key)
        answer = self._answer(call, (), log, began, lost=True)
        if answer.digest != landed.digest:
            raise NotDeterministic(f"{stage.name} ({call.subject}) gave another value for key {call.key.hex()}")
        return answer.value

    def _compute(self, call: Call[T], path: tuple[Digest, ...], log: RequestLog | None, began: float) -> Landed:
        prepared, stage, key = call.prepared, call.prepared.stage, call.key
        earlier = self._history.earlier(stage.name, call.subject)
        scope = Scope(self, self._get, prepared, (*path, key), log, call.subject) if stage.composite else None
        keyed = time.perf_counter()
        arguments = call.arguments(scope)
        if self._on_compute is not None:
            self._on_compute(stage.name, call.subject)
        started = time.perf_counter()
        out: T | Transient[T] = stage.run(*arguments, **call.options)
        finished = time.perf_counter()
        transient = isinstance(out, Transient) or (scope is not None and scope.transient)
        value = out.value if isinstance(out, Transient) else out
        data = stage.codec.encode(value)
        if self._roundtrip:
            value = stage.codec.decode(data)
            if stage.codec.encode(value) != data:
                raise NotFaithful(f"{stage.name} ({call.subject}): the decoded value is encoded otherwise")
        digest = value_digest(data)
        computing = finished - started - (0.0 if scope is None else scope.seconds)
        if not transient:
            record = Record(
                digest,
                len(data),
                stage.name,
                call.subject,
                stage.codec.name,
                prepared.ingredients(call.names, call.inputs, call.options),
                earlier,
                computing,
            )
            self._keep(call, record, value, data, began)
            if self.store is not None and log is not None and log.pin(digest):
                self.store.pin(digest)
        with self._lock:
            self._history.asked(stage.name, call.subject, key)
        if log is not None:
            unchanged = bool(earlier) and earlier[0].value == digest and earlier[0].key != key
            overhead = keyed - began + time.perf_counter() - finished
            log.made(stage.name, call.subject, unchanged, max(0.0, computing), overhead)
        return Landed(digest, len(data), value, transient)

    def _keep(self, call: Call[T], record: Record, value: T, data: Data, began: float) -> None:
        """Keeps a computed answer and what it was made from, in memory and in the store."""
        prepared, key, history = call.prepared, call.key, self._history
        encoded = encode_record(key, record)
        entry = Entry(record.value, record.size, encoded, value, len(data) * prepared.stage.codec.weight, began)
        now = latest(Earlier(key, record.value), record.earlier)
        with self._lock:
            self._memory.put(key, entry)
        history.made(record.stage, record.subject, key, record.value, now)
        if not prepared.stored:
            prepared.stored = True
            history.note(prepared.fingerprint.digest, prepared.fingerprint.parts)
        for held in call.inputs:
            _note(held, history)
        if self.store is not None:
            self.store.put_value(record.value, data, key)
            self.store.put_record(key, encoded)
            self.store.put_earlier(record.stage, record.subject, now)


def _same(a: Stage[Any], b: Stage[Any]) -> bool:
    """Whether two stage objects say the same."""
    one, other = ((s.module, s.options, s.run, s.codec.name, s.packages, s.composite) for s in (a, b))
    return one == other


def _note(held: Handle[Any], history: History) -> None:
    """Keeps the bytes of a given input, so that an answer can be explained and verified."""
    if isinstance(held, Leaf | Group) and not held.stored:
        held.stored = True
        history.note(held.digest, held.data)
        if isinstance(held, Group):
            for entry in held.entries.values():
                _note(entry, history)
