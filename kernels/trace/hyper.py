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
    """A rational number of any size as `7` or `-1/3`, or a truth value as `0` or `1`."""

    text: str
    truth: bool = False

    @property
    def whole(self) -> int | None:
        """The number, if it is whole."""
        return None if "/" in self.text else int(self.text)


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
        return Known(str(int(text == "true")), True)
    return Known(str(Fraction(text)))


def loop_dependent(expr: AnyExpr) -> bool:
    """Whether an expression's value depends on an iteration."""
    match expr:
        case LoopCount():
            return True
        case Apply(args=args):
            return any(map(loop_dependent, args))
        case _:
            return False
