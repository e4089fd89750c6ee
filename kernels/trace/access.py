"""What rows read and write, as ranges of bytes, and which of them overlap."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from presk.kernels.ir import SIZES, Access, Kernel
from presk.kernels.trace.rows import Launch, Row
from presk.kernels.trace.values import Ref


class Range(NamedTuple):
    """Bytes `[low, high)` of a buffer, which move with loops around the row by `steps`."""

    buffer: int
    low: int
    high: int
    steps: tuple[tuple[int, int], ...]
    writes: bool

    def meets(self, other: "Range") -> bool:
        """Whether two ranges may have a byte in common in one iteration of the loops around them."""
        if self.buffer != other.buffer or self.low == self.high or other.low == other.high:
            return False
        return self.steps != other.steps or (self.low < other.high and other.low < self.high)


def ranges(row: Row, kernels: Sequence[Kernel]) -> Iterator[Range]:
    """What a row touches; a loop what its rows do over all of its iterations."""
    if isinstance(row, Launch):
        for ref, buffer in zip(row.places, kernels[row.kernel].buffers, strict=True):
            size = buffer.size * SIZES[buffer.elem]
            yield Range(ref.buffer, ref.offset, ref.offset + size, ref.steps, buffer.access is not Access.IN)
        return
    for inner in row.rows:
        for one in ranges(inner, kernels):
            way = sum(step for loop, step in one.steps if loop == row.loop) * max(row.count - 1, 0)
            steps = tuple((loop, step) for loop, step in one.steps if loop != row.loop)
            yield Range(one.buffer, one.low + min(way, 0), one.high + max(way, 0), steps, one.writes)


def moved(row: Row, buffer: int, to: Ref) -> Row:
    """A row in which a place takes the place of a whole buffer."""

    def place(ref: Ref) -> Ref:
        if ref.buffer != buffer:
            return ref
        result = to.moved(ref.offset)
        for loop, step in ref.steps:
            result = result.along(loop, step)
        return result

    if isinstance(row, Launch):
        return Launch(row.kernel, tuple(map(place, row.places)), row.site, row.move, row.quiet, row.workers)
    return type(row)(row.loop, row.count, tuple(moved(inner, buffer, to) for inner in row.rows))
