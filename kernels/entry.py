"""Runs an entry whose driver and kernels are at hand: natively, or on the kernel interpreter. Both give the same bits."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.arena import Arena
from presk.kernels.interpret import interpret
from presk.kernels.ir import Kernel
from presk.kernels.native import table
from presk.kernels.native.driver import Driver as Runner
from presk.kernels.native.load import Code
from presk.kernels.native.table import Bound, Table
from presk.kernels.nests.divide import turns
from presk.kernels.objects import Blob
from presk.kernels.trace.memory import Driver
from presk.kernels.trace.rows import Launch, Loop, Row
from presk.kernels.trace.values import Ref


def table_of(driver: Driver, workers: int = 1) -> Table:
    """The rows of a driver as the native routine's table, on the arena's regions. Kernels that divide a loop run on `workers`
    workers.
    """
    return Table(_table(driver.rows, (), tuple(workers if turns(kernel) > 1 else 1 for kernel in driver.kernels)))


def _table(rows: Sequence[Row], loops: tuple[int, ...], workers: Sequence[int]) -> tuple[table.AnyRow, ...]:
    found: list[table.AnyRow] = []
    for row in rows:
        if isinstance(row, Loop):
            found.append(table.Loop(row.count, _table(row.rows, (*loops, row.loop), workers)))
            continue
        operands = tuple(
            table.Operand(place.buffer, place.offset, _steps(place.steps, loops))
            if place.steps
            else table.Operand(place.buffer, place.offset)
            for place in row.places
        )
        most = workers[row.kernel]
        found.append(table.Launch(row.kernel, operands, min(row.workers or most, most)))
    return tuple(found)


def _steps(steps: tuple[tuple[int, int], ...], loops: tuple[int, ...]) -> tuple[int, ...]:
    own = dict(steps)
    return tuple(own.get(loop, 0) for loop in loops)


class NativeEntry:
    """An entry as native code in this process, with an arena of its own."""

    def __init__(self, driver: Driver, blobs: Sequence[Blob], runner: Runner, *, timed: bool = False) -> None:
        """`blobs` are the driver's kernels, in order."""
        self.driver: Final = driver
        self.arena: Final = Arena(driver)
        self._runner = runner
        self._code = Code(tuple(blobs))
        self._bound = Bound(table_of(driver, runner.threads), self._code.addresses, self.arena.addresses, timed=timed)

        self._other: Bound | None = None

    @property
    def ticks(self) -> NDArray[np.int64]:
        """With `timed`, the processor's ticks of each launch of the table since they were set to 0."""
        return self._bound.ticks

    def run(self) -> None:
        """Runs once, on what the arena holds."""
        self.arena.clear(self.driver.checks)
        self._runner.run(self._bound)

    def run_rows(self, rows: Table) -> None:
        """Runs other rows on the arena, with the kernels that are loaded."""
        self._runner.run(Bound(rows, self._code.addresses, self.arena.addresses))

    def hand_on(self) -> None:
        """What the last run made is what the next one works on."""
        self.arena.hand_on()
        # The table for the regions the other way round is kept: naming them anew takes as long as a small step.
        if self._other is None:
            table = table_of(self.driver, self._runner.threads)
            self._other = Bound(table, self._code.addresses, self.arena.addresses)
        self._bound, self._other = self._other, self._bound


class InterpretedEntry:
    """An entry on the kernel interpreter."""

    def __init__(self, driver: Driver) -> None:
        self.driver: Final = driver
        self.arena: Final = Arena(driver)

    def run(self) -> None:
        """Runs once, on what the arena holds."""
        self.arena.clear(self.driver.checks)
        self._rows(self.driver.rows, {})

    def hand_on(self) -> None:
        """What the last run made is what the next one works on."""
        self.arena.hand_on()

    def _rows(self, rows: Sequence[Row], at: dict[int, int]) -> None:
        for row in rows:
            if isinstance(row, Loop):
                for number in range(row.count):
                    self._rows(row.rows, {**at, row.loop: number})
            else:
                self._launch(row, at)

    def _launch(self, row: Launch, at: dict[int, int]) -> None:
        kernel: Kernel = self.driver.kernels[row.kernel]
        arrays = []
        for place, buffer in zip(row.places, kernel.buffers, strict=True):
            offset = place.offset + sum(step * at[loop] for loop, step in place.steps)
            arrays.append(self.arena.view(Ref(place.buffer, offset), buffer.elem, buffer.size))
        interpret(kernel, arrays)
