"""What the daemon costs and saves. Every ratio is of times that were taken in turns, in this run.

The daemon of each part has folders of its own, and ends with it.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from presk.daemon import connect, protocol
from presk.daemon.messages import Observed, State, Watching, decode_state, encode

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = ROOT / "corpus" / "nlp" / "05_gpt.psk"
SCRIPT: Final = str(Path(sys.executable).parent / "presk")
EDITED: Final = "fn edited(x : ℝ[3]) -> ℝ[3] = x + {number}.0\n"


class Desk:
    """A daemon's folders, a copy of the program, and the client's environment."""

    def __init__(self, root: Path) -> None:
        self.program: Final = root / PROGRAM.name
        self.program.write_bytes(PROGRAM.read_bytes())
        self.folder: Final = str(root / "home" / "run")
        passed = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
        self.env: Final = {
            **{name: os.environ[name] for name in passed if name in os.environ},
            "HOME": str(root),
            "PRESK_HOME": str(root / "home"),
            "PRESK_DAEMON_IDLE": "600",
        }

    def check(self) -> None:
        """One `presk check` by the installed script."""
        done = subprocess.run(
            [SCRIPT, "check", self.program.name],
            cwd=self.program.parent,
            env=self.env,
            capture_output=True,
            check=False,
        )
        if done.returncode or done.stderr:
            raise RuntimeError(done.stderr.decode())

    def state(self) -> State:
        """The daemon's state."""
        connection = connect.attempt(self.folder, protocol.MANAGE)
        assert connection is not None
        connection.send(protocol.frame(protocol.STATUS))
        found = connection.receive()
        connection.close()
        assert found is not None
        return decode_state(found[1])

    def request(self) -> bytes:
        """The frame of a check."""
        argv = ("check", self.program.name)
        return protocol.frame(
            protocol.RUN,
            protocol.request(argv, str(self.program.parent), False, 120, protocol.chosen(self.env), 0o22),
        )

    def ask(self) -> None:
        """One check over a connection of its own, from this process."""
        connection = connect.attempt(self.folder, protocol.REQUEST)
        assert connection is not None
        connection.send(self.request())
        while (found := connection.receive()) is not None and found[0] != protocol.EXIT:
            pass
        connection.close()
        assert found is not None


@contextmanager
def desk() -> Iterator[Desk]:
    """A desk whose daemon is warm."""
    with tempfile.TemporaryDirectory() as folder:
        made = Desk(Path(folder))
        try:
            made.check()
            yield made
        finally:
            life = connect.LifeLock(made.state().temporary)
            connection = connect.attempt(made.folder, protocol.MANAGE)
            if connection is not None:
                connection.send(protocol.frame(protocol.STOP))
                connection.receive()
                connection.close()
            life.wait(20)
            life.close()


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def shown(name: str, values: Sequence[float]) -> str:
    """Median and the quarter around it, in milliseconds."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{name:<54}{middle * 1e3:>9.1f} ms   ({low * 1e3:.1f} to {high * 1e3:.1f}, least {min(values) * 1e3:.1f})"


def wall_time(at: Desk) -> None:
    """A check of which nothing changed, against a Python that does nothing, and what lies between."""
    bare = [sys.executable, "-c", "pass"]
    parts: dict[str, Callable[[], object]] = {
        "python -c pass": lambda: subprocess.run(bare, check=True),
        "python -I -S -c pass": lambda: subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True),
        "python -c 'import presk.cli.client'": lambda: subprocess.run(
            [sys.executable, "-c", "import presk.cli.client, os; os._exit(0)"], cwd=ROOT, check=True
        ),
        "presk check, nothing changed": at.check,
        "the same over a connection of a process that runs": at.ask,
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(60):
        for name, call in parts.items():
            times[name].append(seconds(call))
    for name, values in times.items():
        print(shown(name, values))
    ratios = [ours / theirs for ours, theirs in zip(times["presk check, nothing changed"], times["python -c pass"])]
    print(f"{'presk check / python -c pass':<54}{statistics.median(ratios):>9.2f}      (aim: at most 2)")


def without_daemon(at: Desk) -> None:
    """The same check by a process of its own, from the disk."""
    argv = [SCRIPT, "--no-daemon", "check", at.program.name]
    times = [
        seconds(lambda: subprocess.run(argv, cwd=at.program.parent, env=at.env, capture_output=True, check=True))
        for _ in range(7)
    ]
    print(shown("presk --no-daemon check, from the disk", times))


def many_clients(at: Desk) -> None:
    """A hundred scripts at once."""

    def all_at_once() -> None:
        threads = [threading.Thread(target=at.check) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    print(f"{'100 clients at once':<54}{seconds(all_at_once) * 1e3:>9.0f} ms")


def rate(at: Desk) -> None:
    """Requests of one client after the other, and of four at once, from running processes."""
    number = 300

    def some(count: int) -> None:
        for _ in range(count):
            at.ask()

    one = seconds(lambda: some(number))
    threads = [threading.Thread(target=some, args=(number // 4,)) for _ in range(4)]

    def together() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    four = seconds(together)
    print(f"{'requests per second, one after the other':<54}{number / one:>9.0f}")
    print(f"{'requests per second, four clients of the same':<54}{number / four:>9.0f}")


def after_kill(at: Desk) -> None:
    """The first answer after the daemon was killed."""
    times = []
    for _ in range(5):
        os.kill(at.state().pid, signal.SIGKILL)
        connect.wait_until_gone(at.folder, 10)
        times.append(seconds(at.check))
    print(shown("the first answer after kill -9 of the daemon", times))


def edits(at: Desk) -> None:
    """From an edit of one function to its diagnostics, as `presk watch` has them: told, then asked."""
    connection = connect.attempt(at.folder, protocol.REQUEST)
    assert connection is not None
    wanted = Watching((Observed(str(at.program), fresh=True),))
    connection.send(protocol.frame(protocol.WATCH, encode(wanted)))
    text = at.program.read_text("utf-8")
    times = []
    time.sleep(0.5)
    for number in range(55):
        started = time.perf_counter()
        at.program.write_text(text + EDITED.format(number=number), "utf-8")
        found = connection.receive()
        assert found is not None
        at.ask()
        times.append(time.perf_counter() - started)
        time.sleep(0.05)
    connection.close()
    at.program.write_text(text, "utf-8")
    values = sorted(times[5:])
    print(
        f"{'an edit of one function to fresh diagnostics':<54}{statistics.median(values) * 1e3:>9.1f} ms   "
        f"(95th percentile {values[int(len(values) * 0.95)] * 1e3:.1f}; 30 ms of it wait for quiet)"
    )


def memory(at: Desk) -> None:
    """Two thousand edits: what daemon and worker hold."""
    text = at.program.read_text("utf-8")
    held = []
    for number in range(2000):
        at.program.write_text(text + EDITED.format(number=number), "utf-8")
        at.ask()
        if number % 250 == 249:
            state = at.state()
            held.append((state.memory, sum(worker.memory for worker in state.workers)))
    at.program.write_text(text, "utf-8")
    print("memory after each 250 of 2000 edits, daemon and workers, in MiB:")
    print("  " + "  ".join(f"{daemon >> 20}+{workers >> 20}" for daemon, workers in held))


def main() -> None:
    if not Path(SCRIPT).exists():
        raise RuntimeError(f"{SCRIPT} is not installed")
    with desk() as at:
        for part in (wall_time, without_daemon, many_clients, rate, edits, memory, after_kill):
            part(at)


if __name__ == "__main__":
    main()
