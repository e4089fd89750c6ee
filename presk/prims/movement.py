"""Typing of what moves or renames axes: merge, split, split_heads, merge_heads, concat, and of matmul."""

from presk.prims.attrs import AxisName, Length
from presk.prims.axes import axis_place
from presk.prims.surface import Bound, Refused, Typed, Typer
from presk.types.dim import NonLinear
from presk.types.type import Axis, Real, Shape


def merge(bound: Bound, typer: Typer) -> Typed:
    """`merge(axis a, axis b, x)`: two adjacent axes, in that order, as one unnamed axis of length |a|·|b|."""
    shape = typer.real(bound.operands["x"])
    (first, first_at), (second, second_at) = bound.axes
    one = axis_place(shape, first, first_at, Real(shape))
    two = axis_place(shape, second, second_at, Real(shape))
    if two != one + 1:
        where = "stands behind" if one > two else "is not adjacent to"
        raise Refused(
            "E2007",
            f"axis `{first}` {where} axis `{second}`" if one != two else f"axis `{first}` cannot be merged with itself",
            at=(first_at[0], second_at[1]),
            text=f"in `{Real(shape)}`",
            notes=("`merge` moves no data: it joins two adjacent axes, in their order",),
        )
    try:
        length = typer.resolve(shape.axes[one].length) * typer.resolve(shape.axes[two].length)
    except NonLinear:
        raise Refused(
            "E1007",
            f"the product of `{shape.axes[one].length}` and `{shape.axes[two].length}` is not linear",
            at=(first_at[0], second_at[1]),
            notes=("one of the two lengths must be constant",),
        ) from None
    axes = (*shape.axes[:one], Axis(length), *shape.axes[two + 1 :])
    return Typed(Real(Shape(axes, shape.prefix)), (("first", AxisName(first)), ("second", AxisName(second))))


def split(bound: Bound, typer: Typer) -> Typed:
    """`split(axis a, n1: L1, n2: L2, x)`: one axis as two named ones, L1 · L2 = |a| (E2006)."""
    shape = typer.real(bound.operands["x"])
    name, at = bound.axes[0]
    place = axis_place(shape, name, at, Real(shape))
    (outer, outer_length, outer_at), (inner, inner_length, inner_at) = bound.named_axes
    try:
        product = typer.resolve(outer_length) * typer.resolve(inner_length)
    except NonLinear:
        raise Refused(
            "E1007",
            f"the product of `{outer_length}` and `{inner_length}` is not linear",
            at=(outer_at[0], inner_at[1]),
            notes=("one of the two lengths must be constant",),
        ) from None
    typer.equal(
        product,
        shape.axes[place].length,
        "E2006",
        f"`{outer}: {outer_length}` times `{inner}: {inner_length}` is not the length of axis `{name}`",
        (outer_at[0], inner_at[1]),
    )
    halves = (Axis(outer_length, outer), Axis(inner_length, inner))
    axes = (*shape.axes[:place], *halves, *shape.axes[place + 1 :])
    result = typer.distinct(Shape(axes, shape.prefix))
    attrs = (("axis", AxisName(name)), ("outer", Length(outer_length, outer)), ("inner", Length(inner_length, inner)))
    return Typed(Real(result), attrs)


def split_heads(bound: Bound, typer: Typer) -> Typed:
    """`ℝ[…, seq, model]` → `ℝ[…, heads: H, seq, hd: HD]`, head-major, with the file's constants H and HD (E2020)."""
    shape = typer.real(bound.operands["x"])
    heads, hd = bound.constants["H"], bound.constants["HD"]
    if len(shape.axes) < 2:
        raise Refused(
            "E2003", f"`split_heads` takes `ℝ[…, seq, model]`, not `{Real(shape)}`", at=bound.operands["x"].at
        )
    seq = shape.axes[-2]
    wanted = Shape((Axis(seq.length, "seq"), Axis(heads * hd, "model")))
    typer.same_shape(
        Shape(shape.axes[-2:]), wanted, "`split_heads` takes `ℝ[…, seq, model: H*HD]`", bound.operands["x"].at
    )
    axes = (*shape.axes[:-2], Axis(heads, "heads"), Axis(seq.length, "seq"), Axis(hd, "hd"))
    return Typed(
        Real(typer.distinct(Shape(axes, shape.prefix))), (("heads", Length(heads, "heads")), ("hd", Length(hd, "hd")))
    )


def merge_heads(bound: Bound, typer: Typer) -> Typed:
    """`ℝ[…, heads, seq, hd]` → `ℝ[…, seq, model]`, the inverse of `split_heads` (E2020)."""
    shape = typer.real(bound.operands["x"])
    heads, hd = bound.constants["H"], bound.constants["HD"]
    if len(shape.axes) < 3:
        raise Refused(
            "E2003", f"`merge_heads` takes `ℝ[…, heads, seq, hd]`, not `{Real(shape)}`", at=bound.operands["x"].at
        )
    seq = shape.axes[-2]
    wanted = Shape((Axis(heads, "heads"), Axis(seq.length, "seq"), Axis(hd, "hd")))
    typer.same_shape(
        Shape(shape.axes[-3:]), wanted, "`merge_heads` takes `ℝ[…, heads: H, seq, hd: HD]`", bound.operands["x"].at
    )
    axes = (*shape.axes[:-3], Axis(seq.length, "seq"), Axis(heads * hd, "model"))
    return Typed(
        Real(typer.distinct(Shape(axes, shape.prefix))), (("heads", Length(heads, "heads")), ("hd", Length(hd, "hd")))
    )


def concat(bound: Bound, typer: Typer) -> Typed:
    """`concat(axis a, x, y)`: shapes equal but for the length of a, which both name (E2008, E2003); lengths add."""
    x, y = bound.operands["x"], bound.operands["y"]
    one, other = typer.real(x), typer.real(y)
    name, _ = bound.axes[0]
    places = []
    for operand, shape in ((x, one), (y, other)):
        places.append(axis_place(shape, name, operand.at, Real(shape)))
    total = one.axes[places[0]].length + other.axes[places[1]].length
    if places[0] != places[1] or len(one.axes) != len(other.axes):
        raise Refused(
            "E2003",
            f"`{Real(one)}` and `{Real(other)}` differ apart from the length of axis `{name}`",
            labels=((x.at, f"`{Real(one)}`"), (y.at, f"`{Real(other)}`")),
        )
    blank = Axis(total, name)
    left = Shape((*one.axes[: places[0]], blank, *one.axes[places[0] + 1 :]), one.prefix)
    right = Shape((*other.axes[: places[1]], blank, *other.axes[places[1] + 1 :]), other.prefix)
    merged = typer.same_shape(left, right, f"the shapes must be equal apart from the length of axis `{name}`", y.at)
    return Typed(Real(typer.distinct(merged)), (("axis", AxisName(name)),))


def dot(bound: Bound, typer: Typer) -> Typed:
    """`x · w`, `matmul(x, w)`: x's last axis against w's first; the remaining axes of x, then those of w."""
    x, w = bound.operands["x"], bound.operands["w"]
    left, right = typer.real(x), typer.real(w)
    if not left.axes or not right.axes or right.prefix is not None:
        bad, shape = (x, left) if not left.axes else (w, right)
        which = "last" if bad is x else "first"
        raise Refused("E2003", f"`·` contracts the {which} axis, and `{Real(shape)}` has none", at=bad.at)
    message = f"`·` contracts `{left.axes[-1]}` of the left operand with `{right.axes[0]}` of the right"
    typer.same_shape(Shape(left.axes[-1:]), Shape(right.axes[:1]), message)
    return Typed(Real(typer.distinct(Shape((*left.axes[:-1], *right.axes[1:]), left.prefix))))
