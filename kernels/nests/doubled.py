"""Correctly rounded logarithm and cosine in f64, for the arguments that normal draws have.

A draw must be the same for ever (docs/decisions/0014-draws-are-correctly-rounded.md), so being close is not enough. Values are
computed as sums of two doubles, to about 2⁻¹⁰⁰ of themselves, without tables: kernels have none. A value that lies so near to the
midpoint of two doubles that the error decides would be rounded wrongly: for a draw the chance is some 2⁻⁴⁵. Where values lie near
midpoints for a reason, which they do for log(1 − t) with small t, the second double is as good as a double can be, and decides.
Products are split by `fma`, sums as Dekker (1971) and Shewchuk (1997) do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import factorial
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import BinaryOp, CompareOp, Elem, UnaryOp

Pair = tuple[Value, Value]
Exact = tuple[float, float]


def _bits(value: Fraction, size: int) -> float:
    """A positive number rounded down to so many bits."""
    shift = size - 1
    while value * 2**shift >= 2**size:
        shift -= 1
    while value * 2**shift < 2 ** (size - 1):
        shift += 1
    scaled = value * Fraction(2) ** shift
    return float(Fraction(scaled.numerator // scaled.denominator) / Fraction(2) ** shift)


def _pair(value: Fraction) -> Exact:
    high = float(value)
    return high, float(value - Fraction(high))


def _three(value: Fraction, size: int) -> tuple[float, float, float]:
    """A number as two doubles of so many bits, and the rest."""
    first = _bits(value, size)
    second = _bits(value - Fraction(first), size)
    return first, second, float(value - Fraction(first) - Fraction(second))


_PI: Final = Fraction(0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89, 1 << 256)
_LOG2: Final = Fraction(0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2B, 1 << 256)
_LOG2_PARTS: Final = _three(_LOG2, 45)
"""Times an exponent of eight bits they are exact, but for the last."""
_QUARTER: Final = _three(_PI / 2, 40)
_SQRT2: Final = 1.4142135623730951
_NEAR: Final = 2.0**-12

_ODD: Final = [Fraction(1, 2 * k + 1) for k in range(21)]
_ALTERNATING: Final = [Fraction((-1) ** k, k + 1) for k in range(10)]
_COSINE: Final = [Fraction((-1) ** k, factorial(2 * k)) for k in range(1, 15)]
_SINE: Final = [Fraction((-1) ** k, factorial(2 * k + 1)) for k in range(15)]


@dataclass(frozen=True, slots=True)
class Doubled:
    """Sums of two doubles, in so many lanes."""

    b: Builder
    lanes: int

    def const(self, value: float) -> Value:
        """A constant."""
        return self.b.const(Elem.F64, value, self.lanes)

    def pair(self, value: Exact) -> Pair:
        """A constant of two doubles."""
        return self.const(value[0]), self.const(value[1])

    def two_sum(self, x: Value, y: Value) -> Pair:
        """x + y exactly."""
        b = self.b
        s = b.add(x, y)
        t = b.sub(s, x)
        return s, b.add(b.sub(x, b.sub(s, t)), b.sub(y, t))

    def quick(self, x: Value, y: Value) -> Pair:
        """x + y exactly, if |x| ≥ |y| or x is 0."""
        b = self.b
        s = b.add(x, y)
        return s, b.sub(y, b.sub(s, x))

    def two_product(self, x: Value, y: Value) -> Pair:
        """x · y exactly."""
        b = self.b
        p = b.mul(x, y)
        return p, b.fma(x, y, b.neg(p))

    def product(self, x: Pair, y: Pair) -> Pair:
        """x · y."""
        b = self.b
        p, e = self.two_product(x[0], y[0])
        return self.quick(p, b.fma(x[0], y[1], b.fma(x[1], y[0], e)))

    def sum(self, x: Pair, y: Pair) -> Pair:
        """x + y, also where they cancel."""
        b = self.b
        s, e = self.two_sum(x[0], y[0])
        t, f = self.two_sum(x[1], y[1])
        s, e = self.quick(s, b.add(e, t))
        return self.quick(s, b.add(e, f))

    def onto(self, x: Pair, y: Pair) -> Pair:
        """x + y, where x is the larger one."""
        b = self.b
        s, e = self.quick(x[0], y[0])
        return self.quick(s, b.add(e, b.add(x[1], y[1])))

    def quotient(self, x: Value, y: Pair) -> Pair:
        """x / y."""
        b = self.b
        first = b.div(x, y[0])
        p, e = self.two_product(first, y[0])
        # x − p is exact: p is the product nearest to x.
        rest = b.sub(b.sub(b.sub(x, p), e), b.mul(first, y[1]))
        return self.quick(first, b.div(rest, y[0]))

    def select(self, condition: Value, x: Pair, y: Pair) -> Pair:
        """One of two."""
        return self.b.select(condition, x[0], y[0]), self.b.select(condition, x[1], y[1])

    def polynomial(self, x: Pair, coefficients: Sequence[Fraction], head: int) -> Pair:
        """Σ coefficient · xᵏ: the first `head` terms in two doubles, the others, which hardly matter, in one. Terms decrease."""
        b = self.b
        low = self.const(float(coefficients[-1]))
        for coefficient in coefficients[-2 : head - 1 : -1]:
            low = b.fma(low, x[0], self.const(float(coefficient)))
        value: Pair = (low, self.const(0.0))
        for coefficient in coefficients[head - 1 :: -1] if head else ():
            value = self.onto(self.pair(_pair(coefficient)), self.product(value, x))
        return value

    def log(self, x: Value) -> Value:
        """log x for x in [2⁻⁵³, 1]."""
        b = self.b
        whole = b.bitcast(x, Elem.I64)
        fraction = b.binary(BinaryOp.AND, whole, b.const(Elem.I64, (1 << 52) - 1, self.lanes))
        m = b.bitcast(b.binary(BinaryOp.OR, fraction, b.const(Elem.I64, 1023 << 52, self.lanes)), Elem.F64)
        raised = b.binary(BinaryOp.LSHR, whole, b.const(Elem.I64, 52, self.lanes))
        e = b.sub(b.convert(raised, Elem.F64), self.const(1023.0))
        large = b.compare(CompareOp.GT, m, self.const(_SQRT2))
        m = b.select(large, b.mul(m, self.const(0.5)), m)
        e = b.select(large, b.add(e, self.const(1.0)), e)
        r = b.sub(m, self.const(1.0))  # exact
        zero = self.const(0.0)
        # Near 1 the series of log(1 + r); elsewhere that of 2·artanh(r / (2 + r)).
        near = self.product((r, zero), self.polynomial((r, zero), _ALTERNATING, 5))
        s = self.quotient(r, self.two_sum(m, self.const(1.0)))
        two = self.const(2.0)
        double = b.mul(s[0], two), b.mul(s[1], two)
        far = self.product(double, self.polynomial(self.product(s, s), _ODD, 9))
        value = self.select(b.compare(CompareOp.LT, b.abs(r), self.const(_NEAR)), near, far)
        parts = [b.mul(e, self.const(part)) for part in _LOG2_PARTS]
        value = self.sum((parts[1], parts[2]), value)
        value = self.sum((parts[0], zero), value)
        return b.add(value[0], value[1])

    def cos(self, x: Value) -> Value:
        """cos x for x in [0, 2π]."""
        b = self.b
        zero = self.const(0.0)
        j = b.unary(UnaryOp.RINT, b.mul(x, self.const(float(2 / _PI))))
        r = self.two_sum(x, b.neg(b.mul(j, self.const(_QUARTER[0]))))
        r = self.sum(r, (b.neg(b.mul(j, self.const(_QUARTER[1]))), zero))
        r = self.sum(r, (b.neg(b.mul(j, self.const(_QUARTER[2]))), zero))
        square = self.product(r, r)
        cosine = self.onto((self.const(1.0), zero), self.product(square, self.polynomial(square, _COSINE, 7)))
        sine = self.product(r, self.polynomial(square, _SINE, 8))
        # cos(r + j·π/2) is cos r, −sin r, −cos r, sin r for j = 0, 1, 2, 3, and so on.
        number = b.convert(j, Elem.I64)
        one, two = b.const(Elem.I64, 1, self.lanes), b.const(Elem.I64, 2, self.lanes)
        odd = b.compare(CompareOp.NE, b.binary(BinaryOp.AND, number, one), b.const(Elem.I64, 0, self.lanes))
        turned = b.binary(BinaryOp.AND, b.add(number, one), two)
        negative = b.compare(CompareOp.NE, turned, b.const(Elem.I64, 0, self.lanes))
        value = self.select(odd, sine, cosine)
        whole = b.add(value[0], value[1])
        return b.select(negative, b.neg(whole), whole)
