"""Choices along the last axis: argmax, and a sample of the distribution that softmax makes of logits."""

from presk.kernels.build import Builder, Value
from presk.kernels.ir import Access, BinaryOp, CompareOp, Elem
from presk.kernels.layout import Layout, Target
from presk.kernels.math import apply
from presk.kernels.nest import Launch, Lowered, Nest, Place, Slot, Step, Use
from presk.kernels.nests import chacha, rows
from presk.kernels.nests.axes import count
from presk.kernels.nests.emit import Loops, Spot, address, divided, fitting, iota, kept, lanes_for, load, number


class ArgMax(Nest, frozen=True):
    """The least place of the largest element of each row; that of the first NaN in a row that has one, 0 in one without elements."""

    rows: int
    size: int
    source: Elem
    arithmetic: Elem


class Sample(Nest, frozen=True):
    """For each row the least place whose cumulative probability exceeds the row's draw.

    With m the maximum and C the sums of exp(x − m) up to each place, in increasing order and in f64, it is the number of places at
    which C ≤ u · C[last].
    """

    rows: int
    size: int
    source: Elem


def argmax_rule(use: Use) -> Launch:
    """`argmax x`."""
    x = use.operands[0]
    return Launch(ArgMax(count(x.shape[:-1]), x.shape[-1], x.elem, use.arith.arithmetic), (0,))


def sample_rule(use: Use) -> Launch:
    """`sample key, logits`."""
    x = use.operands[1]
    return Launch(Sample(count(x.shape[:-1]), x.shape[-1], x.elem), (0, 1))


def lower_argmax(nest: ArgMax, layout: Layout, target: Target) -> Lowered:
    """Each lane keeps its best; an element replaces it only if it is larger, so that the least place wins."""
    b = Builder()
    x = b.buffer(nest.source, nest.rows * nest.size)
    out = b.buffer(Elem.I32, nest.rows, Access.OUT)
    elem = nest.arithmetic
    lanes = fitting(lanes_for(layout, target, elem), max(nest.size, 1))

    def row(at: tuple[Spot, ...]) -> None:
        def elements(k: Spot, some: int | None) -> Value:
            return load(b, x, address(b, (at[0], nest.size), (k, 1)), elem, lanes, count=some)

        def step(k: Spot, best: Value, where: Value, some: int | None) -> tuple[Value, Value]:
            value = kept(b, elements(k, some), some, best)
            here = b.add(b.splat(number(b, k, Elem.I32), lanes), iota(b, Elem.I32, lanes))
            new = _beats(b, value, best)
            return b.select(new, value, best), b.select(new, here, where)

        first = load(b, x, address(b, (at[0], nest.size)), elem)
        best, where = b.splat(first, lanes), b.const(Elem.I32, 0, lanes)
        full, rest = divmod(nest.size, lanes)
        loop = b.loop(full, [best, where])
        with loop as i:
            loop.next = step(Spot(((i, lanes),)), loop.inside[0], loop.inside[1], None)
        best, where = loop.after
        if rest:
            best, where = step(Spot((), full * lanes), best, where, rest)
        while best.lanes > 1:
            one, other = b.half(best, 0), b.half(best, 1)
            here, there = b.half(where, 0), b.half(where, 1)
            # The other half's: larger, or as large and before.
            earlier = b.compare(CompareOp.LT, there, here)
            tie = b.binary(BinaryOp.AND, _equal(b, other, one), earlier)
            new = b.binary(BinaryOp.OR, _beats(b, other, one), tie)
            best, where = b.select(new, other, one), b.select(new, there, here)
        b.store(out, address(b, (at[0], 1)), where)

    def empty(at: tuple[Spot, ...]) -> None:
        b.store(out, address(b, (at[0], 1)), b.const(Elem.I32, 0))

    if nest.rows:
        Loops(b, divided(layout, 1)).over((nest.rows,), row if nest.size else empty)
    return Lowered((Step(b.kernel(), (Slot(Place.INPUT, 0), Slot(Place.OUTPUT))),))


def _nan(b: Builder, x: Value) -> Value:
    return b.compare(CompareOp.UNO, x, x)


def _beats(b: Builder, x: Value, y: Value) -> Value:
    """x > y, where a NaN is the largest of all."""
    number_ = b.compare(CompareOp.EQ, y, y)
    return b.binary(BinaryOp.OR, b.compare(CompareOp.GT, x, y), b.binary(BinaryOp.AND, _nan(b, x), number_))


def _equal(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(BinaryOp.OR, b.compare(CompareOp.EQ, x, y), b.binary(BinaryOp.AND, _nan(b, x), _nan(b, y)))


def lower_sample(nest: Sample, layout: Layout, target: Target) -> Lowered:
    """Eight draws are one block of the key stream, and serve eight rows. A row's exponentials are kept while it is walked."""
    b = Builder()
    f64 = Elem.F64
    split = divided(layout, 1) is not None
    blocks = -(-nest.rows // chacha.DRAWS)
    held = nest.size * (nest.rows if split else 1) if nest.rows else 0
    key = b.buffer(Elem.I32, chacha.KEY_WORDS)
    x = b.buffer(nest.source, nest.rows * nest.size)
    out = b.buffer(Elem.I32, nest.rows, Access.OUT)
    draws = b.buffer(Elem.I64, chacha.DRAWS * blocks, Access.SCRATCH)
    masses = b.buffer(f64, held, Access.SCRATCH)
    lanes = fitting(lanes_for(layout, target, f64), max(nest.size, 1))

    def row(at: Spot) -> None:
        def logit(k: Spot, width: int, some: int | None) -> Value:
            return load(b, x, address(b, (at, nest.size), (k, 1)), f64, width, count=some)

        def mass(k: Value) -> Value:
            return b.load(masses, address(b, (at, nest.size if split else 0), (Spot(((k, 1),)), 1)))

        top = b.splat(rows.maximum(b, nest.size, lanes, f64, logit), lanes)

        def keep(k: Spot, some: int | None) -> None:
            value = apply(b, "exp", [b.sub(logit(k, lanes, some), top)], None)
            b.store(masses, address(b, (at, nest.size if split else 0), (k, 1)), value, count=some)

        Loops(b).vectors(nest.size, lanes, keep, depth=0)
        total = b.loop(nest.size, [b.const(f64, 0.0)])
        with total as k:
            total.next = [b.add(total.inside[0], mass(k))]
        unit = b.mul(b.convert(b.load(draws, address(b, (at, 1))), f64), b.const(f64, 2.0**-chacha.UNIT_BITS))
        limit = b.mul(unit, total.after[0])
        # The last place is never passed: u < 1, so the limit is below the total.
        passed = b.loop(nest.size, [b.const(f64, 0.0), b.const(Elem.I32, 0)])
        with passed as k:
            sum_ = b.add(passed.inside[0], mass(k))
            over = b.compare(CompareOp.LE, sum_, limit)
            passed.next = [sum_, b.add(passed.inside[1], b.convert(over, Elem.I32))]
        found = passed.after[1]
        last = b.const(Elem.I32, max(nest.size - 1, 0))
        b.store(out, address(b, (at, 1)), b.select(b.compare(CompareOp.LT, found, last), found, last))

    def block(at: Spot, size: int) -> None:
        words = chacha.block(b, key, number(b, at, Elem.I32), chacha.DRAWS_NONCE)
        for place, draw in enumerate(chacha.numbers(b, words)):
            b.store(draws, address(b, (at, chacha.DRAWS), base=place), draw)
        with b.loop(size, parallel=split) as j:
            row(Spot(((j, 1),)).on(chacha.DRAWS * at.base, *((v, step * chacha.DRAWS) for v, step in at.terms)))

    full, rest = divmod(nest.rows, chacha.DRAWS)
    if full:
        with b.loop(full, parallel=split, split=split) as i:
            block(Spot(((i, 1),)), chacha.DRAWS)
    if rest and split:
        with b.loop(1, parallel=True, split=True):
            block(Spot((), full), rest)
    elif rest:
        block(Spot((), full), rest)
    slots = (
        *(Slot(Place.INPUT, 0), Slot(Place.INPUT, 1), Slot(Place.OUTPUT)),
        *(Slot(Place.SCRATCH, 0), Slot(Place.SCRATCH, 1)),
    )
    return Lowered((Step(b.kernel(), slots),), ((Elem.I64, chacha.DRAWS * blocks), (f64, held)))
