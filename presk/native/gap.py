"""The gap of a realization: how far what it computes is from the exact value of the same arguments."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import gmpy2
import msgspec
import numpy as np
from numpy.typing import NDArray

from presk.core.ir import Program
from presk.exact.balls import Balls
from presk.exact.decimals import above
from presk.exact.interpreter import Interpreter
from presk.exact.reals import whole
from presk.exact.run import distance
from presk.exact.scope import Headers
from presk.exact.values import Index, Items, Mask, Objects, Real, Record, Stack, Value, map_leaves
from presk.native.run import Ran

_DOUBLE: Final = 53


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """For one tensor of a result: a bound on the distance of its elements to their exact values, and one on that divided by the
    largest exact value in size (infinite where that may be 0); decimals, rounded up. `differ` counts elements of an index or a mask
    that differ."""

    path: str
    absolute: str
    relative: str
    differ: int = 0


def measure(program: Program, ran: Ran, headers: Headers, bits: int) -> tuple[Gap, ...]:
    """The gaps of a run: the entry is evaluated in balls, at `bits`, on the arguments that the run had, so they are proved.

    `Stopped` where there is no exact value, or where `bits` do not decide something discrete.
    """
    m = Balls(bits)
    with m.active():
        args = [map_leaves(arg, lambda data: m.from_doubles(np.asarray(data, dtype=np.float64))) for arg in ran.args]
    exact = Interpreter(program, m, headers).run(ran.entry, args, ran.scope.dims, ran.scope.prefix)
    with m.active():
        return tuple(_gaps(ran.value, exact, ran.entry))


def _gaps(value: Value, exact: Value, path: str) -> Iterator[Gap]:
    match value, exact:
        case Real(data), Real(balls):
            yield _gap(np.asarray(data, dtype=np.float64), balls, path)
        case (Index(array), Index(right)) | (Mask(array), Mask(right)):
            yield Gap(path, "0", "0", int((array != right).sum()))
        case (Items(items), Items(more)) | (Stack(items), Stack(more)):
            for place, (part, its) in enumerate(zip(items, more, strict=True)):
                yield from _gaps(part, its, f"{path}.{place}")
        case Record(fields), Record(others):
            for name, field in fields.items():
                yield from _gaps(field, others[name], f"{path}.{name}")
        case _:
            pass


def _gap(data: NDArray[np.float64], balls: Objects, path: str) -> Gap:
    if data.size == 0:
        return Gap(path, "0", "0")
    if not np.isfinite(data).all():
        return Gap(path, "inf", "inf")
    largest = max(distance(gmpy2.mpfr(number, _DOUBLE), ball) for number, ball in _pairs(data, balls))
    if largest == 0:
        return Gap(path, "0", "0")
    size = max(_at_least(ball) for ball in balls.ravel().tolist())
    up = gmpy2.context(precision=64, round=gmpy2.RoundUp)
    return Gap(path, above(largest), above(up.div(largest, size)) if size > 0 else "inf")


def _pairs(data: NDArray[np.float64], balls: Objects) -> Iterator[tuple[float, Any]]:
    return zip(data.ravel().tolist(), balls.ravel().tolist())


def _at_least(ball: Any) -> Any:
    """A lower bound of |x| for x in a ball."""
    low = ball.abs_lower()
    if not low.is_finite():
        return gmpy2.mpfr(0)
    mantissa, exponent = map(int, low.man_exp())
    down = gmpy2.context(precision=64, round=gmpy2.RoundDown)
    size = down.plus(whole(mantissa))
    return down.mul_2exp(size, exponent) if exponent >= 0 else down.div_2exp(size, -exponent)


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
