"""Formulas and equations as values, before they are written in one notation or another."""

import msgspec


class Form(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A formula."""


class Word(Form, frozen=True):
    """A variable, a constant, a number; a name that was rebound has primes."""

    text: str
    primes: int = 0


class Denoted(Form, frozen=True):
    """`⟦f⟧`, the function that a declaration denotes."""

    name: str


class Applied(Form, frozen=True):
    """A function applied: `⟦f⟧(x, y)`."""

    function: "Formula"
    args: tuple["Formula", ...]


class Operation(Form, frozen=True):
    """An operation under its name: `softmax axis seq2 s, m`. `detail` are the words behind the name."""

    name: str
    detail: str
    operands: tuple["Formula", ...]


class Infix(Form, frozen=True):
    """`+`, `-`, `/`, a comparison; `⊙` is the product of two tensors and `·` one with a number."""

    op: str
    left: "Formula"
    right: "Formula"


class Minus(Form, frozen=True):
    """`-x`."""

    value: "Formula"


class Raised(Form, frozen=True):
    """A power."""

    base: "Formula"
    exponent: "Formula"


class Root(Form, frozen=True):
    """A square root."""

    value: "Formula"


class Sum(Form, frozen=True):
    """A sum over indices of a product; with no index, the product."""

    over: tuple[str, ...]
    factors: tuple["Formula", ...]


class At(Form, frozen=True):
    """An element: `q[batch, seq]`."""

    base: "Formula"
    indices: tuple[str, ...]


class Each(Form, frozen=True):
    """A tensor by its elements: `[i, j ↦ a[i] b[j]]`."""

    indices: tuple[str, ...]
    body: "Formula"


class Selected(Form, frozen=True):
    """`w[seq: 0..T]`; a selector is an axis (None: by its place) and what is selected."""

    base: "Formula"
    selectors: tuple[tuple[str | None, str], ...]


class Group(Form, frozen=True):
    """A tuple."""

    items: tuple["Formula", ...]


class Member(Form, frozen=True):
    """`θ.w`; of a tuple `s.0`."""

    base: "Formula"
    name: str


class Iterate(Form, frozen=True):
    """An iterate of a recurrence, by its number: `y_0`, `y_(ℓ+1)`."""

    name: Word
    number: str


class Abstraction(Form, frozen=True):
    """`λ x. e`."""

    params: tuple["Formula", ...]
    destructures: bool
    body: "Formula"


class Where(Form, frozen=True):
    """A formula and the equations of what it mentions."""

    body: "Formula"
    equations: tuple["Equation", ...]


Formula = (
    Word
    | Denoted
    | Applied
    | Operation
    | Infix
    | Minus
    | Raised
    | Root
    | Sum
    | At
    | Each
    | Selected
    | Group
    | Member
    | Iterate
    | Abstraction
    | Where
)


class Equal(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`left = right`; `reason` says what it is for."""

    left: Formula
    right: Formula
    reason: str = ""


class Recurrence(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`first`, `step`, for `0 ≤ index < count`: what a stack computes; `inner` are recurrences of the step."""

    first: Equal
    step: Equal
    inner: tuple["Recurrence", ...]
    index: str
    count: str


Equation = Equal | Recurrence


class FunctionEquations(msgspec.Struct, frozen=True, array_like=True):
    """A function: its name, its parameters with their types (None for an axis), its equations, the value's last."""

    name: str
    params: tuple[tuple[Word, str | None], ...]
    equations: tuple[Equation, ...]
