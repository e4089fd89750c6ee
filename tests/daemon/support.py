"""A user with folders of their own: the daemon, the cache and the programs of one test, and nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from presk.cache.project import discover_project
from presk.daemon import connect, places, protocol
from presk.daemon.messages import State, decode_state

T = TypeVar("T")

COMMAND: Final = (sys.executable, "-P", "-c", "from presk.cli.client import main; main()")
PATIENCE: Final = 60.0
"""Seconds that anything may take on a busy machine."""

GOOD: Final = """\
const D = 8
dim B

fn twice(x : ℝ[batch: B, model: D]) -> ℝ[batch: B, model: D] =
  x + x

fn fourfold(x : ℝ[batch: B, model: D]) -> ℝ[batch: B, model: D] =
  twice(twice(x))
"""
BAD: Final = GOOD.replace("x + x", "x + y")
WARNED: Final = "fn double(x : ℝ[N]) -> ℝ[N] = x + x\n"


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        return self.err.decode("utf-8", "replace")


class Home:
    """Folders below `root`: `work` for programs, `presk` for cache and daemon."""

    def __init__(self, root: Path, **env: str) -> None:
        self.root: Final = root
        self.work: Final = root / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.presk_home: Final = root / "presk"
        self.run_folder: Final = str(self.presk_home / "run")
        passed = {
            name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
        }
        self.env: Final = {
            **passed,
            "HOME": str(root / "home"),
            "PRESK_HOME": str(self.presk_home),
            "PRESK_DAEMON_IDLE": "120",
            **env,
        }

    def write(self, name: str, text: str | bytes) -> Path:
        """A file in the folder of programs."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def start(
        self, *argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, session: bool = False
    ) -> "subprocess.Popen[bytes]":
        """A command that goes on."""
        return subprocess.Popen(
            [*COMMAND, *argv],
            cwd=cwd or self.work,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=session,
        )

    def presk(self, *argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Done:
        """A command and how it ended."""
        return finish(self.start(*argv, env=env, cwd=cwd))

    def alone(self, *argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Done:
        """The same without the daemon."""
        return self.presk("--no-daemon", *argv, env=env, cwd=cwd)

    def connection(self) -> connect.Connection | None:
        """A connection for looking after the daemon."""
        return connect.attempt(self.run_folder, protocol.MANAGE)

    def state(self) -> State | None:
        """The daemon's state; None if none runs."""
        connection = self.connection()
        if connection is None:
            return None
        try:
            connection.send(protocol.frame(protocol.STATUS))
            found = connection.receive()
        finally:
            connection.close()
        return decode_state(found[1]) if found is not None else None

    def living(self) -> State:
        """The state of a daemon that has to run."""
        state = self.state()
        assert state is not None, f"no daemon runs; its log: {self.log()}"
        return state

    def log(self) -> str:
        """The daemon's log."""
        try:
            return Path(self.run_folder, places.LOG).read_text("utf-8", "replace")
        except OSError:
            return ""

    def busy(self) -> State:
        """Waits until a worker works; the state then."""
        return wait(lambda: state if (state := self.state()) and any(one.worker for one in state.jobs) else None)

    def idle(self) -> State:
        """Waits until nothing is worked on; the state then."""
        return wait(lambda: state if (state := self.state()) and not state.jobs else None)

    def processes(self) -> list[int]:
        """The processes of this home's daemon: their command lines name its folder."""
        return processes_about(str(self.root))

    def stop(self) -> None:
        """Stops the daemon if one runs."""
        connection = self.connection()
        if connection is not None:
            connection.send(protocol.frame(protocol.STOP))
            while connection.receive() is not None:
                pass
            connection.close()

    def close(self) -> None:
        """Ends the daemon, and shows that it leaves nothing running."""
        deadline = time.monotonic() + 15
        while (left := self.processes()) and time.monotonic() < deadline:
            with suppress(OSError):  # one may just be starting, for a client that was killed
                self.stop()
            time.sleep(0.02)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert not left, f"the daemon left processes: {left}; its log: {self.log()}"


def finish(process: "subprocess.Popen[bytes]") -> Done:
    """Waits for a command."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"a command did not end; it said {out!r} {err!r}") from None
    return Done(process.returncode, out, err)


def processes_about(text: str) -> list[int]:
    """The living processes of the daemon's side whose command line holds a text."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            line = Path("/proc", name, "cmdline").read_bytes()
            status = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if text.encode() in line and b"presk.daemon" in line and status != "Z":
            found.append(int(name))
    return found


def wait(ask: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """Asks again and again until there is an answer."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def masked(text: bytes, *folders: object) -> bytes:
    """A text without the names of folders."""
    for folder in folders:
        text = text.replace(str(folder).encode(), b"FOLDER")
    return text


def same(one: Done, other: Done) -> None:
    """Asserts that two commands ended in the same way."""
    assert (one.code, one.out, one.err) == (other.code, other.out, other.err)


def copy_of_the_compiler(folder: Path) -> Path:
    """The compiler's sources in a folder of their own, to be edited."""
    for name, source in discover_project().items():
        target = folder / name.replace(".", "/")
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "presk"
