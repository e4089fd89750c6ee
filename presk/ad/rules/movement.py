"""Derivatives of what moves, places and joins: the cotangent goes back where it came from."""

from presk.ad.kinds import axis_place, shape_of
from presk.ad.rules.use import Builder, Cotangents, Rule, Use
from presk.prims.attrs import AxisName, Place, Select
from presk.types.dim import ZERO
from presk.types.type import Axis, Real, Shape


def back(name: str) -> Rule:
    """A primitive of the cotangent alone, with the attributes of the use: split_heads and merge_heads undo each other."""

    def rule(body: Builder, use: Use) -> Cotangents:
        return (body.prim(body.types[use.args[0]], name, use.ct, attrs=use.attrs),)

    return rule


def shaped(name: str, *, attrs: bool) -> Rule:
    """A primitive of the cotangent and the operand, which it reads for its shape only."""

    def rule(body: Builder, use: Use) -> Cotangents:
        (x,) = use.args
        return (body.prim(body.types[x], name, use.ct, x, attrs=use.attrs if attrs else ()),)

    return rule


def retag(body: Builder, use: Use) -> Cotangents:
    """The cotangent under the operand's names."""
    return (body.coerced(use.ct, body.types[use.args[0]]),)


def concat(body: Builder, use: Use) -> Cotangents:
    """Two slices of the cotangent."""
    axis = use.attr("axis")
    assert isinstance(axis, AxisName) and axis.name is not None
    shape = shape_of(body.types[use.ct])
    place = axis_place(shape, axis.name) + len(shape.axes)
    found: list[int | None] = []
    lo = ZERO
    for one, wanted in zip(use.args, use.wanted):
        length = shape_of(body.types[one]).axes[place].length
        if wanted:
            axes = (*shape.axes[:place], Axis(length, axis.name), *shape.axes[place + 1 :])
            select = Select(axis.name, place - len(shape.axes), lo, lo + length)
            part = body.prim(Real(Shape(axes, shape.prefix)), "slice", use.ct, attrs=(("s0", select),))
            found.append(body.coerced(part, body.types[one]))
        else:
            found.append(None)
        lo += length
    return tuple(found)


def embed(body: Builder, use: Use) -> Cotangents:
    """The rows of the cotangent added into those of the table, in increasing position; the indices get none."""
    w, t = use.args
    return (body.prim(body.types[w], "embed_vjp", t, use.ct, w), None)


def slice_params(body: Builder, use: Use) -> Cotangents:
    """Slice i of a tree of zeros."""
    (tree,) = use.args
    return (body.prim(body.types[tree], "scatter_params", use.ct, tree, attrs=use.attrs),)


def stack_params(body: Builder, use: Use) -> Cotangents:
    """Slice i for tree i."""
    return tuple(
        body.prim(body.types[tree], "slice_params", use.ct, attrs=(("i", Place(place)),)) if wanted else None
        for place, (tree, wanted) in enumerate(zip(use.args, use.wanted))
    )
