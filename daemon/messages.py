"""What the daemon's side says of itself, as JSON: reports of workers on requests, and the daemon's state.

These are values of this process and of its like; the thin client never reads them.
"""

import msgspec
from msgspec import Struct


class Observed(Struct, frozen=True, omit_defaults=True):
    """A file that a request asked for, and what it found.

    `digest` is that of the bytes, as hexadecimal digits; empty where there was no file to read. A file that is looked at
    by its times alone, since it is large (data) or a link, has a `stamp`: size, times in nanoseconds, inode. `fresh` is a
    file of which nothing was found yet.
    """

    path: str
    digest: str = ""
    stamp: tuple[int, int, int, int] | None = None
    fresh: bool = False


class Watching(Struct, frozen=True, omit_defaults=True):
    """What a client wants to be watched; `faults` as in `PRESK_FAULT`."""

    files: tuple[Observed, ...] = ()
    faults: str = ""


class StageReport(Struct, frozen=True, omit_defaults=True):
    """What a request did in one stage; `subjects` are some of those that were computed."""

    stage: str
    asked: int = 0
    computed: int = 0
    memory: int = 0
    disk: int = 0
    unchanged: int = 0
    subjects: tuple[str, ...] = ()


class Report(Struct, frozen=True, omit_defaults=True):
    """What a worker says when a request has ended. `memory` is what the process holds, in bytes.

    `floats` is false where the floating-point mode of the process is not what it was before the request.
    """

    job: int
    code: int
    seconds: float = 0.0
    stages: tuple[StageReport, ...] = ()
    files: tuple[Observed, ...] = ()
    memory: int = 0
    floats: bool = True


class Failure(Struct, frozen=True):
    """An error that the daemon remembers."""

    when: float
    text: str


class JobState(Struct, frozen=True):
    """A request that waits or runs. `phase` is the stage that is being computed, and of what; `clients` wait for it."""

    id: int
    command: str
    directory: str
    scheduling: str
    running: bool
    seconds: float
    phase: str
    worker: int | None
    clients: int


class WorkerState(Struct, frozen=True):
    """A worker process. `memory` is what it holds, in bytes."""

    pid: int
    state: str
    job: int | None
    done: int
    memory: int
    seconds: float


class WatchState(Struct, frozen=True):
    """What is watched; `scanning` says why folders are scanned instead of watched, where they are."""

    watchers: int = 0
    files: int = 0
    folders: tuple[str, ...] = ()
    scanning: str = ""
    events: int = 0
    rescans: int = 0


class Counts(Struct, frozen=True):
    """What happened since the daemon began. `shared` requests had the answer of another that was the same.

    `asked`, `memory`, `disk` and `computed` are of stages: how often they were asked, and how the answer was had.
    """

    requests: int = 0
    shared: int = 0
    cancelled: int = 0
    crashed: int = 0
    workers: int = 0
    asked: int = 0
    memory: int = 0
    disk: int = 0
    computed: int = 0


class State(Struct, frozen=True):
    """The daemon's state. Times are in seconds, memory in bytes; `idle_limit` is None where it stays for ever.

    In `temporary` there is a lock that is held until the process has ended.
    """

    pid: int
    version: str
    build: str
    folder: str
    temporary: str
    seconds: float
    idle_seconds: float
    idle_limit: float | None
    memory: int
    cores: int
    counts: Counts
    jobs: tuple[JobState, ...]
    workers: tuple[WorkerState, ...]
    watching: WatchState
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...] = ()


def encode(value: Struct) -> bytes:
    """A value as JSON."""
    return msgspec.json.encode(value)


def decode_report(data: bytes) -> Report:
    """The inverse; `ValueError` for anything else."""
    return msgspec.json.decode(data, type=Report)


def decode_state(data: bytes) -> State:
    """The inverse; `ValueError` for anything else."""
    return msgspec.json.decode(data, type=State)


def decode_watching(data: bytes) -> Watching:
    """The payload of a `WATCH` frame; `ValueError` for anything else."""
    return msgspec.json.decode(data, type=Watching)


def decode_changed(data: bytes) -> list[str]:
    """The payload of a `CHANGED` frame; `ValueError` for anything else."""
    return msgspec.json.decode(data, type=list[str])
