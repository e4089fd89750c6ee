"""How many kernels an entry launches, counted without running it.

A fusion group launches once, and so does a primitive outside a group; on a tree either does once a leaf. What only moves, names
or holds values launches nothing, nor does what computes with hyperparameters or fills with a constant. A fold launches what its
body does, once an iteration. Both executors and reports count so (the realize chapter, "What it removes").
"""

from collections.abc import Callable, Mapping
from typing import Final

from presk.core.fusion import partition
from presk.core.ir import Apply, Call, Closure, Dims, Fold, Function, Operation, Prim, Program
from presk.types.type import Hyper, Index, Instance, Mask, Params, Real, Stack, Tuple, Type

FREE: Final = frozenset(
    {
        *("merge", "split", "reshape_like", "retag", "split_key", "zeros_like", "zeros", "ones", "pi"),
        *("set_field", "set_elem", "slice_params", "scatter_params", "stack_params", "set_slice"),
        *("stack_zero", "get_slice"),
    }
)
"""Primitives that launch nothing."""


class Launches:
    """Counts for the functions of a program. `leaves` gives the number of leaves of an instance's tree."""

    def __init__(self, program: Program, leaves: Callable[[Instance], int], *, fused: bool) -> None:
        self._functions = {function.name: function for function in program.functions}
        self._leaves = leaves
        self._fused = fused
        self._sites: dict[str, tuple[int, tuple[Operation, ...]]] = {}

    def of(self, entry: str, dims: Mapping[str, int]) -> int:
        """The launches of one call of a function; KeyError for a dimension that a loop needs and `dims` lacks."""
        if entry not in self._sites:
            self._sites[entry] = self._read(self._functions[entry])
        total, inner = self._sites[entry]
        for op in inner:
            match op:
                case Call(callee, values) | Closure(callee, values):
                    total += self.of(callee, _known(values, dims))
                case Fold(count, callee, values):
                    total += int(count.evaluate(dims)) * self.of(callee, _known(values, dims))
        return total

    def _read(self, function: Function) -> tuple[int, tuple[Operation, ...]]:
        """The launches of a body's own primitives, and the calls, folds and applied closures in it."""
        types: dict[int, Type] = {place: param.type for place, param in enumerate(function.params)}
        made: dict[int, Operation] = {}
        interior = partition(function).interior() if self._fused else frozenset()
        total = 0
        inner: list[Operation] = []
        for binding in function.bindings:
            types[binding.var], made[binding.var] = binding.type, binding.op
            match binding.op:
                case Prim(name, args):
                    if name not in FREE and binding.var not in interior:
                        total += self._launches(binding.type, [types[arg] for arg in args])
                case Call() | Fold() as op:
                    inner.append(op)
                case Apply(value):
                    inner.append(made[value])
        return total, tuple(inner)

    def _launches(self, type_: Type, operands: list[Type]) -> int:
        """The launches of a primitive, by its type and its operands'."""
        if isinstance(type_, Hyper) or (operands and all(isinstance(one, Hyper) for one in operands)):
            return 0
        trees = sum(self._tensors(one) for one in operands if isinstance(one, Params))
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


def _known(values: Dims, dims: Mapping[str, int]) -> dict[str, int]:
    """The dimensions of a callee whose values the caller's decide."""
    return {name: int(value.evaluate(dims)) for name, value in values if set(value.symbols()) <= dims.keys()}
