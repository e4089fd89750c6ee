"""Element by element, on tensors and on structures of them."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from presk.exact.primitives.use import Rule, Use
from presk.exact.scope import laid, shape_of
from presk.exact.values import Index, Number, Objects, Real, Value, filled, join_leaves, leaves, map_leaves
from presk.prims.attrs import Length


def unary(name: str) -> Rule:
    """A function of one real."""

    def rule(use: Use) -> Value:
        return map_leaves(use.args[0], lambda data: use.m.apply(name, data))

    return rule


def binary(operation: Callable[[Use], Callable[[Objects, Objects], Objects]]) -> Rule:
    """Two tensors as they lie in the result, or two structures leaf by leaf, or a scalar with every leaf."""

    def rule(use: Use) -> Value:
        left, right = use.args
        combine = operation(use)
        if isinstance(left, Real) and isinstance(right, Real) and use.attrs:
            rank = len(shape_of(use.result).axes)
            x = laid(left.data, use.align("left"), rank, use.leading)
            y = laid(right.data, use.align("right"), rank, use.leading)
            return Real(combine(x, y))
        return join_leaves(left, right, combine)

    return rule


BINARY: Final = MappingProxyType(
    {
        "add": binary(lambda use: use.m.add),
        "sub": binary(lambda use: use.m.sub),
        "mul": binary(lambda use: use.m.mul),
        "div": binary(lambda use: use.m.div),
        "max": binary(lambda use: use.m.maximum),
        "min": binary(lambda use: use.m.minimum),
    }
)


def power(use: Use) -> Value:
    """`pow n x`."""
    n = use.scope.length(use.attr("n", Length).dim)
    return map_leaves(use.args[0], lambda data: use.m.power(data, n))


def power_by_value(use: Use) -> Value:
    """`powv x, n`."""
    n = use.whole(1)
    return map_leaves(use.args[0], lambda data: use.m.power(data, n))


def real(use: Use) -> Value:
    """A hyperparameter as a scalar, indices as reals."""
    match use.args[0]:
        case Number(value):
            return Real(filled((), use.m.number(value)))
        case Index(data):
            return Real(use.m.from_integers(data))
        case other:
            raise TypeError(f"{type(other).__name__} is no number")


def pi(use: Use) -> Value:
    """π."""
    return Real(filled((), use.m.pi()))


def retag(use: Use) -> Value:
    """The value itself: names are the type's."""
    return use.args[0]


def sum_squares(use: Use) -> Value:
    """The squared norm."""
    return Real(filled((), use.m.squares(leaves(use.args[0]))))
