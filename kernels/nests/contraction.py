"""Contractions: sums of products of two tensors, in tiles of registers; and products of any number of tensors, plainly.

A contraction has *rows* (an axis of the result that the left operand carries), *columns* (one that the right operand carries), summed
axes, which both carry, and outer axes. Each element is `acc = fma(left, right, acc)` from +0 in increasing order of the summed
axes, the first operand's order; vectors and tiles run over the result only, so no choice of them moves a bit.

A tile holds the running sums of some rows and some vectors of columns in registers while the summed axes go by. Columns that are not
contiguous in the right operand, or of which there are so many that they miss the caches, are copied first into *panels*: the columns
of one tile, for every summed place, side by side. Sums that go through memory between blocks of the summed axis are those of the
result's buffer, so only a result stored in the accumulation type is blocked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import msgspec

from presk.kernels.build import Builder, Value
from presk.kernels.ir import SIZES, Access, Elem, Index, Kernel
from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Launch, Lowered, Nest, Place, Slot, Step, Use
from presk.kernels.nests.axes import Strides, attr, row_major
from presk.kernels.nests.emit import ORIGIN, Loops, Spot, address, fitting, load, store
from presk.prims.attrs import AxisNames

UNROLL: Final = 4
"""Summed places in a straight line."""

PACKED_FROM: Final = 1 << 16
"""Bytes of the right operand from which panels pay, where its columns are contiguous."""

PACKED_ROWS: Final = 24
"""Rows, of one outer place, from which panels pay there."""

PACKED_TILES: Final = 12
"""Tiles of columns from which panels of the left operand pay."""

LINE: Final = 64
"""Bytes of a line of the cache."""

BLOCKED_FROM: Final = 2048
"""Summed places from which they go in blocks."""

BLOCK: Final = 512


class Walk(msgspec.Struct, frozen=True, array_like=True):
    """An axis: its length, and its strides in the left operand, the right one and the result, 0 where it is none of theirs."""

    size: int
    left: int
    right: int
    out: int


ONE: Final = Walk(1, 0, 0, 0)


class Contract(Nest, frozen=True):
    """`out[o, i, j] = Σ_k left[o, i, k] · right[o, k, j]`, with the elements of both operands and of the result."""

    outer: tuple[Walk, ...]
    rows: Walk
    columns: Walk
    summed: tuple[Walk, ...]
    left: Elem
    right: Elem
    elem: Elem
    accumulate: Elem


class Product(Nest, frozen=True):
    """`out[o] = Σ_k Π_n operand_n[o, k]`: the factors multiplied from left to right, the last one by the fma of the sum.

    `shape` is the result's, `strides` each operand's along it; `summed` the lengths of the summed axes and `steps` each operand's
    strides along them.
    """

    shape: tuple[int, ...]
    summed: tuple[int, ...]
    elems: tuple[Elem, ...]
    strides: tuple[Strides, ...]
    steps: tuple[Strides, ...]
    elem: Elem
    accumulate: Elem


# --- rules -------------------------------------------------------------------------------------------------------------------------


def dot(use: Use) -> Launch:
    """`dot x, w`: x's last axis against w's first."""
    x, w = (operand.shape for operand in use.operands)
    k = x[-1]
    rows, columns = prod(x[:-1]), prod(w[1:])
    return _contract(use, (Walk(rows, k, 0, columns), Walk(columns, 0, 1, 1)), (Walk(k, 1, columns, 0),))


def dot_vjp_l(use: Use) -> Launch:
    """`dot_vjp_l ct, w`: ct against w along w's axes but the first."""
    ct, w = (operand.shape for operand in use.operands)
    n, columns = prod(w[1:]), w[0]
    rows = prod(ct[: len(ct) - len(w) + 1])
    return _contract(use, (Walk(rows, n, 0, columns), Walk(columns, 0, n, 1)), (Walk(n, 1, 1, 0),))


def dot_vjp_r(use: Use) -> Launch:
    """`dot_vjp_r x, ct`: x against ct along all axes of x but the last."""
    x, ct = (operand.shape for operand in use.operands)
    rows, columns = x[-1], prod(ct[len(x) - 1 :])
    k = prod(x[:-1])
    return _contract(use, (Walk(rows, 1, 0, columns), Walk(columns, 0, 1, 1)), (Walk(k, rows, columns, 0),))


def ein(use: Use) -> Launch:
    """`ein[out] x[in0], y[in1], …`."""
    out = attr(use.attrs, "out", AxisNames).names
    names = [attr(use.attrs, f"in{place}", AxisNames).names for place in range(len(use.operands))]
    lengths = {name: size for one, x in zip(names, use.operands) for name, size in zip(one, x.shape)}
    strides = [dict(zip(one, row_major(x.shape))) for one, x in zip(names, use.operands)]
    # Several summed axes are one, in the order in which the operands carry them, the first operand's first.
    summed = [name for name in dict.fromkeys(name for one in names for name in one) if name not in out]
    if len(use.operands) == 2 and all(name in one for one in strides for name in summed):
        place = dict(zip(out, row_major([lengths[name] for name in out])))
        left, right = strides

        def walk(name: str) -> Walk:
            return Walk(lengths[name], left.get(name, 0), right.get(name, 0), place.get(name, 0))

        return _contract(use, [walk(name) for name in out], [walk(name) for name in summed])
    nest = Product(
        tuple(lengths[name] for name in out),
        tuple(lengths[name] for name in summed),
        tuple(x.elem for x in use.operands),
        tuple(tuple(one.get(name, 0) for name in out) for one in strides),
        tuple(tuple(one.get(name, 0) for name in summed) for one in strides),
        use.result.elem,
        use.arith.accumulate,
    )
    return Launch(nest, tuple(range(len(use.operands))))


def _contract(use: Use, kept: Sequence[Walk], summed: Sequence[Walk]) -> Launch:
    """The contraction over axes of the result, outermost first, and summed axes."""
    axes = _merged(kept)
    inputs = (0, 1)
    left, right = (operand.elem for operand in use.operands)
    # The columns are the innermost axis of the result; the operand that carries it is the right one. (x · y = y · x.)
    if axes and axes[-1].right == 0 and axes[-1].left != 0:
        inputs, left, right = (1, 0), right, left
        axes = [_swapped(walk) for walk in axes]
        summed = [_swapped(walk) for walk in summed]
    columns = axes.pop() if axes and axes[-1].left == 0 else ONE
    # The rows are the axis next to it that the left operand alone carries.
    places = [place for place, walk in enumerate(axes) if walk.left and not walk.right]
    rows = axes.pop(places[-1]) if places else ONE
    nest = Contract(
        tuple(axes), rows, columns, tuple(_merged(summed)), left, right, use.result.elem, use.arith.accumulate
    )
    return Launch(nest, inputs)


def _swapped(walk: Walk) -> Walk:
    return Walk(walk.size, walk.right, walk.left, walk.out)


def _merged(walks: Sequence[Walk]) -> list[Walk]:
    """The axes without those of length 1, neighbours as one where everybody walks them so."""
    found: list[Walk] = []
    for walk in walks:
        if walk.size == 1:
            continue
        last = found[-1] if found else None
        inner = (walk.left * walk.size, walk.right * walk.size, walk.out * walk.size)
        if last is not None and (last.left, last.right, last.out) == inner:
            found[-1] = Walk(last.size * walk.size, walk.left, walk.right, walk.out)
        else:
            found.append(walk)
    return found


# --- layouts -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """A contraction's layout with every decision made.

    `vectors` is how many vectors of `lanes` a tile has, `block` how many tiles of columns are done before the next rows, `kblock` how
    many summed places before the next tile (0: all).
    """

    rows: int
    vectors: int
    lanes: int
    pack: bool
    pack_left: bool
    block: int
    kblock: int
    columns_first: bool
    split: int | None

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return self.vectors * self.lanes


def plan(nest: Contract, layout: Layout, target: Target) -> Plan:
    """The layout's decisions, and the target's for those that it leaves open: a fixed function of nest and target."""
    widest = max(1, target.bytes // SIZES[nest.accumulate])
    lanes = layout.lanes or fitting(widest, nest.columns.size)
    held = -(-lanes // widest)  # registers for a vector
    # Sums, the vectors of a column and one element of the left operand are in registers at once.
    free = (target.registers - (4 if target.registers > 16 else 1)) // held
    if layout.tile is not None:
        rows, columns = layout.tile
        vectors = max(1, columns // lanes)
    else:
        wanted = 4 if target.registers > 16 else 2
        vectors = max(1, min(wanted, -(-nest.columns.size // lanes)))
        rows = max(1, min(6 if vectors * 6 + vectors < free + 1 else (free - vectors) // vectors, 14))
        if nest.rows.size < rows:
            # Few rows leave registers for more columns.
            rows = max(1, nest.rows.size)
            while (vectors * 2) * (rows + 1) < free and vectors * lanes < nest.columns.size and vectors < 8:
                vectors *= 2
    k = prod(walk.size for walk in nest.summed)
    size = SIZES[nest.accumulate]
    whole = k * nest.columns.size * SIZES[nest.right]
    contiguous = nest.columns.right == 1 or nest.columns.size == 1
    large = whole >= PACKED_FROM and nest.rows.size >= PACKED_ROWS
    pack = layout.pack if layout.pack is not None else bool(nest.summed) and (not contiguous or large)
    if nest.columns.size == 1:
        pack = False
    kblock = layout.kblock or 0
    if layout.kblock is None and layout.order is None and k >= BLOCKED_FROM and nest.elem is nest.accumulate:
        kblock = BLOCK
    if len(nest.summed) != 1 or nest.elem is not nest.accumulate or kblock >= k:
        kblock = 0
    depth = kblock or max(k, 1)
    block = max(1, (target.cache // 2) // max(1, depth * size * vectors * lanes))
    return Plan(
        rows,
        vectors,
        lanes,
        pack,
        layout.pack is not False and _packs_left(nest, vectors * lanes),
        block,
        kblock,
        (layout.order or "IJ").replace("K", "") == "JI",
        None if layout.split is None else min(layout.split.depth, len(nest.outer) + 1),
    )


def _packs_left(nest: Contract, columns: int) -> bool:
    """Whether panels of the left operand pay, too: where its summed places lie so far apart that a tile meets a line of the cache for
    each of them, and lines at such distances crowd each other out; if enough tiles of columns read them again."""
    if not nest.summed or not nest.rows.left:
        return False
    apart = nest.summed[-1].left * SIZES[nest.left]
    again = nest.columns.size >= PACKED_TILES * columns
    return again and apart >= LINE and prod(walk.size for walk in nest.summed) * apart >= PACKED_FROM


# --- loops -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Factor:
    """One of the two operands: its elements, the axis that it alone carries, its stride along an axis, and how many places of its own
    axis a tile has; of a panel these are filled up to some vectors of `lanes`."""

    elem: Elem
    axis: Walk
    stride: Callable[[Walk], int]
    tile: int
    lanes: int
    vectors: int

    @property
    def width(self) -> int:
        """The places of a tile in a panel."""
        return self.lanes * self.vectors

    def carried(self, nest: Contract) -> tuple[Walk, ...]:
        """The outer axes that it has."""
        return tuple(walk for walk in nest.outer if self.stride(walk))

    def panels(self, nest: Contract) -> int:
        """The elements of its panels."""
        tiles = -(-self.axis.size // self.tile)
        return prod(walk.size for walk in (*self.carried(nest), *nest.summed)) * tiles * self.width


def _factors(nest: Contract, made: Plan) -> tuple[_Factor, _Factor]:
    lines = 1 << (made.rows - 1).bit_length()
    return (
        _Factor(nest.left, nest.rows, lambda walk: walk.left, made.rows, lines, 1),
        _Factor(nest.right, nest.columns, lambda walk: walk.right, made.columns, made.lanes, made.vectors),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand as a tile sees it: a buffer, its strides along outer and summed axes, from a tile to the next and within one. A
    panel is contiguous within a tile, and filled up with zeros."""

    buffer: int
    outer: tuple[int, ...]
    summed: tuple[int, ...]
    tile: int
    lane: int
    padded: bool


def _side(b: Builder, nest: Contract, factor: _Factor, panels: bool) -> _Side:
    """An operand, or its panels, as the next buffer of a kernel."""
    if not panels:
        axes = (*nest.outer, nest.rows, nest.columns, *nest.summed)
        return _Side(
            b.buffer(factor.elem, _extent(axes, factor.stride)),
            tuple(factor.stride(walk) for walk in nest.outer),
            tuple(factor.stride(walk) for walk in nest.summed),
            factor.stride(factor.axis) * factor.tile,
            factor.stride(factor.axis),
            False,
        )
    outer, tile, summed = _strides(nest, factor)
    steps = iter(outer)
    return _Side(
        b.buffer(nest.accumulate, factor.panels(nest)),
        tuple(next(steps) if factor.stride(walk) else 0 for walk in nest.outer),
        summed,
        tile,
        1,
        True,
    )


def _strides(nest: Contract, factor: _Factor) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Strides of panels: along the outer axes that the operand has, from tile to tile, along the summed axes."""
    summed = tuple(step * factor.width for step in row_major([walk.size for walk in nest.summed]))
    tile = prod(walk.size for walk in nest.summed) * factor.width
    whole = tile * -(-factor.axis.size // factor.tile)
    outer = tuple(step * whole for step in row_major([walk.size for walk in factor.carried(nest)]))
    return outer, tile, summed


def lower(nest: Contract, layout: Layout, target: Target) -> Lowered:
    """The loops of a contraction: a copy into panels, where there is one, and the tiles."""
    made = plan(nest, layout, target)
    steps: list[Step] = []
    slots = [Slot(Place.INPUT, 0), Slot(Place.INPUT, 1), Slot(Place.OUTPUT)]
    scratch: list[tuple[Elem, int]] = []
    for place, (factor, pack) in enumerate(zip(_factors(nest, made), (made.pack_left, made.pack))):
        if pack and _results(nest):
            slots[place] = Slot(Place.SCRATCH, len(scratch))
            scratch.append((nest.accumulate, factor.panels(nest)))
            steps.append(Step(_panels(nest, made, factor), (Slot(Place.INPUT, place), slots[place]), True))
    return Lowered((*steps, Step(_tiles(nest, made), tuple(slots))), tuple(scratch))


def _results(nest: Contract) -> int:
    return prod(walk.size for walk in (*nest.outer, nest.rows, nest.columns))


def _extent(walks: Sequence[Walk], stride: Callable[[Walk], int]) -> int:
    """The elements of a tensor that walks these axes with these strides, 0 along the axes that it does not have."""
    return _reach([walk.size for walk in walks], [stride(walk) for walk in walks])


def _tiles(nest: Contract, made: Plan) -> Kernel:
    b = Builder()
    results = bool(_results(nest))
    first, second = _factors(nest, made)
    left = _side(b, nest, first, made.pack_left and results)
    right = _side(b, nest, second, made.pack and results)
    out = b.buffer(nest.elem, _extent((*nest.outer, nest.rows, nest.columns), lambda walk: walk.out), Access.OUT)
    if results:
        _Tiles(b, nest, made, left, right, out).write()
    return b.kernel()


class _Tiles:
    def __init__(self, b: Builder, nest: Contract, made: Plan, left: _Side, right: _Side, out: int) -> None:
        self.b = b
        self.nest = nest
        self.plan = made
        self.left = left
        self.right = right
        self.out = out
        self.loops = Loops(b, made.split)

    def write(self) -> None:
        self.loops.over([walk.size for walk in self.nest.outer], self._place)

    def _place(self, outer: tuple[Spot, ...]) -> None:
        """The tiles of one outer place, a block of columns at a time."""
        made, columns = self.plan, self.nest.columns.size
        tiles = -(-columns // made.columns)
        if made.columns_first or tiles <= made.block:
            self._depths(outer, ORIGIN, columns)
            return
        wide = made.block * made.columns
        full, rest = divmod(columns, wide)
        with self.b.loop(full, parallel=True) as block:
            self._depths(outer, Spot(((block, made.block),)), wide)
        if rest:
            self._depths(outer, Spot((), full * made.block), rest)

    def _depths(self, outer: tuple[Spot, ...], tile: Spot, columns: int) -> None:
        """The tiles of a block of columns, a block of the summed axis at a time: the sums that wait for the next one are few enough
        to wait in the cache."""
        made = self.plan
        if not made.kblock:
            self._rows_and_columns(outer, tile, columns, ORIGIN, None, True)
            return
        self._rows_and_columns(outer, tile, columns, ORIGIN, made.kblock, True)
        full, rest = divmod(self.nest.summed[0].size, made.kblock)
        if full > 1:
            with self.b.loop(full - 1) as block:
                first = Spot(((block, made.kblock),), made.kblock)
                self._rows_and_columns(outer, tile, columns, first, made.kblock, False)
        if rest:
            first = Spot((), full * made.kblock)
            self._rows_and_columns(outer, tile, columns, first, rest, False)

    def _rows_and_columns(
        self, outer: tuple[Spot, ...], tile: Spot, columns: int, first: Spot, depth: int | None, fresh: bool
    ) -> None:
        """Tiles of all rows and of `columns` columns from a tile on."""
        made = self.plan

        def row(at: Spot, rows: int) -> None:
            self._along(columns, made.columns, len(outer) + 1, lambda spot, some: tiles(at, rows, spot, some))

        def column(at: Spot, some: int) -> None:
            self._along(self.nest.rows.size, made.rows, len(outer) + 1, lambda spot, rows: tiles(spot, rows, at, some))

        def tiles(rows_at: Spot, rows: int, columns_at: Spot, some: int) -> None:
            self._tile(
                outer,
                rows_at,
                rows,
                Spot((*tile.terms, *columns_at.terms), tile.base + columns_at.base),
                some,
                first,
                depth,
                fresh,
            )

        if made.columns_first:
            self._along(columns, made.columns, len(outer), column)
        else:
            self._along(self.nest.rows.size, made.rows, len(outer), row)

    def _along(self, size: int, step: int, depth: int, body: Callable[[Spot, int], None]) -> None:
        """A body for every tile along an axis: the number of the tile and how many places it has."""
        full, rest = divmod(size, step)
        split = depth == self.loops.split
        if full == 1 and not split:
            body(ORIGIN, step)
        elif full:
            with self.b.loop(full, parallel=True, split=split) as i:
                body(Spot(((i, 1),)), step)
        if rest and split:
            with self.b.loop(1, parallel=True, split=True):
                body(Spot((), full), rest)
        elif rest:
            body(Spot((), full), rest)

    def _tile(
        self,
        outer: tuple[Spot, ...],
        rows_at: Spot,
        rows: int,
        columns_at: Spot,
        columns: int,
        first: Spot,
        depth: int | None,
        fresh: bool,
    ) -> None:
        """The sums of `rows` rows and `columns` columns of a tile, from a summed place on; from +0 where they are `fresh`."""
        b, nest, made, left, right = self.b, self.nest, self.plan, self.left, self.right
        lanes = made.lanes
        vectors = -(-columns // lanes)
        counts = [min(lanes, columns - vector * lanes) for vector in range(vectors)]
        places = [(spot, walk) for spot, walk in zip(outer, nest.outer)]
        left_at = [(spot, stride) for spot, stride in zip(outer, left.outer)] + [(rows_at, left.tile)]
        right_at = [(spot, stride) for spot, stride in zip(outer, right.outer)] + [(columns_at, right.tile)]
        out_at = [(spot, walk.out) for spot, walk in places] + [
            (rows_at, made.rows * nest.rows.out),
            (columns_at, made.columns * nest.columns.out),
        ]

        def out_index(row: int, vector: int) -> Index:
            return address(b, *out_at, base=row * nest.rows.out + vector * lanes * nest.columns.out)

        # A single column has no stride; of more lanes than it has columns only those count.
        stride = nest.columns.out or 1

        if fresh:
            zero = b.const(nest.accumulate, 0.0, lanes)
            sums = [zero] * (rows * vectors)
        else:
            sums = [
                load(
                    b,
                    self.out,
                    out_index(row, vector),
                    nest.accumulate,
                    lanes,
                    stride=stride if lanes > 1 else 1,
                    count=counts[vector],
                )
                for row in range(rows)
                for vector in range(vectors)
            ]

        def step(at: Sequence[tuple[Spot, int, int]], sums: Sequence[Value]) -> list[Value]:
            """One summed place."""
            one = [(spot, stride) for spot, stride, _ in at]
            other = [(spot, stride) for spot, _, stride in at]
            columns_ = [
                load(
                    b,
                    right.buffer,
                    address(b, *right_at, *other, base=vector * lanes * right.lane),
                    nest.accumulate,
                    lanes,
                    stride=right.lane if lanes > 1 else 1,
                    count=None if right.padded else counts[vector],
                )
                for vector in range(vectors)
            ]
            found: list[Value] = []
            for row in range(rows):
                x = load(b, left.buffer, address(b, *left_at, *one, base=row * left.lane), nest.accumulate)
                x = b.splat(x, lanes)
                found += [b.fma(x, y, sums[row * vectors + vector]) for vector, y in enumerate(columns_)]
            return found

        sums = self._sum(first, depth, sums, step)
        for row in range(rows):
            for vector in range(vectors):
                store(
                    b,
                    self.out,
                    nest.elem,
                    out_index(row, vector),
                    sums[row * vectors + vector],
                    stride=stride if lanes > 1 else 1,
                    count=counts[vector],
                )

    def _sum(
        self,
        first: Spot,
        depth: int | None,
        sums: list[Value],
        step: Callable[[Sequence[tuple[Spot, int, int]], Sequence[Value]], list[Value]],
    ) -> list[Value]:
        """The summed places in order: those of one block, or all."""
        b, summed = self.b, self.nest.summed
        lefts, rights = self.left.summed, self.right.summed

        def descend(axis: int, at: list[tuple[Spot, int, int]], sums: Sequence[Value]) -> list[Value]:
            if axis == len(summed):
                return step(at, sums)
            walk = summed[axis]
            size = walk.size if depth is None else depth

            def place(spot: Spot) -> list[tuple[Spot, int, int]]:
                return [
                    *at,
                    (
                        Spot((*first.terms, *spot.terms), first.base + spot.base) if depth is not None else spot,
                        lefts[axis],
                        rights[axis],
                    ),
                ]

            if axis < len(summed) - 1:
                loop = b.loop(size, sums)
                with loop as k:
                    loop.next = descend(axis + 1, place(Spot(((k, 1),))), loop.inside)
                return list(loop.after)
            full, rest = divmod(size, UNROLL)
            if full > 1:
                loop = b.loop(full, sums)
                with loop as k:
                    inside: Sequence[Value] = loop.inside
                    for number in range(UNROLL):
                        inside = step(place(Spot(((k, UNROLL),), number)), inside)
                    loop.next = inside
                sums = loop.after
            elif full:
                rest += UNROLL
                full = 0
            for number in range(rest):
                sums = step(place(Spot((), full * UNROLL + number)), sums)
            return list(sums)

        return descend(0, [], sums)


def _panels(nest: Contract, made: Plan, factor: _Factor) -> Kernel:
    """Copies an operand into panels, in the accumulation type."""
    b = Builder()
    carried, axis, lanes = factor.carried(nest), factor.axis, factor.lanes
    source = b.buffer(factor.elem, _extent((*carried, axis, *nest.summed), factor.stride))
    target = b.buffer(nest.accumulate, factor.panels(nest), Access.OUT)
    outer_steps, tile_step, summed_steps = _strides(nest, factor)
    # The panels' loops are the outer axes that the operand has, and the tiles.
    loops = Loops(b, None if made.split is None else min(made.split, len(carried)))
    along = factor.stride(axis) != 1 and bool(nest.summed) and factor.stride(nest.summed[-1]) == 1

    def tile(outer: tuple[Spot, ...]) -> None:
        full, rest = divmod(axis.size, factor.tile)
        split = len(outer) == loops.split
        if full == 1 and not split:
            panel(outer, ORIGIN, factor.tile)
        elif full:
            with b.loop(full, parallel=True, split=split) as j:
                panel(outer, Spot(((j, 1),)), factor.tile)
        if rest and split:
            with b.loop(1, parallel=True, split=True):
                panel(outer, Spot((), full), rest)
        elif rest:
            panel(outer, Spot((), full), rest)

    def panel(outer: tuple[Spot, ...], at: Spot, places: int) -> None:
        from_at = [(spot, factor.stride(walk)) for spot, walk in zip(outer, carried)]
        from_at.append((at, factor.tile * factor.stride(axis)))
        to_at = [*zip(outer, outer_steps), (at, tile_step)]
        front = nest.summed[:-1] if along else nest.summed
        Loops(b).over(
            [walk.size for walk in front],
            lambda spots: rows(
                [*from_at, *((spot, factor.stride(walk)) for spot, walk in zip(spots, front))],
                [*to_at, *zip(spots, summed_steps)],
                places,
            ),
        )

    def rows(from_at: list[tuple[Spot, int]], to_at: list[tuple[Spot, int]], places: int) -> None:
        if along:
            _transposed(b, nest, factor, (source, target), (from_at, to_at), places)
            return
        for vector in range(factor.vectors):
            count = min(lanes, places - vector * lanes)
            x = b.const(nest.accumulate, 0.0, lanes)
            if count > 0:
                index = address(b, *from_at, base=vector * lanes * factor.stride(axis))
                stride = factor.stride(axis) if lanes > 1 else 1
                x = load(b, source, index, nest.accumulate, lanes, stride=stride, count=count)
            b.store(target, address(b, *to_at, base=vector * lanes), x)

    loops.over([walk.size for walk in carried], tile)
    return b.kernel()


def _transposed(
    b: Builder,
    nest: Contract,
    factor: _Factor,
    buffers: tuple[int, int],
    at: tuple[Sequence[tuple[Spot, int]], Sequence[tuple[Spot, int]]],
    places: int,
) -> None:
    """Places that are contiguous along the last summed axis: squares of them are turned in registers."""
    source, target = buffers
    from_at, to_at = at
    lanes = factor.lanes
    full, rest = divmod(nest.summed[-1].size, lanes)

    def square(spot: Spot, count: int) -> None:
        for vector in range(factor.vectors):
            zero = b.const(nest.accumulate, 0.0, lanes)
            lines = [
                load(
                    b,
                    source,
                    address(b, *from_at, (spot, 1), base=(vector * lanes + line) * factor.stride(factor.axis)),
                    nest.accumulate,
                    lanes,
                    count=count,
                )
                if vector * lanes + line < places
                else zero
                for line in range(lanes)
            ]
            for place, x in enumerate(transpose(b, lines)[:count]):
                index = address(b, *to_at, (spot, factor.width), base=place * factor.width + vector * lanes)
                b.store(target, index, x)

    if full:
        with b.loop(full, parallel=True) as k:
            square(Spot(((k, lanes),)), lanes)
    if rest:
        square(Spot((), full * lanes), rest)


def transpose(b: Builder, lines: Sequence[Value]) -> list[Value]:
    """Lane j of vector i becomes lane i of vector j: log₂ n rounds of exchanges between pairs of vectors."""
    found = list(lines)
    lanes = len(found)
    distance = 1
    while distance < lanes:
        for one in range(lanes):
            if one & distance:
                continue
            x, y = found[one], found[one | distance]
            low = [lane if not lane & distance else lanes + (lane ^ distance) for lane in range(lanes)]
            high = [lane | distance if not lane & distance else lanes + lane for lane in range(lanes)]
            found[one], found[one | distance] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        distance *= 2
    return found


def lower_product(nest: Product, layout: Layout, target: Target) -> Lowered:
    """The loops of a product: vectors along the innermost axis of the result."""
    b = Builder()
    elem = nest.accumulate
    buffers = [
        b.buffer(one, _reach((*nest.shape, *nest.summed), (*strides, *steps)))
        for one, strides, steps in zip(nest.elems, nest.strides, nest.steps)
    ]
    out = b.buffer(nest.elem, prod(nest.shape), Access.OUT)
    slots = (*(Slot(Place.INPUT, place) for place in range(len(buffers))), Slot(Place.OUTPUT))
    if not prod(nest.shape):
        return Lowered((Step(b.kernel(), slots),))
    last = nest.shape[-1] if nest.shape else 1
    # Lanes lie along the result alone: a single number has none.
    lanes = (layout.lanes or fitting(max(1, target.bytes // SIZES[elem]), last)) if nest.shape else 1
    places = row_major(nest.shape)
    loops = Loops(b, None if layout.split is None else min(layout.split.depth, max(len(nest.shape) - 1, 0)))

    def factor(number: int, at: Sequence[Spot], summed: Sequence[Spot], count: int | None) -> Value:
        index = address(b, *zip(at, nest.strides[number]), *zip(summed, nest.steps[number]))
        stride = nest.strides[number][-1] if nest.shape else 1
        return load(b, buffers[number], index, elem, lanes, stride=stride if lanes > 1 else 1, count=count)

    def place(at: Sequence[Spot], count: int | None) -> None:
        def descend(axis: int, summed: list[Spot], total: Value) -> Value:
            if axis < len(nest.summed):
                loop = b.loop(nest.summed[axis], [total])
                with loop as k:
                    loop.next = [descend(axis + 1, [*summed, Spot(((k, 1),))], loop.inside[0])]
                return loop.after[0]
            value = factor(0, at, summed, count)
            if len(buffers) == 1:
                return b.add(value, total)
            for number in range(1, len(buffers) - 1):
                value = b.mul(value, factor(number, at, summed, count))
            return b.fma(value, factor(len(buffers) - 1, at, summed, count), total)

        total = descend(0, [], b.const(elem, 0.0, lanes))
        store(b, out, nest.elem, address(b, *zip(at, places)), total, count=count)

    if not nest.shape:
        place((), None)
    else:
        loops.over(
            nest.shape[:-1],
            lambda at: loops.vectors(last, lanes, lambda spot, count: place((*at, spot), count), depth=len(at)),
        )
    return Lowered((Step(b.kernel(), slots),))


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements axes of these lengths and strides span."""
    own = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if stride]
    return 0 if any(size == 0 for size, _ in own) else 1 + sum((size - 1) * stride for size, stride in own)
