"""The boundary between files and programs: every element is looked at before a program sees it.

An index is at least 0 and below its bound, a truth value 0 or 1, a real finite. Nothing is clamped; the first element that is
otherwise is named by its place and its value (E8003).
"""

from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.data.codes import INDEX
from presk.data.leaves import Leaf
from presk.exact.faults import Fault
from presk.types.type import Index, Mask, Real

_CHUNK: Final = 1 << 22
"""Elements that are looked at in one go."""

_KINDS: Final = MappingProxyType({Index: "iu", Mask: "bu", Real: "f"})
"""The kinds of elements, as numpy writes them, that hold a leaf."""


def check_elements(leaf: Leaf, array: NDArray[Any], of: str = "") -> None:
    """Checks all elements of the stored array of a leaf, `of` a file. TypeError for elements that are no numbers of its kind."""
    if array.dtype.kind not in _KINDS[type(leaf.type)]:
        raise TypeError(f"`{leaf.array}` cannot hold elements of type {array.dtype}")
    step = max(1, _CHUNK // max(1, array[:1].size))
    for start in range(0, len(array), step):
        part = array[start : start + step]
        if not fine(leaf, part):
            at = first_wrong(leaf, part)
            raise refused(leaf, part[at], (start + at[0], *at[1:]), of)


def fine(leaf: Leaf, array: NDArray[Any]) -> bool:
    """Whether all elements are what the leaf's type allows."""
    if array.size == 0:
        return True
    match leaf.type:
        case Index():
            return int(array.max()) < leaf.bound and (array.dtype.kind == "u" or int(array.min()) >= 0)
        case Mask():
            return int(array.max()) <= 1
        case Real():
            return bool(np.isfinite(array).all())


def first_wrong(leaf: Leaf, array: NDArray[Any]) -> tuple[int, ...]:
    """The place of the first element that is not what the leaf's type allows."""
    match leaf.type:
        case Index():
            wrong = (array >= leaf.bound) | (array < 0)
        case Mask():
            wrong = array > 1
        case Real():
            wrong = ~np.isfinite(array)
    return tuple(int(one) for one in np.unravel_index(int(wrong.argmax()), array.shape))


def refused(leaf: Leaf, value: Any, place: tuple[int, ...], more: str = "") -> Fault:
    """E8003 for an element at its place in the stored array."""
    where = f"at `{leaf.array}[{', '.join(map(str, place))}]`{more}"
    match leaf.type:
        case Index():
            range_ = f"one of 0 … {leaf.bound - 1}" if leaf.bound else "possible: no index is below 0"
            return Fault(INDEX, f"the index {value} {where} is not {range_}")
        case Mask():
            return Fault(INDEX, f"the truth value {value} {where} is neither 0 nor 1")
        case Real():
            return Fault(INDEX, f"the number {value} {where} is not finite")
