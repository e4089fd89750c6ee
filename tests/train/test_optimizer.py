"""AdamW as the compiler lowers it: against its definition in mpmath at 256 bits, against PyTorch in binary64, and in machine types."""

import json
import random
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

from presk.ad.launches import Launches
from presk.core.ir import Function, Prim
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.core.program import lower_program
from presk.core.text import print_program
from presk.core.verify import verify
from presk.exact.given import Given
from presk.exact.run import Job, run_entry
from presk.exact.scope import Scope
from presk.exact.synthesize import arguments, sources
from presk.exact.values import Number, Value
from presk.kernels.trace.memory import Driver, launches
from presk.native.values import Doubles
from presk.types.trees import leaf_count
from tests.ad.support import corpus, text_of
from tests.native.support import TYPES, driver_of, exactly, interpreted, native, same, traced
from tests.peers.adamw_cases import CASES, RESULTS, SHAPES, Optimizer, gradients, start
from tests.peers.numbers import SCALE
from tests.programs.running import Core, core, engine
from tests.programs.strategies import examples
from tests.train.adamw import BITS, GUARD, MODEL, State, block, files, program, rate, step

FUNCTIONS: Final = ["adamw.init", "adamw.lr", "adamw.step"]
NAMES: Final = [case.name for case in CASES]


@cache
def made(source: str) -> Core:
    """The core of a program."""
    return core({"main.psk": source})


def exact_result(
    found: Core, entry: str, words: Mapping[str, int], inputs: Mapping[str, Given], bits: int = BITS
) -> Any:
    """An entry's value on the exact reference."""
    texts = {name: str(number) for name, number in words.items()}
    job = Job(found.program, entry, found.lowered.headers, inputs=inputs, words=texts, bits=bits)
    outcome = run_entry(job)
    assert outcome.result is not None, outcome.diagnostics
    return outcome.result.value


def exact_rate(case: Optimizer, t: int, total: int) -> Any:
    """A learning rate on the exact reference, for mpmath."""
    return big(exact_result(made(program(case)), "adamw.lr", {"t": t, "total": total}, {}).data[()])


def big(number: Any) -> Any:
    """A number of MPFR in mpmath, exactly."""
    with mpmath.workprec(BITS + GUARD):
        numerator, denominator = number.as_integer_ratio()
        return mpf(int(numerator)) / int(denominator)


def exact_step(case: Optimizer, state: State, gradient: Mapping[str, Any], t: int, total: int) -> State:
    """A step on the exact reference."""
    inputs = files(state, gradient, SHAPES)
    value = exact_result(made(program(case)), "adamw.step", {"t": t, "total": total}, inputs)
    parameters, moments = value.items
    return State(*(dict(leaves(tree)) for tree in (parameters, *moments.items)))


def leaves(tree: Any, path: str = "") -> Any:
    """Paths and flat numbers of a tree's leaves."""
    for name, item in tree.fields.items():
        if hasattr(item, "fields"):
            yield from leaves(item, f"{path}{name}.")
        else:
            yield f"{path}{name}", [big(number) for number in item.data.ravel()]


def numbers(state: State) -> list[Any]:
    """All numbers of a state."""
    return [number for tree in state for path in SHAPES for number in tree[path]]


def began(case: Optimizer) -> State:
    """The state before the first step."""
    parameters = {path: [number / SCALE for number in leaf.numbers] for path, leaf in start(case).items()}
    zeros = {path: [0.0] * len(leaf) for path, leaf in parameters.items()}
    return State(parameters, zeros, zeros)


def drawn(case: Optimizer) -> State:
    """A state in the middle of a training; second moments are not negative."""
    draw = random.Random(case.seed)
    sizes = {path: len(leaf.numbers) for path, leaf in start(case).items()}
    parameters, first, second = (
        {path: [draw.uniform(low, 1) for _ in range(count)] for path, count in sizes.items()} for low in (-1, -1, 0)
    )
    return State(parameters, first, second)


def rounded(state: State) -> State:
    """The state in binary64."""
    return State(*({path: [float(number) for number in leaf] for path, leaf in tree.items()} for tree in state))


def close(one: Any, other: Any, relative: Any, absolute: Any) -> bool:
    """Whether two numbers of mpmath agree."""
    with mpmath.workprec(BITS + GUARD):
        return bool(abs(one - other) <= max(relative * abs(other), absolute))


# --- what the functions are -------------------------------------------------------------------------------------------


def test_the_three_functions_are_functions_of_the_core() -> None:
    found = made(program(CASES[1]))
    names = [function.name for function in found.program.functions]
    assert names[-3:] == FUNCTIONS
    assert list(found.lowered.parts)[-3:] == FUNCTIONS
    heads = [text_of(found.program, name).partition(" {\n")[0].replace("\n   ", "") for name in FUNCTIONS]
    assert heads == [
        "fn adamw.init(θ : params Net) -> (params Net, params Net)",
        "fn adamw.lr(t : nat, total : nat) -> ℝ[]",
        "fn adamw.step(θ : params Net, s : (params Net, params Net), g : params Net, t : nat, total : nat)"
        " -> (params Net, (params Net, params Net))",
    ]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_they_are_well_formed_and_read_back_from_their_text(case: Optimizer) -> None:
    found = made(program(case))
    headers = found.lowered.headers
    assert verify(found.program, headers, after="lowering") == ()
    assert parse(print_program(found.program)) == found.program


def test_only_what_an_entry_needs_is_lowered() -> None:
    typed = made(program(CASES[0])).typed
    for entry, needed in (("adamw.init", FUNCTIONS[:1]), ("adamw.lr", FUNCTIONS[1:2]), ("adamw.step", FUNCTIONS[1:])):
        lowered = lower_program(engine(), typed, Mode.INFERENCE, [entry])
        assert list(lowered.parts) == needed


def test_an_optimizer_that_no_training_uses_has_no_model_and_no_functions() -> None:
    source = block(CASES[0]) + MODEL.partition("training run")[0]
    found = made(source)
    assert found.lowered.optimizer is None
    assert not any(name.startswith("adamw") for name in found.lowered.parts)


def test_a_name_that_the_program_has_itself_is_left_to_it() -> None:
    own = "module adamw {\n  fn lr(x : ℝ[]) -> ℝ[] = x\n}\n"
    found = made(own + program(CASES[1]))
    assert found.lowered.optimizer == ("main.adamw.init", "main.adamw.lr", "adamw.step")
    assert "call main.adamw.lr(t, total)" in text_of(found.program, "adamw.step")
    assert verify(found.program, found.lowered.headers, after="lowering") == ()


def test_a_model_with_open_dimensions_has_an_optimizer_of_these_dimensions() -> None:
    source = (
        "dim V\nmodule Table {\n  param w : ℝ[v: V] init = zeros\n}\ndim B\n"
        "fn loss(θ : params Table, x : idx[V][batch: B]) -> ℝ[] = sum(θ.w)\n"
        "optimizer adamw {\n  lr = 1e-3\n}\n"
        "training run {\n  model = Table\n  objective = loss\n  optimizer = adamw\n}\n"
    )
    found = made(source)
    assert verify(found.program, found.lowered.headers, after="lowering") == ()
    assert [named(found, name).dims for name in FUNCTIONS] == [("V",), (), ("V",)]


# --- the exact reference ----------------------------------------------------------------------------------------------


def test_both_moments_begin_at_zero() -> None:
    moments = exact_result(made(program(CASES[0])), "adamw.init", {}, {})
    for tree in moments.items:
        found = dict(leaves(tree))
        assert list(found) == list(SHAPES)
        assert all(number == 0 for leaf in found.values() for number in leaf)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_step_is_the_definition_at_256_bits(case: Optimizer) -> None:
    for t, total in ((1, case.total), (2, 1000), (700, 1000)):
        state, gradient = drawn(case), gradients(case, t)
        found, expected = exact_step(case, state, gradient, t, total), step(case, state, gradient, t, total)
        # A number goes through some thirty operations, the moments' correction amplifies by 1/(1 − βᵗ), and θ' may cancel.
        assert all(
            close(one, other, mpf(2) ** -230, mpf(2) ** -240)
            for one, other in zip(numbers(found), numbers(expected), strict=True)
        )
        assert any(one != other for one, other in zip(numbers(found), numbers(state), strict=True))


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_pytorch_takes_the_same_steps(case: Optimizer) -> None:
    """Each from the state that ours left, rounded to binary64; so the distance is that of all steps so far."""
    stored = json.loads((RESULTS / f"{case.name}.json").read_text("utf-8"))
    assert len(stored) == case.total
    state = began(case)
    for t, theirs in zip(case.steps, stored, strict=True):
        before = state
        state = rounded(exact_step(case, state, gradients(case, t), t, case.total))
        assert float(exact_rate(case, t, case.total)) == pytest.approx(
            float.fromhex(theirs["lr"]), rel=1e-15, abs=1e-18
        )
        for tree, kind in zip(state, ("parameters", "first", "second"), strict=True):
            for path in SHAPES:
                other = [float.fromhex(text) for text in theirs[kind][path]]
                # PyTorch takes 1 − β as a difference of doubles and adds in other orders: some 2⁻⁵² at each operation.
                assert np.allclose(tree[path], other, rtol=2e-13, atol=1e-16 if kind == "parameters" else 0.0), (
                    t,
                    path,
                )
        moved = [one != other for one, other in zip(numbers(state), numbers(before), strict=True)]
        assert any(moved) or t in case.still


def test_stored_results_are_those_of_the_cases() -> None:
    assert sorted(path.stem for path in RESULTS.glob("*.json")) == sorted(NAMES)


def test_without_a_gradient_every_leaf_decays_and_nothing_is_divided_by_zero() -> None:
    case = next(case for case in CASES if case.name == "no_gradient")
    state = began(case)
    found = exact_step(case, state, gradients(case, 1), 1, case.total)
    factor = 1 - Fraction(case.lr) * Fraction(case.weight_decay or "0")
    assert any(number for leaf in state.parameters.values() for number in leaf)
    for path, leaf in state.parameters.items():
        with mpmath.workprec(BITS + GUARD):
            expected = [mpf(number) * factor.numerator / factor.denominator for number in leaf]
        assert all(
            close(one, other, mpf(2) ** -250, 0) for one, other in zip(found.parameters[path], expected, strict=True)
        )
    assert all(number == 0 for tree in (found.first, found.second) for leaf in tree.values() for number in leaf)


# --- schedules --------------------------------------------------------------------------------------------------------

KINDS: Final = ("constant", "linear", "cosine")


def scheduled(kind: str, warmup: int) -> Optimizer:
    return Optimizer("scheduled", "3e-4", 1, 0, schedule=(kind, warmup))


@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_is_the_schedules_at_its_first_middle_and_last_steps(kind: str) -> None:
    case, total = scheduled(kind, 100), 1000
    for t in (1, 2, 50, 99, 100, 101, 550, 999, 1000):
        assert close(exact_rate(case, t, total), rate(case, t, total), mpf(2) ** -240, mpf(2) ** -250), t
    lr = exact_rate(case, 100, total)
    assert close(lr, rate(scheduled("constant", 0), 1, 1), mpf(2) ** -250, 0)
    if kind != "constant":
        assert exact_rate(case, total, total) == 0
        with mpmath.workprec(BITS + GUARD):
            half = lr / 2
        assert close(exact_rate(case, 550, total), half, mpf(2) ** -250, 0)


@given(st.sampled_from(KINDS[1:]), st.integers(0, 30), st.integers(1, 100), st.integers(1, 130))
@examples(40)
def test_the_rate_is_the_schedules_everywhere(kind: str, warmup: int, longer: int, t: int) -> None:
    total = warmup + longer
    t = min(t, total)
    case = scheduled(kind, warmup)
    found = exact_rate(case, t, total)
    assert close(found, rate(case, t, total), mpf(2) ** -240, mpf(2) ** -250)
    assert (found == 0) == (t == total)


def test_what_is_piecewise_is_written_with_relu() -> None:
    """min(t, w) = w − relu(w − t) and max(d, c) = c + relu(d − c); π is a primitive, and no other is new."""
    found = made(program(CASES[1])).program
    used = {name: text_of(found, f"adamw.{name}") for name in ("lr", "step")}
    assert used["lr"].count("= relu ") == 2
    assert used["step"].count("= relu ") == 1
    assert used["lr"].count("= pi\n") == 1
    surface = {"relu", "sqrt", "cos", "add", "sub", "mul", "div", "pow", "powv", "real", "hyper_sub"}
    functions = [one for one in found.functions if one.name in FUNCTIONS]
    names = {binding.op.name for one in functions for binding in one.bindings if isinstance(binding.op, Prim)}
    assert names == surface | {"pi", "sum_squares", "zeros_like"}


# --- machine types ----------------------------------------------------------------------------------------------------


def driver(found: Core, entry: str, type_: str, *, fused: bool = True) -> Driver:
    return driver_of(traced(found.program, found.lowered.headers, entry, {}, type_, fused=fused))


def step_args(found: Core, case: Optimizer, type_: str, state: State | None = None) -> list[Value]:
    """Arguments of step 2, in a machine type; from a drawn state if none is given."""
    inputs = files(state or drawn(case), gradients(case, 2), SHAPES)
    given = sources(inputs, {"t": "2", "total": str(case.total)}, {}, 0)
    scope = Scope({}, (), found.lowered.headers)
    return arguments(Doubles(TYPES[type_]), scope, named(found, "adamw.step"), given)


def named(found: Core, name: str) -> Function:
    return next(function for function in found.program.functions if function.name == name)


def machine_rate(case: Optimizer, type_: str, t: int, total: int) -> float:
    """A learning rate as native code computes it."""
    found = made(program(case))
    args: list[Value] = [Number(mpq(t)), Number(mpq(total))]
    (value,) = native(driver(found, "adamw.lr", type_), named(found, "adamw.lr"), args).values()
    return float(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("type_", "unit"), [("f32", 2.0**-24), ("f64", 2.0**-53)])
def test_the_rate_keeps_its_digits_where_it_is_small(kind: str, type_: str, unit: float) -> None:
    """At the first step of a long warming up and at the last steps: a difference from 1 would have lost half of them."""
    case, total = scheduled(kind, 20_000), 1_000_000
    steps = (1, 7, 20_000, 20_001, *((999_990, 999_999) if kind == "linear" else ()), 1_000_000)
    for t in steps:
        assert machine_rate(case, type_, t, total) == pytest.approx(
            float(rate(case, t, total)), rel=8 * unit, abs=1e-30
        )
    assert (machine_rate(case, type_, total, total) == 0.0) == (kind != "constant")


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_a_gradient_within_the_bound_is_not_touched(type_: str) -> None:
    never = next(case for case in CASES if case.name == "clipped_never")
    clipped, free = (made(program(one)) for one in (never, Optimizer("free", never.lr, 3, 0, schedule=never.schedule)))
    results = []
    for found in (clipped, free):
        args = step_args(found, never, type_)
        results.append(native(driver(found, "adamw.step", type_), named(found, "adamw.step"), args))
    assert same(*results)


@pytest.mark.parametrize("size", [0, 20, 40])
def test_a_gradient_far_above_the_bound_keeps_its_digits(size: int) -> None:
    """In f32, at norms up to 10¹²: 1 − relu(1 − x) has no digit left there."""
    case = Optimizer("far", "1e-3", 3, 29, grad_clip="0.25", size=size)
    found, gradient = made(program(case)), gradients(case, 2)
    state = began(case)
    args = step_args(found, case, "f32", state)
    ran = native(driver(found, "adamw.step", "f32"), named(found, "adamw.step"), args)
    expected = step(case, state, gradient, 2, case.total).first
    for path in SHAPES:
        assert np.allclose(ran[f".1.0.{path}"].ravel(), [float(x) for x in expected[path]], rtol=1e-6, atol=0.0), path


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_native_steps_are_close_to_the_exact_ones_and_the_interpreters(case: Optimizer) -> None:
    found = made(program(case))
    function, args = named(found, "adamw.step"), step_args(found, case, "f64")
    fused = driver(found, "adamw.step", "f64")
    ran = native(fused, function, args)
    assert same(ran, interpreted(fused, function, args))
    assert same(ran, native(driver(found, "adamw.step", "f64", fused=False), function, args))
    exact = exactly(found.program, found.lowered.headers, "adamw.step", args, {})
    assert ran.keys() == exact.keys()
    assert len(ran) == 3 * len(SHAPES)
    for path, value in ran.items():
        assert np.allclose(value, exact[path], rtol=1e-12, atol=1e-16), path
        assert np.count_nonzero(value) > value.size // 2, path


# --- launches ---------------------------------------------------------------------------------------------------------

SIZE: Final = {"V": 92, "D": 64, "H": 2, "L": 2}


def test_a_step_of_the_course_gpt_launches_what_the_chapter_counts_or_less() -> None:
    """21 leaves. Without fusion 18 launches for each, with it 5: the norm's sum, the clipped gradient, both moments, the parameters.
    The others are of scalars: 21, of which fusion leaves the bound's group, a power and a difference for each moment, and the rate.
    The chapter's 414 are 15 more scalar ones."""
    gpt = corpus("nlp/05_gpt.psk", **SIZE)
    found = {}
    for fused in (True, False):
        counted = Launches(gpt.program, lambda instance: leaf_count(instance, gpt.headers), fused=fused)
        found[fused] = counted.of("adamw.step", {})
        made_ready = driver_of(traced(gpt.program, gpt.headers, "adamw.step", {}, "f32", fused=fused))
        assert launches(made_ready.rows) == found[fused]
    assert found == {True: 5 * 21 + 6, False: 18 * 21 + 21}
    assert found[True] == 111
    assert found[False] == 399 <= 414
