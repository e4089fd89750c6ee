"""Balls hold the exact value, and the correctly rounded one where it is a rounding of it."""

import random
from typing import Any

import flint
import gmpy2
import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
import pytest
from gmpy2 import mpfr, mpq

from presk.exact.balls import Balls, enclose
from presk.exact.faults import Fault
from presk.exact.reals import Reals
from presk.exact.values import gathered
from tests.exact.support import DIGITS, from_mpmath, precise
from tests.exact.test_reals import FUNCTIONS, arguments

BITS = 80


def balls(xs, shape=None):
    return gathered([enclose(x) for x in xs], shape or (len(xs),))


def holds(ball, value):
    """The ball contains an mpmath number (given to 2000 bits)."""
    with flint.ctx.workprec(DIGITS):
        return bool(ball.contains(enclose(from_mpmath(value, DIGITS - 50))))


def tight(ball):
    """The ball is about as narrow as the precision allows."""
    return ball.is_exact() or ball.rel_accuracy_bits() > BITS - 12


def test_numbers_are_enclosed_exactly():
    for x in (mpfr(0), mpfr(-3), mpfr(mpq(1, 3), 200), mpfr(2) ** -700):
        assert enclose(x).is_exact()
        assert holds(enclose(x), precise(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    m = Balls(BITS)
    xs = [x for x in arguments(name, 64) if abs(x) < 100]
    with m.active():
        found = m.apply(name, balls(xs)).tolist()
    for x, ball in zip(xs, found):
        with mpmath.workprec(DIGITS):
            assert holds(ball, FUNCTIONS[name](precise(x))), x
        assert tight(ball) or (name.startswith("gelu") and x < -3) or name == "gelu'"


def test_operations():
    m = Balls(BITS)
    rng = random.Random(1)
    xs, ys = ([mpfr(rng.gauss(0, 1)) for _ in range(30)] for _ in range(2))
    with m.active(), mpmath.workprec(DIGITS):
        for name, operation in (
            ("add", lambda x, y: x + y),
            ("sub", lambda x, y: x - y),
            ("mul", lambda x, y: x * y),
            ("div", lambda x, y: x / y),
            ("maximum", max),
            ("minimum", min),
        ):
            for x, y, ball in zip(xs, ys, getattr(m, name)(balls(xs), balls(ys)).tolist()):
                assert holds(ball, operation(precise(x), precise(y)))
                assert tight(ball)
        for n in (0, 1, 2, 7):
            assert all(holds(ball, precise(x) ** n) for x, ball in zip(xs, m.power(balls(xs), n).tolist()))
        assert holds(m.number(mpq(1, 3)), mpmath.mpf(1) / 3)
        assert holds(m.pi(), +mpmath.pi)


def test_sums_products_rows_contain_the_rounded_results():
    plain, m = Reals(BITS), Balls(BITS)
    rng = random.Random(2)
    xs = [mpfr(rng.gauss(0, 2)) for _ in range(24)]
    ys = [mpfr(rng.gauss(0, 1)) for _ in range(24)]
    targets, cts = np.array([0, 3, 1]), [mpfr(rng.gauss(0, 1)) for _ in range(3)]
    allowed = np.array([[rng.random() < 0.7 for _ in range(8)] for _ in range(3)])
    allowed[:, 2] = True
    a, b = gathered(xs, (3, 8)), gathered(ys, (8, 3))
    rounded: list[Any] = []
    enclosed: list[Any] = []
    for arithmetic, found, wrap in ((plain, rounded, lambda x: x), (m, enclosed, enclose)):
        with arithmetic.active():
            left = gathered([wrap(x) for x in a.ravel()], a.shape)
            right = gathered([wrap(x) for x in b.ravel()], b.shape)
            slopes = gathered([wrap(x) for x in cts], (3,))
            found += [
                arithmetic.sums(left),
                arithmetic.means(left),
                arithmetic.divided(left, 7),
                arithmetic.product(left[np.newaxis], right[np.newaxis], last=True),
                arithmetic.softmax(left, None),
                arithmetic.softmax(left, allowed),
                arithmetic.cross_entropy(left, targets),
                arithmetic.cross_entropy_vjp(left, targets, slopes),
                gathered([arithmetic.squares([left, right])], ()),
            ]
            assert arithmetic.argmax(left).tolist() == [list(one).index(max(one)) for one in a]
            assert (
                arithmetic.sample(left, np.array([1 << 50, 1 << 52, 2**53 - 1], np.uint64)).tolist()
                == plain.sample(a, np.array([1 << 50, 1 << 52, 2**53 - 1], np.uint64)).tolist()
            )
    for values, around in zip(rounded, enclosed, strict=True):
        assert values.shape == around.shape
        for value, ball in zip(values.ravel().tolist(), around.ravel().tolist()):
            # The rounded value is within half a unit of the exact one, which the ball holds.
            with flint.ctx.workprec(300):
                distance = (ball - enclose(value)).abs_lower()
                assert distance <= enclose(abs(value)) * flint.arb((1, 1 - BITS))
                assert tight(ball) or value == 0 or abs(value) < 1e-3


def test_empty_products():
    m = Balls(BITS)
    with m.active():
        found = m.product(balls([], (2, 3, 0)), balls([], (2, 0, 4)), last=True)
        assert found.shape == (2, 3, 4)
        assert all(ball.is_zero() for ball in found.ravel())
        assert m.product(balls([], (0, 3, 2)), balls([], (0, 2, 4)), last=True).shape == (0, 3, 4)
        assert m.sums(balls([], (2, 0))).tolist() == [0, 0]


WIDE = flint.arb(0, 0.25)
"""[−¼, ¼]"""


def test_where_balls_overlap_the_result_holds_every_case():
    m = Balls(BITS)
    x = gathered([WIDE], (1,))
    with m.active():
        for name, values in (
            ("relu", (0, 0.2)),
            ("heaviside", (0, 1)),
            ("sign", (-1, 0, 1)),
            ("abs", (0, 0.25)),
            ("sqrt", (0, 0.5)),
        ):
            assert all(m.apply(name, x)[0].contains(value) for value in values), name
        other = gathered([flint.arb(0.125)], (1,))
        assert all(m.maximum(x, other)[0].contains(value) for value in (0.125, 0.25))
        assert all(m.minimum(x, other)[0].contains(value) for value in (-0.25, 0.125))


def test_exact_ties():
    m = Balls(BITS)
    with m.active():
        two = balls([mpfr(2), mpfr(2), mpfr(1)])
        assert m.argmax(two.reshape(1, 3)).tolist() == [0]
        assert m.maximum(two, two).tolist() == two.tolist()
        assert m.apply("sign", balls([mpfr(0)]))[0].is_zero()
        assert m.apply("heaviside", balls([mpfr(0)]))[0].is_zero()
        assert m.sample(balls([mpfr(1)] * 4, (1, 4)), np.array([1 << 51], np.uint64)).tolist() == [1]


@pytest.mark.parametrize(
    "what, code",
    [
        (lambda m, x: m.div(x, x), "E7007"),
        (lambda m, x: m.div(x, m.zeros((1,))), "E7001"),
        (lambda m, x: m.apply("log", x), "E7007"),
        (lambda m, x: m.apply("log", m.zeros((1,))), "E7005"),
        (lambda m, x: m.apply("sqrt", m.sub(x, m.ones((1,)))), "E7005"),
        (lambda m, x: m.argmax(np.concatenate([x, x]).reshape(1, 2)), "E7007"),
        (lambda m, x: m.sample(np.concatenate([x, x]).reshape(1, 2), np.array([1 << 52], np.uint64)), "E7007"),
        (lambda m, x: m.softmax(x.reshape(1, 1), np.array([[False]])), "E7004"),
    ],
)
def test_what_is_undefined_or_undecided(what, code):
    m = Balls(BITS)
    with m.active(), pytest.raises(Fault) as caught:
        what(m, gathered([WIDE], (1,)))
    assert caught.value.code == code
    assert caught.value.index == (0,)


def test_the_precision_around_is_restored():
    before = flint.ctx.prec
    with Balls(77).active():
        assert flint.ctx.prec == 77
    assert flint.ctx.prec == before
    assert gmpy2.get_context().precision == 53
