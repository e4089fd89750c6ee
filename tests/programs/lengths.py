"""Lengths of axes: linear forms over symbols with natural coefficients, apart from the compiler's own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Len:
    """`const + Σ coefficient · symbol`; the terms are ordered by symbol, no coefficient is 0."""

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: "Len | int") -> "Len":
        if isinstance(other, int):
            return Len(self.const + other, self.terms)
        return _form(self.const + other.const, {**dict(self.terms)}, other.terms)

    def times(self, factor: int) -> "Len":
        """The multiple."""
        if factor == 0:
            return Len()
        return Len(self.const * factor, tuple((name, count * factor) for name, count in self.terms))

    def minus(self, other: "Len") -> "Len | None":
        """The difference, if it is a form with natural coefficients."""
        terms = dict(self.terms)
        for name, count in other.terms:
            terms[name] = terms.get(name, 0) - count
        if self.const < other.const or any(count < 0 for count in terms.values()):
            return None
        return _form(self.const - other.const, terms, ())

    def over(self, divisor: int) -> "Len | None":
        """The quotient, if it is such a form."""
        if divisor == 0 or self.const % divisor or any(count % divisor for _, count in self.terms):
            return None
        return Len(self.const // divisor, tuple((name, count // divisor) for name, count in self.terms))

    def put_in(self, values: Mapping[str, "Len"]) -> "Len":
        """The form with symbols replaced."""
        found = Len(self.const)
        for name, count in self.terms:
            found = found + values.get(name, symbol(name)).times(count)
        return found

    def at(self, values: Mapping[str, int]) -> int:
        """The length at values of its symbols."""
        return self.const + sum(count * values[name] for name, count in self.terms)

    def symbols(self) -> Iterator[str]:
        """The symbols."""
        return (name for name, _ in self.terms)

    def is_const(self) -> bool:
        """Whether it mentions no symbol."""
        return not self.terms

    def bare(self) -> str | None:
        """The symbol that it is."""
        return self.terms[0][0] if self.const == 0 and len(self.terms) == 1 and self.terms[0][1] == 1 else None


def _form(const: int, terms: dict[str, int], more: tuple[tuple[str, int], ...]) -> Len:
    for name, count in more:
        terms[name] = terms.get(name, 0) + count
    return Len(const, tuple(sorted((name, count) for name, count in terms.items() if count)))


def symbol(name: str) -> Len:
    """A symbol as a length."""
    return Len(0, ((name, 1),))


def solve(pattern: Len, value: Len, known: dict[str, Len]) -> bool:
    """Whether `pattern` becomes `value` once its unknown symbol, if it has one, is given a value, which is then known."""
    rest = pattern.put_in(known)
    unknown = [(name, count) for name, count in pattern.terms if name not in known]
    if not unknown:
        return rest == value
    if len(unknown) > 1:
        return False
    name, count = unknown[0]
    fixed = pattern.minus(Len(0, ((name, count),)))
    assert fixed is not None
    left = value.minus(fixed.put_in(known))
    found = None if left is None else left.over(count)
    if found is None:
        return False
    known[name] = found
    return True
