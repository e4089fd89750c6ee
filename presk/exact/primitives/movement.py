"""What moves, selects and joins, and what a type decides: no number is computed."""

from typing import Any

import numpy as np

from presk.exact.primitives.use import Use
from presk.exact.values import Array, Index, Mask, Objects, Real, Value
from presk.prims.attrs import Select


def merge(use: Use) -> Value:
    """Two adjacent axes as one."""
    x = use.real(0)
    first = use.axis("first")
    place = x.ndim + use.place(0, first or "")
    return Real(x.reshape(*x.shape[:place], x.shape[place] * x.shape[place + 1], *x.shape[place + 2 :]))


def split(use: Use) -> Value:
    """One axis as two."""
    x = use.real(0)
    place = x.ndim + use.place(0, use.axis() or "")
    return Real(x.reshape(*x.shape[:place], use.length("outer"), use.length("inner"), *x.shape[place + 1 :]))


def reshape_like(use: Use) -> Value:
    """The adjoint of both."""
    return Real(use.real(0).reshape(use.real(1).shape))


def split_heads(use: Use) -> Value:
    """`[…, seq, model]` as `[…, heads, seq, hd]`."""
    x = use.real(0)
    return Real(np.swapaxes(x.reshape(*x.shape[:-1], use.length("heads"), use.length("hd")), -3, -2))


def merge_heads(use: Use) -> Value:
    """`[…, heads, seq, hd]` as `[…, seq, model]`."""
    x = np.swapaxes(use.real(0), -3, -2)
    return Real(x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1]))


def concat(use: Use) -> Value:
    """Two tensors along an axis."""
    place = use.place(0, use.axis() or "")
    return Real(np.concatenate([use.real(0), use.real(1)], axis=place))


def _selection(use: Use, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The index of what the selectors select of a tensor of this shape; that it lies inside was checked before the run."""
    index: list[Any] = [slice(None)] * len(shape)
    for attr in use.attrs.values():
        if not isinstance(attr, Select):
            raise TypeError("a selection has selectors only")
        place = len(shape) + attr.position
        if attr.hi is not None:
            index[place] = slice(use.scope.length(attr.lo), use.scope.length(attr.hi))
        elif attr.lo.is_constant() and attr.lo.constant < 0:
            index[place] = shape[place] + int(attr.lo.constant)
        else:
            index[place] = use.scope.length(attr.lo)
    return (*index, ...)


def select(use: Use) -> Value:
    """`slice` and `index`, of reals, indices and masks."""
    match use.args[0]:
        case Real(data):
            return Real(data[_selection(use, data.shape)])
        case Index(data, bound):
            return Index(data[_selection(use, data.shape)], bound)
        case Mask(data):
            return Mask(data[_selection(use, data.shape)])
        case other:
            raise TypeError(f"{type(other).__name__} has no axes")


def deselect(use: Use) -> Value:
    """`slice_vjp` and `scatter_index`: the cotangent in zeros of x's shape."""
    x = use.real(1)
    result: Objects = np.array(use.m.zeros(x.shape))
    result[_selection(use, x.shape)] = use.real(0)
    return Real(result)


def positions(use: Use) -> Value:
    """0 … n − 1."""
    length = use.length("axis")
    return Index(np.arange(length, dtype=np.int64), length)


def causal_mask(use: Use) -> Value:
    """True where the second place is not behind the first."""
    length = use.length("axis")
    mask: Array = np.tri(length, dtype=np.bool_)
    return Mask(mask)
