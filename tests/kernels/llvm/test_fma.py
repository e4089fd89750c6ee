"""The multiply-add that rounds once, on levels without an instruction for it: MPFR's bits at the places where it is hard."""

from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest

from presk.kernels.ir import Elem
from presk.kernels.targets import X86_64
from tests.kernels.llvm.support import RUNNABLE, bits, computed, same

FORMATS: dict[Elem, tuple[Any, int, int, int]] = {
    Elem.F32: (np.float32, 24, -148, 128),
    Elem.F64: (np.float64, 53, -1073, 1024),
}


def reference(elem, x, y, z):
    """MPFR's multiply-add in the format."""
    dtype, precision, least, most = FORMATS[elem]
    context = gmpy2.context(precision=precision, emin=least, emax=most, subnormalize=True)
    return np.array([float(context.fma(float(a), float(b), float(c))) for a, b, c in zip(x, y, z)]).astype(dtype)


def fma(elem, x, y, z, lanes, level):
    return computed(lambda b, x, y, z: b.fma(x, y, z), [x, y, z], [elem] * 3, elem, lanes, level)


def scaled(rng, elem, size, low, high):
    """Random numbers of random sign with exponents from `low` to `high`; below the least normal number they lose bits."""
    dtype = FORMATS[elem][0]
    with np.errstate(under="ignore", over="ignore"):
        return np.ldexp(rng.uniform(1, 2, size) * rng.choice((-1, 1), size), rng.integers(low, high + 1, size)).astype(
            dtype
        )


def third(rng, elem, x, y, spread):
    """Numbers near −x·y: its rounding, moved by some places and then by a power of two."""
    dtype = FORMATS[elem][0]
    with np.errstate(all="ignore"):
        near = -(x * y)
        for _ in range(2):
            near = np.where(rng.integers(0, 2, len(x)) == 1, np.nextafter(near, dtype(np.inf)), near)
        return np.ldexp(near, rng.choice(np.array((0, 0, *spread)), len(x)).astype(np.int32)).astype(dtype)


def hard(elem):
    """Operands by what is hard about them."""
    rng = np.random.default_rng(20)
    dtype, precision, least, most = FORMATS[elem]
    tiny, size = least - 1, 700
    ordinary = scaled(rng, elem, size, -4, 4), scaled(rng, elem, size, -4, 4)
    yield "sums", (*ordinary, scaled(rng, elem, size, -8, 8))
    yield "cancelling", (*ordinary, third(rng, elem, *ordinary, (1, -1)))
    yield "far below", (*ordinary, third(rng, elem, *ordinary, range(-2 * precision - 3, -precision + 3)))
    yield "far above", (*ordinary, third(rng, elem, *ordinary, range(precision - 3, 2 * precision + 3)))
    # Products about the least subnormal number, half of it, and the least normal one.
    for name, exponent in (
        ("subnormal", tiny),
        ("half of the least", tiny - 1),
        ("least normal", tiny + precision - 1),
    ):
        x = scaled(rng, elem, size, exponent // 2 - 3, exponent // 2 + 3)
        y = scaled(rng, elem, size, exponent - exponent // 2 - 2, exponent - exponent // 2 + 2)
        yield f"{name} product", (x, y, scaled(rng, elem, size, tiny - 2, tiny + 2 * precision))
        yield f"{name} product alone", (x, y, np.zeros(size, dtype))
        yield f"{name} product cancelling", (x, y, third(rng, elem, x, y, (1, -1)))
    x, y = scaled(rng, elem, size, tiny, tiny + precision), scaled(rng, elem, size, 0, precision)
    yield "subnormal factor", (x, y, third(rng, elem, x, y, (-1, -2, 1)))
    yield "subnormal sum", (x, y / dtype(2**precision), scaled(rng, elem, size, tiny, tiny + 4))
    x, y = scaled(rng, elem, size, most // 2 - 3, most // 2 + 1), scaled(rng, elem, size, most // 2 - 3, most // 2 + 1)
    yield "overflowing", (x, y, scaled(rng, elem, size, most - precision - 3, most - 1))
    yield "back from overflow", (x, y, -np.abs(scaled(rng, elem, size, most - 2, most - 1)) * np.sign(x * np.sign(y)))
    # Factors with few bits: products that are exact, ties, and half-way cases of a third operand far away.
    half = np.ldexp(rng.integers(1 << (precision - 1), 1 << precision, size).astype(float), -precision).astype(dtype)
    step = np.ldexp(np.ones(size), -precision - 1).astype(dtype)
    small = dtype(2.0 ** -((precision + 6) // 2))
    yield "half a place", (step, np.ones(size, dtype), half)
    # The product is half a place less a little that double precision does not see beside the third operand.
    yield "less than half a place", (step * (1 + small), np.full(size, 1 - small, dtype), half)
    yield "less than half a place back", (step * (1 + small), np.full(size, 1 - small, dtype), -half)
    info = np.finfo(dtype)
    special = np.array(
        [0.0, 1.0, 3.0, np.inf, info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, np.nan], dtype
    )
    special = np.concatenate([special, -special])
    yield "special", tuple(np.ascontiguousarray(one.ravel()) for one in np.meshgrid(special, special, special))


@pytest.mark.parametrize("lanes", (1, 2, 3, 4, 8))
@pytest.mark.parametrize("elem", FORMATS)
def test_the_baseline_rounds_once(elem, lanes):
    for name, (x, y, z) in hard(elem):
        expected = reference(elem, x, y, z)
        result = fma(elem, x, y, z, lanes, X86_64)
        wrong = np.flatnonzero((bits(result) != bits(expected)) & ~(np.isnan(result) & np.isnan(expected)))
        assert not len(wrong), (name, *(float(one[wrong[0]]).hex() for one in (x, y, z, result, expected)))


def test_the_hard_cases_are_hard():
    """Separate multiplication and addition, and an fma in double precision rounded again, fail on most of them."""
    fail = {}
    for name, (x, y, z) in hard(Elem.F32):
        with np.errstate(all="ignore"):
            expected = reference(Elem.F32, x, y, z)
            fail[name] = (
                not same(x * y + z, expected),
                not same((x.astype(float) * y + z).astype(np.float32), expected),
            )
    assert fail["cancelling"][0] and fail["subnormal product cancelling"][0] and fail["back from overflow"][0]
    assert fail["less than half a place"][1] and fail["less than half a place back"][1]


def test_one_odd_lane_among_ordinary_ones():
    """A lane that leaves the range of the fast method does not change its neighbours."""
    rng = np.random.default_rng(21)
    x, y, z = (scaled(rng, Elem.F64, 64, -3, 3) for _ in range(3))
    for lane in range(8):
        x[8 * lane + lane] *= 2.0**600
        y[8 * lane + lane] *= 2.0 ** (-600 if lane % 2 else 500)
    expected = reference(Elem.F64, x, y, z)
    assert np.isinf(expected).any() and np.isfinite(expected).sum() > 56
    assert same(fma(Elem.F64, x, y, z, 8, X86_64), expected)


@pytest.mark.parametrize("elem", FORMATS)
def test_random_patterns_agree_on_all_levels(elem):
    """Any patterns at all: all levels agree on many, and with MPFR on some."""
    rng = np.random.default_rng(22)
    dtype = FORMATS[elem][0]
    size, some = 200_000, 5_000
    patterns = bits(np.zeros(1, dtype)).dtype
    x, y = (rng.integers(0, 1 << 8 * patterns.itemsize, size, dtype=patterns).view(dtype) for _ in "xy")
    with np.errstate(all="ignore"):
        z = third(rng, elem, x, y, range(-60, 60))
    first, *others = (fma(elem, x, y, z, 4, level) for level in RUNNABLE)
    assert same(first[:some], reference(elem, x[:some], y[:some], z[:some]))
    assert all(same(first, other) for other in others)


def test_the_reference_rounds_exact_sums_to_nearest():
    """MPFR's answer lies within half a place of the exact sum."""
    for x, y, z in zip(*next(hard(Elem.F64))[1], strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        (result,) = reference(Elem.F64, [x], [y], [z])
        place = Fraction(float(np.spacing(abs(result))))
        assert abs(Fraction(float(result)) - exact) <= place / 2
