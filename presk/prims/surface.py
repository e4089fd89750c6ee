"""How a builtin looks in a program: its call form and its typing rule.

A rule is a function from the bound arguments to the result's type and the attributes the use carries. What it needs of the
checker (resolved types, equations between lengths, broadcasting) it asks of a `Typer`; a use that is not typed raises `Refused`,
which the checker turns into a diagnostic at the call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gmpy2 import mpq

from presk.prims.attrs import Align, Attr
from presk.types.dim import Dim
from presk.types.type import Shape, Type

At = tuple[int, int]


class Refused(Exception):
    """A use that is not typed: code and message, the place if it is narrower than the use, notes and a mend."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        at: At | None = None,
        text: str = "",
        notes: tuple[str, ...] = (),
        mend: str | None = None,
        labels: tuple[tuple[At, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at
        self.text = text
        self.notes = notes
        self.mend = mend
        self.labels = labels


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument: its type (resolved at its head), its place, and its value if it is a numeric literal."""

    name: str
    type: Type
    at: At
    literal: mpq | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A call's arguments, bound to the form: axis names, value operands by parameter name, named axes in order."""

    name: str
    at: At
    axes: tuple[tuple[str, At], ...]
    operands: Mapping[str, Operand]
    named_axes: tuple[tuple[str, Dim, At], ...]
    constants: Mapping[str, Dim]


@dataclass(frozen=True, slots=True)
class Typed:
    """What a rule finds: the result's type and the attributes."""

    type: Type
    attrs: tuple[tuple[str, Attr], ...] = ()


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Two shapes joined: the result and how either lies in it."""

    shape: Shape
    left: Align
    right: Align


class Typer(Protocol):
    """What rules ask of the checker. Every method raises `Refused` where it cannot give what is asked."""

    def real(self, operand: Operand) -> Shape:
        """The shape of a real tensor (E2001 for anything else, with the mend for hyperparameters)."""

    def index(self, operand: Operand) -> tuple[Dim, Shape]:
        """Bound and shape of an index tensor (E2001)."""

    def mask(self, operand: Operand) -> Shape:
        """The shape of a mask (E2001)."""

    def resolve(self, dim: Dim) -> Dim:
        """The form with solved unknowns replaced."""

    def equal(self, left: Dim, right: Dim, code: str, message: str, at: At | None = None) -> None:
        """Solves or proves an equation between lengths; refused with `code` and a counterexample."""

    def same_shape(self, left: Shape, right: Shape, message: str, at: At | None = None) -> Shape:
        """Unifies two shapes and gives the merged one (E2003)."""

    def broadcast(self, left: Shape, right: Shape, at: At | None = None) -> Broadcast:
        """Joins two shapes as `+` does (E2003)."""

    def distinct(self, shape: Shape) -> Shape:
        """The shape itself, if no axis name stands in it twice (E1021)."""


Rule = Callable[[Bound, Typer], Typed]


@dataclass(frozen=True, slots=True)
class Form:
    """A call form.

    `axes` is how many `axis a` arguments are required, `optional_axis` that one more is allowed; `params` are the value
    parameters, positional or named; `keywords` optional ones that are given by name only; `named_axes` how many `n: L`
    arguments are required; `constants` the constants of the file that the rule reads (`H`, `HD`); `decimals` those parameters
    that are an `f64`, for which a natural literal may stand.
    """

    params: tuple[str, ...] = ()
    axes: int = 0
    optional_axis: bool = False
    keywords: tuple[str, ...] = ()
    named_axes: int = 0
    constants: tuple[str, ...] = ()
    decimals: tuple[str, ...] = ()
