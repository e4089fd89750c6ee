"""Claims as rows of integers: multiplied out, in normal form, and as far as possible decided by looking at them.

A row says that a linear form with integer coefficients is 0, is at least 0, or is a multiple of an integer.
"""

from enum import Enum, auto
from typing import NamedTuple

from gmpy2 import gcd, lcm, mpz

from presk.types.claim import Claim, Relation


class Kind(Enum):
    """What a row says about the value of its form."""

    ZERO = auto()
    NATURAL = auto()
    MULTIPLE = auto()


class Row(NamedTuple):
    """`constant + Σ coefficient · symbol` is zero, natural, or a multiple of `modulus` (0 for the other kinds).

    Normal: no common factor; ZERO with a positive first coefficient; MULTIPLE with modulus ≥ 2 and every number in
    [0, modulus). So rows that say the same about the same form are equal values. All numbers are gmpy2 integers.
    """

    kind: Kind
    terms: tuple[tuple[str, int], ...]
    constant: int
    modulus: int = 0


def row_of(claim: Claim) -> Row | bool:
    """The claim as a row; True or False if it holds, or fails, at all naturals by signs or remainders alone.

    Rows have integer values, so a strict order is the order by 1, and constants are tightened. ValueError as `decide`.
    """
    match claim.relation:
        case Relation.EQ | Relation.GE | Relation.GT:
            form = claim.left - claim.right
        case Relation.LE | Relation.LT:
            form = claim.right - claim.left
        case Relation.DIVIDES:
            if claim.right.terms or claim.right.constant <= 0:
                raise ValueError(f"divisibility by {claim.right}, which is not a positive constant")
            form = claim.left.scaled(1 / claim.right.constant)
    # The row is `scale` times the form.
    scale = lcm(form.constant.denominator, *(value.denominator for _, value in form.terms))
    constant = mpz(form.constant * scale)
    terms = tuple((symbol, mpz(value * scale)) for symbol, value in form.terms)
    if claim.relation is Relation.DIVIDES:
        return _multiple(terms, constant, scale)
    if claim.relation is Relation.EQ:
        return _zero(terms, constant)
    if claim.relation is Relation.LT or claim.relation is Relation.GT:
        constant -= 1
    return _natural(terms, constant)


def _zero(terms: tuple[tuple[str, int], ...], constant: int) -> Row | bool:
    if not terms:
        return constant == 0
    if terms[0][1] < 0:
        terms, constant = tuple((symbol, -value) for symbol, value in terms), -constant
    common = gcd(*(value for _, value in terms))
    if constant % common != 0 or (constant > 0 and all(value > 0 for _, value in terms)):
        return False
    return Row(Kind.ZERO, _over(terms, common), constant // common)


def _natural(terms: tuple[tuple[str, int], ...], constant: int) -> Row | bool:
    if constant >= 0 and all(value > 0 for _, value in terms):
        return True
    if constant < 0 and all(value < 0 for _, value in terms):
        return False
    common = gcd(*(value for _, value in terms))
    return Row(Kind.NATURAL, _over(terms, common), constant // common)


def _multiple(terms: tuple[tuple[str, int], ...], constant: int, modulus: int) -> Row | bool:
    terms = tuple((symbol, value % modulus) for symbol, value in terms if value % modulus != 0)
    constant %= modulus
    common = gcd(modulus, *(value for _, value in terms))
    if constant % common != 0:
        return False
    if common == modulus:
        return True
    return Row(Kind.MULTIPLE, _over(terms, common), constant // common, modulus // common)


def _over(terms: tuple[tuple[str, int], ...], divisor: int) -> tuple[tuple[str, int], ...]:
    return terms if divisor == 1 else tuple((symbol, value // divisor) for symbol, value in terms)


def holds(row: Row, value: int) -> bool:
    """Whether the row holds where its form has the value."""
    match row.kind:
        case Kind.ZERO:
            return value == 0
        case Kind.NATURAL:
            return value >= 0
        case Kind.MULTIPLE:
            return value % row.modulus == 0


def gives(fact: Row, goal: Row) -> bool:
    """Whether a fact by itself gives the goal, plainly: it is the goal, or the goal's form is the fact's plus a form
    without negative numbers."""
    if fact == goal:
        return True
    if goal.kind is not Kind.NATURAL or fact.kind is Kind.MULTIPLE:
        return False
    return _exceeds(goal, fact, 1) or (fact.kind is Kind.ZERO and _exceeds(goal, fact, -1))


def _exceeds(goal: Row, fact: Row, sign: int) -> bool:
    """Whether the goal's form minus `sign` times the fact's has no negative number."""
    if goal.constant < sign * fact.constant:
        return False
    rest = dict(goal.terms)
    for symbol, value in fact.terms:
        rest[symbol] = rest.get(symbol, 0) - sign * value
    return all(value >= 0 for value in rest.values())
