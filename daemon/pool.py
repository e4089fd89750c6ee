"""The worker processes as the daemon sees them: started, asked, ended.

A worker is a program of its own in a session of its own (spawned, never forked: the daemon has threads, and what is loaded in
one process must not be half-copied into another). Who works on a cancelled request is ended with its whole process group,
by a flag, then SIGTERM, then SIGKILL, each with a deadline, and replaced: whatever it still says is nobody else's answer.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from presk.daemon import protocol
from presk.daemon.log import Log
from presk.daemon.messages import WorkerState
from presk.daemon.phase import Phase, shared_file

FLAG_SECONDS: Final = 1.0
"""How long a request may take to notice that it was cancelled."""
TERM_SECONDS: Final = 1.0
"""How long a process group may take to end after SIGTERM."""
BOOT_SECONDS: Final = 60.0
MAX_ANSWER: Final = 256 << 20
SPARE_SECONDS: Final = 300.0
"""How long a worker without work is kept, if there is another."""
STACK_BYTES: Final = 4000


class WorkerDied(Exception):
    """A worker ended while it was needed; the text says how."""


class Worker:
    """One worker process."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: socket.socket, phase: Phase, stacks: str) -> None:
        self.process: Final = process
        self.pid: Final = process.pid
        self.phase: Final = phase
        self.stacks: Final = stacks
        self.started: Final = time.monotonic()
        self.rested = self.started
        self.job: int | None = None
        self.done = 0
        self.memory = 0
        self.affinity: object = None
        self.ready = False
        self.ending = False
        self._hung_up = False
        self._channel: Final = channel
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def boot(self) -> None:
        """Waits until the worker is ready; `WorkerDied` where it does not get there."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._channel)
        try:
            async with asyncio.timeout(BOOT_SECONDS):
                kind, _ = await read_frame(self._reader, MAX_ANSWER)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, protocol.Malformed) as error:
            raise WorkerDied(await self.end()) from error
        if kind != protocol.READY:
            raise WorkerDied(await self.end())
        self.ready = True

    async def send(self, kind: int, job: int, payload: bytes = b"") -> None:
        """Sends a message about a request; `WorkerDied` where nobody is there."""
        assert self._writer is not None  # booted
        try:
            self._writer.write(protocol.frame(kind, job.to_bytes(8, "little") + payload))
            await self._writer.drain()
        except ConnectionError as error:
            raise WorkerDied(await self.end()) from error

    async def receive(self, job: int) -> tuple[int, bytes]:
        """The next message about a request; `WorkerDied` where the worker ended."""
        assert self._reader is not None
        while True:
            try:
                kind, payload = await read_frame(self._reader, MAX_ANSWER)
            except (ConnectionError, asyncio.IncompleteReadError, protocol.Malformed) as error:
                raise WorkerDied(await self.end()) from error
            if int.from_bytes(payload[:8], "little") == job:
                return kind, payload[8:]

    async def end(self, gently: bool = False) -> str:
        """Ends the process group and says how the process ended, in a few words."""
        self.ending = True
        if gently and self.is_alive():
            self._signal(signal.SIGTERM)
            await self._wait(TERM_SECONDS)
        elif self.is_alive():
            # Its socket has ended, so it is ending; a moment, to learn of what.
            await self._wait(FLAG_SECONDS)
        # Its children too, and in any case: a group outlives the process that it was made for.
        self._signal(signal.SIGKILL)
        while self.process.poll() is None:
            await asyncio.sleep(0.002)
        if self._writer is not None:
            self._writer.close()
        else:
            self._channel.close()
        return how_it_ended(self.process.returncode)

    def stack(self) -> str:
        """The Python stack that the process left when it crashed; empty if it left none."""
        try:
            with open(self.stacks, encoding="utf-8", errors="replace") as file:
                return file.read(STACK_BYTES)
        except OSError:
            return ""

    def state(self) -> WorkerState:
        """For the daemon's state."""
        what = (
            "ending" if self.ending else "starting" if not self.ready else "works" if self.job is not None else "idle"
        )
        return WorkerState(self.pid, what, self.job, self.done, self.memory, time.monotonic() - self.started)

    def hang_up(self) -> None:
        """Ends the socket of a process that has ended, behind what it has said.

        A process that it left, which is none of ours any more, may hold the other end open: who waits would wait for that one.
        """
        if not self._hung_up:
            self._hung_up = True
            with suppress(OSError):
                self._channel.shutdown(socket.SHUT_RD)

    def is_alive(self) -> bool:
        """Whether the process runs. One that has ended is looked at and left, so that its number stays its own."""
        if self.process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    async def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.is_alive() and time.monotonic() < deadline:
            await asyncio.sleep(0.002)

    def _signal(self, number: int) -> None:
        """Signals the process group, if its number is still ours: nobody else has it until the process is waited for."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


class Pool:
    """The workers of a daemon. `folder` is for their temporary files, `environment` theirs."""

    def __init__(self, folder: str, environment: Mapping[str, str], log: Log) -> None:
        self.folder: Final = folder
        self._environment: Final = dict(environment)
        self._log: Final = log
        self._idle: list[Worker] = []
        self._booting: dict[Worker, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.workers: Final[set[Worker]] = set()
        self.started = 0

    def prepare(self) -> None:
        """Starts a worker before anybody asks, if none is idle or starting."""
        if not self._idle and not self._booting:
            worker = self._spawn()
            self._booting[worker] = asyncio.create_task(self._boot(worker))

    async def acquire(self, affinity: object) -> Worker:
        """A worker: one that worked on the like before, else one that worked last, else a new one. `WorkerDied`."""
        while self._idle:
            at = next((i for i, one in enumerate(self._idle) if one.affinity == affinity), -1)
            worker = self._idle.pop(at)
            if worker.is_alive():
                worker.affinity = affinity
                return worker
            self.retire(worker)
        if self._booting:
            worker = next(iter(self._booting))
            task = self._booting.pop(worker)
        else:
            worker = self._spawn()
            task = asyncio.create_task(self._boot(worker))
        worker.affinity = affinity
        try:
            await task
        except WorkerDied:
            self.retire(worker)
            raise
        return worker

    def release(self, worker: Worker) -> None:
        """Takes back a worker that is fit for another request."""
        worker.job = None
        worker.rested = time.monotonic()
        self._idle.append(worker)

    def retire(self, worker: Worker) -> None:
        """Ends a worker, without waiting for it."""
        self.workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        task = asyncio.create_task(self._end(worker))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def trim(self) -> None:
        """Ends workers that rest for long, all but one, and those that ended by themselves. To be called now and then."""
        now = time.monotonic()
        for worker in self.workers:
            if not worker.is_alive():
                worker.hang_up()
        for worker in list(self._idle):
            if not worker.is_alive() or (len(self._idle) > 1 and now - worker.rested > SPARE_SECONDS):
                self.retire(worker)

    async def close(self) -> None:
        """Ends all workers."""
        for worker in list(self.workers):
            self.retire(worker)
        for task in self._booting.values():
            task.cancel()
        self._booting.clear()
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _spawn(self) -> Worker:
        self.started += 1
        stacks = os.path.join(self.folder, f"stack-{self.started}")
        ours, theirs = socket.socketpair()
        descriptor = shared_file(self.folder)
        try:
            phase = Phase(descriptor)
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "presk.daemon.worker"),
                    *(str(theirs.fileno()), str(descriptor), stacks, str(os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                cwd="/",
                env=self._environment,
                pass_fds=(theirs.fileno(), descriptor),
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
            theirs.close()
        ours.setblocking(False)
        worker = Worker(process, ours, phase, stacks)
        self.workers.add(worker)
        self._log.write(f"worker {worker.pid} starts")
        return worker

    async def _boot(self, worker: Worker) -> None:
        try:
            await worker.boot()
        except WorkerDied as error:
            self._log.write(f"worker {worker.pid} did not start: {error}")
            if self._booting.pop(worker, None) is None:
                raise  # somebody waits for it
            self.retire(worker)
            return
        if self._booting.pop(worker, None) is not None:
            self.release(worker)

    async def _end(self, worker: Worker) -> None:
        how = await worker.end(gently=True)
        worker.phase.close()
        with suppress(OSError):
            os.unlink(worker.stacks)
        self._log.write(f"worker {worker.pid} ended: {how}")


async def read_frame(reader: asyncio.StreamReader, limit: int) -> tuple[int, bytes]:
    """The next frame; `Malformed` if it is longer than `limit`, `IncompleteReadError` at the end."""
    kind, length = protocol.head(await reader.readexactly(protocol.HEAD))
    if length > limit:
        raise protocol.Malformed("a frame is too long")
    return kind, await reader.readexactly(length)


def how_it_ended(code: int | None) -> str:
    """How a process ended, in words, from what `Popen` says."""
    if code is None:
        return "it has not ended"
    if code >= 0:
        return f"it left with {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    meaning = {"SIGSEGV": "a bad access to memory", "SIGKILL": "killed, as the system does when memory runs out"}
    return f"{name}: {meaning[name]}" if name in meaning else name
