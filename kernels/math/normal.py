"""erf, gelu(x) = x·Φ(x), and the derivative of gelu.

The left tail Φ(−a) = e^(−a²/2) · g(a), a ≥ 0, keeps its bits; Φ(a) = 1 − Φ(−a) loses none, since the tail is at most ½.
The derivative is Φ(−a) − a·φ(a) = e^(−a²/2) · (a₀ − a) · h(a) at x = −a and one minus that at a: it has a zero at −a₀
near −0.75, which stands as a factor so that the values around it keep their bits. erf x is x·p(x²) near 0 and
1 − 2·Φ(−√2·x) elsewhere.

In binary32 a²/2 is exact in binary64, and g and h are quotients of polynomials with positive coefficients. In binary64
a²/2 is a pair, g(a)·(a + C) and h(a) are polynomials in t = (a − C)/(a + C), which maps the half-line to an interval (as
Shepherd and Laframboise do for erfc, Math. Comp. 36, 1981), and t and the lower coefficients are pairs.
"""

from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import BinaryOp
from presk.kernels.math.coefficients import (
    CENTRE,
    ERF_32,
    ERF_64,
    ERF_64_LOW,
    EXP_32,
    INVERSE_LN2,
    LN2,
    ROOT_2,
    SLOPE_32,
    SLOPE_32_BELOW,
    SLOPE_64,
    TAIL_32,
    TAIL_32_BELOW,
    TAIL_64,
    TURN,
)
from presk.kernels.math.exponential import exp_32_within, joined, mantissa, power_64
from presk.kernels.math.lanes import MAGIC, Lanes, Pair

_FAR_32: Final = 15.0
_FAR_64: Final = 39.5
_PLAIN: Final = 22
"""Coefficients without a low part: with 23 errors grow to 0.84 units in the last place, with 24 beyond one."""

_SMALL: Final = 0.7
_NUDGE: Final = 2.0**-175


# --- binary32 ----------------------------------------------------------------------------------------------------------------------


_HALF_DOWN: Final = tuple(-0.5 * (-0.5) ** place * coefficient for place, coefficient in enumerate(EXP_32))
"""Of −q(−s/2)/2, where q is EXP_32's polynomial."""


def _bell_32(v: Lanes, a: Value) -> Value:
    """2·e^(−a²/2), a ≤ 15 with a² exact: the steps of the exponential at −a²/2, with s = −2r, so that a² need not be halved."""
    square = v.mul(a, a)
    shifted = v.fma(square, -0.5 * INVERSE_LN2, MAGIC)
    k = v.sub(shifted, MAGIC)
    s = v.fma(k, 2.0 * LN2[1], v.fma(k, 2.0 * LN2[0], square))
    z = v.mul(s, s)
    return v.raised(v.sub(2.0, v.fma(z, v.polynomial(s, _HALF_DOWN, z), s)), shifted)


def _quotient_32(v: Lanes, a: Value, factor: Value, above: tuple[float, ...], below: tuple[float, ...]) -> Value:
    """factor · above(a) / below(a). All coefficients are positive, so neither polynomial loses anything."""
    top, bottom = v.polynomials((a, above), (a, below))
    return v.div(v.mul(factor, top), bottom)


def _halved(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(0.5 * coefficient for coefficient in coefficients)


def _reflected(v: Lanes, x: Value, y: Value) -> Value:
    """1 − y where x > 0, else y; either at 0, where y is ½."""
    return v.by_sign(x, y, v.sub(1.0, y))


def gelu_32(v: Lanes, x: Value) -> Value:
    """x·Φ(x), without the sign of 0."""
    kept = v.at_least(x, -_FAR_32)
    a = v.at_most(v.abs(kept), _FAR_32)
    tail = _quotient_32(v, a, _bell_32(v, a), _halved(TAIL_32), TAIL_32_BELOW)
    # As `_reflected`, of a tail that is not negative.
    phi = v.abs(v.sub(v.select(v.less(0.0, kept), 1.0, 0.0), tail))
    # At arguments below 2⁻¹²⁵ the value is x/2 and a little more, and x/2 may be a tie of binary32: the addition decides it.
    return v.fma(kept, phi, _NUDGE)


def signed(b: Builder, x: Value, y: Value) -> Value:
    """y with the sign of x, in the type of x."""
    return b.binary(BinaryOp.COPYSIGN, y, x)


def gelu_derivative_32(v: Lanes, x: Value) -> Value:
    """Φ(x) + x·φ(x)."""
    kept = v.at_least(v.at_most(x, _FAR_32), -_FAR_32)
    a = v.abs(kept)
    distance = v.add(v.sub(TURN[0], a), TURN[1])
    return _reflected(v, kept, _quotient_32(v, a, v.mul(_bell_32(v, a), distance), _halved(SLOPE_32), SLOPE_32_BELOW))


def erf_32(v: Lanes, x: Value) -> Value:
    """erf |x|."""
    a = v.at_most(v.abs(x), 6.0)
    z = v.mul(a, a)
    near = v.mul(a, v.polynomial(z, ERF_32))
    bell = exp_32_within(v, v.neg(z))
    tail = _quotient_32(v, v.mul(a, ROOT_2[0]), bell, TAIL_32, TAIL_32_BELOW)
    far = v.fma(tail, -2.0, 1.0)
    return v.select(v.less(a, _SMALL), near, far)


# --- binary64 ----------------------------------------------------------------------------------------------------------------------


def _place_64(v: Lanes, a: Pair) -> tuple[Pair, Pair]:
    """t and a + C."""
    below = v.two_sum(a.high, CENTRE)
    below = v.fast_two_sum(below.high, v.add(below.low, a.low))
    above = v.two_sum(a.high, -CENTRE)
    above = v.fast_two_sum(above.high, v.add(above.low, a.low))
    return v.quotient(above, below), below


def _bell_64(v: Lanes, a: Value) -> tuple[Pair, Value]:
    """e^(−a²/2) = 2^k · pair, and MAGIC + k."""
    square = v.two_product(v.mul(a, -0.5), a)
    power = power_64(v, square.high, square.low)
    return mantissa(v, power), power.shifted


def _tail_64(v: Lanes, a: Pair, bell: Pair) -> Pair:
    """g(a) · bell."""
    t, below = _place_64(v, a)
    return v.quotient(v.pair_product(bell, v.pair_polynomial(t, TAIL_64, _PLAIN)), below)


def _one_minus(v: Lanes, x: Pair, shifted: Value) -> Pair:
    """1 − 2^k · x, where that is at least ½; below k = −1000 it is 1."""
    scale = v.power_of_two(v.at_least(shifted, MAGIC - 1000.0))
    first = v.fast_two_sum(1.0, v.neg(v.mul(x.high, scale)))
    return Pair(first.high, v.fma(v.neg(x.low), scale, first.low))


def _either(v: Lanes, right: Value, x: Pair, y: Pair) -> Pair:
    """x where `right` holds, else y."""
    return Pair(v.b.select(right, x.high, y.high), v.b.select(right, x.low, y.low))


def gelu_64(v: Lanes, x: Value) -> Value:
    """x·Φ(x)."""
    a = v.at_most(v.abs(x), _FAR_64)
    bell, shifted = _bell_64(v, a)
    tail = _tail_64(v, Pair(a, v.value(0.0)), bell)
    right = v.less(0.0, x)
    phi = _either(v, right, _one_minus(v, tail, shifted), tail)
    kept = v.at_least(x, -_FAR_64)
    y = v.scaled(v.fma(kept, phi.high, v.mul(kept, phi.low)), v.select(right, MAGIC, shifted))
    return v.copysign(v.select(v.less(_FAR_64, x), x, y), x)


def gelu_derivative_64(v: Lanes, x: Value) -> Value:
    """Φ(x) + x·φ(x)."""
    a = v.at_most(v.abs(x), _FAR_64)
    bell, shifted = _bell_64(v, a)
    t, _ = _place_64(v, Pair(a, v.value(0.0)))
    distance = v.two_sum(TURN[0], v.neg(a))
    distance = v.fast_two_sum(distance.high, v.add(distance.low, TURN[1]))
    slope = v.pair_product(v.pair_product(bell, distance), v.pair_polynomial(t, SLOPE_64, _PLAIN))
    right = v.less(0.0, x)
    value = _either(v, right, _one_minus(v, slope, shifted), slope)
    return v.scaled(joined(v, value), v.select(right, MAGIC, shifted))


def erf_64(v: Lanes, x: Value) -> Value:
    """erf x."""
    a = v.at_most(v.abs(x), 6.0)
    square = v.two_product(a, a)
    rest = v.fma(v.mul(a, square.high), v.polynomial(square.high, ERF_64[1:]), v.mul(a, ERF_64_LOW))
    near = v.fma(a, ERF_64[0], rest)
    power = power_64(v, v.neg(square.high), v.neg(square.low))
    scaled = v.two_product(a, ROOT_2[0])
    wide = Pair(scaled.high, v.fma(a, ROOT_2[1], scaled.low))
    tail = _tail_64(v, wide, mantissa(v, power))
    # Twice the tail is one more in the exponent.
    far = joined(v, _one_minus(v, tail, v.add(power.shifted, 1.0)))
    return v.copysign(v.select(v.less(a, _SMALL), near, far), x)
