"""Reductions inside kernels: rule 3 of the arithmetic along a row, maxima along a row, and what runs over columns.

A row is summed in blocks of 4096 elements. Element k of a block goes into partial sum k mod 16, in increasing k, and the sixteen are
combined at distance 8, 4, 2, 1. Sixteen partial sums are 16 / L vectors of L lanes, so that 1, 2, 4, 8 and 16 lanes give the same
bits: one of a vector's lanes is one of the sixteen.
"""

from collections.abc import Callable, Sequence
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import Elem
from presk.kernels.nests.emit import ORIGIN, Spot, larger, narrowed

BLOCK: Final = 4096
PARTS: Final = 16

Element = Callable[[Spot, int, int | None], Value]
"""The elements of a row from a place on: so many lanes of which the first `count` are asked for (None: all)."""

Join = Callable[[Builder, Value, Value], Value]


def total(b: Builder, size: int, lanes: int, elem: Elem, element: Element) -> Value:
    """The sum of a row, in the order of rule 3; +0 of none."""
    zero = b.const(elem, 0.0)
    full, rest = divmod(size, BLOCK)
    if full == 0:
        return _block(b, ORIGIN, rest, lanes, zero, element, _add)
    if full == 1:
        # No sum of a block is −0: its partial sums begin at +0. So +0 may be added to it or not.
        value = _block(b, ORIGIN, BLOCK, lanes, zero, element, _add)
    else:
        loop = b.loop(full, [zero])
        with loop as i:
            block = _block(b, Spot(((i, BLOCK),)), BLOCK, lanes, zero, element, _add)
            loop.next = [b.add(loop.inside[0], block)]
        value = loop.after[0]
    if rest:
        value = b.add(value, _block(b, Spot((), full * BLOCK), rest, lanes, zero, element, _add))
    return value


def block(b: Builder, start: Spot, size: int, lanes: int, elem: Elem, element: Element) -> Value:
    """The sum of a block, or of what is left of a row, from a place on."""
    return _block(b, start, size, lanes, b.const(elem, 0.0), element, _add)


def maximum(b: Builder, size: int, lanes: int, elem: Elem, element: Element) -> Value:
    """The largest element of a row that are no NaN, −∞ of none."""
    lowest = b.const(elem, float("-inf"))
    return _block(b, ORIGIN, size, lanes, lowest, element, _larger)


def _add(b: Builder, x: Value, y: Value) -> Value:
    return b.add(x, y)


def _larger(b: Builder, x: Value, y: Value) -> Value:
    return larger(b, y, x)


def _block(b: Builder, start: Spot, size: int, lanes: int, neutral: Value, element: Element, join: Join) -> Value:
    """Elements from a place on, joined in sixteen parts that are then joined pairwise."""
    vectors = PARTS // lanes
    first = b.splat(neutral, lanes)
    parts = [first] * vectors
    full, rest = divmod(size, PARTS)
    if full == 1:
        parts = [join(b, part, element(start.on(j * lanes), lanes, None)) for j, part in enumerate(parts)]
    elif full:
        loop = b.loop(full, parts)
        with loop as i:
            here = start.on(0, (i, PARTS))
            loop.next = [join(b, part, element(here.on(j * lanes), lanes, None)) for j, part in enumerate(loop.inside)]
        parts = list(loop.after)
    for j in range(vectors):
        count = min(rest - j * lanes, lanes)
        if count > 0:
            width = narrowed(lanes, 1, count)
            value = element(start.on(full * PARTS + j * lanes), width, None if count == width else count)
            parts[j] = join(b, parts[j], _filled(b, value, count, neutral, lanes))
    return _pairwise(b, parts, join)


def _filled(b: Builder, x: Value, count: int, neutral: Value, lanes: int) -> Value:
    """The first `count` lanes of x, and a number in those behind, `lanes` in all."""
    if count == lanes:
        return x
    return b.shuffle(x, b.splat(neutral, x.lanes), (*range(count), *[x.lanes] * (lanes - count)))


def _pairwise(b: Builder, parts: Sequence[Value], join: Join) -> Value:
    """Sixteen parts, at distance 8, 4, 2, 1."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [join(b, parts[j], parts[j + half]) for j in range(half)]
    value = parts[0]
    while value.lanes > 1:
        value = join(b, b.half(value, 0), b.half(value, 1))
    return value
