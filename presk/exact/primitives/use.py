"""What a rule is given: the operands' values and static types, the attributes, the arithmetic, the scope."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from presk.exact.arithmetic import Arithmetic
from presk.exact.scope import Scope, place_of, shape_of
from presk.exact.values import Index, Key, Mask, Number, Objects, Real, Value
from presk.prims.attrs import Align, Attr, AxisName, Length, Place, Word
from presk.types.type import Shape, Type

A = TypeVar("A", bound=Attr)
S = TypeVar("S", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a primitive about to be evaluated."""

    m: Arithmetic
    scope: Scope
    args: tuple[Value, ...]
    types: tuple[Type, ...]
    result: Type
    attrs: Mapping[str, Attr]

    def attr(self, key: str, kind: type[A]) -> A:
        """An attribute of a kind; KeyError without it."""
        found = self.attrs[key]
        if not isinstance(found, kind):
            raise TypeError(f"the attribute {key} is no {kind.__name__}")
        return found

    def align(self, key: str) -> Align:
        """How an operand lies in the result."""
        return self.attr(key, Align)

    def axis(self, key: str = "axis") -> str | None:
        """An axis by name."""
        return self.attr(key, AxisName).name

    def length(self, key: str) -> int:
        """A dimension among the attributes."""
        return self.scope.length(self.attr(key, Length).dim)

    def word(self, key: str) -> str:
        """A name, or the text of a decimal."""
        return self.attr(key, Word).text

    def number_of(self, key: str) -> int:
        """The number of an item or a slice."""
        return self.attr(key, Place).value

    def real(self, place: int) -> Objects:
        """A real operand's elements."""
        value = self.args[place]
        if not isinstance(value, Real):
            raise TypeError(f"operand {place} is no real tensor")
        return value.data

    def index(self, place: int) -> Index:
        """An index tensor among the operands."""
        value = self.args[place]
        if not isinstance(value, Index):
            raise TypeError(f"operand {place} is no index tensor")
        return value

    def mask(self, place: int) -> Mask:
        """A mask among the operands."""
        value = self.args[place]
        if not isinstance(value, Mask):
            raise TypeError(f"operand {place} is no mask")
        return value

    def key(self, place: int) -> bytes:
        """A key among the operands."""
        value = self.args[place]
        if not isinstance(value, Key):
            raise TypeError(f"operand {place} is no key")
        return value.data

    def hyper(self, place: int) -> Number:
        """A number among the operands."""
        value = self.args[place]
        if not isinstance(value, Number):
            raise TypeError(f"operand {place} is no number")
        return value

    def whole(self, place: int) -> int:
        """A natural number among the operands."""
        return int(self.hyper(place).value)

    def shape(self, place: int) -> Shape:
        """The static shape of an operand."""
        return shape_of(self.types[place])

    def place(self, operand: int, axis: str) -> int:
        """Where an operand has an axis, counted from the last."""
        return place_of(self.shape(operand), axis)

    def made(self) -> tuple[int, ...]:
        """The result's shape."""
        return self.scope.shape(shape_of(self.result))

    @property
    def leading(self) -> int:
        """How many axes the function's `...` stands for."""
        return len(self.scope.prefix)


Rule = Callable[[Use], Value]


def flat(data: NDArray[S], inner: int) -> NDArray[S]:
    """`[n, m]`, m the number of elements along the last `inner` axes."""
    split = data.ndim - inner
    return data.reshape(prod(data.shape[:split]), prod(data.shape[split:]))
