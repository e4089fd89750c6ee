"""Binary64 arithmetic in the lanes of kernel values, and sums of two numbers, from which the elementary functions are built.

A `Pair` is an unevaluated sum of two doubles, the second small against the first: about 106 bits where both are computed
exactly. The error-free transformations are Dekker's and Knuth's; products use fma.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from presk.kernels.build import Builder, Value
from presk.kernels.ir import BinaryOp, CompareOp, Elem

MAGIC: Final = 1.5 * 2.0**52
"""Added to a number below 2⁵¹ in size, it rounds it to an integer, which stands in the low bits of the sum."""

ONE_BITS: Final = 1023 << 52
"""The pattern of 1.0."""


class Pair(NamedTuple):
    """An unevaluated sum."""

    high: Value
    low: Value


class Lanes:
    """Operations on vectors of binary64 of one number of lanes; numbers stand for constants."""

    def __init__(self, builder: Builder, lanes: int) -> None:
        self.b = builder
        self.lanes = lanes

    def value(self, x: Value | float) -> Value:
        """A number as a value."""
        return x if isinstance(x, Value) else self.b.const(Elem.F64, x, self.lanes)

    # --- floats ---

    def add(self, x: Value | float, y: Value | float) -> Value:
        """x + y."""
        return self.b.add(self.value(x), self.value(y))

    def sub(self, x: Value | float, y: Value | float) -> Value:
        """x − y."""
        return self.b.sub(self.value(x), self.value(y))

    def mul(self, x: Value | float, y: Value | float) -> Value:
        """x · y."""
        return self.b.mul(self.value(x), self.value(y))

    def div(self, x: Value | float, y: Value | float) -> Value:
        """x / y."""
        return self.b.div(self.value(x), self.value(y))

    def fma(self, x: Value | float, y: Value | float, z: Value | float) -> Value:
        """x · y + z."""
        return self.b.fma(self.value(x), self.value(y), self.value(z))

    def neg(self, x: Value) -> Value:
        """−x."""
        return self.b.neg(x)

    def abs(self, x: Value) -> Value:
        """|x|."""
        return self.b.abs(x)

    def copysign(self, x: Value, y: Value) -> Value:
        """|x| with the sign of y."""
        return self.b.binary(BinaryOp.COPYSIGN, x, y)

    def less(self, x: Value | float, y: Value | float) -> Value:
        """x < y."""
        return self.b.compare(CompareOp.LT, self.value(x), self.value(y))

    def same(self, x: Value | float, y: Value | float) -> Value:
        """x = y."""
        return self.b.compare(CompareOp.EQ, self.value(x), self.value(y))

    def select(self, condition: Value, x: Value | float, y: Value | float) -> Value:
        """x where the condition holds, else y."""
        return self.b.select(condition, self.value(x), self.value(y))

    def at_most(self, x: Value, most: float) -> Value:
        """x, or what is larger replaced by `most`; NaN stays. In the type of x, of which `most` is a number."""
        bound = self.b.const(x.elem, most, x.lanes)
        return self.b.select(self.b.compare(CompareOp.LT, bound, x), bound, x)

    def at_least(self, x: Value, least: float) -> Value:
        """x, or what is smaller replaced by `least`; NaN stays. In the type of x, of which `least` is a number."""
        bound = self.b.const(x.elem, least, x.lanes)
        return self.b.select(self.b.compare(CompareOp.LT, x, bound), bound, x)

    def by_sign(self, x: Value, y: Value | float, z: Value | float) -> Value:
        """y where the sign of x is negative, else z."""
        return self.b.select(self.b.compare(CompareOp.LT, self.bits(x), self.whole(0)), self.value(y), self.value(z))

    def keep_nan(self, x: Value, y: Value) -> Value:
        """y, but x where x is NaN."""
        return self.b.select(self.b.compare(CompareOp.UNO, x, x), x, y)

    def polynomial(self, x: Value, coefficients: Sequence[float], square: Value | None = None) -> Value:
        """Its value at x by Horner's rule, lowest coefficient first; with x² as `square`, of the even and of the odd powers
        apart, which halves the chain of operations that wait for each other."""
        if square is not None:
            odd, even = self.polynomials((square, coefficients[1::2]), (square, coefficients[::2]))
            return self.fma(odd, x, even)
        (result,) = self.polynomials((x, coefficients))
        return result

    def polynomials(self, *terms: tuple[Value, Sequence[float]]) -> tuple[Value, ...]:
        """The values of several polynomials, each at its x, by Horner's rule. Their steps take turns: one does not wait for another,
        and a processor looks only so far ahead for what it can begin."""
        results = [self.value(coefficients[-1]) for _, coefficients in terms]
        for step in range(2, max(len(coefficients) for _, coefficients in terms) + 1):
            for place, (x, coefficients) in enumerate(terms):
                if step <= len(coefficients):
                    results[place] = self.fma(results[place], x, coefficients[-step])
        return tuple(results)

    # --- bits ---

    def bits(self, x: Value) -> Value:
        """The pattern of a double as an i64."""
        return self.b.bitcast(x, Elem.I64)

    def number(self, x: Value) -> Value:
        """The double of a pattern."""
        return self.b.bitcast(x, Elem.F64)

    def whole(self, x: int) -> Value:
        """An i64 constant."""
        return self.b.const(Elem.I64, x, self.lanes)

    def integer(self, op: BinaryOp, x: Value, y: Value | int) -> Value:
        """An operation on i64."""
        return self.b.binary(op, x, y if isinstance(y, Value) else self.whole(y))

    def power_of_two(self, shifted: Value) -> Value:
        """2^k, −1023 < k < 1024, of `shifted` = MAGIC + k."""
        raised = self.integer(BinaryOp.SHL, self.bits(shifted), 52)
        return self.number(self.integer(BinaryOp.ADD, raised, ONE_BITS))

    def raised(self, x: Value, shifted: Value) -> Value:
        """x · 2^k, of `shifted` = MAGIC + k, where x and the product are normal: k is added to the exponent.

        Where x is NaN, `shifted` must be one that came from binary32, and its low bits are 0, so that x stays."""
        return self.number(self.integer(BinaryOp.ADD, self.bits(x), self.integer(BinaryOp.SHL, self.bits(shifted), 52)))

    def scaled(self, x: Value, shifted: Value) -> Value:
        """x · 2^k in two steps, of `shifted` = MAGIC + k, |k| < 2000: the last multiplication rounds, if anything."""
        half = self.fma(self.sub(shifted, MAGIC), 0.5, MAGIC)
        rest = self.add(self.sub(self.sub(shifted, MAGIC), self.sub(half, MAGIC)), MAGIC)
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(rest))

    def is_odd(self, shifted: Value) -> Value:
        """Whether k is odd, of an i64 that has k in its low bits."""
        return self.b.compare(CompareOp.NE, self.integer(BinaryOp.AND, shifted, 1), self.whole(0))

    # --- pairs ---

    def fast_two_sum(self, x: Value | float, y: Value) -> Pair:
        """x + y exactly, of |x| ≥ |y| or x = 0."""
        high = self.add(x, y)
        return Pair(high, self.sub(y, self.sub(high, x)))

    def two_sum(self, x: Value | float, y: Value | float) -> Pair:
        """x + y exactly."""
        high = self.add(x, y)
        part = self.sub(high, x)
        return Pair(high, self.add(self.sub(x, self.sub(high, part)), self.sub(y, part)))

    def two_product(self, x: Value | float, y: Value | float) -> Pair:
        """x · y exactly, short of underflow."""
        high = self.mul(x, y)
        return Pair(high, self.fma(x, y, self.neg(high)))

    def pair_product(self, x: Pair, y: Pair) -> Pair:
        """x · y, to about 2⁻¹⁰² of itself."""
        high, low = self.two_product(x.high, y.high)
        return Pair(high, self.fma(x.low, y.high, self.fma(x.high, y.low, low)))

    def pair_polynomial(self, x: Pair, coefficients: Sequence[tuple[float, float]], plain: int) -> Pair:
        """A polynomial's value, its `plain` highest coefficients by Horner's rule on the high parts alone."""
        result = Pair(self.polynomial(x.high, [high for high, _ in coefficients[-plain:]]), self.value(0.0))
        for high, low in coefficients[-plain - 1 :: -1]:
            product = self.pair_product(result, x)
            total = self.two_sum(high, product.high)
            result = self.fast_two_sum(total.high, self.add(self.add(product.low, low), total.low))
        return result

    def quotient(self, x: Pair, y: Pair) -> Pair:
        """x / y, to about 2⁻¹⁰⁰ of itself: a quotient of the high parts and its correction by the remainder. One division."""
        inverse = self.div(1.0, y.high)
        first = self.mul(x.high, inverse)
        rest = self.fma(self.neg(first), y.high, x.high)
        rest = self.fma(self.neg(first), y.low, self.add(rest, x.low))
        return Pair(first, self.mul(rest, inverse))
