"""The functions that are one operation or a few, in the type of their operands."""

from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import BinaryOp, CompareOp, Elem

_EXPONENT_BITS: Final = 63


def _constant(b: Builder, x: Value, value: float) -> Value:
    return b.const(x.elem, value, x.lanes)


def _keep_nan(b: Builder, x: Value, y: Value) -> Value:
    """y, but x where x is NaN."""
    return b.select(b.compare(CompareOp.UNO, x, x), x, y)


def maximum(b: Builder, x: Value, y: Value) -> Value:
    """x if x > y, else y; a NaN in either is the result."""
    return b.select(b.compare(CompareOp.GT, x, y), x, _keep_nan(b, x, y))


def minimum(b: Builder, x: Value, y: Value) -> Value:
    """x if x < y, else y; a NaN in either is the result."""
    return b.select(b.compare(CompareOp.LT, x, y), x, _keep_nan(b, x, y))


def relu(b: Builder, x: Value) -> Value:
    """x if x > 0, NaN for NaN, else +0."""
    zero = _constant(b, x, 0.0)
    return b.select(b.compare(CompareOp.LE, x, zero), zero, x)


def heaviside(b: Builder, x: Value) -> Value:
    """1 if x > 0, else +0."""
    zero = _constant(b, x, 0.0)
    return _keep_nan(b, x, b.select(b.compare(CompareOp.GT, x, zero), _constant(b, x, 1.0), zero))


def sign(b: Builder, x: Value) -> Value:
    """1, −1 or +0."""
    zero = _constant(b, x, 0.0)
    below = b.select(b.compare(CompareOp.LT, x, zero), _constant(b, x, -1.0), zero)
    return _keep_nan(b, x, b.select(b.compare(CompareOp.GT, x, zero), _constant(b, x, 1.0), below))


MOST_PRODUCTS: Final = 64
"""A larger constant exponent is squared and multiplied: it would be as many operations as it is large."""


def power(b: Builder, x: Value, n: int) -> Value:
    """xⁿ as n − 1 products from the left, (x·x)·x and so on, up to a bound; beyond it as a power by a value. x⁰ is 1."""
    if n > MOST_PRODUCTS:
        # An exponent beyond 2⁶² overflows or underflows everything but ±1, of which its parity decides the sign.
        return power_by_value(b, x, b.const(Elem.I64, n if n < 1 << 62 else (1 << 62) + n % 2))
    if n == 0:
        return _keep_nan(b, x, _constant(b, x, 1.0))
    result = x
    for _ in range(n - 1):
        result = b.mul(result, x)
    return result


def power_by_value(b: Builder, x: Value, n: Value) -> Value:
    """xⁿ of a natural number n < 2⁶³, an i64: square and multiply from the lowest bit. f32 is computed in f64 and rounded once."""
    wide = b.convert(x, Elem.F64)
    count = n if n.lanes == x.lanes else b.splat(n, x.lanes)
    one, zero = b.const(Elem.I64, 1, x.lanes), b.const(Elem.I64, 0, x.lanes)
    loop = b.loop(_EXPONENT_BITS, [b.const(Elem.F64, 1.0, x.lanes), wide, count])
    with loop:
        result, factor, left = loop.inside
        odd = b.compare(CompareOp.NE, b.binary(BinaryOp.AND, left, one), zero)
        loop.next = [
            b.select(odd, b.mul(result, factor), result),
            b.mul(factor, factor),
            b.binary(BinaryOp.LSHR, left, one),
        ]
    return b.convert(_keep_nan(b, wide, loop.after[0]), x.elem)
