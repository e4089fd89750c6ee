"""What a derivative rule is given, and what it gives."""

from collections.abc import Callable
from dataclasses import dataclass

from presk.ad.tape import Tape
from presk.prims.attrs import Align, Attr, Attrs


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a primitive on the way back: its operands, its value and the cotangent of that, as variables of the tape.

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

Rule = Callable[[Tape, Use], Cotangents]


@dataclass(frozen=True, slots=True)
class NoDerivative:
    """That a primitive has no derivative rule, and why: E6001 where a cotangent reaches it."""

    reason: str


def nothing(tape: Tape, use: Use) -> Cotangents:
    """The rule of what has no real operand to give a cotangent to: constants, draws, tables by index."""
    return (None,) * len(use.args)
