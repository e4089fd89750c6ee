"""Dead code after differentiation."""

from textwrap import dedent

import pytest

from presk.ad.pipeline import Remat, after_ad
from presk.ad.prune import prune
from presk.ad.vjp import differentiate
from presk.core.ir import Call, Fold, Prim, Program, Project
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.types.type import Tuple
from tests.ad.evaluate import Evaluator
from tests.ad.support import PREFIX, arguments, body_of, corpus, equal, lowered, named, sound, text_of

MLP = "basics/mlp.psk"


def pruned(program: Program, *, hold: bool = False) -> Program:
    return after_ad(program, Remat.RECOMPUTE, hold_groups=hold).program


def test_linear_apply_vjp_loses_what_the_chapter_says():
    assert text_of(pruned(corpus(MLP).program), "Linear.apply.vjp") == dedent("""\
        fn Linear.apply.vjp{In Out}(θ : params Linear{In, Out}, x : ℝ[..., In], ct : ℝ[..., Out])
            -> (params Linear{In, Out}, ℝ[..., In]) {
          w : ℝ[In, Out] = θ.w
          b : ℝ[Out] = θ.b                        -- %5
          %8 : ℝ[Out] = sum_to ct, b
          %9 : params Linear{In, Out} = zeros_like θ
          %10 : params Linear{In, Out} = set_field b %9, %8
          %11 : ℝ[..., In] = dot_vjp_l ct, w
          %12 : ℝ[In, Out] = dot_vjp_r x, ct
          %13 : params Linear{In, Out} = zeros_like θ
          %14 : params Linear{In, Out} = set_field w %13, %12
          %15 : params Linear{In, Out} = add %10, %14
          %16 : (params Linear{In, Out}, ℝ[..., In]) = (%15, %11)
          return %16
        }
        """)


def test_a_value_that_nothing_reads_goes():
    program = pruned(corpus(MLP).program)
    calls = {
        name: [one.op.function for one in named(program, name).bindings if isinstance(one.op, Call)]
        for name in ("mse_grad.lambda0.vjp", "mse.vjp", "MLP.apply.vjp")
    }
    assert calls == {
        "mse_grad.lambda0.vjp": ["mse.vjp"],
        "mse.vjp": ["MLP.apply", "MLP.apply.vjp"],
        # The second layer's value is computed by its own `.vjp` alone.
        "MLP.apply.vjp": ["Linear.apply", "Linear.apply.vjp", "Linear.apply.vjp"],
    }


def test_cotangents_that_no_caller_reads_leave_the_result():
    program = pruned(corpus(MLP).program)
    for name in ("mse_grad.lambda0.vjp", "mse.vjp", "MLP.apply.vjp"):
        result = named(program, name).result
        assert isinstance(result, Tuple) and [str(item).partition("{")[0] for item in result.items] == ["params MLP"]
    # One `Linear.apply.vjp` serves both layers, and the second one's ∂x is read: so the first one's is computed too.
    assert len(named(program, "Linear.apply.vjp").result.items) == 2  # type: ignore[union-attr]


def test_the_others_keep_their_order():
    text = """
        dim N
        fn h(a : ℝ[n: N], b : ℝ[n: N], c : ℝ[n: N]) -> ℝ = sum(a * b * c)
        fn f(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ = h(x, cos(y), 1 + x)
        fn g(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ[n: N] = grad(λ x. f(x, y))(x)
    """
    program, plain = pruned(lowered(text).program), differentiate(lowered(text).program).program
    a, _, c = named(plain, "h.vjp").bindings[-1].op.items  # type: ignore[union-attr]
    made = {one.var: one.op for one in named(plain, "h.vjp").bindings}
    last = named(program, "h.vjp").bindings[-1]
    assert last.var == named(plain, "h.vjp").returns
    # The adjoints of a and c were identities of products; those stand there now.
    assert last.op.items == (made[a].args[0], made[c].args[0])  # type: ignore[union-attr]
    places = [one.op.place for one in named(program, "f.vjp").bindings if isinstance(one.op, Project)]
    assert places == [0, 1]


def test_functions_that_are_read_from_outside_keep_their_result():
    program = pruned(corpus(MLP).program)
    assert named(program, "mse_grad.lambda0.grad").result == named(program, "mse_grad").result
    both = after_ad(corpus(MLP).program, Remat.RECOMPUTE, hold_groups=False, objectives=("mse",)).program
    # θ, x and y all have an adjoint, and a training run may read any of them.
    assert len(named(both, "mse.value_vjp").result.items) == 4  # type: ignore[union-attr]
    assert len(named(both, "mse.vjp").result.items) == 3  # type: ignore[union-attr]


def test_ordinary_functions_stay_as_they_are():
    given = corpus(MLP).program
    after = pruned(given)
    for function in given.functions:
        if function.name != "mse_grad":
            assert named(after, function.name) == function
    assert len(named(after, "mse_grad").bindings) == len(named(given, "mse_grad").bindings)


LOOP = """
    const L : nat = 3
    dim B
    module Block {
      param w : ℝ[2, 2]
      fn apply(x : ℝ[batch: B, 2], m : ℝ[batch: B, 2]) -> ℝ[batch: B, 2] = tanh(x · w) * m
    }
    module Tower {
      use blocks : stack{L}(Block)
      fn apply(x : ℝ[batch: B, 2], m : ℝ[batch: B, 2]) -> ℝ[batch: B, 2] = blocks.apply(x, m)
    }
    fn f(θ : params Tower, x : ℝ[batch: B, 2], m : ℝ[batch: B, 2]) -> ℝ = sum(Tower.apply(θ, x, m))
    fn g(θ : params Tower, x : ℝ[batch: B, 2], m : ℝ[batch: B, 2]) -> params Tower = grad(λ θ. f(θ, x, m))(θ)
    fn d(θ : params Tower, x : ℝ[batch: B, 2], m : ℝ[batch: B, 2]) -> ℝ[batch: B, 2] = grad(λ x. f(θ, x, m))(x)
"""


def carried(program: Program, name: str) -> list[str]:
    ((op, type_),) = [
        (one.op, one.type) for one in named(program, name).bindings if isinstance(one.op, Fold) and one.op.reverse
    ]
    assert isinstance(type_, Tuple) and named(program, op.function).result == type_
    return [str(item) for item in type_.items]


def test_a_backward_loop_keeps_the_accumulators_that_are_read():
    whole = differentiate(lowered(LOOP).program).program
    assert carried(whole, "Tower.apply.vjp") == ["ℝ[batch: B, 2]", "params stack{3}(Block)", "ℝ[batch: B, 2]"]
    both = pruned(lowered(LOOP).program)
    # The mask's cotangent is read by no one; the accumulator's by the iteration before, and by `d`.
    assert carried(both, "Tower.apply.vjp") == ["ℝ[batch: B, 2]", "params stack{3}(Block)"]
    inputs = pruned(lowered(LOOP.replace("fn g", "-- fn g")).program)
    assert carried(inputs, "Tower.apply.vjp") == ["ℝ[batch: B, 2]"]
    # Its own tree's cotangent needs the accumulator's, which no one reads behind the loop.
    trees = pruned(lowered(LOOP.replace("    fn d", "    -- fn d")).program)
    assert carried(trees, "Tower.apply.vjp") == ["ℝ[batch: B, 2]", "params stack{3}(Block)"]


def test_identities_give_way_to_their_operand():
    for hold in (False, True):
        program = pruned(corpus("nlp/minigpt.psk").program, hold=hold)
        for function in program.functions:
            types = dict(enumerate(param.type for param in function.params))
            types.update((one.var, one.type) for one in function.bindings)
            same = [
                one.var
                for one in function.bindings
                if isinstance(one.op, Prim) and one.op.name == "sum_to" and types[one.op.args[0]] == one.type
            ]
            assert hold or not same


def test_a_shape_is_read_from_another_value_of_a_type_that_names_every_axis():
    text = """
        dim N
        fn f(x : ℝ[n: N]) -> ℝ = mean(sin(x)^2)
        fn g(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ x. f(x))(x)
    """
    lines = body_of(pruned(lowered(text).program), "f.vjp")
    assert not any(" = pow" in line for line in lines)
    assert [line.partition(" = ")[2] for line in lines if "mean_vjp" in line] == ["mean_vjp ct, x"]
    # Without a name the type may be another tensor's, and the template stays.
    lines = body_of(pruned(lowered(text.replace("[n: N]", "[N]")).program), "f.vjp")
    assert any(" = pow" in line for line in lines)


def test_a_dropout_mask_reads_the_shape_of_what_is_there():
    program = pruned(corpus("nlp/05_gpt.psk", Mode.TRAINING).program)
    function = named(program, "Block.apply.vjp")
    made = {one.var: one for one in function.bindings}
    masks = [one.op.args[2] for one in function.bindings if isinstance(one.op, Prim) and one.op.name == "dropout_mask"]
    sources = [made[var].op.function for var in masks]  # type: ignore[union-attr]
    # The second mask was read off the feed-forward's value; the second normalization's is there anyway.
    assert sources[1] == "LayerNorm.apply"
    assert "FeedForward.apply" not in [one.op.function for one in function.bindings if isinstance(one.op, Call)]


def test_nothing_is_renumbered():
    given = corpus("nlp/05_gpt.psk", Mode.TRAINING).program
    plain = differentiate(given).program
    for hold in (False, True):
        for function in pruned(given, hold=hold).functions:
            before = {one.var: one for one in named(plain, function.name).bindings}
            order = [one.var for one in named(plain, function.name).bindings]
            left = [one.var for one in function.bindings]
            assert left == [var for var in order if var in set(left)]
            for one in function.bindings:
                old = before[one.var]
                assert one.name == old.name
                if not isinstance(old.type, Tuple):
                    assert one.type == old.type


def test_a_draw_nothing_reads_goes_and_the_others_stay():
    text = """
        dim N
        fn noisy(k : key, x : ℝ[n: N]) -> ℝ[n: N] uses Rand = dropout(0.5, k, sin(x))
        fn f(k : key, x : ℝ[n: N]) -> ℝ uses Rand =
          let (k1, k2) = split_key(k)
          let a = noisy(k1, x)
          let b = dropout(0.5, k2, x)
          sum(a) + sum(b * b)
        fn g(k : key, x : ℝ[n: N]) -> ℝ[n: N] uses Rand = grad(λ x. f(k, x))(x)
    """
    given = lowered(text, Mode.TRAINING)
    plain, after = differentiate(given.program).program, pruned(given.program)
    calls = [
        [one.op.function for one in named(program, "f.vjp").bindings if isinstance(one.op, Call)]
        for program in (plain, after)
    ]
    # The value of `noisy` is not needed on the way back: its mask is drawn by its `.vjp` alone.
    assert calls == [["noisy", "noisy.vjp"], ["noisy.vjp"]]
    dims = {"N": 12}
    args = arguments(named(plain, "g"), given.headers, dims)
    values = [Evaluator(program, given.headers).run("g", args, dims, PREFIX) for program in (plain, after)]
    assert equal(*values)


def test_functions_that_nothing_reaches_are_gone():
    text = """
fn f{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %1 : ℝ[n: N] = call f.grad{N = N}(x)
  return %1
}
fn f.vjp{N}(x : ℝ[n: N], ct : ℝ[]) -> (ℝ[n: N], ℝ[n: N]) {
  %2 : (ℝ[n: N]) = call g.vjp{N = N}(x)
  %3 : ℝ[n: N] = %2.0
  %4 : (ℝ[n: N], ℝ[n: N]) = (x, %3)
  return %4
}
fn g.vjp{N}(x : ℝ[n: N]) -> (ℝ[n: N]) {
  %1 : (ℝ[n: N]) = (x)
  return %1
}
fn f.grad{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %1 : ℝ[] = ones
  %2 : (ℝ[n: N], ℝ[n: N]) = call f.vjp{N = N}(x, %1)
  %3 : ℝ[n: N] = %2.0
  return %3
}
"""
    after = prune(parse(text), {"f.vjp", "g.vjp", "f.grad"}, {"f.grad"}, hold=False)
    assert [function.name for function in after.functions] == ["f", "f.vjp", "f.grad"]
    assert body_of(after, "f.vjp") == ["%4 : (ℝ[n: N]) = (x)", "return %4"]


@pytest.mark.parametrize("file", ["nlp/05_gpt.psk", "constructs/stack.psk", "constructs/concat.psk"])
def test_pruning_twice_changes_nothing(file):
    given = differentiate(corpus(file, Mode.TRAINING).program)
    generated = {purpose.function for purpose in given.purposes}
    for hold in (False, True):
        once = prune(given.program, generated, given.outside, hold=hold)
        if not hold:  # what is held for a reader that is gone has no reader to be held for
            assert prune(once, generated, given.outside, hold=hold) == once
        sound(once, corpus(file, Mode.TRAINING).headers, "prune")
