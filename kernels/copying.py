"""Copies of memory, from one element type to another."""

from functools import lru_cache

from presk.kernels.build import Builder
from presk.kernels.ir import FLOATS, LOADED, SIZES, Access, Elem, Kernel
from presk.kernels.layout import Target


@lru_cache(maxsize=1024)
def copy_kernel(source: Elem, target: Elem, count: int, machine: Target) -> Kernel:
    """`count` elements; between float types each is rounded once."""
    if source is not target and not {LOADED[source], LOADED[target]} <= FLOATS:
        raise TypeError(f"{source} is not copied as {target}")
    b = Builder()
    x = b.buffer(source, count)
    y = b.buffer(target, count, Access.OUT)
    lanes = max(machine.bytes // SIZES[LOADED[target]], 1)

    def some(lanes: int, extent: int, first: int) -> None:
        with b.loop(extent, parallel=True) as i:
            at = b.at((i, lanes), base=first)
            value = b.load(x, at, lanes)
            b.store(y, at, b.convert(value, target) if target in FLOATS else value)

    whole = count // lanes
    if whole:
        some(lanes, whole, 0)
    if count % lanes:
        some(1, count % lanes, whole * lanes)
    return b.kernel()
