"""Evaluates the hyperparameters that launches read: exactly, by the rules of the exact reference, and rounds each once."""

from collections.abc import Iterable, Mapping
from typing import Final

from gmpy2 import mpq

from presk.exact.faults import RATE, Fault
from presk.exact.interpreter import Stopped
from presk.exact.primitives.table import EXACT
from presk.exact.primitives.use import Use
from presk.exact.reals import Reals
from presk.exact.scope import Scope
from presk.exact.values import Number, Truth
from presk.kernels.ir import Elem
from presk.kernels.numbers import rounded
from presk.kernels.trace.hyper import AnyExpr, Apply, Given, Known, Pi, Scalar
from presk.types.type import Hyper, HyperKind

Hypers = Mapping[str, Number | Truth]
"""Values of an entry's hyperparameters, by path."""

_LARGEST: Final = 1 << 62
_SCOPE = Scope({}, (), {})
_ARITHMETIC = Reals(64)  # no rule of hyperparameters asks it anything


def evaluate(expr: AnyExpr, given: Hypers) -> Number | Truth:
    """The exact value of an expression; KeyError for a parameter without a value, `Fault` where it is undefined."""
    match expr:
        case Known(text, truth):
            return Truth(text == "1") if truth else Number(mpq(text))
        case Given(path):
            return given[path]
        case Apply(name, args, kind):
            values = tuple(evaluate(arg, given) for arg in args)
            types = tuple(Hyper(HyperKind.BOOL if isinstance(value, Truth) else HyperKind.RAT) for value in values)
            found = EXACT[name](Use(_ARITHMETIC, _SCOPE, values, types, Hyper(kind), {}))
            if not isinstance(found, Number | Truth):
                raise TypeError(f"`{name}` is no rule of hyperparameters")
            return found
        case _:
            raise TypeError(f"{type(expr).__name__} is no number by itself")


def element(scalar: Scalar, given: Hypers) -> float | int:
    """What launches read: the value, rounded once.

    Integers are exponents: one beyond 2⁶² is read as 2⁶² with its parity, since it decides the sign alone of what is no power of ±1.
    """
    if isinstance(scalar.expr, Pi):
        return rounded(None, scalar.elem)
    found = evaluate(scalar.expr, given)
    value = found.value if isinstance(found, Number) else mpq(int(found.value))
    if scalar.elem is not Elem.I64:
        return rounded(value, scalar.elem)
    whole = int(value)
    return whole if whole < _LARGEST else _LARGEST + whole % 2


def check_rates(rates: Iterable[tuple[AnyExpr, tuple[tuple[str, int], ...]]], given: Hypers) -> None:
    """`Stopped` for a rate of `dropout` that does not lie in [0, 1)."""
    for expr, trail in rates:
        found = evaluate(expr, given)
        if isinstance(found, Number) and not 0 <= found.value < 1:
            raise Stopped(Fault(RATE, f"the rate of `dropout` is {found.value}, which does not lie in [0, 1)"), trail)
