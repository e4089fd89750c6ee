"""The values of a run.

A tensor is a numpy array; its axis names are those of its variable's type, so they are not repeated in the value. The elements of
a real tensor are immutable numbers (of MPFR, or balls) behind an array of references, so whatever selects, transposes, broadcasts
or stacks copies references at most, and mostly nothing: the array is a view. No array is written after it was made. An array
whose strides are all 0 is one element seen many times, which is what zeros and ones are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gmpy2 import mpq
from numpy.typing import NDArray

Objects = NDArray[np.object_]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A real tensor: an array of numbers of the run's arithmetic."""

    data: Objects


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """An index tensor: integers below `bound`, in 64 bits, or as Python's where the bound is larger."""

    data: Array
    bound: int


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A tensor of truth values."""

    data: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Number:
    """A hyperparameter: nat, int, rat, f64, all exact."""

    value: mpq


@dataclass(frozen=True, slots=True)
class Truth:
    """A hyperparameter of type bool."""

    value: bool


@dataclass(frozen=True, slots=True)
class Key:
    """A random key, 32 bytes."""

    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """A stack of values that have no room for an axis in front: keys, numbers. Of none of them, too."""

    items: tuple["Value", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A tuple."""

    items: tuple["Value", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A parameter tree: its fields in order."""

    fields: Mapping[str, "Value"]


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function value: a function at its dimensions and leading axes, with its first arguments."""

    function: str
    dims: Mapping[str, int]
    prefix: tuple[int, ...]
    captured: tuple["Value", ...]


Value = Real | Index | Mask | Number | Truth | Key | Stack | Items | Record | Closure


def uniform(data: Array) -> bool:
    """The array is one element seen many times (an array of one element is not)."""
    return data.size > 1 and not any(data.strides)


def filled(shape: tuple[int, ...], element: object) -> Objects:
    """An array of references to one element: it takes no memory, whatever its shape."""
    one = np.empty((), dtype=object)
    one[()] = element
    return np.broadcast_to(one, shape)


def gathered(elements: Sequence[object], shape: tuple[int, ...]) -> Objects:
    """An array of the elements, in row-major order."""
    return np.fromiter(elements, dtype=object, count=len(elements)).reshape(shape)


def map_leaves(value: Value, real: Callable[[Objects], Objects]) -> Value:
    """The structure with `real` applied to each real tensor; everything else is carried along."""
    match value:
        case Real(data):
            return Real(real(data))
        case Items(items):
            return Items(tuple(map_leaves(item, real) for item in items))
        case Stack(items):
            return Stack(tuple(map_leaves(item, real) for item in items))
        case Record(fields):
            return Record({name: map_leaves(item, real) for name, item in fields.items()})
        case _:
            return value


def join_leaves(left: Value, right: Value, real: Callable[[Objects, Objects], Objects]) -> Value:
    """Two structures of one type leaf by leaf, or a real scalar with every leaf of the other.

    What is no real tensor is carried from the first operand that is a structure.
    """
    match left, right:
        case Real(one), Real(other):
            return Real(real(one, other))
        case Real(one), Items() | Stack() | Record():
            return map_leaves(right, lambda leaf: real(one, leaf))
        case Items() | Stack() | Record(), Real(other):
            return map_leaves(left, lambda leaf: real(leaf, other))
        case Items(one_items), Items(other_items):
            return Items(tuple(join_leaves(a, b, real) for a, b in zip(one_items, other_items, strict=True)))
        case Stack(one_items), Stack(other_items):
            return Stack(tuple(join_leaves(a, b, real) for a, b in zip(one_items, other_items, strict=True)))
        case Record(fields), Record(others):
            return Record({name: join_leaves(item, others[name], real) for name, item in fields.items()})
        case _:
            return left


def leaves(value: Value) -> list[Objects]:
    """The real tensors of a structure, in order."""
    match value:
        case Real(data):
            return [data]
        case Items(items) | Stack(items):
            return [leaf for item in items for leaf in leaves(item)]
        case Record(fields):
            return [leaf for item in fields.values() for leaf in leaves(item)]
        case _:
            return []


def zero_of(value: Value, zeros: Callable[[tuple[int, ...]], Objects]) -> Value:
    """Zeros of a value's form: of a key 32 zero bytes, of an index tensor index 0, of a mask false.

    A number or a function value has no zero that anything reads, and is carried along.
    """
    match value:
        case Real(data):
            return Real(zeros(data.shape))
        case Index(data, bound):
            return Index(np.broadcast_to(np.zeros((), dtype=data.dtype), data.shape), bound)
        case Mask(data):
            return Mask(np.broadcast_to(np.zeros((), dtype=np.bool_), data.shape))
        case Key(data):
            return Key(bytes(len(data)))
        case Items(items):
            return Items(tuple(zero_of(item, zeros) for item in items))
        case Stack(items):
            return Stack(tuple(zero_of(item, zeros) for item in items))
        case Record(fields):
            return Record({name: zero_of(item, zeros) for name, item in fields.items()})
        case _:
            return value


def stack_of(values: Sequence[Value], like: Value) -> Value:
    """The stack of values of one form; `like` gives the form where there is none."""
    match like:
        case Real(data):
            reals = [item.data for item in values if isinstance(item, Real)]
            return Real(_stacked(reals, data, object))
        case Index(data, bound):
            indices = [item.data for item in values if isinstance(item, Index)]
            return Index(_stacked(indices, data, data.dtype), bound)
        case Mask(data):
            masks = [item.data for item in values if isinstance(item, Mask)]
            return Mask(_stacked(masks, data, np.bool_))
        case Items(items):
            rows = [item.items for item in values if isinstance(item, Items)]
            return Items(tuple(stack_of([row[place] for row in rows], item) for place, item in enumerate(items)))
        case Record(fields):
            trees = [item.fields for item in values if isinstance(item, Record)]
            return Record({name: stack_of([tree[name] for tree in trees], item) for name, item in fields.items()})
        case _:
            return Stack(tuple(values))


def _stacked(parts: Sequence[Array], like: Array, dtype: Any) -> Array:
    if not parts:
        return np.empty((0, *like.shape), dtype=dtype)
    first = parts[0]
    if uniform(first) and all(uniform(part) and part.flat[0] is first.flat[0] for part in parts):
        return np.broadcast_to(first, (len(parts), *first.shape))
    return np.stack(parts)


def slice_of(stack: Value, place: int) -> Value:
    """One value of a stack. IndexError outside it."""
    match stack:
        case Real(data):
            return Real(data[place, ...])
        case Index(data, bound):
            return Index(data[place, ...], bound)
        case Mask(data):
            return Mask(data[place, ...])
        case Stack(items):
            return items[place]
        case Items(items):
            return Items(tuple(slice_of(item, place) for item in items))
        case Record(fields):
            return Record({name: slice_of(item, place) for name, item in fields.items()})
        case _:
            raise TypeError(f"{type(stack).__name__} is no stack")


def with_slice(stack: Value, value: Value, place: int) -> Value:
    """The stack with one value replaced."""
    match stack, value:
        case Real(data), Real(part):
            return Real(_replaced(data, part, place))
        case Index(data, bound), Index(part):
            return Index(_replaced(data, part, place), bound)
        case Mask(data), Mask(part):
            return Mask(_replaced(data, part, place))
        case Stack(items), _:
            return Stack((*items[:place], value, *items[place + 1 :]))
        case Items(items), Items(parts):
            return Items(tuple(with_slice(item, part, place) for item, part in zip(items, parts, strict=True)))
        case Record(fields), Record(others):
            return Record({name: with_slice(item, others[name], place) for name, item in fields.items()})
        case _:
            raise TypeError(f"{type(value).__name__} does not go into {type(stack).__name__}")


def _replaced(data: Array, part: Array, place: int) -> Array:
    if len(data) == 1:
        return part[np.newaxis]
    if uniform(data) and uniform(part) and part.flat[0] is data.flat[0]:
        return data
    result = np.array(data)
    result[place, ...] = part
    return result
