"""Reductions, their adjoints, and what works along an axis: softmax, cross-entropy, argmax, sample."""

from collections.abc import Callable
from math import prod

import numpy as np

from presk.exact import draws
from presk.exact.faults import Fault
from presk.exact.primitives.use import Use, flat
from presk.exact.scope import laid, shape_of
from presk.exact.values import Array, Index, Objects, Real, Value


def _rows(use: Use, data: Objects) -> tuple[Objects, tuple[int, ...]]:
    """The elements that are reduced together as rows, and the shape of the result."""
    name = use.axis()
    if name is None:
        return data.reshape(1, data.size), ()
    moved = np.moveaxis(data, use.place(0, name), -1)
    return flat(moved, 1), moved.shape[:-1]


def total(use: Use) -> Value:
    """`sum`."""
    rows, shape = _rows(use, use.real(0))
    return Real(use.m.sums(rows).reshape(shape))


def mean(use: Use) -> Value:
    """`mean`; that there are elements was checked before the run."""
    rows, shape = _rows(use, use.real(0))
    return Real(use.m.means(rows).reshape(shape))


def _spread(use: Use, share: Callable[[Objects, int], Objects]) -> Value:
    """The cotangent at each element of t that was reduced, after `share` has seen it and the number of these elements."""
    ct, t = use.real(0), use.real(1)
    name = use.axis()
    if name is None:
        return Real(np.broadcast_to(share(ct, t.size), t.shape))
    place = use.place(1, name)
    return Real(np.broadcast_to(np.expand_dims(share(ct, t.shape[place]), place), t.shape))


def broadcast_like(use: Use) -> Value:
    """The adjoint of `sum`."""
    return _spread(use, lambda ct, count: ct)


def mean_vjp(use: Use) -> Value:
    """The adjoint of `mean`: each quotient is made once."""
    return _spread(use, use.m.divided)


def sum_to(use: Use) -> Value:
    """The cotangent summed over the axes that t does not have, and in t's order of axes."""
    ct, align = use.real(0), use.align("align")
    leading = use.leading if shape_of(use.types[0]).prefix is not None else 0
    kept = [*(range(leading) if align.prefix else ()), *(place + ct.ndim for place in align.axes)]
    summed = [place for place in range(ct.ndim) if place not in kept]
    moved = ct.transpose(*kept, *summed)
    if not summed:
        return Real(moved)
    return Real(use.m.sums(flat(moved, len(summed))).reshape(moved.shape[: len(kept)]))


def softmax(use: Use) -> Value:
    """`softmax`, over the places that a mask allows if there is one."""
    x = use.real(0)
    name = use.axis()
    if name is None:
        raise TypeError("softmax has an axis")
    place = use.place(0, name)
    moved = np.moveaxis(x, place, -1)
    allowed = None
    if len(use.args) > 1:
        mask = laid(use.mask(1).data, use.align("mask"), len(use.shape(0).axes), use.leading)
        allowed = flat(np.moveaxis(np.broadcast_to(mask, x.shape), place, -1), 1)
    try:
        rows = use.m.softmax(flat(moved, 1), allowed)
    except Fault as fault:
        raise _at_row(use, fault, moved.shape[:-1], place) from None
    return Real(np.moveaxis(rows.reshape(moved.shape), -1, place))


def _at_row(use: Use, fault: Fault, shape: tuple[int, ...], place: int) -> Fault:
    """The fault with the row's number taken apart into places along the other axes."""
    if fault.index is not None:
        axes = use.shape(0).axes
        names = [axis.name for axis in axes]
        del names[place]
        fault.index = tuple(int(at) for at in np.unravel_index(fault.index[0], shape)) if shape else ()
        fault.axes = ((None,) * (len(shape) - len(names)) + tuple(names))[-len(shape) :] if shape else ()
    return fault


def _targets(y: Array) -> Array:
    return y.reshape(y.size)


def cross_entropy(use: Use) -> Value:
    """`cross_entropy logits, y`."""
    y = use.index(1).data
    return Real(use.m.cross_entropy(flat(use.real(0), 1), _targets(y)).reshape(y.shape))


def cross_entropy_vjp(use: Use) -> Value:
    """`cross_entropy_vjp logits, y, ct`."""
    logits, ct = use.real(0), use.real(2)
    rows = use.m.cross_entropy_vjp(flat(logits, 1), _targets(use.index(1).data), ct.reshape(ct.size))
    return Real(rows.reshape(logits.shape))


def argmax(use: Use) -> Value:
    """`argmax x`, along the last axis."""
    x = use.real(0)
    try:
        found = use.m.argmax(flat(x, 1))
    except Fault as fault:
        raise _at_row(use, fault, x.shape[:-1], -1) from None
    return Index(found.reshape(x.shape[:-1]), x.shape[-1])


def sample(use: Use) -> Value:
    """`sample key, logits`: the row of rank p takes draw p."""
    logits = use.real(1)
    numbers = draws.draws(use.key(0), prod(logits.shape[:-1]))
    return Index(use.m.sample(flat(logits, 1), numbers).reshape(logits.shape[:-1]), logits.shape[-1])


def embed(use: Use) -> Value:
    """`embed w, t`: rows of the table."""
    return Real(use.real(0)[use.index(1).data.astype(np.int64)])


def embed_vjp(use: Use) -> Value:
    """`embed_vjp t, ct, w`: each row of the table gets the sum of the cotangents of its uses."""
    t, w = use.index(0).data, use.real(2)
    rows = use.real(1).reshape(t.size, w.shape[1])
    result: Objects = np.array(use.m.zeros(w.shape))
    numbers = t.reshape(t.size).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    used, starts = np.unique(numbers[order], return_index=True)
    for number, places in zip(used.tolist(), np.split(order, starts[1:])):
        result[number] = rows[places[0]] if len(places) == 1 else use.m.sums(rows[places].T)
    return Real(result)


def one_hot(use: Use) -> Value:
    """`one_hot t`: 1 at the index, 0 elsewhere."""
    t = use.index(0)
    result: Objects = np.array(use.m.zeros((t.data.size, t.bound)))
    if t.data.size:
        result[np.arange(t.data.size), t.data.reshape(-1).astype(np.int64)] = use.m.ones(()).item()
    return Real(result.reshape(*t.data.shape, t.bound))
