"""Derivatives of reductions, softmax and cross-entropy."""

from presk.ad.kinds import axis_place, shape_of, whole
from presk.ad.rules.use import Cotangents, Use
from presk.ad.tape import Tape
from presk.prims.attrs import Align, AxisName
from presk.types.type import Real, Shape


def total(tape: Tape, use: Use) -> Cotangents:
    """ct at every element that was summed."""
    (x,) = use.args
    return (tape.prim(tape.types[x], "broadcast_like", use.ct, x, attrs=use.attrs),)


def mean(tape: Tape, use: Use) -> Cotangents:
    """ct over the count, at every element."""
    (x,) = use.args
    return (tape.prim(tape.types[x], "mean_vjp", use.ct, x, attrs=use.attrs),)


def softmax(tape: Tape, use: Use) -> Cotangents:
    """y · (ct − Σ ct·y) along the axis; y is 0 where a mask refuses, so is this. A mask gets none."""
    axis = use.attr("axis")
    assert isinstance(axis, AxisName) and axis.name is not None
    shape = shape_of(tape.types[use.value])
    place = axis_place(shape, axis.name)
    kept = tuple(at for at in whole(shape).axes if at != place)
    rest = Shape(tuple(shape.axes[at] for at in kept), shape.prefix)
    along = tape.prim(Real(rest), "sum", tape.joined("mul", use.ct, use.value), attrs=(("axis", axis),))
    centred = tape.joined("sub", use.ct, along, Align(shape.prefix is not None, kept))
    return (tape.joined("mul", use.value, centred), *((None,) * (len(use.args) - 1)))


def cross_entropy(tape: Tape, use: Use) -> Cotangents:
    """(softmax − one-hot) · ct; the targets get none."""
    logits, y = use.args
    return (tape.prim(tape.types[logits], "cross_entropy_vjp", logits, y, use.ct), None)


def sum_squares(tape: Tape, use: Use) -> Cotangents:
    """2·ct · tree, leaf by leaf."""
    (tree,) = use.args
    double = tape.joined("mul", use.ct, tape.number(2))
    return (tape.prim(tape.types[tree], "mul", double, tree),)
