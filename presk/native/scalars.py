"""Evaluates the hyperparameters that launches read: exactly, by the rules of the exact reference, and rounds each once."""

from collections.abc import Mapping

from gmpy2 import mpq

from presk.exact.primitives.table import EXACT
from presk.exact.primitives.use import Use
from presk.exact.reals import Reals
from presk.exact.scope import Scope
from presk.exact.values import Number, Truth
from presk.kernels.numbers import rounded
from presk.kernels.trace.hyper import AnyExpr, Apply, Given, Known, Pi, Scalar
from presk.types.type import Hyper, HyperKind

Hypers = Mapping[str, Number | Truth]
"""Values of an entry's hyperparameters, by path."""

_SCOPE = Scope({}, (), {})
_ARITHMETIC = Reals(64)  # no rule of hyperparameters asks it anything


def evaluate(expr: AnyExpr, given: Hypers) -> Number | Truth:
    """The exact value of an expression; KeyError for a parameter without a value, `Fault` where it is undefined."""
    match expr:
        case Known(numerator, denominator, truth):
            return Truth(bool(numerator)) if truth else Number(mpq(numerator, denominator))
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


def element(scalar: Scalar, given: Hypers) -> float:
    """What launches read: the value, rounded once."""
    if isinstance(scalar.expr, Pi):
        return rounded(None, scalar.elem)
    value = evaluate(scalar.expr, given)
    return rounded(value.value if isinstance(value, Number) else mpq(int(value.value)), scalar.elem)
