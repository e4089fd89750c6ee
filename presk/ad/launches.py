"""How many kernels an entry launches, counted without running it.

A fusion group launches once, and so does a primitive outside a group; on a tree either does once a leaf. What only moves, names
or holds values launches nothing, nor does what computes with hyperparameters or fills with a constant. A fold launches what its
body does, once an iteration. Both executors and reports count so (the realize chapter, "What it removes").
"""

from collections.abc import Callable, Mapping
from typing import Final

from presk.core.fusion import partition
from presk.core.ir import Apply, Binding, Call, Closure, Fold, Function, Prim, Program
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
        self._interior: dict[str, frozenset[int]] = {}

    def of(self, entry: str, dims: Mapping[str, int]) -> int:
        """The launches of one call of a function; KeyError for a dimension that a loop needs and `dims` lacks."""
        function = self._functions[entry]
        closures = {binding.var: binding.op for binding in function.bindings if isinstance(binding.op, Closure)}
        interior = self._inside(function)
        total = 0
        for binding in function.bindings:
            match binding.op:
                case Prim():
                    total += self._prim(function, binding, binding.op) if binding.var not in interior else 0
                case Call(callee, values, _, _):
                    total += self._call(callee, values, dims)
                case Fold(count, callee, values):
                    total += int(count.evaluate(dims)) * self._call(callee, values, dims)
                case Apply(value, _):
                    closure = closures[value]
                    total += self._call(closure.function, closure.dims, dims)
                case _:
                    continue
        return total

    def _inside(self, function: Function) -> frozenset[int]:
        if not self._fused:
            return frozenset()
        if function.name not in self._interior:
            self._interior[function.name] = partition(function).interior()
        return self._interior[function.name]

    def _call(self, callee: str, values: tuple[tuple[str, object], ...], dims: Mapping[str, int]) -> int:
        inner = {}
        for name, value in values:
            try:
                inner[name] = int(value.evaluate(dims))  # type: ignore[attr-defined]
            except KeyError:
                continue  # a dimension that the caller does not know: a loop over it is refused where it stands
        return self.of(callee, inner)

    def _prim(self, function: Function, binding: Binding, op: Prim) -> int:
        if op.name in FREE or isinstance(binding.type, Hyper):
            return 0
        if op.args and all(isinstance(self._type(function, arg), Hyper) for arg in op.args):
            return 0
        if isinstance(binding.type, Real) and any(isinstance(t, Params) for t in map(lambda a: self._type(function, a), op.args)):
            return sum(self._tensors(self._type(function, arg)) for arg in op.args)
        return self._tensors(binding.type)

    def _type(self, function: Function, var: int) -> Type:
        if var < len(function.params):
            return function.params[var].type
        return next(binding.type for binding in function.bindings if binding.var == var)

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
