"""The memory of an entry in a process: one arena, filled and read by the host."""

import mmap
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.ir import SIZES, Elem
from presk.kernels.nest import Kind, Operand
from presk.kernels.numbers import DTYPES, from_elements, to_elements
from presk.kernels.trace.memory import Driver
from presk.kernels.trace.rows import Check, Part
from presk.kernels.trace.values import Ref, count_of

PAGE: Final = 4096


class Arena:
    """An arena for a driver, its constants filled in. It is aligned to a page, and freed with its last view."""

    def __init__(self, driver: Driver) -> None:
        # Anonymous pages: zero, and not there before they are touched. (A page more than is used: no driver has an empty arena.)
        self._memory = mmap.mmap(-1, -(-driver.size // PAGE) * PAGE + PAGE)
        self.bytes: Final[NDArray[np.uint8]] = np.frombuffer(self._memory, np.uint8)
        self.address: Final = int(self.bytes.ctypes.data)
        for constant in driver.constants:
            if constant.fill:
                elem = Elem(constant.elem)
                self.view(Ref(0, constant.offset), elem, constant.count)[:] = to_elements(
                    np.array([constant.fill]), elem
                )

    def view(self, place: Ref, elem: Elem, count: int) -> NDArray[Any]:
        """Elements at a place outside of loops, to be read or written."""
        return self.bytes[place.offset : place.offset + count * SIZES[elem]].view(DTYPES[elem])

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
            self.bytes[check.buffer : check.buffer + check.size] = 0

    def failed(self, check: Check) -> int | None:
        """The first row, counted within one launch, in which a check found its error."""
        flags = np.flatnonzero(self.bytes[check.buffer : check.buffer + check.size])
        return int(flags[0]) % check.rows if flags.size else None


def shape_of(operand: Operand) -> tuple[int, ...]:
    """The shape of a tensor's elements: a key has eight words."""
    count = count_of(operand)
    return (*operand.shape, count // max(prod(operand.shape), 1)) if operand.kind is Kind.KEY else operand.shape
