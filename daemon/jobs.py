"""Requests as the daemon holds them: what they are, when they may run, and who waits for the answer.

There are three classes. Requests of `compile` and of `run` go in parallel, each class up to the number of cores, so that a
check never waits for a training run; a `measure` is alone, and everything that came after it waits.

Two requests that are the same, to the byte, and of which the second came while the first was worked on, are computed once
(`Flight`). The second has the answer only if the files say the same after it came as they said when the first read them.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from presk.daemon import protocol
from presk.daemon.messages import JobState
from presk.daemon.pool import Worker

MAX_SHARED: Final = 8 << 20
"""Bytes of output that are kept for others who ask the same; an answer that is longer is computed for each."""


class Scheduling(Enum):
    """The classes of requests."""

    COMPILE = "compile"
    RUN = "run"
    MEASURE = "measure"


CLASSES: Final = MappingProxyType(
    {
        **dict.fromkeys(("run", "train", "generate", "serve", "sweep", "golden"), Scheduling.RUN),
        **dict.fromkeys(("bench", "calibrate", "autotune", "measure"), Scheduling.MEASURE),
    }
)
"""The class of each command that is not `compile`."""

SHARED: Final = frozenset(("check", "dump", "explain", "run", "why"))
"""The commands that change nothing and depend on nothing but their request and files: two of them are one."""

ALONE: Final = ("--help", "--input", "--out", "--params")
"""How words begin with which a command writes a file, or reads one that no reader of programs has seen (see
`presk.daemon.tracking`)."""

FROM_FILE: Final = "@"
"""What names such a file anywhere in a word: `--realize @FILE`, `--plan=@FILE`, `--plan '{"realization": "@FILE"}'`."""

SHARED_CODES: Final = frozenset((0, 1, 3, 4))
"""The exit codes of answers that would be given again."""


@dataclass(slots=True, eq=False)
class Client:
    """Who waits for an answer. `gone` is set when it cancels or its connection ends; `here` while it can be told."""

    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    here: bool = True
    told: bool = False
    """Whether it has had a part of its answer."""

    def write(self, data: bytes) -> None:
        """Sends bytes, without waiting."""
        if self.here and not self.writer.is_closing():
            self.told = True
            self.writer.write(data)

    async def drain(self) -> None:
        """Waits until the client has taken most of what was sent, or is gone."""
        if not self.here or self.gone.is_set():
            return
        draining = asyncio.ensure_future(self.writer.drain())
        leaving = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait((draining, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if draining.done():
                if draining.exception() is not None:
                    self.leave()
            else:
                draining.cancel()

    def leave(self) -> None:
        """The connection has ended."""
        self.here = False
        self.gone.set()


@dataclass(slots=True, eq=False)
class Job:
    """One request that is worked on, for a client at least."""

    id: int
    payload: bytes
    request: protocol.Request
    scheduling: Scheduling
    clients: list[Client]
    began: float = field(default_factory=time.monotonic)
    running: bool = False
    worker: Worker | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def command(self) -> str:
        """The command line, for people."""
        return " ".join(self.request.arguments)

    def state(self) -> JobState:
        """For the daemon's state."""
        return JobState(
            self.id,
            self.command,
            self.request.directory,
            self.scheduling.value,
            self.running,
            time.monotonic() - self.began,
            self.worker.phase.read() if self.worker is not None and self.running else "",
            self.worker.pid if self.worker is not None else None,
            len(self.clients),
        )


@dataclass(slots=True, eq=False)
class Shared:
    """An answer for everybody who asked: frames without the last, and the exit code."""

    frames: Sequence[bytes]
    code: int


class Flight:
    """A request that is worked on and that others may join. Who joins waits for `landed`: an answer, or nothing."""

    def __init__(self, job: Job) -> None:
        self.job: Final = job
        self.landed: Final[asyncio.Future[Shared | None]] = asyncio.get_running_loop().create_future()
        self._frames: list[bytes] = []
        self._bytes = 0
        self.open = True

    def add(self, frame: bytes) -> None:
        """Keeps a frame of the answer."""
        if self.open:
            self._frames.append(frame)
            self._bytes += len(frame)
            if self._bytes > MAX_SHARED:
                self.land(None)

    def answer(self, code: int) -> Shared:
        """What was kept, as an answer."""
        return Shared(self._frames, code)

    def land(self, shared: Shared | None) -> None:
        """Ends the flight."""
        self.open = False
        if not self.landed.done():
            self.landed.set_result(shared)
        self._frames = []


class Scheduler:
    """Says when jobs may run."""

    def __init__(self, cores: int) -> None:
        self._cores: Final = cores
        self._waiting: list[tuple[Job, asyncio.Future[None]]] = []
        self._running: set[Job] = set()

    async def enter(self, job: Job) -> None:
        """Waits until the job may run; it must `leave`. A wait that is cancelled leaves no trace."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, turn))
        self._advance()
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting = [one for one in self._waiting if one[0] is not job]
            self.leave(job)
            raise
        job.running = True

    def leave(self, job: Job) -> None:
        """The job has ended."""
        job.running = False
        self._running.discard(job)
        self._advance()

    def waiting_for(self, job: Job) -> str:
        """What a job waits for, in a few words; empty if it does not wait."""
        ahead = [one for one in self._running if one.scheduling is Scheduling.MEASURE]
        if ahead:
            return f"waiting: `{ahead[0].command}` is being measured and must be alone"
        if job.scheduling is Scheduling.MEASURE and self._running:
            return f"waiting until nothing else runs ({len(self._running)} requests)"
        return "waiting for a worker" if any(one is job for one, _ in self._waiting) else ""

    def _advance(self) -> None:
        left = []
        held = False
        for job, turn in self._waiting:
            if turn.done():
                continue
            if not held and self._may_run(job):
                self._running.add(job)
                turn.set_result(None)
                continue
            held = held or job.scheduling is Scheduling.MEASURE
            left.append((job, turn))
        self._waiting = left

    def _may_run(self, job: Job) -> bool:
        if job.scheduling is Scheduling.MEASURE:
            return not self._running
        if any(one.scheduling is Scheduling.MEASURE for one in self._running):
            return False
        return sum(one.scheduling is job.scheduling for one in self._running) < self._cores


def class_of(arguments: Sequence[str]) -> Scheduling:
    """The class of a command line."""
    return CLASSES.get(command_of(arguments), Scheduling.COMPILE)


def command_of(arguments: Sequence[str]) -> str:
    """The command of a command line: its first word that is no option."""
    return next((word for word in arguments if not word.startswith("-")), "")


def may_share(arguments: Sequence[str], environment: dict[str, str]) -> bool:
    """Whether two requests of this command line are one. With faults on demand each is its own."""
    return (
        command_of(arguments) in SHARED
        and not environment.get("PRESK_FAULT")
        and not any(word.startswith(ALONE) or FROM_FILE in word for word in arguments)
    )


def out(kind: int, text: str) -> bytes:
    """A frame of text for a client."""
    return protocol.frame(kind, text.encode("utf-8", "backslashreplace"))
