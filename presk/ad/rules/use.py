"""What a derivative rule is given, and what it gives. Rules know types and attributes of primitives, and no core."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from presk.prims.attrs import Align, Attr, Attrs
from presk.types.type import Type


class Builder(Protocol):
    """The body into which a rule writes: every operation gives the variable of its value."""

    @property
    def types(self) -> Mapping[int, Type]: ...

    def prim(self, type_: Type, name: str, *args: int, attrs: Attrs = ()) -> int:
        """A primitive."""

    def like(self, name: str, x: int) -> int:
        """A primitive of one operand, of its type."""

    def joined(self, name: str, x: int, y: int, align: Align | None = None) -> int:
        """`name x, y` of x's type, y aligned in x; without an alignment both have one type, or x is a tree and y a scalar."""

    def literal(self, value: int) -> int:
        """A natural number."""

    def number(self, value: int) -> int:
        """A natural number as a real."""

    def scaled(self, value: int, x: int) -> int:
        """`value · x`, for a real tensor x."""

    def sum_to(self, ct: int, operand: int, align: Align) -> int:
        """The adjoint of a broadcast of `operand`."""

    def coerced(self, value: int, type_: Type) -> int:
        """The value under a type that differs in axis names alone."""


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a primitive on the way back: its operands, its value and the cotangent of that, as variables of the body.

    `wanted` says of each operand whether a cotangent is asked for: a rule need not make the others.
    """

    args: tuple[int, ...]
    attrs: Attrs
    value: int
    ct: int
    wanted: tuple[bool, ...]

    def attr(self, key: str) -> Attr:
        """An attribute; KeyError if the use has none of that name."""
        for name, attr in self.attrs:
            if name == key:
                return attr
        raise KeyError(key)

    def align(self, key: str) -> Align:
        """An alignment among the attributes."""
        attr = self.attr(key)
        assert isinstance(attr, Align)
        return attr


Cotangents = tuple[int | None, ...]
"""The cotangent of each operand, of the operand's type; None for none."""

Rule = Callable[[Builder, Use], Cotangents]


@dataclass(frozen=True, slots=True)
class NoDerivative:
    """That a primitive has no derivative rule, and why: E6001 where a cotangent reaches it."""

    reason: str


def nothing(body: Builder, use: Use) -> Cotangents:
    """The rule of what has no real operand to give a cotangent to: constants, draws, tables by index."""
    return (None,) * len(use.args)
