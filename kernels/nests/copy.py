"""Copies: what only moves elements, piece by piece, from boxes of tensors to boxes of the result, and zeros.

Pieces are apart from one another, so that they may be written in any order.
"""

from collections.abc import Mapping, Sequence

import msgspec

from presk.kernels.build import Builder
from presk.kernels.ir import LOADED, SIZES, Access, Elem
from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Launch, Lowered, Nest, Operand, Place, Slot, Step, Use
from presk.kernels.nests.axes import Shape, Strides, axis_of, collapse, count, length, length_of, row_major
from presk.kernels.nests.emit import Loops, Spot, address, divided, fitting, lanes_for, store
from presk.prims.attrs import Attr, Select


class Source(msgspec.Struct, frozen=True, array_like=True):
    """An input of a copy."""

    elem: Elem
    size: int
    bound: int | None = None


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """`out[to + i · to_strides] = source[at + i · at_strides]` for i in `shape`; zeros where there is no source."""

    shape: Shape
    to: int
    to_strides: Strides
    source: int | None = None
    at: int = 0
    at_strides: Strides = ()


class Copy(Nest, frozen=True):
    """A tensor of `size` elements put together from pieces, which cover it and do not overlap."""

    sources: tuple[Source, ...]
    size: int
    elem: Elem
    pieces: tuple[Piece, ...]


# --- rules -------------------------------------------------------------------------------------------------------------------------


def _copy(use: Use, inputs: Sequence[int], pieces: Sequence[Piece]) -> Launch:
    sources = tuple(
        Source(operand.elem, count(operand.shape), operand.bound)
        for operand in (use.operands[number] for number in inputs)
    )
    some = tuple(_merged(piece) for piece in pieces if count(piece.shape))
    return Launch(Copy(sources, count(use.result.shape), use.result.elem, some), tuple(inputs))


def _merged(piece: Piece) -> Piece:
    """The piece with as few axes as can be."""
    walked = [piece.to_strides] if piece.source is None else [piece.to_strides, piece.at_strides]
    shape, strides = collapse(piece.shape, walked)
    if piece.source is None:
        return Piece(shape, piece.to, strides[0])
    return Piece(shape, piece.to, strides[0], piece.source, piece.at, strides[1])


def split_heads(use: Use) -> Launch:
    """`[…, seq, heads · hd]` as `[…, heads, seq, hd]`."""
    shape = use.operands[0].shape
    heads, hd = (length_of(use.attrs, key, use.dims) for key in ("heads", "hd"))
    seq, model = shape[-2:]
    walked = (*shape[:-2], heads, seq, hd)
    at = (*row_major(shape)[:-2], hd, model, 1)
    return _copy(use, (0,), [Piece(walked, 0, row_major(walked), 0, 0, at)])


def merge_heads(use: Use) -> Launch:
    """`[…, heads, seq, hd]` as `[…, seq, heads · hd]`."""
    shape = use.operands[0].shape
    heads, seq, hd = shape[-3:]
    walked = (*shape[:-3], seq, heads, hd)
    at = (*row_major(shape)[:-3], hd, seq * hd, 1)
    return _copy(use, (0,), [Piece(walked, 0, row_major(walked), 0, 0, at)])


def concat(use: Use) -> Launch:
    """Two tensors along an axis."""
    x, y = use.operands
    axis = axis_of(x, use.attrs)
    if axis is None:
        raise ValueError("concat has an axis")
    strides = row_major(use.result.shape)
    second = x.shape[axis] * strides[axis]
    return _copy(
        use,
        (0, 1),
        [
            Piece(x.shape, 0, strides, 0, 0, row_major(x.shape)),
            Piece(y.shape, second, strides, 1, 0, row_major(y.shape)),
        ],
    )


Box = tuple[tuple[int, int], ...]
"""For each axis the first place and the number of places."""


def _box(shape: Shape, attrs: Mapping[str, Attr], dims: Mapping[str, int]) -> Box:
    """What selectors select of a tensor; an index is one place."""
    box = [(0, size) for size in shape]
    for select in attrs.values():
        if not isinstance(select, Select):
            raise TypeError("a selection has selectors only")
        axis = len(shape) + select.position
        lo = length(select.lo, dims)
        if select.hi is not None:
            box[axis] = lo, length(select.hi, dims) - lo
        else:
            # A negative constant counts from the end.
            box[axis] = lo + (shape[axis] if select.lo.is_constant() and lo < 0 else 0), 1
    return tuple(box)


def _corner(box: Box, strides: Strides) -> int:
    return sum(first * stride for (first, _), stride in zip(box, strides))


def _sizes(box: Box) -> Shape:
    return tuple(size for _, size in box)


def select(use: Use) -> Launch:
    """`slice` and `index`."""
    shape = use.operands[0].shape
    box, strides = _box(shape, use.attrs, use.dims), row_major(shape)
    sizes = _sizes(box)
    return _copy(use, (0,), [Piece(sizes, 0, row_major(sizes), 0, _corner(box, strides), strides)])


def place(use: Use) -> Launch:
    """`slice_vjp ct, x` and `scatter_index ct, x`: ct in zeros of x's shape."""
    shape = use.result.shape
    box, strides = _box(shape, use.attrs, use.dims), row_major(shape)
    sizes = _sizes(box)
    pieces = [Piece(sizes, _corner(box, strides), strides, 0, 0, row_major(sizes))]
    for axis, (first, size) in enumerate(box):
        # Outside along this axis, and inside along the axes before.
        for start, end in ((0, first), (first + size, shape[axis])):
            outside = (*box[:axis], (start, end - start), *((0, other) for other in shape[axis + 1 :]))
            pieces.append(Piece(_sizes(outside), _corner(outside, strides), strides))
    return _copy(use, (0,), pieces)


def moved(operand: Operand, elem: Elem) -> Copy:
    """A tensor as it is, in another type of element."""
    size = count(operand.shape)
    source = Source(operand.elem, size, operand.bound)
    pieces = (_merged(Piece((size,), 0, (1,), 0, 0, (1,))),) if size else ()
    return Copy((source,), size, elem, pieces)


# --- lowering ----------------------------------------------------------------------------------------------------------------------


def lower(nest: Copy, layout: Layout, target: Target) -> Lowered:
    """A loop nest for each piece, with lanes along its innermost axis."""
    b = Builder()
    buffers = [b.buffer(source.elem, source.size, bound=source.bound) for source in nest.sources]
    out = b.buffer(nest.elem, nest.size, Access.OUT)
    for piece in nest.pieces:
        _write(b, nest, piece, buffers, out, layout, target)
    slots = (*(Slot(Place.INPUT, place) for place in range(len(buffers))), Slot(Place.OUTPUT))
    return Lowered((Step(b.kernel(), slots),))


def _write(
    b: Builder, nest: Copy, piece: Piece, buffers: Sequence[int], out: int, layout: Layout, target: Target
) -> None:
    shape = piece.shape or (1,)
    to = piece.to_strides or (1,)
    at = piece.at_strides or (1,)
    held = LOADED[nest.elem if piece.source is None else nest.sources[piece.source].elem]
    wide = max(SIZES[held], SIZES[LOADED[nest.elem]])
    lanes = fitting(lanes_for(layout, target, Elem.F64 if wide == SIZES[Elem.F64] else Elem.F32), shape[-1])
    loops = Loops(b, divided(layout, len(shape)))
    zero = b.const(held, 0, lanes) if piece.source is None else None

    def row(spots: tuple[Spot, ...]) -> None:
        def vector(spot: Spot, some: int | None) -> None:
            places = (*spots, spot)
            value = zero
            if value is None:
                index = address(b, *zip(places, at), base=piece.at)
                value = b.load(buffers[piece.source or 0], index, lanes, stride=at[-1], count=some)
            store(b, out, nest.elem, address(b, *zip(places, to), base=piece.to), value, stride=to[-1], count=some)

        loops.vectors(shape[-1], lanes, vector, depth=len(spots))

    loops.over(shape[:-1], row)
