"""The columns of the table of primitives that are numbers: the exact value and the derivative of every row.

The value of each row's use is that of a plain evaluation in binary64. Its derivative, in every real operand that has one, is the
central difference with h = 2⁻¹²⁰ at 512 bits, to 2⁻¹⁰⁰ in every component.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

import gmpy2
import numpy as np
import pytest

from presk.ad.rules.table import DERIVATIVES
from presk.ad.rules.use import NoDerivative
from presk.ad.vjp import differentiate
from presk.core.ir import Prim, Program
from presk.core.parse import parse
from presk.exact import values
from presk.exact.interpreter import Interpreter
from presk.exact.reals import Reals
from presk.exact.values import gathered
from presk.prims.core_rows import CORE
from presk.types.type import Hyper, Index, Mask, Params, Real, Tuple, Type
from tests.ad.evaluate import Evaluator, Scope, sample
from tests.core.test_rows import HEADERS, USES

DIMS: Final = MappingProxyType({"B": 2, "D": 3, "T": 4})
TABLE: Final = 'module M in "m.psk"\n'
NUMBERS: Final = MappingProxyType({"n": 3, "k": -2, "t": Fraction(3, 4), "i": 1, "rate": Fraction(1, 4)})
"""The numbers that uses take, by name."""

DRAWS: Final = frozenset(name for name, row in CORE.items() if row.draws)
"""What is drawn has no value that another generator gives: `tests/exact/test_draws.py` compares the draws themselves."""


OF_REALS: Final = MappingProxyType(
    {
        "slice": ("x : ℝ[seq: T + 1, 4]", "ℝ[seq: T, 2]", "slice seq: 0..T, @-1: 1..3 x"),
        "index": ("x : ℝ[seq: T, 4]", "ℝ[4]", "index seq: -1 x"),
    }
)
"""Uses on reals of rows whose other use is on masks or indices."""

BY_HAND: Final[Mapping[str, Callable[[list[Any]], Any]]] = MappingProxyType(
    {
        "stack_zero": lambda args: [0, 0, 0],
        "get_slice": lambda args: {field: leaf[args[2]] for field, leaf in args[0].items()},
    }
)
"""The values of rows that the plain evaluation has not, since differentiation makes none of them."""


def written(name: str, uses: Mapping[str, tuple[str, str, str]] = USES) -> tuple[list[tuple[str, str]], str, str]:
    """A row's use: its parameters with their types, its type, its operation; its leading axes are one of length 2."""
    params, result, op = uses[name]
    parts: list[str] = []
    depth = 0
    for piece in params.split(", ") if params else []:
        if depth:
            parts[-1] += f", {piece}"
        else:
            parts.append(piece)
        depth += sum(map(piece.count, "[{(")) - sum(map(piece.count, "]})"))
    pairs = [(part.partition(" : ")[0], part.partition(" : ")[2].replace("...", "lead: 2")) for part in parts]
    return pairs, result.replace("...", "lead: 2"), op


def arguments(types: Sequence[tuple[str, Type]], name: str) -> list[Any]:
    """Drawn values of parameters, as the plain evaluation takes them; those of `sqrt` and `log` are positive."""
    rng = np.random.default_rng(7)
    evaluator, scope = Evaluator(Program(()), HEADERS), Scope(DIMS, ())
    found = []
    for param, type_ in types:
        value: Any = NUMBERS[param] if isinstance(type_, Hyper) else sample(evaluator, type_, scope, rng)
        if isinstance(type_, Mask) and name == "softmax":
            value = np.array([True, False, True])  # a row that its mask empties has no value
        found.append(np.abs(value) + 0.5 if name in ("sqrt", "log") else value)
    return found


def exact(value: Any, type_: Type, bits: int) -> values.Value:
    """The same value for the exact reference."""
    match type_, value:
        case Real(), _:
            return values.Real(gathered([gmpy2.mpfr(x, bits) for x in np.ravel(value).tolist()], np.shape(value)))
        case Index(bound), _:
            return values.Index(value, int(bound.evaluate(DIMS)))
        case Hyper(), _:
            return values.Number(gmpy2.mpq(value))
        case Tuple(items), _:
            return values.Items(tuple(exact(one, item, bits) for one, item in zip(value, items, strict=True)))
        case Params(), dict():
            return values.Record({name: exact(one, Real(), bits) for name, one in value.items()})
        case _, np.ndarray():
            return values.Mask(value)
        case _:
            return values.Key(int(value).to_bytes(32, "little"))


def plain(value: values.Value) -> Any:
    """A value of the exact reference as the plain evaluation gives it."""
    match value:
        case values.Real(data):
            return data.astype(float)
        case values.Index(data) | values.Mask(data):
            return data
        case values.Number(number):
            return float(number)
        case values.Truth(truth):
            return truth
        case values.Key(data):
            return int.from_bytes(data, "little")
        case values.Items(items):
            return tuple(map(plain, items))
        case values.Stack(items):
            return list(map(plain, items))
        case values.Record(fields):
            return {name: plain(one) for name, one in fields.items()}
        case other:
            raise TypeError(str(other))


def near(found: Any, expected: Any) -> bool:
    """Whether two plain values are the same but for roundings of binary64."""
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(near(found[name], one) for name, one in expected.items())
    if isinstance(expected, tuple | list):
        return len(found) == len(expected) and all(map(near, found, expected))
    return np.shape(found) == np.shape(expected) and bool(
        np.allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float), rtol=1e-13, atol=1e-13)
    )


def run(program: Program, name: str, args: Sequence[values.Value], bits: int) -> values.Value:
    """A function's value on the exact reference."""
    return Interpreter(program, Reals(bits), HEADERS).run(name, list(args), dict(DIMS))


@pytest.mark.parametrize("name", [name for name in CORE if name not in DRAWS])
def test_the_exact_value(name: str) -> None:
    params, result, op = written(name)
    heads = ", ".join(f"{param} : {type_}" for param, type_ in params)
    program = parse(f"{TABLE}fn f{{B D T}}({heads}) -> {result} {{\n  value : {result} = {op}\n  return value\n}}\n")
    types = [(param.name, param.type) for param in program.functions[0].params]
    given = arguments(types, name)
    expected = BY_HAND[name](given) if name in BY_HAND else Evaluator(program, HEADERS).run("f", given, DIMS)
    args = [exact(value, type_, 128) for value, (_, type_) in zip(given, types, strict=True)]
    found = plain(run(program, "f", args, 128))
    assert near(found, expected), (found, expected)


# --- derivatives --------------------------------------------------------------------------------------------------------

BITS: Final = 512
REAL_USES: Final = USES | OF_REALS
STEP: Final = gmpy2.mpq(1, 1 << 120)


def differentiable(name: str) -> list[str]:
    """The parameters of a row's use that are real and that it reads; none if the row has no derivative."""
    rule = DERIVATIVES[name]
    if isinstance(rule, NoDerivative) or rule.__name__ == "nothing":
        return []
    params, _, op = written(name, REAL_USES)
    read = op.replace(",", " ").split()
    return [
        param
        for param, type_ in params
        if type_.startswith(("ℝ", "params")) and any(param == one.partition("[")[0] for one in read)
    ]


CASES: Final = [(name, param) for name in CORE for param in differentiable(name)]


def test_every_row_has_a_derivative_or_a_reason() -> None:
    """A row without a derivative says why, or takes no real number that it could depend on smoothly."""
    without = [name for name in CORE if not differentiable(name)]
    for name in without:
        rule = DERIVATIVES[name]
        if isinstance(rule, NoDerivative):
            assert len(rule.reason) > 20, name
        else:
            # Of what stays: constants, what a key or an index gives, and jumps.
            assert name in (
                *("one_hot", "argmax", "sample", "positions", "causal_mask", "zeros", "ones", "pi", "normal"),
                *("xavier_uniform", "dropout_mask", "split_key", "real", "zeros_like"),
            ), name
    assert len({name for name, _ in CASES}) == len(CORE) - len(without) >= 35


def gradient_program(name: str, param: str) -> tuple[Program, list[tuple[str, Type]]]:
    """`f` with the gradient, in one parameter, of the sum of the cubes of a row's use (of a tree's squares): each component of the
    cotangent is another. And the parameters of the function that is differentiated."""
    params, result, op = written(name, REAL_USES)
    ordered = [one for one in params if one[0] != param] + [one for one in params if one[0] == param]
    heads = ", ".join(f"{one} : {type_}" for one, type_ in ordered)
    others = ", ".join(one for one, _ in ordered[:-1])
    type_ = ordered[-1][1]
    reduced = (
        "  total : ℝ[] = sum_squares value\n"
        if result.startswith("params")
        else f"  cubes : {result} = pow 3 value\n  total : ℝ[] = sum cubes\n"
    )
    program = parse(
        f"{TABLE}fn f.lambda0{{B D T}}({heads}) -> ℝ[] {{\n  value : {result} = {op}\n{reduced}  return total\n}}\n"
        f"fn f{{B D T}}({heads}) -> {type_} {{\n"
        f"  made : ({type_}) -> ℝ[] = closure f.lambda0[{others}]\n"
        f"  slope : ({type_}) -> {type_} = grad made\n"
        f"  found : {type_} = apply slope({param})\n"
        "  return found\n}\n"
    )
    return program, [(one.name, one.type) for one in program.functions[0].params]


@pytest.mark.parametrize(("name", "param"), CASES, ids=[f"{name}-{param}" for name, param in CASES])
def test_the_derivative(name: str, param: str) -> None:
    program, types = gradient_program(name, param)
    assert any(isinstance(one.op, Prim) and one.op.name == name for one in program.functions[0].bindings)
    done = differentiate(program)
    assert not done.diagnostics
    given = arguments(types, name)
    args = [exact(value, one, BITS) for value, (_, one) in zip(given, types, strict=True)]
    slope = leaves(run(done.program, "f", args, BITS))
    point = leaves(args[-1])
    assert list(slope) == list(point)
    with gmpy2.context(precision=BITS):
        for leaf, place in [(leaf, place) for leaf, data in point.items() for place in np.ndindex(data.shape)]:
            sides = [
                total(run(program, "f.lambda0", [*args[:-1], moved(args[-1], leaf, place, by)], BITS))
                for by in (STEP, -STEP)
            ]
            expected = (sides[0] - sides[1]) / (2 * STEP)
            assert abs(slope[leaf][place] - expected) <= max(1, abs(expected)) / gmpy2.mpfr(2) ** 100, (leaf, place)


ADJOINTS: Final = MappingProxyType(
    {
        ("add", "y"): "sum_to",
        ("sum", "x"): "broadcast_like",
        ("mean", "x"): "mean_vjp",
        ("dot", "x"): "dot_vjp_l",
        ("dot", "w"): "dot_vjp_r",
        ("ein", "q"): "ein",
        ("ein", "k"): "ein",
        ("embed", "w"): "embed_vjp",
        ("cross_entropy", "x"): "cross_entropy_vjp",
        ("gelu", "x"): "gelu'",
        ("relu", "x"): "heaviside",
        ("abs", "x"): "sign",
        ("concat", "x"): "slice",
        ("concat", "y"): "slice",
        ("slice", "x"): "slice_vjp",
        ("index", "x"): "scatter_index",
        ("merge", "x"): "reshape_like",
        ("split", "x"): "reshape_like",
        ("split_heads", "x"): "merge_heads",
        ("merge_heads", "x"): "split_heads",
        ("slice_params", "s"): "scatter_params",
        ("stack_params", "θ"): "slice_params",
    }
)
"""The primitive that makes the cotangent of an operand, for rows whose adjoint the language's description names."""


@pytest.mark.parametrize(("name", "param"), ADJOINTS, ids=[f"{name}-{param}" for name, param in ADJOINTS])
def test_adjoints_are_the_primitives_that_they_are_said_to_be(name: str, param: str) -> None:
    done = differentiate(gradient_program(name, param)[0])
    (derived,) = done.derived
    vjp = next(function for function in done.program.functions if function.name == "f.lambda0.vjp")
    sweep = [one.op.name for one in vjp.bindings if one.var >= derived.sweep and isinstance(one.op, Prim)]
    assert ADJOINTS[name, param] in sweep, sweep


def leaves(value: values.Value) -> Mapping[str, Any]:
    """The arrays of a tensor or a tree, by field."""
    if isinstance(value, values.Record):
        return {f"{name}{inner}": one for name, item in value.fields.items() for inner, one in leaves(item).items()}
    assert isinstance(value, values.Real)
    return {"": value.data}


def moved(value: values.Value, leaf: str, place: tuple[int, ...], by: Any) -> values.Value:
    """The value with one element moved."""
    if isinstance(value, values.Record):
        return values.Record(
            {name: moved(one, "", place, by) if name == leaf else one for name, one in value.fields.items()}
        )
    assert isinstance(value, values.Real)
    data = value.data.copy()
    data[place] = data[place] + by
    return values.Real(data)


def total(value: values.Value) -> Any:
    """A scalar's number."""
    assert isinstance(value, values.Real)
    return value.data.item()
