"""The daemon's program: `python -m presk.daemon FOLDER`, with descriptor 3 for who waits until it listens.

What it owns in its runtime folder, and when: the lock, as long as it takes requests; the socket and `daemon.json`, which it
makes when it has the lock and removes, if they are still its own, before it lets go of it; a folder under `tmp`, with a
lock inside, until it ends.
`docs/daemon.md` tells the whole life cycle.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from presk.cli.faults import Faults, faults_of
from presk.daemon import places
from presk.daemon.build import Build
from presk.daemon.connect import try_lock
from presk.daemon.log import Log
from presk.daemon.pool import Pool
from presk.daemon.server import Limits, Server

READY: Final = 3
LOCK_SECONDS: Final = 5.0
"""How long the lock of a daemon that is leaving is waited for."""

_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Place:
    """The daemon's place in a runtime folder: lock, socket, info. `OSError` where somebody else has it."""

    def __init__(self, folder: str) -> None:
        self._folder: Final = folder
        self._lock: int | None = _locked(os.path.join(folder, places.LOCK), LOCK_SECONDS)
        self._info: Final = os.path.join(folder, places.INFO)
        self._made: dict[str, tuple[int, int]] = {}

    def listen(self) -> socket.socket:
        """The listening socket, in place of what a daemon left that was killed."""
        address = places.SocketAddress(self._folder)
        path = os.path.join(self._folder, places.SOCKET)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(address.path)
            os.chmod(path, places.FILE_MODE)
            self._note(path)
        finally:
            address.close()
        listening.setblocking(False)
        return listening

    def tell(self, build: str) -> None:
        """Writes who the daemon is, for people; nothing relies on it."""
        about = {"pid": os.getpid(), "build": build, "started": time.time(), "executable": sys.executable}
        partial = f"{self._info}.new"
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(about, file)
        os.replace(partial, self._info)
        self._note(self._info)

    def release(self) -> None:
        """Gives up the place: what is still this daemon's goes, then the lock."""
        if self._lock is None:
            return
        for path, inode in self._made.items():
            with suppress(OSError):
                status = os.lstat(path)
                if (status.st_dev, status.st_ino) == inode:
                    os.unlink(path)
        os.close(self._lock)
        self._lock = None

    def _note(self, path: str) -> None:
        status = os.lstat(path)
        self._made[path] = status.st_dev, status.st_ino


class Temporary:
    """The folder for temporary files, alive as long as the lock in it is held; dead ones are removed first."""

    def __init__(self, folder: str) -> None:
        parent = os.path.join(folder, places.TEMPORARY)
        places.make_folder(parent)
        for name in os.listdir(parent):
            _sweep(os.path.join(parent, name))
        self.path: Final = os.path.join(parent, f"{os.getpid()}-{os.urandom(4).hex()}")
        os.mkdir(self.path, places.FOLDER_MODE)
        # Never closed: the system lets go of it when the process has ended, which is what `presk daemon stop` waits for.
        _locked(os.path.join(self.path, places.LOCK), 0.0)

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def _sweep(path: str) -> None:
    """Removes what a dead daemon left."""
    try:
        descriptor = os.open(os.path.join(path, places.LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        descriptor = None  # it died before it had a lock, or this is no folder of a daemon
    try:
        if descriptor is None or try_lock(descriptor):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked(path: str, seconds: float) -> int:
    """The descriptor of a file whose lock this process now has; `OSError` where somebody else keeps it."""
    descriptor = os.open(path, _OPEN, places.FILE_MODE)
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor):
        if time.monotonic() >= deadline:
            os.close(descriptor)
            raise OSError("another daemon holds its lock and does not answer")
        time.sleep(0.01)
    return descriptor


def limits_of(environment: Mapping[str, str]) -> Limits:
    """`PRESK_DAEMON_IDLE` in seconds (0: for ever) and `PRESK_DAEMON_MEMORY` in bytes of a worker; else what is usual."""
    usual = Limits()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    idle, memory = usual.idle, usual.worker_memory
    with suppress(ValueError):
        idle = float(environment["PRESK_DAEMON_IDLE"]) or None if environment.get("PRESK_DAEMON_IDLE") else idle
    with suppress(ValueError):
        memory = int(environment["PRESK_DAEMON_MEMORY"]) if environment.get("PRESK_DAEMON_MEMORY") else memory
    return Limits(idle, memory, cores)


def _say(text: str) -> None:
    """Tells who started the daemon, if somebody did."""
    with suppress(OSError):
        os.write(READY, text.encode("utf-8", "backslashreplace"))
        os.close(READY)


async def serve(folder: str, place: Place, temporary: Temporary, log: Log, environment: Mapping[str, str]) -> None:
    """Serves a runtime folder until it is time to leave."""
    faults = _faults(environment)
    faults.visit("start")
    build = Build()
    inner = {name: value for name, value in environment.items() if not name.startswith("PRESK_DAEMON_")}
    pool = Pool(temporary.path, {**inner, "TMPDIR": temporary.path}, log)
    server = Server(folder, build, pool, log, limits_of(environment), place.release, faults)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, server.stop, f"signal {signal.Signals(number).name}")
    listening = place.listen()
    place.tell(build.digest)
    log.write(f"daemon {os.getpid()} of build {build.digest[:12]} listens in {folder}")
    await server.serve(listening, lambda: _say("ready"))


def _faults(environment: Mapping[str, str]) -> Faults:
    try:
        return faults_of(environment)
    except ValueError:  # the request says so
        return Faults("")


def main(arguments: list[str]) -> int:
    """Runs the daemon of a runtime folder; 1 where it cannot."""
    os.umask(0o077)
    # Ignored, as whoever started this may have had it, it would hide from this process how its workers end.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    (folder,) = arguments
    try:
        places.make_folder(folder)
        place = Place(folder)
    except OSError as error:
        _say(str(error))
        return 1
    log = Log(folder)
    temporary = Temporary(folder)
    try:
        asyncio.run(serve(folder, place, temporary, log, dict(os.environ)))
    finally:
        place.release()
        temporary.remove()
        log.write(f"daemon {os.getpid()} ends")
        log.close()
    return 0


if __name__ == "__main__":
    fcntl.fcntl(READY, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    sys.exit(main(sys.argv[1:]))
