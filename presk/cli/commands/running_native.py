"""The part of `presk run` that runs kernels: natively, or on the kernel interpreter."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from presk.ad.pipeline import AfterAd, Remat
from presk.ad.step import CARRIED, STEP
from presk.cache.log import RequestLog
from presk.cache.stage import Result
from presk.cli.commands import programs
from presk.cli.commands.core_programs import InCore
from presk.cli.commands.realizing import check_plan, check_workers, plan_of
from presk.cli.request import Request
from presk.diagnostics.value import Diagnostic
from presk.exact.closing import closed
from presk.exact.faults import Fault
from presk.exact.given import Given
from presk.exact.interpreter import Stopped
from presk.exact.run import check_bits
from presk.kernels.compiling import processors
from presk.kernels.host import UnsupportedMachine, host_level
from presk.kernels.targets import LEVELS
from presk.native import bench as benching
from presk.native.gap import Gap, gap_json, gap_text, measure
from presk.native.layouts import layouts
from presk.native.run import Asked, Executor, Ran, differentiated, faulted, run_native


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says of a run in machine types, as it was written."""

    executor: Executor
    realize: str | None
    threads: int | None
    level: str | None
    gap: bool
    fusion: bool
    bits: int
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is given to the entry; see `presk.exact.run.Job`."""

    dims: Mapping[str, int]
    words: Mapping[str, str]
    files: Mapping[str, Given]
    seed: int
    remat: Remat
    unroll: bool


@dataclass(frozen=True)
class Answer:
    """What a run gave, in the forms in which it is shown; they are made when they are asked for."""

    ran: Ran | None
    gaps: tuple[Gap, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def stats(self) -> str | None:
        """How many kernels the run launched, how many different ones there are, and its memory."""
        if self.ran is None:
            return None
        driver = self.ran.driver
        return f"launches: {self.ran.launches}, of {len(driver.kernels)} kernels; arena: {driver.size} bytes"

    @cached_property
    def text(self) -> str:
        """Lines for people, large tensors shortened."""
        return "" if self.ran is None else self.ran.to_text() + gap_text(self.gaps)

    @cached_property
    def full_text(self) -> str:
        """The same with every number."""
        return "" if self.ran is None else self.ran.to_text(full=True) + gap_text(self.gaps)

    @cached_property
    def json(self) -> str:
        """One JSON object."""
        return "" if self.ran is None else gap_json(self.ran.to_json(), self.gaps)


def answer(request: Request, log: RequestLog, given: InCore, entry: str, options: Options, inputs: Inputs) -> Answer:
    """Runs an entry of a program in the core. Usage errors leave with 2, what cannot be compiled with 70."""
    asked, after = asked_of(request, given, entry, options, inputs)
    if options.gap:
        try:
            check_bits(options.bits)
        except Fault as fault:
            raise programs.usage(request, fault.code, fault.message) from None
    outcome = run_native(request.engine, log, given.typed, given.core, entry, asked)
    if outcome.ran is None:
        return Answer(None, (), outcome.diagnostics)
    try:
        gaps = (
            measure(closed(after.value.program), outcome.ran, given.core.headers, options.bits) if options.gap else ()
        )
    except Stopped as stopped:
        # There is no exact value to be near to: machine arithmetic went on with an infinity or a NaN.
        found = faulted(given.typed, given.core, entry, after.value, stopped)
        note = "so says the exact reference, which `--gap` asks, of the arguments rounded to the storage type"
        return Answer(None, (), tuple(msgspec.structs.replace(one, notes=(*one.notes, note)) for one in found))
    return Answer(outcome.ran, gaps, ())


def measure_entry(
    request: Request,
    log: RequestLog,
    given: InCore,
    entry: str,
    options: Options,
    inputs: Inputs,
    runs: int,
    *,
    per_nest: bool,
) -> benching.Outcome:
    """Measures an entry of a program in the core; errors as for `answer`."""
    asked, _ = asked_of(request, given, entry, options, inputs)
    return benching.bench(request.engine, log, given.typed, given.core, entry, asked, runs=runs, per_nest=per_nest)


def asked_of(
    request: Request, given: InCore, entry: str, options: Options, inputs: Inputs
) -> tuple[Asked, Result[AfterAd]]:
    """What is asked, and the program after differentiation; E7002 for a realization or a plan that does not fit it."""
    plan = plan_of(request, options.realize, options.plan)
    threads = threads_of(request, options.threads)
    if options.executor is Executor.NATIVE:
        check_workers(request, plan, threads)
    asked = Asked(
        inputs.dims,
        inputs.words,
        inputs.files,
        inputs.seed,
        inputs.remat,
        inputs.unroll,
        plan.realization,
        options.executor,
        level_of(request, options.level, runs=options.executor is Executor.NATIVE),
        threads,
        layouts(plan),
        fused=options.fusion,
        carried=CARRIED if entry == STEP else (),
    )
    after = differentiated(request.engine, given.core, entry, asked)
    if not after.value.diagnostics:
        check_plan(request, given, after.value.program, plan, inputs.remat)
    return asked, after


def level_of(request: Request, name: str | None, *, runs: bool) -> str:
    """`--level`: the machine level to compile for; the highest one of this machine where none is named."""
    try:
        own = host_level()
    except UnsupportedMachine as error:
        if runs or name is None:
            raise programs.usage(request, "E9006", str(error), "run with `--backend exact`") from None
        own = None
    if name is None:
        assert own is not None
        return own.name
    if name not in LEVELS:
        raise programs.usage(request, "E9003", f"there is no level `{name}`", f"the levels are {', '.join(LEVELS)}")
    levels = list(LEVELS)
    if runs and own is not None and levels.index(name) > levels.index(own.name):
        raise programs.usage(request, "E9003", f"this machine has no `{name}`", f"it has {own.name}, and all below it")
    return name


def threads_of(request: Request, number: int | None) -> int:
    """`--threads`, else `PRESK_THREADS`, else the processors of the machine."""
    if number is not None:
        return number
    text = request.env.get("PRESK_THREADS", "")
    if not text:
        return min(processors(), os.cpu_count() or 1)
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1024:
        raise programs.usage(request, "E9003", f"PRESK_THREADS is `{text}`, not a number from 1 to 1024")
    return int(text)
