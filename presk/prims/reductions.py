"""Typing of reductions, softmax, cross_entropy and argmax."""

from presk.prims.attrs import AxisName
from presk.prims.axes import axis_place
from presk.prims.random import require_key
from presk.prims.surface import Bound, Refused, Typed, Typer
from presk.types.type import SCALAR, Axis, Index, Real, Shape


def reduction(bound: Bound, typer: Typer) -> Typed:
    """`mean(x)`, `sum(x)` → ℝ[]; with `axis a` that axis is removed."""
    shape = typer.real(bound.operands["x"])
    if not bound.axes:
        return Typed(Real(SCALAR), (("axis", AxisName(None)),))
    name, at = bound.axes[0]
    place = axis_place(shape, name, at, Real(shape))
    return Typed(Real(Shape(shape.axes[:place] + shape.axes[place + 1 :], shape.prefix)), (("axis", AxisName(name)),))


def softmax(bound: Bound, typer: Typer) -> Typed:
    """`softmax(axis a, x)` and `softmax(axis a, x, where = m)` with a mask that does not widen x (E2003)."""
    shape = typer.real(bound.operands["x"])
    name, at = bound.axes[0]
    axis_place(shape, name, at, Real(shape))
    where = bound.operands.get("where")
    if where is None:
        return Typed(Real(shape), (("axis", AxisName(name)),))
    mask = typer.mask(where)
    joined = typer.broadcast(shape, mask, where.at)
    kept = joined.left.prefix == (shape.prefix is not None) and joined.left.axes == tuple(range(-len(shape.axes), 0))
    if not kept or len(joined.shape.axes) != len(shape.axes):
        raise Refused(
            "E2003",
            f"the mask `bool[{mask}]` would widen `ℝ[{shape}]`",
            at=where.at,
            text="a mask must broadcast into the scores",
        )
    return Typed(Real(shape), (("axis", AxisName(name)), ("mask", joined.right)))


def last_axis(bound: Bound, shape: Shape, operand: str) -> tuple[Shape, Axis]:
    """The shape without its last axis, and that axis; E2003 for a tensor without axes."""
    if not shape.axes:
        raise Refused(
            "E2003",
            f"`{bound.name}` works along the last axis, and `ℝ[{shape}]` has none",
            at=bound.operands[operand].at,
        )
    return Shape(shape.axes[:-1], shape.prefix), shape.axes[-1]


def cross_entropy(bound: Bound, typer: Typer) -> Typed:
    """`cross_entropy(logits : ℝ[S, V], y : idx[V][S])` → ℝ[S]."""
    logits, y = bound.operands["logits"], bound.operands["y"]
    rest, last = last_axis(bound, typer.real(logits), "logits")
    limit, shape = typer.index(y)
    typer.equal(limit, last.length, "E2005", "the bound of the targets is not the number of logits", y.at)
    merged = typer.same_shape(
        rest, shape, "the targets must have the shape of the logits without their last axis", y.at
    )
    return Typed(Real(merged))


def argmax(bound: Bound, typer: Typer) -> Typed:
    """`argmax(x : ℝ[S, V])` → idx[V][S]."""
    rest, last = last_axis(bound, typer.real(bound.operands["x"]), "x")
    return Typed(Index(last.length, rest))


def sample(bound: Bound, typer: Typer) -> Typed:
    """`sample(key : key, logits : ℝ[S, V])` → idx[V][S]."""
    require_key(bound, "key")
    rest, last = last_axis(bound, typer.real(bound.operands["logits"]), "logits")
    return Typed(Index(last.length, rest))
