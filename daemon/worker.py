"""A worker: a process that works on one request at a time, with its engines warm from one to the next.

It is started by the daemon as a program of its own, in a session of its own, and talks to it over one socket, whose every
message bears the number of the request that it is about. The main thread works; a second one listens, so that a
cancellation is heard at any time. When the daemon has gone, the socket ends, and the process group with it; where native
code does not let the listening thread run, the system's own signal at the death of a parent does the same.

What a request may know of its surroundings comes from the client: arguments, directory, environment, terminal, mask of
modes. While it is worked on they are this process's too, for libraries that look there (Typer's completion does).
"""

import ctypes
import faulthandler
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Final

# The index is imported when a store is first used; here that is always, and it should be of the code that is running.
import presk.cache.rows  # noqa: F401
from presk.cache.fingerprint import Fingerprints
from presk.cache.packages import Packages
from presk.cli import app
from presk.cli.exits import Exit
from presk.cli.faults import Faults, faults_of
from presk.cli.output import ERR, OUT, Output
from presk.cli.request import Terminal
from presk.daemon import floats, protocol
from presk.daemon.engines import Engines
from presk.daemon.messages import Report, encode
from presk.daemon.phase import Phase
from presk.daemon.tracking import Tracker
from presk.kernels.identity import IDENTITIES

_PR_SET_PDEATHSIG: Final = 1
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_KINDS: Final = {OUT: protocol.OUT, ERR: protocol.ERR}

Message = tuple[int, int, bytes]
"""Kind, number of the request, payload."""


def message(kind: int, job: int, payload: bytes = b"") -> bytes:
    """A frame about a request."""
    return protocol.frame(kind, job.to_bytes(8, "little") + payload)


def read_message(kind: int, payload: bytes) -> Message:
    """The inverse, from a frame."""
    return kind, int.from_bytes(payload[:8], "little"), payload[8:]


class Worker:
    """The process's state: its socket, its engines, the request that is worked on."""

    def __init__(self, channel: socket.socket, phase: Phase) -> None:
        self._channel: Final = channel
        self._phase: Final = phase
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        # Read before anything else could be imported at a later time; the daemon compares it with the disk.
        self._engines: Final = Engines(Fingerprints(packages=Packages(IDENTITIES)), phase.computing)
        self._command: Final = app.command()
        self._lock: Final = threading.Lock()
        self._working: int | None = None
        self._tracker = Tracker()

    def run(self) -> None:
        """Works until the daemon has gone."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        self._channel.sendall(protocol.frame(protocol.READY))
        while True:
            kind, job, payload = self._inbox.get()
            if kind == protocol.RUN:
                report = self._work(job, payload)
                self._channel.sendall(message(protocol.EXIT, job, encode(report)))
            elif kind == protocol.RECHECK:
                holds = self._tracker.holds()
                self._channel.sendall(message(protocol.RECHECKED, job, b"\1" if holds else b"\0"))

    def _listen(self) -> None:
        try:
            self._hear()
        finally:
            # The daemon has gone, or, if this thread failed, nobody hears it any more.
            os.kill(0, signal.SIGKILL)

    def _hear(self) -> None:
        buffer = bytearray()
        while True:
            try:
                found = protocol.read_frame(self._channel.recv, buffer)
            except OSError:
                found = None
            if found is None:
                return
            kind, job, payload = read_message(*found)
            if kind == protocol.CANCEL:
                with self._lock:
                    if self._working == job:
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                self._inbox.put((kind, job, payload))

    def _work(self, job: int, payload: bytes) -> Report:
        began = time.perf_counter()
        request = protocol.Request(payload)
        environment = request.environment
        output = Output(lambda number, data: self._channel.sendall(message(_KINDS[number], job, data)))
        self._tracker = Tracker()
        self._phase.say(" ".join(request.arguments))
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(environment)
        # Temporary files go where the next daemon sweeps, whatever becomes of this process.
        os.environ["TMPDIR"] = before.get("TMPDIR", "")
        old_mask = os.umask(request.mask)
        try:
            faults = _faults(environment)
            with self._lock:
                self._working = job
            try:
                faults.visit("job")
                code = app.run(
                    request.arguments,
                    cwd=Path(request.directory),
                    env=environment,
                    stdout=output.stdout,
                    stderr=output.stderr,
                    terminal=Terminal(request.terminal, request.columns),
                    make_engine=self._engines.engine,
                    make_reader=self._tracker.reader,
                    made=self._command,
                )
            except KeyboardInterrupt:
                code = Exit.CANCELLED
            finally:
                with self._lock:
                    self._working = None
            stages = self._engines.finish()
            faults.visit("answer")
            # Not where this process is about to end of an error: the daemon reads then what it was doing.
            self._phase.say("")
        finally:
            os.umask(old_mask)
            os.environ.clear()
            os.environ.update(before)
        return Report(
            job,
            code,
            time.perf_counter() - began,
            stages,
            self._tracker.files(),
            memory_of_this_process(),
            floats.mode() == floats.NORMAL,
        )


def _faults(environment: dict[str, str]) -> Faults:
    try:
        return faults_of(environment)
    except ValueError:  # the application says so
        return Faults("")


def memory_of_this_process() -> int:
    """Bytes that this process holds."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError):
        # No such file on this system: the most that it ever held.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def die_with_parent(parent: int) -> None:
    """Has the system kill this process when the one that started it dies (Linux), whatever this one is doing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main(arguments: list[str]) -> None:
    """Runs a worker; the arguments are the descriptors of socket and phase, a file for stacks, the daemon's process."""
    channel, phase, stacks, parent = arguments
    die_with_parent(int(parent))
    # Whoever started the daemon may have had signals ignored, which is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for descriptor in (int(channel), int(phase)):
        # The socket has to end with this process, whatever other programs it starts.
        os.set_inheritable(descriptor, False)
    with open(stacks, "wb") as file:
        faulthandler.enable(file)
        try:
            _faults(dict(os.environ)).visit("boot")
            Worker(socket.socket(fileno=int(channel)), Phase(int(phase))).run()
        finally:
            # At once, also for the interrupt of a cancellation that came late: an orderly end waits for threads and for what
            # modules have to tidy up, and the daemon waits for this end.
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
