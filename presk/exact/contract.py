"""Products of matrices of arbitrary-precision reals: each entry is its exact value, rounded once at the end.

Each row of the left matrix and each column of the right one is brought to a common exponent, so its entries are integers, and
these are cut into balanced digits of some 22 bits. The products of the digit matrices are then products of matrices of doubles
whose partial sums are integers below 2⁵³: exact in any order, with or without fused operations, so the BLAS of numpy computes
them. (Ozaki, Ogita, Oishi, Rump 2012, with integers in place of a splitting by rounding.) Sums of digit products of one weight,
a carry pass, and one rounding by MPFR finish it. At 256 bits this takes some 6 ns per multiplication and addition.

A row whose exponents are so far apart that its digits would be many is left to `fsum` of exact products, which is MPFR's
correctly rounded sum: slower by two orders of magnitude, and indifferent to exponents. Small products go that way altogether.
"""

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

Objects = NDArray[np.object_]

_LIMB: Final = 64
_CHUNK: Final = 128  # terms of a sum that one product of digit matrices covers
_CHUNKS: Final = 512  # of them may be added up before the carries must go: 2⁵³ · 2⁹ stays below 2⁶³
_DOUBLE: Final = 53
_TILE: Final = 64  # rows and columns of the result that are computed at once
_ALONE: Final = 1 << 18
"""Multiplications of a product of matrices up to which OpenBLAS does not call its other threads. They gain little here, and where
other processes want the cores they wait for each other."""

_BLOCK: Final = 1 << 22  # digits that are held at once, of either matrix or of the result: 32 MB
_SMALL: Final = 2048  # multiplications below which setting up costs more than it saves
_USUAL_WIDTH: Final = 22
_USUAL_SUM: Final = 1024  # bits that most exact sums need no more than
_PRODUCT_COST: Final = 0.05  # ns for a multiplication of digits
_DIGIT_COST: Final = 20.0  # ns for taking a digit out of a number, or for carrying one of the result
_PLAIN_COST: Final = 200.0  # ns for an exact multiplication and its share of `fsum`
_MOST_DIGITS: Final = 256
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
    if not by_blas(left, right):
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
    left_size = int(np.where(wild_rows, 0, left_bits).max())
    right_size = int(np.where(wild_columns, 0, right_bits).max())
    width = _digit_width(min(inner, _CHUNK), left_size, right_size)
    plan = _Plan(width, -(-(left_size + 1) // width), -(-(right_size + 1) // width))
    _by_digits(one, other, low_left, low_right, wild_rows, wild_columns, plan, result, bits, inner)
    if wild_rows.any() or wild_columns.any():
        _plain(left, right, result, bits, wild_rows, wild_columns)
    return result


def by_blas(left: Objects, right: Objects) -> bool:
    """Whether a product is large enough for digits."""
    return bool(left.size * right.shape[2] > _SMALL)


class _Plan:
    """The width of digits in bits, and how many of them a number of either matrix has."""

    def __init__(self, width: int, left: int, right: int) -> None:
        self.width = width
        self.left = left
        self.right = right


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
    """The number of bits up to which rows go by digits, so that the time is least.

    `other` is the size of the other matrix's columns in bits, `across` how many they are, `inner` their length.
    """
    ordered = np.sort(sizes)
    digits, others = ordered // _USUAL_WIDTH + 1, other // _USUAL_WIDTH + 1
    products = inner * across * digits * others * _PRODUCT_COST
    passes = (inner * digits + across * (digits + others)) * _DIGIT_COST
    by_digits = np.arange(1, len(ordered) + 1) * (products + passes)
    plain = np.arange(len(ordered) - 1, -1, -1) * (inner * across * _PLAIN_COST)
    best = int(np.argmin(by_digits + plain))
    if by_digits[best] > (best + 1) * inner * across * _PLAIN_COST or digits[best] > _MOST_DIGITS:
        return -1
    return int(ordered[best])


def _digit_width(inner: int, left: int, right: int) -> int:
    """The widest digits whose products, over all pairs of one weight and `inner` terms, add up below 2⁵³."""
    for width in range(26, 1, -1):
        pairs = min(-(-(left + 1) // width), -(-(right + 1) // width))
        if pairs * inner << (2 * width - 2) <= 1 << _DOUBLE:
            return width
    raise AssertionError("unreachable: the chunk and the number of digits are bounded")


def _digits(limbs: Limbs, sign: NDArray[np.int8], shift: Ints, width: int, count: int) -> NDArray[np.float64]:
    """`[count, n]`: the integers `sign · limbs · 2^shift` in balanced digits of base 2^width, the least significant first."""
    aligned = shifted(limbs, shift, -(-(count * width) // _LIMB) + 1)
    mask, half = np.uint64((1 << width) - 1), 1 << (width - 1)
    carry = np.zeros(limbs.shape[1], dtype=np.int64)
    result = np.empty((count, limbs.shape[1]))
    factor = sign.astype(np.float64)
    for place in range(count):
        limb, offset = divmod(place * width, _LIMB)
        digit = aligned[limb] >> np.uint64(offset)
        if offset + width > _LIMB:
            digit = digit | (aligned[limb + 1] << np.uint64(_LIMB - offset))
        value = (digit & mask).astype(np.int64) + carry
        carry = (value >= half).astype(np.int64)
        np.multiply(value - (carry << width), factor, out=result[place])
    return result


def _by_digits(
    one: Bits,
    other: Bits,
    low_left: Ints,
    low_right: Ints,
    wild_rows: NDArray[np.bool_],
    wild_columns: NDArray[np.bool_],
    plan: _Plan,
    result: Objects,
    bits: int | None,
    inner: int,
) -> None:
    """Fills the result block by block; wild rows and columns count as zero."""
    count, rows, columns = result.shape
    weights = plan.left + plan.right - 1
    together = max(1, _BLOCK // max(plan.right * inner * columns, 1))  # matrices at a time
    for first in range(0, count, together):
        last = min(first + together, count)
        taken = slice(first * inner * columns, last * inner * columns)
        shift = _shift(other, taken, np.repeat(low_right[first:last, np.newaxis], inner, axis=1))
        sign = np.where(np.repeat(wild_columns[first:last, np.newaxis], inner, axis=1).ravel(), 0, other.sign[taken])
        digits = _digits(other.limbs[:, taken], sign.astype(np.int8), shift, plan.width, plan.right)
        # Reversed, so that the pairs of one weight lie in one run of either matrix.
        right = digits.reshape(plan.right, last - first, inner, columns)[::-1].transpose(1, 0, 2, 3)
        per_row = (last - first) * max(plan.left * inner, (weights + 4) * columns)
        block = max(1, _BLOCK // per_row)
        for top in range(0, rows, block):
            bottom = min(top + block, rows)
            part = np.arange(count * rows * inner).reshape(count, rows, inner)[first:last, top:bottom].ravel()
            lows = low_left[first:last, top:bottom]
            shift = _shift(one, part, np.repeat(lows[:, :, np.newaxis], inner, axis=2))
            sign = np.where(
                np.repeat(wild_rows[first:last, top:bottom, np.newaxis], inner, axis=2).ravel(), 0, one.sign[part]
            )
            digits = _digits(one.limbs[:, part], sign.astype(np.int8), shift, plan.width, plan.left)
            left = digits.reshape(plan.left, last - first, bottom - top, inner).transpose(1, 2, 0, 3)
            sums = _multiply(left, right, plan)
            scale = lows[:, :, np.newaxis] + low_right[first:last, np.newaxis, :]
            rounded = _numbers(sums.reshape(len(sums), -1), plan.width, scale.ravel(), bits)
            target = result[first:last, top:bottom]
            target[...] = np.fromiter(rounded, dtype=object, count=len(rounded)).reshape(target.shape)


def _shift(bits: Bits, taken: slice | Ints, lows: Ints) -> Ints:
    """By how much each mantissa is moved for its row's lowest bit to have weight 1; 0 for zeros."""
    moved = bits.exponent[taken] - _LIMB * len(bits.limbs) - lows.ravel()
    # A zero is moved nowhere, and a wild row's entries, which are not used, not far.
    return np.clip(np.where(bits.sign[taken] == 0, 0, moved), -(1 << 40), 1 << 40)


def _multiply(left: NDArray[np.float64], right: NDArray[np.float64], plan: _Plan) -> NDArray[np.int64]:
    """`[T, M, L, K]` and `[T, L', K, N]` (reversed in L'): the digits of the product, `[weight, T, M, N]`, not carried."""
    count, rows, _, inner = left.shape
    columns = right.shape[3]
    weights = plan.left + plan.right - 1
    extra = (inner.bit_length() + 3) // plan.width + 2
    sums = np.zeros((weights + extra, count, rows, columns), dtype=np.int64)
    tall, broad = min(rows, _TILE), min(columns, _TILE)
    chunk = min(inner, _CHUNK, max(1, _ALONE // (tall * broad)))
    for number, start in enumerate(range(0, inner, chunk)):
        end = min(start + chunk, inner)
        for top in range(0, rows, tall):
            a = left[:, top : top + tall]
            for first in range(0, columns, broad):
                b = right[:, :, :, first : first + broad]
                target = sums[:, :, top : top + tall, first : first + broad]
                for weight in range(weights):
                    low = max(0, weight - plan.right + 1)
                    high = min(weight, plan.left - 1) + 1
                    total = np.zeros(target.shape[1:])
                    for place in range(low, high):
                        # The pair's other digit; the right matrix is reversed.
                        other = plan.right - 1 - (weight - place)
                        total += np.matmul(a[:, :, place, start:end], b[:, other, start:end])
                    target[weight] += total.astype(np.int64)
        if (number + 1) % _CHUNKS == 0:
            _carry(sums, plan.width)
    return sums


def _carry(sums: NDArray[np.int64], width: int) -> None:
    """Brings all digits but the last into [0, 2^width), in place."""
    mask = (1 << width) - 1
    for place in range(len(sums) - 1):
        sums[place + 1] += sums[place] >> width
        sums[place] &= mask


def _numbers(sums: NDArray[np.int64], width: int, scale: Ints, bits: int | None) -> list[Scalar]:
    """The numbers Σ sums[i] · 2^(width·i + scale), rounded at `bits`, or exact."""
    _carry(sums, width)
    mask = (1 << width) - 1
    negative = sums[-1] < 0
    # The magnitude of a negative number is its digits' complements plus one.
    flip = np.where(negative, -1, 0)
    carry = negative.astype(np.int64)
    size = -(-(len(sums) * width) // _LIMB) + 1
    limbs = np.zeros((size, sums.shape[1]), dtype=np.uint64)
    for place, digit in enumerate(sums):
        value = ((digit ^ flip) & mask) + carry
        carry = value >> width
        word = (value & mask).astype(np.uint64)
        limb, offset = divmod(place * width, _LIMB)
        limbs[limb] |= word << np.uint64(offset)
        if offset + width > _LIMB:
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
                    result[t, i, j] = dot(row, down[j], bits)


def dot(left: list[Scalar], right: list[Scalar], bits: int | None) -> Scalar:
    """Σ left[k] · right[k], rounded once at `bits`, or exact if None (OverflowError beyond 2²⁴ bits)."""
    precision = max(2, max((x.precision for x in left), default=0) + max((x.precision for x in right), default=0))
    terms = list(map(working(precision).mul, left, right))
    if bits is None:
        return exact_sum(terms)
    return working(bits).fsum(terms)


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
