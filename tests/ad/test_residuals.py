"""Residuals: what a forward pass keeps, what a backward pass takes, and what keeps recomputing."""

from textwrap import dedent

import pytest

from presk.ad.pipeline import AfterAd, Remat, after_ad
from presk.ad.residuals import store
from presk.ad.signature import signatures
from presk.ad.sweep import vjp_of
from presk.ad.vjp import differentiate
from presk.core.ir import Call, Fold, Function, Prim, Program
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.types.type import Tuple
from tests.ad.evaluate import Evaluator, narrow
from tests.ad.support import (
    PREFIX,
    against_differences,
    all_ways,
    arguments,
    body_of,
    corpus,
    lowered,
    named,
    same_bits,
    sound,
    text_of,
)

MLP = "basics/mlp.psk"


def stored(program: Program, *, hold: bool = False) -> Program:
    return after_ad(program, Remat.STORE, hold_groups=hold).program


def names_of(program: Program) -> list[str]:
    return [function.name for function in program.functions]


def primitives(function: Function) -> list[str]:
    return [one.op.name for one in function.bindings if isinstance(one.op, Prim)]


def test_mlp_apply_fwd_is_the_chapters():
    assert text_of(stored(corpus(MLP).program), "MLP.apply.fwd") == dedent("""\
        fn MLP.apply.fwd{D hidden}(θ : params MLP{D, hidden}, x : ℝ[..., D])
            -> (ℝ[..., D], (ℝ[..., hidden], ℝ[..., hidden])) {
          l1 : params Linear{D, hidden} = θ.l1
          %3 : ℝ[..., hidden] = call Linear.apply{In = D, Out = hidden}(l1, x)
          %4 : ℝ[..., hidden] = gelu %3
          l2 : params Linear{hidden, D} = θ.l2
          %6 : ℝ[..., D] = call Linear.apply{In = hidden, Out = D}(l2, %4)
          %7 : (ℝ[..., hidden], ℝ[..., hidden]) = (%3, %4)
          %8 : (ℝ[..., D], (ℝ[..., hidden], ℝ[..., hidden])) = (%6, %7)
          return %8
        }
        """)


def test_a_sweep_that_reads_parameters_alone_needs_no_forward_pass():
    program = stored(corpus(MLP).program)
    assert "Linear.apply.bwd" in names_of(program)
    assert "Linear.apply.fwd" not in names_of(program) and "Linear.apply.vjp" not in names_of(program)
    assert [param.name for param in named(program, "Linear.apply.bwd").params] == ["θ", "x", "ct"]


def test_a_vjp_is_its_backward_pass_after_its_forward_pass():
    program = stored(corpus(MLP).program)
    called = [one.op.function for one in named(program, "mse_grad.lambda0.vjp").bindings if isinstance(one.op, Call)]
    assert called == ["mse_grad.lambda0.fwd", "mse_grad.lambda0.bwd"]
    gradient = named(program, "mse_grad.lambda0.grad")
    assert [one.op.function for one in gradient.bindings if isinstance(one.op, Call)] == ["mse_grad.lambda0.vjp"]


@pytest.mark.parametrize("hold", [False, True])
def test_numbers_are_those_of_f_and_of_its_vjp(hold):
    given = corpus("nlp/05_gpt.psk", Mode.TRAINING).program
    vjps = after_ad(given, Remat.RECOMPUTE, hold_groups=hold).program
    after = stored(given, hold=hold)
    forward = backward = 0
    for function in after.functions:
        primal, _, what = function.name.rpartition(".")
        if what == "fwd":
            own = {one.var: one for one in named(given, primal).bindings}
            for one in function.bindings:
                if one.var in own:
                    forward += 1
                    assert (one.name, one.type) == (own[one.var].name, own[one.var].type)
                    # What f computes by a primitive, it computes here by the same.
                    if isinstance(one.op, Prim):
                        assert one.op == own[one.var].op
        if what == "bwd":
            sweep = {one.var: one for one in named(vjps, f"{primal}.vjp").bindings}
            for one in function.bindings:
                old = sweep.get(one.var)
                if old is not None and isinstance(old.op, Prim) and isinstance(one.op, Prim):
                    backward += 1
                    assert (one.op.name, one.type) == (old.op.name, old.type)
    assert forward > 20 and backward > 60


def test_items_tuples_and_keys_are_made_again():
    text = """
        dim N
        fn noisy(s : (ℝ[n: N], key)) -> (ℝ[n: N], key) uses Rand =
          let (x, k) = s
          let (k1, k2) = split_key(k)
          let y = dropout(0.5, k1, x * x)
          (y, k2)
        fn f(k : key, x : ℝ[n: N]) -> ℝ uses Rand =
          let (y, _) = noisy(noisy((x, k)))
          sum(y)
        fn g(k : key, x : ℝ[n: N]) -> ℝ[n: N] uses Rand = grad(λ x. f(k, x))(x)
    """
    given = lowered(text, Mode.TRAINING)
    program = stored(given.program)
    residuals = named(program, "noisy.fwd").result
    # The mask alone: x is an item of the parameter, and no key is kept.
    assert isinstance(residuals, Tuple) and str(residuals.items[-1]) == "(ℝ[n: N])"
    assert "split_key" in primitives(named(program, "noisy.fwd"))
    plain = differentiate(given.program).program
    against_differences(given.program, plain, "g.lambda0", given.headers, {"N": 9})
    args = arguments(named(given.program, "g"), given.headers, {"N": 9})
    ways = {way: done.program for way, done in all_ways(given.program).items()}
    same_bits({"plain": plain, **ways}, "g", args, given.headers, {"N": 9})


def test_what_a_group_of_the_sweep_holds_is_made_again():
    lines = body_of(stored(corpus(MLP).program), "mse.bwd")
    assert any(line.startswith("%5 : ") and "= sub " in line for line in lines)
    # Where the difference was a root it is kept.
    lines = body_of(stored(corpus(MLP).program, hold=True), "mse.bwd")
    assert not any("= sub " in line for line in lines)


LOOP = """
    const D : nat = 2
    const L : nat = 3
    dim B
    module Block {
      param w : ℝ[D, D]
      fn apply(x : ℝ[batch: B, D], m : ℝ[batch: B, D]) -> ℝ[batch: B, D] = tanh(x · w) * m + x
    }
    module Tower {
      use blocks : stack{L}(Block)
      fn apply(x : ℝ[batch: B, D], m : ℝ[batch: B, D]) -> ℝ[batch: B, D] = blocks.apply(x, m)
    }
    fn f(θ : params Tower, x : ℝ[batch: B, D], m : ℝ[batch: B, D]) -> ℝ = sum(Tower.apply(θ, x, m)^2)
    fn g(m : ℝ[batch: B, D], x : ℝ[batch: B, D], θ : params Tower) -> (params Tower, ℝ[batch: B, D], ℝ[batch: B, D]) =
      grad(λ (θ, x, m). f(θ, x, m))((θ, x, m))
"""


def test_a_loop_carries_the_residuals_of_the_iteration_before():
    program = stored(lowered(LOOP).program)
    kept = "(ℝ[batch: B, 2], (ℝ[batch: B, 2]))"
    assert body_of(program, "Tower.apply.fold_fwd") == [
        "%3 : ℝ[batch: B, 2] = x.0",
        f"%4 : {kept} = call Block.apply.fwd{{B = B}}(θ, %3, m)",
        "return %4",
    ]
    lines = body_of(program, "Tower.apply.fwd")
    assert "%5 : (ℝ[batch: B, 2]) = zeros" in lines
    assert any("fold 3 Tower.apply.fold_fwd(stacked blocks; acc %6; m; scan)" in line for line in lines)
    # One iteration back: it carries this iteration's residuals, and finds those of the one before in the stack.
    back = named(program, "Tower.apply.fold_bwd")
    carried = next(param for param in back.params if param.name == "cts")
    assert isinstance(carried.type, Tuple) and str(carried.type.items[-1]) == "(ℝ[batch: B, 2])"
    last = back.bindings[-1]
    assert last.type == carried.type
    called = next(one.op for one in back.bindings if isinstance(one.op, Call))
    assert called.function == "Block.apply.bwd"


@pytest.mark.parametrize("layers", [0, 1, 2, 5])
def test_loops_of_any_length_have_one_gradient(layers):
    given = lowered(LOOP.replace("const L : nat = 3", f"const L : nat = {layers}"))
    ways = {way: done.program for way, done in all_ways(given.program).items()}
    plain = differentiate(given.program).program
    dims = {"B": 3}
    for program in (plain, *ways.values()):
        sound(program, given.headers, "after differentiation")
    against_differences(given.program, plain, "g.lambda0", given.headers, dims)
    args = arguments(named(given.program, "g"), given.headers, dims)
    same_bits({"plain": plain, **ways}, "g", args, given.headers, dims)
    held = {way: program for way, program in ways.items() if way[1]}
    same_bits({"plain": plain, **held}, "g", args, given.headers, dims, narrow)
    # Each layer's forward pass runs once.
    evaluator = Evaluator(ways[Remat.STORE, False], given.headers)
    evaluator.run("g", args, dims, PREFIX)
    assert evaluator.calls.get("Block.apply.fwd", 0) == layers and "Block.apply" not in evaluator.calls


def test_what_a_backward_loop_does_not_read_is_not_handed_to_it():
    # The mask of a softmax is not read on the way back, nor is it kept.
    given = corpus("nlp/minigpt.psk", V=7, D=4, H=2, L=2)
    program = stored(given.program)
    (loop,) = [one.op for one in named(program, "MiniGPT.apply.bwd").bindings if isinstance(one.op, Fold)]
    assert loop.extras == ()
    assert "mask" not in [param.name for param in named(program, "Block.apply.bwd").params]
    assert "causal_mask" not in primitives(named(program, "MiniGPT.apply.bwd"))


NESTED = """
    dim B
    module Inner {
      param w : ℝ[2, 2]
      fn apply(x : ℝ[batch: B, 2]) -> ℝ[batch: B, 2] = sin(x · w)
    }
    module Outer {
      use inner : stack{3}(stack{2}(Inner))
      fn apply(x : ℝ[batch: B, 2]) -> ℝ[batch: B, 2] = inner.apply(x)
    }
    fn f(θ : params Outer, x : ℝ[batch: B, 2]) -> ℝ = sum(Outer.apply(θ, x)^2)
    fn g(x : ℝ[batch: B, 2], θ : params Outer) -> params Outer = grad(λ θ. f(θ, x))(θ)
"""


def test_a_stack_of_stacks():
    given = lowered(NESTED)
    ways = {way: done.program for way, done in all_ways(given.program).items()}
    plain = differentiate(given.program).program
    for program in (plain, *ways.values()):
        sound(program, given.headers, "after differentiation")
    against_differences(given.program, plain, "g.lambda0", given.headers, {"B": 3})
    args = arguments(named(given.program, "g"), given.headers, {"B": 3})
    same_bits({"plain": plain, **ways}, "g", args, given.headers, {"B": 3})
    evaluator = Evaluator(ways[Remat.STORE, False], given.headers)
    evaluator.run("g", args, {"B": 3}, PREFIX)
    assert evaluator.calls["Inner.apply.fwd"] == 6


OPEN = """
    dim B
    module Block {
      param w : ℝ[2, 2]
      fn apply(x : ℝ[..., 2]) -> ℝ[..., 2] = sin(x · w)
    }
    module Tower {
      use blocks : stack{3}(Block)
      fn apply(x : ℝ[..., 2]) -> ℝ[..., 2] = blocks.apply(x)
    }
    fn f(θ : params Tower, x : ℝ[batch: B, 2]) -> ℝ = sum(Tower.apply(θ, x)^2)
    fn g(x : ℝ[batch: B, 2], θ : params Tower) -> params Tower = grad(λ θ. f(θ, x))(θ)
"""


def test_a_loop_behind_an_open_prefix_keeps_recomputing():
    given = lowered(OPEN)
    ways = {way: done.program for way, done in all_ways(given.program).items()}
    program = ways[Remat.STORE, False]
    assert "Tower.apply.fwd" not in names_of(program) and "Tower.apply.vjp" in names_of(program)
    assert "Block.apply.bwd" in names_of(program)  # what the loop's body calls is split all the same
    assert [one.op.function for one in named(program, "f.bwd").bindings if isinstance(one.op, Call)] == [
        "Tower.apply.vjp"
    ]
    plain = differentiate(given.program).program
    for one in (plain, *ways.values()):
        sound(one, given.headers, "after differentiation")
    against_differences(given.program, plain, "g.lambda0", given.headers, {"B": 3})
    args = arguments(named(given.program, "g"), given.headers, {"B": 3})
    same_bits({"plain": plain, **ways}, "g", args, given.headers, {"B": 3})


def test_a_loop_that_keeps_residuals_around_one_that_cannot():
    # A number that the sweep of `Cell.apply` reads has no zeros, so the loop of `Row.apply` recomputes; that of `Net.apply` is split.
    given = lowered("""
        dim N
        fn pair(x : ℝ[n: N]) -> (ℝ[n: N], f64) = (sin(x), 0.5)
        module Cell {
          param w : ℝ[n: N]
          fn apply(x : ℝ[n: N]) -> ℝ[n: N] =
            let (y, c) = pair(x)
            sin(y * c) * w
        }
        module Row {
          use cells : stack{2}(Cell)
          fn apply(x : ℝ[n: N]) -> ℝ[n: N] = cells.apply(x)
        }
        module Net {
          use rows : stack{2}(Row)
          fn apply(x : ℝ[n: N]) -> ℝ[n: N] = rows.apply(sin(x))
        }
        fn f(θ : params Net, x : ℝ[n: N]) -> (params Net, ℝ[n: N]) =
          grad(λ (θ, x). sum(Net.apply(θ, x)))((θ, x))
    """)
    ways = {way: done.program for way, done in all_ways(given.program).items()}
    program = ways[Remat.STORE, False]
    assert {"Net.apply.fwd", "Net.apply.bwd", "Net.apply.fold_bwd"} <= set(names_of(program))
    assert "Row.apply.vjp" in names_of(program) and "Row.apply.bwd" not in names_of(program)
    plain = differentiate(given.program).program
    for one in (plain, *ways.values()):
        sound(one, given.headers, "after differentiation")
    against_differences(given.program, plain, "f.lambda0", given.headers, {"N": 3})
    args = arguments(named(given.program, "f"), given.headers, {"N": 3})
    same_bits({"plain": plain, **ways}, "f", args, given.headers, {"N": 3})


def test_a_draw_in_a_stack_is_each_layers_own():
    given = corpus("tutorial/09_dropout.psk", Mode.TRAINING)
    ways = {way: done.program for way, done in all_ways(given.program).items()}
    against_differences(given.program, ways[Remat.STORE, False], "loss_grad.lambda0", given.headers, {"B": 4})
    args = arguments(named(given.program, "loss_grad"), given.headers, {"B": 4})
    same_bits({"plain": differentiate(given.program).program, **ways}, "loss_grad", args, given.headers, {"B": 4})


def test_closures_keep_the_residuals_of_what_they_call():
    text = """
        dim N
        fn f(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ =
          let h = λ a. sum(softmax(axis n, a * y)^3)
          h(x) * h(sin(x))
        fn g(y : ℝ[n: N], x : ℝ[n: N]) -> ℝ[n: N] = grad(λ x. f(x, y))(x)
    """
    given = lowered(text)
    program = stored(given.program)
    called = [one.op.function for one in named(program, "f.fwd").bindings if isinstance(one.op, Call)]
    assert called == ["f.lambda0.fwd", "f.lambda0.fwd"]
    against_differences(given.program, program, "g.lambda0", given.headers, {"N": 4})


def test_a_function_that_reaches_itself_keeps_recomputing():
    # The checker refuses such programs; the pass has to end all the same.
    program = parse("""
fn f{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[n: N] = call f{N = N}(%1)
  return %2
}
""")
    (function,) = program.functions
    derived = vjp_of(function, signatures(program.functions))
    whole = Program((function, *derived.functions))
    assert store(whole, [derived], derived.purposes, hold=False).program == whole


def test_the_value_of_a_forward_pass_is_computed_only_where_it_is_read():
    program = stored(corpus(MLP).program)
    assert "mean" not in primitives(named(program, "mse.fwd"))
    with_value = after_ad(corpus(MLP).program, Remat.STORE, hold_groups=False, objectives=("mse",)).program
    assert "mean" in primitives(named(with_value, "mse.fwd"))


def test_a_shape_is_read_from_what_is_there_anyway():
    done: AfterAd = after_ad(corpus("nlp/05_gpt.psk", Mode.TRAINING).program, Remat.STORE, hold_groups=False)
    function = named(done.program, "LayerNorm.apply.bwd")
    # Both means read a residual or a parameter of the type; the square of the deviations is not kept.
    kept = [one.text for one in done.purposes if one.function == function.name and "a residual" in one.text]
    assert kept and not any("%" in text and "pow" in text for text in kept)
    assert "pow" not in primitives(function)
    assert len(kept) == 3


def test_both_policies_on_the_course_gpt():
    given = corpus("nlp/05_gpt.psk", Mode.TRAINING, V=7, D=4, H=2, L=2, C=8)
    ways = {way: done.program for way, done in all_ways(given.program).items()}
    plain = differentiate(given.program).program
    dims = {"B": 2, "T": 3}
    args = arguments(named(given.program, "loss_grad"), given.headers, dims)
    same_bits({"plain": plain, **ways}, "loss_grad", args, given.headers, dims)
    held = {way: program for way, program in ways.items() if way[1]}
    same_bits({"plain": plain, **held}, "loss_grad", args, given.headers, dims, narrow)
