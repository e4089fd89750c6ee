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

from presk.cache.index import PAGE_CACHE_KIB
from presk.daemon import connect, protocol
from presk.daemon.engines import MEMORY_BYTES
from presk.daemon.messages import State, decode_state

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
        if connection is None:
            raise RuntimeError("the daemon has gone: sources were edited while it was measured")
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
        connection = connect.obtain(self.folder, self.env)
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
            connection = connect.attempt(made.folder, protocol.MANAGE)
            if connection is not None:
                life = connect.LifeLock(made.state().temporary)
                connection.send(protocol.frame(protocol.STOP))
                connection.receive()
                connection.close()
                life.wait(20)
                life.close()


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def shown(name: str, values: Sequence[float], ratio: str = "") -> None:
    """Prints median and the quarter around it, in milliseconds, and what it is a multiple of."""
    low, middle, high = statistics.quantiles(values, n=4)
    spread = f"({low * 1e3:.1f} to {high * 1e3:.1f}, least {min(values) * 1e3:.1f})"
    print(f"{name:<62}{middle * 1e3:>9.1f} ms   {spread:<38}{ratio}", flush=True)


def wall_time(at: Desk) -> None:
    """A check of which nothing changed, against a Python that does nothing, and what lies between."""
    bare = [sys.executable, "-c", "pass"]
    parts: dict[str, Callable[[], object]] = {
        "python -c pass": lambda: subprocess.run(bare, check=True),
        "python -I -S -c pass": lambda: subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True),
        "python -c 'import presk.cli.client'": lambda: subprocess.run(
            [sys.executable, "-c", "import presk.cli.client, os; os._exit(0)"], cwd=ROOT, check=True
        ),
        "presk check 05_gpt.psk, nothing changed": at.check,
        "  the same over a connection of a process that runs": at.ask,
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(40):
        for name, call in parts.items():
            times[name].append(seconds(call))
    base = times["python -c pass"]
    for name, values in times.items():
        ratio = statistics.median([ours / theirs for ours, theirs in zip(values, base, strict=True)])
        aim = "; aim: at most 2" if name.startswith("presk") else ""
        shown(name, values, f"{ratio:.2f} times `python -c pass`{aim}")


def without_daemon(at: Desk) -> None:
    """The same check by a process of its own, from the disk, in turns with the daemon's."""
    argv = [SCRIPT, "--no-daemon", "check", at.program.name]
    theirs, ours = [], []
    for _ in range(7):
        theirs.append(
            seconds(lambda: subprocess.run(argv, cwd=at.program.parent, env=at.env, capture_output=True, check=True))
        )
        ours.append(seconds(at.check))
    ratio = statistics.median([a / b for a, b in zip(theirs, ours, strict=True)])
    shown("presk --no-daemon check 05_gpt.psk, from the disk", theirs, f"{ratio:.1f} times the daemon's")


def many_clients(at: Desk) -> None:
    """A hundred scripts at once, against a hundred that do nothing."""

    def all_at_once(call: Callable[[], object]) -> None:
        threads = [threading.Thread(target=call) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    bare = [sys.executable, "-c", "pass"]
    theirs, ours = [], []
    for _ in range(2):
        theirs.append(seconds(lambda: all_at_once(lambda: subprocess.run(bare, check=True))))
        ours.append(seconds(lambda: all_at_once(at.check)))
    ratio = statistics.median([a / b for a, b in zip(ours, theirs, strict=True)])
    shown("100 times `presk check 05_gpt.psk` at once", ours, f"{ratio:.2f} times as many `python -c pass`")


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
    print(f"{'requests of `check 05_gpt.psk` per second, one after the other':<62}{number / one:>9.0f}")
    print(
        f"{'requests per second, four clients of the same':<62}{number / four:>9.0f}      {one / four:.2f} times one client's"
    )


def after_kill(at: Desk) -> None:
    """The first answer after the daemon was killed, against a process of its own."""
    argv = [SCRIPT, "--no-daemon", "check", at.program.name]
    theirs, ours = [], []
    for _ in range(5):
        os.kill(at.state().pid, signal.SIGKILL)
        connect.wait_until_gone(at.folder, 10)
        ours.append(seconds(at.check))
        theirs.append(
            seconds(lambda: subprocess.run(argv, cwd=at.program.parent, env=at.env, capture_output=True, check=True))
        )
    ratio = statistics.median([a / b for a, b in zip(ours, theirs, strict=True)])
    shown("presk check 05_gpt.psk after kill -9 of the daemon", ours, f"{ratio:.2f} times without a daemon")


def edits(at: Desk) -> None:
    """From an edit of one function to the line that `presk watch` prints behind its diagnostics."""
    argv = [SCRIPT, "watch", at.program.name]
    text = at.program.read_text("utf-8")
    watch = subprocess.Popen(argv, cwd=at.program.parent, env=at.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert watch.stdout is not None
    try:
        watch.stdout.readline()
        times = []
        for number in range(55):
            time.sleep(0.1)
            started = time.perf_counter()
            at.program.write_text(text + EDITED.format(number=number), "utf-8")
            while b"changed: " not in watch.stdout.readline():
                pass
            times.append(time.perf_counter() - started)
    finally:
        watch.terminate()
        watch.stdout.close()
        watch.wait()
        at.program.write_text(text, "utf-8")
    values = sorted(times[5:])
    tail = f"95th percentile {values[int(len(values) * 0.95)] * 1e3:.1f} ms; 30 ms of it wait for quiet"
    shown(f"presk watch 05_gpt.psk: from an edit to its diagnostics, {len(values)}", values, tail)


def memory(at: Desk) -> None:
    """Two thousand edits: what daemon and workers hold. The memory of a worker's engine is full after some 300."""
    text = at.program.read_text("utf-8")
    held = []
    for number in range(2000):
        at.program.write_text(text + EDITED.format(number=number), "utf-8")
        at.ask()
        if number % 250 == 249:
            state = at.state()
            held.append((state.memory, sum(worker.memory for worker in state.workers)))
    at.program.write_text(text, "utf-8")
    listed = "  ".join(f"{daemon >> 20}+{workers >> 20}" for daemon, workers in held)
    print(f"memory after each 250 of 2000 edits of 05_gpt.psk, daemon and workers, in MiB:\n  {listed}")
    ratio = sum(held[-1]) / sum(held[1])
    print(
        f"{'memory after 2000 edits':<62}{sum(held[-1]) / 2**20:>9.1f} MiB  {ratio:.3f} times that after 500; aim: flat"
    )
    print(
        f"  an engine keeps at most {MEMORY_BYTES >> 20} MiB of answers, the index {PAGE_CACHE_KIB >> 10} MiB of pages"
    )


def main() -> None:
    if not Path(SCRIPT).exists():
        raise RuntimeError(f"{SCRIPT} is not installed")
    with desk() as at:
        for part in (wall_time, without_daemon, many_clients, rate, edits, memory, after_kill):
            part(at)


if __name__ == "__main__":
    main()
