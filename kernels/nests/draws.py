"""Draws: tensors that are functions of a key and of the place in row-major order, the same for ever.

A vector's lanes are consecutive blocks of the key stream, so an element's lanes lie as far apart as a block has elements: eight draws,
four pairs for normals. All is in f64 and rounded once to the type of the result (docs/decisions/0014-draws-are-correctly-rounded.md).
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction
from math import sqrt
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import Access, CompareOp, Elem, UnaryOp
from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Launch, Lowered, Nest, Place, Slot, Step, Use
from presk.kernels.nests import chacha
from presk.kernels.nests.axes import attr, count, length_of
from presk.kernels.nests.doubled import Doubled
from presk.kernels.nests.emit import Spot, address, divided, fitting, groups, iota, lanes_for, number, store
from presk.prims.attrs import Word

TURN: Final = 6.283185307179586
"""The double nearest to 2π."""


class Law(StrEnum):
    """What is drawn."""

    NORMAL = "normal"
    """`scale · z`, z standard normal."""

    UNIFORM = "uniform"
    """`−scale + 2 · scale · u`."""

    KEPT = "kept"
    """0 where u is below the rate, else 1 / (1 − rate); the rate is a second input of type `rate`."""


class Draws(Nest, frozen=True):
    """`size` draws of a key."""

    law: Law
    size: int
    elem: Elem
    scale: float = 0.0
    rate: Elem | None = None


class SplitKey(Nest, frozen=True):
    """The first `count` children of a key, eight words each."""

    count: int


def normal_rule(use: Use) -> Launch:
    """`normal std=s key`."""
    std = float(Fraction(attr(use.attrs, "std", Word).text))
    return Launch(Draws(Law.NORMAL, count(use.result.shape), use.result.elem, std), (0,))


def xavier_uniform_rule(use: Use) -> Launch:
    """`xavier_uniform key`: the fans are the lengths of the first and of the last axis, 1 and 1 for a scalar."""
    shape = use.result.shape
    fans = shape[0] + shape[-1] if shape else 2
    # Without elements there may be no scale.
    scale = sqrt(6.0 / fans) if count(shape) else 0.0
    return Launch(Draws(Law.UNIFORM, count(shape), use.result.elem, scale), (0,))


def dropout_mask_rule(use: Use) -> Launch:
    """`dropout_mask rate, key, x`. The rate is compared as the number that is read, so it should be read as an f64."""
    rate = use.operands[0].elem
    return Launch(Draws(Law.KEPT, count(use.result.shape), use.result.elem, rate=rate), (1, 0))


def split_key_rule(use: Use) -> Launch:
    """`split_key n key`."""
    return Launch(SplitKey(length_of(use.attrs, "n", use.dims)), (0,))


# --- lowering ----------------------------------------------------------------------------------------------------------------------


def lower(nest: Draws, layout: Layout, target: Target) -> Lowered:
    """Blocks of the key stream, so many at once as there are lanes."""
    b = Builder()
    key = b.buffer(Elem.I32, chacha.KEY_WORDS)
    slots = [Slot(Place.INPUT, 0)]
    rate = -1
    if nest.rate is not None:
        rate = b.buffer(nest.rate, 1)
        slots.append(Slot(Place.INPUT, 1))
    out = b.buffer(nest.elem, nest.size, Access.OUT)
    slots.append(Slot(Place.OUTPUT))
    normal = nest.law is Law.NORMAL
    # The stream is of words of 32 bits; the long sequences of normals, in two registers each, hide each other's latencies.
    per_block = chacha.DRAWS // 2 if normal else chacha.DRAWS
    blocks = -(-nest.size // per_block)
    lanes = fitting(lanes_for(layout, target, Elem.I32), max(1, blocks))
    law = _law(b, nest, lanes, rate)

    def write(first: Spot, j: Spot, draws: Sequence[Value], some: int | None) -> None:
        """Element j of each block of a group. Lane l is element (first + l) · per_block + j."""
        store(b, out, nest.elem, address(b, (first, per_block), (j, 1)), law(draws), stride=per_block, count=some)

    def group(first: Spot, size: int) -> None:
        """The blocks of a group, which have `size` elements."""
        counter = b.add(b.splat(number(b, first, Elem.I32), lanes), iota(b, Elem.I32, lanes))
        draws = chacha.numbers(b, chacha.block(b, key, counter, chacha.DRAWS_NONCE))
        least, more = divmod(size, per_block)
        # The first elements of each block are had by one block more than the last ones.
        for start, count_, some in ((0, more, least + 1), (more, per_block - more, least)):
            if not (count_ and some):
                continue
            if not normal:
                for j in range(start, start + count_):
                    write(first, Spot((), j), draws[j : j + 1], some)
                continue
            turned = [*draws[2 * start :], *draws[: 2 * start]]
            loop = b.loop(count_, turned)
            with loop as number_:
                write(first, Spot(((number_, 1),), start), loop.inside[:2], some)
                loop.next = [*loop.inside[2:], *loop.inside[:2]]

    whole, rest = divmod(nest.size, per_block * lanes)
    split = divided(layout, 1) is not None
    if whole:
        with b.loop(whole, parallel=True, split=split) as i:
            group(Spot(((i, lanes),)), per_block * lanes)
    if rest and split:
        with b.loop(1, parallel=True, split=True):
            group(Spot((), whole * lanes), rest)
    elif rest:
        group(Spot((), whole * lanes), rest)
    return Lowered((Step(b.kernel(), tuple(slots)),))


def _law(b: Builder, nest: Draws, lanes: int, rate: int) -> Callable[[Sequence[Value]], Value]:
    """The value of an element, of its one or two draws."""
    f64 = Elem.F64

    def unit(draw: Value) -> Value:
        return b.mul(b.convert(draw, f64), b.const(f64, 2.0**-chacha.UNIT_BITS, lanes))

    match nest.law:
        case Law.NORMAL:
            tools = Doubled(b, lanes)

            def normal(draws: Sequence[Value]) -> Value:
                complement = b.sub(b.const(Elem.I64, 1 << chacha.UNIT_BITS, lanes), draws[0])
                radius = b.sqrt(b.mul(b.const(f64, -2.0, lanes), tools.log(unit(complement))))
                angle = b.mul(b.const(f64, TURN, lanes), unit(draws[1]))
                return b.mul(b.const(f64, nest.scale, lanes), b.mul(radius, tools.cos(angle)))

            return normal
        case Law.UNIFORM:
            lowest, width = b.const(f64, -nest.scale, lanes), b.const(f64, 2.0 * nest.scale, lanes)
            return lambda draws: b.add(lowest, b.mul(width, unit(draws[0])))
        case Law.KEPT:
            read = b.convert(b.load(rate, b.at()), f64)
            # u < rate if and only if the integer is below ⌈rate · 2⁵³⌉.
            scaled = b.mul(read, b.const(f64, 2.0**chacha.UNIT_BITS))
            limit = b.splat(b.convert(b.neg(b.unary(UnaryOp.FLOOR, b.neg(scaled))), Elem.I64), lanes)
            kept = b.splat(b.div(b.const(f64, 1.0), b.sub(b.const(f64, 1.0), read)), lanes)
            zero = b.const(f64, 0.0, lanes)
            return lambda draws: b.select(b.compare(CompareOp.LT, draws[0], limit), zero, kept)


def lower_split_key(nest: SplitKey, layout: Layout, target: Target) -> Lowered:
    """A block for each child, of which the first half counts."""
    b = Builder()
    key = b.buffer(Elem.I32, chacha.KEY_WORDS)
    out = b.buffer(Elem.I32, nest.count * chacha.KEY_WORDS, Access.OUT)
    lanes = fitting(lanes_for(layout, target, Elem.I32), max(1, nest.count))

    def children(first: Spot, vectors: int, some: int | None) -> None:
        counter = b.add(b.splat(number(b, first, Elem.I32), lanes), iota(b, Elem.I32, lanes))
        words = chacha.block(b, key, counter, chacha.SPLIT_NONCE)
        for place in range(chacha.KEY_WORDS):
            index = address(b, (first, chacha.KEY_WORDS), base=place)
            b.store(out, index, words[place], stride=chacha.KEY_WORDS, count=some)

    groups(b, nest.count, lanes, 1, children, split=divided(layout, 1) is not None)
    return Lowered((Step(b.kernel(), (Slot(Place.INPUT, 0), Slot(Place.OUTPUT))),))
