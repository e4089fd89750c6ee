"""The daemon's server: connections, requests, state, and the end.

Everything here is one asyncio loop that never computes: what takes long is done by workers, so the state is told at once
whatever they do. The loop reads a few stamps of files, and passes on frames.

A request's answer goes to the client that leads it as it comes. The daemon waits for a client that takes its answer slowly,
and the worker waits for the daemon, so nothing piles up; only an answer that others may share is kept, up to a bound.
"""

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from presk.cli.faults import Faults
from presk.daemon import protocol
from presk.daemon.build import Build
from presk.daemon.connect import peer
from presk.daemon.jobs import SHARED_CODES, Client, Flight, Job, Scheduler, Shared, class_of, may_share, out
from presk.daemon.log import Log
from presk.daemon.messages import (
    Counts,
    Failure,
    Report,
    State,
    Watching,
    WatchState,
    decode_report,
    decode_watching,
    encode,
)
from presk.daemon.places import identity
from presk.daemon.pool import FLAG_SECONDS, MAX_ANSWER, Pool, Worker, WorkerDied, read_frame

if TYPE_CHECKING:
    from presk.daemon.watching import Watcher

HELLO_SECONDS: Final = 10.0
WAITING_SECONDS: Final = 1.0
"""How long a request waits before its client is told for what."""
FAILURES: Final = 20
FAILED: Final = 70
CANCELLED: Final = 130


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a daemon: idle time in seconds (None: for ever), memory of a worker in bytes, jobs of a class at once."""

    idle: float | None = 3 * 3600.0
    worker_memory: int = 2 << 30
    cores: int = 1


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a job ended for the client that led it: an exit code, or nothing where another daemon must be asked."""

    code: int | None


class Server:
    """The server. `release` gives up the daemon's place: it removes the socket and lets go of the lock."""

    def __init__(
        self,
        folder: str,
        build: Build,
        pool: Pool,
        log: Log,
        limits: Limits,
        release: Callable[[], None],
        faults: Faults,
    ) -> None:
        self._folder: Final = folder
        self._build: Final = build
        self._pool: Final = pool
        self._log: Final = log
        self._limits: Final = limits
        self._release: Final = release
        self._faults: Final = faults
        self._identity: Final = identity()
        self._scheduler: Final = Scheduler(limits.cores)
        self._watcher: Watcher | None = None
        self._flights: dict[bytes, Flight] = {}
        self._jobs: dict[int, Job] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._clients: set[Client] = set()
        self._answering: set[Client] = set()
        self._failures: deque[Failure] = deque(maxlen=FAILURES)
        self._counts: dict[str, int] = dict.fromkeys(Counts.__struct_fields__, 0)
        self._last_id = 0
        self._started: Final = time.monotonic()
        self._used = self._started
        self._leaving = ""
        self._ended: Final = asyncio.Event()
        self._server: asyncio.Server | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    async def serve(self, listening: socket.socket, ready: Callable[[], None]) -> None:
        """Serves until it is time to leave."""
        self._server = await asyncio.start_unix_server(self._connected, sock=listening, backlog=256)
        ready()
        self._pool.prepare()
        self._spawn(self._keep_house())
        await self._ended.wait()
        for job in list(self._jobs.values()):
            job.cancelled.set()
        deadline = time.monotonic() + 5 * FLAG_SECONDS
        while (self._jobs or self._answering) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._watcher is not None:
            await self._watcher.close()
        await self._pool.close()
        for client in self._clients:
            client.writer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drain(self, why: str) -> None:
        """Takes no more requests, gives up the place, and leaves when those that are worked on have ended."""
        if self._leaving:
            return
        self._leaving = why
        self._log.write(f"leaving: {why}")
        if self._server is not None:
            self._server.close()
        self._release()
        if self._watcher is not None:
            self._watcher.leave()
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        """A daemon that leaves has ended when its work is done and its clients have taken their answers."""
        if self._leaving and not self._jobs and not self._answering:
            self._ended.set()

    def stop(self, why: str) -> None:
        """Leaves now; what is worked on is cancelled."""
        self.drain(why)
        self._ended.set()

    async def _keep_house(self) -> None:
        while not self._ended.is_set():
            await asyncio.sleep(min(1.0, (self._limits.idle or 1.0) / 4))
            self._pool.trim()
            self._log.rotate()
            if self._leaving:
                continue
            now = time.monotonic()
            if self._jobs or self._clients:
                self._used = now
            if self._limits.idle is not None and now - self._used > self._limits.idle:
                self.stop(f"idle for {self._limits.idle:.0f} s")
            elif not os.path.isdir(self._folder):
                self.stop(f"the folder {self._folder} has vanished")
            elif not self._build.is_there():
                self.stop("the compiler has vanished")

    def _spawn(self, coroutine: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        task: asyncio.Task[object] = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(f"internal error of the daemon: {type(error).__name__}: {error}")

    def _fail(self, text: str) -> None:
        self._failures.append(Failure(time.time(), text))
        self._log.write(text)

    # --- connections --------------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(writer)
        self._clients.add(client)
        try:
            await self._serve(reader, client)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # it went away
        except protocol.Malformed as error:
            self._log.write(f"a connection ends: {error}")
        finally:
            self._clients.discard(client)
            client.leave()
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, client: Client) -> None:
        channel = client.writer.get_extra_info("socket")
        if peer(channel) not in (None, os.geteuid()):
            raise protocol.Malformed("a client of another user")
        async with asyncio.timeout(HELLO_SECONDS):
            kind, payload = await read_frame(reader, protocol.MAX_REQUEST)
        if kind != protocol.HELLO:
            raise protocol.Malformed("a client that does not say hello")
        version, intent, who = protocol.read_hello(payload)
        misfit = self._misfit(version, intent, who)
        if misfit:
            self.drain(misfit)
            client.writer.write(out(protocol.LEAVE, misfit))
            await client.writer.drain()
            return
        client.writer.write(protocol.frame(protocol.WELCOME))
        while True:
            kind, payload = await read_frame(reader, protocol.MAX_REQUEST)
            if kind == protocol.STATUS:
                client.writer.write(protocol.frame(protocol.STATE, encode(self.state())))
            elif kind == protocol.STOP:
                self.stop("stopped by a client")
            elif kind == protocol.RUN:
                self._faults.visit("accept")
                await self._request(reader, client, payload)
                return
            elif kind == protocol.WATCH:
                await self._watch(reader, client, payload)
                return
            else:
                raise protocol.Malformed("a frame that no client sends here")

    def _misfit(self, version: int, intent: int, who: bytes) -> str:
        """Why this daemon cannot serve a client; empty if it can."""
        if version != protocol.VERSION:
            return f"a client speaks version {version} of the protocol, not {protocol.VERSION}"
        if intent == protocol.MANAGE:
            return ""
        if self._leaving:
            return self._leaving
        if who != self._identity:
            return "a client is of another installation"
        return self._build.changed() or ""

    async def _listen(self, reader: asyncio.StreamReader, client: Client) -> None:
        """Waits until the client cancels, or its connection ends."""
        try:
            while (await read_frame(reader, protocol.MAX_REQUEST))[0] != protocol.CANCEL:
                pass
            client.gone.set()
        except (ConnectionError, asyncio.IncompleteReadError, protocol.Malformed):
            client.leave()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _request(self, reader: asyncio.StreamReader, client: Client, payload: bytes) -> None:
        request = protocol.Request(payload)
        self._counts["requests"] += 1
        self._answering.add(client)
        listening = self._spawn(self._listen(reader, client))
        try:
            shares = may_share(request.arguments, request.environment)
            while True:
                flight = self._flights.get(payload) if shares else None
                if flight is None:
                    ended = await self._lead(client, payload, request, shares)
                    break
                shared = await self._follow(client, flight)
                if client.gone.is_set():
                    ended = _Ended(CANCELLED)
                    break
                if shared is not None:
                    self._counts["shared"] += 1
                    for frame in shared.frames:
                        client.write(frame)
                        await client.drain()
                    ended = _Ended(shared.code)
                    break
            if ended.code is None:
                client.write(out(protocol.LEAVE, self._leaving))
            else:
                client.write(protocol.exit_frame(ended.code))
            if client.here:
                # To the last byte: what is only in this process's memory ends with it.
                client.writer.transport.set_write_buffer_limits(0)
                await client.writer.drain()
        finally:
            listening.cancel()
            self._answering.discard(client)
            self._leave_if_done()

    async def _follow(self, client: Client, flight: Flight) -> Shared | None:
        """Waits for the answer of a request that is worked on already; nothing where it must be worked on anew."""
        flight.job.clients.append(client)
        gone = asyncio.ensure_future(client.gone.wait())
        await asyncio.wait((flight.landed, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        flight.job.clients.remove(client)
        if client.gone.is_set():
            self._abandon(flight.job)
            return None
        return flight.landed.result()

    def _abandon(self, job: Job) -> None:
        """A client does not wait any more; a job for which nobody waits is cancelled."""
        if not any(not one.gone.is_set() for one in job.clients):
            job.cancelled.set()

    async def _lead(self, client: Client, payload: bytes, request: protocol.Request, shares: bool) -> _Ended:
        """Has a request worked on, and waits for the end or until the client has gone."""
        self._last_id += 1
        job = Job(self._last_id, payload, request, class_of(request.arguments), [client])
        flight = Flight(job) if shares else None
        self._jobs[job.id] = job
        if flight is not None:
            self._flights[payload] = flight
        ended: asyncio.Future[_Ended] = asyncio.get_running_loop().create_future()
        self._spawn(self._work(job, flight, client, ended))
        gone = asyncio.ensure_future(client.gone.wait())
        await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not ended.done():
            self._abandon(job)
            if not job.cancelled.is_set():
                return _Ended(CANCELLED)  # others wait for it; this client does not
        return await ended

    async def _work(self, job: Job, flight: Flight | None, client: Client, ended: "asyncio.Future[_Ended]") -> None:
        """Works on a job from its place in the queue to the last who waits for it."""
        telling = self._spawn(self._tell_what_it_waits_for(job, client))
        try:
            code, report, worker, shared = await self._attempt(job, flight, client, telling)
            if code is None:
                ended.set_result(_Ended(None))
                return
            if job.cancelled.is_set():
                self._counts["cancelled"] += 1
                code = CANCELLED
            self._log.write(f"job {job.id} exit {code} after {time.monotonic() - job.began:.3f} s")
            self._close_flight(job, flight)
            if not ended.done():
                ended.set_result(_Ended(code))
            if flight is not None and not flight.landed.done():
                if worker is not None and report is not None and len(job.clients) > 1 and code in SHARED_CODES:
                    flight.land(flight.answer(code) if await self._holds(worker, job) else None)
                else:
                    flight.land(shared)
            if worker is not None:
                self._after(worker, job, report)
        finally:
            if not ended.done():
                ended.set_result(_Ended(FAILED))
            telling.cancel()
            self._jobs.pop(job.id, None)
            self._scheduler.leave(job)
            self._close_flight(job, flight)
            if flight is not None:
                flight.land(None)
            self._used = time.monotonic()
            self._leave_if_done()

    def _close_flight(self, job: Job, flight: Flight | None) -> None:
        """Nobody joins any more: who comes now may have seen files that the job has not."""
        if flight is not None and self._flights.get(job.payload) is flight:
            del self._flights[job.payload]

    async def _attempt(
        self, job: Job, flight: Flight | None, client: Client, telling: "asyncio.Task[object]"
    ) -> tuple[int | None, Report | None, Worker | None, Shared | None]:
        """Exit code (nothing where this daemon's code is no longer the disk's), report, the worker if it lives, and what
        is everybody's answer without looking again."""
        worker: Worker | None = None
        try:
            if not await self._until_cancelled(job, self._scheduler.enter(job)):
                return CANCELLED, None, None, None
            telling.cancel()
            fresh = self._pool.started
            acquiring = asyncio.create_task(self._pool.acquire((job.request.directory, tuple(job.request.arguments))))
            if not await self._until_cancelled(job, acquiring):
                acquiring.add_done_callback(self._give_back)
                return CANCELLED, None, None, None
            worker = acquiring.result()
            if (fresh != self._pool.started or worker.done == 0) and (changed := self._build.changed()):
                # It was loaded while the sources changed: nobody knows what it runs.
                self._pool.retire(worker)
                self.drain(changed)
                return None, None, None, None
            job.worker = worker
            worker.job = job.id
            self._log.write(f"job {job.id} begins on worker {worker.pid}: {job.command} (in {job.request.directory})")
            return await self._converse(job, worker, flight, client)
        except WorkerDied as error:
            if worker is not None:
                phase, stack = worker.phase.read(), worker.stack()
                self._pool.retire(worker)
            else:
                phase = stack = ""
            if job.cancelled.is_set():
                return CANCELLED, None, None, None
            frames = self._crash(job, str(error), phase, stack)
            for frame in frames:
                client.write(frame)
            self._pool.prepare()
            return FAILED, None, None, Shared(frames, FAILED)

    def _give_back(self, acquiring: "asyncio.Task[Worker]") -> None:
        """Takes back a worker that came when nobody wanted it any more."""
        if not acquiring.cancelled() and acquiring.exception() is None:
            self._pool.release(acquiring.result())

    async def _until_cancelled(self, job: Job, what: "Coroutine[Any, Any, object] | asyncio.Task[Worker]") -> bool:
        """Waits for something to be done; false if the job was cancelled before, and a coroutine is then cancelled too."""
        task: asyncio.Future[object] = asyncio.ensure_future(what)
        cancelled = asyncio.ensure_future(job.cancelled.wait())
        await asyncio.wait((task, cancelled), return_when=asyncio.FIRST_COMPLETED)
        if not cancelled.done():
            cancelled.cancel()
        if job.cancelled.is_set():
            if task is not what:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            return False
        await task
        return True

    async def _converse(
        self, job: Job, worker: Worker, flight: Flight | None, client: Client
    ) -> tuple[int | None, Report | None, Worker | None, Shared | None]:
        """Passes on what a worker says of a job, until it says that it has ended."""
        await worker.send(protocol.RUN, job.id, job.payload)
        cancelling = self._spawn(self._cancel(job, worker))
        try:
            while True:
                kind, payload = await worker.receive(job.id)
                if kind == protocol.EXIT:
                    try:
                        report = decode_report(payload)
                    except msgspec.MsgspecError as error:
                        raise WorkerDied(await worker.end()) from error
                    if job.request.report:
                        self._pass_on(protocol.frame(protocol.REPORT, payload), flight, client)
                    return report.code, report, worker, None
                if job.cancelled.is_set():
                    # What a command says of its end is for who cancelled it and still listens.
                    client.write(protocol.frame(kind, payload))
                    continue
                self._pass_on(protocol.frame(kind, payload), flight, client)
                if flight is None or not flight.open:
                    await client.drain()
        finally:
            cancelling.cancel()

    def _pass_on(self, frame: bytes, flight: Flight | None, client: Client) -> None:
        """Gives a part of an answer to the client that leads, and keeps it for the others."""
        if flight is not None:
            flight.add(frame)
        if not client.gone.is_set():
            client.write(frame)

    async def _cancel(self, job: Job, worker: Worker) -> None:
        """Once the job is cancelled: the flag, and after its deadline the end of the process group."""
        await job.cancelled.wait()
        with suppress(WorkerDied):
            await worker.send(protocol.CANCEL, job.id)
            await asyncio.sleep(FLAG_SECONDS)
            await worker.end(gently=True)

    async def _holds(self, worker: Worker, job: Job) -> bool:
        """Whether what a job found in the file system is still so."""
        try:
            await worker.send(protocol.RECHECK, job.id)
            while True:
                kind, payload = await worker.receive(job.id)
                if kind == protocol.RECHECKED:
                    return payload == b"\1"
        except WorkerDied:
            return False

    def _after(self, worker: Worker, job: Job, report: Report | None) -> None:
        """Takes a worker back, or replaces it."""
        worker.done += 1
        if report is not None:
            worker.memory = report.memory
            for stage in report.stages:
                for name in ("asked", "memory", "disk", "computed"):
                    self._counts[name] += getattr(stage, name)
        if job.cancelled.is_set() or report is None:
            self._replace(worker)
        elif not report.floats:
            self._fail(
                f"job {job.id} ({job.command}) left another floating-point mode; worker {worker.pid} is replaced"
            )
            self._replace(worker)
        elif report.memory > self._limits.worker_memory:
            self._log.write(f"worker {worker.pid} holds {report.memory} bytes and is replaced")
            self._replace(worker)
        else:
            self._pool.release(worker)

    def _replace(self, worker: Worker) -> None:
        self._pool.retire(worker)
        if not self._leaving:
            self._pool.prepare()

    def _crash(self, job: Job, how: str, phase: str, stack: str) -> list[bytes]:
        """E9004: what the client of a job sees whose worker ended."""
        self._counts["crashed"] += 1
        self._fail(f"job {job.id} ({job.command}): its worker ended: {how}; {phase or 'before it began'}")
        if stack:
            self._log.write(f"job {job.id}: {stack}")
        lines = [f"error[E9004]: the process that worked on this ended: {how}"]
        if phase:
            lines.append(f"  = note: it was working on {phase}")
        lines.append("  = help: `presk daemon log` says more; the daemon and other requests go on")
        return [out(protocol.ERR, "\n".join(lines) + "\n")]

    async def _tell_what_it_waits_for(self, job: Job, client: Client) -> None:
        while True:
            await asyncio.sleep(WAITING_SECONDS)
            text = self._scheduler.waiting_for(job)
            if text and client.here:
                client.writer.write(out(protocol.PROGRESS, text))

    # --- watching and state -------------------------------------------------------------------------------------------

    async def _watch(self, reader: asyncio.StreamReader, client: Client, payload: bytes) -> None:
        """Tells a client of changes of files, until it goes; each `WATCH` frame replaces the files."""
        first = _watching(payload)
        with self._watch_files().subscribe(first.files, Faults(first.faults)) as subscription:
            listening = self._spawn(self._listen_to_watcher(reader, client, subscription.replace))
            try:
                while True:
                    changed = await subscription.changed()
                    if changed is None:
                        client.write(out(protocol.LEAVE, self._leaving))
                        await client.writer.drain()
                        return
                    if client.gone.is_set():
                        return
                    client.write(protocol.frame(protocol.CHANGED, msgspec.json.encode(changed)))
                    await client.drain()
            finally:
                listening.cancel()

    async def _listen_to_watcher(
        self, reader: asyncio.StreamReader, client: Client, replace: "Callable[..., None]"
    ) -> None:
        try:
            while True:
                kind, payload = await read_frame(reader, MAX_ANSWER)
                if kind != protocol.WATCH:
                    raise protocol.Malformed("a frame that no watching client sends")
                replace(_watching(payload).files)
        except (ConnectionError, asyncio.IncompleteReadError, protocol.Malformed):
            client.leave()
            replace(())

    def _watch_files(self) -> "Watcher":
        if self._watcher is None:
            # `watchdog` takes as long to import as all the rest of the daemon, and many a daemon never watches.
            from presk.daemon.watching import Watcher

            self._watcher = Watcher(self._log)
        return self._watcher

    def state(self) -> State:
        """The daemon's state."""
        now = time.monotonic()
        memory = 0
        with suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
            memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        watching = WatchState() if self._watcher is None else self._watcher.state()
        return State(
            os.getpid(),
            str(protocol.VERSION),
            self._build.digest,
            self._folder,
            self._pool.folder,
            now - self._started,
            0.0 if self._jobs else now - self._used,
            self._limits.idle,
            memory,
            self._limits.cores,
            Counts(**{**self._counts, "workers": self._pool.started}),
            tuple(job.state() for job in self._jobs.values()),
            tuple(worker.state() for worker in sorted(self._pool.workers, key=lambda one: one.started)),
            watching,
            tuple(self._failures),
            (f"folders are scanned: {watching.scanning}",) if watching.scanning else (),
        )


def _watching(payload: bytes) -> Watching:
    try:
        return decode_watching(payload)
    except msgspec.MsgspecError as error:
        raise protocol.Malformed("not files to watch") from error
