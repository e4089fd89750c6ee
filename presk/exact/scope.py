"""What a body is evaluated in: values of its dimensions, the lengths of its leading axes, the headers of modules.

Dimensions that nothing determined are absent, and only their use fails. Axes are found by the static type of an operand and counted
from the last, so leading axes do not disturb them; nothing is guessed from lengths.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from presk.exact.faults import UNBOUND, UNDEFINED, Fault
from presk.exact.values import Array
from presk.prims.attrs import Align
from presk.types.dim import Dim
from presk.types.trees import HeaderLike, ParamField, UseField, fields
from presk.types.type import Index, Instance, Mask, ModuleRef, Real, Shape, Type

Headers = Mapping[ModuleRef, HeaderLike]


@dataclass(frozen=True, slots=True)
class Scope:
    """The dimensions of a function by name, and the lengths of the axes that its `...` stands for."""

    dims: Mapping[str, int]
    prefix: tuple[int, ...]
    headers: Headers

    def length(self, dim: Dim) -> int:
        """The value of a length; UNBOUND if it mentions a dimension without a value, UNDEFINED if it is no natural number."""
        try:
            value = dim.evaluate(self.dims)
        except KeyError as error:
            raise Fault(
                UNBOUND,
                f"the dimension `{error.args[0]}` has no value here",
                notes=("nothing that the function was called with determines it",),
            ) from None
        if value < 0 or value.denominator != 1:
            raise Fault(UNDEFINED, f"the length `{dim}` is {value}, which is no natural number")
        return int(value)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """The lengths of all axes, leading ones included."""
        lengths = tuple(self.length(axis.length) for axis in shape.axes)
        return lengths if shape.prefix is None else self.prefix + lengths

    def fields(self, instance: Instance) -> tuple[ParamField | UseField, ...]:
        """The fields of a module instance, in order."""
        return fields(instance, self.headers)


def shape_of(type_: Type) -> Shape:
    """The shape of a tensor's type; TypeError for what is no tensor."""
    if isinstance(type_, Real | Index | Mask):
        return type_.shape
    raise TypeError(f"{type_} is no tensor")


def place_of(shape: Shape, name: str) -> int:
    """The place of an axis by name, counted from the last (−1); KeyError for none."""
    for place, axis in enumerate(shape.axes):
        if axis.name == name:
            return place - len(shape.axes)
    raise KeyError(name)


def laid(data: Array, align: Align, rank: int, leading: int) -> Array:
    """An operand as it lies among the `leading` + `rank` axes of a result: a view with new axes of length 1 where it has none."""
    front = leading if align.prefix else 0
    order = sorted(range(len(align.axes)), key=align.axes.__getitem__)
    if order != list(range(len(order))):
        data = data.transpose(*range(front), *(front + place for place in order))
    if front == data.ndim - rank and len(order) == rank:
        return data
    index = [slice(None)] * front + [slice(None) if place in align.axes else np.newaxis for place in range(-rank, 0)]
    return data[tuple(index)]
