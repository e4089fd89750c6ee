"""Measures an entry: compiling it, its first call, its calls, and what each nest takes of one.

Calls are measured one at a time, after some that are not counted. A figure is a median with the interval in which the true median
lies with 95 % certainty (order statistics; no distribution is assumed) and the distance of the quartiles.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from presk.cache.engine import Engine
from presk.cache.log import RequestLog
from presk.cache.stage import Result
from presk.core.program import CoreProgram
from presk.diagnostics.value import Diagnostic
from presk.elab.program import Program
from presk.exact.closing import closed
from presk.exact.faults import Fault
from presk.exact.interpreter import Stopped
from presk.kernels.compiling import compile_all, processors
from presk.kernels.entry import NativeEntry
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.objects import Blob
from presk.kernels.stage import ROUTINES
from presk.kernels.trace.memory import Driver, launches
from presk.kernels.trace.rows import Launch, Loop, Row
from presk.kernels.work import work
from presk.native.run import Asked, Ready, blobs_of, differentiated, faulted, fill, prepare, too_large

FEWEST: Final = 6
"""Fewer times do not enclose their median with 95 % certainty: n of them do with 1 − 2^(1 − n)."""


class Figure(msgspec.Struct, frozen=True):
    """A measured time in seconds: its median, the interval around it (none where too few were taken to say), the distance of the
    quartiles, and how many were taken."""

    median: float
    low: float | None
    high: float | None
    spread: float
    count: int


class NestFigure(msgspec.Struct, frozen=True):
    """What the launches of one nest take of a call: seconds, how often it is launched, and its operations and bytes a second."""

    name: str
    launches: int
    seconds: float
    operations_per_second: float
    bytes_per_second: float


class Bench(msgspec.Struct, frozen=True):
    """The figures of an entry. Compile times are those of all kernels: anew, and from the store."""

    entry: str
    realization: str
    level: str
    threads: int
    launches: int
    kernels: int
    arena: int
    compile_cold: float
    compile_warm: float
    first_call: float
    call: Figure
    nests: tuple[NestFigure, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures, or why there are none."""

    bench: Bench | None
    diagnostics: tuple[Diagnostic, ...] = ()


def bench(
    engine: Engine,
    log: RequestLog,
    typed: Program,
    core: CoreProgram,
    entry: str,
    asked: Asked,
    *,
    runs: int,
    per_nest: bool,
) -> Outcome:
    """Measures an entry; diagnostics as for a run."""
    after = differentiated(engine, core, entry, asked)
    if after.value.diagnostics:
        return Outcome(None, after.value.diagnostics)
    program = closed(after.value.program)
    try:
        ready = prepare(engine, typed, core, entry, asked, after, program)
        return Outcome(_bench(engine, log, ready, entry, asked, runs, per_nest))
    except Stopped as error:
        stopped = error
    except Fault as fault:
        stopped = Stopped(fault, ())
    except (MemoryError, OSError) as error_:
        stopped = Stopped(too_large(error_), ())
    return Outcome(None, faulted(typed, core, entry, after.value, stopped))


def _bench(engine: Engine, log: RequestLog, ready: Ready, entry: str, asked: Asked, runs: int, per_nest: bool) -> Bench:
    driver = _value(ready.driver)
    began = time.perf_counter()
    compile_all(driver.kernels, asked.level, processors())
    cold = time.perf_counter() - began
    blobs_of(engine, log, driver, asked.level, entry)
    began = time.perf_counter()
    blobs = blobs_of(engine, log, driver, asked.level, entry)
    warm = time.perf_counter() - began
    with Threads(engine.get(ROUTINES).value, asked.threads) as threads:
        began = time.perf_counter()
        native = NativeEntry(driver, blobs, threads)
        fill(native.arena, driver, ready)
        native.run()
        first = time.perf_counter() - began
        times = _calls(native, runs)
        nests = _nests(driver, blobs, threads, ready, runs, times) if per_nest else ()
    return Bench(
        entry,
        asked.realization.name,
        asked.level,
        asked.threads,
        launches(driver.rows),
        len(driver.kernels),
        driver.size,
        cold,
        warm,
        first,
        figure(times),
        nests,
    )


def _value(held: Result[Driver]) -> Driver:
    return held.value


def _calls(native: NativeEntry, runs: int) -> list[float]:
    """The times of calls, after a few that warm the caches."""
    for _ in range(3):
        native.run()
    times: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        native.run()
        times.append(time.perf_counter() - began)
    return times


def figure(times: Sequence[float]) -> Figure:
    """The figure of measured times."""
    ordered = sorted(times)
    count = len(ordered)
    # The ranks between which the median lies: 1.96 standard deviations of a binomial distribution of one half.
    reach = 1.96 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach))
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    spread = ordered[(3 * (count - 1)) // 4] - ordered[(count - 1) // 4]
    if count < FEWEST:
        return Figure(middle, None, None, spread, count)
    return Figure(middle, ordered[low], ordered[high], spread, count)


def _nests(
    driver: Driver, blobs: Sequence[Blob], threads: Threads, ready: Ready, runs: int, times: Sequence[float]
) -> tuple[NestFigure, ...]:
    """What each nest takes: the processor's ticks of each launch, of which a call's time says how long they are."""
    timed = NativeEntry(driver, blobs, threads, timed=True)
    fill(timed.arena, driver, ready)
    timed.run()
    each = np.empty((runs, len(timed.ticks)), np.int64)
    spent = 0.0
    for number in range(runs):
        timed.ticks[:] = 0
        began = time.perf_counter()
        timed.run()
        spent += time.perf_counter() - began
        each[number] = timed.ticks
    seconds = spent / max(int(each.sum()), 1)
    found: dict[str, list[float]] = {}
    # A median for each launch: whatever interrupts one of them is not its time.
    for ticks, (row, often) in zip(np.median(each, axis=0).tolist(), _flat(driver.rows, 1), strict=True):
        name = row.site or "moving"
        done = work(driver.kernels[row.kernel])
        one = found.setdefault(name, [0, 0.0, 0, 0])
        one[0] += 0 if row.move or row.quiet else often
        one[1] += ticks * seconds
        one[2] += often * done.operations
        one[3] += often * done.bytes
    nests = [
        NestFigure(name, int(count), spent, operations / spent if spent else 0.0, size / spent if spent else 0.0)
        for name, (count, spent, operations, size) in found.items()
    ]
    return tuple(sorted(nests, key=lambda nest: -nest.seconds))


def _flat(rows: Sequence[Row], often: int) -> list[tuple[Launch, int]]:
    """Launches in the order of a table, with how often one call runs each."""
    found: list[tuple[Launch, int]] = []
    for row in rows:
        if isinstance(row, Loop):
            found += _flat(row.rows, often * row.count)
        else:
            found.append((row, often))
    return found


def to_json(made: Bench) -> str:
    """One JSON object; times in seconds."""
    return json.dumps(msgspec.to_builtins(made), ensure_ascii=False)


def to_text(made: Bench) -> str:
    """Lines for people."""
    call = made.call
    lines = [
        f"{made.entry} in {made.realization}, {made.level}, {_counted(made.threads, 'thread')}: "
        f"{made.launches} launches, {_counted(made.kernels, 'kernel')}, arena {made.arena / 1e6:.2f} MB",
        f"  compile, cold     {_time(made.compile_cold)}",
        f"  compile, warm     {_time(made.compile_warm)}",
        f"  first call        {_time(made.first_call)}  (loading and filling the arena included)",
        f"  call              {_time(call.median)}  {_interval(call)}"
        f"quartiles {_time(call.spread)} apart, {_counted(call.count, 'call')}",
    ]
    if made.nests:
        width = max(len(nest.name) for nest in made.nests)
        lines.append(f"  {'nest'.ljust(width)}  launches      time   share   GFLOP/s     GB/s")
        whole = sum(nest.seconds for nest in made.nests) or 1.0
        lines += [
            f"  {nest.name.ljust(width)}  {nest.launches:8d}  {_time(nest.seconds):>8}  {100 * nest.seconds / whole:4.1f} %"
            f"  {nest.operations_per_second / 1e9:8.2f} {nest.bytes_per_second / 1e9:8.2f}"
            for nest in made.nests
        ]
    return "\n".join(lines) + "\n"


def _interval(figure_: Figure) -> str:
    if figure_.low is None or figure_.high is None:
        return ""
    return f"[{_time(figure_.low)}, {_time(figure_.high)}] with 95 %, "


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    """Four digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"
