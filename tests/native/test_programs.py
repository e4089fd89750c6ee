"""Random programs natively: against the exact reference, and every way to run one against the others."""

from collections.abc import Iterator

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.ad.pipeline import Remat
from presk.core.ir import Function, Program
from presk.exact.balls import Balls
from presk.exact.interpreter import Interpreter, Stopped
from presk.exact.values import Items, Real, Record, Value, map_leaves
from presk.kernels.trace.memory import plan
from tests.native.flow import check_same, check_written, flow
from tests.native.support import EmptiedRow, driver_of, exactly, given_to, interpreted, native, same, traced
from tests.programs.entries import Generated
from tests.programs.running import Core, core
from tests.programs.strategies import examples, programs

SMALL = 8


def function_of(program: Program, name: str) -> Function:
    """A function by name."""
    return next(one for one in program.functions if one.name == name)


def reals(value: Value) -> Iterator[Real]:
    """The real tensors of a value, in order."""
    match value:
        case Real():
            yield value
        case Items(items):
            for item in items:
                yield from reals(item)
        case Record(fields):
            for item in fields.values():
                yield from reals(item)
        case _:
            pass


@examples(SMALL)
@given(programs(fuel=40), st.integers(0, 1 << 20))
def test_a_program_gives_nearly_the_exact_value(program: Generated, seed: int) -> None:
    made = core(program.files)
    dims = program.setting(seed)
    after = made.after()
    for entry in (program.value.name, program.gradient.name):
        function = function_of(after, entry)
        args = given_to(function, made.lowered.headers, dims, "f64")
        driver = driver_of(traced(after, made.lowered.headers, entry, dims, "f64"))
        try:
            found = native(driver, function, args)
        except EmptiedRow:
            continue
        near(list(found.values()), made, after, entry, args, dims)


def near(
    found: list[np.ndarray], made: Core, after: Program, entry: str, args: list[Value], dims: dict[str, int]
) -> None:
    """Whether each number is in a ball whose radius is a few times what 53 bits cost at worst in the order of the reference."""
    m = Balls(53)
    with m.active():
        numbers = [map_leaves(arg, lambda data: m.from_doubles(np.array(data, dtype=np.float64))) for arg in args]
    try:
        around = Interpreter(after, m, made.lowered.headers).run(entry, numbers, dims, ())
    except Stopped:
        return  # 53 bits cannot tell that it is defined
    for array, ball in zip(found, reals(around), strict=True):
        # What cancels exactly for balls has no radius, and may leave a rest of its neighbours' size.
        rest = flint.arb(float(np.max(np.abs(array), initial=0.0))) * flint.arb(2) ** -50 + flint.arb(2) ** -1000
        for number, one in zip(array.ravel().tolist(), np.ravel(ball.data), strict=True):
            if one.is_finite():
                assert abs(flint.arb(number) - one.mid()) <= 16 * one.rad() + rest, (
                    entry,
                    number,
                    one,
                )


@examples(SMALL)
@given(programs(), st.integers(0, 1 << 20))
def test_every_way_to_run_a_program_gives_the_same_bits(program: Generated, seed: int) -> None:
    made = core(program.files)
    dims, headers, entry = program.setting(seed), made.lowered.headers, program.gradient.name
    type_ = ("f32", "bf16", "f64")[seed % 3]
    stored, again = (made.after(remat, hold=type_ == "bf16") for remat in (Remat.STORE, Remat.RECOMPUTE))
    function = function_of(stored, entry)
    args = given_to(function, headers, dims, type_)
    made_trace = traced(stored, headers, entry, dims, type_)
    driver = driver_of(made_trace)
    before = flow(made_trace)
    check_written(before)
    check_same(before, flow(driver))
    try:
        found = native(driver, function, args)
    except EmptiedRow:
        return
    assert same(found, interpreted(driver, function, args))
    assert same(found, native(plan(made_trace), function, args, threads=2))
    try:
        assert same(found, native(driver_of(traced(again, headers, entry, dims, type_)), function, args))
    except EmptiedRow:
        # What is computed again may be more than what is stored: a softmax that no result needs.
        with pytest.raises(Stopped, match="the mask refuses"):
            exactly(again, headers, entry, args, dims)
    if type_ != "bf16":
        apart = driver_of(traced(stored, headers, entry, dims, type_, fused=False))
        assert same(found, native(apart, function, args))
