"""Values of an entry on the way into an arena and out of it.

What is given or drawn is made of doubles that the storage type of the entry's parameters has: a decimal of a file is rounded once, to
that type, and so is a draw, which is a double. Structures are those of the exact reference, with arrays of doubles for reals, so
reading, drawing and printing are the same.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gmpy2 import mpq
from numpy.typing import NDArray

from presk.exact import draws
from presk.exact.faults import DATA, Fault
from presk.exact.scope import Scope
from presk.exact.values import Index, Items, Key, Mask, Number, Real, Record, Stack, Truth, Value
from presk.kernels.ir import Elem
from presk.kernels.numbers import from_elements, rounded, to_elements
from presk.native.scalars import Hypers
from presk.types import type as types
from presk.types.trees import ParamField
from presk.types.type import Type

Normals = Callable[[bytes, int], NDArray[np.float64]]
"""Normal draws of a key: `presk.exact.draws.normals`, or what has the same bits."""


class Doubles:
    """Makes arrays of the doubles that a float type has (see `presk.exact.arithmetic.Making`)."""

    def __init__(self, elem: Elem, normals: Normals = draws.normals) -> None:
        self._elem = elem
        self.normals = normals

    def zeros(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Zeros, without memory."""
        return np.broadcast_to(np.float64(0), shape)

    def ones(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Ones, without memory."""
        return np.broadcast_to(np.float64(1), shape)

    def number(self, value: mpq) -> float:
        """A rational number, rounded once; DATA for one beyond the type."""
        found = rounded(value, self._elem)
        if not math.isfinite(found):
            raise Fault(
                DATA,
                f"{float(value) if abs(value) < 10**300 else 'a number'} is beyond the largest of {self._elem.value}",
            )
        return found

    def from_doubles(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Finite doubles, each rounded once; DATA for one beyond the type."""
        with np.errstate(over="ignore"):
            found = from_elements(to_elements(values, self._elem), self._elem)
        if not np.isfinite(found).all():
            first = float(values.ravel()[int(np.argmin(np.isfinite(found.ravel())))])
            raise Fault(DATA, f"{first} is beyond the largest of {self._elem.value}")
        return found


def flattened(names: Sequence[str], values: Sequence[Value]) -> tuple[dict[str, NDArray[Any]], Hypers]:
    """The tensors and the hyperparameters of arguments, by path."""
    tensors: dict[str, NDArray[Any]] = {}
    hypers: dict[str, Number | Truth] = {}
    for name, value in zip(names, values, strict=True):
        _flatten(name, value, tensors, hypers)
    return tensors, hypers


def _flatten(path: str, value: Value, tensors: dict[str, NDArray[Any]], hypers: dict[str, Number | Truth]) -> None:
    match value:
        case Real(data):
            # A file's numbers come one by one, as an array of objects.
            tensors[path] = np.asarray(data, dtype=np.float64)
        case Index(data, _):
            tensors[path] = np.asarray(data, dtype=np.int64)
        case Mask(data):
            tensors[path] = data
        case Key(data):
            tensors[path] = np.frombuffer(data, dtype="<i4")
        case Items(items):
            for place, item in enumerate(items):
                _flatten(f"{path}.{place}", item, tensors, hypers)
        case Record(fields):
            for name, item in fields.items():
                _flatten(f"{path}.{name}", item, tensors, hypers)
        case Number() | Truth():
            hypers[path] = value
        case _:
            raise TypeError(f"{type(value).__name__} is no argument of an entry")


def assembled(type_: Type, path: str, scope: Scope, tensors: Mapping[str, NDArray[Any]], hypers: Hypers) -> Value:
    """A result from its parts."""
    match type_:
        case types.Real():
            return Real(tensors[path])
        case types.Index(bound, _):
            return Index(tensors[path].astype(np.int64), scope.length(bound))
        case types.Mask():
            return Mask(tensors[path].astype(np.bool_))
        case types.Key():
            return Key(tensors[path].astype("<i4").tobytes())
        case types.Hyper():
            return hypers[path]
        case types.Tuple(items):
            return Items(
                tuple(assembled(item, f"{path}.{at}", scope, tensors, hypers) for at, item in enumerate(items))
            )
        case types.Params(instance):
            return Record(
                {
                    field.name: assembled(
                        field.type if isinstance(field, ParamField) else types.Params(field.instance),
                        f"{path}.{field.name}",
                        scope,
                        tensors,
                        hypers,
                    )
                    for field in scope.fields(instance)
                }
            )
        case types.Stack(count, item):
            whole = {name: array for name, array in tensors.items() if name.startswith(path)}
            return Stack(
                tuple(
                    assembled(item, path, scope, {name: array[at] for name, array in whole.items()}, hypers)
                    for at in range(scope.length(count))
                )
            )
        case _:
            raise TypeError(f"{type_} is no result of an entry")
