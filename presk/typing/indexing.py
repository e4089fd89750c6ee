"""Typing of `t[selectors]`: selectors drop an axis, slices keep it; bounds are proved (Typing; decisions O29, L173–L180)."""

from presk.prims.attrs import Select
from presk.prims.axes import axis_place
from presk.prims.surface import Refused
from presk.syntax import tree
from presk.types.claim import Claim, Refuted, Relation
from presk.types.dim import ZERO, Dim
from presk.types.type import Axis, Index, Mask, Real, Shape, Type
from presk.typing import expressions
from presk.typing.annotations import body_dimension
from presk.typing.checker import Checker
from presk.typing.scope import Scope
from presk.typing.typed import IndexInto, Typed, Wrong
from presk.typing.unify import WRONG, describe


def index(checker: Checker, expr: tree.Index, scope: Scope) -> Typed:
    """An index expression on a real tensor, an index tensor or a mask."""
    base = expressions.infer(checker, expr.base, scope)
    return checker.when_known(expr.at, (base.type,), lambda: _index(checker, expr, base, scope))


def _index(checker: Checker, expr: tree.Index, base: Typed, scope: Scope) -> Typed:
    type_ = checker.subst.type(base.type)
    if not isinstance(type_, Real | Index | Mask):
        raise Refused("E2001", f"only tensors are indexed, and this is {describe(type_)}", at=expr.base.at)
    shape = type_.shape
    selects: dict[int, Select] = {}
    kept = list(shape.axes)
    positional = 0
    ok = True
    for selector in expr.selectors:
        if selector.axis is None:
            if shape.prefix is not None:
                raise Refused(
                    "E2008",
                    f"`{type_}` has an open prefix: its axes are selected by name",
                    at=selector.at,
                    mend="write `t[name: …]`",
                )
            place = positional
            positional += 1
            if place >= len(shape.axes):
                raise Refused("E2008", f"`{type_}` has no axis {place}", at=selector.at, text=f"selector {place + 1}")
        else:
            place = axis_place(shape, selector.axis, selector.at, type_)
        if place in selects:
            raise Refused("E2004", f"axis {_axis(shape.axes[place], place)} is selected twice", at=selector.at)
        select = _select(checker, selector, shape.axes[place], place - len(shape.axes), scope)
        if select is None:
            ok = False
            continue
        selects[place] = select
        if select.hi is not None:
            kept[place] = Axis(select.hi - select.lo, shape.axes[place].name)
    if not ok:
        return Wrong(expr.at, WRONG)
    remaining = tuple(axis for place, axis in enumerate(kept) if place not in selects or selects[place].hi is not None)
    return IndexInto(
        expr.at, _with_shape(type_, Shape(remaining, shape.prefix)), base, tuple(selects[place] for place in selects)
    )


def _axis(axis: Axis, place: int) -> str:
    return f"`{axis.name}`" if axis.name is not None else str(place)


def _with_shape(type_: Real | Index | Mask, shape: Shape) -> Type:
    match type_:
        case Real():
            return Real(shape)
        case Mask():
            return Mask(shape)
        case Index(bound, _):
            return Index(bound, shape)


def _select(checker: Checker, selector: tree.Selector, axis: Axis, position: int, scope: Scope) -> Select | None:
    value = selector.value
    if isinstance(value, tree.Slice):
        lo, hi = body_dimension(checker, value.lo, scope), body_dimension(checker, value.hi, scope)
        if lo is None or hi is None:
            return None
        _whole(lo, value.lo.at)
        _whole(hi, value.hi.at)
        _in_bounds(checker, selector, lo, hi, axis)
        return Select(axis.name, position, lo, hi)
    place = body_dimension(checker, value, scope)
    if place is None:
        return None
    _not_certainly_outside(checker, selector, place, axis)
    return Select(axis.name, position, place, None)


def _whole(place: Dim, at: tree.At) -> None:
    """Refuses what is a fraction at every value (E2014). (The coefficients of a dimension that was not refused give whole sums.)"""
    if place.constant.denominator != 1 and all(factor.denominator == 1 for _, factor in place.terms):
        raise Refused("E2014", f"`{place}` is not a whole number", at=at)


def _in_bounds(checker: Checker, selector: tree.Selector, lo: Dim, hi: Dim, axis: Axis) -> None:
    """`0 ≤ lo ≤ hi ≤ length` for every value of the dimensions, or E2014."""
    length = checker.subst.dim(axis.length)
    for claim, words in (
        (Claim(Relation.LE, ZERO, lo), f"0 <= {lo}"),
        (Claim(Relation.LE, lo, hi), f"{lo} <= {hi}"),
        (Claim(Relation.LE, hi, length), f"{hi} <= {length}"),
    ):
        failure = checker.prove(claim)
        if failure is not None:
            raise Refused(
                "E2014",
                f"the slice `{lo}..{hi}` is not within the axis of length `{length}`",
                at=selector.value.at,
                text=f"`{words}` {failure}",
            )


def _not_certainly_outside(checker: Checker, selector: tree.Selector, place: Dim, axis: Axis) -> None:
    """A selection that is outside its axis at every value of the dimensions is refused (E2014)."""
    length = checker.subst.dim(axis.length)
    _whole(place, selector.value.at)
    # Inside: 0 <= place < length, or for a negative constant -k: k <= length. Certainly outside: the opposite always holds.
    if place.is_constant() and place.constant < 0:
        verdict = checker.subst.prove(Claim(Relation.LT, length, -place))
    else:
        verdict = checker.subst.prove(Claim(Relation.GE, place, length), Claim(Relation.GE, place, ZERO))
    if not isinstance(verdict, Refuted):
        raise Refused(
            "E2014",
            f"`{place}` is outside the axis of length `{length}`",
            at=selector.value.at,
            text="outside the axis",
        )
