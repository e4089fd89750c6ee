"""Arithmetic of hyperparameters: exact rationals."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from gmpy2 import mpq

from presk.exact.faults import DIVISION, RANGE, Fault
from presk.exact.primitives.use import Rule, Use
from presk.exact.values import Number, Truth, Value
from presk.types.type import Hyper, HyperKind

_LONGEST: Final = 1 << 24  # bits of a power


def _arithmetic(operation: Callable[[mpq, mpq], mpq]) -> Rule:
    def rule(use: Use) -> Value:
        return Number(operation(use.hyper(0).value, use.hyper(1).value))

    return rule


def _comparison(holds: Callable[[mpq, mpq], bool]) -> Rule:
    def rule(use: Use) -> Value:
        left, right = use.args
        if isinstance(left, Truth) and isinstance(right, Truth):
            return Truth(holds(mpq(left.value), mpq(right.value)))
        return Truth(holds(use.hyper(0).value, use.hyper(1).value))

    return rule


def divide(use: Use) -> Value:
    """The quotient, of whole numbers rounded down."""
    left, right = use.hyper(0).value, use.hyper(1).value
    if right == 0:
        raise Fault(DIVISION, "division by zero")
    if use.result in (Hyper(HyperKind.NAT), Hyper(HyperKind.INT)):
        return Number(mpq(left // right))
    return Number(left / right)


def negate(use: Use) -> Value:
    """The opposite."""
    return Number(-use.hyper(0).value)


def power(use: Use) -> Value:
    """A natural power; RANGE for one of more than 2²⁴ bits."""
    base, exponent = use.hyper(0).value, use.whole(1)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size > 1 and size * exponent > _LONGEST:
        raise Fault(RANGE, f"{base} to the power {exponent} is too long a number")
    return Number(base**exponent)


HYPER: Final = MappingProxyType(
    {
        "hyper_add": _arithmetic(lambda x, y: x + y),
        "hyper_sub": _arithmetic(lambda x, y: x - y),
        "hyper_mul": _arithmetic(lambda x, y: x * y),
        "hyper_div": divide,
        "hyper_neg": negate,
        "hyper_pow": power,
        "hyper_eq": _comparison(lambda x, y: x == y),
        "hyper_le": _comparison(lambda x, y: x <= y),
        "hyper_ge": _comparison(lambda x, y: x >= y),
        "hyper_lt": _comparison(lambda x, y: x < y),
        "hyper_gt": _comparison(lambda x, y: x > y),
    }
)
