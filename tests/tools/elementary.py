"""The elementary functions of the elementwise primitives, correctly rounded to binary32 or binary64 by MPFR.

MPFR rounds once, at the type's precision and exponent range, subnormals included. The functions that it does not have
(the logistic function, gelu and its derivative) are evaluated by `presk.exact.ziv` until the rounding at the bits that
the result has is decided. At the points where a function has no finite argument or value the rules of the contract
stand: limits at infinities, NaN outside of the domain.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

import gmpy2

from presk.exact import ziv
from presk.kernels.ir import Elem

GUARD: Final = 256
"""Bits of a value that is compared with an approximation."""

_CONTEXTS: Final = MappingProxyType(
    {
        Elem.F32: gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True),
        Elem.F64: gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True),
    }
)
_LEAST: Final = MappingProxyType({Elem.F32: 149, Elem.F64: 1074})
_PRECISION: Final = MappingProxyType({Elem.F32: 24, Elem.F64: 53})

Approximate = Callable[[Sequence[Any], int], tuple[list[Any], list[int]]]

_NATIVE: Final = MappingProxyType(
    {
        "exp": gmpy2.exp,
        "tanh": gmpy2.tanh,
        "log": gmpy2.log,
        "sin": gmpy2.sin,
        "cos": gmpy2.cos,
        "erf": gmpy2.erf,
    }
)
_COMPOSED: Final[MappingProxyType[str, Approximate]] = MappingProxyType(
    {"sigmoid": ziv.sigmoid, "gelu": ziv.gelu, "gelu'": ziv.gelu_derivative}
)
_LIMITS: Final = MappingProxyType({"sigmoid": (0.0, 1.0), "gelu": (-0.0, math.inf), "gelu'": (-0.0, 1.0)})
"""At −∞ and ∞."""

_FAR: Final = MappingProxyType({"sigmoid": 1000.0, "gelu": 64.0, "gelu'": 64.0})
"""The size of arguments beyond which the tail is below a quarter of the least number, and of the last bit of 1."""

_NEAR: Final = 2.0**-60
_AT_ZERO: Final = MappingProxyType({"sigmoid": 0.5, "gelu'": 0.5})


def value(name: str, x: float) -> Any:
    """f(x) with `GUARD` bits, of a finite x that is not 0, in MPFR's full range of exponents."""
    with gmpy2.context(precision=GUARD, emin=-(1 << 30), emax=1 << 30):
        if name in _NATIVE:
            return _NATIVE[name](gmpy2.mpfr(x))
        return _COMPOSED[name]([gmpy2.mpfr(x)], GUARD + 64)[0][0]


def rounded(name: str, x: float, elem: Elem) -> float:
    """f(x) rounded to the type, of an x of the type."""
    if name in _NATIVE:
        with gmpy2.context(_CONTEXTS[elem]):
            return float(_NATIVE[name](gmpy2.mpfr(x)))
    if x != x:
        return x
    if math.isinf(x):
        return _LIMITS[name][x > 0]
    if x == 0 or (name in _AT_ZERO and abs(x) < _NEAR):
        return _AT_ZERO.get(name, x)
    if abs(x) > _FAR[name]:
        return _beyond(name, x)
    first = value(name, x)
    bits = min(gmpy2.get_exp(first) + _LEAST[elem], _PRECISION[elem])
    if bits >= 2:
        with gmpy2.context(precision=GUARD, emin=-(1 << 30), emax=1 << 30):
            return float(ziv.settle(_COMPOSED[name], [gmpy2.mpfr(x)], bits)[0])
    # The least numbers: the nearest multiple of the least one, which `GUARD` bits decide.
    multiple = math.floor(Fraction(*map(int, first.as_integer_ratio())) * 2 ** _LEAST[elem] + Fraction(1, 2))
    return math.copysign(math.ldexp(abs(multiple), -_LEAST[elem]), first)


def _beyond(name: str, x: float) -> float:
    """The value beyond `_FAR`."""
    if x < 0:
        return _LIMITS[name][0]
    return x if name == "gelu" else 1.0


def ulps(name: str, x: float, y: float) -> float:
    """How far y is from f(x), in units of the last place of binary64 at f(x), which is finite."""
    exact = value(name, x) if name in _NATIVE or abs(x) <= _FAR[name] else gmpy2.mpfr(_beyond(name, x))
    exponent = max(gmpy2.get_exp(exact) - 53, -1074) if exact != 0 else -1074
    with gmpy2.context(precision=GUARD, emin=-(1 << 30), emax=1 << 30):
        return float(abs(exact - gmpy2.mpfr(y)) * gmpy2.exp2(-exponent))
