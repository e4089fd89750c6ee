"""Softmax along any axis, with or without a mask.

Each row has its maximum, the sum of exp(x − maximum) in the order of rule 3, and the quotients. In three passes the exponentials are
computed twice; in two, the sum's pass stores them and the last one divides: in place where the result's type holds them, else in
scratch memory of a row. What a mask refuses counts as −∞, so its exponential is 0, whatever stands there. A row that has elements and
none of them allowed is an error: its sum is 0, and no other row's is, since the maximum's own exponential is 1. Rows are numbered in
row-major order of the other axes.
"""

from collections.abc import Sequence
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import Access, CompareOp, Elem, Index
from presk.kernels.layout import Layout, Target
from presk.kernels.math import exp_not_above_0
from presk.kernels.nest import Fault, Launch, Lowered, Nest, Place, Slot, Step, Use
from presk.kernels.nests import rows
from presk.kernels.nests.axes import Shape, Strides, attr, axis_of, collapse, count, laid, places, row_major
from presk.kernels.nests.emit import (
    ORIGIN,
    Loops,
    Spot,
    abreast_for,
    address,
    divided,
    fitting,
    holds,
    lanes_for,
    larger,
    load,
    parts,
    store,
)
from presk.prims.attrs import Align

EMPTY_ROW: Final = "E7004"
EMPTY_MESSAGE: Final = "the mask refuses every element of a row"


class Softmax(Nest, frozen=True):
    """The softmax of a contiguous tensor `[before…, size, after…]` along the middle axis.

    `last` says that the type has no axis behind it, which decides the order of the sum. The mask is a second input with strides along
    before, the axis and after.
    """

    before: Shape
    size: int
    after: Shape
    last: bool
    source: Elem
    elem: Elem
    arithmetic: Elem
    accumulate: Elem
    mask: Strides | None = None
    mask_size: int = 0


def rule(use: Use) -> Launch:
    """`softmax x` and `softmax x, mask`."""
    x = use.operands[0]
    axis = axis_of(x, use.attrs)
    if axis is None:
        raise ValueError("softmax has an axis")
    rank = len(x.shape)
    strides = [row_major(x.shape)]
    if len(use.operands) > 1:
        mask = use.operands[1]
        strides.append(laid(mask.shape, places(mask.shape, attr(use.attrs, "mask", Align), rank), rank))
    before, fore = collapse(x.shape[:axis], [one[:axis] for one in strides])
    after, aft = collapse(x.shape[axis + 1 :], [one[axis + 1 :] for one in strides])
    arith = use.arith
    types = x.elem, use.result.elem, arith.arithmetic, arith.accumulate
    nest = Softmax(before, x.shape[axis], after, axis == rank - 1, *types)
    if len(use.operands) == 1:
        return Launch(nest, (0,))
    lies = (*fore[1], strides[1][axis], *aft[1])
    masked = Softmax(before, x.shape[axis], after, nest.last, *types, lies, count(use.operands[1].shape))
    return Launch(masked, (0, 1))


def lower(nest: Softmax, layout: Layout, target: Target) -> Lowered:
    """The loops of a softmax, and the fault of a row that its mask empties."""
    b = Builder()
    body = _Body(b, nest, layout, target)
    if count(nest.before) * count(nest.after) * nest.size:
        body.write()
    return body.lowered()


class _Body:
    """The statements of a softmax."""

    def __init__(self, b: Builder, nest: Softmax, layout: Layout, target: Target) -> None:
        self.b = b
        self.nest = nest
        self.after = nest.after or (() if nest.last else (1,))
        self.lanes = abreast_for(layout, target, nest.arithmetic)
        self.least = lanes_for(layout, target, nest.arithmetic)
        self.slots = [Slot(Place.INPUT, 0)]
        size = count(nest.before) * nest.size * count(nest.after)
        self.rows = count(nest.before) * count(nest.after) if nest.mask is not None and size else 0
        self.x = b.buffer(nest.source, size)
        self.mask = -1
        if nest.mask is not None:
            self.mask = b.buffer(Elem.U8, nest.mask_size, bound=2)
            self.slots.append(Slot(Place.INPUT, 1))
        self.out = b.buffer(nest.elem, size, Access.OUT)
        self.slots.append(Slot(Place.OUTPUT))
        if self.rows:
            self.fault = b.buffer(Elem.U8, self.rows, Access.OUT)
            self.slots.append(Slot(Place.FAULT))
        self.strides = row_major((*nest.before, nest.size, *self.after))
        # Without another axis the one loop is that over vectors of the last axis behind.
        split = divided(layout, len(nest.before) + len(self.after))
        # Where exponentials are kept: in the result if it holds them, a row after the other; else in scratch memory.
        self.keeps = layout.passes != 3
        apart = self.keeps and size > 0 and (not nest.last or nest.elem is not nest.arithmetic)
        self.loops = Loops(b, split, shared=apart)
        self.kept = self.out
        self.kept_strides = self.strides
        self.scratch: tuple[tuple[Elem, int], ...] = ()
        if apart:
            held = self._scratch()
            self.kept = b.buffer(nest.arithmetic, held, Access.SCRATCH)
            self.scratch = ((nest.arithmetic, held),)
            self.slots.append(Slot(Place.SCRATCH, 0))

    def _scratch(self) -> int:
        """The strides and the size of scratch memory: a row, or a vector's rows side by side, for each place along the loops
        around the divided one and for each of its parts, which run at once."""
        nest, before = self.nest, len(self.nest.before)
        lanes = 1 if nest.last else fitting(self.lanes, self.after[-1])
        sizes = [*nest.before, *self.after]
        if sizes and not nest.last:
            sizes[-1] = -(-sizes[-1] // lanes)
        split = self.loops.split
        if split is not None and (nest.last or split < len(sizes) - 1):
            sizes[split] = parts(sizes[split])
        mine = 0 if split is None else split + 1
        strides = [nest.size * lanes * stride for stride in row_major(sizes[:mine])] + [0] * (len(sizes) - mine)
        self.kept_strides = (*strides[:before], lanes, *strides[before:])
        return nest.size * lanes * count(sizes[:mine])

    def lowered(self) -> Lowered:
        fault = Fault(EMPTY_ROW, EMPTY_MESSAGE, self.rows) if self.rows else None
        return Lowered((Step(self.b.kernel(), tuple(self.slots)),), self.scratch, fault)

    def write(self) -> None:
        if self.nest.last:
            self.loops.over(self.nest.before, self._row)
        else:
            self.loops.over((*self.nest.before, *self.after[:-1]), self._columns)

    # --- rows: lanes along the axis ---

    def _row(self, at: tuple[Spot, ...]) -> None:
        b, nest = self.b, self.nest
        lanes = fitting(self.lanes, nest.size)

        def largest(spot: Spot, width: int, some: int | None) -> Value:
            return self._x((*at, spot), width, some, refused=True)

        top = rows.maximum(b, nest.size, lanes, nest.arithmetic, largest)
        tops = b.splat(top, lanes)

        def term(spot: Spot, width: int, some: int | None) -> Value:
            value = self._exp((*at, spot), tops if width == lanes else b.splat(top, width), some)
            if self.keeps:
                self._keep((*at, spot), value, some)
            return b.convert(value, nest.accumulate)

        total = rows.total(b, nest.size, lanes, nest.accumulate, term)
        if self.rows:
            self._flag(at, total, None)
        sum_ = b.convert(total, nest.arithmetic)
        sums = b.splat(sum_, lanes)

        def quotient(spot: Spot, width: int, some: int | None) -> None:
            if width == lanes:
                self._divide((*at, spot), tops, sums, some)
            else:
                self._divide((*at, spot), b.splat(top, width), b.splat(sum_, width), some)

        Loops(b).wide(nest.size, lanes, min(lanes, self.least), quotient, depth=0)

    # --- columns: lanes along the last axis behind ---

    def _columns(self, at: tuple[Spot, ...]) -> None:
        nest = self.nest
        front, back = at[: len(nest.before)], at[len(nest.before) :]
        lanes = fitting(self.lanes, self.after[-1])

        def vector(spot: Spot, some: int | None) -> None:
            self._column(front, (*back, spot), lanes, some)

        self.loops.vectors(self.after[-1], lanes, vector, depth=len(at))

    def _column(self, front: Sequence[Spot], back: Sequence[Spot], lanes: int, some: int | None) -> None:
        b, nest = self.b, self.nest

        def spots(k: Value) -> tuple[Spot, ...]:
            return (*front, Spot(((k, 1),)), *back)

        top = b.loop(nest.size, [b.const(nest.arithmetic, float("-inf"), lanes)])
        with top as k:
            top.next = [larger(b, self._x(spots(k), lanes, some, refused=True), top.inside[0])]
        total = b.loop(nest.size, [b.const(nest.accumulate, 0.0, lanes)])
        with total as k:
            value = self._exp(spots(k), top.after[0], some)
            if self.keeps:
                self._keep(spots(k), value, some)
            total.next = [b.add(total.inside[0], b.convert(value, nest.accumulate))]
        if self.rows:
            self._flag((*front, *back), total.after[0], some)
        sums = b.convert(total.after[0], nest.arithmetic)
        with b.loop(nest.size, parallel=True) as k:
            self._divide(spots(k), top.after[0], sums, some)

    # --- elements ---

    def _stride(self, strides: Strides) -> int:
        """How far lanes lie apart."""
        return strides[len(self.nest.before)] if self.nest.last else strides[-1]

    def _x(self, spots: Sequence[Spot], lanes: int, some: int | None, *, refused: bool) -> Value:
        """Elements; −∞ where the mask refuses them, if that is asked for."""
        b = self.b
        x = load(b, self.x, address(b, *zip(spots, self.strides)), self.nest.arithmetic, lanes, count=some)
        if not refused or self.nest.mask is None:
            return x
        return b.select(self._allowed(spots, lanes, some), x, b.const(x.elem, float("-inf"), lanes))

    def _allowed(self, spots: Sequence[Spot], lanes: int, some: int | None) -> Value:
        b = self.b
        strides = self.nest.mask or ()
        # Axes that were added to make lanes of have no place in the mask.
        strides = (*strides, *(0,) * (len(self.strides) - len(strides)))
        index = address(b, *zip(spots, strides))
        return holds(b, load(b, self.mask, index, Elem.I32, lanes, stride=self._stride(strides), count=some))

    def _exp(self, spots: Sequence[Spot], tops: Value, some: int | None) -> Value:
        """exp(x − maximum); 0 where the mask refuses, whatever larger number may stand there."""
        b, lanes = self.b, tops.lanes
        value = exp_not_above_0(b, b.sub(self._x(spots, lanes, some, refused=False), tops))
        if self.nest.mask is None:
            return value
        return b.select(self._allowed(spots, lanes, some), value, b.const(value.elem, 0.0, lanes))

    def _kept(self, spots: Sequence[Spot]) -> Index:
        """Where an exponential is kept."""
        if not self.scratch:
            return address(self.b, *zip(spots, self.kept_strides))
        split, axis = self.loops.split, len(self.nest.before)
        part = None if split is None else split if split < axis else split + 1
        return address(
            self.b,
            *(
                (self.loops.part if place == part else spot, stride)
                for place, (spot, stride) in enumerate(zip(spots, self.kept_strides))
            ),
        )

    def _keep(self, spots: Sequence[Spot], value: Value, some: int | None) -> None:
        index = self._kept(spots)
        store(self.b, self.kept, self.nest.arithmetic, index, value, count=some if self.nest.last else None)

    def _divide(self, spots: Sequence[Spot], tops: Value, sums: Value, some: int | None) -> None:
        """Stores quotients."""
        b = self.b
        if self.keeps:
            index = self._kept(spots)
            held = some if self.nest.last else None
            value = load(b, self.kept, index, self.nest.arithmetic, sums.lanes, count=held)
        else:
            value = self._exp(spots, tops, some)
        store(b, self.out, self.nest.elem, address(b, *zip(spots, self.strides)), b.div(value, sums), count=some)

    def _flag(self, spots: Sequence[Spot], total: Value, some: int | None) -> None:
        """Marks rows that have no element."""
        b, nest = self.b, self.nest
        empty = b.convert(b.compare(CompareOp.EQ, total, b.const(total.elem, 0.0, total.lanes)), Elem.I32)
        shape = (*nest.before, *(() if nest.last else self.after))
        store(b, self.fault, Elem.U8, address(b, *zip(spots or (ORIGIN,), row_major(shape) or (0,))), empty, count=some)
