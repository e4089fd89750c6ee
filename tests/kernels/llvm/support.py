"""Small kernels for tests of code generation, and arrays at chosen addresses."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.build import Builder, Value
from presk.kernels.host import host_level
from presk.kernels.ir import Access, Elem, Kernel
from presk.kernels.llvm.run import DTYPES, run_kernel
from presk.kernels.targets import LEVELS, Level

Array = NDArray[Any]

RUNNABLE: Final[tuple[Level, ...]] = tuple(LEVELS.values())[: list(LEVELS).index(host_level().name) + 1]
"""The levels whose code this machine runs."""

UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def mapped(function: Callable[..., Value], sources: Sequence[Elem], to: Elem, size: int, lanes: int) -> Kernel:
    """`to[i] = function(b, source_0[i], …)`, in vectors of `lanes`, of which the last may be cut."""
    b = Builder()
    inputs = [b.buffer(elem, size) for elem in sources]
    output = b.buffer(to, size, Access.OUT)

    def step(base: Any, count: int | None) -> None:
        values = [b.load(one, base, lanes, count=count) for one in inputs]
        b.store(output, base, function(b, *values), count=count)

    with b.loop(size // lanes, parallel=True) as i:
        step(b.at((i, lanes)), None)
    if size % lanes:
        step(b.at(base=size - size % lanes), size % lanes)
    return b.kernel()


def computed(
    function: Callable[..., Value], arrays: Sequence[Array], elems: Sequence[Elem], to: Elem, lanes: int, level: Level
) -> Array:
    """What a level computes of arrays."""
    size = len(arrays[0])
    output: Array = np.zeros(size, DTYPES[to])
    run_kernel(mapped(function, elems, to, size, lanes), [*arrays, output], level)
    return output


def bits(array: Array) -> Array:
    """The patterns of an array's elements."""
    return array.view(UNSIGNED[array.dtype.itemsize])


def same(left: Array, right: Array) -> bool:
    """Whether two arrays have the same bits, all NaN alike."""
    if left.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    nan = np.isnan(left)
    return bool(np.array_equal(nan, np.isnan(right)) and np.array_equal(bits(left)[~nan], bits(right)[~nan]))


def at_offset(array: Array, offset: int) -> Array:
    """A copy of an array that begins `offset` elements behind a multiple of 64 bytes."""
    size = array.dtype.itemsize
    memory = np.zeros(array.nbytes + 64 + offset * size, np.uint8)
    start = -memory.ctypes.data % 64 + offset * size
    copy = memory[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy
