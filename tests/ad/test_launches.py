"""Launches, counted statically: the marks of the chapter for programs that are its own, bounds for the others."""

import pytest

from presk.ad.launches import Launches
from presk.ad.pipeline import Remat, after_ad
from presk.ad.vjp import differentiate
from presk.core.ir import Program
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.core.program import CoreProgram
from presk.types.trees import leaf_count
from tests.ad.support import corpus, lowered

RECOMPUTE, STORE = Remat.RECOMPUTE, Remat.STORE


def count(given: CoreProgram, program: Program, entry: str, *, fused: bool = True, **dims: int) -> int:
    return Launches(program, lambda instance: leaf_count(instance, given.headers), fused=fused).of(entry, dims)


def gradient(given: CoreProgram, entry: str, remat: Remat, *, hold: bool, **dims: int) -> int:
    program = after_ad(given.program, remat, hold_groups=hold).program
    return Launches(program, lambda instance: leaf_count(instance, given.headers), fused=True).of(entry, dims)


def test_the_gradient_of_mse_launches_what_the_chapter_counts():
    given = corpus("basics/mlp.psk")
    plain = differentiate(given.program).program
    assert count(given, plain, "mse_grad", D=4, B=2) == 46
    found = {
        (remat, hold): gradient(given, "mse_grad", remat, hold=hold, D=4, B=2)
        for remat in Remat
        for hold in (False, True)
    }
    assert found == {
        (RECOMPUTE, True): 28,
        (RECOMPUTE, False): 26,
        (STORE, True): 24,
        (STORE, False): 23,
    }


# The chapter's figures are those of its own programs, which are not at hand; ours are written after its text.
MARKS = {
    "nlp/minigpt.psk": {(RECOMPUTE, True): 577, (STORE, True): 412, (RECOMPUTE, False): 563, (STORE, False): 385},
    "nlp/05_gpt.psk": {(RECOMPUTE, True): 1598, (STORE, True): 1140, (RECOMPUTE, False): 1548, (STORE, False): 1012},
}


@pytest.mark.parametrize("file", MARKS)
def test_larger_gradients_stay_below_the_marks(file):
    tiny = {"V": 64, "D": 32, "H": 2, "L": 2}
    given = corpus(file, Mode.TRAINING, **(tiny if "mini" in file else {}))
    for (remat, hold), mark in MARKS[file].items():
        assert gradient(given, "loss_grad", remat, hold=hold, B=2, T=16) <= mark


def test_holding_costs_little_and_storing_saves_much():
    given = corpus("nlp/05_gpt.psk", Mode.TRAINING)
    plain = count(given, differentiate(given.program).program, "loss_grad", B=2, T=16)
    free, held = (gradient(given, "loss_grad", RECOMPUTE, hold=hold, B=2, T=16) for hold in (False, True))
    kept = gradient(given, "loss_grad", STORE, hold=False, B=2, T=16)
    assert free < held <= free + 68 and kept < 0.65 * free < 0.5 * plain


def test_a_fold_launches_its_body_once_an_iteration():
    text = """
        const L : nat = {}
        dim B
        module Block {{
          param w : ℝ[2, 2]
          fn apply(x : ℝ[batch: B, 2]) -> ℝ[batch: B, 2] = x + sin(x · w)
        }}
        module Tower {{
          use blocks : stack{{L}}(Block)
          fn apply(x : ℝ[batch: B, 2]) -> ℝ[batch: B, 2] = exp(blocks.apply(x))
        }}
    """
    for layers in (0, 1, 7):
        one = lowered(text.format(layers))
        assert count(one, one.program, "Tower.apply", B=3) == 1 + 2 * layers
        assert count(one, one.program, "Tower.apply", fused=False, B=3) == 1 + 3 * layers


def test_a_tree_launches_once_a_leaf_for_a_whole_chain():
    program = parse("""
module M in "m.psk"
fn f(θ : params M, g : params M, s : ℝ[]) -> (params M, ℝ[]) {
  %3 : params M = mul s, g
  %4 : params M = sub θ, %3
  %5 : ℝ[] = sum_squares %4
  %6 : (params M, ℝ[]) = (%4, %5)
  return %6
}
""")
    found = [Launches(program, lambda instance: 7, fused=fused).of("f", {}) for fused in (False, True)]
    assert found == [21, 14]


def test_closures_launch_what_they_call():
    given = lowered("""
        dim N
        fn prod(a : ℝ[n: N], b : ℝ[n: N]) -> ℝ = sum(a * b)
        fn nested(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ =
          let f = λ a. prod(a, y)
          let g = λ b. f(b) * f(b)
          g(x)
    """)
    # Twice a product and a sum, and the product of both.
    assert count(given, given.program, "nested", N=3) == 5


def test_moving_naming_and_numbers_launch_nothing():
    given = lowered(
        """
        dim N
        fn f(x : ℝ[n: N, m: 4], k : nat) -> ℝ[n: N, b: 2, c: 2] =
          let y = split(axis m, b: 2, c: 2, (x : ℝ[n: N, m: 4]))
          let s = real(k * 2 + 1)
          y * s
    """.replace("ℝ[a: N, b: 2, c: 2]", "ℝ[n: N, b: 2, c: 2]")
    )
    assert count(given, given.program, "f", N=3) == 1


def test_a_loop_over_an_unknown_dimension_is_an_error():
    given = lowered("""
        dim B
        module Block {
          param w : ℝ
          fn apply(x : ℝ[batch: B]) -> ℝ[batch: B] = x * w
        }
        module Tower{L : dim} {
          use blocks : stack{L}(Block)
          fn apply(x : ℝ[batch: B]) -> ℝ[batch: B] = blocks.apply(x)
        }
    """)
    assert count(given, given.program, "Tower.apply", L=4, B=2) == 4
    with pytest.raises(KeyError):
        count(given, given.program, "Tower.apply", B=2)
