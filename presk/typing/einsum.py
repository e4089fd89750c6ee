"""Typing of `ein[out](a * b)`: form, relabelling, lengths (Typing, "ein"; decision O27)."""

from collections.abc import Sequence

from presk.prims.attrs import AxisNames
from presk.prims.surface import Refused
from presk.syntax import tree
from presk.types.type import Axis, Real, Shape
from presk.typing import expressions
from presk.typing.checker import Checker
from presk.typing.scope import Scope
from presk.typing.typed import EinSum, Typed
from presk.typing.unify import describe, show_dim


def ein(checker: Checker, expr: tree.Ein, scope: Scope) -> Typed:
    """An Einstein summation of one or more factors."""
    seen: set[str] = set()
    for axis in expr.axes:
        if axis.name in seen:
            raise Refused("E1021", f"axis `{axis.name}` stands twice in the result", at=axis.at)
        seen.add(axis.name)
    factors = tuple(expressions.infer(checker, factor, scope) for factor in _factors(expr.body))
    return checker.when_known(expr.at, tuple(item.type for item in factors), lambda: _ein(checker, expr, factors))


def _factors(body: tree.Expr) -> list[tree.Expr]:
    """The factors of the product, or the body alone as its one factor; E2011 for a body that is a sum or a quotient."""
    if isinstance(body, tree.Negate) or (isinstance(body, tree.Binary) and body.operator not in ("*", "·", "^")):
        operator = body.operator if isinstance(body, tree.Binary) else "-"
        raise Refused(
            "E2011",
            f"the body of `ein` is a product, and this has a `{operator}`",
            at=body.at,
            text="not a product",
            mend="bind it with `let` first",
        )
    found: list[tree.Expr] = []
    stack: list[tree.Expr] = [body]
    while stack:
        item = stack.pop()
        if isinstance(item, tree.Binary) and item.operator == "*":
            stack += [item.right, item.left]
        else:
            found.append(item)
    return found


def _ein(checker: Checker, expr: tree.Ein, factors: Sequence[Typed]) -> Typed:
    shapes: list[Shape] = []
    for factor in factors:
        type_ = checker.subst.type(factor.type)
        if not isinstance(type_, Real):
            raise Refused("E2001", f"`ein` multiplies real tensors, and this is {describe(type_)}", at=factor.at)
        if type_.shape.prefix is not None or any(axis.name is None for axis in type_.shape.axes):
            raise Refused(
                "E2011",
                f"every axis of an operand of `ein` has a name, and `{type_}` has one without",
                at=factor.at,
                text=f"this is `{type_}`",
                mend="name it with an ascription: `(x : ℝ[batch: B, …])`",
            )
        names = [axis.name for axis in type_.shape.axes]
        if len(set(names)) != len(names):
            raise Refused("E2011", f"an axis name stands twice in `{type_}`", at=factor.at)
        shapes.append(type_.shape)
    output = [axis.name for axis in expr.axes]
    operands = relabel([[axis.name or "" for axis in shape.axes] for shape in shapes], output, expr)
    lengths: dict[str, tuple[Axis, tree.At]] = {}
    for factor, shape, labels in zip(factors, shapes, operands, strict=True):
        for axis, name in zip(shape.axes, labels, strict=True):
            if name not in lengths:
                lengths[name] = (axis, factor.at)
                continue
            first, at = lengths[name]
            mismatch = checker.subst.unify_dim(first.length, axis.length)
            if mismatch is not None:
                raise Refused(
                    "E2003",
                    f"axis `{name}` has length `{show_dim(first.length)}` here and `{show_dim(axis.length)}` there",
                    labels=((at, f"`{first}`"), (factor.at, f"`{axis}`")),
                    notes=(mismatch.why,),
                )
    for item in expr.axes:
        if item.name not in lengths:
            raise Refused(
                "E2011",
                f"axis `{item.name}` of the result is in no operand",
                at=item.at,
                notes=(f"the operands' axes: {', '.join(f'`{name}`' for name in lengths)}",),
            )
    result = Shape(tuple(Axis(lengths[name][0].length, name) for name in output))
    return EinSum(
        expr.at,
        Real(result),
        AxisNames(tuple(output)),
        tuple(AxisNames(tuple(names)) for names in operands),
        tuple(factors),
    )


def relabel(operands: Sequence[Sequence[str]], output: Sequence[str], expr: tree.Ein) -> list[list[str]]:
    """Renames a name that exactly two operands carry, in the later one, to its one unmatched copy `name<digits>`.

    A copy is unmatched if it is in the output and in no operand, or in one operand and not in the output; a copy that the
    later operand carries itself is no candidate. Two candidates are E2009.
    """
    renamed = [list(names) for names in operands]
    everything = [name for names in operands for name in names]
    for name in dict.fromkeys(everything):
        carriers = [place for place, names in enumerate(operands) if name in names]
        if len(carriers) != 2:
            continue
        later = carriers[1]
        copies = dict.fromkeys(
            other
            for other in (*output, *everything)
            if other.startswith(name) and other[len(name) :].isascii() and other[len(name) :].isdigit()
        )
        candidates = []
        for copy in copies:
            count = sum(copy in names for names in operands)
            unmatched = (copy in output and count == 0) or (copy not in output and count == 1)
            if unmatched and copy not in operands[later]:
                candidates.append(copy)
        if len(candidates) > 1:
            raise Refused(
                "E2009",
                f"axis `{name}` of the second operand could be {' or '.join(f'`{copy}`' for copy in candidates)}",
                notes=("one operand's axis is renamed to the one copy that nothing else matches",),
                mend="name the axes apart with an ascription before the `ein`",
            )
        if candidates:
            renamed[later] = [candidates[0] if other == name else other for other in renamed[later]]
    return renamed
