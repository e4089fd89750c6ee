"""What a trace computes with: where tensors lie, and the structures around them.

A tensor is a range of a buffer. Inside a loop its place may move with the iteration: `steps` gives the bytes by which it moves in
each of the loops around it. Whatever selects, renames or regroups gives another view of the same memory, and launches nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import msgspec

from presk.kernels.ir import SIZES, Elem
from presk.kernels.nest import Kind, Operand
from presk.kernels.trace.hyper import AnyExpr

KEY_WORDS = 8


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A place in a buffer: `offset + Σ step · iteration`, in bytes."""

    buffer: int
    offset: int = 0
    steps: tuple[tuple[int, int], ...] = ()
    """Pairs of a loop and its bytes an iteration, by loop."""

    def moved(self, by: int) -> "Ref":
        """The place some bytes further on."""
        return Ref(self.buffer, self.offset + by, self.steps)

    def along(self, loop: int, step: int, first: int = 0) -> "Ref":
        """The place that also moves with a loop, and begins `first` bytes further on."""
        steps = dict(self.steps)
        steps[loop] = steps.get(loop, 0) + step
        return Ref(self.buffer, self.offset + first, tuple(sorted((one, by) for one, by in steps.items() if by)))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor and its place."""

    operand: Operand
    ref: Ref

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return size_of(self.operand)


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple."""

    items: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A parameter tree."""

    fields: Mapping[str, "Value"]


@dataclass(frozen=True, slots=True)
class Hyper:
    """A hyperparameter."""

    expr: AnyExpr


@dataclass(frozen=True, slots=True)
class Layers:
    """A stack of hyperparameters."""

    exprs: tuple[AnyExpr, ...]


@dataclass(frozen=True, slots=True)
class Closure:
    """A function value."""

    function: str
    dims: Mapping[str, int]
    prefix: tuple[int, ...]
    captured: tuple["Value", ...]


Value = Tensor | Items | Record | Hyper | Layers | Closure


def count_of(operand: Operand) -> int:
    """The number of elements that a tensor holds in memory."""
    return prod(operand.shape) * (KEY_WORDS if operand.kind is Kind.KEY else 1)


def size_of(operand: Operand) -> int:
    """The bytes of a tensor."""
    return count_of(operand) * SIZES[operand.elem]


def tensors(value: Value) -> list[Tensor]:
    """The tensors of a structure, in order."""
    match value:
        case Tensor():
            return [value]
        case Items(items):
            return [leaf for item in items for leaf in tensors(item)]
        case Record(fields):
            return [leaf for item in fields.values() for leaf in tensors(item)]
        case _:
            return []


def map_tensors(value: Value, change: Callable[[Tensor], Tensor]) -> Value:
    """The structure with every tensor replaced."""
    match value:
        case Tensor():
            return change(value)
        case Items(items):
            return Items(tuple(map_tensors(item, change) for item in items))
        case Record(fields):
            return Record({name: map_tensors(item, change) for name, item in fields.items()})
        case _:
            return value


def is_real(tensor: Tensor) -> bool:
    """Whether a tensor is of reals."""
    return tensor.operand.kind is Kind.REAL


def has_hyper(value: Value) -> bool:
    """Whether a structure holds a hyperparameter or a function value."""
    match value:
        case Items(items):
            return any(map(has_hyper, items))
        case Record(fields):
            return any(map(has_hyper, fields.values()))
        case Tensor():
            return False
        case _:
            return True


def has_layers(value: Value) -> bool:
    """Whether a structure holds a stack of hyperparameters."""
    match value:
        case Layers():
            return True
        case Items(items):
            return any(map(has_layers, items))
        case Record(fields):
            return any(map(has_layers, fields.values()))
        case _:
            return False


def stacked(operand: Operand, count: int) -> Operand:
    """`count` tensors of a form along a new first axis."""
    return msgspec.structs.replace(operand, shape=(count, *operand.shape), names=(None, *operand.names))


def layer(operand: Operand) -> Operand:
    """One slice of a stack along its first axis."""
    return msgspec.structs.replace(operand, shape=operand.shape[1:], names=operand.names[1:])


def slice_of(value: Value, index: "int | tuple[int, bool, int]") -> Value:
    """A slice of every tensor along its first axis: by a number, or by a loop that counts up, or down from `count` − 1.

    Of a stack of hyperparameters only a number takes one (TypeError).
    """
    match value:
        case Layers(exprs):
            if not isinstance(index, int):
                raise TypeError("a slice of hyperparameters by the number of an iteration")
            return Hyper(exprs[index])
        case Items(items):
            return Items(tuple(slice_of(item, index) for item in items))
        case Record(fields):
            return Record({name: slice_of(item, index) for name, item in fields.items()})
        case _:
            pass

    def change(tensor: Tensor) -> Tensor:
        inner = layer(tensor.operand)
        size = size_of(inner)
        if isinstance(index, int):
            return Tensor(inner, tensor.ref.moved(index * size))
        loop, down, count = index
        if down:
            return Tensor(inner, tensor.ref.along(loop, -size, (count - 1) * size))
        return Tensor(inner, tensor.ref.along(loop, size))

    return map_tensors(value, change)


def retyped(tensor: Tensor, elem: Elem) -> Operand:
    """The operand of a tensor with another element type."""
    return msgspec.structs.replace(tensor.operand, elem=elem)


def renamed(tensor: Tensor, operand: Operand) -> Tensor:
    """The same memory with the shape and names of another operand."""
    return replace(tensor, operand=msgspec.structs.replace(operand, elem=tensor.operand.elem, kind=tensor.operand.kind))
