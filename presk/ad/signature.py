"""What a function's derivative needs to know of the functions it calls."""

from collections.abc import Iterable, Mapping

import msgspec

from presk.ad.kinds import carries
from presk.core.calls import has_prefix, same_dims
from presk.core.ir import Dims, Function, Param
from presk.types.type import PREFIX, Shape, Type, instantiate


class Signature(msgspec.Struct, frozen=True, array_like=True):
    """A function without its body."""

    name: str
    dims: tuple[str, ...]
    params: tuple[Param, ...]
    result: Type

    def adjoints(self) -> tuple[int, ...]:
        """The parameters that have an adjoint, in order: what the function's `.vjp` returns."""
        return tuple(place for place, param in enumerate(self.params) if carries(param.type))

    def param_types(self, dims: Dims, prefix: Shape | None) -> tuple[Type, ...]:
        """The parameters' types at a call."""
        values = dict(dims)
        return tuple(instantiate(param.type, values, prefix) for param in self.params)

    def result_type(self, dims: Dims, prefix: Shape | None) -> Type:
        """The type of the result at a call."""
        return instantiate(self.result, dict(dims), prefix)

    def same_dims(self) -> Dims:
        """The function's dimensions, handed on to one that shares them."""
        return same_dims(self.dims)


def own_prefix(function: Function | Signature) -> Shape | None:
    """What a function that mentions `...` gets for it from one that has the same; None for one that does not."""
    mentioned = any(has_prefix(param.type) for param in function.params) or has_prefix(function.result)
    return Shape((), PREFIX) if mentioned else None


Signatures = Mapping[str, Signature]


def signature(function: Function) -> Signature:
    """A function's signature."""
    return Signature(function.name, function.dims, function.params, function.result)


def signatures(functions: Iterable[Function]) -> dict[str, Signature]:
    """Signatures by name."""
    return {function.name: signature(function) for function in functions}
