"""PSK-Core: a first-order functional program in A-normal form.

A program is a set of functions, generic in their dimensions. A body is a list of bindings, each an operation on variables, and
the variable that is returned. Variables are numbered: parameters first, then bindings in order; a pass that removes bindings
leaves gaps and renumbers nothing, so that a nest keeps its name (`Linear.apply.vjp/%11`). Types are those of the language
(`presk.types`), without modules. Places lie beside the program (`Origins`), keyed by function and variable.
"""

from collections.abc import Callable

import msgspec

from presk.prims.attrs import Attrs
from presk.syntax.tree import At
from presk.types.dim import Dim
from presk.types.type import Shape, Type

Dims = tuple[tuple[str, Dim], ...]


class Op(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """An operation."""


class Prim(Op, frozen=True):
    """A primitive of the table, on variables, with its attributes."""

    name: str
    args: tuple[int, ...]
    attrs: Attrs = ()


class Literal(Op, frozen=True):
    """A hyperparameter, exact; `text` as the program writes it."""

    text: str


class Field(Op, frozen=True):
    """A field of a parameter tree: `θ.w`."""

    base: int
    name: str


class MakeParams(Op, frozen=True):
    """A parameter tree from its fields, in order."""

    fields: tuple[int, ...]


class MakeTuple(Op, frozen=True):
    """A tuple."""

    items: tuple[int, ...]


class Project(Op, frozen=True):
    """Item `place` of a tuple."""

    base: int
    place: int


class Call(Op, frozen=True):
    """A call, with the values of the callee's dimensions and of its `...`."""

    function: str
    dims: Dims
    prefix: Shape | None
    args: tuple[int, ...]


class Fold(Op, frozen=True):
    """A loop of `count` iterations of `function`.

    Iteration i calls `function(slices i of `stacked`…, acc, extras…)` and its value is the next `acc`; a body whose `indexed`
    is set takes i, a `nat`, as its last argument. `reverse` runs from `count` − 1 down to 0. The value is the final `acc`, or
    with `scan` the pair of it and the stack of the accumulators before each iteration.
    """

    count: Dim
    function: str
    dims: Dims
    prefix: Shape | None
    stacked: tuple[int, ...]
    acc: int
    extras: tuple[int, ...]
    reverse: bool = False
    scan: bool = False
    indexed: bool = False


class Closure(Op, frozen=True):
    """A function value: `function` with its first arguments given."""

    function: str
    dims: Dims
    prefix: Shape | None
    captured: tuple[int, ...]


class Grad(Op, frozen=True):
    """The gradient of a function value, a function value; none is left after differentiation."""

    function: int


class Apply(Op, frozen=True):
    """The application of a function value."""

    function: int
    args: tuple[int, ...]


Operation = Prim | Literal | Field | MakeParams | MakeTuple | Project | Call | Fold | Closure | Grad | Apply


class Param(msgspec.Struct, frozen=True, array_like=True):
    """A parameter; its variable is its position."""

    name: str
    type: Type


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """`name : type = op`; `var` is its number, `name` None prints as `%var`."""

    var: int
    name: str | None
    type: Type
    op: Operation


class Function(msgspec.Struct, frozen=True, array_like=True):
    """A function; the type of `returns` is `result`, by unification of names."""

    name: str
    dims: tuple[str, ...]
    params: tuple[Param, ...]
    result: Type
    bindings: tuple[Binding, ...]
    returns: int


class Program(msgspec.Struct, frozen=True, array_like=True):
    """Functions by name, in the order in which the text form prints them."""

    functions: tuple[Function, ...]


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Where a binding comes from: a file, a chunk of it, a range of tokens."""

    file: str
    chunk: str
    at: At


def operands(op: Operation) -> tuple[int, ...]:
    """The variables an operation reads, in order."""
    match op:
        case Prim(args=args):
            return args
        case Literal():
            return ()
        case Field(base=base) | Project(base=base):
            return (base,)
        case MakeParams(fields=items) | MakeTuple(items=items):
            return items
        case Call(args=args):
            return args
        case Fold(stacked=stacked, acc=acc, extras=extras):
            return (*stacked, acc, *extras)
        case Closure(captured=captured):
            return captured
        case Grad(function=function):
            return (function,)
        case Apply(function=function, args=args):
            return (function, *args)


def renamed(op: Operation, of: Callable[[int], int]) -> Operation:
    """An operation with its variables replaced."""
    match op:
        case Prim(name, args, attrs):
            return Prim(name, tuple(map(of, args)), attrs)
        case Literal():
            return op
        case Field(base, name):
            return Field(of(base), name)
        case MakeParams(fields):
            return MakeParams(tuple(map(of, fields)))
        case MakeTuple(items):
            return MakeTuple(tuple(map(of, items)))
        case Project(base, place):
            return Project(of(base), place)
        case Call(function, dims, prefix, args):
            return Call(function, dims, prefix, tuple(map(of, args)))
        case Fold(count, function, dims, prefix, stacked, acc, extras, reverse, scan, indexed):
            stacked, acc, extras = tuple(map(of, stacked)), of(acc), tuple(map(of, extras))
            return Fold(count, function, dims, prefix, stacked, acc, extras, reverse, scan, indexed)
        case Closure(function, dims, prefix, captured):
            return Closure(function, dims, prefix, tuple(map(of, captured)))
        case Grad(value):
            return Grad(of(value))
        case Apply(value, args):
            return Apply(of(value), tuple(map(of, args)))
