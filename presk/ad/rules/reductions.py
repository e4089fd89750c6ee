"""Derivatives of reductions, softmax and cross-entropy."""

from presk.ad.kinds import axis_place, shape_of, whole
from presk.ad.rules.use import Builder, Cotangents, Use
from presk.prims.attrs import Align, AxisName
from presk.types.type import Real, Shape


def total(body: Builder, use: Use) -> Cotangents:
    """ct at every element that was summed."""
    (x,) = use.args
    return (body.prim(body.types[x], "broadcast_like", use.ct, x, attrs=use.attrs),)


def mean(body: Builder, use: Use) -> Cotangents:
    """ct over the count, at every element."""
    (x,) = use.args
    return (body.prim(body.types[x], "mean_vjp", use.ct, x, attrs=use.attrs),)


def softmax(body: Builder, use: Use) -> Cotangents:
    """y · (ct − Σ ct·y) along the axis; y is 0 where a mask refuses, so is this. A mask gets none."""
    axis = use.attr("axis")
    assert isinstance(axis, AxisName) and axis.name is not None
    shape = shape_of(body.types[use.value])
    place = axis_place(shape, axis.name)
    kept = tuple(at for at in whole(shape).axes if at != place)
    rest = Shape(tuple(shape.axes[at] for at in kept), shape.prefix)
    along = body.prim(Real(rest), "sum", body.joined("mul", use.ct, use.value), attrs=(("axis", axis),))
    centred = body.joined("sub", use.ct, along, Align(shape.prefix is not None, kept))
    return (body.joined("mul", use.value, centred), *((None,) * (len(use.args) - 1)))


def cross_entropy(body: Builder, use: Use) -> Cotangents:
    """(softmax − one-hot) · ct; the targets get none."""
    logits, y = use.args
    return (body.prim(body.types[logits], "cross_entropy_vjp", logits, y, use.ct), None)


def sum_squares(body: Builder, use: Use) -> Cotangents:
    """2·ct · tree, leaf by leaf."""
    (tree,) = use.args
    double = body.joined("mul", use.ct, body.number(2))
    return (body.prim(body.types[tree], "mul", double, tree),)
