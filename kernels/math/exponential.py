"""exp, tanh and the logistic function.

e^x = 2^k · e^r with k = x/ln 2 rounded and |r| ≤ ln 2/2 (Cody and Waite's reduction: with fma, x − k·fl(ln 2) is
exact); e^r = 1 + r + r²·q(r) with a polynomial q. 1 + r is taken as an exact sum of two numbers, so that the error
before the last rounding is about 2⁻⁵⁶ of the value. tanh x is m / (m + 2) with m = e^(2|x|) − 1, which does not cancel,
and the logistic function t / (1 + t) or 1 / (1 + t) with t = e^(−|x|), which keeps its left tail.

In binary32 the steps are those of binary64 with shorter polynomials, and the quotients are not corrected: rounding to
24 bits hides it. Nor can anything overflow in between, so that the logistic function is 1 / (1 + e⁻ˣ).
"""

from typing import NamedTuple

from presk.kernels.build import Builder, Value
from presk.kernels.ir import CompareOp, Elem
from presk.kernels.math.coefficients import EXP_32, EXP_64, INVERSE_LN2, LN2
from presk.kernels.math.lanes import MAGIC, Lanes, Pair


class Power(NamedTuple):
    """e^x = 2^k · (1 + r + rest), and `shifted` = MAGIC + k."""

    shifted: Value
    r: Value
    rest: Value


def reduced(v: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """MAGIC + k, k, and x − k·fl(ln 2), which is exact."""
    shifted = v.fma(x, INVERSE_LN2, MAGIC)
    k = v.sub(shifted, MAGIC)
    return shifted, k, v.fma(k, -LN2[0], x)


def _reduced_32(v: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """MAGIC + k, r and r²."""
    shifted, k, r = reduced(v, x)
    r = v.fma(k, -LN2[1], r)
    return shifted, r, v.mul(r, r)


def power_64(v: Lanes, x: Value, low: Value | None = None) -> Power:
    """e^(x + low) to about 2⁻⁵⁶ of itself, |x| < 1400; `low` is small against x."""
    shifted, k, first = reduced(v, x)
    left = None
    if low is not None:
        first, left = v.two_sum(first, low)
    r = v.fma(k, -LN2[1], first)
    rest = v.fma(k, -LN2[1], v.sub(first, r))
    if left is not None:
        rest = v.add(rest, left)
    square = v.mul(r, r)
    # e^(r + rest) = e^r + rest·(1 + r), short of what is below 2⁻⁵⁶.
    return Power(shifted, r, v.fma(square, v.polynomial(r, EXP_64, square), v.fma(rest, r, rest)))


def mantissa(v: Lanes, power: Power) -> Pair:
    """e^r as a pair."""
    one = v.fast_two_sum(1.0, power.r)
    return v.fast_two_sum(one.high, v.add(one.low, power.rest))


def rounded(v: Lanes, power: Power) -> Value:
    """e^r."""
    one = v.fast_two_sum(1.0, power.r)
    return v.add(one.high, v.add(one.low, power.rest))


def exp_32_within(v: Lanes, x: Value) -> Value:
    """e^x, −700 < x < 700, or x is a NaN of binary32."""
    shifted, r, square = _reduced_32(v, x)
    p = v.fma(square, v.polynomial(r, EXP_32, square), r)
    return v.raised(v.add(p, 1.0), shifted)


def joined(v: Lanes, pair: Pair) -> Value:
    """The sum of a pair."""
    return v.add(pair.high, pair.low)


def exp_32(v: Lanes, x: Value) -> Value:
    """e^x."""
    return exp_32_within(v, v.at_least(v.at_most(x, 89.5), -105.0))


def exp_32_of_negative(v: Lanes, x: Value) -> Value:
    """e^x, x ≤ 0, of a binary32 number as such: its bound takes half as many registers there."""
    return exp_32_within(v, v.b.convert(v.at_least(x, -105.0), Elem.F64))


def exp_64(v: Lanes, x: Value) -> Value:
    """e^x."""
    return exp_64_bounded(v, v.at_most(x, 710.0))


def exp_64_bounded(v: Lanes, x: Value) -> Value:
    """e^x, x ≤ 710."""
    power = power_64(v, v.at_least(x, -746.0))
    return v.keep_nan(x, v.scaled(rounded(v, power), power.shifted))


def tanh_32(v: Lanes, x: Value) -> Value:
    """tanh |x|."""
    a = v.at_most(v.abs(x), 10.0)
    shifted, r, square = _reduced_32(v, v.add(a, a))
    scale = v.power_of_two(shifted)
    m = v.fma(scale, v.fma(square, v.polynomial(r, EXP_32, square), r), v.sub(scale, 1.0))
    return v.div(m, v.add(m, 2.0))


def tanh_64(v: Lanes, x: Value) -> Value:
    """tanh x."""
    power = power_64(v, v.at_most(v.abs(v.add(x, x)), 40.0))
    scale = v.power_of_two(power.shifted)
    first = v.fast_two_sum(v.sub(scale, 1.0), v.mul(scale, power.r))
    m = v.fast_two_sum(first.high, v.fma(scale, power.rest, first.low))
    above = v.two_sum(2.0, m.high)
    return v.copysign(joined(v, v.quotient(m, Pair(above.high, v.add(above.low, m.low)))), x)


def sigmoid_32(v: Lanes, x: Value) -> Value:
    """1 / (1 + e⁻ˣ)."""
    t = exp_32_within(v, v.at_least(v.at_most(v.neg(x), 105.0), -105.0))
    return v.div(1.0, v.add(t, 1.0))


def sigmoid_special(b: Builder, x: Value, y: Value) -> Value:
    """y, of binary32, but near 0 the value ½ + x/4 − x³/48 as one fma.

    ½ + x/4 may be a tie, which the next term decides, and that is below the bits of binary64. To take a little less than a quarter
    of x decides it the same way: the product differs from x/4 by less than its last bit, as the value does, and ties
    are multiples of that bit.
    """

    def constant(value: float) -> Value:
        return b.const(Elem.F32, value, x.lanes)

    near = b.compare(CompareOp.LT, b.abs(x), constant(2.0**-12))
    return b.select(near, b.fma(x, constant(0.25 - 2.0**-26), constant(0.5)), y)


def sigmoid_64(v: Lanes, x: Value) -> Value:
    """1 / (1 + e⁻ˣ). The left tail is scaled behind the division, where it is subnormal."""
    power = power_64(v, v.at_least(v.neg(v.abs(x)), -746.0))
    m = mantissa(v, power)
    # Below −708 the power is no normal number, and 1 + t is 1 whatever t is.
    scale = v.power_of_two(v.at_least(power.shifted, MAGIC - 1000.0))
    below = v.fast_two_sum(1.0, v.mul(m.high, scale))
    left = v.less(x, 0.0)
    top = Pair(v.select(left, m.high, 1.0), v.select(left, m.low, 0.0))
    ratio = joined(v, v.quotient(top, Pair(below.high, v.fma(m.low, scale, below.low))))
    return v.keep_nan(x, v.scaled(ratio, v.select(left, power.shifted, MAGIC)))
