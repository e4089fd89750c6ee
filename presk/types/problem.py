"""The question whether facts imply a claim, without names, and its counterexamples as systems over integer points."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from presk.types.rows import Kind, Row


class Numbered(NamedTuple):
    """A row over variables: `coefficients[i]` is that of variable i; `kind` is a number, so that rows can be sorted."""

    kind: int
    coefficients: tuple[int, ...]
    constant: int
    modulus: int


class Problem(NamedTuple):
    """Facts and a claim over variables 0 … variables - 1, of which the first `shown` make the counterexample.

    `goal` None stands for the claim that never holds. Names are gone and the rows are sorted: the same question in
    other names, or with its facts in another order, is an equal value, and has one entry in a decider's memory.
    """

    shown: int
    variables: int
    goal: Numbered | None
    rows: tuple[Numbered, ...]


class Constraint(NamedTuple):
    """`Σ coefficients[i] · x_i + constant` is 0, or at least 0 if `order`; variables behind the last coefficient do not
    occur."""

    order: bool
    coefficients: tuple[int, ...]
    constant: int


class System(NamedTuple):
    """Constraints over integers x_0 … x_(variables - 1)."""

    variables: int
    constraints: tuple[Constraint, ...]


class BudgetExceeded(Exception):
    """A problem took more steps than it was allowed."""


def problem_of(goal: Row | bool, shown: Sequence[str], extra: Sequence[str], rows: Iterable[Row]) -> Problem:
    """The question without its names; `goal` is a row or False."""
    place = {symbol: index for index, symbol in enumerate((*shown, *extra))}

    def numbered(row: Row) -> Numbered:
        coefficients = [0] * len(place)
        for symbol, value in row.terms:
            coefficients[place[symbol]] = value
        return Numbered(row.kind.value, tuple(coefficients), row.constant, row.modulus)

    target = None if isinstance(goal, bool) else numbered(goal)
    return Problem(len(shown), len(place), target, tuple(sorted(map(numbered, rows))))


def counterexamples(problem: Problem) -> tuple[System, ...]:
    """The naturals at which all facts hold and the goal fails: the points of all systems together.

    A multiple of a modulus is the modulus times a further variable, a quotient; a form that is not 0 is below or above.
    """
    variables = problem.variables
    shared = [Constraint(True, (*[0] * index, 1), 0) for index in range(variables)]

    def quotient(row: Numbered) -> tuple[int, ...]:
        """Coefficients of the row's form minus its modulus times a new variable."""
        nonlocal variables
        variables += 1
        return (*row.coefficients, *[0] * (variables - 1 - len(row.coefficients)), -row.modulus)

    for row in problem.rows:
        match Kind(row.kind):
            case Kind.ZERO:
                shared.append(Constraint(False, row.coefficients, row.constant))
            case Kind.NATURAL:
                shared.append(Constraint(True, row.coefficients, row.constant))
            case Kind.MULTIPLE:
                shared.append(Constraint(False, quotient(row), row.constant))
    failures = _failures(problem.goal, quotient)
    return tuple(System(variables, (*shared, *failure)) for failure in failures)


def _failures(
    goal: Numbered | None, quotient: Callable[[Numbered], tuple[int, ...]]
) -> tuple[tuple[Constraint, ...], ...]:
    """The ways in which the goal fails, each as further constraints."""
    if goal is None:
        return ((),)
    negated = tuple(-value for value in goal.coefficients)
    below = Constraint(True, negated, -goal.constant - 1)
    match Kind(goal.kind):
        case Kind.NATURAL:
            return ((below,),)
        case Kind.ZERO:
            return ((below,), (Constraint(True, goal.coefficients, goal.constant - 1),))
        case Kind.MULTIPLE:
            remainder = quotient(goal)
            at_least_one = Constraint(True, remainder, goal.constant - 1)
            below_modulus = Constraint(True, tuple(-value for value in remainder), goal.modulus - 1 - goal.constant)
            return ((at_least_one, below_modulus),)
