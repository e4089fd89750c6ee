"""Entries of programs run natively, on the interpreter and exactly, on the same arguments."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from presk.ad.pipeline import Remat, after_ad
from presk.cache.engine import Engine
from presk.core.ir import Function, Program
from presk.core.optimizer import DEFAULTS
from presk.core.program import CoreProgram
from presk.exact import values as exact
from presk.exact.closing import closed
from presk.exact.given import Raw, raw_of_word
from presk.exact.interpreter import Interpreter
from presk.exact.reals import Reals
from presk.exact.scope import Scope
from presk.exact.synthesize import Sources, arguments
from presk.exact.values import Items, Number, Record, Value
from presk.kernels.arena import Arena
from presk.kernels.entry import InterpretedEntry, NativeEntry
from presk.kernels.ir import Elem
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.nest import BF16, F32, F64, Arith
from presk.kernels.numbers import to_elements
from presk.kernels.stage import KERNEL, OBJECT, ROUTINES
from presk.kernels.targets import X86_64_V3, Level
from presk.kernels.trace.coalesce import coalesce
from presk.kernels.trace.memory import Driver, plan
from presk.kernels.trace.rotate import rotate
from presk.kernels.trace.rows import Trace
from presk.kernels.trace.tracer import Question, trace
from presk.native.scalars import element
from presk.native.values import Doubles, flattened
from presk.types import type as types
from presk.types.type import HyperKind, Type

ARITHS = {"f64": F64, "f32": F32, "bf16": BF16}
TYPES = {"f64": Elem.F64, "f32": Elem.F32, "bf16": Elem.BF16}
Tensors = dict[str, np.ndarray[Any, Any]]


class EmptiedRow(Exception):
    """A mask refuses a whole row."""


@cache
def engine() -> Engine:
    """One for all: what two tests need alike is compiled once."""
    return Engine(None)


def after(given: CoreProgram, type_: str, remat: Remat = Remat.STORE) -> Program:
    """A program after differentiation, as a uniform realization needs it."""
    done = after_ad(given.program, remat, hold_groups=type_ == "bf16")
    assert not done.diagnostics
    return closed(done.program)


def traced(
    program: Program,
    headers: Mapping[Any, Any],
    entry: str,
    dims: Mapping[str, int],
    type_: str,
    *,
    prefix: tuple[int, ...] = (),
    level: Level = X86_64_V3,
    **more: Any,
) -> Trace:
    """The launches of an entry."""

    def arith(function: str, var: int) -> Arith:
        return ARITHS[type_]

    return trace(Question(program, entry, dims, prefix, headers, arith, level.target, **more))


def driver_of(made: Trace) -> Driver:
    """A trace made ready as a run makes it ready."""
    return plan(rotate(coalesce(made)))


def given_to(
    function: Function, headers: Mapping[Any, Any], dims: Mapping[str, int], type_: str, prefix: tuple[int, ...] = ()
) -> list[Value]:
    """Arguments that the type has exactly; every hyperparameter is 2, or true."""
    scope = Scope(dims, prefix, headers)
    words: dict[str, Raw] = {}
    for param in function.params:
        _words(param.type, param.name, words)
    # Drawn moments of an optimizer's step would have negative numbers under a root.
    defaults = dict(DEFAULTS) if function.name == "adamw.step" else {}
    return arguments(Doubles(TYPES[type_]), scope, function, Sources(words, defaults, 5))


def _words(type_: Type, path: str, words: dict[str, Raw]) -> None:
    match type_:
        case types.Hyper(kind):
            words[path] = raw_of_word("true" if kind is HyperKind.BOOL else "2")
        case types.Tuple(items):
            for place, item in enumerate(items):
                _words(item, f"{path}.{place}", words)
        case _:
            pass


def filled(arena: Arena, driver: Driver, function: Function, args: list[Value]) -> None:
    """Writes arguments and scalars."""
    tensors, hypers = flattened([param.name for param in function.params], args)
    for part in driver.inputs:
        arena.put(part, tensors[part.path])
    for scalar, place in driver.scalars:
        arena.view(place, scalar.elem, 1)[:] = to_elements(np.array([element(scalar, hypers)]), scalar.elem)


def results(arena: Arena, driver: Driver) -> Tensors:
    """The tensors of the result by path."""
    return {part.path: arena.get(part) for part in driver.results}


def native(
    driver: Driver, function: Function, args: list[Value], level: Level = X86_64_V3, threads: int = 1
) -> Tensors:
    """What native code gives."""
    e = engine()
    blobs = [e.get(OBJECT, e.leaf("kernel", one, KERNEL), level=level.name).value for one in driver.kernels]
    with Threads(e.get(ROUTINES).value, threads) as pool:
        entry = NativeEntry(driver, blobs, pool)
        filled(entry.arena, driver, function, args)
        entry.run()
        if any(entry.arena.failed(check) is not None for check in driver.checks):
            raise EmptiedRow
        return results(entry.arena, driver)


def interpreted(driver: Driver, function: Function, args: list[Value]) -> Tensors:
    """What the kernel interpreter gives."""
    entry = InterpretedEntry(driver)
    filled(entry.arena, driver, function, args)
    entry.run()
    return results(entry.arena, driver)


def exactly(
    program: Program,
    headers: Mapping[Any, Any],
    entry: str,
    args: list[Value],
    dims: Mapping[str, int],
    prefix: tuple[int, ...] = (),
    bits: int = 160,
) -> Tensors:
    """What the exact reference gives for the same arguments, as doubles."""
    m = Reals(bits)
    with m.active():
        numbers = [_exact(m, arg) for arg in args]
    found: Tensors = {}
    _flat(Interpreter(program, m, headers).run(entry, numbers, dims, prefix), "", found)
    return found


def _exact(m: Reals, value: Value) -> Value:
    return exact.map_leaves(value, lambda data: m.from_doubles(np.array(data, dtype=np.float64)))


def _flat(value: Value, path: str, found: Tensors) -> None:
    match value:
        case exact.Real(data):
            found[path] = data.astype(np.float64)
        case exact.Index(data, _) | exact.Mask(data):
            found[path] = np.asarray(data)
        case exact.Key(data):
            found[path] = np.frombuffer(data, "<i4")
        case Items(items):
            for place, item in enumerate(items):
                _flat(item, f"{path}.{place}", found)
        case Record(fields):
            for name, item in fields.items():
                _flat(item, f"{path}.{name}", found)
        case Number() | exact.Truth():
            pass
        case _:
            raise TypeError(type(value).__name__)


def same(one: Tensors, other: Tensors) -> bool:
    """Equal to the last bit; any NaN is as good as another."""
    assert one.keys() == other.keys()
    return all(
        np.array_equal(one[key], other[key], equal_nan=one[key].dtype.kind == "f")
        and np.array_equal(np.signbit(one[key]) | np.isnan(one[key]), np.signbit(other[key]) | np.isnan(other[key]))
        if one[key].dtype.kind == "f"
        else np.array_equal(one[key], other[key])
        for key in one
    )
