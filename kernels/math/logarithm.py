"""The natural logarithm.

x = 2^k · m with √½ ≤ m < √2, and log x = k·ln 2 + log m. With f = m − 1 and s = f/(2 + f), log m = 2·atanh s = f − f²/2
+ s·(f²/2 + s²·p(s²)) with a polynomial p (the form of FreeBSD's msun). k·ln 2 + f is kept as an exact sum of two
numbers.
"""

from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import BinaryOp, CompareOp
from presk.kernels.math.coefficients import LN2_SPLIT, LOG_32, LOG_64
from presk.kernels.math.lanes import MAGIC, Lanes

_ROOT_HALF: Final = 0x3FE6A09E667F3BCD
_MAGIC_BITS: Final = 0x4338000000000000
_LEAST: Final = 2.0**-1022
_LIFT: Final = 54
_INFINITY: Final = float("inf")
_NAN: Final = float("nan")


def _log(v: Lanes, x: Value, lift: Value | None, coefficients: tuple[float, ...]) -> Value:
    """log x of positive, finite, normal x; `lift` is subtracted from k."""
    # k as an integer without a shift of negative numbers, which registers lack: of x·2^1024, so to speak.
    bits = v.bits(x)
    raised = v.integer(BinaryOp.ADD, v.integer(BinaryOp.SUB, bits, _ROOT_HALF), 1024 << 52)
    place = v.integer(BinaryOp.LSHR, raised, 52)
    k = v.sub(v.number(v.integer(BinaryOp.OR, place, _MAGIC_BITS)), MAGIC + 1024.0)
    if lift is not None:
        k = v.sub(k, lift)
    high = v.integer(BinaryOp.SHL, v.integer(BinaryOp.SUB, place, 1024), 52)
    f = v.sub(v.number(v.integer(BinaryOp.SUB, bits, high)), 1.0)
    s = v.div(f, v.add(f, 2.0))
    t = v.mul(s, s)
    half = v.mul(v.mul(f, f), 0.5)
    inner = v.mul(s, v.fma(t, v.polynomial(t, coefficients, v.mul(t, t)), half))
    main = v.fast_two_sum(v.mul(k, LN2_SPLIT[0]), f)
    rest = v.fma(k, LN2_SPLIT[1], v.fma(v.mul(f, -0.5), f, inner))
    return v.add(main.high, v.add(main.low, rest))


def special(b: Builder, x: Value, y: Value) -> Value:
    """y for positive finite x; log x elsewhere. In the type of x."""

    def constant(value: float) -> Value:
        return b.const(x.elem, value, x.lanes)

    y = b.select(b.compare(CompareOp.LT, x, constant(_INFINITY)), y, x)
    y = b.select(b.compare(CompareOp.GE, x, constant(0.0)), y, constant(_NAN))
    return b.select(b.compare(CompareOp.EQ, x, constant(0.0)), constant(-_INFINITY), y)


def log_32(v: Lanes, x: Value) -> Value:
    """log x, of a binary32 number that is positive and finite."""
    return _log(v, x, None, LOG_32)


def log_64(v: Lanes, x: Value) -> Value:
    """log x."""
    small = v.less(x, _LEAST)
    normal = v.select(small, v.mul(x, 2.0**_LIFT), x)
    return special(v.b, x, _log(v, normal, v.select(small, float(_LIFT), 0.0), LOG_64))
