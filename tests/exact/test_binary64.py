import math

import gmpy2
import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.exact import binary64
from tests.exact.support import from_mpmath


def reference(function, x: float) -> float:
    with mpmath.workprec(400):
        return float(from_mpmath(function(mpmath.mpf(x)), 53))


def unit_arguments(count: int):
    """Numbers of the form 1 − u, as draws have them."""
    rng = np.random.default_rng(1)
    return (2**53 - rng.integers(0, 2**53, count)).astype(np.float64) * 2.0**-53


def test_log_of_draws():
    xs = unit_arguments(2000)
    assert binary64.log(xs).tolist() == [reference(mpmath.log, x) for x in xs.tolist()]


def test_cos_of_angles():
    xs = 2 * np.pi * (1 - unit_arguments(2000))
    assert binary64.cos(xs).tolist() == [reference(mpmath.cos, x) for x in xs.tolist()]


LOG_EDGES = [
    1.0,
    2.0**-53,
    1 - 2.0**-53,
    0.5,
    0.25,
    math.sqrt(0.5),
    math.nextafter(math.sqrt(0.5), 0),
    2.0**-64,
    2.0**64,
]
LOG_EDGES += (
    [1 - 2.0**-k for k in range(1, 53)] + [k / 256 for k in range(1, 512)] + [(k + 0.5) / 256 for k in range(512)]
)
COS_EDGES = [0.0, np.pi / 2, np.pi, 3 * np.pi / 2, 2 * np.pi, 2 * np.pi * (1 - 2.0**-53)]
COS_EDGES += (
    [2.0**-k for k in range(60)] + [np.pi / 2 + 2.0**-k for k in range(52)] + [k * np.pi / 64 for k in range(129)]
)
COS_EDGES += [min((k + 0.5) * np.pi / 64, 2 * np.pi) for k in range(128)]


@pytest.mark.parametrize(
    "ours, theirs, edges", [(binary64.log, mpmath.log, LOG_EDGES), (binary64.cos, mpmath.cos, COS_EDGES)]
)
def test_edges(ours, theirs, edges):
    edges = [x for x in edges if theirs is mpmath.cos or x >= 2.0**-64]
    assert ours(np.array(edges)).tolist() == [reference(theirs, x) for x in edges]


@pytest.mark.parametrize("x", [float.fromhex("0x1.613955dc802f8p-35")])
def test_log_where_an_intermediate_rounding_misleads(x):
    """At 113 bits this logarithm looks like a tie of binary64."""
    assert binary64.log(np.array([x])).tolist() == [reference(mpmath.log, x)]


@given(st.floats(2.0**-60, 1.0))
def test_log_anywhere(x):
    assert binary64.log(np.array([x]))[0] == reference(mpmath.log, x)


@given(st.floats(0.0, 2 * math.pi))
def test_cos_anywhere(x):
    assert binary64.cos(np.array([x]))[0] == reference(mpmath.cos, x)


def error(pair, function, xs) -> float:
    """The largest relative error of an evaluation, as a power of two."""
    high, low = pair(np.array(xs))
    largest = -400.0
    with mpmath.workprec(400):
        for x, h, l in zip(xs, high.tolist(), low.tolist()):
            exact = function(mpmath.mpf(x))
            off = abs(mpmath.mpf(h) + mpmath.mpf(l) - exact) / abs(exact) if exact else mpmath.mpf(0)
            largest = max(largest, float(mpmath.log(off, 2)) if off else -400.0)
    return largest


def test_the_error_stays_far_below_what_is_allowed_for():
    allowed = math.log2(binary64._MARGIN)
    logs = unit_arguments(1500).tolist() + [x for x in LOG_EDGES if 2.0**-53 <= x < 1]
    assert error(binary64._log_pair, mpmath.log, logs) < allowed - 20
    angles = [x for x in (2 * np.pi * unit_arguments(1500)).tolist() + COS_EDGES if abs(math.cos(x)) > 2.0**-20]
    assert error(binary64._cos_pair, mpmath.cos, angles) < allowed - 20


def test_undecided_values_are_mpfrs(monkeypatch):
    """With an error that decides nothing every value comes from MPFR, and is the same."""
    xs = unit_arguments(300)
    decided = binary64.log(xs).tolist(), binary64.cos(xs).tolist()
    monkeypatch.setattr(binary64, "_MARGIN", 1.0)
    assert (binary64.log(xs).tolist(), binary64.cos(xs).tolist()) == decided


def test_arrays_of_any_length():
    for count in (0, 1, binary64._BLOCK - 1, binary64._BLOCK, binary64._BLOCK + 1):
        xs = np.full(count, 0.3)
        assert binary64.log(xs).tolist() == [float(gmpy2.context(precision=53).log(gmpy2.mpfr(0.3)))] * count
