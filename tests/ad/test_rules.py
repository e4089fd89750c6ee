"""Derivatives of the primitives: a rule or a reason for every row, and each rule against differences and at its kinks."""

from typing import Any

import numpy as np
import pytest

from presk.ad.again import made_again
from presk.ad.launches import FREE
from presk.ad.rules.table import DERIVATIVES, IDENTITIES, SHAPE_ONLY
from presk.ad.rules.use import NoDerivative
from presk.ad.vjp import differentiate
from presk.core.ir import Prim
from presk.core.lower import Mode
from presk.prims.core_rows import CORE
from presk.types.type import SCALAR, Hyper, HyperKind, Key, Real
from tests.ad.evaluate import Evaluator
from tests.ad.support import against_differences, body_of, dims_of, lowered, named, sound

# A function `f` whose gradient in its last parameter is compared with differences, for every rule that gives cotangents.
CASES = {
    "neg": "fn f(x : ℝ[n: N]) -> ℝ = sum(sin(-x))",
    "gelu": "fn f(x : ℝ[n: N]) -> ℝ = sum(gelu(x))",
    "relu": "fn f(x : ℝ[n: N]) -> ℝ = sum(relu(x) * x)",
    "abs": "fn f(x : ℝ[n: N]) -> ℝ = sum(abs(x) * x)",
    "exp": "fn f(x : ℝ[n: N]) -> ℝ = sum(exp(x))",
    "tanh": "fn f(x : ℝ[n: N]) -> ℝ = sum(tanh(x))",
    "sqrt": "fn f(x : ℝ[n: N]) -> ℝ = sum(sqrt(x^2 + 1))",
    "log": "fn f(x : ℝ[n: N]) -> ℝ = sum(log(x^2 + 1))",
    "sigmoid": "fn f(x : ℝ[n: N]) -> ℝ = sum(sigmoid(x))",
    "sin": "fn f(x : ℝ[n: N]) -> ℝ = sum(sin(x))",
    "cos": "fn f(x : ℝ[n: N]) -> ℝ = sum(cos(x))",
    "pow": "fn f(x : ℝ[n: N]) -> ℝ = sum(x^0 + x^1 * x^2 + x^3 - x^5)",
    "powv": "fn f(k : nat, x : ℝ[n: N]) -> ℝ = sum(x^k)",
    "add": "fn f(y : ℝ[n: N], x : ℝ[n: N, m: M]) -> ℝ = sum((x + y)^2) + sum((y + x)^3)",
    "sub": "fn f(y : ℝ[m: M, n: N], x : ℝ[n: N]) -> ℝ = sum((x - y)^2 * (y - x))",
    "mul": "fn f(y : ℝ[m: M, n: N], x : ℝ[m: M]) -> ℝ = sum(x * y * x) + sum(x) * sum(x)",
    "div": "fn f(y : ℝ[m: M, n: N], x : ℝ[n: N]) -> ℝ = sum(x / (y^2 + 1)) + sum(y / (x^2 + 1))",
    "max": "fn f(y : ℝ[m: M, n: N], x : ℝ[n: N]) -> ℝ = sum(max(x, y)^2) + sum(max(y, x^2))",
    "min": "fn f(y : ℝ[m: M, n: N], x : ℝ[n: N]) -> ℝ = sum(min(x, y)^2) + sum(min(y, x^2))",
    "sum": "fn f(x : ℝ[n: N, m: M]) -> ℝ = sum(sum(axis n, x)^2) + sum(x)^2",
    "mean": "fn f(x : ℝ[n: N, m: M]) -> ℝ = mean(mean(axis m, x)^2) + mean(x)^2",
    "softmax": """
        fn f(k : bool[m: M], w : ℝ[m: M], x : ℝ[n: N, m: M]) -> ℝ =
          sum(softmax(axis m, x) * w) + sum(softmax(axis n, x)^2)
    """,
    "cross_entropy": "fn f(y : idx[4][n: N], x : ℝ[n: N, 4]) -> ℝ = mean(cross_entropy(x, y)^2)",
    "sum_squares": "",
    "dot": "fn f(y : ℝ[m: M, n: N], x : ℝ[n: N, k: 2]) -> ℝ = sum((y · x)^2) + sum(x · (1 + sum(axis n, x))^2)",
    "ein": """
        fn f(y : ℝ[n: N, k: 2], x : ℝ[n: N, m: M]) -> ℝ =
          let a = ein[m, k](x * y)
          let b = ein[n, n2](x * x)
          let c = ein[k](x * y)
          let d = ein[](x)
          let e = ein[n](x * y * x)
          sum(a^2) + sum(b^2) + sum(c^2) + sum(e^3) + d^2
    """,
    "embed": "fn f(t : idx[4][b: 7], x : ℝ[4, e: 2]) -> ℝ = sum(embed(x, t)^2)",
    "merge": "fn f(x : ℝ[b: 2, n: N, m: 3]) -> ℝ = sum(sum(axis b, merge(axis n, axis m, x)^3)^2)",
    "split": "fn f(x : ℝ[n: 6]) -> ℝ = sum(sum(axis a, split(axis n, a: 2, b: 3, x))^2)",
    "split_heads": "fn f(x : ℝ[n: N, seq: M, model: 6]) -> ℝ = sum(sum(axis heads, split_heads(x)^2)^2)",
    "merge_heads": "fn f(x : ℝ[heads: 2, seq: M, hd: 3]) -> ℝ = sum(sum(axis seq, merge_heads(x))^3)",
    "concat": "fn f(y : ℝ[n: N, m: M], x : ℝ[n: N, m: 2]) -> ℝ = sum(sum(axis n, concat(axis m, x, concat(axis m, y, x)))^2)",
    "slice": "fn f(x : ℝ[n: N + 2, m: 3]) -> ℝ = sum(x[n: 1..N + 1]^2) + sum(x[0..2, m: 0..1]^3)",
    "index": "fn f(x : ℝ[n: 4, m: M]) -> ℝ = sum(x[n: -1]^2) + sum(x[n: 1] * x[0])",
    "retag": "fn f(x : ℝ[N]) -> ℝ = sum((x : ℝ[n: N])^2)",
    "slice_params": "",
    "stack_params": "",
}
# Rules that no program reaches: trees are scaled and stacked by optimizers and initializers, which are not differentiated.
APART = {"sum_squares", "slice_params", "stack_params"}
GIVING = sorted(
    name for name, rule in DERIVATIVES.items() if not isinstance(rule, NoDerivative) and rule.__name__ != "nothing"
)


def source(case: str) -> str:
    """A program with `f` and its gradient in its last parameter."""
    text = "\n".join(line.strip() if "fn f" in line else line for line in case.strip().splitlines())
    inside = text[text.index("(") + 1 : text.index(") -> ℝ")]
    names = [part.split(":")[0].strip() for part in _parameters(inside)]
    given = ", ".join(names)
    last = _parameters(inside)[-1].partition(":")[2].strip()
    return (
        "const H : nat = 2\nconst HD : nat = 3\ndim N\ndim M\n"
        f"{text}\nfn g({inside}) -> {last} = grad(λ {names[-1]}. f({given}))({names[-1]})\n"
    )


def _parameters(inside: str) -> list[str]:
    """The parameters of a list, split at the commas outside brackets."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def test_every_primitive_has_a_rule_or_a_reason():
    assert set(DERIVATIVES) == set(CORE)
    for rule in DERIVATIVES.values():
        assert not isinstance(rule, NoDerivative) or rule.reason


def test_every_rule_that_gives_something_is_tried():
    assert GIVING == sorted(CASES)
    assert {name for name, case in CASES.items() if not case} == APART


def test_the_other_columns_name_rows():
    for column in (SHAPE_ONLY, IDENTITIES, FREE):
        assert set(column) <= set(CORE) | {"stack_zero"}
    for name, place in SHAPE_ONLY.items():
        assert place < CORE[name].most


@pytest.mark.parametrize("name", [name for name in GIVING if name not in APART])
def test_a_rule_agrees_with_differences(name):
    given = lowered(source(CASES[name]))
    headers = given.headers
    assert name in [binding.op.name for binding in named(given.program, "f").bindings if isinstance(binding.op, Prim)]
    made = differentiate(given.program)
    assert not made.diagnostics
    sound(made.program, headers, "differentiate")
    against_differences(given.program, made.program, "g.lambda0", headers, dims_of(named(given.program, "g.lambda0")))


def gradient(text: str, *args: object) -> Any:
    """The gradient of `f` in its last parameter, at given values."""
    given = lowered(source(text))
    made = differentiate(given.program).program
    values: list[Any] = [np.asarray(arg, dtype=float) if isinstance(arg, list) else arg for arg in args]
    return Evaluator(made, given.headers).run("g.lambda0.grad", values, {"N": len(values[-1])})


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("relu(x)", [0, 0, 1]),
        ("abs(x)", [-1, 0, 1]),
        ("max(x, 0 * x)", [0, 0, 1]),
        ("x^0", [0, 0, 0]),
        ("x^1", [1, 1, 1]),
    ],
)
def test_kinks_at_zero(case, expected):
    assert gradient(f"fn f(x : ℝ[n: N]) -> ℝ = sum({case})", [-2.0, 0.0, 2.0]).tolist() == expected


def test_of_a_tie_the_second_operand_gets_everything():
    for name in ("max", "min"):
        first = gradient(f"fn f(y : ℝ[n: N], x : ℝ[n: N]) -> ℝ = sum({name}(x, y))", [1.0], [1.0])
        second = gradient(f"fn f(y : ℝ[n: N], x : ℝ[n: N]) -> ℝ = sum({name}(y, x))", [1.0], [1.0])
        assert (first.tolist(), second.tolist()) == ([0.0], [1.0])


def test_clamp_gives_nothing_at_its_ends():
    text = "fn f(x : ℝ[n: N]) -> ℝ = sum(clamp(x, (0 : ℝ), (1 : ℝ)))"
    assert gradient(text, [-1.0, 0.0, 0.5, 1.0, 2.0]).tolist() == [0, 0, 1, 0, 0]


def test_a_power_by_value_has_derivative_zero_at_exponent_zero():
    text = "fn f(k : nat, x : ℝ[n: N]) -> ℝ = sum(x^k)"
    for k in range(5):
        found = gradient(text, k, [0.0, 2.0])
        assert found.tolist() == ([0.0, 0.0] if k == 0 else [float(k == 1), k * 2.0 ** (k - 1)])


def test_a_masked_softmax_gives_nothing_where_it_refuses():
    text = "fn f(k : bool[m: M], w : ℝ[m: M], x : ℝ[n: N, m: M]) -> ℝ = sum(softmax(axis m, x, where = k) * w)"
    given = lowered(source(text))
    made = differentiate(given.program).program
    x = np.array([[0.3, 1e30, -0.2, 0.9]])
    mask, w = np.array([True, False, True, True]), np.array([1.0, 5.0, -2.0, 0.5])
    found = Evaluator(made, given.headers).run("g.lambda0.grad", [mask, w, x], {"N": 1, "M": 4})
    assert found[0, 1] == 0 and np.isfinite(found).all()
    step = 1e-6
    for place in (0, 2, 3):
        sides = []
        for by in (step, -step):
            y = x.copy()
            y[0, place] += by
            sides.append(float(Evaluator(given.program, given.headers).run("f", [mask, w, y], {"N": 1, "M": 4})))
        assert abs((sides[0] - sides[1]) / (2 * step) - found[0, place]) < 1e-8


def test_an_index_that_occurs_twice_adds_both_rows():
    text = "fn f(t : idx[3][b: N], w : ℝ[b: N], x : ℝ[3, e: 1]) -> ℝ = sum(embed(x, t) * w)"
    given = lowered(source(text).replace("sum(embed(x, t) * w)", "sum(ein[b](embed(x, t) * w))"))
    made = differentiate(given.program).program
    args = [np.array([1, 1, 0]), np.array([1.0, 10.0, 100.0]), np.zeros((3, 1))]
    found = Evaluator(made, given.headers).run("g.lambda0.grad", args, {"N": 3})
    assert found.tolist() == [[100.0], [11.0], [0.0]]


def test_the_adjoint_of_a_renamed_operand_has_its_own_names():
    # q and k name their axis `seq` both; k's is read as `seq2`. Its adjoint exchanges the two names.
    text = """
        dim T
        fn f(q : ℝ[seq: T, hd: 2], k : ℝ[seq: T, hd: 2]) -> ℝ = sum(ein[seq, seq2](q * k)^2)
        fn g(q : ℝ[seq: T, hd: 2], k : ℝ[seq: T, hd: 2]) -> ℝ[seq: T, hd: 2] = grad(λ k. f(q, k))(k)
    """
    program = differentiate(lowered(text).program).program
    adjoints = [line for line in body_of(program, "f.vjp") if " = ein" in line][1:]
    assert adjoints == [
        "%11 : ℝ[seq: T, hd: 2] = ein[seq, hd] %10[seq, seq2], k[seq2, hd]",
        "%12 : ℝ[seq: T, hd: 2] = ein[seq, hd] %10[seq2, seq], q[seq2, hd]",
    ]


def test_dropout_has_the_adjoint_of_its_product():
    text = """
        dim N
        fn f(k : key, x : ℝ[n: N]) -> ℝ uses Rand = sum(dropout(0.5, k, x^2))
        fn g(k : key, x : ℝ[n: N]) -> ℝ[n: N] uses Rand = grad(λ x. f(k, x))(x)
    """
    given = lowered(text, Mode.TRAINING)
    made = differentiate(given.program).program
    against_differences(given.program, made, "g.lambda0", given.headers, {"N": 9})
    masks = [line for line in body_of(made, "f.vjp") if "dropout_mask" in line]
    assert len(masks) == 1


def test_what_costs_nothing_is_made_again():
    real, nat = Real(SCALAR), Hyper(HyperKind.NAT)
    assert made_again(Prim("real", (0,)), real, [nat])
    assert made_again(Prim("split_key", (0,)), real, [Key()])
    assert made_again(Prim("hyper_add", (0, 0)), nat, [nat, nat])
    assert not made_again(Prim("exp", (0,)), real, [real])
    assert not made_again(Prim("dropout_mask", (0, 1, 2)), real, [nat, Key(), real])
