"""Cross-entropy of rows of logits, and its derivative.

With m the maximum of a row and s = Σ exp(x − m) in the order of rule 3, the value is log s + (m − x[target]), a sum of two numbers
that are not negative, and the derivative (exp(x − m) / s − [k = target]) · ct.
"""

from presk.kernels.build import Builder, Value
from presk.kernels.ir import Access, Elem, Index
from presk.kernels.layout import Layout, Target
from presk.kernels.math import apply, exp_not_above_0
from presk.kernels.nest import Launch, Lowered, Nest, Place, Slot, Step, Use
from presk.kernels.nests import rows
from presk.kernels.nests.axes import count
from presk.kernels.nests.emit import Loops, Spot, abreast_for, address, divided, fitting, lanes_for, load, parts, store


class CrossEntropy(Nest, frozen=True):
    """`[rows, size]` logits and a target for each row; a number for each row."""

    rows: int
    size: int
    source: Elem
    elem: Elem
    arithmetic: Elem
    accumulate: Elem


class CrossEntropyVjp(Nest, frozen=True):
    """Logits, targets, and a cotangent for each row (of type `ct`); the cotangent of the logits."""

    rows: int
    size: int
    source: Elem
    ct: Elem
    elem: Elem
    arithmetic: Elem
    accumulate: Elem


def rule(use: Use) -> Launch:
    """`cross_entropy logits, y`."""
    logits, y = use.operands
    arith = use.arith
    nest = CrossEntropy(
        count(y.shape), logits.shape[-1], logits.elem, use.result.elem, arith.arithmetic, arith.accumulate
    )
    return Launch(nest, (0, 1))


def vjp_rule(use: Use) -> Launch:
    """`cross_entropy_vjp logits, y, ct`."""
    logits, y, ct = use.operands
    arith = use.arith
    nest = CrossEntropyVjp(
        count(y.shape), logits.shape[-1], logits.elem, ct.elem, use.result.elem, arith.arithmetic, arith.accumulate
    )
    return Launch(nest, (0, 1, 2))


class _Rows:
    """What both compute of a row: its maximum, and the sum of exponentials."""

    def __init__(self, b: Builder, nest: CrossEntropy | CrossEntropyVjp, lanes: int) -> None:
        self.b = b
        self.nest = nest
        self.lanes = fitting(lanes, nest.size)
        self.x = b.buffer(nest.source, nest.rows * nest.size)
        self.y = b.buffer(Elem.I32, nest.rows, bound=nest.size)

    def logit(self, row: Spot, k: Spot, lanes: int = 1, some: int | None = None) -> Value:
        """Logits of a row."""
        index = address(self.b, (row, self.nest.size), (k, 1))
        return load(self.b, self.x, index, self.nest.arithmetic, lanes, count=some)

    def target(self, row: Spot) -> Spot:
        """The place of a row's target."""
        index = self.b.convert(self.b.load(self.y, address(self.b, (row, 1))), Elem.I64)
        return Spot(((index, 1),))

    def top(self, row: Spot) -> Value:
        """The maximum."""
        nest = self.nest
        return rows.maximum(
            self.b, nest.size, self.lanes, nest.arithmetic, lambda k, lanes, some: self.logit(row, k, lanes, some)
        )

    def exp(self, x: Value, top: Value) -> Value:
        """exp(x − maximum)."""
        return exp_not_above_0(self.b, self.b.sub(x, top))


def lower(nest: CrossEntropy, layout: Layout, target: Target) -> Lowered:
    """The loops of a cross-entropy."""
    b = Builder()
    body = _Rows(b, nest, abreast_for(layout, target, nest.arithmetic))
    out = b.buffer(nest.elem, nest.rows, Access.OUT)

    def row(at: tuple[Spot, ...]) -> None:
        top = body.top(at[0])
        tops = b.splat(top, body.lanes)

        def term(k: Spot, lanes: int, some: int | None) -> Value:
            mine = tops if lanes == body.lanes else b.splat(top, lanes)
            return b.convert(body.exp(body.logit(at[0], k, lanes, some), mine), nest.accumulate)

        total = rows.total(b, nest.size, body.lanes, nest.accumulate, term)
        chosen = b.sub(top, body.logit(at[0], body.target(at[0])))
        value = b.add(apply(b, "log", [b.convert(total, nest.arithmetic)], None), chosen)
        store(b, out, nest.elem, address(b, (at[0], 1)), value)

    if nest.rows * nest.size:
        Loops(b, divided(layout, 1)).over((nest.rows,), row)
    return Lowered((Step(b.kernel(), (Slot(Place.INPUT, 0), Slot(Place.INPUT, 1), Slot(Place.OUTPUT))),))


def lower_vjp(nest: CrossEntropyVjp, layout: Layout, target: Target) -> Lowered:
    """The loops of the derivative: the exponentials of a row are kept, in the result or in scratch memory, and then scaled."""
    b = Builder()
    body = _Rows(b, nest, abreast_for(layout, target, nest.arithmetic))
    size = nest.rows * nest.size
    cts = b.buffer(nest.ct, nest.rows)
    out = b.buffer(nest.elem, size, Access.OUT)
    slots = [Slot(Place.INPUT, 0), Slot(Place.INPUT, 1), Slot(Place.INPUT, 2), Slot(Place.OUTPUT)]
    scratch: tuple[tuple[Elem, int], ...] = ()
    split = divided(layout, 1)
    narrow = nest.elem is not nest.arithmetic
    kept = out
    if narrow and size:
        held = nest.size * (parts(nest.rows) if split is not None else 1)
        kept = b.buffer(nest.arithmetic, held, Access.SCRATCH)
        scratch = ((nest.arithmetic, held),)
        slots.append(Slot(Place.SCRATCH, 0))

    loops = Loops(b, split, shared=narrow)

    def row(at: tuple[Spot, ...]) -> None:
        where = at[0]
        top = body.top(where)
        tops = b.splat(top, body.lanes)

        def place(k: Spot) -> Index:
            if not narrow:
                return address(b, (where, nest.size), (k, 1))
            return address(b, (loops.part, 0 if split is None else nest.size), (k, 1))

        def term(k: Spot, lanes: int, some: int | None) -> Value:
            value = body.exp(body.logit(where, k, lanes, some), tops if lanes == body.lanes else b.splat(top, lanes))
            store(b, kept, nest.arithmetic, place(k), value, count=some)
            return b.convert(value, nest.accumulate)

        total = b.convert(rows.total(b, nest.size, body.lanes, nest.accumulate, term), nest.arithmetic)
        ct = load(b, cts, address(b, (where, 1)), nest.arithmetic)
        chosen = body.target(where)
        share = b.div(load(b, kept, place(chosen), nest.arithmetic), total)
        totals, ctv = b.splat(total, body.lanes), b.splat(ct, body.lanes)

        def scaled(k: Spot, lanes: int, some: int | None) -> None:
            sums, scale = (totals, ctv) if lanes == body.lanes else (b.splat(total, lanes), b.splat(ct, lanes))
            value = b.div(load(b, kept, place(k), nest.arithmetic, lanes, count=some), sums)
            store(b, out, nest.elem, address(b, (where, nest.size), (k, 1)), b.mul(value, scale), count=some)

        least = min(body.lanes, lanes_for(layout, target, nest.arithmetic))
        Loops(b).wide(nest.size, body.lanes, least, scaled, depth=0)
        # The target's element, over what the vectors wrote there.
        value = b.mul(b.sub(share, b.const(nest.arithmetic, 1.0)), ct)
        store(b, out, nest.elem, address(b, (where, nest.size), (chosen, 1)), value)

    if size:
        loops.over((nest.rows,), row)
    return Lowered((Step(b.kernel(), tuple(slots)),), scratch)
