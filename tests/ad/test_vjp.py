"""The reverse sweep: the chapter's excerpts, numbering, what is made on demand, and what it is for."""

from textwrap import dedent

import pytest

from presk.ad.pipeline import Remat, after_ad
from presk.ad.provenance import table
from presk.ad.signature import signatures
from presk.ad.sweep import vjp_of
from presk.ad.vjp import differentiate
from presk.core.ir import Call, Closure, Fold, Grad, Prim, Program
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.types.dim import symbol
from tests.ad.evaluate import Evaluator
from tests.ad.support import (
    PREFIX,
    against_differences,
    arguments,
    body_of,
    corpus,
    equal,
    lowered,
    named,
    sound,
    text_of,
)

MLP = "basics/mlp.psk"


def differentiated(text: str, mode: Mode = Mode.INFERENCE) -> Program:
    found = differentiate(lowered(text, mode).program)
    assert not found.diagnostics
    return found.program


def test_linear_apply_vjp_is_the_chapters():
    program = differentiate(corpus(MLP).program).program
    assert text_of(program, "Linear.apply.vjp") == dedent("""\
        fn Linear.apply.vjp{In Out}(θ : params Linear{In, Out}, x : ℝ[..., In], ct : ℝ[..., Out])
            -> (params Linear{In, Out}, ℝ[..., In]) {
          w : ℝ[In, Out] = θ.w
          %4 : ℝ[..., Out] = dot x, w
          b : ℝ[Out] = θ.b
          %6 : ℝ[..., Out] = add %4, b
          %7 : ℝ[..., Out] = sum_to ct, %4
          %8 : ℝ[Out] = sum_to ct, b
          %9 : params Linear{In, Out} = zeros_like θ
          %10 : params Linear{In, Out} = set_field b %9, %8
          %11 : ℝ[..., In] = dot_vjp_l %7, w
          %12 : ℝ[In, Out] = dot_vjp_r x, %7
          %13 : params Linear{In, Out} = zeros_like θ
          %14 : params Linear{In, Out} = set_field w %13, %12
          %15 : params Linear{In, Out} = add %10, %14
          %16 : (params Linear{In, Out}, ℝ[..., In]) = (%15, %11)
          return %16
        }
        """)


def test_mse_grad_applies_a_gradient_closure():
    program = differentiate(corpus(MLP).program).program
    assert body_of(program, "mse_grad") == [
        "%3 : (params MLP{D, 4*D}) -> ℝ[] = closure mse_grad.lambda0[x, y]",
        "%4 : (params MLP{D, 4*D}) -> params MLP{D, 4*D} = closure mse_grad.lambda0.grad[x, y]",
        "%5 : params MLP{D, 4*D} = apply %4(θ)",
        "return %5",
    ]
    gradient = named(program, "mse_grad.lambda0.grad")
    assert [type(binding.op) for binding in gradient.bindings[1:]] == [Call, type(gradient.bindings[-1].op)]
    assert gradient.result == named(program, "mse_grad").result


def test_no_grad_is_left_and_generated_functions_stand_behind_theirs():
    program = differentiate(corpus(MLP).program).program
    assert not any(isinstance(binding.op, Grad) for function in program.functions for binding in function.bindings)
    assert [function.name for function in program.functions] == [
        *(
            "Linear.init",
            "MLP.init",
            "Linear.apply",
            "Linear.apply.vjp",
            "MLP.apply",
            "MLP.apply.vjp",
            "mse",
            "mse.vjp",
        ),
        *("mse_grad", "mse_grad.lambda0", "mse_grad.lambda0.vjp", "mse_grad.lambda0.grad"),
    ]


@pytest.mark.parametrize("file", [MLP, "nlp/05_gpt.psk", "constructs/stack.psk", "constructs/lambdas.psk"])
def test_copies_keep_order_and_names_and_are_one_up(file):
    program = corpus(file).program
    made = differentiate(program)
    for one in made.derived:
        function, vjp = named(program, one.primal), named(made.program, f"{one.primal}.vjp")
        count = len(function.params)
        assert vjp.params[:count] == function.params
        assert vjp.params[count].name == "ct" and vjp.params[count].type == function.result
        own = {binding.var + 1 for binding in function.bindings}
        copies = [binding for binding in vjp.bindings if binding.var in own]
        assert [(one.var - 1, one.name, one.type) for one in copies] == [
            (binding.var, binding.name, binding.type) for binding in function.bindings
        ]
        assert all(binding.var < one.sweep for binding in copies)


def test_one_vjp_on_demand():
    made = differentiate(corpus(MLP).program)
    assert [one.primal for one in made.derived] == ["mse_grad.lambda0", "mse", "MLP.apply", "Linear.apply"]
    assert [one.needs for one in made.derived] == [("mse",), ("MLP.apply",), ("Linear.apply",), ()]


def test_a_vjp_is_made_from_its_function_and_signatures_alone():
    program = corpus(MLP).program
    function = named(program, "MLP.apply")
    known = signatures(program.functions)
    assert vjp_of(function, {"Linear.apply": known["Linear.apply"]}) == vjp_of(function, known)


def test_a_variable_that_is_read_twice_gets_the_sum():
    program = differentiated("""
        dim N
        fn f(x : ℝ[n: N]) -> ℝ = sum(x * exp(x))
        fn g(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ x. f(x))(x)
    """)
    vjp = named(program, "f.vjp")
    last = vjp.bindings[-2].op
    assert isinstance(last, Prim) and last.name == "add"


def test_a_parameter_that_nothing_reads_gets_zeros():
    program = differentiated("""
        dim N
        fn f(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ = sum(x)
        fn g(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ[n: N] = grad(λ y. f(x, y))(y)
    """)
    assert "%5 : ℝ[n: N] = zeros_like y" in body_of(program, "f.vjp")


def test_indices_numbers_keys_and_masks_get_none():
    text = """
        const V : nat = 3
        dim B
        fn f(w : ℝ[V], t : idx[V][batch: B], s : f64, k : key, m : bool[batch: B]) -> ℝ uses Rand =
          let p = softmax(axis batch, real(t) * s, where = m)
          mean(dropout(0.5, k, p)) * sum(w)
        fn g(w : ℝ[V], t : idx[V][batch: B], s : f64, k : key, m : bool[batch: B]) -> ℝ[V] uses Rand =
          grad(λ w. f(w, t, s, k, m))(w)
    """
    program = differentiated(text, Mode.TRAINING)
    assert [str(item) for item in named(program, "f.vjp").result.items] == ["ℝ[3]"]  # type: ignore[union-attr]


def test_what_no_parameter_reaches_is_not_swept():
    # The scale is computed from numbers alone, so its square root has no adjoint, and `g` no `.vjp`.
    program = differentiated("""
        dim N
        fn g(s : ℝ) -> ℝ = exp(s)
        fn f(x : ℝ[n: N]) -> ℝ = sum(x / sqrt(2 : ℝ) * g(3 : ℝ))
        fn h(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ x. f(x))(x)
    """)
    assert "g.vjp" not in [function.name for function in program.functions]
    primitives = [binding.op.name for binding in named(program, "f.vjp").bindings if isinstance(binding.op, Prim)]
    assert primitives.count("div") == 2 and primitives.count("sqrt") == 1


FOLD = """
    const L : nat = 3
    dim B
    module Block {
      param w : ℝ[2, 2]
      fn apply(x : ℝ[batch: B, 2], scale : ℝ[2], t : idx[5]) -> ℝ[batch: B, 2] = tanh(x · w) * scale
    }
    module Tower {
      use blocks : stack{L}(Block)
      fn apply(x : ℝ[batch: B, 2], scale : ℝ[2], t : idx[5]) -> ℝ[batch: B, 2] = blocks.apply(x, scale, t)
    }
    fn loss(θ : params Tower, x : ℝ[batch: B, 2], s : ℝ[2], t : idx[5]) -> ℝ = sum(Tower.apply(θ, x, s, t))
    fn loss_grad(θ : params Tower, x : ℝ[batch: B, 2], s : ℝ[2], t : idx[5]) -> params Tower =
      grad(λ θ. loss(θ, x, s, t))(θ)
"""


def test_a_fold_scans_and_runs_backward():
    program = differentiated(FOLD)
    carried = "(ℝ[batch: B, 2], params stack{3}(Block), ℝ[2])"
    assert body_of(program, "Tower.apply.vjp") == [
        "blocks : params stack{3}(Block) = θ.blocks",
        "%7 : (ℝ[batch: B, 2], ℝ[3, batch: B, 2]) = fold 3 Block.apply(stacked blocks; acc x; scale, t; scan)",
        "%6 : ℝ[batch: B, 2] = %7.0",
        "%8 : ℝ[3, batch: B, 2] = %7.1",
        "%9 : params stack{3}(Block) = zeros_like blocks",
        "%10 : ℝ[2] = zeros_like scale",
        f"%11 : {carried} = (ct, %9, %10)",
        f"%12 : {carried} = fold 3 Tower.apply.fold_bwd(stacked blocks, %8; acc %11; scale, t; reverse, indexed)",
        "%13 : ℝ[batch: B, 2] = %12.0",
        "%14 : params stack{3}(Block) = %12.1",
        "%15 : ℝ[2] = %12.2",
        "%16 : params Tower = zeros_like θ",
        "%17 : params Tower = set_field blocks %16, %14",
        "%18 : (params Tower, ℝ[batch: B, 2], ℝ[2]) = (%17, %13, %15)",
        "return %18",
    ]


def test_an_iteration_of_the_backward_loop():
    program = differentiated(FOLD)
    assert body_of(program, "Tower.apply.fold_bwd") == [
        "%6 : ℝ[batch: B, 2] = cts.0",
        "%7 : (params Block, ℝ[batch: B, 2], ℝ[2]) = call Block.apply.vjp{B = B}(θ, x, scale, t, %6)",
        "%8 : ℝ[batch: B, 2] = %7.1",
        "%9 : params stack{3}(Block) = cts.1",
        "%10 : params Block = %7.0",
        "%11 : params stack{3}(Block) = set_slice %9, %10, i",
        "%12 : ℝ[2] = cts.2",
        "%13 : ℝ[2] = %7.2",
        "%14 : ℝ[2] = add %12, %13",
        "%15 : (ℝ[batch: B, 2], params stack{3}(Block), ℝ[2]) = (%8, %11, %14)",
        "return %15",
    ]


def test_two_folds_of_a_function_have_a_body_each():
    program = differentiated("""
        const L : nat = 2
        dim N
        module B{N : dim} {
          param w : ℝ[N]
          fn apply(x : ℝ[N]) -> ℝ[N] = sin(x * w)
        }
        module T{N : dim} {
          use a, b : stack{L}(B{N})
          fn apply(x : ℝ[N]) -> ℝ[N] = b.apply(a.apply(x))
        }
        fn f(θ : params T{N}, x : ℝ[N]) -> ℝ = sum(T.apply(θ, x))
        fn g(θ : params T{N}, x : ℝ[N]) -> params T{N} = grad(λ θ. f(θ, x))(θ)
    """)
    loops = [
        binding.op.function
        for binding in named(program, "T.apply.vjp").bindings
        if isinstance(binding.op, Fold) and binding.op.reverse
    ]
    assert loops == ["T.apply.fold_bwd1", "T.apply.fold_bwd"]


CLOSURES = """
    dim N
    fn prod(a : ℝ[n: N], b : ℝ[n: N]) -> ℝ = sum(a * b)
    fn f(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ =
      let h = λ a. prod(a^2, y)
      h(x) + h(y)
    fn g(x : ℝ[n: N], y : ℝ[n: N]) -> (ℝ[n: N], ℝ[n: N]) = grad(λ (x, y). f(x, y))((x, y))
"""


def test_an_applied_lambda_gives_cotangents_to_what_it_captured():
    given = lowered(CLOSURES)
    program = differentiated(CLOSURES)
    calls = [
        binding.op
        for binding in named(program, "f.vjp").bindings
        if isinstance(binding.op, Call) and binding.op.function == "f.lambda0.vjp"
    ]
    # h(y) first: y is captured and the argument; then h(x).
    assert [call.args[:2] for call in calls] == [(1, 1), (1, 0)]
    against_differences(given.program, program, "g.lambda0", given.headers, {"N": 3})


def test_the_reasons_of_bindings():
    done = after_ad(corpus("tutorial/04_grad.psk").program, Remat.STORE, hold_groups=False)
    reasons = {var: purpose.text for (name, var), purpose in table(done.purposes).items() if name == "Linear.apply.bwd"}
    assert reasons == {
        5: "primal b, kept",
        8: "adjoint of %5 (add)",
        9: "adjoint of b (field)",
        10: "adjoint of b (field)",
        12: "adjoint of %3 (dot)",
        13: "adjoint of w (field)",
        14: "adjoint of w (field)",
        15: "adjoint of w (field)",
        16: "adjoints of the parameters",
    }


def test_every_binding_of_a_generated_function_has_a_reason_and_no_other_has():
    program = corpus("nlp/05_gpt.psk", Mode.TRAINING).program
    given = {function.name for function in program.functions}
    for remat in Remat:
        done = after_ad(program, remat, hold_groups=True)
        made = [function for function in done.program.functions if function.name not in given]
        assert {(function.name, binding.var) for function in made for binding in function.bindings} == set(
            table(done.purposes)
        )
        for purpose in done.purposes:
            sources = {binding.var for binding in named(program, purpose.primal).bindings}
            assert purpose.source is None or purpose.source in sources


def test_an_objective_gets_its_value_with_its_adjoints():
    given = corpus("nlp/05_gpt.psk", Mode.TRAINING)
    program = given.program
    done = {remat: after_ad(program, remat, hold_groups=False, objectives=("loss",)) for remat in Remat}
    for one in done.values():
        assert not one.diagnostics
        sound(one.program, given.headers, "after differentiation")
        assert [str(item) for item in named(one.program, "loss.value_vjp").result.items] == ["ℝ[]", "params GPT"]  # type: ignore[union-attr]
    called = [
        binding.op.function
        for binding in named(done[Remat.STORE].program, "loss.value_vjp").bindings
        if isinstance(binding.op, Call)
    ]
    assert called == ["loss.fwd", "loss.bwd"]


def test_a_value_with_its_adjoints_is_the_value_and_the_adjoints():
    given = lowered(FOLD)
    dims = {"B": 2}
    args = arguments(named(given.program, "loss"), given.headers, dims)
    expected = Evaluator(given.program, given.headers).run("loss", args, dims, PREFIX)
    gradient = Evaluator(differentiate(given.program).program, given.headers).run(
        "loss_grad.lambda0.grad", [*args[1:], args[0]], dims, PREFIX
    )
    for remat in Remat:
        done = after_ad(given.program, remat, hold_groups=True, objectives=("loss",))
        value, adjoint, *_ = Evaluator(done.program, given.headers).run("loss.value_vjp", args, dims, PREFIX)
        assert equal(value, expected) and equal(adjoint, gradient)


def test_function_values_in_tuples_are_still_lambdas_of_the_body():
    text = """
fn f.lambda0{N}(a : ℝ[n: N]) -> ℝ[] {
  %1 : ℝ[n: N] = sin a
  %2 : ℝ[] = sum axis n %1
  return %2
}
fn f{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %1 : (ℝ[n: N]) -> ℝ[] = closure f.lambda0[]
  %2 : ((ℝ[n: N]) -> ℝ[], ℝ[n: N]) = (%1, x)
  %3 : (ℝ[n: N]) -> ℝ[] = %2.0
  %4 : (ℝ[n: N]) -> ℝ[n: N] = grad %3
  %5 : ℝ[n: N] = apply %4(x)
  return %5
}
"""
    done = differentiate(parse(text))
    assert not done.diagnostics
    assert named(done.program, "f").bindings[3].op == Closure("f.lambda0.grad", (("N", symbol("N")),), None, ())
