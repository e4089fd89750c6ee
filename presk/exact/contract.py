"""Products of matrices of arbitrary-precision reals: each entry is its exact value, rounded once at the end.

Each row of the left matrix and each column of the right one is brought to a common exponent, so its entries are integers; these are
multiplied exactly (`residues`), and MPFR rounds what comes out. At 256 bits a multiplication and addition takes 10 to 30 ns, the less
the larger the matrices.

A row whose exponents are so far apart that its integers would be long is left to `fsum` of exact products, which is MPFR's correctly
rounded sum: slower by two orders of magnitude, and indifferent to exponents. Small products go that way altogether.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import gmpy2
import numpy as np
from numpy.typing import NDArray

from presk.exact.codec import (
    ZERO,
    Bits,
    Ints,
    Limbs,
    Scalar,
    pack,
    shifted,
    total_lengths,
    trailing_zeros,
    unpack,
    working,
)
from presk.exact.residues import MOST_DIGITS, WIDTH, Doubles, Moduli, moduli, multiply, recombine, residues

Objects = NDArray[np.object_]

_LIMB: Final = 64
_BLOCK: Final = 1 << 22  # residues that are held at once, of either matrix and of the result: 32 MB
_STRIP: Final = 1 << 12  # numbers that are made of residues at once: their digits stay in the second-level cache
_USUAL_SUM: Final = 1024  # bits that most exact sums need no more than
_PRODUCT_COST: Final = 0.05  # ns for a multiplication of residues
_RESIDUE_COST: Final = 30.0  # ns for a number's way in or out, for each of its residues
_PLAIN_COST: Final = 220.0  # ns for an exact multiplication and its share of `fsum`
_SETUP_COST: Final = 2e6  # ns for a product by residues, however small
_NUMBER_COST: Final = 600.0  # ns for a number's way in or out, as a rule
_MOST_BITS: Final = 1 << 24  # of an exact sum that is not to be rounded


def product(left: Objects, right: Objects, bits: int | None) -> Objects:
    """`[T, M, K]` times `[T, K, N]`, `[T, M, N]`: exact values rounded to nearest even at `bits`, or left exact if None.

    OverflowError where an exponent leaves MPFR's range.
    """
    count, rows, inner = left.shape
    columns = right.shape[2]
    result = np.full((count, rows, columns), ZERO, dtype=object)
    if result.size == 0 or inner == 0:
        return result
    numbers = left.size + right.size + result.size
    if result.size * inner * _PLAIN_COST <= _SETUP_COST + numbers * _NUMBER_COST:
        _plain(left, right, result, bits, None, None)
        return result
    one, other = unpack(left.ravel().tolist()), unpack(right.ravel().tolist())
    low_left, left_bits = _span(one, (count, rows, inner), 2)
    low_right, right_bits = _span(other, (count, inner, columns), 1)
    left_cap = _cap(left_bits.ravel(), float(np.median(right_bits)), inner, columns)
    right_cap = _cap(right_bits.ravel(), float(max(left_cap, 0)), inner, rows)
    wild_rows, wild_columns = left_bits > left_cap, right_bits > right_cap
    if wild_rows.all() or wild_columns.all():
        _plain(left, right, result, bits, None, None)
        return result
    # Wild rows and columns count as zero here.
    left_size = int(np.where(wild_rows, 0, left_bits).max())
    right_size = int(np.where(wild_columns, 0, right_bits).max())
    to = moduli(left_size + right_size + inner.bit_length())
    places = (np.arange(one.sign.size).reshape(left.shape), np.arange(other.sign.size).reshape(right.shape))
    sides = (
        _Side(one, low_left[:, :, np.newaxis], wild_rows[:, :, np.newaxis], places[0], left_size),
        _Side(other, low_right[:, np.newaxis], wild_columns[:, np.newaxis], places[1], right_size),
    )
    for part in _blocks(result.shape, inner, len(to.primes)):
        _fill(result, part, sides, to, bits)
    if wild_rows.any() or wild_columns.any():
        _plain(left, right, result, bits, wild_rows, wild_columns)
    return result


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the matrices: its numbers; for each row (or column) the weight of its lowest bit and whether it is left out, both to be
    broadcast; where the numbers stand; the size of its integers in bits."""

    bits: Bits
    lows: Ints
    wild: NDArray[np.bool_]
    places: Ints
    size: int

    def residues(self, part: tuple[slice, ...], to: Moduli) -> Doubles:
        """`[P, …]`: the residues of a part of the matrix."""
        places = self.places[part]
        taken = places.ravel()
        rows = tuple(one if length > 1 else slice(None) for one, length in zip(part, self.lows.shape))
        lows = np.broadcast_to(self.lows[rows], places.shape).ravel()
        wild = np.broadcast_to(self.wild[rows], places.shape).ravel()
        sign = np.where(wild, 0, self.bits.sign[taken])
        moved = self.bits.exponent[taken] - _LIMB * len(self.bits.limbs) - lows
        count = -(-(self.size + 1) // WIDTH)
        digits = _digits(self.bits.limbs[:, taken], sign, np.where(sign == 0, 0, moved), count)
        return residues(digits, to).reshape(len(to.primes), *places.shape)


def _blocks(shape: tuple[int, ...], inner: int, primes: int) -> Iterator[tuple[slice, slice, slice]]:
    """Parts of the result such that the residues of both matrices and of the result fit in a block."""
    count, rows, columns = shape
    tall = min(rows, max(1, _BLOCK // (primes * inner)))
    broad = min(columns, max(1, _BLOCK // (primes * max(inner, tall))))
    together = min(count, max(1, _BLOCK // (primes * max(tall * inner, inner * broad, tall * broad))))
    for first in range(0, count, together):
        for top in range(0, rows, tall):
            for left in range(0, columns, broad):
                yield slice(first, first + together), slice(top, top + tall), slice(left, left + broad)


def _fill(
    result: Objects, part: tuple[slice, slice, slice], sides: tuple[_Side, _Side], to: Moduli, bits: int | None
) -> None:
    """Computes a part of the result."""
    count, rows, columns = part
    left = sides[0].residues((count, rows, slice(None)), to)
    right = sides[1].residues((count, slice(None), columns), to)
    values = multiply(left, right, to)
    scale = sides[0].lows[count, rows] + sides[1].lows[count, :, columns]
    flat, scales = values.reshape(len(values), -1), scale.ravel()
    numbers: list[Scalar] = []
    for start in range(0, len(scales), _STRIP):
        strip = slice(start, start + _STRIP)
        numbers += _numbers(recombine(flat[:, strip], to), scales[strip], bits)
    target = result[part]
    target[...] = np.fromiter(numbers, dtype=object, count=len(numbers)).reshape(target.shape)


def _span(bits: Bits, shape: tuple[int, int, int], axis: int) -> tuple[Ints, Ints]:
    """For each row (axis 2) or column (axis 1): the weight of its lowest bit, and how many bits reach up to its highest.

    Rows of zeros have 0 and 0.
    """
    nonzero = (bits.sign != 0).reshape(shape)
    lowest = (bits.exponent - _LIMB * len(bits.limbs) + trailing_zeros(bits.limbs)).reshape(shape)
    some = nonzero.any(axis=axis)
    low = np.where(nonzero, lowest, np.iinfo(np.int64).max).min(axis=axis)
    top = np.where(nonzero, bits.exponent.reshape(shape), np.iinfo(np.int64).min).max(axis=axis)
    return np.where(some, low, 0), np.where(some, top, 0) - np.where(some, low, 0)


def _cap(sizes: Ints, other: float, inner: int, across: int) -> int:
    """The number of bits up to which rows go by residues, so that the time is least; −1 for none.

    `other` is the size of the other matrix's columns in bits, `across` how many they are, `inner` their length.
    """
    ordered = np.sort(sizes)
    primes = (ordered + other) // WIDTH + 2
    products = inner * across * primes * _PRODUCT_COST
    passes = (inner + across) * primes * _RESIDUE_COST
    by_residues = np.arange(1, len(ordered) + 1) * (products + passes)
    plain = np.arange(len(ordered) - 1, -1, -1) * (inner * across * _PLAIN_COST)
    fits = int(np.searchsorted(ordered, WIDTH * MOST_DIGITS))
    if fits == 0:
        return -1
    best = int(np.argmin((by_residues + plain)[:fits]))
    return -1 if by_residues[best] > (best + 1) * inner * across * _PLAIN_COST else int(ordered[best])


def _digits(limbs: Limbs, sign: NDArray[np.int8], shift: Ints, count: int) -> Doubles:
    """`[count, n]`: the integers `sign · limbs · 2^shift`, of fewer than 24 · count bits, in balanced digits of 24 bits, the least
    significant first: at most 2²³ in size.

    The last digit is not balanced, since nothing takes its carry: it is below 2²³, and at most 2²³ with the carry it gets.
    """
    aligned = shifted(limbs, shift, -(-(count * WIDTH) // _LIMB) + 1)
    mask, half = np.uint64((1 << WIDTH) - 1), 1 << (WIDTH - 1)
    carry = np.zeros(limbs.shape[1], dtype=np.int64)
    result = np.empty((count, limbs.shape[1]))
    factor = sign.astype(np.float64)
    for place in range(count):
        limb, offset = divmod(place * WIDTH, _LIMB)
        digit = aligned[limb] >> np.uint64(offset)
        if offset + WIDTH > _LIMB:
            digit = digit | (aligned[limb + 1] << np.uint64(_LIMB - offset))
        value = (digit & mask).astype(np.int64) + carry
        if place < count - 1:
            carry = (value >= half).astype(np.int64)
            value -= carry << WIDTH
        np.multiply(value, factor, out=result[place])
    return result


def _numbers(sums: NDArray[np.int64], scale: Ints, bits: int | None) -> list[Scalar]:
    """The numbers Σ sums[i] · 2^(24·i + scale), rounded at `bits`, or exact. `sums` is used up."""
    mask = (1 << WIDTH) - 1
    for place in range(len(sums) - 1):
        sums[place + 1] += sums[place] >> WIDTH
        sums[place] &= mask
    negative = sums[-1] < 0
    # The magnitude of a negative number is its digits' complements plus one. The last digit is short, since the numbers are below a
    # quarter of what all digits together can hold.
    flip = np.where(negative, -1, 0)
    carry = negative.astype(np.int64)
    limbs = np.zeros((-(-(len(sums) * WIDTH) // _LIMB) + 1, sums.shape[1]), dtype=np.uint64)
    for place, digit in enumerate(sums):
        value = ((digit ^ flip) & mask) + carry
        carry = value >> WIDTH
        word = (value & mask).astype(np.uint64)
        limb, offset = divmod(place * WIDTH, _LIMB)
        limbs[limb] |= word << np.uint64(offset)
        if offset + WIDTH > _LIMB:
            limbs[limb + 1] |= word >> np.uint64(_LIMB - offset)
    return normalized(limbs, negative, scale, bits)


def normalized(limbs: Limbs, negative: NDArray[np.bool_], scale: Ints, bits: int | None) -> list[Scalar]:
    """The numbers ± limbs · 2^scale, rounded at `bits`, or exact."""
    length = total_lengths(limbs)
    used = length - trailing_zeros(limbs)
    width = max(1, -(-int(used.max(initial=1)) // _LIMB))
    if bits is not None:
        width = min(width, bits // _LIMB + 1 + (bits % _LIMB > _LIMB - 2))
    moved = shifted(limbs, _LIMB * width - length, width)
    # Of bits that are cut off only whether one is set matters, since at least two lie between the last kept and them.
    moved[0] |= used > _LIMB * width
    sign = np.where(length == 0, 0, np.where(negative, -1, 1)).astype(np.int8)
    numbers = pack(sign, np.where(length == 0, 0, length + scale), moved, _LIMB * width)
    if bits is None:
        return numbers
    # `mpfr(number, bits)` rounds as well, and takes ten times as long.
    return list(map(working(bits).plus, numbers))


def _plain(
    left: Objects,
    right: Objects,
    result: Objects,
    bits: int | None,
    wild_rows: NDArray[np.bool_] | None,
    wild_columns: NDArray[np.bool_] | None,
) -> None:
    """Entry by entry: those of the given rows and columns, or all."""
    count, rows, columns = result.shape
    entry = _dot(_precision(left.ravel().tolist()) + _precision(right.ravel().tolist()), bits)
    for t in range(count):
        down = [right[t, :, j].tolist() for j in range(columns)]
        for i in range(rows):
            whole = wild_rows is None or wild_columns is None or wild_rows[t, i]
            if whole:
                places = list(range(columns))
            else:
                places = np.flatnonzero(wild_columns[t]).tolist() if wild_columns is not None else []
            if places:
                row = left[t, i].tolist()
                for j in places:
                    result[t, i, j] = entry(row, down[j])


def dot(left: list[Scalar], right: list[Scalar], bits: int | None) -> Scalar:
    """Σ left[k] · right[k], rounded once at `bits`, or exact if None (OverflowError beyond 2²⁴ bits)."""
    return _dot(_precision(left) + _precision(right), bits)(left, right)


def _dot(precision: int, bits: int | None) -> Callable[[list[Scalar], list[Scalar]], Scalar]:
    """`dot` of numbers whose products have at most so many bits."""
    multiply_exactly = working(max(2, precision)).mul
    add = exact_sum if bits is None else working(bits).fsum
    return lambda left, right: add(list(map(multiply_exactly, left, right)))


def _precision(numbers: list[Scalar]) -> int:
    return max(map(attrgetter("precision"), numbers), default=0)


def exact_sum(terms: list[Scalar]) -> Scalar:
    """Σ terms with no rounding; OverflowError beyond 2²⁴ bits."""
    usual = working(_USUAL_SUM)
    total = usual.fsum(terms)
    if not usual.inexact:
        return total
    nonzero = [x for x in terms if x != 0]
    if not nonzero:
        return ZERO
    top = max(map(gmpy2.get_exp, nonzero))
    low = min(gmpy2.get_exp(x) - x.precision for x in nonzero)
    precision = top - low + len(nonzero).bit_length()
    if precision > _MOST_BITS:
        raise OverflowError("an exact sum is too long")
    return working(max(2, precision)).fsum(nonzero)
