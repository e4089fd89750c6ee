"""Copies of memory, from one element type to another; a large one is divided among threads."""

from functools import lru_cache

from presk.kernels.build import Builder
from presk.kernels.ir import FLOATS, LOADED, SIZES, Access, Elem, Kernel
from presk.kernels.layout import Target
from presk.kernels.nests.divide import weight
from presk.kernels.nests.emit import Loops, Spot, address


@lru_cache(maxsize=1024)
def copy_kernel(source: Elem, target: Elem, count: int, machine: Target) -> Kernel:
    """`count` elements; between float types each is rounded once."""
    if source is not target and not {LOADED[source], LOADED[target]} <= FLOATS:
        raise TypeError(f"{source} is not copied as {target}")
    plain = _copy(source, target, count, machine, None)
    large = weight(plain, machine.weights) > machine.divided_from
    return _copy(source, target, count, machine, 0) if large else plain


def _copy(source: Elem, target: Elem, count: int, machine: Target, split: int | None) -> Kernel:
    b = Builder()
    x = b.buffer(source, count)
    y = b.buffer(target, count, Access.OUT)
    lanes = max(machine.bytes // SIZES[LOADED[target]], 1)

    def vector(spot: Spot, some: int | None) -> None:
        at = address(b, (spot, 1))
        value = b.load(x, at, lanes, count=some)
        b.store(y, at, b.convert(value, target) if target in FLOATS else value, count=some)

    Loops(b, split).vectors(count, lanes, vector, depth=0)
    return b.kernel()
