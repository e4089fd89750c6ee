"""The memory of an entry in a process: one arena of three regions (`presk.kernels.trace.memory`), filled and read by the host."""

import mmap
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.ir import SIZES, Elem
from presk.kernels.nest import Kind, Operand
from presk.kernels.numbers import DTYPES, from_elements, to_elements
from presk.kernels.trace.memory import AFTER, BEFORE, WORK, Driver
from presk.kernels.trace.rows import Check, Part
from presk.kernels.trace.values import Ref, count_of

PAGE: Final = 4096


class Arena:
    """An arena for a driver, its constants filled in. It is aligned to a page, and freed with its last view."""

    def __init__(self, driver: Driver) -> None:
        self._regions = [_pages(size) for size in (driver.size, driver.state, driver.state)]
        for constant in driver.constants:
            if constant.fill:
                elem = Elem(constant.elem)
                self.view(Ref(0, constant.offset), elem, constant.count)[:] = to_elements(
                    np.array([constant.fill]), elem
                )

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where the regions lie."""
        return tuple(int(region.ctypes.data) for region in self._regions)

    def hand_on(self) -> None:
        """Exchanges what was before a run and what is after it."""
        self._regions[BEFORE], self._regions[AFTER] = self._regions[AFTER], self._regions[BEFORE]

    def view(self, place: Ref, elem: Elem, count: int) -> NDArray[Any]:
        """Elements at a place outside of loops, to be read or written."""
        return self._regions[place.buffer][place.offset : place.offset + count * SIZES[elem]].view(DTYPES[elem])

    def put(self, part: Part, values: NDArray[Any]) -> None:
        """Writes numbers, each rounded once to the part's type; ValueError for another shape."""
        operand = part.operand
        if values.size != count_of(operand):
            raise ValueError(f"`{part.path}` has {count_of(operand)} elements, not {values.size}")
        self.view(part.place, operand.elem, values.size)[:] = to_elements(values.ravel(), operand.elem)

    def get(self, part: Part) -> NDArray[Any]:
        """The numbers of a part, in memory of their own: binary64 for reals, exactly."""
        operand = part.operand
        count = count_of(operand)
        found = from_elements(self.view(part.place, operand.elem, count), operand.elem)
        return np.array(found).reshape(shape_of(operand))

    def clear(self, checks: Sequence[Check]) -> None:
        """Takes back the flags of the run before."""
        for check in checks:
            self._regions[WORK][check.buffer : check.buffer + check.size] = 0

    def failed(self, check: Check) -> int | None:
        """The first row, counted within one launch, in which a check found its error."""
        flags = np.flatnonzero(self._regions[WORK][check.buffer : check.buffer + check.size])
        return int(flags[0]) % check.rows if flags.size else None


def _pages(size: int) -> NDArray[np.uint8]:
    """Anonymous pages: zero, and not there before they are touched. (A page more than is used: no region is empty.)"""
    return np.frombuffer(mmap.mmap(-1, -(-size // PAGE) * PAGE + PAGE), np.uint8)


def shape_of(operand: Operand) -> tuple[int, ...]:
    """The shape of a tensor's elements: a key has eight words."""
    count = count_of(operand)
    return (*operand.shape, count // max(prod(operand.shape), 1)) if operand.kind is Kind.KEY else operand.shape
