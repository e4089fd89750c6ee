"""Values for the parameters of a generated program: exact, small, none at a kink.

A real tensor is an array of fractions, an index tensor an array of integers, a mask one of truth values, a key a seed, a tuple a
tuple, a tree a dictionary. Every real is an odd multiple of 2⁻¹⁶ below 2 in size, all of them different, so that no two agree and
none is a number that a program writes down. A mask is true wherever some index is 0: along no axis is a row of it empty.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from presk.exact import values as exact
from presk.exact.given import Given
from tests.programs.entries import Entry
from tests.programs.types import Axes, Hyper, Idx, Key, Mask, Real, T, Tree, Tup, tree_fields

Value = Any
Path = tuple[Any, ...]
_SCALE: Final = 1 << 16


class Inputs:
    """Draws values, the same ones for the same seed."""

    def __init__(self, seed: int, dims: Mapping[str, int]) -> None:
        self._random: Final = random.Random(seed)
        self._dims: Final = dims
        self._used: Final[set[int]] = set()

    def entry(self, entry: Entry) -> dict[str, Value]:
        """Values for all parameters."""
        return {name: self.value(type_) for name, type_ in entry.params}

    def value(self, type_: T) -> Value:
        """A value of a type."""
        match type_:
            case Real(axes):
                return self._array(axes, self._real, object)
            case Idx(bound, axes):
                return self._array(axes, lambda _: self._random.randrange(bound.at(self._dims)), np.int64)
            case Mask(axes):
                return self._array(axes, lambda at: 0 in at or self._random.random() < 0.5, np.bool_)
            case Hyper("nat"):
                return self._random.randrange(4)
            case Hyper("int"):
                return self._random.randrange(-3, 4)
            case Hyper("bool"):
                return self._random.random() < 0.5
            case Hyper():
                return Fraction(self._random.randrange(-48, 49), 16)
            case Key():
                return self._random.randrange(1 << 30)
            case Tup(items):
                return tuple(map(self.value, items))
            case Tree(inst):
                return {name: self.value(held) for name, held in tree_fields(inst)}

    def _array(self, axes: Axes, make: Callable[[tuple[int, ...]], Any], dtype: Any) -> Any:
        found = np.empty(tuple(axis.length.at(self._dims) for axis in axes), dtype=dtype)
        for at in np.ndindex(found.shape):
            found[at] = make(at)
        return found

    def _real(self, _: tuple[int, ...]) -> Fraction:
        while True:
            number = self._random.randrange(1, 2 * _SCALE, 2)
            if number not in self._used:
                self._used.add(number)
                return Fraction(number if self._random.random() < 0.5 else -number, _SCALE)


# --- in other forms ---------------------------------------------------------------------------------------------------


def floats(value: Value) -> Value:
    """The value with reals in binary64 (exactly), as the plain evaluator takes it."""
    match value:
        case dict():
            return {name: floats(item) for name, item in value.items()}
        case tuple():
            return tuple(map(floats, value))
        case np.ndarray() if value.dtype == object:
            return value.astype(np.float64)
        case _:
            return value


def given(inputs: Mapping[str, Value]) -> dict[str, Given]:
    """The inputs as files of JSON, exactly."""
    return {name: Given(f"{name}.json", json.dumps(_plain(value)).encode()) for name, value in inputs.items()}


def _plain(value: Value) -> Any:
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case tuple():
            return [_plain(item) for item in value]
        case np.ndarray():
            flat = [decimal(item) if value.dtype == object else item for item in value.ravel().tolist()]
            data = np.empty(value.size, dtype=object)
            data[:] = flat
            return {"shape": list(value.shape), "data": data.reshape(value.shape).tolist()}
        case bool():
            return value
        case int() | Fraction():
            return str(value)
        case _:
            raise TypeError(type(value).__name__)


def decimal(number: Fraction) -> str:
    """A fraction with a finite decimal, as that."""
    rest, places = number.denominator, 0
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        places = max(places, count)
    assert rest == 1, number
    digits = str(abs(int(number * 10**places))).rjust(places + 1, "0")
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{text}" if number < 0 else text


def plain(value: exact.Value) -> Value:
    """A result of the exact reference: arrays of MPFR numbers, tuples, dictionaries."""
    match value:
        case exact.Real(data) | exact.Index(data) | exact.Mask(data):
            return data
        case exact.Number(number) | exact.Truth(number):
            return number
        case exact.Key(data):
            return data
        case exact.Items(items):
            return tuple(map(plain, items))
        case exact.Record(fields):
            return {name: plain(item) for name, item in fields.items()}
        case other:
            raise TypeError(type(other).__name__)


def reals(value: Value, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every real of a value with its path: fields, places in tuples, indices."""
    match value:
        case dict():
            for name, item in value.items():
                yield from reals(item, (*path, name))
        case tuple():
            for place, item in enumerate(value):
                yield from reals(item, (*path, place))
        case np.ndarray() if value.dtype in (object, np.float64):
            for at in np.ndindex(value.shape):
                yield (*path, at), value[at]


def part(value: Value, path: Path) -> Value:
    """The part of a value at a path of fields and places."""
    for step in path:
        value = value[step]
    return value


def replaced(value: Value, path: Path, new: Value) -> Value:
    """The value with another part at a path; of a tensor, at an index."""
    if not path:
        return new
    match value:
        case dict():
            return {name: replaced(item, path[1:], new) if name == path[0] else item for name, item in value.items()}
        case tuple():
            return tuple(replaced(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value))
        case _:
            other = value.copy()
            other[path[0]] = new
            return other


def added(value: Value, numbers: list[Fraction]) -> Value:
    """The value with a number added to each of its reals, in order."""
    for (path, real), number in zip(list(reals(value)), numbers, strict=True):
        value = replaced(value, path, real + number)
    return value
