"""Products of integer matrices by their residues modulo primes, in doubles and without rounding.

An integer of some hundred bits is cut into balanced digits of 24 bits; a product with a table of powers gives its residues modulo
as many primes below 2²⁴ as the result needs. The matrices of residues are multiplied as matrices of doubles: all partial sums are
integers of at most 53 bits, so every order and every fused operation gives the same, and numpy's BLAS may do it. The Chinese
remainder theorem in its explicit form (Bernstein 1995) makes digits of the result of the residues, again by a product with a table.

At 256 bits that is some 23 products of matrices of doubles, where products of all pairs of digits would be 144.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import gmpy2
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

WIDTH: Final = 24
"""Bits of a digit."""

MOST_DIGITS: Final = 128
"""Digits of an integer; more would carry the products with a table past 2⁵³."""

_CHUNK: Final = 128  # terms: with residues below 2²³ in size a sum stays below 2⁵³
_LARGEST: Final = (1 << WIDTH) - (1 << 12)  # a prime below it leaves residues below 2²³ in size, rounding included
_SUMMED: Final = 64  # products of a residue (2²³) and a digit (2²⁴) that stay below 2⁵³ together
_STRIP: Final = 1 << 13  # numbers that are reduced at once: two arrays of 64 kB stay in the cache
_TILE: Final = 64  # rows and columns of a result that are computed at once
_ALONE: Final = 1 << 18
"""Multiplications of one product of matrices up to which OpenBLAS does not call its other threads. They gain little here, and where
other processes want the cores they wait for each other."""


@dataclass(frozen=True, slots=True)
class Moduli:
    """Primes whose product M exceeds four times the size of any result; `tables` are described where they are used."""

    primes: Doubles
    inverses: Doubles
    powers: Doubles
    cofactors: Doubles
    digits: Doubles


def moduli(bits: int) -> Moduli:
    """Primes for results below 2^bits in size."""
    return _moduli(-(-(bits + 4) * 100 // 2399))  # each prime has more than 23.99 bits


@cache
def _moduli(count: int) -> Moduli:
    primes: list[int] = [int(gmpy2.prev_prime(_LARGEST))]
    while len(primes) < count:
        primes.append(int(gmpy2.prev_prime(primes[-1])))
    product: Any = gmpy2.mpz(1)
    for prime in primes:
        product *= prime
    # powers[i, l] is 2^(24·l) modulo prime i, the smallest in size.
    powers = [[_centred(pow(2, WIDTH * place, p), p) for place in range(MOST_DIGITS)] for p in primes]
    # cofactors[i] is the inverse of M / pᵢ modulo pᵢ; digits[:, i] are the digits of M / pᵢ, the last column M's.
    cofactors = [_centred(int(gmpy2.invert(product // p, p)), p) for p in primes]
    places = range(-(-product.bit_length() // WIDTH))
    wholes = [*(product // p for p in primes), product]
    digits = [[int((whole >> (WIDTH * place)) & ((1 << WIDTH) - 1)) for whole in wholes] for place in places]
    floats = np.array(primes, dtype=np.float64)
    tables = (np.array(table, dtype=np.float64) for table in (powers, cofactors, digits))
    return Moduli(floats, 1.0 / floats, *tables)


def _centred(residue: int, prime: int) -> int:
    return residue - prime if 2 * residue > prime else residue


def _reduce(values: Doubles, to: Moduli) -> None:
    """Integers below 2⁵³ in size modulo the primes, along the first axis, in place: at most p/2 + 2 in size afterwards."""
    buffer = np.empty(_STRIP)
    for row, prime, inverse in zip(values.reshape(len(values), -1), to.primes.tolist(), to.inverses.tolist()):
        for start in range(0, len(row), _STRIP):
            strip = row[start : start + _STRIP]
            quotient = buffer[: len(strip)]
            # The quotient has at most 30 bits and is right to one; its product with the prime and the difference are exact.
            np.multiply(strip, inverse, out=quotient)
            np.rint(quotient, out=quotient)
            np.multiply(quotient, prime, out=quotient)
            np.subtract(strip, quotient, out=strip)


def _by_table(table: Doubles, values: Doubles) -> Doubles:
    """A product with a table, some columns at a time."""
    step = max(1, _ALONE // table.size)
    result = np.empty((len(table), values.shape[1]))
    for start in range(0, values.shape[1], step):
        np.matmul(table, values[:, start : start + step], out=result[:, start : start + step])
    return result


def residues(digits: Doubles, to: Moduli) -> Doubles:
    """`[P, n]`: the residues of n integers given by balanced digits `[L, n]`. The sums are below L · 2²³ · 2²³."""
    values = _by_table(to.powers[:, : len(digits)], digits)
    _reduce(values, to)
    return values


def multiply(left: Doubles, right: Doubles, to: Moduli) -> Doubles:
    """`[P, T, M, K]` times `[P, T, K, N]`, modulo the primes."""
    primes, count, rows, inner = left.shape
    columns = right.shape[3]
    result = np.empty((primes, count, rows, columns))
    tall, broad = min(rows, _TILE), min(columns, _TILE)
    chunk = min(inner, _CHUNK, max(1, _ALONE // (tall * broad)))
    for top in range(0, rows, tall):
        for first in range(0, columns, broad):
            a, b = left[:, :, top : top + tall], right[:, :, :, first : first + broad]
            total = np.matmul(a[:, :, :, :chunk], b[:, :, :chunk])
            _reduce(total, to)
            for start in range(chunk, inner, chunk):
                term = np.matmul(a[:, :, :, start : start + chunk], b[:, :, start : start + chunk])
                _reduce(term, to)
                total += term  # at most 2²³ for each chunk: 2³⁰ chunks would fit
            result[:, :, top : top + tall, first : first + broad] = total
    if inner > chunk:
        _reduce(result, to)
    return result


def recombine(values: Doubles, to: Moduli) -> NDArray[np.int64]:
    """`[D, n]`: digits, signed and not carried, of the integers with these residues that are smallest in size.

    With y = residue · cofactor modulo p the integer is Σ y · (M / p) − k · M, where k is Σ y / p rounded: the integer itself is
    less than M / 4 in size, so the sum is within ¼ of k, and its rounding errors are of no account.
    """
    y = values * to.cofactors[:, np.newaxis]
    _reduce(y, to)
    k = np.rint(np.einsum("pn,p->n", y, to.inverses))
    terms = np.concatenate([y, -k[np.newaxis]])
    result = np.zeros((len(to.digits), values.shape[1]), dtype=np.int64)
    for start in range(0, len(terms), _SUMMED):
        some = slice(start, start + _SUMMED)
        result += _by_table(to.digits[:, some], terms[some]).astype(np.int64)
    return result
