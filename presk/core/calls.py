"""What a call does to its callee's types, and what can be read off a call's operands."""

from collections.abc import Iterable, Sequence

from presk.core.ir import Dims, Fold, Function
from presk.core.stacks import unstacked
from presk.types.dim import symbol
from presk.types.type import PREFIX, Axis, Index, Mask, Real, Shape, Stack, Tuple, Type, instantiate
from presk.types.type import Function as FunctionType


def same_dims(dims: Iterable[str]) -> Dims:
    """Dimensions handed on to a function that has the same."""
    return tuple((name, symbol(name)) for name in dims)


def has_prefix(type_: Type) -> bool:
    """Whether a shape in the type begins with `...`."""
    match type_:
        case Real(shape) | Mask(shape) | Index(_, shape):
            return shape.prefix is not None
        case Tuple(items):
            return any(map(has_prefix, items))
        case FunctionType(params, result):
            return any(map(has_prefix, (*params, result)))
        case Stack(_, item):
            return has_prefix(item)
        case _:
            return False


def is_open(function: Function) -> bool:
    """Whether a function's signature mentions `...`: then a call of it says what that stands for."""
    return any(has_prefix(param.type) for param in function.params) or has_prefix(function.result)


def param_types(function: Function, dims: Dims, prefix: Shape | None) -> tuple[Type, ...]:
    """The types of the parameters at a call."""
    values = dict(dims)
    return tuple(instantiate(param.type, values, prefix) for param in function.params)


def result_type(function: Function, dims: Dims, prefix: Shape | None) -> Type:
    """The type of the result at a call."""
    return instantiate(function.result, dict(dims), prefix)


def iterated_types(op: Fold, types: Sequence[Type]) -> tuple[Type | None, ...]:
    """The types of a fold's operands as its body gets them: slices of what is stacked; None for what is no stack."""
    found: list[Type | None] = []
    for place, type_ in enumerate(types):
        if place < len(op.stacked):
            try:
                found.append(unstacked(type_))
            except ValueError:
                found.append(None)
        else:
            found.append(type_)
    return tuple(found)


def implied_prefix(function: Function, given: Sequence[Type | None]) -> Shape | None:
    """What `...` of a function stands for, as far as the first arguments say: the leading axes of one that has it, with every
    name that some argument knows. It stands for itself where no argument says; None for a function without it."""
    if not is_open(function):
        return None
    found: Shape | None = None
    for param, type_ in zip(function.params, given):
        if type_ is not None:
            found = _leading(param.type, type_, found)
    return found if found is not None else Shape((), PREFIX)


def _leading(pattern: Type, given: Type, found: Shape | None) -> Shape | None:
    match pattern, given:
        case (Real(wanted), Real(shape)) | (Mask(wanted), Mask(shape)) | (Index(_, wanted), Index(_, shape)):
            count = len(shape.axes) - len(wanted.axes)
            if wanted.prefix is None or count < 0:
                return found
            return _merged(found, Shape(shape.axes[:count], shape.prefix))
        case Tuple(items), Tuple(others):
            for item, other in zip(items, others):
                found = _leading(item, other, found)
            return found
        case Stack(_, item), Stack(_, other):
            return _leading(item, other, found)
        case _:
            return found


def _merged(known: Shape | None, more: Shape) -> Shape:
    if known is None or len(known.axes) != len(more.axes):
        return more if known is None else known
    axes = (
        Axis(axis.length, axis.name if axis.name is not None else other.name)
        for axis, other in zip(known.axes, more.axes)
    )
    return Shape(tuple(axes), known.prefix)
