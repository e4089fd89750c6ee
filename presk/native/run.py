"""Runs an entry in machine types: its kernels are compiled, or had, and its driver runs once.

In the order of the exact reference: what is given is read and determines open dimensions, what is undefined at the dimensions is
refused, the arguments are made, the entry is run, its flags are looked at. Whatever goes wrong is a diagnostic.
"""

import errno
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.ad.pipeline import AfterAd, Remat
from presk.ad.stage import AFTER_AD
from presk.cache.engine import Engine
from presk.cache.log import RequestLog
from presk.cache.stage import Result
from presk.core.facts import declared_facts
from presk.core.ir import Function
from presk.core.ir import Program as CoreText
from presk.core.program import CoreProgram
from presk.diagnostics.value import Diagnostic
from presk.elab.program import Program
from presk.exact import draws, output, synthesize
from presk.exact.closing import closed
from presk.exact.defined import check_entry
from presk.exact.faults import COMMAND, RANGE, Fault
from presk.exact.given import Given
from presk.exact.interpreter import Stopped
from presk.exact.run import diagnostic
from presk.exact.scope import Scope
from presk.exact.values import Number, Truth, Value
from presk.kernels.arena import Arena
from presk.kernels.compiling import processors
from presk.kernels.entry import InterpretedEntry, NativeEntry
from presk.kernels.ir import Elem
from presk.kernels.layout import Layout
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.numbers import to_elements
from presk.kernels.objects import Blob
from presk.kernels.stage import KERNEL, OBJECT, ROUTINES
from presk.kernels.trace.hyper import Scalar
from presk.kernels.trace.memory import Driver, launches
from presk.kernels.trace.recorder import Misfit
from presk.kernels.trace.values import Ref
from presk.native.drawing import NativeNormals
from presk.native.scalars import Hypers, check_rates, element, evaluate
from presk.native.stage import AT, DRIVER, At
from presk.native.values import Doubles, assembled, flattened
from presk.realize.record import Realization, groups_visible, resolver
from presk.run import at_the_entry, entry_defaults, places_of
from presk.types.type import Type

LAYOUT: Final = "E7002"
BITS: Final = {Elem.F64: 53, Elem.F32: 24, Elem.BF16: 8}


class Executor(StrEnum):
    """What runs kernels."""

    NATIVE = "native"
    KERNEL = "kernel"
    """The kernel interpreter."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked beside the program: see `presk.exact.run.Job`. `level` is the machine level to compile for, by name."""

    dims: Mapping[str, int]
    words: Mapping[str, str]
    inputs: Mapping[str, Given]
    seed: int
    remat: Remat
    unroll: bool
    realization: Realization
    executor: Executor
    level: str
    threads: int = 1
    layouts: Mapping[str, Layout] | None = None
    fused: bool = True
    carried: tuple[tuple[str, str], ...] = ()
    """What one call hands to the next: see `presk.kernels.trace.tracer.Question`."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run gave: the value, the arguments it had, and the driver that gave it."""

    entry: str
    args: Sequence[Value]
    value: Value
    type: Type
    scope: Scope
    bits: int
    driver: Driver

    def to_json(self) -> str:
        """One JSON object."""
        return output.to_json(self.entry, self.value, self.type, self.scope, self.bits)

    def to_text(self, *, full: bool = False) -> str:
        """Lines for people."""
        return output.to_text(self.entry, self.value, self.type, self.scope, self.bits, full=full)

    @property
    def launches(self) -> int:
        """How many kernels one run launches."""
        return launches(self.driver.rows)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result, or why there is none."""

    ran: Ran | None
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """An entry about to be run: its arguments, its driver, and its program for messages."""

    after: Result[AfterAd]
    scope: Scope
    args: Sequence[Value]
    driver: Result[Driver]
    type: Type
    names: tuple[str, ...]


def run_native(engine: Engine, log: RequestLog, typed: Program, core: CoreProgram, entry: str, asked: Asked) -> Outcome:
    """Runs an entry, a core name that `core` was lowered for."""
    after = differentiated(engine, core, entry, asked)
    if after.value.diagnostics:
        return Outcome(None, after.value.diagnostics)
    program = closed(after.value.program)
    try:
        ready = prepare(engine, typed, core, entry, asked, after, program)
        return Outcome(_run(engine, log, ready, entry, asked))
    except Stopped as error:
        stopped = error
    except Fault as fault:
        stopped = Stopped(fault, ())
    except (MemoryError, OSError) as error_:
        stopped = Stopped(too_large(error_), ())
    return Outcome(None, faulted(typed, core, entry, after.value, stopped))


def too_large(error: MemoryError | OSError) -> Fault:
    """The error of a run for which there is not enough memory; another error of the system is raised again."""
    if isinstance(error, OSError) and error.errno != errno.ENOMEM:
        raise error
    return Fault(
        RANGE, f"there is not enough memory for the entry at these dimensions ({error})", mend="make them smaller"
    )


def differentiated(engine: Engine, core: CoreProgram, entry: str, asked: Asked) -> Result[AfterAd]:
    """The program after differentiation, as the realization needs it."""
    return engine.get(
        AFTER_AD,
        engine.group("parts", core.parts),
        subject=entry,
        order=tuple(core.parts),
        remat=asked.remat.value,
        hold=groups_visible(asked.realization),
        unroll=asked.unroll,
        objectives=core.objectives,
    )


@dataclass(frozen=True, slots=True)
class Settled:
    """An entry at its dimensions, with what is given to it."""

    function: Function
    scope: Scope
    sources: synthesize.Sources


def settle(typed: Program, core: CoreProgram, entry: str, asked: Asked, program: CoreText) -> Settled:
    """The entry's dimensions; `Fault` for what is given wrongly or undefined. `program` is after differentiation, and closed."""
    function = next((one for one in program.functions if one.name == entry), None)
    if function is None:
        raise Fault(COMMAND, f"the program has no function `{entry}`")
    for name, length in asked.dims.items():
        if name not in function.dims:
            names = ", ".join(f"`{dim}`" for dim in function.dims)
            raise Fault(COMMAND, f"`{entry}` has no dimension `{name}`", notes=(f"it has {names or 'none'}",))
        if length < 0:
            raise Fault(COMMAND, f"the dimension `{name}` is {length}, which is no natural number")
    found = synthesize.sources(asked.inputs, asked.words, dict(entry_defaults(typed, core, entry)), asked.seed)
    dims, prefix = synthesize.determine(function, found, Scope({}, (), core.headers), asked.dims)
    check_entry(program, entry, dims, prefix, core.headers, declared_facts(typed, core))
    return Settled(function, Scope(dims, prefix, core.headers), found)


def driver_at(
    engine: Engine, core: CoreProgram, entry: str, asked: Asked, after: Result[AfterAd], scope: Scope
) -> Result[Driver]:
    """The driver of an entry at its dimensions; `Stopped` (E7002) for a layout that does not fit a launch of its nest."""
    at = At(
        entry,
        tuple(core.headers[ref] for ref in sorted(core.headers)),
        tuple(sorted(scope.dims.items())),
        scope.prefix,
        asked.realization,
        tuple(sorted((asked.layouts or {}).items())),
        asked.level,
        asked.fused,
        asked.carried,
    )
    try:
        return engine.get(DRIVER, after, engine.leaf("at", at, AT), subject=entry)
    except Misfit as error:
        function, _, var = error.nest.rpartition("/%")
        fault = Fault(LAYOUT, f"`{error.decision}` of `{error.nest}`: {error.condition}", mend=error.mend)
        raise Stopped(fault, ((function, int(var)),)) from None


def prepare(
    engine: Engine,
    typed: Program,
    core: CoreProgram,
    entry: str,
    asked: Asked,
    after: Result[AfterAd],
    program: CoreText,
) -> Ready:
    """Arguments and driver; `Fault` as for `settle`."""
    settled = settle(typed, core, entry, asked, program)
    storage = Elem(resolver(asked.realization)(entry, 0).storage)
    normals = NativeNormals(engine, asked.level) if asked.executor is Executor.NATIVE else draws.normals
    args = synthesize.arguments(Doubles(storage, normals), settled.scope, settled.function, settled.sources)
    driver = driver_at(engine, core, entry, asked, after, settled.scope)
    names = tuple(param.name for param in settled.function.params)
    return Ready(after, settled.scope, args, driver, settled.function.result, names)


def faulted(typed: Program, core: CoreProgram, entry: str, after: AfterAd, stopped: Stopped) -> tuple[Diagnostic, ...]:
    """What ended a run, as diagnostics."""
    functions = {function.name: function for function in closed(after.program).functions}
    found = diagnostic(stopped, places_of(after, core.origins()), functions)
    return at_the_entry(typed, core, entry, (found,))


def blobs_of(engine: Engine, log: RequestLog, driver: Driver, level: str, subject: str) -> tuple[Blob, ...]:
    """The driver's kernels for a level, compiled side by side where they are not at hand."""
    leaves = [engine.leaf("kernel", kernel, KERNEL) for kernel in driver.kernels]
    lanes = max(1, min(processors(), len(leaves)))

    def some(first: int) -> list[Blob]:
        with engine.request(log):
            return [engine.get(OBJECT, leaf, subject=subject, level=level).value for leaf in leaves[first::lanes]]

    with ThreadPoolExecutor(lanes) as threads:
        shares = list(threads.map(some, range(lanes)))
    return tuple(shares[place % lanes][place // lanes] for place in range(len(leaves)))


def fill(arena: Arena, driver: Driver, ready: Ready) -> Mapping[str, Number | Truth]:
    """Writes arguments and scalars; gives the hyperparameters. `Fault` for a scalar that is undefined."""
    tensors, hypers = flattened(ready.names, ready.args)
    check_rates(driver.rates, hypers)
    for part in driver.inputs:
        arena.put(part, tensors[part.path])
    write_scalars(arena, driver.scalars, hypers)
    return hypers


def write_scalars(arena: Arena, scalars: Iterable[tuple[Scalar, Ref]], hypers: Hypers) -> None:
    """Writes what launches read of hyperparameters. `Fault` for a scalar that is undefined."""
    for scalar, place in scalars:
        arena.view(place, scalar.elem, 1)[:] = to_elements(np.array([element(scalar, hypers)]), scalar.elem)


def _run(engine: Engine, log: RequestLog, ready: Ready, entry: str, asked: Asked) -> Ran:
    driver = ready.driver.value
    if asked.executor is Executor.KERNEL:
        interpreted = InterpretedEntry(driver)
        hypers = fill(interpreted.arena, driver, ready)
        interpreted.run()
        arena = interpreted.arena
    else:
        blobs = blobs_of(engine, log, driver, asked.level, entry)
        with Threads(engine.get(ROUTINES).value, asked.threads) as threads:
            native = NativeEntry(driver, blobs, threads)
            hypers = fill(native.arena, driver, ready)
            native.run()
            arena = native.arena
    look(arena, driver)
    tensors: dict[str, NDArray[Any]] = {part.path: arena.get(part) for part in driver.results}
    numbers = {path: evaluate(expr, hypers) for path, expr in driver.numbers}
    value = assembled(ready.type, "", ready.scope, tensors, numbers)
    bits = max((BITS[part.operand.elem] for part in driver.results if part.operand.elem in BITS), default=53)
    return Ran(entry, ready.args, value, ready.type, ready.scope, bits, driver)


def look(arena: Arena, driver: Driver) -> None:
    """`Stopped` for the first error that a launch found."""
    for check in driver.checks:
        row = arena.failed(check)
        if row is not None:
            note = f"the first is row {row}, counted over the other axes"
            raise Stopped(Fault(check.code, check.message, notes=(note,)), check.trail)
