"""The tensors of a sample, and how a file stores each.

A leaf is a tensor of the sample type; its name is its place in the tuples (`0`, `1.0`), `0` where the sample is one tensor. The
array `base.<leaf>` holds it for all samples: the first axis is the sample, the others are the leaf's. An index is stored in the
narrowest unsigned type that holds every index below its bound, a truth value as BOOL, a real as F64 or F32.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from presk.data.codes import FORMAT
from presk.exact.faults import Fault
from presk.types.dim import Dim, constant
from presk.types.type import Axis, Index, Mask, Real, Shape, Tuple, Type

PREFIX: Final = "base."

DTYPES: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "BOOL": np.dtype("u1"),
        "U8": np.dtype("u1"),
        "U16": np.dtype("<u2"),
        "U32": np.dtype("<u4"),
        "U64": np.dtype("<u8"),
        "F32": np.dtype("<f4"),
        "F64": np.dtype("<f8"),
    }
)
"""The element types that data files use, by safetensors' names. Truth values are read as bytes, since a byte can be neither."""

MAX_BOUND: Final = 1 << 63
"""Indices reach a program as 64-bit integers with a sign."""

_UNSIGNED: Final = (("U8", 1 << 8), ("U16", 1 << 16), ("U32", 1 << 32), ("U64", MAX_BOUND))

AXIS: Final = "seq"
"""The name of the axis of a window of text."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor of a sample: its name, type and lengths; the bound of its indices (0 where it holds none)."""

    name: str
    type: Real | Index | Mask
    lengths: tuple[int, ...]
    bound: int = 0

    @property
    def array(self) -> str:
        """The name of its array in a file."""
        return PREFIX + self.name

    @property
    def stored(self) -> tuple[str, ...]:
        """The element types in which a file may hold it, by safetensors' names."""
        match self.type:
            case Index():
                return (narrowest(self.bound),)
            case Mask():
                return ("BOOL",)
            case Real():
                return ("F64", "F32")


def narrowest(bound: int) -> str:
    """The narrowest unsigned type that holds every index below a bound; E8001 where 64 bits do not."""
    for name, limit in _UNSIGNED:
        if bound <= limit:
            return name
    raise Fault(FORMAT, f"indices below {bound} do not fit into 63 bits")


def leaves_of(sample: Type) -> tuple[Leaf, ...]:
    """The leaves of a sample type in order. Its lengths and bounds are numbers."""
    return tuple(_leaves(sample, "")) if isinstance(sample, Tuple) else tuple(_leaves(sample, "0"))


def _leaves(type_: Type, name: str) -> Iterator[Leaf]:
    match type_:
        case Tuple(items):
            for place, item in enumerate(items):
                yield from _leaves(item, f"{name}.{place}" if name else str(place))
        case Index(bound, shape):
            yield Leaf(name, type_, _lengths(shape), _number(bound))
        case Real(shape) | Mask(shape):
            yield Leaf(name, type_, _lengths(shape))
        case _:
            raise TypeError(f"{type_} is no type of a sample")


def _lengths(shape: Shape) -> tuple[int, ...]:
    return tuple(_number(axis.length) for axis in shape.axes)


def _number(dim: Dim) -> int:
    number = dim.natural()
    if number is None:
        raise TypeError(f"{dim} is no length of a sample")
    return number


def index_type(dtype: DTypeLike) -> np.dtype[Any]:
    """The element type of the indices of batches: a 32-bit or a 64-bit integer with a sign."""
    found: np.dtype[Any] = np.dtype(dtype)
    if found not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise TypeError(f"indices are int32 or int64, not {found}")
    return found


@dataclass(frozen=True, slots=True)
class Windows:
    """Samples that are windows of one stream of tokens, which `base.0` holds once.

    Sample i is the `length` tokens from token i · `stride` on. A sample of n leaves shows its window n times: leaf j is its
    `length − n + 1` tokens from the window's token j on. So `(idx[V][seq: T], idx[V][seq: T])` over windows of T + 1 tokens is a text
    and, for each of its tokens, the next one.
    """

    length: int
    stride: int

    def count(self, tokens: int) -> int:
        """How many whole windows a stream of tokens has."""
        return 0 if tokens < self.length else (tokens - self.length) // self.stride + 1

    def refusal(self, leaves: tuple[Leaf, ...]) -> str | None:
        """Why the leaves of a sample type are no windows of this length; None if they are."""
        span = self.length - len(leaves) + 1
        for leaf in leaves:
            if not isinstance(leaf.type, Index) or leaf.bound != leaves[0].bound or leaf.lengths != (span,):
                return (
                    f"`{leaf.type}` is not `{window_type(leaves[0].bound, span)}`, a part of a window of {self.length}"
                )
        return None


def window_type(bound: int, length: int, axis: str | None = AXIS) -> Index:
    """The type of a part of a window of tokens."""
    return Index(constant(bound), Shape((Axis(constant(length), axis),)))
