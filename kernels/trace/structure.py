"""Primitives that launch nothing: what holds, moves and names values, and what a type alone decides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from presk.kernels.nest import Arith
from presk.kernels.trace.hyper import AnyExpr, Known, Pi
from presk.kernels.trace.recorder import Recorder
from presk.kernels.trace.scope import Scope
from presk.kernels.trace.values import Hyper, Items, Record, Value
from presk.prims.attrs import Attr, Place, Word
from presk.types.type import Type


@dataclass(frozen=True, slots=True)
class Structural:
    """A use of such a primitive."""

    recorder: Recorder
    scope: Scope
    args: tuple[Value, ...]
    type: Type
    attrs: Mapping[str, Attr]
    arith: Arith

    def word(self, key: str) -> str:
        """A name among the attributes."""
        found = self.attrs[key]
        assert isinstance(found, Word)
        return found.text

    def place(self, key: str) -> int:
        """A number among the attributes."""
        found = self.attrs[key]
        assert isinstance(found, Place)
        return found.value

    def number(self, place: int) -> AnyExpr:
        """A hyperparameter among the operands."""
        return expression(self.args[place])

    def record(self) -> Record:
        """The first operand, a tree."""
        return record(self.args[0])


def record(value: Value) -> Record:
    """A tree; TypeError for anything else."""
    if not isinstance(value, Record):
        raise TypeError(f"{type(value).__name__} has no fields")
    return value


def items(value: Value) -> Items:
    """A tuple; TypeError for anything else."""
    if not isinstance(value, Items):
        raise TypeError(f"{type(value).__name__} is no tuple")
    return value


def expression(value: Value) -> AnyExpr:
    """A hyperparameter; TypeError for anything else."""
    if not isinstance(value, Hyper):
        raise TypeError(f"{type(value).__name__} is no hyperparameter")
    return value.expr


def _filled(fill: float) -> Callable[[Structural], Value]:
    return lambda use: use.recorder.of_type(use.scope, use.type, use.arith, fill)


def _pi(use: Structural) -> Value:
    return use.recorder.scalar(Pi(), use.scope.operand(use.type, use.arith))


def _zeros_like(use: Structural) -> Value:
    return use.recorder.zero_of(use.args[0])


def _set_field(use: Structural) -> Value:
    return Record({**use.record().fields, use.word("name"): use.args[1]})


def _set_elem(use: Structural) -> Value:
    place = use.place("place")
    found = items(use.args[0]).items
    return Items((*found[:place], use.args[1], *found[place + 1 :]))


def _slice_params(use: Structural) -> Value:
    return use.recorder.slice(use.args[0], Known(str(use.place("i"))))


def _scatter_params(use: Structural) -> Value:
    """The adjoint of `slice_params`: one slice of a stack of zeros."""
    return use.recorder.with_slice(use.recorder.zero_of(use.args[1]), use.args[0], Known(str(use.place("i"))))


def _stack_params(use: Structural) -> Value:
    if not use.args:
        return use.recorder.of_type(use.scope, use.type, use.arith, 0.0)
    return use.recorder.stack(use.args, use.args[0])


def _set_slice(use: Structural) -> Value:
    return use.recorder.with_slice(use.args[0], use.args[1], use.number(2))


def _get_slice(use: Structural) -> Value:
    return use.recorder.slice(use.args[0], use.number(1))


STRUCTURAL: Final[Mapping[str, Callable[[Structural], Value]]] = MappingProxyType(
    {
        "zeros": _filled(0.0),
        "stack_zero": _filled(0.0),
        "ones": _filled(1.0),
        "pi": _pi,
        "zeros_like": _zeros_like,
        "set_field": _set_field,
        "set_elem": _set_elem,
        "slice_params": _slice_params,
        "scatter_params": _scatter_params,
        "stack_params": _stack_params,
        "set_slice": _set_slice,
        "get_slice": _get_slice,
    }
)
"""By name of the primitive."""
