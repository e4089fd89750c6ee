"""Claims about dimensions, as facts to be assumed and as obligations to be proved."""

from enum import StrEnum

import msgspec
from gmpy2 import mpz

from presk.types.dim import Dim


class Relation(StrEnum):
    """How the two sides of a claim relate. `DIVIDES` says that the right side, a positive constant, divides the left."""

    EQ = "=="
    LE = "<="
    LT = "<"
    GE = ">="
    GT = ">"
    DIVIDES = "%"


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """`left relation right`, over all naturals that the symbols may take."""

    relation: Relation
    left: Dim
    right: Dim

    def __str__(self) -> str:
        if self.relation is Relation.DIVIDES:
            left = str(self.left)
            return f"{f'({left})' if ' ' in left else left} % {self.right} == 0"
        return f"{self.left} {self.relation.value} {self.right}"


class Proved(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The claim holds at every value that the facts allow."""


class Refuted(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The claim fails; `at` is the lexicographically least counterexample, symbols in order of name (all symbols of the
    claim, and of the facts that are connected with it only where they matter)."""

    at: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return ", ".join(f"{symbol} = {mpz(value)}" for symbol, value in self.at)


class Undecided(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The procedure gave up (its budget ran out); `why` in a few words."""

    why: str


Verdict = Proved | Refuted | Undecided
