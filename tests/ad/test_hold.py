"""Fusion groups under differentiation: where they show in the result, none of what it reads is lost."""

import numpy as np
import pytest

from presk.ad.hold import held
from presk.ad.liveness import Body, Neighbours
from presk.ad.pipeline import Remat, after_ad
from presk.ad.vjp import differentiate
from presk.core.fusion import partition
from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.parse import parse
from tests.ad.evaluate import Evaluator, narrow
from tests.ad.support import PREFIX, arguments, body_of, corpus, equal, lowered, named

ALONE = Neighbours(lambda name: False, lambda name, items: items)


def left(text: str, wanted: set[int]) -> tuple[set[int], set[int], set[int]]:
    """Of a function: the lets that stay without holding, those that stay with it, the items of its result that stay."""
    body = Body(parse(text).functions[-1], ALONE, None)
    live, items = held(body, frozenset(wanted))
    return set(body.live(frozenset(wanted)).lets), set(live.lets), set(items)


def test_a_dead_reader_is_held():
    # %2 is read by a reduction that nothing reads, and by %4: a root, which it would not be without.
    free, kept, _ = left(
        """
fn f{N}(x : ℝ[n: N]) -> (ℝ[n: N]) {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[n: N] = neg %1
  %3 : ℝ[] = sum axis n %2
  %4 : ℝ[n: N] = tanh %2
  %5 : (ℝ[n: N]) = (%4)
  return %5
}
""",
        {0},
    )
    assert free == {1, 2, 4, 5} and kept == {1, 2, 3, 4, 5}


def test_of_several_dead_readers_the_cheapest_is_held():
    free, kept, _ = left(
        """
fn f{N}(x : ℝ[n: N], y : ℝ[n: N]) -> (ℝ[n: N]) {
  %2 : ℝ[n: N] = neg x
  %3 : ℝ[n: N] = exp y
  %4 : ℝ[n: N] = mul %2, %3
  %5 : ℝ[] = sum axis n %2
  %6 : ℝ[n: N] = tanh %2
  %7 : (ℝ[n: N]) = (%6)
  return %7
}
""",
        {0},
    )
    assert free == {2, 6, 7} and kept == {2, 5, 6, 7}


def test_an_item_of_the_result_that_no_caller_reads_is_held_before_anything_is_computed():
    free, kept, items = left(
        """
fn f{N}(x : ℝ[n: N]) -> (ℝ[n: N], ℝ[n: N]) {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[n: N] = tanh %1
  %3 : (ℝ[n: N], ℝ[n: N]) = (%1, %2)
  return %3
}
""",
        {1},
    )
    assert free == kept == {1, 2, 3} and items == {0, 1}


def test_an_identity_is_left_in_place():
    free, kept, _ = left(
        """
fn f{N}(x : ℝ[n: N], y : ℝ[n: N]) -> (ℝ[n: N]) {
  %2 : ℝ[n: N] = mul x, y
  %3 : ℝ[n: N] = sum_to %2, y
  %4 : ℝ[n: N] = tanh %3
  %5 : (ℝ[n: N]) = (%4)
  return %5
}
""",
        {0},
    )
    assert free == {2, 4, 5} and kept == {2, 3, 4, 5}


def test_nothing_is_held_where_no_group_changes():
    free, kept, items = left(
        """
fn f{N}(x : ℝ[n: N], w : ℝ[n: N]) -> (ℝ[n: N], ℝ[]) {
  %2 : ℝ[n: N] = mul x, w
  %3 : ℝ[n: N] = exp %2
  %4 : ℝ[] = dot x, w
  %5 : ℝ[] = sqrt %4
  %6 : (ℝ[n: N], ℝ[]) = (%3, %5)
  return %6
}
""",
        {0},
    )
    assert free == kept == {2, 3, 6} and items == {0}


def test_in_mse_the_square_is_held_for_the_difference():
    free = after_ad(corpus("basics/mlp.psk").program, Remat.RECOMPUTE, hold_groups=False).program
    kept = after_ad(corpus("basics/mlp.psk").program, Remat.RECOMPUTE, hold_groups=True).program
    more = set(body_of(kept, "mse.vjp")) - set(body_of(free, "mse.vjp"))
    assert "%6 : ℝ[batch: B, model: D] = pow 2 %5" in more
    interior = partition(named(free, "mse.vjp")).interior() - partition(named(kept, "mse.vjp")).interior()
    assert interior == {5}


FILES = ["basics/mlp.psk", "tutorial/04_grad.psk", "tutorial/09_dropout.psk", "constructs/stack.psk", "nlp/05_gpt.psk"]


@pytest.mark.parametrize("file", FILES)
def test_what_the_result_reads_keeps_its_groups(file):
    given = corpus(file, Mode.TRAINING)
    plain = differentiate(given.program).program
    kept = after_ad(given.program, Remat.RECOMPUTE, hold_groups=True).program
    for function in kept.functions:
        before = partition(named(plain, function.name))
        assert interior(function) <= before.interior()


def interior(function: Function) -> frozenset[int]:
    return partition(function).interior()


def gradient(program: Program, headers: object, name: str, args: list[object], dims: dict[str, int]) -> object:
    return Evaluator(program, headers, narrow).run(f"{name}.grad", args, dims, PREFIX)  # type: ignore[arg-type]


def test_without_holding_a_narrow_storage_sees_the_difference():
    given = corpus("basics/mlp.psk")
    name, dims = "mse_grad.lambda0", {"D": 4, "B": 3}
    args = arguments(named(given.program, name), given.headers, dims)
    plain = gradient(differentiate(given.program).program, given.headers, name, args, dims)
    for remat in Remat:
        kept = after_ad(given.program, remat, hold_groups=True).program
        free = after_ad(given.program, remat, hold_groups=False).program
        assert equal(gradient(kept, given.headers, name, args, dims), plain)
        assert not equal(gradient(free, given.headers, name, args, dims), plain)


def test_a_forward_pass_gives_its_functions_value_in_its_bits():
    # Where groups show, what the sweep reads is computed apart from the value.
    text = """
        dim N
        fn f(x : ℝ[n: N], w : ℝ[n: N]) -> ℝ =
          let a = x * w + sin(x)
          let b = exp(a / 8)
          sum(b * tanh(a))
        fn g(x : ℝ[n: N], w : ℝ[n: N]) -> ℝ[n: N] = grad(λ x. f(x, w))(x)
    """
    given = lowered(text)
    dims = {"N": 50}
    args = arguments(named(given.program, "f"), given.headers, dims)
    value = Evaluator(given.program, given.headers, narrow).run("f", args, dims)
    plain = Evaluator(differentiate(given.program).program, given.headers, narrow).run("g", args, dims)
    for remat in Remat:
        done = after_ad(given.program, remat, hold_groups=True, objectives=("f",)).program
        found, adjoint, _ = Evaluator(done, given.headers, narrow).run("f.value_vjp", args, dims)
        assert equal(found, value) and equal(adjoint, plain)
    stored = after_ad(given.program, Remat.STORE, hold_groups=True, objectives=("f",))
    apart = [one.text for one in stored.purposes if one.function == "f.fwd" and "as the sweep reads it" in one.text]
    assert apart
    shared = after_ad(given.program, Remat.STORE, hold_groups=False, objectives=("f",))
    assert not [one.text for one in shared.purposes if "as the sweep reads it" in one.text]


def test_narrowing_is_to_eight_bits():
    assert narrow(np.array([1.0, 1 + 2.0**-7, 1 + 2.0**-9, 1 + 3 * 2.0**-9, 0.0])).tolist() == [
        *(1.0, 1 + 2.0**-7, 1.0, 1 + 2.0**-7, 0.0)
    ]
