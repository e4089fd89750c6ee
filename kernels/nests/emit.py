"""What lowering writes again and again: positions along axes, loops over them, vectors and their remainders, conversions.

Lanes are a number of elements along one axis, so a vector loop takes the axis in groups of `lanes`, and the rest under a mask of its
first `count` lanes: the lanes behind are computed and thrown away, and nothing is loaded or stored for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import FLOATS, LOADED, SIZES, CompareOp, Elem, Index
from presk.kernels.layout import Layout, Target

MOST_LANES: Final = 16
"""As many lanes as a sum has parts."""

ABREAST: Final = 2
"""Registers that are worked on at once: their operations do not wait for each other. More of them would have to leave registers."""

MOST_PARTS: Final = 64
LEAST_PARTS: Final = 8
"""Of a divided loop: enough for each of a few threads to have as much to do as the others."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place along an axis: `base + Σ step · variable`."""

    terms: tuple[tuple[Value, int], ...] = ()
    base: int = 0

    def on(self, base: int, *terms: tuple[Value, int]) -> "Spot":
        """A place further on."""
        return Spot((*self.terms, *terms), self.base + base)


ORIGIN: Final = Spot()


def address(b: Builder, *places: tuple[Spot, int], base: int = 0) -> Index:
    """The index of the element at places along axes, given with the axes' strides."""
    terms = [(variable, step * stride) for spot, stride in places for variable, step in spot.terms]
    return b.at(*terms, base=base + sum(spot.base * stride for spot, stride in places))


def lanes_for(layout: Layout, target: Target, elem: Elem) -> int:
    """The lanes of a nest that computes in a type: the layout's, or as many as a register holds."""
    lanes = layout.lanes if layout.lanes is not None else target.bytes // SIZES[elem]
    return max(1, min(lanes, MOST_LANES))


def abreast_for(layout: Layout, target: Target, elem: Elem) -> int:
    """The lanes of a nest whose elements are long chains of operations: where lanes fill a register, those of several; else the
    layout's."""
    lanes = lanes_for(layout, target, elem)
    if lanes * SIZES[elem] < target.bytes:
        return lanes
    return min(ABREAST * lanes, MOST_LANES)


def fitting(lanes: int, size: int) -> int:
    """No more lanes than the power of two that holds an axis of this length."""
    while lanes > 1 and lanes // 2 >= size:
        lanes //= 2
    return lanes


def narrowed(lanes: int, least: int, rest: int) -> int:
    """The lanes for the places left behind: as few as hold them, halved from `lanes`, and no fewer than `least`."""
    while lanes > least and lanes // 2 >= rest:
        lanes //= 2
    return lanes


def parts(size: int) -> int:
    """Into how many equal parts a divided loop is taken whose iterations need scratch memory: few, if there are such."""
    return next((one for one in range(MOST_PARTS, LEAST_PARTS - 1, -1) if size % one == 0), size)


def load(
    b: Builder,
    buffer: int,
    index: Index,
    elem: Elem,
    lanes: int = 1,
    *,
    stride: int = 1,
    count: int | None = None,
) -> Value:
    """Elements converted to a type."""
    if stride == 0 and lanes > 1:
        return b.splat(b.convert(b.load(buffer, index), elem), lanes)
    return b.convert(b.load(buffer, index, lanes, stride=stride, count=count), elem)


def store(
    b: Builder, buffer: int, elem: Elem, index: Index, x: Value, *, stride: int = 1, count: int | None = None
) -> None:
    """Stores into a buffer of elements of a type, rounding once."""
    if not (elem is Elem.BF16 and x.elem in FLOATS):
        x = b.convert(x, LOADED[elem])
    b.store(buffer, index, x, stride=stride, count=count)


@dataclass(slots=True)
class Loops:
    """Writes the loops of a kernel over its axes, outermost first. The loop at depth `split` is divided among workers.

    No loop is written for an axis of length 1, unless it is that loop. `shared` says that iterations of loops inside the divided
    one, or of all loops if none is divided, use the same scratch memory, one after the other; of the divided loop `parts` of its
    axis are then written, with scratch memory of their own, and `part` is the place among them while a body is written.
    """

    b: Builder
    split: int | None = None
    shared: bool = False
    part: Spot = ORIGIN

    def apart(self, depth: int) -> bool:
        """Whether iterations of the loop at a depth are independent."""
        return not self.shared or (self.split is not None and depth <= self.split)

    def over(self, shape: Sequence[int], body: Callable[[tuple[Spot, ...]], None], *, depth: int = 0) -> None:
        """A body for every place along the axes, in row-major order; `depth` is the number of loops around."""
        self._over(tuple(shape), (), body, depth)

    def _over(
        self, shape: tuple[int, ...], spots: tuple[Spot, ...], body: Callable[[tuple[Spot, ...]], None], depth: int
    ) -> None:
        if not shape:
            body(spots)
        elif self.shared and depth == self.split:
            several = parts(shape[0])
            with self.b.loop(several, parallel=True, split=True) as i:
                self.part = Spot(((i, 1),))
                with self.b.loop(shape[0] // several) as j:
                    spot = Spot(((i, shape[0] // several), (j, 1)))
                    self._over(shape[1:], (*spots, spot), body, depth + 1)
        elif shape[0] == 1 and depth != self.split:
            self._over(shape[1:], (*spots, ORIGIN), body, depth + 1)
        else:
            with self.b.loop(shape[0], parallel=self.apart(depth), split=depth == self.split) as i:
                self._over(shape[1:], (*spots, Spot(((i, 1),))), body, depth + 1)

    def vectors(self, size: int, lanes: int, body: Callable[[Spot, int | None], None], *, depth: int) -> None:
        """A body for every group of `lanes` places along an axis: the first place, and how many lanes count (None: all)."""
        self.wide(size, lanes, lanes, lambda at, _, some: body(at, some), depth=depth)

    def wide(
        self, size: int, lanes: int, least: int, body: Callable[[Spot, int, int | None], None], *, depth: int
    ) -> None:
        """The same where the places left behind are taken in fewer lanes if these hold them, no fewer than `least`; the body is
        told how many lanes there are."""
        full, rest = divmod(size, lanes)
        split = depth == self.split
        if full == 1 and not split:
            body(ORIGIN, lanes, None)
        elif full:
            with self.b.loop(full, parallel=self.apart(depth), split=split) as i:
                self.part = Spot(((i, 1),)) if split else self.part
                body(Spot(((i, lanes),)), lanes, None)
        if not rest:
            return
        width = narrowed(lanes, least, rest)
        some = None if rest == width else rest
        if split:
            # A kernel with a divided loop stores in divided loops only; one of length 1 is the last worker's.
            with self.b.loop(1, parallel=True, split=True):
                self.part = Spot((), full)
                body(Spot((), full * lanes), width, some)
        else:
            body(Spot((), full * lanes), width, some)


def groups(
    b: Builder,
    size: int,
    lanes: int,
    abreast: int,
    body: Callable[[Spot, int, int | None], None],
    *,
    split: bool,
    shared: bool = False,
) -> None:
    """An axis in groups of several vectors: the first place, how many vectors, and how many lanes of each count (None: all).

    `shared` says that groups use the same scratch memory.
    """
    wide = min(abreast, max(1, size // lanes))
    full, rest = divmod(size, lanes * wide)

    def left() -> None:
        whole, some = divmod(rest, lanes)
        start = full * lanes * wide
        if whole:
            body(Spot((), start), whole, None)
        if some:
            body(Spot((), start + whole * lanes), 1, some)

    if full == 1 and not split:
        body(ORIGIN, wide, None)
    elif full:
        with b.loop(full, parallel=not shared, split=split) as i:
            body(Spot(((i, lanes * wide),)), wide, None)
    if rest and split:
        with b.loop(1, parallel=True, split=True):
            left()
    elif rest:
        left()


def divided(layout: Layout, loops: int) -> int | None:
    """The depth of the loop that is divided among workers, if one is: no deeper than there are loops."""
    if layout.split is None or loops == 0:
        return None
    return min(layout.split.depth, loops - 1)


def kept(b: Builder, x: Value, count: int | None, other: Value) -> Value:
    """The first `count` lanes of x, and those of another vector behind."""
    if count is None or count == x.lanes:
        return x
    return b.shuffle(x, other, (*range(count), *range(x.lanes + count, 2 * x.lanes)))


def iota(b: Builder, elem: Elem, lanes: int) -> Value:
    """0, 1, 2, … in lanes of an integer type."""
    if lanes == 1:
        return b.const(elem, 0)
    if lanes == 2:
        return b.shuffle(b.const(elem, 0, 2), b.const(elem, 1, 2), (0, 2))
    half = iota(b, elem, lanes // 2)
    return b.shuffle(half, b.add(half, b.const(elem, lanes // 2, lanes // 2)), range(lanes))


def number(b: Builder, spot: Spot, elem: Elem = Elem.I64) -> Value:
    """A place as a scalar."""
    value = b.const(Elem.I64, spot.base)
    for variable, step in spot.terms:
        value = b.add(value, variable if step == 1 else b.mul(variable, b.const(Elem.I64, step)))
    return b.convert(value, elem)


def holds(b: Builder, mask: Value) -> Value:
    """Where an element of a mask, loaded as an integer, is true."""
    return b.compare(CompareOp.NE, mask, b.const(mask.elem, 0, mask.lanes))


def larger(b: Builder, x: Value, y: Value) -> Value:
    """x where x > y, else y. A NaN of x is passed over: whoever uses this meets it again in a sum."""
    return b.select(b.compare(CompareOp.GT, x, y), x, y)
