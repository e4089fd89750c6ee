"""Axes of nests: strides, how operands lie in results, axes that are walked as one."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from presk.kernels.nest import Operand
from presk.prims.attrs import Align, Attr, AxisName, Length
from presk.types.dim import Dim

A = TypeVar("A", bound=Attr)

Shape = tuple[int, ...]
Strides = tuple[int, ...]


def attr(attrs: Mapping[str, Attr], key: str, kind: type[A]) -> A:
    """An attribute of a kind; KeyError without it, TypeError for one of another kind."""
    found = attrs[key]
    if not isinstance(found, kind):
        raise TypeError(f"the attribute {key} is no {kind.__name__}")
    return found


def length(dim: Dim, dims: Mapping[str, int]) -> int:
    """The value of a length."""
    return int(dim.evaluate(dims))


def length_of(attrs: Mapping[str, Attr], key: str, dims: Mapping[str, int]) -> int:
    """The value of a length among attributes."""
    return length(attr(attrs, key, Length).dim, dims)


def axis_of(operand: Operand, attrs: Mapping[str, Attr], key: str = "axis") -> int | None:
    """The place of the axis that an attribute names, from the first; None for "over everything".

    Where the open prefix brought an axis of the same name, it is the last one that is meant.
    """
    name = attr(attrs, key, AxisName).name
    if name is None:
        return None
    return len(operand.names) - 1 - operand.names[::-1].index(name)


def row_major(shape: Sequence[int]) -> Strides:
    """The strides of a contiguous tensor, in elements."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def places(shape: Shape, align: Align, rank: int) -> tuple[int, ...]:
    """For each axis of an operand of this shape, its place among the `rank` axes of a result in which it lies so."""
    front = len(shape) - len(align.axes)
    if front and not align.prefix:
        raise ValueError(f"an operand of shape {shape} does not lie at {align.axes}")
    return (*range(front), *(rank + place for place in align.axes))


def identity(rank: int) -> tuple[int, ...]:
    """The places of a tensor's own axes."""
    return tuple(range(rank))


def laid(shape: Shape, where: Sequence[int], rank: int) -> Strides:
    """The strides of a contiguous operand along the axes of a result, 0 where it has none."""
    result = [0] * rank
    for place, size, stride in zip(where, shape, row_major(shape), strict=True):
        result[place] = stride if size != 1 else 0
    return tuple(result)


def collapse(shape: Shape, strides: Sequence[Strides]) -> tuple[Shape, tuple[Strides, ...]]:
    """The same elements with as few axes as can be: none of length 1, and no neighbours that all tensors walk as one."""
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        merges = sizes and all(mine[-1] == one[axis] * size for mine, one in zip(kept, strides))
        if merges:
            sizes[-1] *= size
            for mine, one in zip(kept, strides):
                mine[-1] = one[axis]
        else:
            sizes.append(size)
            for mine, one in zip(kept, strides):
                mine.append(one[axis])
    return tuple(sizes), tuple(map(tuple, kept))


def count(shape: Sequence[int]) -> int:
    """How many elements."""
    return prod(shape)
