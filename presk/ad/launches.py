"""How many kernels an entry launches, counted without running it.

A fusion group launches once, and so does a primitive outside a group; on a tree either does once a leaf. What only moves, names
or holds values launches nothing, nor does what computes with hyperparameters or fills with a constant. A fold launches what its
body does, once an iteration. Both executors and reports count so (the realize chapter, "What it removes").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from presk.ad.closures import made_by
from presk.core.fusion import partition
from presk.core.ir import Apply, Call, Closure, Dims, Fold, Function, Operation, Prim, Program, operands
from presk.types.type import Hyper, Index, Instance, Mask, Params, Real, Stack, Tuple, Type

FREE: Final = frozenset(
    {
        *("merge", "split", "reshape_like", "retag", "split_key", "zeros_like", "zeros", "ones", "pi"),
        *("set_field", "set_elem", "slice_params", "scatter_params", "stack_params", "set_slice"),
        *("stack_zero", "get_slice"),
    }
)
"""Primitives that launch nothing."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A function value: what it calls, at which dimensions, and the function values among what it captured, by parameter."""

    function: str
    dims: Mapping[str, int]
    captured: Mapping[int, "_Value"]


class Launches:
    """Counts for the functions of a program. `leaves` gives the number of leaves of an instance's tree."""

    def __init__(self, program: Program, leaves: Callable[[Instance], int], *, fused: bool) -> None:
        self._functions = {function.name: function for function in program.functions}
        self._leaves = leaves
        self._fused = fused
        self._own: dict[str, int] = {}

    def of(self, entry: str, dims: Mapping[str, int]) -> int:
        """The launches of one call of a function; KeyError for a dimension that a loop needs and `dims` lacks."""
        return self._of(entry, dims, {})

    def _of(self, name: str, dims: Mapping[str, int], given: Mapping[int, _Value]) -> int:
        function = self._functions[name]
        if name not in self._own:
            self._own[name] = self._primitives(function)
        total = self._own[name]
        ops = {binding.var: binding.op for binding in function.bindings}
        values = dict(given)
        for binding in function.bindings:
            op = binding.op
            inner = {place: values[var] for place, var in enumerate(operands(op)) if var in values}
            match op:
                case Call(callee, at):
                    total += self._of(callee, _known(at, dims), inner)
                case Fold(count, callee, at):
                    total += int(count.evaluate(dims)) * self._of(callee, _known(at, dims), inner)
                case Closure(callee, at):
                    values[binding.var] = _Value(callee, _known(at, dims), inner)
                case Apply(function=var):
                    value = values[var] if var in values else values[_maker(ops, var)]
                    total += self._of(value.function, value.dims, value.captured)
        return total

    def _primitives(self, function: Function) -> int:
        """The launches of a body's own primitives."""
        types: dict[int, Type] = {place: param.type for place, param in enumerate(function.params)}
        interior = partition(function).interior() if self._fused else frozenset()
        total = 0
        for binding in function.bindings:
            types[binding.var] = binding.type
            match binding.op:
                case Prim(name, args) if name not in FREE and binding.var not in interior:
                    total += self._launches(binding.type, [types[arg] for arg in args])
        return total

    def _launches(self, type_: Type, given: list[Type]) -> int:
        """The launches of a primitive, by its type and its operands'."""
        if isinstance(type_, Hyper) or (given and all(isinstance(one, Hyper) for one in given)):
            return 0
        trees = sum(self._tensors(one) for one in given if isinstance(one, Params))
        return trees if trees and isinstance(type_, Real) else self._tensors(type_)

    def _tensors(self, type_: Type) -> int:
        match type_:
            case Real() | Index() | Mask():
                return 1
            case Params(instance):
                return self._leaves(instance)
            case Tuple(items):
                return sum(map(self._tensors, items))
            case Stack(_, item):
                return self._tensors(item)
            case _:
                return 0


def _maker(ops: Mapping[int, Operation], var: int) -> int:
    """The binding of a closure that a value is an item away from."""
    made = made_by(ops, var)
    return next(one for one, op in ops.items() if op is made)


def _known(values: Dims, dims: Mapping[str, int]) -> dict[str, int]:
    """The dimensions of a callee whose values the caller's decide."""
    return {name: int(value.evaluate(dims)) for name, value in values if set(value.symbols()) <= dims.keys()}
