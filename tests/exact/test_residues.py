"""Residues at the limits of doubles: the largest digits, the largest primes, the most terms, the most digits.

The references are Python's integers. Where sums of doubles could leave 2⁵³, operands are of the largest size that is allowed, with the
signs that make the sum largest.
"""

import random

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.exact import residues
from presk.exact.residues import MOST_DIGITS, WIDTH, moduli, multiply, recombine

LIMIT = 1 << 53
LARGEST_DIGIT = 1 << (WIDTH - 1)


def primes_of(to):
    return [int(prime) for prime in to.primes]


def most_bits():
    """The size of the results of products of the longest integers, with 2³² terms."""
    return 2 * (WIDTH * MOST_DIGITS - 1) + 33


def as_ints(values):
    return [int(value) for value in values]


def whole_of(digits):
    """The integer with these digits, the least significant first."""
    return sum(int(digit) << (WIDTH * place) for place, digit in enumerate(digits))


@pytest.mark.parametrize("bits", [1, 20, 43, 44, 100, 521, 530, 2000, most_bits()])
def test_moduli(bits):
    """Different primes that leave residues below 2²³, with a product beyond four times any result; the largest there are."""
    primes = primes_of(moduli(bits))
    assert len(set(primes)) == len(primes)
    assert all(gmpy2.is_prime(prime) for prime in primes)
    assert gmpy2.prev_prime((1 << WIDTH) - (1 << 12)) == primes[0]
    assert primes[0] // 2 + 2 < LARGEST_DIGIT
    product = 1
    for prime in primes:
        product *= prime
    assert product > 4 << bits


def test_products_with_the_table_reach_but_do_not_pass_the_limit():
    """For each prime the digits that have the signs of its powers and are as large as digits are: the largest sums."""
    to = moduli(most_bits())
    assert MOST_DIGITS * LARGEST_DIGIT * (max(primes_of(to)) // 2) < LIMIT
    for sign in (1, -1):
        digits = np.where(to.powers.T >= 0, sign * LARGEST_DIGIT, -sign * LARGEST_DIGIT).astype(np.float64)
        assert digits.shape == (MOST_DIGITS, len(to.primes))
        found = residues.residues(digits, to)
        wholes = [whole_of(column) for column in digits.T.tolist()]
        for prime, row in zip(primes_of(to), found.tolist()):
            assert [(int(residue) - whole) % prime for residue, whole in zip(row, wholes)] == [0] * len(wholes)
            assert max(map(abs, row)) <= prime / 2 + 2


def test_reduction_of_the_largest_sums():
    """Next to the limit, and half-way between multiples of the primes, where a quotient rounds either way."""
    to = moduli(2000)
    largest = residues._CHUNK * (max(primes_of(to)) // 2 + 2) ** 2
    assert largest + max(primes_of(to)) // 2 + 2 < LIMIT
    rng = random.Random(1)
    rows = []
    for prime in primes_of(to):
        half_way = [prime * rng.randrange(largest // prime - 1) + (prime + off) // 2 for off in (-3, -1, 1, 3)]
        rows.append([largest, -largest, largest - 1, 0, 1, -1, prime, -prime, *half_way, *(-one for one in half_way)])
    values = np.array(rows, dtype=np.float64)
    assert values.astype(object).tolist() == rows
    residues._reduce(values, to)
    for prime, before, after in zip(primes_of(to), rows, values.tolist()):
        for value, residue in zip(before, as_ints(after)):
            assert (value - residue) % prime == 0
            assert abs(residue) <= prime / 2 + 2


@pytest.mark.parametrize("inner", [1, 63, 64, 65, 127, 128, 129, 256, 300])
def test_products_of_the_largest_residues(inner):
    """All residues as large as reduction leaves them, of one sign: sums of a chunk come within 2⁻¹¹ of the limit."""
    to = moduli(600)
    largest = np.array([prime // 2 + 2 for prime in primes_of(to)], dtype=np.float64)
    assert residues._CHUNK * float(largest.max()) ** 2 > LIMIT * (1 - 2.0**-10)
    left = np.broadcast_to(largest[:, None, None, None], (len(largest), 1, 2, inner)).copy()
    right = np.broadcast_to(largest[:, None, None, None], (len(largest), 1, inner, 3)).copy()
    left[:, :, 1] *= -1
    found = multiply(left, right, to)
    for at, prime in enumerate(primes_of(to)):
        exact = inner * (prime // 2 + 2) ** 2
        for row, value in ((0, exact), (1, -exact)):
            for residue in as_ints(found[at, 0, row]):
                assert (value - residue) % prime == 0
                assert abs(residue) <= prime / 2 + 2


@pytest.mark.parametrize("bits", [1, 20, 44, 530, 2000, most_bits()])
def test_the_largest_results_come_back(bits):
    """Up to the size that was asked for, and beyond it up to a quarter of the product of the primes."""
    to = moduli(bits)
    product = 1
    for prime in primes_of(to):
        product *= prime
    rng = random.Random(bits)
    limit = product // 4 - 1
    assert limit >= (1 << bits) - 1
    wholes = [0, 1, -1, (1 << bits) - 1, 1 - (1 << bits), limit, -limit]
    wholes += [rng.randint(-limit, limit) for _ in range(40)]
    values = np.array([[whole % prime for whole in wholes] for prime in primes_of(to)], dtype=np.float64)
    centred = values - np.where(values > to.primes[:, None] / 2, to.primes[:, None], 0)
    digits = recombine(centred, to)
    assert [whole_of(column) for column in digits.T.tolist()] == wholes


def test_the_largest_sums_of_recombination():
    """Where all multipliers are of the largest size and one sign, whatever integer that is."""
    to = moduli(most_bits())
    inverse = [pow(int(cofactor) % prime, -1, prime) for cofactor, prime in zip(to.cofactors, primes_of(to))]
    assert residues._SUMMED * ((1 << WIDTH) - 1) * LARGEST_DIGIT < LIMIT
    product = 1
    for prime in primes_of(to):
        product *= prime
    for sign in (1, -1):
        wanted = [sign * (prime // 2) for prime in primes_of(to)]
        whole = sum(y * (product // prime) for y, prime in zip(wanted, primes_of(to)))
        # Not an integer that is small against the product, so only up to a multiple of it.
        values = np.array([[(y * one) % prime] for y, one, prime in zip(wanted, inverse, primes_of(to))], dtype=float)
        digits = recombine(values - np.where(values > to.primes[:, None] / 2, to.primes[:, None], 0), to)
        assert (whole_of(digits[:, 0].tolist()) - whole) % product == 0


@given(st.data())
def test_any_integers(data):
    """Digits to residues, products, and back, against Python's integers."""
    count = data.draw(st.integers(1, 12))
    inner = data.draw(st.integers(1, 140))
    rng = random.Random(data.draw(st.integers()))
    digit = st.sampled_from([0, 1, -1, LARGEST_DIGIT, -LARGEST_DIGIT, LARGEST_DIGIT - 1])
    palette = data.draw(st.lists(digit, min_size=1, max_size=6))
    left = np.array([[rng.choice(palette) for _ in range(2 * inner)] for _ in range(count)], dtype=np.float64)
    right = np.array([[rng.choice(palette) for _ in range(inner)] for _ in range(count)], dtype=np.float64)
    to = moduli(2 * WIDTH * count + inner.bit_length())
    found = multiply(
        residues.residues(left, to).reshape(-1, 1, 2, inner), residues.residues(right, to).reshape(-1, 1, inner, 1), to
    )
    digits = recombine(found.reshape(len(to.primes), -1), to)
    ones, others = [whole_of(column) for column in left.T], [whole_of(column) for column in right.T]
    for row in range(2):
        assert whole_of(digits[:, row].tolist()) == sum(one * other for one, other in zip(ones[row * inner :], others))
