"""Typing of what reads tables by index and of what makes index tensors and masks: embed, one_hot, positions, causal_mask."""

from presk.prims.attrs import Length
from presk.prims.surface import Bound, Refused, Typed, Typer
from presk.types.type import Axis, Index, Mask, Real, Shape


def embed(bound: Bound, typer: Typer) -> Typed:
    """`embed(w : ℝ[V, D], t : idx[V][S])` → ℝ[S, D]; the new axis takes the name of the table's second."""
    w, t = bound.operands["w"], bound.operands["t"]
    table = typer.real(w)
    if table.prefix is not None or len(table.axes) != 2:
        raise Refused("E2003", f"`embed` reads a table `ℝ[V, D]`, not `ℝ[{table}]`", at=w.at)
    limit, shape = typer.index(t)
    typer.equal(limit, table.axes[0].length, "E2005", "the index bound is not the length of the table", t.at)
    return Typed(Real(typer.distinct(Shape((*shape.axes, table.axes[1]), shape.prefix))))


def one_hot(bound: Bound, typer: Typer) -> Typed:
    """`one_hot(t : idx[V][S])` → ℝ[S, V], the new axis unnamed."""
    limit, shape = typer.index(bound.operands["t"])
    return Typed(Real(Shape((*shape.axes, Axis(limit)), shape.prefix)))


def positions(bound: Bound, typer: Typer) -> Typed:
    """`positions(n: T)` → idx[T][n: T]."""
    name, length, _ = bound.named_axes[0]
    return Typed(Index(length, Shape((Axis(length, name),))), (("axis", Length(length, name)),))


def causal_mask(bound: Bound, typer: Typer) -> Typed:
    """`causal_mask(n: T)` → bool[n: T, n2: T], true where n2 ≤ n."""
    name, length, _ = bound.named_axes[0]
    shape = Shape((Axis(length, name), Axis(length, f"{name}2")))
    return Typed(Mask(shape), (("axis", Length(length, name)),))
