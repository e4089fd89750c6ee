"""What flows where in a trace: which launch wrote each byte that a launch reads.

The oracle of everything that moves memory about. Rows are walked, loops iteration by iteration, over memory whose bytes hold who wrote
them: the number of a launch and the byte within its output, or an input of the entry. A copy passes on what it reads and is not
numbered, so a trace with fewer copies, or over an arena, has the same flow if it is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from presk.kernels.ir import SIZES, Access, Kernel
from presk.kernels.trace.memory import Driver
from presk.kernels.trace.rows import Launch, Loop, Role, Row, Trace
from presk.kernels.trace.values import Ref, size_of

NOTHING = 0
"""Who wrote a byte that nobody wrote, or that is of no use any more."""

Tags = NDArray[np.int64]
Flow = tuple[list[list[Tags]], list[Tags]]
"""What each launch reads, by operand, and what the results hold."""


def flow(made: Trace | Driver) -> Flow:
    """The flow of a trace, or of a driver."""
    if isinstance(made, Driver):
        memory = {0: np.zeros(made.size, np.int64)}
        fills = [
            (Ref(0, one.offset), one.count * SIZES[_elem(one.elem)], ("c", one.elem, one.fill))
            for one in made.constants
        ]
    else:
        memory = {number: np.zeros(buffer.size, np.int64) for number, buffer in enumerate(made.buffers)}
        fills = [
            (Ref(number), buffer.size, ("c", str(buffer.elem), buffer.fill))
            for number, buffer in enumerate(made.buffers)
            if buffer.role is Role.CONSTANT
        ]
    walk = _Walk(memory, made.kernels)
    for number, part in enumerate(made.inputs):
        walk.write(part.place, _own(-1 - number, size_of(part.operand)))
    for number, (scalar, place) in enumerate(made.scalars):
        walk.write(place, _own(-1001 - number, SIZES[scalar.elem]))
    for place, size, what in fills:
        # All bytes alike: constants of several sizes share their memory.
        walk.write(place, np.full(size, -2_000_000 - abs(hash(what)) % 1_000_000, np.int64))
    walk.rows(made.rows, {})
    return walk.found, [walk.read(part.place, size_of(part.operand)) for part in made.results]


def check_same(one: Flow, other: Flow) -> None:
    """Two flows are one."""
    assert len(one[0]) == len(other[0])
    for number, (mine, its) in enumerate(zip(one[0], other[0])):
        assert len(mine) == len(its)
        for operand, (tags, others) in enumerate(zip(mine, its)):
            assert np.array_equal(tags, others), f"launch {number} reads something else in operand {operand}"
    for number, (tags, others) in enumerate(zip(one[1], other[1], strict=True)):
        assert np.array_equal(tags, others), f"result {number} is something else"


def check_written(found: Flow) -> None:
    """Nothing is read that was not written."""
    for number, operands in enumerate(found[0]):
        assert all((tags != NOTHING).all() for tags in operands), f"launch {number}"
    assert all((tags != NOTHING).all() for tags in found[1])


def _elem(name: str) -> Any:
    return next(elem for elem in SIZES if str(elem) == name)


def _own(who: int, size: int) -> Tags:
    """The bytes of somebody's output."""
    return who * (1 << 32) + np.arange(size, dtype=np.int64)


@dataclass(slots=True)
class _Walk:
    memory: Mapping[int, Tags]
    kernels: Sequence[Kernel]
    found: list[list[Tags]] = field(default_factory=list)

    def read(self, place: Ref, size: int) -> Tags:
        assert 0 <= place.offset and place.offset + size <= len(self.memory[place.buffer])
        return self.memory[place.buffer][place.offset : place.offset + size].copy()

    def write(self, place: Ref, tags: Tags) -> None:
        assert 0 <= place.offset and place.offset + len(tags) <= len(self.memory[place.buffer])
        self.memory[place.buffer][place.offset : place.offset + len(tags)] = tags

    def rows(self, rows: Sequence[Row], at: Mapping[int, int]) -> None:
        for row in rows:
            if isinstance(row, Loop):
                for number in range(row.count):
                    self.rows(row.rows, {**at, row.loop: number})
            else:
                self.launch(row, at)

    def launch(self, row: Launch, at: Mapping[int, int]) -> None:
        buffers = self.kernels[row.kernel].buffers
        places = [
            (Ref(place.buffer, place.offset + sum(step * at[loop] for loop, step in place.steps)), one)
            for place, one in zip(row.places, buffers, strict=True)
        ]
        sizes = [one.size * SIZES[one.elem] for one in buffers]
        for number, (place, one) in enumerate(places):
            if one.access is Access.IN:
                continue
            for other, (its, its_buffer) in enumerate(places):
                apart = place.buffer != its.buffer or not max(place.offset, its.offset) < min(
                    place.offset + sizes[number], its.offset + sizes[other]
                )
                same = one.in_place == other and place == its and its_buffer.access is Access.IN
                assert number == other or apart or same, f"{row.site or 'a copy'} overwrites what it uses"
        reads = [self.read(place, size) for (place, one), size in zip(places, sizes) if one.access is Access.IN]
        if row.move and buffers[0].elem is buffers[1].elem:
            self.write(places[1][0], reads[0])
            return
        self.found.append(reads)
        for (place, one), size in zip(places, sizes):
            if one.access is Access.OUT:
                self.write(place, _own(len(self.found) * 64 + number_of(places, place), size))
            elif one.access is Access.SCRATCH:
                self.write(place, np.full(size, NOTHING, np.int64))


def number_of(places: Sequence[tuple[Ref, Any]], place: Ref) -> int:
    """Which operand a place is."""
    return next(number for number, (one, _) in enumerate(places) if one is place)
