"""Least integer points of linear systems, through isl.

A system goes to isl as a constraint matrix in PolyLib's text form, which is read 20 times faster than a formula and
takes numbers of any length. The least point is found coordinate by coordinate: the minimum of the first, then of the
second where the first has its minimum, and so on. isl's own `lexmin` cuts its way there, which takes minutes on some
knapsacks of six variables; minima of single coordinates come from its reduced bases, which do not mind.

Some calls of islpy lose memory: 32 bytes for each argument that isl takes over, and the text that `to_str` returns.
What is used here takes nothing over, and prints only numbers that do not fit in a machine word.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import islpy
from gmpy2 import digits, mpz

from presk.types.problem import BudgetExceeded, Constraint, System

_QUOTA: Final = "maximal number of operations exceeded"

T = TypeVar("T")


class Points:
    """A context of isl. Errors of isl are exceptions; nothing is printed. Not for use by two threads at once."""

    __slots__ = ("_context", "_coordinates")

    def __init__(self) -> None:
        self._context = islpy.Context()
        self._context.set_on_error(islpy.on_error.CONTINUE)
        # The function x_i on points of n coordinates, by n and i: kept, since making one takes longer than using it.
        self._coordinates: dict[tuple[int, int], islpy.Aff] = {}

    def least(self, systems: tuple[System, ...], shown: int, budget: int) -> tuple[int, ...] | None:
        """The lexicographically least (x_0, …, x_(shown - 1)) over all points of all systems; None if they have none.

        These coordinates must be bounded below. BudgetExceeded if it takes more than `budget` (at least 1) steps in
        all; a step is an allocation of isl.
        """
        self._context.reset_operations()
        found = [self._least_of(system, shown, budget) for system in systems]
        return min((point for point in found if point is not None), default=None)

    def _least_of(self, system: System, shown: int, budget: int) -> tuple[int, ...] | None:
        variables = system.variables
        rows = [_row(variables, constraint) for constraint in system.constraints]
        points = self._read(variables, rows)
        if self._within(budget, points.is_empty):
            return None
        least: list[int] = []
        for index in range(shown):
            if least:
                fixed = Constraint(False, (*[0] * (index - 1), 1), -least[-1])
                rows.append(_row(variables, fixed))
                points = self._read(variables, rows)
            minimum = self._within(budget, partial(points.min_val, self._coordinate(variables, index)))
            least.append(_integer(minimum))
        return tuple(least)

    def _within(self, budget: int, solve: Callable[[], T]) -> T:
        """What isl answers, unless the steps since the last reset exceed the budget. (Only here may isl run out of it:
        its parser and printer would not say so.)"""
        self._context.set_max_operations(budget)
        try:
            return solve()
        except islpy.Error as error:
            if _QUOTA in str(error):
                raise BudgetExceeded from error
            raise
        finally:
            self._context.set_max_operations(0)

    def _read(self, variables: int, rows: list[str]) -> islpy.Set:
        return islpy.Set.read_from_str(self._context, "\n".join((f"{len(rows)} {variables + 2}", *rows, "")))

    def _coordinate(self, variables: int, index: int) -> islpy.Aff:
        coordinate = self._coordinates.get((variables, index))
        if coordinate is None:
            names = [f"x{position}" for position in range(variables)]
            text = f"{{ [{', '.join(names)}] -> [({names[index]})] }}"
            coordinate = islpy.Aff.read_from_str(self._context, text)
            self._coordinates[variables, index] = coordinate
        return coordinate


def _row(variables: int, constraint: Constraint) -> str:
    """A row of PolyLib's form: 0 (equation) or 1 (order), coefficients, constant."""
    order, coefficients, constant = constraint
    padding = (0,) * (variables - len(coefficients))
    return " ".join(("1" if order else "0", *map(digits, map(mpz, (*coefficients, *padding, constant)))))


def _integer(value: islpy.Val) -> int:
    """isl's integer as Python's. (`get_num_si` would give 0 for one that is too large for it.)"""
    if value.n_abs_num_chunks(4) <= 1:
        return value.get_num_si()
    # Through gmpy2: Python's own conversion refuses more than 4,300 digits.
    return int(mpz(value.to_str()))
