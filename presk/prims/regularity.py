"""How smooth a function is in one of its arguments: the classes, and what primitives say of themselves.

C∞ < C⁰⁺ < Disc. A function is C∞ if it has all derivatives, C⁰⁺ if it is continuous and has a derivative almost everywhere (a
gradient exists where it matters), Disc otherwise. The class of a composition is the worse of the two.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from presk.types.type import Index, Type


class Class(IntEnum):
    """A class of regularity; the worse one is the greater."""

    SMOOTH = 0
    CONTINUOUS = 1
    DISC = 2

    def __str__(self) -> str:
        return _SYMBOLS[self]


_SYMBOLS: Final = ("C∞", "C⁰⁺", "Disc")

Regularity = Callable[[tuple[Type, ...]], tuple[Class, ...]]
"""The class of a primitive in each of its operands, given their types."""


def every(class_: Class) -> Regularity:
    """One class in every operand."""

    def classes(operands: tuple[Type, ...]) -> tuple[Class, ...]:
        return (class_,) * len(operands)

    return classes


def each(*classes: Class) -> Regularity:
    """A class for each operand, in order; the last one counts for all that follow."""

    def found(operands: tuple[Type, ...]) -> tuple[Class, ...]:
        return tuple(classes[min(place, len(classes) - 1)] for place in range(len(operands)))

    return found


def injection(operands: tuple[Type, ...]) -> tuple[Class, ...]:
    """Of `real`: Disc in an index tensor, C∞ in a number."""
    return tuple(Class.DISC if isinstance(type_, Index) else Class.SMOOTH for type_ in operands)
