"""Hyperparameters as expressions of an entry's parameters: the host evaluates them exactly before a call.

A hyperparameter never comes from a tensor, so everything that is computed with hyperparameters is known before the first launch. What
launches read of them are scalars, each rounded once to the type that it is read in.
"""

from fractions import Fraction

import msgspec

from presk.kernels.ir import Elem
from presk.types.type import HyperKind


class Expr(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """An expression."""


class Given(Expr, frozen=True):
    """A parameter of the entry, or a part of one (`schedule.0`)."""

    path: str


class Known(Expr, frozen=True):
    """A rational number, or a truth value as 0 or 1."""

    numerator: int
    denominator: int = 1
    truth: bool = False


class Pi(Expr, frozen=True):
    """π."""


class LoopCount(Expr, frozen=True):
    """The number of the iteration of a loop."""

    loop: int


class Apply(Expr, frozen=True):
    """A primitive on hyperparameters, by name (`hyper_add`), and the kind of its value."""

    name: str
    args: tuple["AnyExpr", ...]
    kind: HyperKind


AnyExpr = Given | Known | Pi | LoopCount | Apply


class Scalar(msgspec.Struct, frozen=True, array_like=True):
    """What launches read: an expression, rounded once to nearest even in a type."""

    expr: AnyExpr
    elem: Elem


def known(text: str) -> Known:
    """A literal of the core."""
    if text in ("true", "false"):
        return Known(int(text == "true"), 1, True)
    value = Fraction(text)
    return Known(value.numerator, value.denominator)


def loop_dependent(expr: AnyExpr) -> bool:
    """Whether an expression's value depends on an iteration."""
    match expr:
        case LoopCount():
            return True
        case Apply(args=args):
            return any(map(loop_dependent, args))
        case _:
            return False
