"""A table of launches: what an entry does, as data, and its form in memory that the native routine walks.

A `Table` names kernels by number and operands by region and offset, so it is the same in every process and can be kept; `Bound` is
a table with addresses. A loop's body is a run of rows; after each iteration the operands that have a step for that loop move on,
and when the loop ends they move back, so a table can be run again.

In memory a table is a header, the number of rows, and rows of four words: what kind (lower half of the first word), then

    single, fork   workers (upper half), function, arguments, –
    timed          workers (upper half), function, arguments, the counter that ticks are added to
    loop           –, how often, bytes of rows that follow as its body, its steps

Arguments are one word per operand; steps are their number and, for each, the argument's address and the bytes to move on by.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from presk.kernels.native.words import FORK, HEADER_BYTES, LOOP, ROW_BYTES, SINGLE, TIMED

DEPTH: Final = 64
"""The deepest nesting of loops: the routine calls itself for each."""

WORKERS: Final = 1024
"""The most workers of a launch."""


class Operand(msgspec.Struct, frozen=True, array_like=True):
    """The memory of a kernel's buffer: an offset in bytes in a region, and by how many bytes it moves with each iteration of
    the loops around the launch, the outermost first; where nothing is said it stays."""

    region: int
    offset: int = 0
    steps: tuple[int, ...] = ()


class Row(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="kind"):
    """A row of a table."""


class Launch(Row, frozen=True):
    """A call of a kernel; with several workers, of which each computes its share. A kernel that has no split loop has one."""

    kernel: int
    operands: tuple[Operand, ...]
    workers: int = 1


class Loop(Row, frozen=True):
    """Rows that run `count` times."""

    count: int
    body: tuple["AnyRow", ...]


AnyRow = Launch | Loop


class Table(msgspec.Struct, frozen=True, array_like=True):
    """The launches of an entry, in order."""

    rows: tuple[AnyRow, ...]

    def launched(self) -> int:
        """How many launches a run makes, those of loops as often as they run."""
        return _launched(self.rows)


def _launched(rows: Sequence[AnyRow]) -> int:
    return sum(row.count * _launched(row.body) if isinstance(row, Loop) else 1 for row in rows)


class _Writer:
    """The words of a table, with what has to be filled in when addresses are known."""

    def __init__(self, timed: bool) -> None:
        self.timed = timed
        self.rows: list[int] = []
        self.rest: list[int] = []
        self.functions: list[tuple[int, int]] = []
        """Words of `rows` that hold a function: where, which."""
        self.operands: list[tuple[int, int, int]] = []
        """Words of `rest` that hold an operand: where, region, offset."""
        self.pointers: list[tuple[bool, int, int]] = []
        """Words that point into `rest`: whether in `rest` themselves, where, at what."""
        self.counters: list[int] = []
        """Words of `rows` that point at a counter."""
        self._open: list[list[tuple[int, int]]] = []

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Writes rows, those of loops included."""
        for row in rows:
            start = len(self.rows)
            match row:
                case Launch():
                    self._launch(row, start)
                case Loop():
                    if row.count < 0 or len(self._open) == DEPTH:
                        raise ValueError(f"a loop of {row.count} iterations at depth {len(self._open)}")
                    self.rows += (LOOP, row.count, 0, 0)
                    self._open.append([])
                    self.write(row.body)
                    steps = self._open.pop()
                    self.rows[start + 2] = 8 * (len(self.rows) - start) - ROW_BYTES
                    self.pointers.append((False, start + 3, len(self.rest)))
                    self.rest.append(len(steps))
                    for slot, stride in steps:
                        self.pointers.append((True, len(self.rest), slot))
                        self.rest += (0, stride)

    def _launch(self, launch: Launch, start: int) -> None:
        if not 1 <= launch.workers <= WORKERS:
            raise ValueError(f"a launch on {launch.workers} workers")
        kind = TIMED if self.timed else SINGLE if launch.workers == 1 else FORK
        self.rows += (kind | launch.workers << 32, 0, 0, 0)
        self.functions.append((start + 1, launch.kernel))
        self.pointers.append((False, start + 2, len(self.rest)))
        if self.timed:
            self.counters.append(start + 3)
        for operand in launch.operands:
            if len(operand.steps) > len(self._open):
                raise ValueError("an operand moves with a loop that is not around its launch")
            for steps, stride in zip(self._open, operand.steps):
                if stride:
                    steps.append((len(self.rest), stride))
            self.operands.append((len(self.rest), operand.region, operand.offset))
            self.rest.append(0)


class Bound:
    """A table with addresses, ready to run. It is run by one thread at a time, and keeps no memory alive but its own."""

    def __init__(self, table: Table, kernels: Sequence[int], regions: Sequence[int], *, timed: bool = False) -> None:
        """`kernels` and `regions` are addresses, by the numbers that the table uses (IndexError for one that it lacks). With
        `timed` every launch adds the processor's ticks that it took to its counter. ValueError for a table that cannot be run."""
        writer = _Writer(timed)
        writer.write(table.rows)
        head, rows = HEADER_BYTES // 8, len(writer.rows)
        launches = len(writer.functions)
        self.launches: Final = launches
        """How many launches stand in the table; loops run theirs more often."""
        # The counters come last. A list is filled several times as fast as an array.
        words = [8 * rows // ROW_BYTES, *writer.rows, *writer.rest, *([0] * launches)]
        self._words: Final[NDArray[np.int64]] = np.empty(len(words), np.int64)
        self.address: Final = self._words.ctypes.data
        rest = head + rows
        for where, which in writer.functions:
            words[head + where] = _item(kernels, which, "kernel")
        for inside, where, what in writer.pointers:
            words[(rest if inside else head) + where] = self.address + 8 * (rest + what)
        counters = rest + len(writer.rest)
        for number, where in enumerate(writer.counters):
            words[head + where] = self.address + 8 * (counters + number)
        self._words[:] = words
        self.ticks: Final[NDArray[np.int64]] = self._words[counters:]
        """Ticks by launch, in the order of the table, since this was made or they were set to 0."""
        self._slots: Final = np.array([rest + where for where, _, _ in writer.operands], np.intp)
        self._regions: Final = np.array([region for _, region, _ in writer.operands], np.intp)
        self._offsets: Final = np.array([offset for _, _, offset in writer.operands], np.int64)
        if writer.operands and self._regions.min() < 0:
            raise IndexError("a table names a region below 0")
        self.bind(regions)

    def bind(self, regions: Sequence[int]) -> None:
        """Other addresses for the regions."""
        if len(self._slots):
            self._words[self._slots] = np.array(regions, np.int64)[self._regions] + self._offsets


def _item(values: Sequence[int], which: int, what: str) -> int:
    if not 0 <= which < len(values):
        raise IndexError(f"a table names the {what} {which} of {len(values)}")
    return values[which]
