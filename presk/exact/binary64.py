"""Correctly rounded log and cos in binary64, for whole arrays, in the ranges that draws need.

A draw must be the same for ever on every machine, so nothing here depends on a C library: numpy contributes IEEE additions,
multiplications and roundings only. A value is evaluated in double-double arithmetic (about 100 bits: a table in steps of the
argument, then a short Taylor polynomial; Dekker 1971, Shewchuk 1997) and rounded; where the error of the evaluation leaves
the rounding open, MPFR decides at 53 bits. So the result is the correctly rounded one whatever the polynomial, as long as its
error stays below the bound, which is taken 2²⁰ times larger than the analysis gives.
"""

from collections.abc import Callable
from typing import Any, Final

import gmpy2
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Pair = tuple[Doubles, Doubles]

_BLOCK: Final = 4096  # elements evaluated at once: some thirty temporaries of 32 kB stay in the second-level cache
_MARGIN: Final = 2.0**-80  # the error that is allowed for, relative; the evaluations below err by less than 2⁻¹⁰⁰
_SPLITTER: Final = 134217729.0  # 2²⁷ + 1
_IEEE: Final = gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True)
_WIDE: Final = gmpy2.context(precision=300)

# --- double-double ----------------------------------------------------------------------------------------------------


def _two_sum(a: Doubles, b: Doubles) -> Pair:
    """a + b exactly."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _quick_two_sum(a: Doubles, b: Doubles) -> Pair:
    """a + b exactly, if |a| ≥ |b| or a is 0."""
    s = a + b
    return s, b - (s - a)


def _two_product(a: Doubles, b: Doubles) -> Pair:
    """a · b exactly, far from overflow and underflow."""
    p = a * b
    t = a * _SPLITTER
    a1 = t - (t - a)
    a2 = a - a1
    t = b * _SPLITTER
    b1 = t - (t - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _product(a: Pair, b: Pair) -> Pair:
    """a · b to about 2⁻¹⁰³."""
    p, e = _two_product(a[0], b[0])
    return _quick_two_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


def _sum(a: Pair, b: Pair) -> Pair:
    """a + b to about 2⁻¹⁰³, also where they cancel."""
    s, e = _two_sum(a[0], b[0])
    t, f = _two_sum(a[1], b[1])
    s, e = _quick_two_sum(s, e + t)
    return _quick_two_sum(s, e + f)


# --- constants, from MPFR ---------------------------------------------------------------------------------------------


def _parts(value: object, *, bits: tuple[int, ...]) -> tuple[float, ...]:
    """A number as a sum of doubles, each the remainder rounded to so many bits."""
    rest = value
    found = []
    for size in bits:
        part = gmpy2.mpfr(rest, size)
        found.append(float(part))
        rest = _WIDE.sub(rest, part)
    return tuple(found)


def _pairs(values: list[object]) -> Pair:
    """Numbers as double-doubles."""
    parts = [_parts(value, bits=(53, 53)) for value in values]
    return np.array([p[0] for p in parts]), np.array([p[1] for p in parts])


def _ratio(numerator: int, denominator: int) -> Pair:
    """A rational number as a double-double, to be broadcast."""
    return _pairs([_WIDE.div(numerator, denominator)])


_LOG_STEPS: Final = 256
_LOG_FIRST: Final = 181  # ⌊256·√½⌋; the table goes on to ⌈256·√2⌉ = 363
_INVERSES: Final = np.rint(_LOG_STEPS**2 / np.arange(_LOG_FIRST, 364)) / _LOG_STEPS
"""For m near i/256 a number of at most ten bits near 1/m, which is 1 for i = 256."""

_LOG_TABLE: Final = _pairs([_WIDE.minus(_WIDE.log(gmpy2.mpfr(c))) for c in _INVERSES.tolist()])
_LOG2: Final = _parts(_WIDE.log(2), bits=(45, 45, 53))  # times an exponent of eight bits: exact in the first two
_LOG_HEAD: Final = tuple(_ratio((-1) ** (k + 1), k) for k in range(1, 8))
_LOG_TAIL: Final = tuple((-1) ** (k + 1) / k for k in range(8, 15))

_COS_STEPS: Final = 64  # of π
_PI: Final = _WIDE.acos(-1)
_STEP: Final = _parts(_WIDE.div(_PI, _COS_STEPS), bits=(40, 40, 53))
_ANGLES: Final = [_WIDE.div(_WIDE.mul(_PI, j), _COS_STEPS) for j in range(2 * _COS_STEPS + 1)]
# Quarter turns are exact; MPFR's cosine of a rounded π/2 is some 2⁻³⁰⁰.
_COS_TABLE: Final = _pairs([_WIDE.cos(a) if j % 64 != 32 else 0 for j, a in enumerate(_ANGLES)])
_SIN_TABLE: Final = _pairs([_WIDE.sin(a) if j % 64 != 0 else 0 for j, a in enumerate(_ANGLES)])


def _factorial_ratio(n: int) -> Pair:
    """±1/n!, negative for n = 2, 3, 6, 7, …"""
    return _ratio(-1 if n % 4 in (2, 3) else 1, int(gmpy2.fac(n)))


_COS_HEAD: Final = tuple(_factorial_ratio(n) for n in (2, 4, 6, 8))
_COS_TAIL: Final = tuple(float(_factorial_ratio(n)[0][0]) for n in (10, 12, 14, 16))
_SIN_HEAD: Final = tuple(_factorial_ratio(n) for n in (1, 3, 5, 7, 9))
_SIN_TAIL: Final = tuple(float(_factorial_ratio(n)[0][0]) for n in (11, 13, 15, 17))


def _polynomial(x: Pair, head: tuple[Pair, ...], tail: tuple[float, ...]) -> Pair:
    """Σ head[i]·xⁱ + Σ tail[i]·xⁿ⁺ⁱ: the tail, which hardly matters, in double, the head in double-double."""
    low = np.full_like(x[0], tail[-1])
    for coefficient in tail[-2::-1]:
        low = low * x[0] + coefficient
    value: Pair = (low, np.zeros_like(low))
    for pair in reversed(head):
        value = _sum(_product(value, x), pair)
    return value


# --- the functions ----------------------------------------------------------------------------------------------------


def _log_pair(x: Doubles) -> Pair:
    """log x for x in [2⁻⁶⁴, 2⁶⁴], to about 2⁻¹⁰⁰ of itself."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < 0.7071067811865476
    m = np.where(low, 2 * mantissa, mantissa)
    e = (exponent - low).astype(np.float64)
    place = np.rint(m * _LOG_STEPS).astype(np.int64) - _LOG_FIRST
    # m·c − 1 exactly: m·c lies within 1/128 of 1. Where the table's entry is c = 1 the logarithm of m is all there is, and
    # nothing cancels; elsewhere |log x| > 1/600.
    p, rest = _two_product(m, _INVERSES[place])
    r = _two_sum(p - 1.0, rest)
    series = _product(r, _polynomial(r, _LOG_HEAD, _LOG_TAIL))
    value = _sum((_LOG_TABLE[0][place], _LOG_TABLE[1][place]), series)
    value = _sum((e * _LOG2[1], e * _LOG2[2]), value)
    return _sum((e * _LOG2[0], np.zeros_like(e)), value)


def _cos_pair(x: Doubles) -> Pair:
    """cos x for x in [0, 2π], to about 2⁻¹⁰⁰ of itself unless x is within 2⁻²⁰ of a zero."""
    j = np.rint(x * (_COS_STEPS / np.pi))
    place = j.astype(np.int64)
    first = _two_sum(x, -(j * _STEP[0]))
    second = _sum(first, (-(j * _STEP[1]), np.zeros_like(j)))
    r = _sum(second, (-(j * _STEP[2]), np.zeros_like(j)))
    square = _product(r, r)
    # cos r − 1 and sin r, |r| ≤ π/128
    c = _product(square, _polynomial(square, _COS_HEAD, _COS_TAIL))
    s = _product(r, _polynomial(square, _SIN_HEAD, _SIN_TAIL))
    big_c = (_COS_TABLE[0][place], _COS_TABLE[1][place])
    big_s = (-_SIN_TABLE[0][place], -_SIN_TABLE[1][place])
    return _sum(big_c, _sum(_product(big_c, c), _product(big_s, s)))


def _rounded(x: Doubles, pair: Callable[[Doubles], Pair], exact: Callable[[Any], Any], open_below: float) -> Doubles:
    """The values rounded; those of size below `open_below`, and those that are not decided, by MPFR."""
    result = np.empty_like(x)
    for start in range(0, len(x), _BLOCK):
        block = x[start : start + _BLOCK]
        high, low = pair(block)
        error = np.abs(high) * _MARGIN
        value = high + low
        undecided = (high + (low - error) != high + (low + error)) | (np.abs(high) < open_below)
        for place in np.flatnonzero(undecided).tolist():
            value[place] = float(exact(gmpy2.mpfr(float(block[place]), 53)))
        result[start : start + _BLOCK] = value
    return result


def log(x: Doubles) -> Doubles:
    """The correctly rounded natural logarithm of a flat array of doubles in [2⁻⁶⁴, 2⁶⁴]."""
    return _rounded(x, _log_pair, _IEEE.log, 2.0**-60)


def cos(x: Doubles) -> Doubles:
    """The correctly rounded cosine of a flat array of doubles in [0, 2π]."""
    return _rounded(x, _cos_pair, _IEEE.cos, 2.0**-20)
