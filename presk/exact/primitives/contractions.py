"""Contractions: products of matrices after moving axes together, each the exact value rounded once."""

from collections.abc import Sequence
from math import prod

import numpy as np

from presk.exact.arithmetic import Arithmetic
from presk.exact.primitives.use import Use, flat
from presk.exact.values import Objects, Real, Value
from presk.prims.attrs import AxisNames

Named = tuple[Objects, tuple[str, ...]]
"""An array and the names of its axes."""


def _matrix(m: Arithmetic, left: Objects, right: Objects) -> Objects:
    product = m.product(left[np.newaxis], right[np.newaxis], last=True)
    return product.reshape(product.shape[1:])


def dot(use: Use) -> Value:
    """`dot x, w`: x's last axis against w's first."""
    x, w = use.real(0), use.real(1)
    return Real(_matrix(use.m, flat(x, 1), flat(w, w.ndim - 1)).reshape(x.shape[:-1] + w.shape[1:]))


def dot_vjp_l(use: Use) -> Value:
    """`dot_vjp_l ct, w`: ct against w along w's axes but the first."""
    ct, w = use.real(0), use.real(1)
    inner = w.ndim - 1
    product = _matrix(use.m, flat(ct, inner), flat(w, inner).T)
    return Real(product.reshape(*ct.shape[: ct.ndim - inner], w.shape[0]))


def dot_vjp_r(use: Use) -> Value:
    """`dot_vjp_r x, ct`: x against ct along all axes of x but the last."""
    x, ct = use.real(0), use.real(1)
    outer = x.ndim - 1
    product = _matrix(use.m, flat(x, 1).T, flat(ct, ct.ndim - outer))
    return Real(product.reshape(x.shape[-1], *ct.shape[outer:]))


def ein(use: Use) -> Value:
    """`ein[out] …`: operands are multiplied from left to right, exactly but for the last product."""
    out = use.attr("out", AxisNames).names
    operands: list[Named] = [
        (use.real(place), use.attr(f"in{place}", AxisNames).names) for place in range(len(use.args))
    ]
    value = operands[0]
    if len(operands) == 1:
        value = _reduced(use.m, value, frozenset(out), last=True)
    for place, operand in enumerate(operands[1:], 1):
        needed = frozenset(out).union(*(names for _, names in operands[place + 1 :]))
        value = _pair(use.m, value, operand, needed, last=place == len(operands) - 1)
    return Real(_ordered(value, out))


def _ordered(value: Named, names: Sequence[str]) -> Objects:
    return value[0].transpose(*(value[1].index(name) for name in names))


def _reduced(m: Arithmetic, value: Named, needed: frozenset[str], *, last: bool) -> Named:
    """The sum over the axes that nothing else needs."""
    data, names = value
    kept = tuple(name for name in names if name in needed)
    summed = tuple(name for name in names if name not in needed)
    if not summed:
        return value
    rows = flat(_ordered(value, (*kept, *summed)), len(summed))
    sums = m.product(rows[np.newaxis], m.ones((1, rows.shape[1], 1)), last=last)
    return sums.reshape(tuple(data.shape[names.index(name)] for name in kept)), kept


def _pair(m: Arithmetic, left: Named, right: Named, needed: frozenset[str], *, last: bool) -> Named:
    """The product of two, summed over the axes that nothing after needs."""
    left = _reduced(m, left, needed.union(right[1]), last=False)
    right = _reduced(m, right, needed.union(left[1]), last=False)
    lengths = dict(zip(right[1], right[0].shape)) | dict(zip(left[1], left[0].shape))
    both = [name for name in left[1] if name in right[1]]
    batch = tuple(name for name in both if name in needed)
    summed = tuple(name for name in both if name not in needed)
    rows = tuple(name for name in left[1] if name not in both)
    columns = tuple(name for name in right[1] if name not in both)
    sizes = [prod(lengths[name] for name in names) for names in (batch, rows, summed, columns)]
    one = _ordered(left, (*batch, *rows, *summed)).reshape(sizes[0], sizes[1], sizes[2])
    other = _ordered(right, (*batch, *summed, *columns)).reshape(sizes[0], sizes[2], sizes[3])
    names = (*batch, *rows, *columns)
    return m.product(one, other, last=last).reshape(tuple(lengths[name] for name in names)), names
