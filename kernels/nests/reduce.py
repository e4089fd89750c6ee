"""Reductions: sums, means and sums of squares along axes, in the order that the type decides.

Where the last axis is reduced, the innermost run of reduced axes is one row for rule 3 (`presk.kernels.nests.rows`), with lanes along
it; the results for outer reduced axes are added in order. Where the last axis is kept, elements are added in increasing order of the
reduced places, with lanes across the kept ones. Every sum begins at +0.
"""

from collections.abc import Callable, Sequence
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import Access, Elem, bits_of
from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Launch, Lowered, Nest, Place, Slot, Step, Use
from presk.kernels.nests import rows
from presk.kernels.nests.axes import Shape, attr, axis_of, count, places, row_major
from presk.kernels.nests.emit import ORIGIN, Loops, Spot, address, divided, fitting, groups, lanes_for, load, store
from presk.kernels.nests.map import transposed
from presk.prims.attrs import Align
from presk.prims.nests import Over, Reduced

ABREAST: Final = 8
"""Vectors of kept places that are summed at once: enough to hide an addition's latency, and whole cache lines."""


class Reduce(Nest, frozen=True):
    """The sum over the axes of a contiguous tensor that `kept` does not name.

    `kept` lists the kept axes in the order of the result. `squares` sums squares, `divisor` divides the sum. With `begun` there is a
    second input, a scalar of that type, to which the sum is added.
    """

    shape: Shape
    kept: tuple[int, ...]
    source: Elem
    elem: Elem
    accumulate: Elem
    squares: bool = False
    divisor: int | None = None
    begun: Elem | None = None


def reduction(reduced: Reduced, use: Use) -> Launch:
    """`sum`, `mean`, `sum_to`, and `sum_squares` of one tensor; a second operand of it is the sum of what came before."""
    x = use.operands[0]
    rank = len(x.shape)
    match reduced.over:
        case Over.AXIS:
            axis = axis_of(x, use.attrs)
            kept = () if axis is None else tuple(place for place in range(rank) if place != axis)
        case Over.REST:
            kept = places(use.result.shape, attr(use.attrs, "align", Align), rank)
            if len(kept) == rank:
                # Nothing is summed: the elements themselves, in the order of the result.
                return transposed(use, tuple(kept.index(place) for place in range(rank)))
        case Over.ALL:
            kept = ()
    summed = count([size for place, size in enumerate(x.shape) if place not in kept])
    shape, kept = _merged(x.shape, kept)
    nest = Reduce(
        shape,
        kept,
        x.elem,
        use.result.elem,
        use.arith.accumulate,
        squares=reduced.squares,
        divisor=summed if reduced.mean else None,
        begun=use.operands[1].elem if reduced.squares and len(use.operands) > 1 else None,
    )
    return Launch(nest, (0,) if nest.begun is None else (0, 1))


def _merged(shape: Shape, kept: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
    """Neighbours that are reduced together, or stand side by side in the result too, as one axis."""
    groups: list[list[int]] = []
    for axis in range(len(shape)):
        last = groups[-1][-1] if groups else None
        together = last is not None and (
            kept.index(axis) == kept.index(last) + 1 if axis in kept and last in kept else not {axis, last} & set(kept)
        )
        if together:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    number = {axis: place for place, group in enumerate(groups) for axis in group}
    order: list[int] = []
    for axis in kept:
        if number[axis] not in order:
            order.append(number[axis])
    return tuple(count([shape[axis] for axis in group]) for group in groups), tuple(order)


def lower(nest: Reduce, layout: Layout, target: Target) -> Lowered:
    """The loops of a reduction. To a scalar it is divided among workers by blocks, whose sums a second kernel adds."""
    if layout.split is not None and not nest.kept and count(nest.shape) > rows.BLOCK:
        return _by_blocks(nest, layout, target)
    b = Builder()
    sizes = [nest.shape[axis] for axis in nest.kept]
    buffers = [b.buffer(nest.source, count(nest.shape))]
    if nest.begun is not None:
        buffers.append(b.buffer(nest.begun, 1))
    out = b.buffer(nest.elem, count(sizes), Access.OUT)
    if count(sizes):
        _Body(b, nest, out, layout, target).write()
    slots = (*(Slot(Place.INPUT, place) for place in range(len(buffers))), Slot(Place.OUTPUT))
    return Lowered((Step(b.kernel(), slots),))


def _by_blocks(nest: Reduce, layout: Layout, target: Target) -> Lowered:
    """The sum of everything: the blocks' sums into scratch memory, then their sum in order."""
    (size,) = nest.shape
    full, rest = divmod(size, rows.BLOCK)
    blocks = full + (rest > 0)
    acc = nest.accumulate
    lanes = lanes_for(layout, target, acc)

    b = Builder()
    b.buffer(nest.source, size)
    sums = b.buffer(acc, blocks, Access.OUT)
    body = _Body(b, nest, -1, layout, target)

    def one(number: Spot, start: Spot, length: int) -> None:
        value = rows.block(b, start, length, lanes, acc, lambda spot, width, some: body.element({0: spot}, width, some))
        b.store(sums, address(b, (number, 1)), value)

    with b.loop(full, parallel=True, split=True) as i:
        one(Spot(((i, 1),)), Spot(((i, rows.BLOCK),)), rows.BLOCK)
    if rest:
        with b.loop(1, parallel=True, split=True):
            one(Spot((), full), Spot((), full * rows.BLOCK), rest)
    first = Step(b.kernel(), (Slot(Place.INPUT, 0), Slot(Place.SCRATCH, 0)))

    b = Builder()
    sums = b.buffer(acc, blocks)
    slots = [Slot(Place.SCRATCH, 0)]
    if nest.begun is not None:
        b.buffer(nest.begun, 1)
        slots.append(Slot(Place.INPUT, 1))
    out = b.buffer(nest.elem, 1, Access.OUT)
    total = b.loop(blocks, [b.const(acc, 0.0)])
    with total as k:
        total.next = [b.add(total.inside[0], b.load(sums, b.at((k, 1))))]
    _Body(b, nest, out, layout, target).finish({}, total.after[0], None)
    return Lowered((first, Step(b.kernel(), (*slots, Slot(Place.OUTPUT)))), ((acc, blocks),))


class _Body:
    """The statements of a reduction. The tensor is buffer 0, what was begun buffer 1."""

    def __init__(self, b: Builder, nest: Reduce, out: int, layout: Layout, target: Target) -> None:
        self.b = b
        self.nest = nest
        self.out = out
        self.strides = row_major(nest.shape)
        own = row_major([nest.shape[axis] for axis in nest.kept])
        self.own = dict(zip(nest.kept, own))
        self.lanes = lanes_for(layout, target, nest.accumulate)
        self.layout = layout
        # Loops follow the tensor's order, so that memory is read in order.
        self.kept = sorted(nest.kept)
        self.reduced = [axis for axis in range(len(nest.shape)) if axis not in nest.kept]

    def write(self) -> None:
        rank = len(self.nest.shape)
        if rank == 0 or rank - 1 in self.reduced:
            self._rows()
        else:
            self._columns()

    def _rows(self) -> None:
        """The last axis is reduced: a scalar for each kept place."""
        inner = self.reduced[-1:]
        outer = self.reduced[:-1]
        size = self.nest.shape[inner[0]] if inner else 1
        loops = Loops(self.b, divided(self.layout, len(self.kept)))

        def place(at: tuple[Spot, ...]) -> None:
            spots = dict(zip(self.kept, at))

            def run(where: dict[int, Spot]) -> Value:
                def element(spot: Spot, lanes: int, some: int | None) -> Value:
                    full = {**where, inner[0]: spot} if inner else where
                    return self.element(full, lanes, some)

                return rows.total(self.b, size, fitting(self.lanes, size), self.nest.accumulate, element)

            # Sums of rows are added to +0 one after the other; a single one is none the worse for it.
            value = self._in_order(outer, spots, run) if outer else run(spots)
            self.finish(spots, value, None)

        loops.over([self.nest.shape[axis] for axis in self.kept], place)

    def _columns(self) -> None:
        """The last axis is kept: vectors along it, several abreast."""
        last = self.kept[-1]
        size = self.nest.shape[last]
        lanes = fitting(self.lanes, size)
        loops = Loops(self.b, divided(self.layout, len(self.kept)))

        def row(at: tuple[Spot, ...]) -> None:
            spots = dict(zip(self.kept, at))

            def group(first: Spot, vectors: int, some: int | None) -> None:
                mine = [{**spots, last: first.on(j * lanes)} for j in range(vectors)]
                for where, value in zip(mine, self._sums(mine, lanes, some)):
                    self.finish(where, value, some)

            groups(self.b, size, lanes, ABREAST, group, split=len(at) == loops.split)

        loops.over([self.nest.shape[axis] for axis in self.kept[:-1]], row)

    def _sums(self, places: Sequence[dict[int, Spot]], lanes: int, some: int | None) -> list[Value]:
        """The sums over all reduced axes at several vectors of kept places."""
        b = self.b

        def descend(axes: Sequence[int], where: dict[int, Spot], values: Sequence[Value]) -> list[Value]:
            if not axes:
                return [
                    b.add(value, self.element({**place, **where}, lanes, some)) for value, place in zip(values, places)
                ]
            loop = b.loop(self.nest.shape[axes[0]], values)
            with loop as k:
                loop.next = descend(axes[1:], {**where, axes[0]: Spot(((k, 1),))}, loop.inside)
            return list(loop.after)

        zeros = [b.const(self.nest.accumulate, 0.0, lanes)] * len(places)
        return descend(self.reduced, {}, zeros) if self._any(self.reduced) else zeros

    def _any(self, axes: Sequence[int]) -> bool:
        """Whether there is anything along axes."""
        return count([self.nest.shape[axis] for axis in axes]) > 0

    def _in_order(self, axes: Sequence[int], spots: dict[int, Spot], run: Callable[[dict[int, Spot]], Value]) -> Value:
        """Results for the places along outer reduced axes, added in order."""
        b = self.b

        def descend(rest: Sequence[int], where: dict[int, Spot], value: Value) -> Value:
            if not rest:
                return b.add(value, run(where))
            loop = b.loop(self.nest.shape[rest[0]], [value])
            with loop as k:
                loop.next = [descend(rest[1:], {**where, rest[0]: Spot(((k, 1),))}, loop.inside[0])]
            return loop.after[0]

        zero = b.const(self.nest.accumulate, 0.0)
        return descend(axes, spots, zero) if self._any(self.reduced) else zero

    def element(self, spots: dict[int, Spot], lanes: int, some: int | None) -> Value:
        """The elements that are summed at a place."""
        places = [(spots.get(axis, ORIGIN), self.strides[axis]) for axis in range(len(self.nest.shape))]
        x = load(self.b, 0, address(self.b, *places), self.nest.accumulate, lanes, count=some)
        return self.b.mul(x, x) if self.nest.squares else x

    def finish(self, spots: dict[int, Spot], value: Value, some: int | None) -> None:
        """Stores a sum."""
        b, nest = self.b, self.nest
        if nest.begun is not None:
            value = b.add(load(b, 1, b.at(), nest.accumulate), value)
        if nest.divisor is not None:
            value = b.div(value, b.bits(nest.accumulate, bits_of(nest.accumulate, float(nest.divisor)), value.lanes))
        # Along the result the lanes may lie apart.
        last = len(nest.shape) - 1
        stride = self.own.get(last, 1)
        index = address(b, *((spots[axis], self.own[axis]) for axis in self.kept))
        store(b, self.out, nest.elem, index, value, stride=stride if value.lanes > 1 else 1, count=some)
