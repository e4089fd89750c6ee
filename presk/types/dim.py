"""Dimensions: linear forms with rational coefficients over symbolic dimensions, kept normal.

A symbol is its name. Symbols of a signature (type parameters, a file's `dim`s, implicit dimensions) are ordinary names;
unknowns of inference begin with `?` and never leave typing. Coefficients are gmpy2 rationals, so sizes have no limit.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from gmpy2 import mpq

Rational = mpq

_ZERO: Final = mpq(0)
_ONE: Final = mpq(1)


class NonLinear(Exception):
    """A product of two symbolic dimensions or a division by one: outside the fragment (the caller reports E1007)."""


class Dim(msgspec.Struct, frozen=True, array_like=True):
    """`constant + Σ coefficient · symbol`; `terms` sorted by symbol, no coefficient 0. Equal forms are equal values."""

    constant: mpq
    terms: tuple[tuple[str, mpq], ...] = ()

    def __add__(self, other: "Dim") -> "Dim":
        if not other.terms:
            return Dim(self.constant + other.constant, self.terms)
        if not self.terms:
            return Dim(self.constant + other.constant, other.terms)
        return _normal(self.constant + other.constant, (*self.terms, *other.terms))

    def __sub__(self, other: "Dim") -> "Dim":
        if self.terms == other.terms:
            return Dim(self.constant - other.constant)
        return self + other.scaled(mpq(-1))

    def __neg__(self) -> "Dim":
        return self.scaled(mpq(-1))

    def scaled(self, factor: mpq) -> "Dim":
        """The form times a rational."""
        if factor == 0:
            return Dim(_ZERO)
        if factor == 1:
            return self
        return Dim(self.constant * factor, tuple((symbol, value * factor) for symbol, value in self.terms))

    def __mul__(self, other: "Dim") -> "Dim":
        """The product, if one factor is constant; NonLinear otherwise."""
        if not self.terms:
            return other.scaled(self.constant)
        if not other.terms:
            return self.scaled(other.constant)
        raise NonLinear

    def divided(self, other: "Dim") -> "Dim":
        """The quotient by a non-zero constant form; NonLinear by a symbolic one, ZeroDivisionError by 0.

        The quotient may be fractional at some values: whether that is allowed is the caller's to decide.
        """
        if other.terms:
            raise NonLinear
        return self.scaled(1 / other.constant)

    def symbols(self) -> tuple[str, ...]:
        """The symbols that occur, sorted."""
        return tuple(symbol for symbol, _ in self.terms)

    def is_constant(self) -> bool:
        """No symbol occurs."""
        return not self.terms

    def substitute(self, values: Mapping[str, "Dim"]) -> "Dim":
        """The form with symbols replaced, all at once; symbols that `values` lacks stay."""
        total = self.constant
        terms: list[tuple[str, mpq]] = []
        changed = False
        for term in self.terms:
            symbol, coefficient = term
            value = values.get(symbol)
            if value is None:
                terms.append(term)
                continue
            changed = True
            if len(self.terms) == 1 and total == 0 and coefficient == 1:
                return value  # a symbol by itself: most substitutions are of this kind
            total += value.constant * coefficient
            terms.extend([(name, factor * coefficient) for name, factor in value.terms])
        return _normal(total, terms) if changed else self

    def evaluate(self, values: Mapping[str, int]) -> mpq:
        """The value at given naturals; KeyError for a symbol without one."""
        return self.constant + sum((coefficient * values[symbol] for symbol, coefficient in self.terms), start=_ZERO)

    def natural(self) -> int | None:
        """The value of a constant form that is a natural number, else None."""
        if self.terms or self.constant.denominator != 1 or self.constant < 0:
            return None
        return int(self.constant)

    def __str__(self) -> str:
        parts: list[str] = []
        for symbol, coefficient in self.terms:
            sign = "-" if coefficient < 0 else "+"
            size = abs(coefficient)
            if size == 1:
                text = symbol
            elif size.numerator == 1:
                text = f"{symbol}/{size.denominator}"
            elif size.denominator == 1:
                text = f"{size.numerator}*{symbol}"
            else:
                text = f"{size.numerator}*{symbol}/{size.denominator}"
            parts.append(f" {sign} {text}" if parts else (f"-{text}" if sign == "-" else text))
        if self.constant != 0 or not parts:
            if not parts:
                return str(self.constant)
            parts.append(f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        return "".join(parts)


def constant(value: int | mpq) -> Dim:
    """The constant form."""
    return Dim(mpq(value))


def symbol(name: str) -> Dim:
    """The form that is one symbol."""
    return Dim(_ZERO, ((name, _ONE),))


ZERO: Final = Dim(_ZERO)
ONE: Final = Dim(_ONE)


def _normal(total: mpq, terms: Iterable[tuple[str, mpq]]) -> Dim:
    """Like terms joined, zero terms dropped, sorted."""
    sums: dict[str, mpq] = {}
    for name, coefficient in terms:
        known = sums.get(name)
        sums[name] = coefficient if known is None else known + coefficient
    return Dim(total, tuple([term for term in sorted(sums.items()) if term[1]]))
