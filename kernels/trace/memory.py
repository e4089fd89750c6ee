"""Plans the memory of a trace: every buffer gets its place in one arena before anything runs.

Buffers that are live at different times share memory. A buffer is live from the row that touches it first to the one that touches it
last; one that is touched inside and outside of a loop is live through the whole loop, since an iteration may read what the one before
it left. A kernel that reads each element for the last time before it writes it at the same place works in place where its operand
ends there. Constants, inputs, scalars, flags and results have memory of their own.

What a call hands to the next lies in two more regions, before it and after it, at the same offsets: the caller exchanges them, and
nothing is copied. What was before a call is whole after it.

Method: linear scan over the live ranges, best fit among the free ranges of the arena.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from presk.kernels.ir import SIZES, Access, Kernel
from presk.kernels.trace.hyper import AnyExpr, Scalar
from presk.kernels.trace.rows import Check, Launch, Loop, Part, Role, Row, Trace
from presk.kernels.trace.values import Ref

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


WORK: Final = 0
BEFORE: Final = 1
AFTER: Final = 2
"""Regions: what one call needs; what the call before it handed on; what it hands on."""


class Constant(msgspec.Struct, frozen=True, array_like=True):
    """Memory that the host fills once: `count` elements of a type, all of them `fill`."""

    offset: int
    elem: str
    count: int
    fill: float


class Driver(msgspec.Struct, frozen=True, array_like=True):
    """An entry ready to run: its rows, whose places are offsets in an arena, and what the host does there.

    The arena has `size` bytes in the region of work, and `state` bytes before and as many after a call. `kernels` are those
    that rows launch, by the rows' numbers. `peak` is the most bytes of work that are live at one time, with what is pinned:
    what `size` would be if memory could be shared perfectly."""

    rows: tuple[Row, ...]
    kernels: tuple[Kernel, ...]
    size: int
    peak: int
    inputs: tuple[Part, ...]
    results: tuple[Part, ...]
    numbers: tuple[tuple[str, AnyExpr], ...]
    scalars: tuple[tuple[Scalar, Ref], ...]
    constants: tuple[Constant, ...]
    checks: tuple[Check, ...]
    rates: tuple[tuple[AnyExpr, tuple[tuple[str, int], ...]], ...] = ()
    """Rates of `dropout`, which lie in [0, 1), and the bindings that led to each."""
    state: int = 0


def launches(rows: Sequence[Row]) -> int:
    """How many kernels one run launches; copies and what prepares are not counted."""
    total = 0
    for row in rows:
        match row:
            case Launch(move=move, quiet=quiet):
                total += not (move or quiet)
            case Loop(count=count, rows=inner):
                total += count * launches(inner)
    return total


def plan(trace: Trace) -> Driver:
    """Gives every buffer its place."""
    return _Planning(trace).run()


@dataclass(slots=True)
class _Life:
    """When a buffer is live: the first and the last position."""

    first: int
    last: int


class _Planning:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._lives: dict[int, _Life] = {}
        self._position = 0
        self._state = 0
        self._launches: list[tuple[int, Launch]] = []
        self._touches: dict[int, list[tuple[int, tuple[tuple[int, int], ...]]]] = {}
        self._regions: dict[int, int] = {}
        """Buffers that are not in the region of work."""

    def run(self) -> Driver:
        trace = self._trace
        self._walk(trace.rows, ())
        for part in trace.results:
            self._touches.setdefault(part.place.buffer, []).append((self._position, ()))
        for buffer, touches in self._touches.items():
            self._lives[buffer] = _life(touches)
        offsets, size, peak = self._place()

        def settled(ref: Ref) -> Ref:
            return Ref(self._regions.get(ref.buffer, WORK), offsets[ref.buffer] + ref.offset, ref.steps)

        constants = tuple(
            Constant(offsets[number], str(buffer.elem), buffer.size // SIZES[buffer.elem], buffer.fill)
            for number, buffer in enumerate(trace.buffers)
            if buffer.role is Role.CONSTANT and buffer.elem is not None and number in self._lives
        )
        used = sorted({row.kernel for _, row in self._launches})
        numbers = {kernel: number for number, kernel in enumerate(used)}
        return Driver(
            _settled(trace.rows, settled, numbers),
            tuple(trace.kernels[kernel] for kernel in used),
            size,
            peak,
            tuple(Part(part.path, part.operand, settled(part.place)) for part in trace.inputs),
            tuple(Part(part.path, part.operand, settled(part.place)) for part in trace.results),
            trace.numbers,
            tuple((scalar, settled(ref)) for scalar, ref in trace.scalars),
            constants,
            tuple(msgspec.structs.replace(check, buffer=offsets[check.buffer]) for check in trace.checks),
            trace.rates,
            self._state,
        )

    def _walk(self, rows: Sequence[Row], around: tuple[tuple[int, int], ...]) -> None:
        """Positions of rows; `around` are the spans of the loops around them, of which the ends are known afterwards."""
        for row in rows:
            if isinstance(row, Loop):
                first = self._position
                span = (first, first + _length(row.rows) - 1)
                self._walk(row.rows, (*around, span))
                continue
            for ref in row.places:
                self._touches.setdefault(ref.buffer, []).append((self._position, around))
            self._launches.append((self._position, row))
            self._position += 1

    def _place(self) -> tuple[dict[int, int], int, int]:
        buffers = self._trace.buffers
        offsets = self._place_state()
        arena = _Arena()
        shared = self._in_place()
        for number, buffer in enumerate(buffers):
            if buffer.role is not Role.WORK and number not in offsets:
                offsets[number] = arena.take(buffer.size)
        pinned = arena.size
        order = sorted((life.first, number) for number, life in self._lives.items() if number not in offsets)
        ends: list[tuple[int, int]] = []
        live = peak = 0
        taken: dict[int, int] = {}
        for first, number in order:
            while ends and ends[0][0] < first:
                _, over = ends.pop(0)
                arena.give(offsets[over], taken[over])
                live -= taken[over]
            life = self._lives[number]
            source = shared.get(number)
            if source is not None and source in taken:
                # It takes over the memory of the operand that ends here.
                ends.remove((self._lives[source].last, source))
                offsets[number], taken[number] = offsets[source], taken[source]
            else:
                taken[number] = _rounded(buffers[number].size)
                offsets[number] = arena.take(buffers[number].size)
                live += taken[number]
                peak = max(peak, live)
            insort(ends, (life.last, number))
        for number in range(len(buffers)):
            offsets.setdefault(number, 0)  # a buffer that no row touches any more
        return offsets, arena.size, peak + pinned

    def _place_state(self) -> dict[int, int]:
        """The offsets of what is handed on, one behind the other in the order of the parameters."""
        offsets: dict[int, int] = {}
        self._state = 0
        for before, after in self._trace.carried:
            offsets[before] = offsets[after] = self._state
            self._regions[before], self._regions[after] = BEFORE, AFTER
            self._state += _rounded(self._trace.buffers[before].size)
        return offsets

    def _in_place(self) -> dict[int, int]:
        """The outputs that can take over the memory of an operand, and the operands."""
        found: dict[int, int] = {}
        used: set[int] = set()
        buffers = self._trace.buffers
        for position, row in self._launches:
            kernel = self._trace.kernels[row.kernel]
            for place, buffer in enumerate(kernel.buffers):
                if buffer.access is not Access.OUT or buffer.in_place is None:
                    continue
                out, source = row.places[place], row.places[buffer.in_place]
                if any(ref.offset or ref.steps for ref in (out, source)) or out.buffer == source.buffer:
                    continue
                # What one kernel reads in two ways, it may read again after it was written.
                if sum(ref.buffer == source.buffer for ref in row.places) > 1 or source.buffer in used:
                    continue
                one, other = buffers[out.buffer], buffers[source.buffer]
                if one.role is not Role.WORK or other.role is not Role.WORK or one.size != other.size:
                    continue
                if not self._within(row, position, source.buffer):
                    continue
                if self._lives[out.buffer].first == position == self._lives[source.buffer].last:
                    found[out.buffer] = source.buffer
                    used.add(source.buffer)
        return found

    def _within(self, row: Launch, position: int, buffer: int) -> bool:
        """Whether a buffer is touched only inside of all loops around a launch: an operand that comes from outside is read again."""
        around = next(loops for at, loops in self._touches[row.places[0].buffer] if at == position)
        return all(loops[: len(around)] == around for _, loops in self._touches[buffer])


def _length(rows: Sequence[Row]) -> int:
    return sum(_length(row.rows) if isinstance(row, Loop) else 1 for row in rows)


def _life(touches: Sequence[tuple[int, tuple[tuple[int, int], ...]]]) -> _Life:
    """The live range of a buffer that is touched at positions inside of loops."""
    first, last = touches[0][0], touches[-1][0]
    low, high = first, last
    for _, around in touches:
        for begin, end in around:
            if first < begin or last > end:
                # Touched outside of this loop as well.
                low, high = min(low, begin), max(high, end)
                break
    return _Life(low, high)


def _settled(rows: Sequence[Row], settled: Callable[[Ref], Ref], numbers: Mapping[int, int]) -> tuple[Row, ...]:
    """Rows over the arena, and kernels by their new numbers."""
    found: list[Row] = []
    for row in rows:
        if isinstance(row, Loop):
            found.append(Loop(row.loop, row.count, _settled(row.rows, settled, numbers)))
        else:
            places = tuple(map(settled, row.places))
            found.append(Launch(numbers[row.kernel], places, row.site, row.move, row.quiet, row.workers))
    return tuple(found)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Arena:
    """Free ranges below `size`, by offset and by size."""

    def __init__(self) -> None:
        self.size = 0
        self._starts: dict[int, int] = {}  # offset → size
        self._ends: dict[int, int] = {}  # end → offset
        self._by_size: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """The offset of a free range, the smallest that is large enough; at the end where there is none."""
        size = _rounded(size)
        if size == 0:
            return 0
        place = bisect_left(self._by_size, (size, 0))
        if place < len(self._by_size):
            length, offset = self._by_size[place]
            self._remove(offset, length)
            if length > size:
                self._add(offset + size, length - size)
            return offset
        offset = self.size
        if self.size in self._ends:
            # The last range is free: it is lengthened.
            offset = self._ends[self.size]
            self._remove(offset, self._starts[offset])
        self.size = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Gives a range back."""
        if size == 0:
            return
        end = offset + size
        if end in self._starts:
            length = self._starts[end]
            self._remove(end, length)
            size += length
        if offset in self._ends:
            before = self._ends[offset]
            length = self._starts[before]
            self._remove(before, length)
            offset, size = before, size + length
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        self._starts[offset] = size
        self._ends[offset + size] = offset
        insort(self._by_size, (size, offset))

    def _remove(self, offset: int, size: int) -> None:
        del self._starts[offset], self._ends[offset + size]
        self._by_size.pop(bisect_left(self._by_size, (size, offset)))
