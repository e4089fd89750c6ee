"""What nests compute, written down plainly: in numpy's scalars of a type, one operation after the other."""

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

import gmpy2
import numpy as np
from numpy.typing import NDArray

from presk.kernels.ir import Elem

Array = NDArray[Any]

TYPES: Final = {Elem.F64: np.float64, Elem.F32: np.float32}


def row_sum(row: Array, kind: Any) -> Any:
    """Blocks of 4096, sixteen partial sums, combined at distance 8, 4, 2, 1; the blocks in order."""
    total = kind(0.0)
    for start in range(0, len(row), 4096):
        parts = [kind(0.0)] * 16
        for k, x in enumerate(row[start : start + 4096]):
            parts[k % 16] = parts[k % 16] + x
        for distance in (8, 4, 2, 1):
            parts = [parts[j] + parts[j + distance] for j in range(distance)]
        total = total + parts[0]
    return total


def reduced(x: Array, axes: Sequence[int]) -> Array:
    """The sum over axes: the innermost run of them as one row, outer ones in order; without such a run all in order."""
    kind = x.dtype.type
    rank = x.ndim
    inner: list[int] = []
    for axis in reversed(range(rank)):
        if axis not in axes:
            break
        inner.insert(0, axis)
    outer = [axis for axis in sorted(axes) if axis not in inner]
    kept = [axis for axis in range(rank) if axis not in axes]
    result = np.zeros([x.shape[axis] for axis in kept], dtype=x.dtype)
    for at in product(*(range(x.shape[axis]) for axis in kept)):
        total = kind(0.0)
        for by in product(*(range(x.shape[axis]) for axis in outer)):
            index: list[int | slice] = [slice(None)] * rank
            for axis, place in zip([*kept, *outer], [*at, *by]):
                index[axis] = place
            some = x[tuple(index)]
            total = total + (row_sum(some.reshape(-1), kind) if inner else some)
        result[at] = total
    return result


_SINGLE: Final = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)
_DOUBLE: Final = gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True)


def function(name: str, x: Any) -> Any:
    """A function of a number of f32 or f64, correctly rounded to its type."""
    context = _SINGLE if isinstance(x, np.float32) else _DOUBLE
    return type(x)(float(getattr(context, name)(gmpy2.mpfr(float(x), context.precision))))


def exps(x: Array) -> Array:
    """The exponentials of an array."""
    return np.array([function("exp", one) for one in x.reshape(-1)], dtype=x.dtype).reshape(x.shape)
