"""What generated programs compute, in every way that must give the same."""

import random
from typing import Any

import gmpy2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.ad.pipeline import Remat
from presk.core.unroll import unroll_program
from presk.exact.faults import UNDEFINED
from presk.exact.run import Job, run_entry
from tests.ad.evaluate import Evaluator
from tests.programs.entries import Generated
from tests.programs.running import core
from tests.programs.strategies import examples, programs
from tests.programs.values import Inputs, Value, floats, plain, reals
from tests.programs.values import given as files_of


def same(one: Value, other: Value) -> bool:
    """Whether two results of the exact reference are the same to the last bit."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(item, other[name]) for name, item in one.items())
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and all(a == b and str(a) == str(b) for a, b in zip(one.flat, other.flat))
    return bool(one == other)


def numbers(value: Value) -> list[Any]:
    """Every real of a value, in order."""
    return [number for _, number in reals(value)]


@settings(examples(30))
@given(programs(), st.integers(0, 1 << 20))
def test_values_agree_with_a_plain_evaluation(program: Generated, seed: int) -> None:
    """Values and gradients, in binary64, by another evaluator; what is drawn is made up there, so programs that draw are left out,
    as are sums over nothing."""
    made = core(program.files)
    dims = program.setting(seed)
    if program.features & {"draws", "sample", "length 0"} or not all(dims.values()):
        return
    inputs = Inputs(seed, dims).entry(program.value)
    evaluator = Evaluator(made.after(), made.lowered.headers)
    arguments = [floats(inputs[name]) for name, _ in program.value.params]
    for entry in (program.value.name, program.gradient.name):
        exact = numbers(plain(made.run(made.after(), entry, dims, inputs).value))
        rounded = numbers(evaluator.run(entry, arguments, dims))
        assert len(exact) == len(rounded)
        for one, other in zip(exact, rounded):
            # No element of a value is above 32, and a chain of some dozens of roundings is amplified by as much at each step.
            assert abs(float(one) - other) <= 1e-8 * max(1.0, *map(abs, rounded)), (entry, float(one), other)


@settings(examples(15))
@given(programs(), st.integers(0, 1 << 20))
def test_every_way_to_a_gradient_gives_the_same_bits(program: Generated, seed: int) -> None:
    made = core(program.files)
    dims = program.setting(seed)
    inputs = Inputs(seed, dims).entry(program.value)
    ways = {"plain": made.plain()}
    for remat in Remat:
        for hold in (False, True):
            ways[f"{remat}, groups held: {hold}"] = made.after(remat, hold)
    ways["unrolled"] = made.after(program=unroll_program(made.program))
    for entry in (program.value.name, program.gradient.name):
        found = {way: plain(made.run(one, entry, dims, inputs, bits=96).value) for way, one in ways.items()}
        for way, value in found.items():
            if way == "unrolled" and entry == program.gradient.name:
                # A fold's sweep adds what the layers give in another order: the last bits may differ.
                pairs = list(zip(numbers(found["plain"]), numbers(value), strict=True))
                size = max((1.0, *(abs(float(one)) for one, _ in pairs)))
                assert all(abs(one - other) <= 2.0**-80 * size for one, other in pairs), way
            else:
                assert same(found["plain"], value), (entry, way)


@settings(examples(15))
@given(programs(), st.integers(0, 1 << 20))
def test_proved_bounds_hold_the_exact_value(program: Generated, seed: int) -> None:
    made = core(program.files)
    dims = program.setting(seed)
    inputs = Inputs(seed, dims).entry(program.value)
    after = made.after()
    # Of `max(x, x)` a ball of x cannot tell which is the larger one: the bound of its gradient holds both.
    ties = bool(program.features & {"extremum", "clamp"})
    for entry in (program.value.name, program.gradient.name):
        rounded = made.run(after, entry, dims, inputs, bits=128, bounds=True)
        better = numbers(plain(made.run(after, entry, dims, inputs, bits=400).value))
        bounds = [bound for leaf in _leaves(rounded.bounds) for bound in leaf.ravel().tolist()]
        assert len(bounds) == len(better)
        with gmpy2.context(precision=400):
            for one, other, bound in zip(numbers(plain(rounded.value)), better, bounds):
                assert abs(one - other) <= bound + gmpy2.mpfr(2) ** -350, (entry, one, other, bound)
                tight = bound <= 2.0**-60 * max(1, abs(other))
                assert tight or (ties and entry == program.gradient.name), "a bound that says nothing"


def _leaves(bounds: Any) -> list[Any]:
    """The arrays of bounds, in order."""
    if isinstance(bounds, dict):
        return [leaf for item in bounds.values() for leaf in _leaves(item)]
    if isinstance(bounds, list | tuple):
        return [leaf for item in bounds for leaf in _leaves(item)]
    return [] if bounds is None else [bounds]


@settings(examples(25))
@given(programs(), st.integers(0, 1 << 20))
def test_what_is_undefined_is_refused_and_nothing_else(program: Generated, seed: int) -> None:
    made = core(program.files)
    after = made.after()
    chosen = random.Random(seed)
    for dims, wanted in (
        *((one, ()) for one in chosen.sample(program.settings, min(2, len(program.settings)))),
        *((one, (UNDEFINED,)) for one in chosen.sample(program.undefined, min(3, len(program.undefined)))),
    ):
        # Where an index has no value nothing can be given for it.
        inputs = Inputs(seed, dims).entry(program.value) if not wanted else {}
        words = {name: "1" for name, type_ in program.value.params if type(type_).__name__ == "Hyper"} if wanted else {}
        job = Job(
            after, program.value.name, made.lowered.headers, dims=dims, inputs=files_of(inputs), words=words, bits=64
        )
        outcome = run_entry(job)
        assert tuple(one.code for one in outcome.diagnostics) == wanted, (dims, outcome.diagnostics)
