"""The log of one request: which stages were asked, what was computed and what reused, and the time it took.

``table`` is what ``--stats`` prints; ``computed`` is what tests assert on.
"""

import threading
from typing import Final, Literal

from presk.cache.digest import Digest

Outcome = Literal["computed", "transient", "memory", "disk"]


class StageCounts:
    """What happened to one stage during a request; times are in seconds.

    ``asked = computed + memory + disk`` (a transient answer counts as computed). ``unchanged`` counts computed
    answers whose value was that of the answer before about the same subject. ``computing`` is the time in the stage
    itself, without the stages that it asked; ``reading`` is what finding and decoding answers took.
    """

    __slots__ = ("computed", "computing", "disk", "memory", "overhead", "unchanged")

    def __init__(self) -> None:
        self.computed = 0
        self.memory = 0
        self.disk = 0
        self.unchanged = 0
        self.computing = 0.0
        self.overhead = 0.0

    @property
    def asked(self) -> int:
        """How often the stage was asked."""
        return self.computed + self.memory + self.disk


class RequestLog:
    """The log of one request; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._stages: dict[str, StageCounts] = {}
        self._computed: dict[str, set[str]] = {}
        self._pinned: set[Digest] = set()

    def reused(self, stage: str, outcome: Outcome, seconds: float) -> None:
        """Notes an answer from memory or from the disk."""
        with self._lock:
            counts = self._counts(stage)
            if outcome == "memory":
                counts.memory += 1
            else:
                counts.disk += 1
            counts.overhead += seconds

    def made(self, stage: str, subject: str, unchanged: bool, computing: float, overhead: float) -> None:
        """Notes an answer that was computed."""
        with self._lock:
            counts = self._counts(stage)
            counts.computed += 1
            counts.unchanged += unchanged
            counts.computing += computing
            counts.overhead += overhead
            self._computed.setdefault(stage, set()).add(subject)

    def read(self, stage: str, seconds: float) -> None:
        """Notes the time that reading a value took after its answer had been found."""
        with self._lock:
            self._counts(stage).overhead += seconds

    def pin(self, digest: Digest) -> bool:
        """Notes a value that the request uses; says whether it is the first time."""
        with self._lock:
            if digest in self._pinned:
                return False
            self._pinned.add(digest)
            return True

    def unpin(self) -> frozenset[Digest]:
        """The values that were pinned, which are no longer."""
        with self._lock:
            pinned, self._pinned = frozenset(self._pinned), set()
            return pinned

    def computed(self, stage: str) -> frozenset[str]:
        """The subjects that a stage computed."""
        with self._lock:
            return frozenset(self._computed.get(stage, ()))

    def counts(self, stage: str) -> StageCounts:
        """What happened to a stage; all zero for one that was not asked."""
        with self._lock:
            return self._stages.get(stage, StageCounts())

    def stages(self) -> tuple[str, ...]:
        """The stages that were asked, in the order in which they first were."""
        with self._lock:
            return tuple(self._stages)

    def total(self) -> StageCounts:
        """The sum over all stages."""
        total = StageCounts()
        with self._lock:
            for counts in self._stages.values():
                for name in StageCounts.__slots__:
                    setattr(total, name, getattr(total, name) + getattr(counts, name))
        return total

    def table(self) -> str:
        """One line per stage and one for their sum, as text."""
        lines: list[tuple[str, ...]] = [
            ("stage", "asked", "computed", "memory", "disk", "unchanged", "computing", "overhead")
        ]
        named = [(name, self.counts(name)) for name in self.stages()]
        for name, counts in (*named, ("total", self.total())):
            numbers = (counts.asked, counts.computed, counts.memory, counts.disk, counts.unchanged)
            times = (_milliseconds(counts.computing), _milliseconds(counts.overhead))
            lines.append((name, *(str(number) for number in numbers), *times))
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        return "".join(
            "  ".join(
                [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            )
            + "\n"
            for line in lines
        )

    def _counts(self, stage: str) -> StageCounts:
        counts = self._stages.get(stage)
        if counts is None:
            counts = self._stages[stage] = StageCounts()
        return counts


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
