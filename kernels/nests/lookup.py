"""Tables by index: embed and its derivative, one_hot; and what counts: positions, causal masks."""

from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import Access, CompareOp, Elem
from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Launch, Lowered, Nest, Place, Slot, Step, Use
from presk.kernels.nests.axes import count, length_of
from presk.kernels.nests.emit import (
    MOST_LANES,
    Loops,
    Spot,
    address,
    divided,
    fitting,
    groups,
    iota,
    lanes_for,
    load,
    number,
    store,
)

ABREAST: Final = 8
"""Vectors of a row to which cotangents are added together: whole cache lines."""


class Embed(Nest, frozen=True):
    """Rows of a table `[bound, width]`, one for each of `uses` indices."""

    bound: int
    width: int
    uses: int
    source: Elem
    elem: Elem


class EmbedVjp(Nest, frozen=True):
    """A table `[bound, width]` of sums of the cotangents `[uses, width]` of its rows' uses, added in order of the uses."""

    bound: int
    width: int
    uses: int
    ct: Elem
    elem: Elem
    accumulate: Elem


class OneHot(Nest, frozen=True):
    """1 at the index and 0 elsewhere, a row of length `bound` for each of `uses` indices."""

    bound: int
    uses: int
    elem: Elem
    arithmetic: Elem


class Positions(Nest, frozen=True):
    """0 … size − 1."""

    size: int


class CausalMask(Nest, frozen=True):
    """A square mask: true where the second place is not behind the first."""

    size: int


def embed_rule(use: Use) -> Launch:
    """`embed w, t`."""
    w, t = use.operands
    return Launch(Embed(w.shape[0], w.shape[1], count(t.shape), w.elem, use.result.elem), (0, 1))


def embed_vjp_rule(use: Use) -> Launch:
    """`embed_vjp t, ct, w`; w is read for its shape only."""
    t, ct, w = use.operands
    nest = EmbedVjp(w.shape[0], w.shape[1], count(t.shape), ct.elem, use.result.elem, use.arith.accumulate)
    return Launch(nest, (0, 1))


def one_hot_rule(use: Use) -> Launch:
    """`one_hot t`."""
    t = use.operands[0]
    return Launch(OneHot(use.result.shape[-1], count(t.shape), use.result.elem, use.arith.arithmetic), (0,))


def positions_rule(use: Use) -> Launch:
    """`positions(n: T)`."""
    return Launch(Positions(length_of(use.attrs, "axis", use.dims)), ())


def causal_mask_rule(use: Use) -> Launch:
    """`causal_mask(n: T)`."""
    return Launch(CausalMask(length_of(use.attrs, "axis", use.dims)), ())


_TWO_IN: Final = (Slot(Place.INPUT, 0), Slot(Place.INPUT, 1), Slot(Place.OUTPUT))


def lower_embed(nest: Embed, layout: Layout, target: Target) -> Lowered:
    """A row is copied for each use."""
    b = Builder()
    w = b.buffer(nest.source, nest.bound * nest.width)
    t = b.buffer(Elem.I32, nest.uses, bound=nest.bound)
    out = b.buffer(nest.elem, nest.uses * nest.width, Access.OUT)
    lanes = fitting(lanes_for(layout, target, nest.elem), nest.width)

    def use(at: tuple[Spot, ...]) -> None:
        row = Spot(((b.convert(b.load(t, address(b, (at[0], 1))), Elem.I64), 1),))

        def copy(d: Spot, some: int | None) -> None:
            value = b.load(w, address(b, (row, nest.width), (d, 1)), lanes, count=some)
            store(b, out, nest.elem, address(b, (at[0], nest.width), (d, 1)), value, count=some)

        loops.vectors(nest.width, lanes, copy, depth=1)

    loops = Loops(b, divided(layout, 2))
    if nest.uses * nest.width and nest.bound:
        loops.over((nest.uses,), use)
    return Lowered((Step(b.kernel(), _TWO_IN),))


def lower_embed_vjp(nest: EmbedVjp, layout: Layout, target: Target) -> Lowered:
    """Into the result itself: it is zeroed, and the uses are added in order. Where it does not hold sums, or columns are divided among
    workers, groups of columns are summed in scratch memory and stored from there."""
    b = Builder()
    size = nest.bound * nest.width
    t = b.buffer(Elem.I32, nest.uses, bound=nest.bound)
    ct = b.buffer(nest.ct, nest.uses * nest.width)
    out = b.buffer(nest.elem, size, Access.OUT)
    acc = nest.accumulate
    lanes = fitting(lanes_for(layout, target, acc), nest.width)
    split = divided(layout, 1) is not None
    if nest.elem is acc and not split:
        if size:
            _added(b, nest, lanes, (t, ct, out))
        return Lowered((Step(b.kernel(), _TWO_IN),))
    columns = -(-nest.width // lanes) * lanes
    held = nest.bound * (columns if split else min(columns, ABREAST * lanes))
    sums = b.buffer(acc, held, Access.SCRATCH)

    def group(first: Spot, vectors: int, some: int | None) -> None:
        """Columns from a place on: so many vectors, side by side in scratch memory."""
        width = vectors * lanes
        start = (first, nest.bound if split else 0)
        zero = b.const(acc, 0.0, lanes)
        with b.loop(nest.bound, parallel=True) as v:
            for j in range(vectors):
                b.store(sums, address(b, start, (Spot(((v, 1),)), width), base=j * lanes), zero)
        with b.loop(nest.uses) as p:
            use, row = Spot(((p, 1),)), _index(b, t, p)
            for j in range(vectors):
                held = address(b, start, (row, width), base=j * lanes)
                index = address(b, (use, nest.width), (first.on(j * lanes), 1))
                more = load(b, ct, index, acc, lanes, count=some)
                b.store(sums, held, b.add(b.load(sums, held, lanes), more))
        with b.loop(nest.bound, parallel=True) as v:
            for j in range(vectors):
                value = b.load(sums, address(b, start, (Spot(((v, 1),)), width), base=j * lanes), lanes)
                index = address(b, (Spot(((v, 1),)), nest.width), (first.on(j * lanes), 1))
                store(b, out, nest.elem, index, value, count=some)

    if size:
        groups(b, nest.width, lanes, ABREAST, group, split=split, shared=not split)
    return Lowered((Step(b.kernel(), (*_TWO_IN, Slot(Place.SCRATCH, 0))),), ((acc, held),))


def _index(b: Builder, t: int, p: Value) -> Spot:
    """An element of a buffer of indices as a place."""
    return Spot(((b.convert(b.load(t, b.at((p, 1))), Elem.I64), 1),))


def _added(b: Builder, nest: EmbedVjp, lanes: int, buffers: tuple[int, int, int]) -> None:
    """Cotangents added to rows of the result."""
    t, ct, out = buffers
    acc = nest.accumulate
    loops = Loops(b)
    size = nest.bound * nest.width
    wide = fitting(MOST_LANES if lanes > 1 else 1, size)

    def zeroed(place: Spot, some: int | None) -> None:
        b.store(out, address(b, (place, 1)), b.const(acc, 0.0, wide), count=some)

    loops.vectors(size, wide, zeroed, depth=0)
    with b.loop(nest.uses) as p:
        use, row = Spot(((p, 1),)), _index(b, t, p)

        def add(d: Spot, some: int | None) -> None:
            index = address(b, (row, nest.width), (d, 1))
            more = load(b, ct, address(b, (use, nest.width), (d, 1)), acc, lanes, count=some)
            b.store(out, index, b.add(b.load(out, index, lanes, count=some), more), count=some)

        loops.vectors(nest.width, lanes, add, depth=0)


def lower_one_hot(nest: OneHot, layout: Layout, target: Target) -> Lowered:
    """Each place of a row is compared with the index."""
    b = Builder()
    t = b.buffer(Elem.I32, nest.uses, bound=nest.bound)
    out = b.buffer(nest.elem, nest.uses * nest.bound, Access.OUT)
    lanes = fitting(lanes_for(layout, target, nest.arithmetic), nest.bound)

    def use(at: tuple[Spot, ...]) -> None:
        index = b.splat(b.load(t, address(b, (at[0], 1))), lanes)

        def places(k: Spot, some: int | None) -> None:
            here = b.add(b.splat(number(b, k, Elem.I32), lanes), iota(b, Elem.I32, lanes))
            one, zero = b.const(nest.arithmetic, 1.0, lanes), b.const(nest.arithmetic, 0.0, lanes)
            value = b.select(b.compare(CompareOp.EQ, here, index), one, zero)
            store(b, out, nest.elem, address(b, (at[0], nest.bound), (k, 1)), value, count=some)

        loops.vectors(nest.bound, lanes, places, depth=1)

    loops = Loops(b, divided(layout, 2))
    if nest.uses * nest.bound:
        loops.over((nest.uses,), use)
    return Lowered((Step(b.kernel(), (Slot(Place.INPUT, 0), Slot(Place.OUTPUT))),))


def lower_positions(nest: Positions, layout: Layout, target: Target) -> Lowered:
    """Counts."""
    b = Builder()
    out = b.buffer(Elem.I32, nest.size, Access.OUT)
    lanes = fitting(lanes_for(layout, target, Elem.I32), nest.size)

    def places(k: Spot, some: int | None) -> None:
        here = b.add(b.splat(number(b, k, Elem.I32), lanes), iota(b, Elem.I32, lanes))
        store(b, out, Elem.I32, address(b, (k, 1)), here, count=some)

    if nest.size:
        Loops(b, divided(layout, 1)).vectors(nest.size, lanes, places, depth=0)
    return Lowered((Step(b.kernel(), (Slot(Place.OUTPUT),)),))


def lower_causal_mask(nest: CausalMask, layout: Layout, target: Target) -> Lowered:
    """Compares the places."""
    b = Builder()
    out = b.buffer(Elem.U8, nest.size * nest.size, Access.OUT)
    lanes = fitting(lanes_for(layout, target, Elem.I32), nest.size)

    def row(at: tuple[Spot, ...]) -> None:
        first = b.splat(number(b, at[0], Elem.I32), lanes)

        def places(k: Spot, some: int | None) -> None:
            second = b.add(b.splat(number(b, k, Elem.I32), lanes), iota(b, Elem.I32, lanes))
            value = b.convert(b.compare(CompareOp.LE, second, first), Elem.I32)
            store(b, out, Elem.U8, address(b, (at[0], nest.size), (k, 1)), value, count=some)

        loops.vectors(nest.size, lanes, places, depth=1)

    loops = Loops(b, divided(layout, 2))
    if nest.size:
        loops.over((nest.size,), row)
    return Lowered((Step(b.kernel(), (Slot(Place.OUTPUT),)),))
