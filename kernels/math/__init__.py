"""Scalar functions of the core's elementwise primitives, as sequences of kernel IR on values of any number of lanes.

A function of f64 is evaluated in f64 with an error of at most one unit in the last place. A function of f32 is
evaluated in f64 lanes and rounded once, which gives the correctly rounded value but for the arguments that its row of
`MENDED` lists with their values: there the f64 value lies on the wrong side of a midpoint of two numbers of f32, or on
it. All 2³² arguments were run (`make exhaustive`). bf16 computes in f32, so it has no functions of its own.

The largest errors of f64 that 20,000 random arguments in each region of interest showed, in units in the last place: exp
0.70, tanh 0.69, sigmoid 0.71, log 0.75, sin 0.76, cos 0.74, erf 0.69, gelu 0.67, its derivative 0.62.

Lanes are independent and the sequence is fixed, so the bits depend on neither the executor nor the number of lanes.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import CompareOp, Elem
from presk.kernels.math import basic, exponential, logarithm, normal, turns
from presk.kernels.math.lanes import Lanes
from presk.kernels.math.mended import MENDED

Rule = Callable[[Builder, Sequence[Value], int | None], Value]
Function = Callable[[Lanes, Value], Value]
Special = Callable[[Builder, Value, Value], Value]


def _one(build: Callable[[Builder, Value], Value]) -> Rule:
    def rule(b: Builder, args: Sequence[Value], n: int | None) -> Value:
        (x,) = args
        return build(b, x)

    return rule


def _two(build: Callable[[Builder, Value, Value], Value]) -> Rule:
    def rule(b: Builder, args: Sequence[Value], n: int | None) -> Value:
        x, y = args
        return build(b, x, y)

    return rule


def _power(b: Builder, args: Sequence[Value], n: int | None) -> Value:
    (x,) = args
    if n is None:
        raise ValueError("`pow` without its exponent")
    return basic.power(b, x, n)


def _elementary(name: str, narrow: Function, wide: Function, special: Special | None = None) -> Rule:
    """A function that is `wide` of f64, and of f32 `narrow` rounded, mended, and set right by `special`
    where the rounded value is not yet right."""

    def rule(b: Builder, args: Sequence[Value], n: int | None) -> Value:
        (x,) = args
        if x.elem is Elem.F64:
            return wide(Lanes(b, x.lanes), x)
        y = b.convert(narrow(Lanes(b, x.lanes), b.convert(x, Elem.F64)), Elem.F32)
        for argument, value in MENDED.get(name, ()):
            here = b.compare(CompareOp.EQ, x, b.bits(Elem.F32, argument, x.lanes))
            y = b.select(here, b.bits(Elem.F32, value, x.lanes), y)
        return y if special is None else special(b, x, y)

    return rule


SCALARS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "neg": _one(Builder.neg),
        "abs": _one(Builder.abs),
        "sqrt": _one(Builder.sqrt),
        "relu": _one(basic.relu),
        "heaviside": _one(basic.heaviside),
        "sign": _one(basic.sign),
        "add": _two(Builder.add),
        "sub": _two(Builder.sub),
        "mul": _two(Builder.mul),
        "div": _two(Builder.div),
        "max": _two(basic.maximum),
        "min": _two(basic.minimum),
        "pow": _power,
        "powv": _two(basic.power_by_value),
        "exp": _elementary("exp", exponential.exp_32, exponential.exp_64),
        "tanh": _elementary("tanh", exponential.tanh_32, exponential.tanh_64, normal.signed),
        "sigmoid": _elementary("sigmoid", exponential.sigmoid_32, exponential.sigmoid_64, exponential.sigmoid_special),
        "log": _elementary("log", logarithm.log_32, logarithm.log_64, logarithm.special),
        "sin": _elementary("sin", turns.sin_32, turns.sin_64),
        "cos": _elementary("cos", turns.cos_32, turns.cos_64),
        "erf": _elementary("erf", normal.erf_32, normal.erf_64, normal.signed),
        "gelu": _elementary("gelu", normal.gelu_32, normal.gelu_64, normal.signed),
        "gelu'": _elementary("gelu'", normal.gelu_derivative_32, normal.gelu_derivative_64),
    }
)
"""By the primitive's name (and erf). `real`, the injection of an integer, is a conversion."""

ELEMENTARY: Final = ("exp", "tanh", "sigmoid", "log", "sin", "cos", "erf", "gelu", "gelu'")
"""Those that are approximated."""


def exp_not_above_0(b: Builder, x: Value) -> Value:
    """e^x where x ≤ 0 or NaN: the same value as `exp`, with less to do."""
    if x.elem is Elem.F64:
        return exponential.exp_64_bounded(Lanes(b, x.lanes), x)
    return b.convert(exponential.exp_32_of_negative(Lanes(b, x.lanes), x), Elem.F32)


def apply(b: Builder, name: str, args: Sequence[Value], n: int | None = None) -> Value:
    """The value of a primitive at values of one type, f32 or f64, and one number of lanes; the type of the first decides the variant.

    `n` is the exponent of `pow`. The second operand of `powv` is an i64, with one lane or as many as the first.
    """
    return SCALARS[name](b, args, n)
