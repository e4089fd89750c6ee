"""The end of typing a body: every unknown replaced, and what stayed unknown reported (E2017)."""

from typing import Any, Final, cast
from typing import TypeVar as TypeVariable

import msgspec

from presk.syntax.tree import At
from presk.types.dim import Dim
from presk.types.type import (
    Composed,
    Function,
    Hyper,
    Index,
    Key,
    Mask,
    ModuleType,
    Named,
    Params,
    Real,
    Shape,
    Stacked,
    Tuple,
    Type,
    TypeVar,
    instance_dims,
    type_dims,
)
from presk.typing.checker import Checker
from presk.typing.typed import Direct, Hole, Node, Typed, Wrong
from presk.typing.unify import WRONG

_TYPES: Final = (Real, Index, Mask, Hyper, Key, Tuple, Params, ModuleType, Function, TypeVar)
_INSTANCES: Final = (Named, Stacked, Composed)


T = TypeVariable("T")


def resolved(checker: Checker, value: T) -> T:
    """A typed tree (or any part of one) with solved unknowns replaced and holes filled."""
    return cast("T", _resolve(checker, value))


def _resolve(checker: Checker, value: Any) -> Any:
    if isinstance(value, _TYPES):
        return checker.subst.type(value)
    if isinstance(value, Dim):
        return checker.subst.dim(value)
    if isinstance(value, Shape):
        return checker.subst.shape(value)
    if isinstance(value, _INSTANCES):
        return checker.subst.instance(value)
    if isinstance(value, Hole):
        filled = checker.filled.get(value.number)
        return _resolve(checker, filled) if filled is not None else value
    if isinstance(value, tuple):
        return tuple(_resolve(checker, item) for item in value)
    if isinstance(value, msgspec.Struct):
        return type(value)(*(_resolve(checker, getattr(value, name)) for name in value.__struct_fields__))
    return value


def unsolved(node: Typed) -> tuple[At, str] | None:
    """The first expression whose type or instantiation has an unknown left, and what is unknown, in words."""
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, Hole):
            return item.at, "type"
        if isinstance(item, Wrong):
            continue
        if isinstance(item, Node):
            children = [getattr(item, name) for name in item.__struct_fields__ if name not in ("at", "type")]
            stack += [Check(item.at, item.type), *reversed(children)]
        elif isinstance(item, Check):
            what = unknown_in(item.type)
            if what is not None:
                return item.at, what
        elif isinstance(item, Direct):
            for name, value in item.dims:
                if any(other.startswith("?") for other in value.symbols()):
                    return Check.place(stack, node), f"dimension `{name}` of `{item.function.name}`"
        elif isinstance(item, tuple):
            stack += reversed(item)
        elif isinstance(item, msgspec.Struct) and not isinstance(item, (*_TYPES, *_INSTANCES, Dim, Shape)):
            stack += [getattr(item, name) for name in item.__struct_fields__]
    return None


class Check(msgspec.Struct, frozen=True):
    """A type to be looked at, with the place of its expression."""

    at: At
    type: Type

    @staticmethod
    def place(stack: list[Any], node: Typed) -> At:
        """The place of the expression whose parts are being walked: its type stands next on the stack."""
        for item in reversed(stack):
            if isinstance(item, Check):
                return item.at
        return node.at


def unknown_in(type_: Type) -> str | None:
    """What a type leaves unknown, in words; None if nothing."""
    match type_:
        case TypeVar() if type_ != WRONG:
            return "type"
        case Real(shape) | Mask(shape) | Index(_, shape):
            if shape.prefix is not None and shape.prefix.startswith("?"):
                return "shape"
            dims = type_dims(type_)
        case Tuple(items):
            return next((what for item in items if (what := unknown_in(item)) is not None), None)
        case Function(params, result):
            return next((what for item in (*params, result) if (what := unknown_in(item)) is not None), None)
        case Params(instance) | ModuleType(instance):
            dims = instance_dims(instance)
        case _:
            return None
    for dim in dims:
        for name in dim.symbols():
            if name.startswith("?"):
                hint = name.partition(".")[2]
                return f"dimension `{hint}`" if hint else "dimension"
    return None
