"""Typing of the elementwise builtins: functions of one real tensor, max, min, clamp, real."""

from presk.prims.surface import Bound, Refused, Typed, Typer
from presk.types.type import SCALAR, Hyper, HyperKind, Index, Real


def elementwise(bound: Bound, typer: Typer) -> Typed:
    """`f(x : ℝ[S]) → ℝ[S]`."""
    return Typed(Real(typer.real(bound.operands["x"])))


def extremum(bound: Bound, typer: Typer) -> Typed:
    """`max(x, y)`, `min(x, y)` of real tensors, broadcast as `+`."""
    x, y = bound.operands["x"], bound.operands["y"]
    joined = typer.broadcast(typer.real(x), typer.real(y))
    return Typed(Real(joined.shape), (("left", joined.left), ("right", joined.right)))


def clamp(bound: Bound, typer: Typer) -> Typed:
    """`clamp(x, lo, hi)`, which is `min(max(x, lo), hi)`: the alignments of both are its attributes."""
    x, lo, hi = (typer.real(bound.operands[name]) for name in ("x", "lo", "hi"))
    low = typer.broadcast(x, lo)
    high = typer.broadcast(low.shape, hi)
    return Typed(
        Real(high.shape),
        (("x", low.left), ("lo", low.right), ("inner", high.left), ("hi", high.right)),
    )


def real(bound: Bound, typer: Typer) -> Typed:
    """`real(n)` of a numeric hyperparameter is ℝ[]; `real(t)` of an index tensor keeps its shape."""
    operand = bound.operands["x"]
    match operand.type:
        case Hyper(kind) if kind is not HyperKind.BOOL:
            return Typed(Real(SCALAR))
        case Index(_, shape):
            return Typed(Real(shape))
        case other:
            raise Refused(
                "E2001",
                f"`real` takes a number or an index tensor, not `{other}`",
                at=operand.at,
                text=f"this is `{other}`",
            )
