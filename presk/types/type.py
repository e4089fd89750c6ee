"""Axes, shapes, types, module instances.

Everything is a frozen value; equal types are equal values. Unknowns of inference (`TypeVar`, a prefix or a symbol that
begins with `?`) live only while a body is typed: signatures and typed programs hold none.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from presk.types.dim import Dim


class Axis(msgspec.Struct, frozen=True, array_like=True):
    """An axis: its length and its name, None for an unnamed one."""

    length: Dim
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.length}" if self.name is not None else str(self.length)


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """Axes, outermost first, behind an optional open prefix.

    `prefix` is None for a closed shape, `"..."` for the one fixed prefix of the function being typed, and `"?n"` for an
    unknown prefix of inference.
    """

    axes: tuple[Axis, ...] = ()
    prefix: str | None = None

    def __str__(self) -> str:
        front = ["..."] if self.prefix is not None else []
        return ", ".join([*front, *map(str, self.axes)])


SCALAR: Final = Shape()
PREFIX: Final = "..."


class ModuleRef(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A module by the file that declares it (as the main file's folder sees it) and its name."""

    file: str
    name: str

    def __str__(self) -> str:
        return self.name


class Named(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A module applied to dimension arguments.

    `hidden` gives the value of each file-level dimension that the module's parameters mention (`pos : ℝ[T, D]`), by name:
    it makes part of the instance what the program does not write.
    """

    module: ModuleRef
    arguments: tuple[Dim, ...] = ()
    hidden: tuple[tuple[str, Dim], ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.arguments))
        return f"{self.module}{{{inner}}}" if self.arguments else str(self.module)


class Stacked(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`stack{length}(inner)`: every parameter with an axis of that length in front."""

    length: Dim
    inner: "Instance"

    def __str__(self) -> str:
        return f"stack{{{self.length}}}({self.inner})"


class Composed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`outer ∘ inner`: `apply` is the outer one's after the inner one's; the tree has the fields `outer`, `inner`."""

    outer: "Instance"
    inner: "Instance"

    def __str__(self) -> str:
        inner = f"({self.inner})" if isinstance(self.inner, Composed) else str(self.inner)
        return f"{self.outer} ∘ {inner}"


Instance = Named | Stacked | Composed


class HyperKind(StrEnum):
    """The hyperparameter scalars."""

    NAT = "nat"
    INT = "int"
    RAT = "rat"
    F64 = "f64"
    BOOL = "bool"


class Real(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A real tensor."""

    shape: Shape = SCALAR

    def __str__(self) -> str:
        return f"ℝ[{self.shape}]"


class Index(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A tensor of integers i with 0 ≤ i < bound."""

    bound: Dim
    shape: Shape = SCALAR

    def __str__(self) -> str:
        inner = f"[{self.shape}]" if self.shape.axes or self.shape.prefix is not None else ""
        return f"idx[{self.bound}]{inner}"


class Mask(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A tensor of truth values (`bool[]` is the mask without axes; bare `bool` is `Hyper(BOOL)`)."""

    shape: Shape = SCALAR

    def __str__(self) -> str:
        return f"bool[{self.shape}]"


class Hyper(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A hyperparameter scalar."""

    kind: HyperKind

    def __str__(self) -> str:
        return self.kind.value


class Key(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A random key."""

    def __str__(self) -> str:
        return "key"


class Tuple(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A tuple of any length."""

    items: tuple["Type", ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


class Params(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The parameter tree of a module instance."""

    instance: Instance

    def __str__(self) -> str:
        return f"params {self.instance}"


class ModuleType(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The type of a module-typed parameter (`net : MLP{D, 4*D}`): the instance itself, a compile-time value."""

    instance: Instance

    def __str__(self) -> str:
        return str(self.instance)


class Function(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A function value; `params` are its arguments' types."""

    params: tuple["Type", ...]
    result: "Type"

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.params))}) -> {self.result}"


class Stack(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`count` values of one type that has no room for an axis in front: keys, tensors behind an open prefix.

    It occurs only in the core, among the accumulators that a fold saves; at run time such a tensor has the axis.
    """

    count: Dim
    item: "Type"

    def __str__(self) -> str:
        return f"stack{{{self.count}}}({self.item})"


class TypeVar(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """An unknown type of inference."""

    name: str

    def __str__(self) -> str:
        return "_"


Type = Real | Index | Mask | Hyper | Key | Tuple | Params | ModuleType | Function | Stack | TypeVar


def map_instance(instance: Instance, dim: Callable[[Dim], Dim]) -> Instance:
    """The instance with every dimension mapped."""
    match instance:
        case Named(module, arguments, hidden):
            return Named(module, tuple(map(dim, arguments)), tuple((name, dim(value)) for name, value in hidden))
        case Stacked(length, inner):
            return Stacked(dim(length), map_instance(inner, dim))
        case Composed(outer, inner):
            return Composed(map_instance(outer, dim), map_instance(inner, dim))


def map_type(type_: Type, *, dim: Callable[[Dim], Dim], shape: Callable[[Shape], Shape] | None = None) -> Type:
    """The type with every dimension mapped, and every shape (after its lengths) by `shape` if given."""

    def on_shape(value: Shape) -> Shape:
        mapped = Shape(tuple(Axis(dim(axis.length), axis.name) for axis in value.axes), value.prefix)
        return mapped if shape is None else shape(mapped)

    def walk(value: Type) -> Type:
        match value:
            case Real(inner):
                return Real(on_shape(inner))
            case Index(bound, inner):
                return Index(dim(bound), on_shape(inner))
            case Mask(inner):
                return Mask(on_shape(inner))
            case Tuple(items):
                return Tuple(tuple(map(walk, items)))
            case Params(instance):
                return Params(map_instance(instance, dim))
            case ModuleType(instance):
                return ModuleType(map_instance(instance, dim))
            case Function(params, result):
                return Function(tuple(map(walk, params)), walk(result))
            case Stack(count, item):
                return Stack(dim(count), walk(item))
            case _:
                return value

    return walk(type_)


def instantiate(type_: Type, dims: Mapping[str, Dim], prefix: Shape | None = None) -> Type:
    """The type with symbols replaced by `dims` and, if given, the prefix `...` by a shape."""

    def on_shape(shape: Shape) -> Shape:
        if prefix is None or shape.prefix != PREFIX:
            return shape
        return Shape(prefix.axes + shape.axes, prefix.prefix)

    return map_type(type_, dim=lambda value: value.substitute(dims), shape=on_shape)


def instance_dims(instance: Instance) -> tuple[Dim, ...]:
    """Every dimension an instance mentions, in the order in which it is written, hidden ones last."""
    match instance:
        case Named(_, arguments, hidden):
            return (*arguments, *(value for _, value in hidden))
        case Stacked(length, inner):
            return (length, *instance_dims(inner))
        case Composed(outer, inner):
            return (*instance_dims(outer), *instance_dims(inner))


def type_dims(type_: Type) -> tuple[Dim, ...]:
    """Every dimension a type mentions, in the order in which it is written."""
    match type_:
        case Real(shape) | Mask(shape):
            return tuple(axis.length for axis in shape.axes)
        case Index(bound, shape):
            return (bound, *(axis.length for axis in shape.axes))
        case Tuple(items):
            return tuple(dim for item in items for dim in type_dims(item))
        case Params(instance) | ModuleType(instance):
            return instance_dims(instance)
        case Function(params, result):
            return tuple(dim for item in (*params, result) for dim in type_dims(item))
        case Stack(count, item):
            return (count, *type_dims(item))
        case _:
            return ()
