"""Contractions: sums of products of two tensors, in tiles of registers; and products of any number of tensors, plainly.

A contraction has *rows* (an axis of the result that the left operand carries), *columns* (one that the right operand carries), summed
axes, which both carry, and outer axes. Each element is `acc = fma(left, right, acc)` from +0 in increasing order of the summed
axes, the first operand's order; vectors and tiles run over the result only, so no choice of them moves a bit.

A tile holds the running sums of some rows and some vectors of columns in registers while the summed axes go by. Columns that are not
contiguous in the right operand, or of which there are so many that they miss the caches, are copied first into *panels*: the columns
of one tile, for every summed place, side by side. Sums that go through memory between blocks of the summed axis are those of the
result's buffer, so only a result stored in the accumulation type is blocked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Final

import msgspec

from presk.kernels.build import Builder, Value
from presk.kernels.ir import SIZES, Access, Elem, Index, Kernel
from presk.kernels.layout import Form, Layout, Target
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
    """An axis: its length, and its strides in the left operand, the right one, the result, and what is added to it, 0 where it is
    none of theirs."""

    size: int
    left: int
    right: int
    out: int
    added: int = 0


ONE: Final = Walk(1, 0, 0, 0)


class Added(msgspec.Struct, frozen=True, array_like=True):
    """What is added to a product when its sums are done: its elements, and the type that it is added in."""

    elem: Elem
    arithmetic: Elem


class Contract(Nest, frozen=True):
    """`out[o, i, j] = Σ_k left[o, i, k] · right[o, k, j]`, with the elements of both operands and of the result; with `added` a third
    operand is added to it, as a launch of its own would: the product is stored first, rounded to the result's elements."""

    outer: tuple[Walk, ...]
    rows: Walk
    columns: Walk
    summed: tuple[Walk, ...]
    left: Elem
    right: Elem
    elem: Elem
    accumulate: Elem
    added: Added | None = None


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


def with_added(name: str, use: Use, strides: Strides, added: Added) -> Launch | None:
    """A product to whose result a third operand is added, which has strides along the result's axes; None for what is no
    contraction of two operands."""
    found = _ADDED[name](use, strides)
    if found is None:
        return None
    assert isinstance(found.nest, Contract)
    return Launch(msgspec.structs.replace(found.nest, added=added), (*found.inputs, 2))


def _dot_added(use: Use, strides: Strides) -> Launch:
    x, w = (operand.shape for operand in use.operands)
    rows, columns = row_major(x)[:-1], row_major(w)[1:]
    outs = row_major((*x[:-1], *w[1:]))
    front = len(rows)
    kept = [Walk(x[i], rows[i], 0, outs[i], strides[i]) for i in range(front)]
    kept += [Walk(w[j + 1], 0, columns[j], outs[front + j], strides[front + j]) for j in range(len(columns))]
    return _contract(use, kept, (Walk(x[-1], 1, prod(w[1:]), 0),))


def _dot_vjp_l_added(use: Use, strides: Strides) -> Launch:
    ct, w = (operand.shape for operand in use.operands)
    n = prod(w[1:])
    front = len(ct) - len(w) + 1
    rows, outs = row_major(ct)[:front], row_major((*ct[:front], w[0]))
    kept = [Walk(ct[i], rows[i], 0, outs[i], strides[i]) for i in range(front)]
    return _contract(use, [*kept, Walk(w[0], 0, n, 1, strides[-1])], (Walk(n, 1, 1, 0),))


def _dot_vjp_r_added(use: Use, strides: Strides) -> Launch:
    x, ct = (operand.shape for operand in use.operands)
    axes = ct[len(x) - 1 :]
    outs = row_major((x[-1], *axes))
    kept = [Walk(x[-1], 1, 0, outs[0], strides[0])]
    kept += [Walk(size, 0, outs[1 + j], outs[1 + j], strides[1 + j]) for j, size in enumerate(axes)]
    return _contract(use, kept, (Walk(prod(x[:-1]), x[-1], prod(axes), 0),))


def _ein_added(use: Use, strides: Strides) -> Launch | None:
    found = _ein_axes(use, strides)
    return None if found is None else _contract(use, *found)


_ADDED: Final[Mapping[str, Callable[[Use, Strides], Launch | None]]] = MappingProxyType(
    {"dot": _dot_added, "dot_vjp_l": _dot_vjp_l_added, "dot_vjp_r": _dot_vjp_r_added, "ein": _ein_added}
)


def _ein_axes(use: Use, added: Strides | None = None) -> tuple[list[Walk], list[Walk]] | None:
    """The axes of the result and the summed ones of an `ein` of two operands that both carry every summed axis; None for any other."""
    out = attr(use.attrs, "out", AxisNames).names
    names = [attr(use.attrs, f"in{place}", AxisNames).names for place in range(len(use.operands))]
    lengths = {name: size for one, x in zip(names, use.operands) for name, size in zip(one, x.shape)}
    strides = [dict(zip(one, row_major(x.shape))) for one, x in zip(names, use.operands)]
    summed = [name for name in dict.fromkeys(name for one in names for name in one) if name not in out]
    if len(use.operands) != 2 or not all(name in one for one in strides for name in summed):
        return None
    place = dict(zip(out, row_major([lengths[name] for name in out])))
    more = dict(zip(out, added or ()))
    left, right = strides

    def walk(name: str) -> Walk:
        return Walk(lengths[name], left.get(name, 0), right.get(name, 0), place.get(name, 0), more.get(name, 0))

    return [walk(name) for name in out], [walk(name) for name in summed]


def ein(use: Use) -> Launch:
    """`ein[out] x[in0], y[in1], …`."""
    found = _ein_axes(use)
    if found is not None:
        return _contract(use, *found)
    out = attr(use.attrs, "out", AxisNames).names
    names = [attr(use.attrs, f"in{place}", AxisNames).names for place in range(len(use.operands))]
    lengths = {name: size for one, x in zip(names, use.operands) for name, size in zip(one, x.shape)}
    strides = [dict(zip(one, row_major(x.shape))) for one, x in zip(names, use.operands)]
    # Several summed axes are one, in the order in which the operands carry them, the first operand's first.
    summed = [name for name in dict.fromkeys(name for one in names for name in one) if name not in out]
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
    return Walk(walk.size, walk.right, walk.left, walk.out, walk.added)


def _merged(walks: Sequence[Walk]) -> list[Walk]:
    """The axes without those of length 1, neighbours as one where everybody walks them so."""
    found: list[Walk] = []
    for walk in walks:
        if walk.size == 1:
            continue
        last = found[-1] if found else None
        inner = tuple(stride * walk.size for stride in (walk.left, walk.right, walk.out, walk.added))
        if last is not None and (last.left, last.right, last.out, last.added) == inner:
            found[-1] = Walk(last.size * walk.size, walk.left, walk.right, walk.out, walk.added)
        else:
            found.append(walk)
    return found


# --- layouts -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """A contraction's layout with every decision made.

    `vectors` is how many vectors of `lanes` a tile has, `block` how many tiles of columns are done before the next rows, `kblock` how
    many summed places a block has (0: there are none). `order` has the loops over tiles of rows (I), tiles of columns (J) and blocks
    (K), outermost first: where K is not the last, sums wait in the result for the next block.
    """

    rows: int
    vectors: int
    lanes: int
    pack: bool
    pack_left: bool
    block: int
    kblock: int
    order: str
    split: int | None
    row_wise: bool = False

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return self.vectors * self.lanes

    @property
    def spills(self) -> bool:
        """Whether sums wait in the result."""
        return bool(self.kblock) and not self.order.endswith("K")


def plan(nest: Contract, layout: Layout, target: Target) -> Plan:
    """The layout's decisions, and the target's for those that it leaves open: a fixed function of nest and target."""
    widest = max(1, target.bytes // SIZES[nest.accumulate])
    lanes = layout.lanes or (
        fitting(widest, nest.columns.size) if layout.tile is None else _dividing(widest, layout.tile[1])
    )
    free = free_registers(target) // (-(-lanes // widest))
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
    large = whole >= PACKED_FROM and nest.rows.size >= PACKED_ROWS
    if layout.pack is not None:
        pack = layout.pack
    else:
        pack = bool(nest.summed) and nest.columns.size != 1 and (is_transposed(nest) or large)
    kblock, order = _blocks(nest, layout, k)
    depth = kblock if kblock and not order.endswith("K") else max(k, 1)
    block = max(1, (target.cache // 2) // max(1, depth * size * vectors * lanes))
    row_wise = layout.form is Form.ROW_WISE
    loops = len(nest.outer) + (1 if row_wise else 2)
    return Plan(
        rows,
        vectors,
        lanes,
        pack and not row_wise,
        layout.pack is not False and not row_wise and _packs_left(nest, vectors * lanes),
        block,
        kblock,
        order,
        None if layout.split is None else min(layout.split.depth, loops - 1),
        row_wise,
    )


def free_registers(target: Target) -> int:
    """Registers of a level that sums, the vectors of a column and one element of the left operand may fill at once."""
    return target.registers - (4 if target.registers > 16 else 1)


def is_transposed(nest: Contract) -> bool:
    """Whether vectors of columns would have to be gathered from the right operand."""
    return nest.columns.size > 1 and nest.columns.right != 1


def _dividing(widest: int, columns: int) -> int:
    """The most lanes that divide the columns of a tile."""
    while columns % widest:
        widest //= 2
    return widest


def _blocks(nest: Contract, layout: Layout, k: int) -> tuple[int, str]:
    """How many summed places a block has, and the order of the loops. Sums wait in a result of their own type only, and for blocks
    of a single summed axis; a block that holds all places is none."""
    alone = len(nest.summed) == 1 and nest.elem is nest.accumulate
    kblock, order = layout.kblock or 0, layout.order
    if layout.kblock is None and order is None and alone and k >= BLOCKED_FROM:
        kblock, order = BLOCK, "KIJ"
    if order is None:
        order = "IJK" if kblock else "IJ"
    innermost = nest.summed[-1].size if nest.summed else 1
    if kblock >= innermost or (not order.endswith("K") and not alone):
        kblock = 0
    return kblock, order if kblock else order.replace("K", "")


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
    slots = [
        Slot(Place.INPUT, 0),
        Slot(Place.INPUT, 1),
        *([Slot(Place.INPUT, 2)] if nest.added else []),
        Slot(Place.OUTPUT),
    ]
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
    kept = (*nest.outer, nest.rows, nest.columns)
    added = -1 if nest.added is None else b.buffer(nest.added.elem, _extent(kept, lambda walk: walk.added))
    out = b.buffer(nest.elem, _extent(kept, lambda walk: walk.out), Access.OUT)
    if results and made.row_wise:
        _rows(b, nest, made, left, right, added, out)
    elif results:
        _Tiles(b, nest, made, left, right, added, out).write()
    return b.kernel()


def _rows(b: Builder, nest: Contract, made: Plan, left: _Side, right: _Side, added: int, out: int) -> None:
    """The row-wise form: each row of the result is +0, then every summed place adds its products to the whole row."""
    rows, columns, lanes = nest.rows, nest.columns, made.lanes
    stride = columns.out or 1
    loops = Loops(b, made.split)

    def row(outer: tuple[Spot, ...]) -> None:
        *places, at = outer
        left_at = [*zip(places, left.outer), (at, rows.left)]
        right_at = list(zip(places, right.outer))
        out_at = [*((spot, walk.out) for spot, walk in zip(places, nest.outer)), (at, rows.out)]

        def vectors(body: Callable[[Index, Spot, int | None], None]) -> None:
            Loops(b).vectors(
                columns.size,
                lanes,
                lambda spot, some: body(address(b, *out_at, (spot, columns.out)), spot, some),
                depth=0,
            )

        def put(index: Index, x: Value, some: int | None) -> None:
            store(b, out, nest.elem, index, x, stride=stride if lanes > 1 else 1, count=some)

        vectors(lambda index, _, some: put(index, b.const(nest.accumulate, 0.0, lanes), some))

        def place(summed: Sequence[Spot]) -> None:
            x = load(b, left.buffer, address(b, *left_at, *zip(summed, left.summed)), nest.accumulate)
            x = b.splat(x, lanes)

            def add(index: Index, spot: Spot, some: int | None) -> None:
                where = address(b, *right_at, (spot, columns.right), *zip(summed, right.summed))
                apart = columns.right if lanes > 1 else 1
                y = load(b, right.buffer, where, nest.accumulate, lanes, stride=apart, count=some)
                total = load(b, out, index, nest.accumulate, lanes, stride=stride if lanes > 1 else 1, count=some)
                put(index, b.fma(x, y, total), some)

            vectors(add)

        def descend(summed: tuple[Spot, ...]) -> None:
            if len(summed) == len(nest.summed):
                place(summed)
                return
            with b.loop(nest.summed[len(summed)].size) as k:
                descend((*summed, Spot(((k, 1),))))

        descend(())
        if nest.added is not None:
            more_at = [*((spot, walk.added) for spot, walk in zip(places, nest.outer)), (at, rows.added)]
            arithmetic = nest.added.arithmetic

            def more(index: Index, spot: Spot, some: int | None) -> None:
                where = address(b, *more_at, (spot, columns.added))
                apart = columns.added if lanes > 1 else 1
                x = load(b, out, index, arithmetic, lanes, stride=stride if lanes > 1 else 1, count=some)
                y = load(b, added, where, arithmetic, lanes, stride=apart, count=some)
                put(index, b.add(x, y), some)

            vectors(more)

    loops.over([walk.size for walk in (*nest.outer, rows)], row)


@dataclass(frozen=True, slots=True)
class _At:
    """Where the loops around stand: a place of the outer axes, a tile and how many rows and columns it has, or how many columns there
    are from a tile on; the block of the summed axis (None: all of it), and whether it is the first and the last."""

    outer: tuple[Spot, ...]
    rows_at: Spot = ORIGIN
    rows: int = 0
    columns_at: Spot = ORIGIN
    columns: int = 0
    first: Spot = ORIGIN
    depth: int | None = None
    fresh: bool = True
    last: bool = True


class _Tiles:
    def __init__(self, b: Builder, nest: Contract, made: Plan, left: _Side, right: _Side, added: int, out: int) -> None:
        self.b = b
        self.nest = nest
        self.plan = made
        self.left = left
        self.right = right
        self.added = added
        self.out = out
        self.loops = Loops(b, made.split)

    def write(self) -> None:
        self.loops.over([walk.size for walk in self.nest.outer], self._place)

    def _place(self, outer: tuple[Spot, ...]) -> None:
        """The tiles of one outer place, a block of columns at a time where all rows go by before the next columns."""
        made, columns = self.plan, self.nest.columns.size
        tiles = -(-columns // made.columns)
        if made.order.index("J") < made.order.index("I") or tiles <= made.block:
            self._descend(_At(outer, columns=columns), made.order, len(outer))
            return
        wide = made.block * made.columns
        full, rest = divmod(columns, wide)
        with self.b.loop(full, parallel=True) as block:
            self._descend(_At(outer, columns_at=Spot(((block, made.block),)), columns=wide), made.order, len(outer))
        if rest:
            at = _At(outer, columns_at=Spot((), full * made.block), columns=rest)
            self._descend(at, made.order, len(outer))

    def _descend(self, at: "_At", order: str, depth: int) -> None:
        """The loops that an order names, and a tile in the innermost; `depth` counts the loops over the result around."""
        made, rows, columns = self.plan, self.nest.rows.size, at.columns
        match order[:1]:
            case "I":
                self._along(
                    rows,
                    made.rows,
                    depth,
                    lambda spot, some: self._descend(replace(at, rows_at=spot, rows=some), order[1:], depth + 1),
                )
            case "J":
                first = at.columns_at
                self._along(
                    columns,
                    made.columns,
                    depth,
                    lambda spot, some: self._descend(
                        replace(at, columns_at=Spot((*first.terms, *spot.terms), first.base + spot.base), columns=some),
                        order[1:],
                        depth + 1,
                    ),
                )
            case "K" if made.spills:
                self._depths(at, order[1:], depth)
            case _:
                # Blocks within a tile keep their sums in registers: see `_sum`.
                self._tile(at)

    def _depths(self, at: "_At", order: str, depth: int) -> None:
        """What is inside, a block of the summed axis at a time: the sums that wait for the next one are few enough to wait in the
        cache."""
        kblock = self.plan.kblock
        self._descend(replace(at, first=ORIGIN, depth=kblock, fresh=True, last=False), order, depth)
        full, rest = divmod(self.nest.summed[0].size, kblock)
        if self.nest.added is not None and not rest:
            # What comes with the last block makes it one by itself.
            full, rest = full - 1, kblock
        if full > 1:
            with self.b.loop(full - 1) as block:
                first = Spot(((block, kblock),), kblock)
                self._descend(replace(at, first=first, depth=kblock, fresh=False, last=False), order, depth)
        if rest:
            first = Spot((), full * kblock)
            self._descend(replace(at, first=first, depth=rest, fresh=False, last=True), order, depth)

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

    def _tile(self, at: "_At") -> None:
        """The sums of the rows and columns of a tile, from a summed place on; from +0 where they are fresh."""
        b, nest, made, left, right = self.b, self.nest, self.plan, self.left, self.right
        outer, rows_at, rows, columns_at, columns = at.outer, at.rows_at, at.rows, at.columns_at, at.columns
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

        if at.fresh:
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

        def step(place: Sequence[tuple[Spot, int, int]], sums: Sequence[Value]) -> list[Value]:
            """One summed place."""
            one = [(spot, stride) for spot, stride, _ in place]
            other = [(spot, stride) for spot, _, stride in place]
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

        sums = self._sum(at.first, at.depth, sums, step)
        apart = stride if lanes > 1 else 1
        more_at = [(spot, walk.added) for spot, walk in places] + [
            (rows_at, made.rows * nest.rows.added),
            (columns_at, made.columns * nest.columns.added),
        ]
        for row in range(rows):
            for vector in range(vectors):
                index, count = out_index(row, vector), counts[vector]
                x = sums[row * vectors + vector]
                added = nest.added if at.last else None
                if added is None:
                    store(b, self.out, nest.elem, index, x, stride=apart, count=count)
                    continue
                if not nest.elem is nest.accumulate is added.arithmetic:
                    # The product is rounded as it would be if it were stored and read.
                    store(b, self.out, nest.elem, index, x, stride=apart, count=count)
                    x = load(b, self.out, index, added.arithmetic, lanes, stride=apart, count=count)
                y = load(
                    b,
                    self.added,
                    address(b, *more_at, base=row * nest.rows.added + vector * lanes * nest.columns.added),
                    added.arithmetic,
                    lanes,
                    stride=nest.columns.added if lanes > 1 else 1,
                    count=count,
                )
                store(b, self.out, nest.elem, index, b.add(x, y), stride=apart, count=count)

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
            kblock = self.plan.kblock
            if not kblock or self.plan.spills:
                return run(ORIGIN, size, place, sums)
            full, rest = divmod(size, kblock)
            blocks = b.loop(full, sums)
            with blocks as block:
                blocks.next = run(Spot(((block, kblock),)), kblock, place, blocks.inside)
            return run(Spot((), full * kblock), rest, place, blocks.after)

        def run(
            start: Spot, size: int, place: Callable[[Spot], list[tuple[Spot, int, int]]], sums: Sequence[Value]
        ) -> list[Value]:
            """Summed places of the innermost axis, several in a straight line."""
            full, rest = divmod(size, UNROLL)
            if full > 1:
                loop = b.loop(full, sums)
                with loop as k:
                    inside: Sequence[Value] = loop.inside
                    for number in range(UNROLL):
                        inside = step(place(start.on(number, (k, UNROLL))), inside)
                    loop.next = inside
                sums = loop.after
            elif full:
                rest += UNROLL
                full = 0
            for number in range(rest):
                sums = step(place(start.on(full * UNROLL + number)), sums)
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
