"""Many MPFR numbers at once as numpy arrays of their bits, and back.

gmpy2 exchanges a number's bits as a short byte string (`to_binary`, `from_binary`): eight bytes of tag, flags and precision,
four of exponent, then the limbs. Strings of one length are joined and read as one array, so a number costs some 70 ns in and
130 ns out, ten times less than by way of Python's integers. A number is `sign · (mantissa / 2^(64·W)) · 2^exponent` with W limbs,
the top bit of the mantissa set.

The layout is checked when the module is loaded, so a gmpy2 that has changed it is refused instead of misread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from gmpy2 import context, from_binary, mpfr, to_binary
from numpy.typing import NDArray

Scalar = Any
"""An mpfr; gmpy2 ships no types."""

Context = Any
"""A gmpy2 context; its methods compute at its precision."""

Limbs = NDArray[np.uint64]
"""Limbs of many numbers, `[W, n]`, the least significant first."""

Ints = NDArray[np.int64]

ZERO: Final[Scalar] = mpfr(0)
"""The one zero."""

_HEAD: Final = 12  # bytes before the limbs
_REGULAR: Final = 0x41  # of flags: a number that is not zero, infinite or NaN; limbs of 64 bits
_NEGATIVE: Final = 0x02
_NEGATIVE_EXPONENT: Final = 0x20
_LIMB: Final = 64
_RANGE: Final = 1 << 30  # of exponents


def _check_layout() -> None:
    """RuntimeError unless the byte strings are laid out as this module reads them."""
    # value, precision, then what is expected: flags, exponent, mantissa in limbs of 64 bits
    for value, precision, flags, exponent, mantissa in (
        (-1.5 * 2.0**-70, 100, 0x63, 69, 3 << 126),
        (1.125 * 2.0**300, 53, 0x41, 301, 9 << 60),
        (1.0, 64, 0x41, 1, 1 << 63),
    ):
        number = mpfr(value, precision)
        found = to_binary(number)
        expected = b"".join(
            (
                bytes((4, flags)),
                precision.to_bytes(4, "little"),
                exponent.to_bytes(4, "little"),
                mantissa.to_bytes(8 * -(-precision // _LIMB), "little"),
            )
        )
        if found[:2] + found[4:] != expected or from_binary(found) != number:
            raise RuntimeError("this release of gmpy2 lays its numbers out in another way")


_check_layout()


def working(precision: int) -> Context:
    """A context that rounds to nearest even and raises on division by zero, undefined operations and overflow."""
    return context(precision=precision, trap_divzero=True, trap_invalid=True, trap_overflow=True)


@dataclass(frozen=True, slots=True)
class Bits:
    """n numbers: `sign` is −1, 0 or 1, `exponent` 0 for a zero, and a zero's limbs are 0."""

    sign: NDArray[np.int8]
    exponent: Ints
    limbs: Limbs


def unpack(numbers: Sequence[Scalar]) -> Bits:
    """The bits of finite numbers of any precisions; W is that of the longest, at least 1."""
    strings = list(map(to_binary, numbers))
    count = len(strings)
    lengths = np.fromiter(map(len, strings), dtype=np.int64, count=count)
    sizes = np.unique(lengths).tolist()
    width = max([1, *((size - _HEAD) // 8 for size in sizes)])
    sign = np.zeros(count, dtype=np.int8)
    exponent = np.zeros(count, dtype=np.int64)
    limbs = np.zeros((width, count), dtype=np.uint64)
    for size in sizes:
        places = np.flatnonzero(lengths == size)
        if len(places) == count:
            joined = b"".join(strings)
        else:
            joined = b"".join([strings[place] for place in places.tolist()])
        raw = np.frombuffer(joined, dtype=np.uint8).reshape(len(places), size)
        flags = raw[:, 1]
        if size <= _HEAD:  # zeros; infinities and NaN, which are no reals, have the length of a zero
            continue
        power = raw[:, 8:12].copy().view("<u4")[:, 0].astype(np.int64)
        exponent[places] = np.where(flags & _NEGATIVE_EXPONENT, -power, power)
        sign[places] = np.where(flags & _NEGATIVE, -1, 1)
        words = raw[:, _HEAD:].copy().view("<u8")
        limbs[width - words.shape[1] :, places] = words.T
    return Bits(sign, exponent, limbs)


def pack(sign: NDArray[np.int8], exponent: Ints, limbs: Limbs, precision: int) -> list[Scalar]:
    """Numbers from their bits; `precision` is at most 64 W, and bits below it must be 0. Zeros share one object.

    What lies below MPFR's range, 2^(−2³⁰), becomes 0, as MPFR has it; OverflowError above 2^(2³⁰).
    """
    width, count = limbs.shape
    nonzero = (sign != 0) & (exponent > -_RANGE)
    if count and int(np.where(nonzero, exponent, 0).max()) >= _RANGE:
        raise OverflowError("an exponent is outside the range")
    size = _HEAD + 8 * width
    raw = np.zeros((count, size), dtype=np.uint8)
    raw[:, 0] = 4
    raw[:, 1] = _REGULAR | np.where(sign < 0, _NEGATIVE, 0) | np.where(exponent < 0, _NEGATIVE_EXPONENT, 0)
    raw[:, 4:8] = np.frombuffer(precision.to_bytes(4, "little"), dtype=np.uint8)
    raw[:, 8:12] = np.abs(exponent).astype("<u4").view(np.uint8).reshape(count, 4)
    raw[:, _HEAD:] = np.ascontiguousarray(limbs.T).astype("<u8", copy=False).view(np.uint8).reshape(count, 8 * width)
    if nonzero.all():
        return list(map(from_binary, raw.view(f"V{size}")[:, 0].tolist()))
    numbers = [ZERO] * count
    places = np.flatnonzero(nonzero)
    strings = raw[places].view(f"V{size}")[:, 0].tolist()
    for place, number in zip(places.tolist(), map(from_binary, strings)):
        numbers[place] = number
    return numbers


def from_doubles(values: NDArray[np.float64]) -> list[Scalar]:
    """The numbers that finite doubles are, exactly, at 53 bits."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.uint64) << np.uint64(11)
    sign = np.sign(mantissa).astype(np.int8)
    return pack(sign, exponent.astype(np.int64), whole[np.newaxis], 53)


def bit_lengths(values: Limbs) -> Ints:
    """The number of bits of each integer below 2⁶⁴; 0 for 0."""
    high = values >> np.uint64(32)
    upper = high != 0
    part = np.where(upper, high, values & np.uint64(0xFFFFFFFF)).astype(np.float64)  # exact, below 2³²
    return np.frexp(part)[1].astype(np.int64) + np.where(upper, 32, 0)


def trailing_zeros(limbs: Limbs) -> Ints:
    """The number of zero bits below the lowest set one, for each number; 0 for 0."""
    lowest, base = limbs[-1], np.full(limbs.shape[1], _LIMB * (len(limbs) - 1))
    for place in range(len(limbs) - 2, -1, -1):
        here = limbs[place] != 0
        lowest = np.where(here, limbs[place], lowest)
        base[here] = _LIMB * place
    found = base + bit_lengths(lowest & (~lowest + np.uint64(1))) - 1
    return np.where(lowest == 0, 0, found)


def total_lengths(limbs: Limbs) -> Ints:
    """The number of bits of each number; 0 for 0."""
    highest, base = limbs[0], np.zeros(limbs.shape[1], dtype=np.int64)
    for place in range(1, len(limbs)):
        here = limbs[place] != 0
        highest = np.where(here, limbs[place], highest)
        base[here] = _LIMB * place
    return base + bit_lengths(highest)


def shifted(limbs: Limbs, shift: Ints, width: int) -> Limbs:
    """Each number times 2^shift, on `width` limbs. Bits that leave at either end are lost."""
    count = limbs.shape[1]
    last = len(limbs) + 1
    padded = np.zeros((last + 1, count), dtype=np.uint64)
    padded[1:-1] = limbs
    flat = padded.ravel()
    left = (shift & (_LIMB - 1)).astype(np.uint64)
    right = np.uint64(_LIMB - 1) - left
    # Limb `place` of the result begins in the padded limb `place + 1 − ⌊shift / 64⌋`.
    start = 1 - (shift >> 6)
    columns = np.arange(count)
    result = np.empty((width, count), dtype=np.uint64)
    below = flat.take(np.minimum(np.maximum(start - 1, 0), last) * count + columns)
    for place in range(width):
        here = flat.take(np.minimum(np.maximum(start + place, 0), last) * count + columns)
        result[place] = (here << left) | ((below >> np.uint64(1)) >> right)
        below = here
    return result
