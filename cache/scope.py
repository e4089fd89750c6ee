"""The engine as a composite stage sees it while it is computed (``presk.cache.stage.Queries``).

What the stage asks for is noted: a transient answer makes the stage's own answer transient, and the time is not the
stage's.
"""

import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

from presk.cache.codec import Codec
from presk.cache.digest import Digest
from presk.cache.handles import Answer
from presk.cache.keys import Prepared
from presk.cache.log import RequestLog
from presk.cache.stage import Queries, Result, Stage

T = TypeVar("T")


class Ask(Protocol):
    """How the engine is asked from inside a computation."""

    def __call__(
        self,
        stage: Stage[T],
        inputs: tuple[Result[Any], ...],
        subject: str,
        options: Mapping[str, object],
        scope: "Scope | None",
        /,
    ) -> Answer[T]:
        """The answer of a stage."""


class Scope:
    """One computation's view of the engine.

    ``path`` holds the keys of the computations around it, its own the last; ``transient`` says whether it was given
    an answer that must not be kept, ``seconds`` what the stages that it asked took.
    """

    def __init__(
        self,
        engine: Queries,
        ask: Ask,
        prepared: Prepared[Any],
        path: tuple[Digest, ...],
        log: RequestLog | None,
        subject: str,
    ) -> None:
        self.path: Final = path
        self.log: Final = log
        self.subject: Final = subject
        self.transient = False
        self.seconds = 0.0
        self._engine: Final = engine
        self._ask: Final = ask
        self._prepared: Final = prepared
        self._lock: Final = threading.Lock()

    def get(self, stage: Stage[T], /, *inputs: Result[Any], subject: str = "", **options: object) -> Result[T]:
        """As ``Engine.get``."""
        return self._ask(stage, inputs, subject, options, self)

    def leaf(self, name: str, value: T, codec: Codec[T]) -> Result[T]:
        """As ``Engine.leaf``."""
        return self._engine.leaf(name, value, codec)

    def bytes(self, name: str, data: bytes) -> Result[bytes]:
        """As ``Engine.bytes``."""
        return self._engine.bytes(name, data)

    def group(self, name: str, entries: Mapping[str, Result[T]]) -> Result[Mapping[str, T]]:
        """As ``Engine.group``."""
        return self._engine.group(name, entries)

    def admit(self, asked: Prepared[Any]) -> None:
        """Checks that this stage's key covers the code of a stage that it asks; ``TypeError`` where it does not."""
        outer, inner = self._prepared.stage, asked.stage
        if inner.name in self._prepared.admitted:
            return
        if inner.module not in self._prepared.fingerprint.reach:
            raise TypeError(
                f"stage {outer.name} asks {inner.name}, whose module {inner.module} its module does not import"
            )
        missing = set(inner.packages).difference(outer.packages)
        if missing:
            raise TypeError(f"stage {outer.name} asks {inner.name} and must declare its packages: {', '.join(missing)}")
        self._prepared.admitted.add(inner.name)

    def passed(self, transient: bool, seconds: float) -> None:
        """Notes an answer that the stage was given."""
        with self._lock:
            self.transient |= transient
            self.seconds += seconds
