"""Decimals of numbers: those that read back as the same number, and short ones for people."""

from typing import Final

import gmpy2

from presk.exact.codec import Scalar

_DOUBLE: Final = 53

_SLACK: Final = 4
"""Digits by which a decimal must be shorter than the longest that may be needed, to be taken for the one that was meant."""


def digits_of(bits: int) -> int:
    """Decimal digits that tell any two numbers of `bits` bits apart."""
    return int(bits * 0.30103) + 2


def exactly(number: Scalar, bits: int) -> str:
    """A decimal that reads back, rounded at `bits` (or at the number's own precision, if that is more), as the number.

    The shortest, if it is short: `0.1` for the number nearest to a tenth. 0 has no sign. A double is taken for a number of `bits`
    bits, which it must be; what machine types have beside numbers is `nan`, `inf` or `-inf`.
    """
    number = _number(number, bits)
    if number == 0 or not gmpy2.is_finite(number):
        return _special(number)
    precision = max(bits, number.precision)
    count = digits_of(precision)
    text = _scientific(*_parts(number, max(1, count - _SLACK)))
    if gmpy2.mpfr(text, precision) == number:
        return text
    return _scientific(*_parts(number, count))


def shortly(number: Scalar, count: int) -> str:
    """A decimal of at most `count` significant digits; doubles as in `exactly`."""
    number = _number(number, _DOUBLE)
    return _special(number) if number == 0 or not gmpy2.is_finite(number) else _scientific(*_parts(number, count))


def _number(number: Scalar, bits: int) -> Scalar:
    return gmpy2.mpfr(number, bits) if isinstance(number, float) else number


def _special(number: Scalar) -> str:
    return "0" if number == 0 else str(number)


def above(number: Scalar) -> str:
    """A decimal of three digits that is not less than a number ≥ 0: a bound may be printed larger, never smaller."""
    return "0" if number == 0 else f"{number:.2Ue}"


def _parts(number: Scalar, count: int) -> tuple[str, str, int]:
    """Sign, digits without zeros at the end, and the power of ten of the first digit."""
    digits, exponent, _ = number.digits(10, max(2, count))
    sign = "-" if digits.startswith("-") else ""
    return sign, digits.removeprefix("-").rstrip("0"), exponent - 1


def _scientific(sign: str, digits: str, power: int) -> str:
    """`12.5`, `0.00012`, `1.5e-30`: without an exponent where that costs few zeros."""
    if -5 <= power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    if 0 <= power < max(len(digits), 16):
        whole, rest = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
        return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if digits[1:] else ''}e{power}"
