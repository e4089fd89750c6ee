"""Parameter trees, tuples and stacks, and what a type alone decides."""

from collections.abc import Callable

import numpy as np
from gmpy2 import mpq

from presk.exact import values
from presk.exact.draws import KEY_BYTES
from presk.exact.primitives.use import Use
from presk.exact.scope import Scope
from presk.exact.values import Index, Items, Key, Mask, Number, Objects, Real, Record, Truth, Value
from presk.types import type as types
from presk.types.trees import ParamField
from presk.types.type import HyperKind, Type

Fill = Callable[[tuple[int, ...]], Objects]


def of_type(scope: Scope, type_: Type, fill: Fill) -> Value:
    """The value of a type whose reals are `fill`'s, and everything else zero."""
    match type_:
        case types.Real(shape):
            return Real(fill(scope.shape(shape)))
        case types.Index(bound, shape):
            return Index(np.broadcast_to(np.int64(0), scope.shape(shape)), scope.length(bound))
        case types.Mask(shape):
            return Mask(np.broadcast_to(np.bool_(False), scope.shape(shape)))
        case types.Key():
            return Key(bytes(KEY_BYTES))
        case types.Hyper(kind):
            return Truth(False) if kind is HyperKind.BOOL else Number(mpq(0))
        case types.Tuple(items):
            return Items(tuple(of_type(scope, item, fill) for item in items))
        case types.Params(instance):
            return Record(
                {
                    item.name: of_type(
                        scope, item.type if isinstance(item, ParamField) else types.Params(item.instance), fill
                    )
                    for item in scope.fields(instance)
                }
            )
        case types.Stack(count, item):
            one = of_type(scope, item, fill)
            return values.stack_of([one] * scope.length(count), one)
        case _:
            raise TypeError(f"{type_} does not decide a value")


def zeros(use: Use) -> Value:
    """`zeros` and `stack_zero`."""
    return of_type(use.scope, use.result, use.m.zeros)


def ones(use: Use) -> Value:
    """`ones`."""
    return of_type(use.scope, use.result, use.m.ones)


def zeros_like(use: Use) -> Value:
    """Zeros of the operand's form."""
    return values.zero_of(use.args[0], use.m.zeros)


def _record(value: Value) -> Record:
    if not isinstance(value, Record):
        raise TypeError(f"{type(value).__name__} is no tree")
    return value


def set_field(use: Use) -> Value:
    """A tree with one field replaced."""
    return Record({**_record(use.args[0]).fields, use.word("name"): use.args[1]})


def set_elem(use: Use) -> Value:
    """A tuple with one item replaced."""
    value, place = use.args[0], use.number_of("place")
    if not isinstance(value, Items):
        raise TypeError(f"{type(value).__name__} is no tuple")
    return Items((*value.items[:place], use.args[1], *value.items[place + 1 :]))


def slice_params(use: Use) -> Value:
    """A slice of a stacked tree, by a constant."""
    return values.slice_of(use.args[0], use.number_of("i"))


def scatter_params(use: Use) -> Value:
    """The adjoint of `slice_params`: a slice in a tree of zeros."""
    zero = values.zero_of(use.args[1], use.m.zeros)
    return values.with_slice(zero, use.args[0], use.number_of("i"))


def stack_params(use: Use) -> Value:
    """Trees stacked; of none the type decides the form."""
    if not use.args:
        return zeros(use)
    return values.stack_of(use.args, use.args[0])


def set_slice(use: Use) -> Value:
    """`set_slice stack, value, i`."""
    return values.with_slice(use.args[0], use.args[1], use.whole(2))


def get_slice(use: Use) -> Value:
    """`get_slice stack, i`."""
    return values.slice_of(use.args[0], use.whole(1))
