"""Finds where a step left the numbers: its launches one at a time, until one gives what is not finite."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from presk.ad.step import THETA
from presk.kernels.entry import NativeEntry, table_of
from presk.kernels.ir import Access, Buffer, Elem
from presk.kernels.numbers import from_elements
from presk.kernels.trace.memory import Driver
from presk.kernels.trace.rows import Launch, Loop, Row
from presk.kernels.trace.values import Ref

_FLOATS = (Elem.F64, Elem.F32, Elem.BF16)


@dataclass(frozen=True, slots=True)
class Blame:
    """The nest (`loss/%7`) whose launch is the first of a step to give an infinity or a NaN, and the first parameter whose gradient
    has one; None where there is none."""

    site: str | None
    parameter: str | None


def blame(entry: NativeEntry, squares: str) -> Blame:
    """Runs a step launch by launch. The arena holds what the step was run on; a step changes nothing of it.

    `squares` is the nest that adds up the squares of the gradient: a launch for each leaf, in the order of the tree, which it
    reads first."""
    driver = entry.driver
    site: str | None = None
    parameter: str | None = None
    leaves = [part.path.removeprefix(f"{THETA}.") for part in driver.inputs if part.path.startswith(f"{THETA}.")]
    for launch in _flat(driver.rows, {}):
        buffers = driver.kernels[launch.kernel].buffers
        if launch.site == squares and not launch.quiet:
            if parameter is None and not _finite(entry, launch.places[0], buffers[0]):
                parameter = leaves[0]
            del leaves[0]
        entry.run_rows(table_of(_only(driver, launch)))
        if site is not None or launch.move or launch.quiet:
            continue
        for place, buffer in zip(launch.places, buffers, strict=True):
            if buffer.access is Access.OUT and not _finite(entry, place, buffer):
                site = launch.site
    return Blame(site, parameter)


def _finite(entry: NativeEntry, place: Ref, buffer: Buffer) -> bool:
    """Whether a buffer holds numbers alone."""
    if buffer.elem not in _FLOATS:
        return True
    return bool(np.isfinite(from_elements(entry.arena.view(place, buffer.elem, buffer.size), buffer.elem)).all())


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
