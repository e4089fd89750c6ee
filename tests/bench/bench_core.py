"""What core and core-after-ad of the course GPT cost: cold, again, from the disk, after an edit; pass by pass; and where time goes.

Times inside this process are of its processor; times of other processes are by the clock. The best of a few runs counts.
"""

import cProfile
import os
import pstats
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Final

from presk.ad.pipeline import Remat, after_ad
from presk.ad.stage import differentiated
from presk.cache.engine import Engine
from presk.check import check_program
from presk.core.ir import Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram, lower_program
from presk.core.text import print_program
from presk.core.verify import verify
from presk.elab.files import FolderReader, GivenFiles, SourceReader
from presk.elab.program import Program as TypedProgram
from tests.bench.bench_check import GPT, best, clocked, fresh, timed

EDITED: Final = "gelu(up.apply(x))"
"""A body that is changed."""

SHOWN: Final = 12
"""Functions of the profile that are shown."""


def typed(engine: Engine, reader: SourceReader) -> TypedProgram:
    """The program, checked."""
    found = check_program(engine, reader, reader.main if isinstance(reader, FolderReader) else GPT.name, GPT.name)
    if isinstance(found, str) or found[0].failed:
        raise ValueError(f"{GPT.name} has errors")
    return found[1]


def core(engine: Engine, reader: SourceReader) -> CoreProgram:
    """The program in the core, in the training reading."""
    return lower_program(engine, typed(engine, reader), Mode.TRAINING)


def whole(engine: Engine, reader: SourceReader) -> Program:
    """Everything up to the core after differentiation."""
    with engine.request():
        return differentiated(engine, core(engine, reader).parts, Remat.STORE, hold=False).program


def stages(reader: SourceReader) -> dict[str, float]:
    """Seconds of each part of one cold run."""
    found: dict[str, float] = {}

    def least(name: str, seconds: float) -> None:
        found[name] = min(found.get(name, seconds), seconds)

    for _ in range(3):
        engine = fresh()
        with engine.request():
            started = time.process_time()
            checked = typed(engine, reader)
            at_core = time.process_time()
            made = lower_program(engine, checked, Mode.TRAINING)
            program = made.program
            at_ad = time.process_time()
            differentiated(engine, made.parts, Remat.STORE, hold=False)
            ended = time.process_time()
        least("check, with the core's analysis", at_core - started)
        least("core: what analysis did not lower", at_ad - at_core)
        least("core after ad", ended - at_ad)
        last = time.process_time()

        def passed(name: str, _: Program) -> None:
            nonlocal last
            now = time.process_time()
            least(f"  {name}", now - last)
            last = time.process_time()

        after_ad(program, Remat.STORE, hold_groups=False, passed=passed)
    return found


def ways(reader: FolderReader) -> None:
    """The whole way, in this process and in others."""
    living = fresh()
    whole(living, reader)
    text = GPT.read_text("utf-8")

    def edited() -> float:
        """Each time another edit: one that was seen before is known."""
        changed = text.replace(EDITED, f"tanh({time.perf_counter_ns()} * up.apply(x))")
        return timed(lambda: whole(living, GivenFiles({GPT.name: changed.encode()})))

    presk = os.path.join(sysconfig.get_path("scripts"), "presk")
    with tempfile.TemporaryDirectory() as folder:
        env = {"PATH": os.environ.get("PATH", ""), "PRESK_CACHE": folder, "PRESK_NO_DAEMON": "1"}
        rows = []
        for stage in ("core", "core-after-ad"):
            command = [presk, "dump", str(GPT), "--stage", stage]

            def cold() -> float:
                return clocked(command, env | {"PRESK_CACHE": f"{folder}/{time.time_ns()}"})  # noqa: B023  # called at once

            rows.append((f"a new process, cold: {stage}", best(cold)))
            rows.append((f"a new process, from the disk: {stage}", best(lambda: clocked(command, env))))  # noqa: B023
    rows += [
        ("in this process, cold: core", best(lambda: timed(lambda: core(fresh(), reader).program))),
        ("in this process, cold: core-after-ad", best(lambda: timed(lambda: whole(fresh(), reader)))),
        ("in this process, after an edit of one body", best(edited)),
        ("in this process, again", best(lambda: timed(lambda: whole(living, reader)))),
    ]
    print(f"{GPT.name + ', from its text':<48}{'ms':>12}")
    for name, seconds in rows:
        print(f"  {name:<46}{seconds * 1e3:>12.1f}")


def parts(reader: FolderReader) -> None:
    """The parts of a cold run, and what is not on the way: the verifier, the text form."""
    print(f"\n{'parts, cold, in this process':<48}{'ms':>12}")
    rows = stages(reader)
    engine = fresh()
    with engine.request():
        made = core(engine, reader)
    after = after_ad(made.program, Remat.STORE, hold_groups=False).program
    rows["beside it: the verifier, after ad"] = best(
        lambda: timed(lambda: verify(after, made.headers, after="all", differentiated=True))
    )
    rows["beside it: the text form, after ad"] = best(lambda: timed(lambda: print_program(after)))
    for name, seconds in rows.items():
        print(f"  {name:<46}{seconds * 1e3:>12.1f}")
    functions, bindings = len(after.functions), sum(len(one.bindings) for one in after.functions)
    print(f"  {'functions and bindings after ad':<46}{f'{functions}, {bindings}':>12}")


def profile(reader: FolderReader) -> None:
    """The functions in which a cold run spends its time."""
    profiler = cProfile.Profile(time.process_time)
    engine = fresh()
    profiler.runcall(whole, engine, reader)
    found = pstats.Stats(profiler).stats  # type: ignore[attr-defined]  # not in its stubs
    total = sum(own for _, _, own, _, _ in found.values())
    print(f"\n{'profile of a cold run, own time':<48}{'share':>12}{'calls':>12}")
    for (file, line, name), (_, calls, own, _, _) in sorted(found.items(), key=lambda one: -one[1][2])[:SHOWN]:
        shown = name if file.startswith("~") else f"{Path(file).parent.name}/{Path(file).name}:{line} {name}"
        print(f"  {shown[:46]:<46}{own / total:>12.1%}{calls:>12,}")


def main() -> None:
    sys.setrecursionlimit(20_000)
    reader = FolderReader(GPT)
    whole(fresh(), reader)  # what is loaded once for the process
    ways(reader)
    parts(reader)
    profile(reader)
