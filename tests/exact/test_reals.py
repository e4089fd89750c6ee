"""Every function of the arithmetic against mpmath at 2000 bits or exact fractions, rounded once by integer arithmetic."""

import random
from fractions import Fraction

import gmpy2
import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.exact import reals
from presk.exact.faults import Fault
from presk.exact.reals import Reals
from presk.exact.values import filled, gathered, uniform
from tests.exact.support import DIGITS, fraction, from_mpmath, precise, rounded

BITS = (2, 3, 11, 24, 53, 64, 113, 256)

FUNCTIONS = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": mpmath.exp,
    "tanh": mpmath.tanh,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "log": mpmath.log,
    "sqrt": mpmath.sqrt,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "gelu'": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2 + x * mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi),
    "relu": lambda x: max(x, 0),
    "heaviside": lambda x: 1 if x > 0 else 0,
    "sign": lambda x: (x > 0) - (x < 0),
}


def row(xs):
    return gathered(list(xs), (len(xs),))


def expected(name, x, bits):
    with mpmath.workprec(DIGITS):
        return from_mpmath(FUNCTIONS[name](precise(x)), bits)


def arguments(name, bits):
    """Numbers as runs have them: of 53 bits, or of as many as the arithmetic has."""
    own = max(bits, 64)
    rng = random.Random(name)
    xs = [mpfr(rng.gauss(0, 1) * 10 ** rng.randint(-4, 1), 53) for _ in range(25)]
    xs += [mpfr(mpq(rng.getrandbits(300) - 2**299, 3 * 2**298), own) for _ in range(10)]
    xs += [
        mpfr(0),
        mpfr(1),
        mpfr(-1),
        mpfr(mpq(1, 2**90)),
        mpfr(mpq(-1, 2**90)),
        mpfr(40),
        mpfr(-40),
        mpfr(300),
        mpfr(-300),
    ]
    xs += [mpfr(mpq(1, 2) + mpq(1, 2**120), own), mpfr(mpq(3, 4) + mpq(1, 2**52), 53)]
    if name in ("sqrt", "log"):
        exact = gmpy2.context(precision=300)
        xs = [exact.abs(x) for x in xs if name == "sqrt" or x != 0]
    return xs


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_correctly_rounded(name, bits):
    xs = arguments(name, bits)
    m = Reals(bits)
    with m.active():
        found = m.apply(name, row(xs)).tolist()
    for x, y in zip(xs, found):
        assert y == expected(name, x, bits), x


# Inputs whose value, rounded to somewhat more bits first, seems a tie or on its wrong side.
TRAPS = [
    ("log", "0x1.b7f71a488641ap+340", 53),
    ("log", "0x1.be87838f1a47cp+774", 53),
    ("log", "0x1.613955dc802f8p-35", 53),
    ("tanh", "0x1.e0000000000e1p-22", 53),
]


@pytest.mark.parametrize("name, text, bits", TRAPS)
def test_no_rounding_in_between(name, text, bits):
    x = mpfr(float.fromhex(text), 53)
    m = Reals(bits)
    with m.active():
        found = m.apply(name, row([x]))[0]
    assert found == expected(name, x, bits)
    twice = {
        gmpy2.context(precision=53).plus(getattr(gmpy2.context(precision=between), name)(x))
        for between in (113, 128, 64)
    }
    assert twice != {found}, "the input is no trap"


@pytest.mark.parametrize(
    "name, x, value", [("sigmoid", 0, 0.5), ("gelu", 0, 0), ("gelu'", 0, 0.5), ("exp", 0, 1), ("cos", 0, 1)]
)
def test_exact_values(name, x, value):
    m = Reals(200)
    with m.active():
        assert m.apply(name, row([mpfr(x)]))[0] == value


@pytest.mark.parametrize("x", [10**3, 10**6, 10**9, 10**12])
def test_values_next_to_a_number_are_found_without_many_bits(x):
    """sigmoid(10¹²) differs from 1 by less than 2^(−10¹²): no precision shows that."""
    m = Reals(100)
    with m.active():
        assert m.apply("sigmoid", row([mpfr(x)]))[0] == 1
        assert m.apply("gelu", row([mpfr(x)]))[0] == x
        assert m.apply("gelu'", row([mpfr(x)]))[0] == 1
        assert m.apply("gelu", row([mpfr(-x)]))[0] <= 0


def test_tails_keep_their_bits():
    """What single precision makes of sigmoid(−89) is 0; the value is 2.2e-39."""
    m = Reals(64)
    with m.active():
        assert m.apply("sigmoid", row([mpfr(-89)]))[0] == expected("sigmoid", mpfr(-89), 64)
        assert m.apply("gelu", row([mpfr(-38)]))[0] == expected("gelu", mpfr(-38), 64) < 0


OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": lambda x, y: max(y, x),
    "minimum": lambda x, y: min(y, x),
}

exact_numbers = st.builds(
    lambda mantissa, exponent, precision: mpfr(mpq(mantissa) * mpq(2) ** exponent, precision),
    st.integers(-(2**140), 2**140) | st.integers(-3, 3),
    st.integers(-150, 20),
    st.sampled_from([2, 24, 53, 64]),
)


@given(st.sampled_from(sorted(OPERATIONS)), exact_numbers, exact_numbers, st.sampled_from([2, 3, 24, 53, 64, 100]))
def test_operations_round_once(name, x, y, bits):
    m = Reals(bits)
    if name == "div" and y == 0:
        return
    with m.active():
        found = getattr(m, name)(row([x]), row([y]))[0]
    assert fraction(found) == rounded(OPERATIONS[name](fraction(x), fraction(y)), bits)


@given(exact_numbers, st.integers(0, 40), st.sampled_from([2, 3, 24, 53, 100]))
def test_powers_round_once(x, n, bits):
    m = Reals(bits)
    with m.active():
        found = m.power(row([x]), n)[0]
    assert fraction(found) == rounded(fraction(x) ** n, bits)


def test_zero_to_the_zero_is_one():
    m = Reals(64)
    with m.active():
        assert m.power(row([mpfr(0), mpfr(5)]), 0).tolist() == [1, 1]


@given(st.lists(exact_numbers, max_size=20), st.sampled_from([2, 3, 24, 53, 100]))
def test_sums_and_means_round_once(xs, bits):
    m = Reals(bits)
    total = sum(map(fraction, xs), Fraction(0))
    with m.active():
        assert fraction(m.sums(row(xs).reshape(1, -1))[0]) == rounded(total, bits)
        squares = sum((fraction(x) ** 2 for x in xs), Fraction(0))
        assert fraction(m.squares([row(xs), row(xs[:3])])) == rounded(
            squares + sum(fraction(x) ** 2 for x in xs[:3]), bits
        )
        if xs:
            assert fraction(m.means(row(xs).reshape(1, -1))[0]) == rounded(total / len(xs), bits)
            quotients = m.divided(row(xs), len(xs))
            assert [fraction(x) for x in quotients] == [rounded(fraction(x) / len(xs), bits) for x in xs]


def test_a_mean_is_not_the_quotient_of_a_rounded_sum():
    """(1 + 3·2⁻²) / 2 at 3 bits is 0.875; the sum rounded first, 1.75, would do too, so one that does not is looked for."""
    rng = random.Random(1)
    m = Reals(8)
    found = 0
    with m.active():
        for _ in range(300):
            xs = [mpfr(rng.getrandbits(8), 8) for _ in range(3)]
            mean = m.means(row(xs).reshape(1, 3))[0]
            assert fraction(mean) == rounded(sum(map(fraction, xs), Fraction(0)) / 3, 8)
            found += mean != m.divided(m.sums(row(xs).reshape(1, 3)), 3)[0]
    assert found > 0


@pytest.mark.parametrize("bits", [2, 24, 64, 200])
def test_numbers_are_rounded_once(bits):
    m = Reals(bits)
    for value in (mpq(1, 3), mpq(-7, 10), mpq(2**100 + 1), mpq(1, 10**50), mpq(0)):
        assert fraction(m.number(value)) == rounded(Fraction(int(value.numerator), int(value.denominator)), bits)
    assert m.pi() == from_mpmath(mpmath.mp.pi, bits) if bits < 50 else True
    with mpmath.workprec(DIGITS):
        assert m.pi() == from_mpmath(+mpmath.pi, bits)


def test_integers_as_reals():
    small = Reals(4)
    assert [fraction(x) for x in small.from_integers(np.array([0, 15, 17, 18, -19]))] == [0, 15, 16, 18, -20]
    large = np.array([2**53 + 1, -(2**63), 10**30], dtype=object)
    assert [fraction(x) for x in Reals(64).from_integers(large)] == [2**53 + 1, -(2**63), rounded(Fraction(10**30), 64)]


def test_drawn_numbers_keep_their_bits():
    assert [float(x) for x in Reals(8).from_doubles(np.array([0.1, -3.7]))] == [0.1, -3.7]


# --- rows ---------------------------------------------------------------------------------------------------------------


def softmax(xs):
    exps = [mpmath.exp(x) for x in xs]
    return [one / sum(exps) for one in exps]


ROWS = [
    [0.5, -1.25, 3.0, 0.75],
    [1e4, 0, 0, 0],
    [-1e4, 0, 1, 2],
    [7.0, 7.0, 7.0, 7.0],
    [1000.0, 1000.0, -3.0, 2.0],
    [1e-30, 0, 0, 0],
    [-745.5, -746.0, -747.25, -745.5],
]


@pytest.mark.parametrize("bits", [2, 5, 24, 53, 128])
def test_softmax_and_cross_entropy_round_once(bits):
    rng = random.Random(bits)
    rows = [[mpfr(x) for x in one] for one in ROWS] + [[mpfr(rng.gauss(0, 3)) for _ in range(4)] for _ in range(20)]
    m = Reals(bits)
    array = gathered([x for one in rows for x in one], (len(rows), 4))
    targets = np.array([at % 4 for at in range(len(rows))])
    cts = [mpfr(rng.gauss(0, 1)) for _ in rows]
    with m.active():
        soft = m.softmax(array, None)
        entropy = m.cross_entropy(array, targets)
        back = m.cross_entropy_vjp(array, targets, row(cts))
    with mpmath.workprec(DIGITS):
        for at, one in enumerate(rows):
            top = max(map(precise, one))
            p = softmax([precise(x) - top for x in one])
            assert soft[at].tolist() == [from_mpmath(x, bits) for x in p]
            target = int(targets[at])
            assert entropy[at] == from_mpmath(-mpmath.log(p[target]), bits)
            others = sum(x for place, x in enumerate(p) if place != target)
            slopes = [(x if place != target else -others) * precise(cts[at]) for place, x in enumerate(p)]
            assert back[at].tolist() == [from_mpmath(x, bits) for x in slopes]


def test_the_gradient_of_equal_logits_may_be_a_tie():
    """ct·3/4 needs two bits more than ct: rational, and half-way between two numbers for some ct."""
    m = Reals(3)
    with m.active():
        for ct in (1, 3, 5, 7, 1.25):
            found = m.cross_entropy_vjp(gathered([mpfr(2)] * 4, (1, 4)), np.array([1]), row([mpfr(ct)]))
            quarter, rest = rounded(Fraction(ct) / 4, 3), -rounded(Fraction(ct) * Fraction(3, 4), 3)
            assert [fraction(x) for x in found[0]] == [quarter, rest, quarter, quarter]


def test_rows_of_one_and_of_none():
    m = Reals(64)
    with m.active():
        one = gathered([mpfr(5)], (1, 1))
        assert m.softmax(one, None).tolist() == [[1]]
        assert m.cross_entropy(one, np.array([0])).tolist() == [0]
        assert m.cross_entropy_vjp(one, np.array([0]), row([mpfr(3)])).tolist() == [[0]]
        empty = gathered([], (3, 0))
        assert m.softmax(empty, None).shape == (3, 0)
        assert m.softmax(empty, np.zeros((3, 0), np.bool_)).shape == (3, 0)
        none = gathered([], (0, 4))
        assert m.softmax(none, None).shape == (0, 4)
        assert m.cross_entropy(none, np.zeros(0, np.int64)).shape == (0,)
        assert m.sums(empty).tolist() == [0, 0, 0]


def test_masked_softmax_never_reads_what_is_refused():
    m = Reals(64)
    allowed = np.array([[True, False, True], [False, True, False]])
    scores = gathered([mpfr(1), mpfr(2), mpfr(3), mpfr(4), mpfr(5), mpfr(6)], (2, 3))
    other = gathered([mpfr(1), mpfr("1e30"), mpfr(3), gmpy2.nan(), mpfr(5), gmpy2.inf()], (2, 3))
    with m.active():
        found = m.softmax(scores, allowed)
        assert m.softmax(other, allowed).tolist() == found.tolist()
        pair = m.softmax(gathered([mpfr(1), mpfr(3)], (1, 2)), None)
    assert found.tolist() == [[pair[0, 0], 0, pair[0, 1]], [0, 1, 0]]


def test_a_row_that_its_mask_empties():
    m = Reals(64)
    allowed = np.array([[True, True], [False, False]])
    with m.active(), pytest.raises(Fault) as caught:
        m.softmax(gathered([mpfr(1)] * 4, (2, 2)), allowed)
    assert (caught.value.code, caught.value.index) == ("E7004", (1,))


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4))
def test_argmax_takes_the_least_place(rows):
    m = Reals(64)
    array = gathered([mpfr(x) for one in rows for x in one], (len(rows), 3))
    with m.active():
        assert m.argmax(array).tolist() == [one.index(max(one)) for one in rows]


@settings(max_examples=60)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=6), st.integers(0, 2**53 - 1))
def test_sample_is_the_least_place_whose_cumulative_probability_exceeds_the_draw(xs, draw):
    m = Reals(53)
    with m.active():
        found = m.sample(row([mpfr(x) for x in xs]).reshape(1, -1), np.array([draw], dtype=np.uint64))[0]
    with mpmath.workprec(600):
        p = softmax([mpmath.mpf(x) for x in xs])
        sums = [sum(p[: place + 1]) for place in range(len(p))]
        assert found == next(place for place, one in enumerate(sums) if one > mpmath.mpf(draw) / 2**53)


def test_a_draw_that_equals_a_cumulative_probability():
    """Two pairs of equal probabilities make ½ exactly, which does not exceed ½."""
    m = Reals(64)
    half, quarter = 1 << 52, 1 << 51
    rows = gathered([mpfr(x) for x in (1, 2, 1, 2)], (1, 4))
    even = gathered([mpfr(3)] * 4, (1, 4))
    with m.active():
        for array, draw, place in (
            (rows, half, 2),
            (rows, half - 1, 1),
            (even, quarter, 1),
            (even, quarter - 1, 0),
            (even, 0, 0),
            (even, 2**53 - 1, 3),
        ):
            assert m.sample(array, np.array([draw], dtype=np.uint64)).tolist() == [place]


# --- sharing ------------------------------------------------------------------------------------------------------------


def test_adding_zeros_gives_the_other_operand_itself():
    m = Reals(64)
    x = row([mpfr(1), mpfr(2)])
    zeros, ones = m.zeros((2,)), m.ones((2,))
    with m.active():
        assert m.add(x, zeros) is x
        assert m.add(zeros, x) is x
        assert m.sub(x, zeros) is x
        assert m.mul(x, ones) is x
        assert uniform(m.mul(x, zeros))
        assert uniform(m.add(ones, ones))
        assert uniform(m.apply("exp", ones))
        assert m.add(x, m.zeros(())) is x


def test_sharing_changes_no_bit():
    """With fewer bits than an operand has, x + 0 and x · 1 are roundings of x."""
    m = Reals(8)
    x = row([mpfr(0.1), mpfr(-3.3)])
    with m.active():
        for found in (m.add(x, m.zeros((2,))), m.sub(x, m.zeros(())), m.mul(m.ones((2,)), x), m.power(x, 1)):
            assert [fraction(y) for y in found] == [rounded(fraction(y), 8) for y in x]
        assert [fraction(y) for y in m.apply("relu", x)] == [rounded(fraction(x[0]), 8), 0]
        assert [fraction(y) for y in m.maximum(x, row([mpfr(0.1), mpfr(-9.1)]))] == [rounded(fraction(y), 8) for y in x]


@given(st.sampled_from(["add", "sub", "mul"]), st.sampled_from([(3,), (2, 1), (1, 3), ()]))
def test_broadcast_constants_are_ordinary_operands(name, shape):
    m = Reals(64)
    x = gathered([mpfr(k) for k in (1, -2, 5, 7, 0, 3)], (2, 3))
    with m.active():
        for constant in (0, 1, 4):
            shared = filled(
                shape, m.zeros(()).item() if constant == 0 else m.ones(()).item() if constant == 1 else mpfr(4)
            )
            plain = gathered([mpfr(constant)] * int(np.prod(shape)), shape)
            assert getattr(m, name)(x, shared).tolist() == getattr(m, name)(x, plain).tolist()
            assert getattr(m, name)(shared, x).tolist() == getattr(m, name)(plain, x).tolist()


# --- what is undefined --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numerator", [1, 0])
def test_division_by_zero_names_the_element(numerator):
    m = Reals(64)
    x = gathered([mpfr(numerator)] * 6, (2, 3))
    y = gathered([mpfr(1), mpfr(0), mpfr(2)], (3,))
    with m.active(), pytest.raises(Fault) as caught:
        m.div(x, y)
    assert (caught.value.code, caught.value.index) == ("E7001", (0, 1))


@pytest.mark.parametrize("name, x", [("log", 0), ("log", -2), ("sqrt", -1)])
def test_outside_the_domain(name, x):
    m = Reals(64)
    with m.active(), pytest.raises(Fault) as caught:
        m.apply(name, row([mpfr(4), mpfr(x), mpfr(x)]))
    assert (caught.value.code, caught.value.index) == ("E7005", (1,))
    assert name in caught.value.message


def test_the_square_root_of_zero_is_zero():
    m = Reals(64)
    with m.active():
        assert m.apply("sqrt", row([mpfr("-0"), mpfr(0)])).tolist() == [0, 0]


def test_too_large():
    m = Reals(64)
    with m.active():
        with pytest.raises(gmpy2.OverflowResultError):
            m.apply("exp", row([mpfr("1e10")]))
        with pytest.raises(gmpy2.OverflowResultError):
            m.power(row([mpfr(2)]), 1 << 31)
        with pytest.raises(Fault) as caught:
            m.apply("sin", row([gmpy2.set_exp(mpfr(1), reals._TURNS + 1)]))
        assert caught.value.code == "E7006"
        assert m.apply("exp", row([mpfr("-1e10")])).tolist() == [0]


def test_no_result_depends_on_the_context_around():
    """A rounding mode or precision that somebody else has set is not ours."""
    with gmpy2.context(precision=10, round=gmpy2.RoundUp):
        m = Reals(100)
        with m.active():
            third = m.div(row([mpfr(1, 10)]), row([mpfr(3, 10)]))[0]
            total = m.sums(gathered([third] * 3, (1, 3)))[0]
        assert gmpy2.get_context().precision == 10
    assert fraction(third) == rounded(Fraction(1, 3), 100)
    assert fraction(total) == rounded(3 * fraction(third), 100)
