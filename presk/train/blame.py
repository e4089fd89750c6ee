"""Finds where a step left the numbers: its launches one at a time, until one gives what is not finite."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from presk.kernels.entry import NativeEntry, table_of
from presk.kernels.ir import Access, Elem
from presk.kernels.numbers import from_elements
from presk.kernels.trace.memory import Driver
from presk.kernels.trace.rows import Launch, Loop, Row
from presk.kernels.trace.values import Ref

_FLOATS = (Elem.F64, Elem.F32, Elem.BF16)


def first_not_finite(entry: NativeEntry) -> str | None:
    """The nest (`loss/%7`) whose launch is the first of a step to give an infinity or a NaN; None if none does.

    The arena holds what the step was run on; a step changes nothing of it.
    """
    driver = entry.driver
    for launch in _flat(driver.rows, {}):
        entry.run_rows(table_of(_only(driver, launch)))
        if launch.move or launch.quiet:
            continue
        for place, buffer in zip(launch.places, driver.kernels[launch.kernel].buffers, strict=True):
            if buffer.access is not Access.OUT or buffer.elem not in _FLOATS:
                continue
            if not np.isfinite(from_elements(entry.arena.view(place, buffer.elem, buffer.size), buffer.elem)).all():
                return launch.site
    return None


def _only(driver: Driver, launch: Launch) -> Driver:
    return Driver((launch,), driver.kernels, 0, 0, (), (), (), (), (), ())


def _flat(rows: Sequence[Row], at: Mapping[int, int]) -> Iterator[Launch]:
    """The launches in order, loops unrolled, with the places that they have."""
    for row in rows:
        match row:
            case Launch():
                places = tuple(
                    Ref(ref.buffer, ref.offset + sum(step * at[loop] for loop, step in ref.steps)) for ref in row.places
                )
                yield Launch(row.kernel, places, row.site, row.move, row.quiet)
            case Loop():
                for number in range(row.count):
                    yield from _flat(row.rows, {**at, row.loop: number})
