"""Whether sums of multiples in given ranges can be zero: the arithmetic behind "different iterations touch different elements".

The difference of two addresses is a sum of digits `stride · x`, `low ≤ x ≤ high`, each x by itself, and an offset in an interval.
It is never zero if, for some of the digits, those with the least strides, added to the interval as ranges, the interval holds no
multiple of what divides all other strides. Else the digit of the greatest stride is taken at each of the few values at which the
rest can make up for it. This decides dense and padded arrays in any order of axes, tiles of them, windows of several rows, and
interleaved ones; it gives up (False) where the greatest digit leaves many cases.
"""

import math
from collections.abc import Iterable
from typing import Final

Digit = tuple[int, int, int]
"""`stride, low, high`."""

CASES: Final = 4
"""At most so many values of one digit are tried."""


def merged(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Digits of the same value with positive strides, one for each, the least first."""
    ranges: dict[int, tuple[int, int]] = {}
    for stride, low, high in digits:
        if stride == 0 or (low == 0 and high == 0):
            continue
        if stride < 0:
            stride, low, high = -stride, -high, -low
        before = ranges.get(stride, (0, 0))
        ranges[stride] = before[0] + low, before[1] + high
    return tuple((stride, low, high) for stride, (low, high) in sorted(ranges.items()))


def never_zero(digits: Iterable[Digit], low: int, high: int) -> bool:
    """Whether `Σ stride · x + offset`, `low ≤ offset ≤ high`, is zero for no choice; False where that is not seen."""
    return _never_zero(merged(digits), low, high)


def _never_zero(digits: tuple[Digit, ...], low: int, high: int) -> bool:
    divisors = [0]
    for stride, _, _ in reversed(digits):
        divisors.append(math.gcd(divisors[-1], stride))
    from_, to = low, high
    for place in range(len(digits) + 1):
        if _no_multiple(divisors[len(digits) - place], from_, to):
            return True
        if place < len(digits):
            stride, least, most = digits[place]
            from_, to = from_ + stride * least, to + stride * most
    if not digits:
        return False
    stride, least, most = digits[-1]
    # Without the greatest digit the sum lies in [from_, to]: the digit must make up for it.
    from_, to = from_ - stride * least, to - stride * most
    first, last = max(least, -(to // stride)), min(most, -from_ // stride)
    if last - first >= CASES:
        return False
    return all(
        _never_zero(digits[:-1], low + stride * value, high + stride * value) for value in range(first, last + 1)
    )


def _no_multiple(divisor: int, low: int, high: int) -> bool:
    """Whether an interval holds no multiple of a number; 0 is the only multiple of 0."""
    if divisor == 0:
        return low > 0 or high < 0
    return high // divisor * divisor < low
