"""sin and cos.

Below a bound the argument is reduced by Cody and Waite's method (a − k·fl(π) is exact with fma, since both are
multiples of one small power of two and the difference is small); from there on by Payne and Hanek's: of the bits of 1/π
those are taken, by selects and shifts, whose product with the argument's integer mantissa is neither a multiple of a
whole turn nor too small to matter, and multiplied as integers. Both are computed in every lane. Both give all bits that
the rounding needs: no binary32 number comes nearer to a multiple of π/2 than about 2⁻³⁰, no binary64 number than about
2⁻⁶¹.

In binary32 the rest r = a − n·π lies within ±π/2 and one polynomial gives sin r; for cos, n is an integer and a half.
In binary64 it is taken from multiples of π/2 as a pair, and the two polynomials of fdlibm's form keep the error below
one unit in the last place.
"""

from typing import Final, NamedTuple

from presk.kernels.build import Value
from presk.kernels.ir import BinaryOp, CompareOp
from presk.kernels.math.coefficients import (
    COS_64,
    HALF_PI,
    INVERSE_PI,
    INVERSE_PI_BITS,
    PI,
    SIN_32,
    SIN_64,
    TWO_OVER_PI,
    TWO_OVER_PI_BITS,
)
from presk.kernels.math.lanes import MAGIC, Lanes, Pair

_MASK: Final = (1 << 32) - 1
_TWO_52: Final = 0x4330000000000000  # the pattern of 2⁵²: with an integer below 2³² in its low bits, 2⁵² + the integer
_TWO_84: Final = 0x4530000000000000  # of 2⁸⁴: likewise, 2⁸⁴ + the integer · 2³²
_SIGN: Final = 1 << 63
_BOUND_32: Final = 2.0**23
_BOUND_64: Final = 2.0**21


class Rest(NamedTuple):
    """What is left of an argument, and an i64 whose low bits are the number that was taken away."""

    high: Value
    low: Value | None
    number: Value


def _both(v: Lanes, far: Value, x: Rest, y: Rest) -> Rest:
    """x in lanes that are far, y in the others."""
    low = None if x.low is None or y.low is None else v.b.select(far, x.low, y.low)
    return Rest(v.b.select(far, x.high, y.high), low, v.b.select(far, x.number, y.number))


# --- bits of 1/π -------------------------------------------------------------------------------------------------------------------


def _window(v: Lanes, start: Value, words: tuple[int, ...], steps: int, count: int) -> list[Value]:
    """`count` words of 64 bits from bit `start` < 64·2^steps on, as chunks of 32 bits in i64."""
    kept: list[Value] = [v.whole(word) for word in words[: count + 1 + (1 << steps) - 1]]
    for step in reversed(range(steps)):
        needed = count + 1 + (1 << step) - 1
        bit = v.integer(BinaryOp.AND, start, 64 << step)
        here = v.b.compare(CompareOp.EQ, bit, v.whole(0))
        kept = [v.b.select(here, kept[place], kept[place + (1 << step)]) for place in range(needed)]
    left = v.integer(BinaryOp.AND, start, 63)
    right = v.integer(BinaryOp.XOR, left, 63)
    chunks = []
    for place in range(count):
        low = v.integer(BinaryOp.LSHR, v.integer(BinaryOp.LSHR, kept[place + 1], 1), right)
        word = v.integer(BinaryOp.OR, v.integer(BinaryOp.SHL, kept[place], left), low)
        chunks += [v.integer(BinaryOp.LSHR, word, 32), v.integer(BinaryOp.AND, word, _MASK)]
    return chunks


def _unsigned(v: Lanes, x: Value) -> Value:
    """An i64 below 2³² as a double."""
    return v.sub(v.number(v.integer(BinaryOp.OR, x, _TWO_52)), 2.0**52)


def _signed(v: Lanes, x: Value) -> Pair:
    """An i64 as a multiple of 2³² and a number below 2³²."""
    upper = v.integer(BinaryOp.LSHR, v.integer(BinaryOp.XOR, x, _SIGN), 32)
    high = v.sub(v.number(v.integer(BinaryOp.OR, upper, _TWO_84)), 2.0**84 + 2.0**63)
    return Pair(high, _unsigned(v, v.integer(BinaryOp.AND, x, _MASK)))


# --- binary32 ----------------------------------------------------------------------------------------------------------------------


def _near_32(v: Lanes, a: Value, offset: float) -> Rest:
    """a − (k + offset)·π, a < 2²³."""
    if offset:
        shifted = v.add(v.fma(a, INVERSE_PI, -offset), MAGIC)
        n = v.add(v.sub(shifted, MAGIC), offset)
    else:
        shifted = v.fma(a, INVERSE_PI, MAGIC)
        n = v.sub(shifted, MAGIC)
    return Rest(v.fma(n, -PI[1], v.fma(n, -PI[0], a)), None, v.bits(shifted))


def _far_32(v: Lanes, a: Value, offset: float) -> Rest:
    """a − (k + offset)·π, of a binary32 number a ≥ 2²³; NaN of ∞."""
    bits = v.bits(a)
    start = v.integer(BinaryOp.SUB, v.integer(BinaryOp.LSHR, bits, 52), 1023 + 23)
    m = v.integer(BinaryOp.AND, v.integer(BinaryOp.LSHR, bits, 29), (1 << 23) - 1)
    m = v.integer(BinaryOp.OR, m, 1 << 23)
    chunks = _window(v, start, INVERSE_PI_BITS, 1, 2)
    first, second, third, fourth = (v.integer(BinaryOp.MUL, chunk, m) for chunk in chunks)
    third = v.integer(BinaryOp.ADD, third, v.integer(BinaryOp.LSHR, fourth, 32))
    top = v.integer(BinaryOp.ADD, v.integer(BinaryOp.SHL, first, 32), second)
    top = v.integer(BinaryOp.ADD, top, v.integer(BinaryOp.LSHR, third, 32))
    # `top` counts 2⁻⁶³ modulo 2. The nearest integer is that of the rest within ±½.
    if offset:
        top = v.integer(BinaryOp.SUB, top, 1 << 62)
    count = v.integer(BinaryOp.LSHR, v.integer(BinaryOp.ADD, top, 1 << 62), 63)
    high, low = _signed(v, v.integer(BinaryOp.SHL, top, 1))
    # The third chunk counts 2⁻⁹⁵, `high` and `low` 2⁻⁶⁴. a·0 is NaN of ∞ and 0 else.
    below = v.fma(_unsigned(v, v.integer(BinaryOp.AND, third, _MASK)), 2.0**-31, v.fma(a, 0.0, low))
    unit = 2.0**-64
    r = v.fma(high, PI[0] * unit, v.fma(below, PI[0] * unit, v.mul(high, PI[1] * unit)))
    return Rest(r, None, count)


def _turn_32(v: Lanes, a: Value, offset: float) -> tuple[Value, Value]:
    """sin of a − (k + offset)·π, and the sign bit of (−1)^k."""
    far = v.b.compare(CompareOp.GE, a, v.value(_BOUND_32))
    r, _, count = _both(v, far, _far_32(v, a, offset), _near_32(v, a, offset))
    z = v.mul(r, r)
    return v.fma(v.mul(r, z), v.polynomial(z, SIN_32, v.mul(z, z)), r), v.integer(BinaryOp.SHL, count, 63)


def _signed_by(v: Lanes, x: Value, sign: Value) -> Value:
    """x, its sign bit changed where `sign` has it."""
    return v.number(v.integer(BinaryOp.XOR, v.bits(x), sign))


def sin_32(v: Lanes, x: Value) -> Value:
    """sin x, of a binary32 number."""
    y, sign = _turn_32(v, v.abs(x), 0.0)
    return _signed_by(v, y, v.integer(BinaryOp.XOR, sign, v.integer(BinaryOp.AND, v.bits(x), _SIGN)))


def cos_32(v: Lanes, x: Value) -> Value:
    """cos x, of a binary32 number: cos(r + (k + ½)·π) = −(−1)^k · sin r."""
    y, sign = _turn_32(v, v.abs(x), 0.5)
    return _signed_by(v, y, v.integer(BinaryOp.XOR, sign, _SIGN))


# --- binary64 ----------------------------------------------------------------------------------------------------------------------


def _near_64(v: Lanes, a: Value) -> Rest:
    """a − k·π/2, a < 2²¹."""
    shifted = v.fma(a, TWO_OVER_PI, MAGIC)
    k = v.sub(shifted, MAGIC)
    first = v.fma(k, -HALF_PI[0], a)
    part = v.two_product(k, -HALF_PI[1])
    high, left = v.two_sum(first, part.high)
    low = v.fma(k, -HALF_PI[2], v.add(left, part.low))
    high, low = v.fast_two_sum(high, low)
    return Rest(high, low, v.bits(shifted))


def _far_64(v: Lanes, a: Value) -> Rest:
    """a − k·π/2, a ≥ 2²¹; NaN of ∞."""
    bits = v.bits(a)
    start = v.integer(BinaryOp.SUB, v.integer(BinaryOp.LSHR, bits, 52), 1023 + 52 - 32)
    low = v.integer(BinaryOp.AND, bits, _MASK)
    high = v.integer(BinaryOp.AND, v.integer(BinaryOp.LSHR, bits, 32), (1 << 20) - 1)
    high = v.integer(BinaryOp.OR, high, 1 << 20)
    chunks = _window(v, start, TWO_OVER_PI_BITS, 4, 3)
    lower = [v.integer(BinaryOp.MUL, chunk, low) for chunk in chunks]
    total = v.integer(BinaryOp.LSHR, lower[5], 32)
    columns: list[Value] = []
    for place in (4, 3, 2, 1, 0):
        # The column's own products, and what the one below carries into it: below 2⁵⁵.
        product = v.integer(BinaryOp.MUL, chunks[place + 1], high)
        total = v.integer(BinaryOp.ADD, total, product)
        total = v.integer(BinaryOp.ADD, total, v.integer(BinaryOp.AND, lower[place], _MASK))
        columns.insert(0, v.integer(BinaryOp.AND, total, _MASK))
        carried = v.integer(BinaryOp.LSHR, total, 32)
        total = v.integer(BinaryOp.ADD, carried, v.integer(BinaryOp.LSHR, lower[place], 32))
    top = v.integer(BinaryOp.OR, v.integer(BinaryOp.SHL, columns[0], 32), columns[1])
    # `top` counts 2⁻⁶² modulo 4. The nearest integer is that of the rest within ±½.
    count = v.integer(BinaryOp.LSHR, v.integer(BinaryOp.ADD, top, 1 << 61), 62)
    fraction = v.integer(BinaryOp.SHL, top, 2)
    fraction = v.integer(BinaryOp.OR, fraction, v.integer(BinaryOp.LSHR, columns[2], 30))
    third = v.integer(BinaryOp.AND, columns[2], (1 << 30) - 1)
    # The fraction counts 2⁻⁶⁴, the rest of the third column 2⁻⁹⁴, the fourth 2⁻¹²⁶. a·0 is NaN of ∞ and 0 else.
    leading = v.fast_two_sum(*_signed(v, fraction))
    below = v.fma(_unsigned(v, columns[3]), 2.0**-62, v.mul(_unsigned(v, third), 2.0**-30))
    turns = v.fast_two_sum(leading.high, v.add(leading.low, v.fma(a, 0.0, below)))
    unit = 2.0**-64
    scaled = v.two_product(turns.high, HALF_PI[0] * unit)
    rest = v.fma(turns.high, HALF_PI[1] * unit, v.fma(turns.low, HALF_PI[0] * unit, scaled.low))
    r, left = v.fast_two_sum(scaled.high, rest)
    return Rest(r, left, count)


def _quarter(v: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """Of |x| = r + k·π/2: sin r, cos r, and k in the low bits of an i64."""
    a = v.abs(x)
    far = v.b.compare(CompareOp.GE, a, v.value(_BOUND_64))
    r, low, count = _both(v, far, _far_64(v, a), _near_64(v, a))
    assert low is not None
    z = v.mul(r, r)
    # sin(r + low) = r + (low·(1 − r²/2) + r³·s), cos(r + low) = 1 − r²/2 + (r⁴·c − r·low).
    half = v.mul(z, 0.5)
    part = v.fma(v.neg(low), half, low)
    sin = v.add(r, v.fma(v.mul(r, z), v.polynomial(z, SIN_64), part))
    first = v.sub(1.0, half)
    left = v.sub(v.sub(1.0, first), half)
    cos = v.add(first, v.add(left, v.fma(v.mul(z, z), v.polynomial(z, COS_64), v.neg(v.mul(r, low)))))
    return sin, cos, count


def _chosen(v: Lanes, x: Value, y: Value, count: Value) -> Value:
    """y where k is odd, else x, with the sign of (−1)^(k div 2)."""
    chosen = v.b.select(v.is_odd(count), y, x)
    return _signed_by(v, chosen, v.integer(BinaryOp.SHL, v.integer(BinaryOp.LSHR, count, 1), 63))


def sin_64(v: Lanes, x: Value) -> Value:
    """sin x."""
    sin, cos, count = _quarter(v, x)
    return _signed_by(v, _chosen(v, sin, cos, count), v.integer(BinaryOp.AND, v.bits(x), _SIGN))


def cos_64(v: Lanes, x: Value) -> Value:
    """cos x: sin(x + π/2)."""
    sin, cos, count = _quarter(v, x)
    return _chosen(v, sin, cos, v.integer(BinaryOp.ADD, count, 1))
