"""The dimensions of a function under trace, and shapes at them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from presk.core.ir import Dims, Function
from presk.kernels.ir import Elem
from presk.kernels.nest import Arith, Kind, Operand
from presk.kernels.trace.values import Items, Tensor, Value
from presk.types import type as types
from presk.types.dim import Dim
from presk.types.trees import HeaderLike, ParamField, UseField, fields
from presk.types.type import Instance, ModuleRef, Shape, Type

Headers = Mapping[ModuleRef, HeaderLike]


@dataclass(frozen=True, slots=True)
class Scope:
    """The values of a function's dimensions and the lengths of the axes that its `...` stands for. A run has been found to be defined
    before (E7003), so every length that is asked for is a natural number."""

    dims: Mapping[str, int]
    prefix: tuple[int, ...]
    headers: Headers

    def length(self, dim: Dim) -> int:
        """The value of a length."""
        value = dim.evaluate(self.dims)
        if value < 0 or value.denominator != 1:
            raise ValueError(f"the length `{dim}` is {value}")
        return int(value)

    def shape(self, shape: Shape) -> tuple[tuple[int, ...], tuple[str | None, ...]]:
        """The lengths and names of all axes, leading ones included."""
        lengths = tuple(self.length(axis.length) for axis in shape.axes)
        names = tuple(axis.name for axis in shape.axes)
        if shape.prefix is None:
            return lengths, names
        return self.prefix + lengths, (None,) * len(self.prefix) + names

    def operand(self, type_: Type, arith: Arith) -> Operand:
        """A tensor's type at its shape; TypeError for what is no tensor."""
        match type_:
            case types.Real(shape):
                return Operand(Kind.REAL, arith.storage, *self.shape(shape))
            case types.Index(bound, shape):
                return Operand(Kind.INDEX, Elem.I32, *self.shape(shape), self.length(bound))
            case types.Mask(shape):
                return Operand(Kind.MASK, Elem.U8, *self.shape(shape))
            case types.Key():
                return Operand(Kind.KEY, Elem.I32, (), ())
            case _:
                raise TypeError(f"{type_} is no tensor")

    def fields(self, instance: Instance) -> tuple[ParamField | UseField, ...]:
        """The fields of a module instance, in order."""
        return fields(instance, self.headers)

    def bound(self, dims: Dims) -> dict[str, int]:
        """The values of a callee's dimensions; one that the caller's leave open stays open."""
        return {name: self.length(dim) for name, dim in dims if all(symbol in self.dims for symbol in dim.symbols())}

    def leading(self, prefix: Shape | None) -> tuple[int, ...]:
        """The lengths of the axes that a callee's `...` stands for."""
        if prefix is None:
            return ()
        lengths = tuple(
            self.length(axis.length)
            for axis in prefix.axes
            if all(symbol in self.dims for symbol in axis.length.symbols())
        )
        return (self.prefix if prefix.prefix is not None else ()) + lengths


def open_prefix(function: Function, args: Sequence[Value]) -> tuple[int, ...] | None:
    """The lengths of the axes that `...` stands for, read off the arguments; None if no parameter has them."""
    for param, arg in zip(function.params, args):
        waiting: list[tuple[Type, Value]] = [(param.type, arg)]
        while waiting:
            type_, value = waiting.pop()
            match type_, value:
                case ((types.Real(shape) | types.Mask(shape) | types.Index(_, shape)), Tensor(operand)):
                    if shape.prefix is not None:
                        return operand.shape[: len(operand.shape) - len(shape.axes)]
                case types.Tuple(parts), Items(found):
                    waiting += zip(parts, found)
                case _:
                    pass
    return None


def named(value: Value, type_: Type) -> Value:
    """A value with the axis names of a type of its form. (The fields of a tree have the names of their module.)"""
    match type_, value:
        case ((types.Real(shape) | types.Mask(shape) | types.Index(_, shape)), Tensor(operand, ref)):
            leading = len(operand.shape) - len(shape.axes)
            names = (None,) * leading + tuple(axis.name for axis in shape.axes)
            if names == operand.names:
                return value
            return Tensor(msgspec.structs.replace(operand, names=names), ref)
        case types.Tuple(parts), Items(found):
            return Items(tuple(named(one, part) for one, part in zip(found, parts, strict=True)))
        case _:
            return value
