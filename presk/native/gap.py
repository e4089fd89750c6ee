"""The gap of a realization: how far what it computes is from the exact value of the same arguments."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from presk.core.ir import Program
from presk.exact.decimals import above
from presk.exact.interpreter import Interpreter
from presk.exact.reals import Reals
from presk.exact.scope import Headers
from presk.exact.values import Index, Items, Mask, Real, Record, Stack, Value, map_leaves
from presk.native.run import Ran


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """For one tensor of a result: the largest distance of an element to its exact value, and that divided by the largest exact
    value in size (0 where all are 0); decimals, rounded up. `differ` counts elements of an index or a mask that differ."""

    path: str
    absolute: str
    relative: str
    differ: int = 0


def measure(program: Program, ran: Ran, headers: Headers, bits: int) -> tuple[Gap, ...]:
    """The gaps of a run: the entry is evaluated exactly, at `bits`, on the arguments that the run had."""
    m = Reals(bits)
    with m.active():
        args = [map_leaves(arg, lambda data: m.from_doubles(np.asarray(data, dtype=np.float64))) for arg in ran.args]
    exact = Interpreter(program, m, headers).run(ran.entry, args, ran.scope.dims, ran.scope.prefix)
    return tuple(_gaps(ran.value, exact, ran.entry, m))


def _gaps(value: Value, exact: Value, path: str, m: Reals) -> Iterator[Gap]:
    match value, exact:
        case Real(data), Real(numbers):
            yield _gap(np.asarray(data, dtype=np.float64), numbers, path, m)
        case (Index(array), Index(right)) | (Mask(array), Mask(right)):
            yield Gap(path, "0", "0", int((array != right).sum()))
        case (Items(items), Items(more)) | (Stack(items), Stack(more)):
            for place, (part, its) in enumerate(zip(items, more, strict=True)):
                yield from _gaps(part, its, f"{path}.{place}", m)
        case Record(fields), Record(others):
            for name, field in fields.items():
                yield from _gaps(field, others[name], f"{path}.{name}", m)
        case _:
            pass


def _gap(data: Any, exact: Any, path: str, m: Reals) -> Gap:
    if data.size == 0:
        return Gap(path, "0", "0")
    if not np.isfinite(data).all():
        return Gap(path, "inf", "inf")
    with m.active():
        distance = max(abs(one) for one in np.ravel(m.from_doubles(data) - exact))
        size = max(abs(one) for one in np.ravel(exact))
        return Gap(path, above(distance), above(distance / size) if size else "0")


def gap_text(gaps: Sequence[Gap]) -> str:
    """Lines for people."""
    return "".join(
        f"gap of {gap.path}: {gap.differ} elements differ\n"
        if gap.differ
        else f"gap of {gap.path}: at most {gap.absolute}, relative to the largest value {gap.relative}\n"
        for gap in gaps
    )


def gap_json(text: str, gaps: Sequence[Gap]) -> str:
    """A result's JSON object with the gaps in it, if there are any."""
    if not gaps:
        return text
    record = json.loads(text)
    record["gap"] = {
        gap.path: {"absolute": gap.absolute, "relative": gap.relative, "differ": gap.differ} for gap in gaps
    }
    return json.dumps(record, ensure_ascii=False)
