"""What `presk check` costs: the course GPT and generated programs, cold, warm, from the disk, after one edit.

Times inside this process are of its processor, so that other work on the machine disturbs them less; times of other
processes are by the clock. The best of a few runs counts.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.store import Store
from presk.check import Checked, check
from presk.elab.files import FolderReader, GivenFiles, SourceReader, load
from presk.types.decide import Decider
from presk.typing.unify import Substitution
from tests.bench.programs import generated

GPT: Final = Path(__file__).resolve().parents[2] / "corpus" / "nlp" / "05_gpt.psk"
SIZES: Final = (1_000, 5_000, 20_000)
MAIN: Final = "main.psk"
EDIT: Final = ("gelu(h · w)", "tanh(h · w)")
"""A change of one body; the first of its text is changed."""

RUNS: Final = 3
SECONDS: Final = 4.0
"""How often a time is taken, and after how long no more."""

FINGERPRINTS: Final = Fingerprints()


def run(engine: Engine, reader: SourceReader, main: str) -> Checked:
    """One check."""
    with engine.request():
        found = check(engine, reader, main, main)
    if not isinstance(found, Checked) or found.failed:
        raise ValueError(f"{main} has errors")
    return found


def fresh(store: Store | None = None) -> Engine:
    """An engine without a past; what the code is has been looked up."""
    return Engine(store, fingerprints=FINGERPRINTS)


def best(action: Callable[[], float]) -> float:
    """The least of some times in seconds."""
    started = time.perf_counter()
    least = action()
    for _ in range(RUNS - 1):
        if time.perf_counter() - started > SECONDS:
            break
        least = min(least, action())
    return least


def timed(action: Callable[[], object]) -> float:
    """The processor time of one call, in seconds."""
    started = time.process_time()
    action()
    return time.process_time() - started


def clocked(command: list[str], env: dict[str, str]) -> float:
    """The time of a process by the clock, in seconds."""
    started = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def course_gpt() -> None:
    """Cold and warm checks of one real program."""
    reader = FolderReader(GPT)
    living = fresh()
    run(living, reader, reader.main)
    presk = os.path.join(sysconfig.get_path("scripts"), "presk")
    with tempfile.TemporaryDirectory() as folder:
        env = {"PATH": os.environ.get("PATH", ""), "PRESK_CACHE": folder, "PRESK_NO_DAEMON": "1"}
        python = [sys.executable, "-c", "from presk.cli.app import run"]
        command = [presk, "check", str(GPT)]
        rows = [
            ("in this process, cold", best(lambda: timed(lambda: run(fresh(), reader, reader.main)))),
            ("in this process, again", best(lambda: timed(lambda: run(living, reader, reader.main)))),
            (
                "a new process, cold",
                best(lambda: clocked(command, env | {"PRESK_CACHE": f"{folder}/{time.time_ns()}"})),
            ),
            ("a new process, from the disk", best(lambda: clocked(command, env))),
            ("a new process that loads the compiler", best(lambda: clocked(python, env))),
            ("a new process that does nothing", best(lambda: clocked([sys.executable, "-c", ""], env))),
        ]
    print(f"{GPT.name} ({GPT.read_text('utf-8').count(chr(10))} lines){'ms':>36}{'ratio to the first':>22}")
    for name, seconds in rows:
        print(f"  {name:<42}{seconds * 1e3:>12.2f}{seconds / rows[0][1]:>22.3f}")


def times(lines: int, folder: Path) -> dict[str, float]:
    """Seconds for a generated program, by what is done."""
    text = generated(lines)
    whole = GivenFiles({MAIN: text.encode()})
    edited = GivenFiles({MAIN: text.replace(*EDIT, 1).encode()})
    living = fresh()

    def cold() -> float:
        return timed(lambda: run(fresh(), whole, MAIN))

    def edit() -> float:
        """Each time anew: an edit that was seen before is known."""
        number = time.perf_counter_ns()
        changed = GivenFiles({MAIN: text.replace(EDIT[0], f"tanh({number} * (h · w))", 1).encode()})
        return timed(lambda: run(living, changed, MAIN))

    def of_disk(reader: SourceReader) -> float:
        store = Store(folder)
        try:
            return timed(lambda: run(fresh(store), reader, MAIN))
        finally:
            store.close()

    return {
        "cold": best(cold),
        "cold, with a store": of_disk(whole),
        "again, from the disk": best(lambda: of_disk(whole)),
        "one edit, from the disk": of_disk(edited),
        "again, in memory": (run(living, whole, MAIN), best(lambda: timed(lambda: run(living, whole, MAIN))))[1],
        "one edit, in memory": best(edit),
        "tokens and trees alone, cold": best(lambda: timed(lambda: load(fresh(), whole, MAIN))),
    }


def generated_programs() -> None:
    """Times per line, which must not grow with the number of lines."""
    found: dict[int, dict[str, float]] = {}
    for lines in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            found[generated(lines).count("\n")] = times(lines, Path(folder))
    print(f"\n{'generated programs, µs per line':<34}{''.join(f'{lines:>12,}' for lines in found)}{'growth':>10}")
    for name in next(iter(found.values())):
        per_line = [seconds[name] / lines * 1e6 for lines, seconds in found.items()]
        print(f"  {name:<32}{''.join(f'{one:>12.2f}' for one in per_line)}{per_line[-1] / per_line[0]:>10.2f}")
    print(f"{'in all, ms':<34}")
    for name in ("again, in memory", "again, from the disk", "one edit, in memory", "one edit, from the disk"):
        print(f"  {name:<32}{''.join(f'{seconds[name] * 1e3:>12.1f}' for seconds in found.values())}")
    speeds = (lines / seconds["tokens and trees alone, cold"] for lines, seconds in found.items())
    print(f"{'lines per second, tokens and trees':<34}{''.join(f'{speed:>12,.0f}' for speed in speeds)}")


@contextmanager
def counting(kind: type, *names: str) -> Iterator[dict[str, int]]:
    """Counts the calls of methods of a class from outside the class's own methods of these names."""
    counts = dict.fromkeys(names, 0)
    originals = {name: getattr(kind, name) for name in names}
    depth = 0

    def counted(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal depth
            counts[name] += depth == 0 or name == "_ask"
            depth += 1
            try:
                return originals[name](*arguments, **options)
            finally:
                depth -= 1

        return call

    for name in names:
        setattr(kind, name, counted(name))
    try:
        yield counts
    finally:
        for name, original in originals.items():
            setattr(kind, name, original)


def calls_per_function() -> None:
    """How often typing unifies and asks about dimensions, and how often isl has to answer."""
    print(f"\n{'calls per function':<34}{'unify':>12}{'decide':>12}{'isl':>12}")
    for name, reader, main in (
        (GPT.name, FolderReader(GPT), GPT.name),
        (f"generated, {SIZES[0]:,} lines", GivenFiles({MAIN: generated(SIZES[0]).encode()}), MAIN),
    ):
        engine = fresh()
        with counting(Substitution, "unify", "unify_dim") as unified, counting(Decider, "decide", "_ask") as decided:
            with engine.request() as log:
                check(engine, reader, main, main)
        functions = log.counts("typing").computed
        figures = (sum(unified.values()), decided["decide"], decided["_ask"])
        print(f"  {name:<32}{''.join(f'{figure / functions:>12.2f}' for figure in figures)}")


def main() -> None:
    course_gpt()
    generated_programs()
    calls_per_function()
