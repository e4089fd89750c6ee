import random
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.exact import contract, residues
from presk.exact.codec import ZERO
from presk.exact.values import gathered
from tests.exact.support import fraction, rounded


def matrix(rng, shape, precision, spread, zeros=0.1):
    """Random numbers of a precision with exponents up to `spread` apart, some of them 0."""

    def one():
        if rng.random() < zeros:
            return mpfr(0)
        mantissa = rng.getrandbits(precision) * 2 + 1 - (1 << precision)
        return mpfr(mpq(mantissa) * mpq(2) ** (rng.randint(0, spread) - precision), precision + 2)

    return gathered([one() for _ in range(int(np.prod(shape)))], shape)


def negated(array):
    """The numbers with the other sign, exactly."""
    return gathered([gmpy2.context(precision=one.precision).minus(one) for one in array.ravel()], array.shape)


def exact(left, right, t, i, j):
    return sum((fraction(x) * fraction(y) for x, y in zip(left[t, i], right[t, :, j])), Fraction(0))


def check(left, right, bits, places=None):
    result = contract.product(left, right, bits)
    assert result.shape == (left.shape[0], left.shape[1], right.shape[2])
    for t, i, j in places or np.ndindex(result.shape):
        value = exact(left, right, t, i, j)
        assert fraction(result[t, i, j]) == (value if bits is None else rounded(value, bits))
        assert bits is None or result[t, i, j] == 0 or result[t, i, j].precision == bits


@pytest.fixture(params=["residues", "plain"])
def way(request, monkeypatch):
    """Both ways of computing a product, whatever its size."""
    monkeypatch.setattr(contract, "_SETUP_COST", -1e18 if request.param == "residues" else 1e18)
    if request.param == "residues":
        monkeypatch.setattr(contract, "_RESIDUE_COST", 0.0)
    return request.param


@pytest.mark.parametrize("precision, spread", [(256, 3), (53, 2), (24, 0), (1, 0), (256, 60), (200, 700), (300, 5000)])
@pytest.mark.parametrize("bits", [2, 3, 24, 53, 64, 100, 256, None])
def test_entries_are_exact_values_rounded_once(way, precision, spread, bits):
    rng = random.Random(f"{precision} {spread} {bits}")
    check(matrix(rng, (2, 3, 9), precision, spread), matrix(rng, (2, 9, 4), precision, spread), bits)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0), (1, 1, 7, 1), (3, 1, 1, 5)]
)
def test_sizes_zero_and_one(way, shape):
    rng = random.Random(1)
    count, rows, inner, columns = shape
    check(matrix(rng, (count, rows, inner), 80, 4), matrix(rng, (count, inner, columns), 80, 4), 64)


def test_rows_and_columns_of_zeros(way):
    rng = random.Random(2)
    left, right = matrix(rng, (1, 6, 40), 100, 3), matrix(rng, (1, 40, 6), 100, 3)
    left[0, 2, :] = ZERO
    right[0, :, 3] = ZERO
    check(left, right, 100)
    check(np.full((1, 6, 40), ZERO, dtype=object), right, 100)


def test_cancellation_leaves_the_exact_rest(way):
    """Large terms cancel, a tiny one is the sum; and all cancel to 0."""
    rng = random.Random(3)
    left, right = matrix(rng, (1, 4, 20), 120, 2, 0), matrix(rng, (1, 20, 4), 120, 2, 0)
    left[0, :, 10:] = negated(left[0, :, :10])
    right[0, 10:, :] = right[0, :10, :]
    assert all(one == 0 for one in contract.product(left, right, 64).ravel())
    left[0, 1, 15] = gmpy2.context(precision=600).add(left[0, 1, 15], mpfr(mpq(1, 2**400)))
    check(left, right, 64)


def test_ties_round_to_even(way):
    """1 + 2⁻⁶⁴ and 1 + 3·2⁻⁶⁴ lie half-way between neighbours of 64 bits; a bit more decides."""
    ones = gathered([mpfr(1)] * 3, (1, 3, 1))
    for tail, more in ((1, 0), (3, 0), (1, 1), (3, 1), (1, -1), (3, -1)):
        row = gathered([mpfr(1), mpfr(mpq(tail, 2**64)), mpfr(mpq(more, 2**300))], (1, 1, 3))
        check(row, ones, 64)
        check(negated(row), ones, 64)


def test_wild_rows_and_columns_among_ordinary_ones(monkeypatch):
    monkeypatch.setattr(contract, "_SETUP_COST", -1e18)
    rng = random.Random(4)
    left, right = matrix(rng, (2, 12, 30), 256, 2), matrix(rng, (2, 30, 11), 256, 2)
    left[0, 3, 4] = mpfr(mpq(3) * mpq(2) ** 90_000, 60)
    left[1, 5, 6] = mpfr(mpq(1, 2**70_000), 60)
    right[1, 7, 8] = mpfr(mpq(5) / mpq(2) ** 80_000, 60)
    wild = [(0, 3, 0), (0, 3, 10), (1, 5, 1), (1, 5, 8), (1, 0, 8), (1, 11, 8)]
    check(left, right, 256, [*wild, (0, 0, 0), (1, 11, 10), (0, 2, 8)])


def test_everything_wild():
    rng = random.Random(5)
    check(
        matrix(rng, (1, 5, 30), 64, 30_000),
        matrix(rng, (1, 30, 17), 64, 30_000),
        64,
        [(0, 0, 0), (0, 4, 16), (0, 2, 3)],
    )


@pytest.mark.parametrize("precision", [23, 24, 47, 48, 71, 239, 256, 263])
def test_integers_of_ones(monkeypatch, precision):
    """Mantissas of ones, where each digit carries into the next, also where the integer fills its digits to the last bit."""
    monkeypatch.setattr(contract, "_SETUP_COST", -1e18)
    rng = random.Random(precision)
    one = mpfr(mpq(2**precision - 1), precision)
    left, right = np.full((1, 3, 70), one, dtype=object), np.full((1, 70, 3), one, dtype=object)
    check(left, right, None)
    left = gathered([rng.choice([one, -one]) for _ in range(3 * 70)], (1, 3, 70))
    check(left, right, None)


@pytest.mark.parametrize("size, by_residues", [(3071, True), (3072, False)])
def test_the_longest_integers(monkeypatch, size, by_residues):
    """128 digits are the most; longer integers go by `fsum`."""
    monkeypatch.setattr(contract, "_SETUP_COST", -1e18)
    monkeypatch.setattr(contract, "_RESIDUE_COST", 0.0)
    monkeypatch.setattr(contract, "_PRODUCT_COST", 0.0)
    filled: list[int] = []
    fill = contract._fill

    def counted(*args):
        filled.append(1)
        fill(*args)

    monkeypatch.setattr(contract, "_fill", counted)
    one = mpfr(mpq(2**size - 1), size)
    left, right = gathered([one, -one, one, one], (1, 2, 2)), gathered([one, one, one, -one], (1, 2, 2))
    check(left, right, None)
    assert bool(filled) == by_residues


def test_long_integers_among_short_ones(monkeypatch):
    """A row beyond the longest integers leaves the others to residues."""
    monkeypatch.setattr(contract, "_SETUP_COST", -1e18)
    plain: list[int] = []
    make = contract._dot

    def counted(*args):
        entry = make(*args)

        def one(*rows):
            plain.append(1)
            return entry(*rows)

        return one

    monkeypatch.setattr(contract, "_dot", counted)
    rng = random.Random(8)
    left, right = matrix(rng, (1, 20, 40), 64, 2), matrix(rng, (1, 40, 20), 64, 2)
    left[0, 7, 5] = mpfr(mpq(1) * mpq(2) ** 4000)
    check(left, right, 64)
    assert len(plain) == 20


def test_the_largest_digits_do_not_overflow():
    """Many terms whose mantissas are all ones."""
    count = 128 * 520
    one = mpfr(mpq(2**255 - 1, 2**255), 256)
    left, right = np.full((1, 1, count), one, dtype=object), np.full((1, count, 1), one, dtype=object)
    value = count * fraction(one) ** 2
    assert fraction(contract.product(left, right, 256)[0, 0, 0]) == rounded(value, 256)
    assert fraction(contract.product(negated(left), right, 256)[0, 0, 0]) == -rounded(value, 256)


def test_blocks(monkeypatch):
    """Results do not depend on how many matrices, rows, columns, terms and numbers are taken at once."""
    monkeypatch.setattr(contract, "_SETUP_COST", -1e18)
    rng = random.Random(7)
    left, right = matrix(rng, (2, 5, 35), 256, 3), matrix(rng, (2, 35, 4), 256, 3)
    expected = contract.product(left, right, 256).tolist()
    for block, strip, tile, chunk, summed in (
        (1, 1 << 12, 64, 128, 64),
        (5000, 5, 2, 7, 3),
        (1 << 22, 1, 3, 1, 1),
        (40_000, 33, 64, 33, 64),
    ):
        monkeypatch.setattr(contract, "_BLOCK", block)
        monkeypatch.setattr(contract, "_STRIP", strip)
        monkeypatch.setattr(residues, "_TILE", tile)
        monkeypatch.setattr(residues, "_CHUNK", chunk)
        monkeypatch.setattr(residues, "_SUMMED", summed)
        monkeypatch.setattr(residues, "_STRIP", strip)
        assert contract.product(left, right, 256).tolist() == expected


@settings(max_examples=60)
@given(st.data())
def test_any_matrices(data):
    rng = random.Random(data.draw(st.integers()))
    count, rows, inner, columns = (data.draw(st.integers(0, limit)) for limit in (2, 4, 12, 4))
    precision = data.draw(st.integers(1, 320))
    spread = data.draw(st.sampled_from([0, 5, 40, 300, 3000]))
    bits = data.draw(st.integers(2, 300) | st.none())
    left = matrix(rng, (count, rows, inner), precision, spread, data.draw(st.sampled_from([0.0, 0.5])))
    right = matrix(rng, (count, inner, columns), data.draw(st.integers(1, 320)), spread, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "_SETUP_COST", data.draw(st.sampled_from([-1e18, 1e18])))
        check(left, right, bits)


def test_overflow_is_reported(way):
    huge = np.full((1, 4, 30), mpfr(mpq(1), 64), dtype=object)
    huge[0, 0, 0] = gmpy2.set_exp(mpfr(1), (1 << 29) + 5)
    with pytest.raises((OverflowError, gmpy2.OverflowResultError)):
        contract.product(huge, huge.transpose(0, 2, 1), 64)


def test_exact_sums():
    terms = [mpfr(mpq(1, 2**3000)), mpfr(1), mpfr(-1), mpfr(0)]
    assert fraction(contract.exact_sum(terms)) == Fraction(1, 2**3000)
    assert fraction(contract.exact_sum([*terms, mpfr(3)])) == 3 + Fraction(1, 2**3000)
    assert contract.exact_sum([]) == 0
    with pytest.raises(OverflowError):
        contract.exact_sum([mpfr(1), gmpy2.set_exp(mpfr(1), -(1 << 25))])
