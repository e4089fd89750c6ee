"""What evaluating a function needs to know of it beside its text: types of variables, when each is read last, where `...` shows."""

from dataclasses import dataclass

from presk.core.ir import Function, operands
from presk.exact.values import Index, Items, Mask, Real, Value
from presk.types import type as types
from presk.types.type import Type


@dataclass(frozen=True, slots=True)
class Plan:
    """A function with its liveness.

    `last[i]` are the variables that binding i reads last, itself included if nothing reads it; `unread` the parameters that nothing
    reads. `leading` says where a tensor behind the open prefix is found: the parameter, the way through tuples to it, and how many
    axes it has besides.
    """

    function: Function
    types: dict[int, Type]
    last: tuple[frozenset[int], ...]
    unread: frozenset[int]
    leading: tuple[int, tuple[int, ...], int] | None


def plan(function: Function) -> Plan:
    """The plan of a function."""
    found = {place: param.type for place, param in enumerate(function.params)}
    last_read: dict[int, int] = {}
    for place, binding in enumerate(function.bindings):
        found[binding.var] = binding.type
        last_read[binding.var] = place
        for var in operands(binding.op):
            last_read[var] = place
    last_read.pop(function.returns, None)
    last: list[set[int]] = [set() for _ in function.bindings]
    for var, place in last_read.items():
        last[place].add(var)
    unread = frozenset(
        place for place in range(len(function.params)) if place not in last_read and place != function.returns
    )
    return Plan(function, found, tuple(map(frozenset, last)), unread, _leading(function))


def _leading(function: Function) -> tuple[int, tuple[int, ...], int] | None:
    for number, param in enumerate(function.params):
        waiting: list[tuple[tuple[int, ...], Type]] = [((), param.type)]
        while waiting:
            path, type_ = waiting.pop()
            match type_:
                case types.Real(shape) | types.Mask(shape) | types.Index(_, shape) if shape.prefix is not None:
                    return number, path, len(shape.axes)
                case types.Tuple(items):
                    waiting += [((*path, place), item) for place, item in enumerate(items)]
                case _:
                    pass
    return None


def prefix_of(plan_: Plan, args: list[Value]) -> tuple[int, ...] | None:
    """The lengths of the leading axes, read off the arguments; None if no parameter has them."""
    if plan_.leading is None:
        return None
    number, path, behind = plan_.leading
    value = args[number]
    for place in path:
        if not isinstance(value, Items):
            raise TypeError(f"{type(value).__name__} is no tuple")
        value = value.items[place]
    if not isinstance(value, Real | Index | Mask):
        raise TypeError(f"{type(value).__name__} is no tensor")
    return value.data.shape[: value.data.ndim - behind]
