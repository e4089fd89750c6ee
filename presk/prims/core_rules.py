"""Typing of the primitives of the core: from the operands' types and the attributes to the result's type.

A primitive that a program can write has the rule of the builtin (`from_surface`); the others have one here. Elementwise primitives
are structural: on trees and tuples they work leaf by leaf, and a real scalar goes to every leaf. Where the type decides what a
primitive makes (`zeros`, `normal`) the declared type is what a rule is asked to accept.

A rule gives all attributes that the use must have. How operands lie in a result is found as the language finds it, unless the
use says it: an adjoint may lay an operand where no program can.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from presk.prims.attrs import Align, Attr, AxisName, AxisNames, Length, Place, Select, Word
from presk.prims.axes import axis_place
from presk.prims.surface import At, Bound, Operand, Refused, Rule, Typed, Typer
from presk.types.dim import Dim, NonLinear, constant
from presk.types.trees import ParamField, UseField
from presk.types.type import (
    SCALAR,
    Axis,
    Function,
    Hyper,
    HyperKind,
    Index,
    Instance,
    Key,
    Mask,
    Params,
    Real,
    Shape,
    Stack,
    Stacked,
    Tuple,
    Type,
)

NOWHERE: Final[At] = (0, -1)


class CoreTyper(Typer, Protocol):
    """What the rules of the core ask besides."""

    def same_type(self, left: Type, right: Type, message: str) -> None:
        """Refused unless the types agree; an axis that one of them leaves without a name agrees with any."""

    def fields(self, instance: Instance) -> tuple[ParamField | UseField, ...]:
        """The fields of a module instance."""

    def slice_of(self, stack: Type) -> Type:
        """The type of one value of a stack; refused for what is none."""


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a primitive: the types of its operands, its attributes, the type that is declared for its value."""

    name: str
    operands: tuple[Type, ...]
    attrs: Mapping[str, Attr]
    result: Type


CoreRule = Callable[[Use, CoreTyper], Typed]

A = TypeVar("A")


def refused(message: str) -> Refused:
    """A use that is not typed; there is no place in a program to blame."""
    return Refused("", message)


def attribute(use: Use, key: str, kind: type[A]) -> A:
    """An attribute of a kind; refused without it."""
    found = use.attrs.get(key)
    if not isinstance(found, kind):
        raise refused(f"the attribute `{key}` is missing")
    return found


def real_shape(type_: Type, what: str) -> Shape:
    """The shape of a real tensor."""
    if not isinstance(type_, Real):
        raise refused(f"{what} is a real tensor, not `{type_}`")
    return type_.shape


def require_key(type_: Type) -> None:
    """Refused for what is no key."""
    if not isinstance(type_, Key):
        raise refused(f"a key is wanted, not `{type_}`")


# --- builtins -----------------------------------------------------------------------------------------------------------


def from_surface(rule: Rule, params: tuple[str, ...], constants: Mapping[str, str] = MappingProxyType({})) -> CoreRule:
    """The rule of a builtin with these parameters; `constants` are attributes that hold the file's constants, by name."""

    def core(use: Use, typer: CoreTyper) -> Typed:
        operands = {name: Operand(name, type_, NOWHERE) for name, type_ in zip(params, use.operands)}
        axes = tuple(
            (attr.name, NOWHERE) for attr in use.attrs.values() if isinstance(attr, AxisName) and attr.name is not None
        )
        named = tuple(
            (attr.name, attr.dim, NOWHERE)
            for key, attr in use.attrs.items()
            if isinstance(attr, Length) and attr.name is not None and key not in constants.values()
        )
        values = {name: attribute(use, key, Length).dim for name, key in constants.items()}
        return rule(Bound(use.name, NOWHERE, axes, operands, named, values), typer)

    return core


def with_attributes(rule: CoreRule, axes: int = 0, lengths: int = 0) -> CoreRule:
    """The rule, asked only where the use names as many axes and lengths as it reads."""

    def core(use: Use, typer: CoreTyper) -> Typed:
        named = sum(isinstance(attr, AxisName) and attr.name is not None for attr in use.attrs.values())
        made = sum(isinstance(attr, Length) and attr.name is not None for attr in use.attrs.values())
        if named != axes or made != lengths:
            raise refused(f"`{use.name}` names {axes} axes and makes {lengths}")
        return rule(use, typer)

    return core


def declared_names(rule: CoreRule) -> CoreRule:
    """The rule, for a primitive that is also the adjoint of another one: the value has the names of what that one read."""

    def core(use: Use, typer: CoreTyper) -> Typed:
        typed = rule(use, typer)
        typer.same_type(typed.type, use.result, f"the value of `{use.name}`")
        return Typed(use.result, typed.attrs)

    return core


# --- elementwise --------------------------------------------------------------------------------------------------------


def _structure(type_: Type) -> Type:
    if isinstance(type_, Real | Params | Tuple | Stack):
        return type_
    raise refused(f"a real tensor or a structure of them is wanted, not `{type_}`")


def unary(use: Use, typer: CoreTyper) -> Typed:
    """`f x`: leaf by leaf."""
    return Typed(_structure(use.operands[0]))


def binary(use: Use, typer: CoreTyper) -> Typed:
    """`f x, y`: two tensors are broadcast, two structures of one type meet leaf by leaf, a scalar meets every leaf."""
    left, right = use.operands
    if isinstance(left, Real) and isinstance(right, Real):
        if not use.attrs:
            joined = typer.broadcast(left.shape, right.shape)
            return Typed(Real(joined.shape), (("left", joined.left), ("right", joined.right)))
        one, other = attribute(use, "left", Align), attribute(use, "right", Align)
        if one == whole(left.shape) and _size(left.shape) >= _size(right.shape):
            shape = laid(right.shape, other, left.shape, typer)
        elif other == whole(right.shape):
            shape = laid(left.shape, one, right.shape, typer)
        else:
            raise refused("neither operand has the shape of the result")
        return Typed(Real(shape), (("left", one), ("right", other)))
    if left == Real(SCALAR):
        return Typed(_structure(right))
    if right == Real(SCALAR):
        return Typed(_structure(left))
    typer.same_type(left, right, f"`{use.name}` of two structures")
    return Typed(_structure(left))


def _size(shape: Shape) -> tuple[bool, int]:
    return shape.prefix is not None, len(shape.axes)


def whole(shape: Shape) -> Align:
    """How a shape lies in itself."""
    return Align(shape.prefix is not None, tuple(range(-len(shape.axes), 0)))


def laid(small: Shape, align: Align, large: Shape, typer: CoreTyper) -> Shape:
    """The larger shape with the smaller one laid on it, and the names of both; refused where it does not lie so."""
    places = align.axes
    if align.prefix != (small.prefix is not None) or (align.prefix and large.prefix != small.prefix):
        raise refused(f"the prefix of `ℝ[{small}]` does not lie in `ℝ[{large}]`")
    fits = len(places) == len(small.axes) and len(set(places)) == len(places)
    if not fits or not all(-len(large.axes) <= place < 0 for place in places):
        raise refused(f"`ℝ[{small}]` does not lie at {places} of `ℝ[{large}]`")
    axes = list(large.axes)
    for axis, place in zip(small.axes, places):
        merged = typer.same_shape(Shape((axes[place],)), Shape((axis,)), f"`{axis}` lies on `{axes[place]}`")
        axes[place] = merged.axes[0]
    return typer.distinct(Shape(tuple(axes), large.prefix))


def power(use: Use, typer: CoreTyper) -> Typed:
    """`pow n x`, n a natural constant."""
    n = attribute(use, "n", Length)
    if n.dim.natural() is None or n.name is not None:
        raise refused("the exponent is a natural number")
    return Typed(_structure(use.operands[0]), (("n", n),))


def power_by_value(use: Use, typer: CoreTyper) -> Typed:
    """`powv x, n`, n a natural number that the program computes."""
    x, n = use.operands
    if n not in (Hyper(HyperKind.NAT), Hyper(HyperKind.INT)):
        raise refused(f"the exponent is a whole number, not `{n}`")
    return Typed(_structure(x))


def sum_squares(use: Use, typer: CoreTyper) -> Typed:
    """The squared norm over all leaves."""
    _structure(use.operands[0])
    return Typed(Real(SCALAR))


# --- adjoints of broadcasts, reductions, contractions -------------------------------------------------------------------


def sum_to(use: Use, typer: CoreTyper) -> Typed:
    """`sum_to ct, t`: t broadcasts into ct, and the value has t's type."""
    ct, t = (real_shape(type_, "an operand") for type_ in use.operands)
    if use.attrs:
        align = attribute(use, "align", Align)
        laid(t, align, ct, typer)
        return Typed(use.operands[1], (("align", align),))
    joined = typer.broadcast(ct, t)
    if joined.left != whole(joined.shape):
        raise refused(f"`ℝ[{t}]` does not lie in `ℝ[{ct}]`")
    return Typed(use.operands[1], (("align", joined.right),))


def unreduced(use: Use, typer: CoreTyper) -> Typed:
    """`broadcast_like ct, t` and `mean_vjp ct, t`: ct is t reduced over the axis, and the value has t's type."""
    ct, t = (real_shape(type_, "an operand") for type_ in use.operands)
    axis = attribute(use, "axis", AxisName)
    reduced = SCALAR
    if axis.name is not None:
        place = axis_place(t, axis.name, NOWHERE, use.operands[1])
        reduced = Shape(t.axes[:place] + t.axes[place + 1 :], t.prefix)
    typer.same_shape(ct, reduced, f"`ℝ[{ct}]` is not `ℝ[{t}]` reduced")
    return Typed(use.operands[1], (("axis", axis),))


def _declared(use: Use, derived: Shape, typer: CoreTyper) -> Typed:
    """The declared type, if it is the derived one but for names."""
    typer.same_shape(real_shape(use.result, "the value"), derived, f"`{use.result}` is not `{Real(derived)}`")
    return Typed(use.result)


def dot_vjp_l(use: Use, typer: CoreTyper) -> Typed:
    """`dot_vjp_l ct, w` of `dot x, w`, with the names of x."""
    ct, w = (real_shape(type_, "an operand") for type_ in use.operands)
    rest = w.axes[1:]
    if not w.axes or w.prefix is not None or len(ct.axes) < len(rest):
        raise refused(f"`ℝ[{ct}]` is no cotangent of a product with `ℝ[{w}]`")
    kept = len(ct.axes) - len(rest)
    typer.same_shape(Shape(ct.axes[kept:]), Shape(rest), "the cotangent's last axes are w's")
    return _declared(use, Shape((*ct.axes[:kept], w.axes[0]), ct.prefix), typer)


def dot_vjp_r(use: Use, typer: CoreTyper) -> Typed:
    """`dot_vjp_r x, ct` of `dot x, w`, with the names of w."""
    x, ct = (real_shape(type_, "an operand") for type_ in use.operands)
    leading = len(x.axes) - 1
    if leading < 0 or len(ct.axes) < leading:
        raise refused(f"`ℝ[{ct}]` is no cotangent of a product of `ℝ[{x}]`")
    typer.same_shape(
        Shape(x.axes[:leading], x.prefix), Shape(ct.axes[:leading], ct.prefix), "the cotangent's first axes are x's"
    )
    return _declared(use, Shape((x.axes[-1], *ct.axes[leading:])), typer)


def ein(use: Use, typer: CoreTyper) -> Typed:
    """`ein[out] x[in0], y[in1]`: equal names have equal lengths, and the value has the names of `out`."""
    out = attribute(use, "out", AxisNames)
    attrs: list[tuple[str, Attr]] = [("out", out)]
    lengths: dict[str, Dim] = {}
    for place, type_ in enumerate(use.operands):
        names = attribute(use, f"in{place}", AxisNames)
        attrs.append((f"in{place}", names))
        shape = real_shape(type_, "an operand")
        if shape.prefix is not None or len(names.names) != len(shape.axes) or len(set(names.names)) != len(shape.axes):
            raise refused(f"the names [{', '.join(names.names)}] are not those of `{type_}`")
        for name, axis in zip(names.names, shape.axes):
            typer.equal(axis.length, lengths.setdefault(name, axis.length), "", f"the lengths of axis `{name}`")
    if not set(out.names) <= set(lengths) or len(set(out.names)) != len(out.names):
        raise refused("an axis of the result is in no operand, or twice in the result")
    return Typed(Real(Shape(tuple(Axis(lengths[name], name) for name in out.names))), tuple(attrs))


def cross_entropy_vjp(entropy: CoreRule) -> CoreRule:
    """`cross_entropy_vjp logits, y, ct`, of the type of the logits."""

    def rule(use: Use, typer: CoreTyper) -> Typed:
        logits, y, ct = use.operands
        value = entropy(Use(use.name, (logits, y), {}, ct), typer)
        typer.same_type(ct, value.type, "the cotangent of `cross_entropy`")
        return Typed(logits)

    return rule


def embed_vjp(embed: CoreRule) -> CoreRule:
    """`embed_vjp t, ct, w`, of the type of the table w."""

    def rule(use: Use, typer: CoreTyper) -> Typed:
        t, ct, w = use.operands
        value = embed(Use(use.name, (w, t), {}, ct), typer)
        typer.same_type(ct, value.type, "the cotangent of `embed`")
        return Typed(w)

    return rule


# --- moving -------------------------------------------------------------------------------------------------------------


def _selected(use: Use, type_: Type, ranges: bool) -> tuple[Type, tuple[tuple[str, Attr], ...]]:
    """What the selectors of the use make of a tensor: slices keep their axes, the others drop theirs."""
    if not isinstance(type_, Real | Index | Mask):
        raise refused(f"only tensors are indexed, not `{type_}`")
    kept: list[Axis | None] = list(type_.shape.axes)
    attrs: list[tuple[str, Attr]] = []
    for count, key in enumerate(use.attrs):
        select = attribute(use, f"s{count}", Select)
        place = select.position + len(kept)
        if select.position >= 0 or place < 0 or (axis := kept[place]) is None or axis.name != select.axis:
            raise refused(f"`{key}` selects no axis of `{type_}`")
        if (select.hi is not None) is not ranges:
            raise refused(f"`{key}` is {'no slice' if ranges else 'a slice'}")
        kept[place] = None if select.hi is None else Axis(select.hi - select.lo, axis.name)
        attrs.append((f"s{count}", select))
    if not attrs:
        raise refused("nothing is selected")
    shape = Shape(tuple(axis for axis in kept if axis is not None), type_.shape.prefix)
    return (Index(type_.bound, shape) if isinstance(type_, Index) else type(type_)(shape)), tuple(attrs)


def selection(*, ranges: bool) -> CoreRule:
    """`slice` and `index`."""

    def rule(use: Use, typer: CoreTyper) -> Typed:
        return Typed(*_selected(use, use.operands[0], ranges))

    return rule


def selection_vjp(*, ranges: bool) -> CoreRule:
    """`slice_vjp ct, x` and `scatter_index ct, x`: ct is x's selection, and the value has x's type."""

    def rule(use: Use, typer: CoreTyper) -> Typed:
        ct, x = use.operands
        selected, attrs = _selected(use, x, ranges)
        typer.same_type(ct, selected, f"the cotangent of a selection of `{x}`")
        return Typed(x, attrs)

    return rule


def reshape_like(use: Use, typer: CoreTyper) -> Typed:
    """`reshape_like ct, x`: as many elements, and x's type."""
    ct, x = (real_shape(type_, "an operand") for type_ in use.operands)
    try:
        counts = (_count(ct), _count(x))
    except NonLinear:
        counts = None
    if counts is not None:
        typer.equal(*counts, "", "the numbers of elements")
    if ct.prefix != x.prefix:
        raise refused(f"`ℝ[{ct}]` has not as many elements as `ℝ[{x}]`")
    return Typed(use.operands[1])


def _count(shape: Shape) -> Dim:
    """The number of elements behind the prefix; NonLinear if two lengths are symbolic."""
    total = constant(1)
    for axis in shape.axes:
        total = total * axis.length
    return total


def retag(use: Use, typer: CoreTyper) -> Typed:
    """The same value under other axis names."""
    typer.same_type(nameless(use.operands[0]), nameless(use.result), "`retag` changes names only")
    return Typed(use.result)


def nameless(type_: Type) -> Type:
    """The type without axis names."""
    match type_:
        case Real(shape):
            return Real(_nameless(shape))
        case Mask(shape):
            return Mask(_nameless(shape))
        case Index(bound, shape):
            return Index(bound, _nameless(shape))
        case Tuple(items):
            return Tuple(tuple(map(nameless, items)))
        case Stack(count, item):
            return Stack(count, nameless(item))
        case _:
            return type_


def _nameless(shape: Shape) -> Shape:
    return Shape(tuple(Axis(axis.length) for axis in shape.axes), shape.prefix)


# --- what the type decides ----------------------------------------------------------------------------------------------


def made_by_type(use: Use, typer: CoreTyper) -> Typed:
    """`zeros`, `ones`, `stack_zero`: a closed type says what is made."""
    _closed(use.result)
    return Typed(use.result)


def _closed(type_: Type) -> None:
    match type_:
        case Real(shape) | Mask(shape) | Index(_, shape) if shape.prefix is None:
            pass
        case Params() | Key():
            pass
        case Tuple(items):
            for item in items:
                _closed(item)
        case Stack(_, item):
            _closed(item)
        case _:
            raise refused(f"`{type_}` does not decide a value")


def pi(use: Use, typer: CoreTyper) -> Typed:
    """π."""
    return Typed(Real(SCALAR))


def _drawn(use: Use) -> None:
    require_key(use.operands[0])
    if real_shape(use.result, "the value").prefix is not None:
        raise refused(f"`{use.result}` does not decide a value")


def normal(use: Use, typer: CoreTyper) -> Typed:
    """`normal std=s key`."""
    _drawn(use)
    return Typed(use.result, (("std", attribute(use, "std", Word)),))


def xavier_uniform(use: Use, typer: CoreTyper) -> Typed:
    """`xavier_uniform key`."""
    _drawn(use)
    return Typed(use.result)


def split_key(use: Use, typer: CoreTyper) -> Typed:
    """`split_key n key`: a tuple of n keys."""
    require_key(use.operands[0])
    n = attribute(use, "n", Length)
    count = n.dim.natural()
    if count is None:
        raise refused("the number of keys is a natural number")
    return Typed(Tuple((Key(),) * count), (("n", n),))


# --- structures ---------------------------------------------------------------------------------------------------------


def zeros_like(use: Use, typer: CoreTyper) -> Typed:
    """Zeros of the operand's type; it is read for its shape only."""
    if isinstance(use.operands[0], Function):
        raise refused("a function value has no zero")
    return Typed(use.operands[0])


def field_type(typer: CoreTyper, tree: Type, name: str) -> Type:
    """The type of a field of a tree."""
    if not isinstance(tree, Params):
        raise refused(f"`{tree}` has no fields")
    for item in typer.fields(tree.instance):
        if item.name == name:
            return item.type if isinstance(item, ParamField) else Params(item.instance)
    raise refused(f"`{tree}` has no field `{name}`")


def set_field(use: Use, typer: CoreTyper) -> Typed:
    """`set_field name tree, value`."""
    tree, value = use.operands
    name = attribute(use, "name", Word)
    typer.same_type(value, field_type(typer, tree, name.text), f"the field `{name.text}`")
    return Typed(tree, (("name", name),))


def set_elem(use: Use, typer: CoreTyper) -> Typed:
    """`set_elem place tuple, value`."""
    whole, value = use.operands
    place = attribute(use, "place", Place)
    if not isinstance(whole, Tuple) or not 0 <= place.value < len(whole.items):
        raise refused(f"`{whole}` has no item {place.value}")
    typer.same_type(value, whole.items[place.value], f"item {place.value}")
    return Typed(whole, (("place", place),))


def _slice_type(typer: CoreTyper, tree: Type, place: Place) -> Type:
    if not (isinstance(tree, Params) and isinstance(tree.instance, Stacked)):
        raise refused(f"`{tree}` is no stacked tree")
    count = tree.instance.length
    if place.value < 0 or (count.is_constant() and place.value >= count.constant):
        raise refused(f"`{tree}` has no slice {place.value}")
    return Params(tree.instance.inner)


def slice_params(use: Use, typer: CoreTyper) -> Typed:
    """`slice_params i tree`."""
    place = attribute(use, "i", Place)
    return Typed(_slice_type(typer, use.operands[0], place), (("i", place),))


def scatter_params(use: Use, typer: CoreTyper) -> Typed:
    """`scatter_params i ct, tree`: ct as slice i of zeros."""
    ct, tree = use.operands
    place = attribute(use, "i", Place)
    typer.same_type(ct, _slice_type(typer, tree, place), f"slice {place.value}")
    return Typed(tree, (("i", place),))


def stack_params(use: Use, typer: CoreTyper) -> Typed:
    """`stack_params n tree, …`: n trees of one type; of none the declared type."""
    n = attribute(use, "n", Length)
    typer.equal(n.dim, constant(len(use.operands)), "", "the number of trees")
    if not isinstance(use.result, Params) or not isinstance(use.result.instance, Stacked):
        raise refused(f"`{use.result}` is no stacked tree")
    typer.equal(use.result.instance.length, n.dim, "", "the length of the stack")
    for tree in use.operands:
        typer.same_type(tree, Params(use.result.instance.inner), "a tree of the stack")
    return Typed(use.result, (("n", n),))


def set_slice(use: Use, typer: CoreTyper) -> Typed:
    """`set_slice stack, value, i`."""
    stack, value, i = use.operands
    typer.same_type(value, typer.slice_of(stack), "a slice of the stack")
    _whole_number(i)
    return Typed(stack)


def get_slice(use: Use, typer: CoreTyper) -> Typed:
    """`get_slice stack, i`."""
    stack, i = use.operands
    _whole_number(i)
    return Typed(typer.slice_of(stack))


def _whole_number(type_: Type) -> None:
    if type_ not in (Hyper(HyperKind.NAT), Hyper(HyperKind.INT)):
        raise refused(f"a slice is selected by a whole number, not by `{type_}`")


# --- hyperparameters ----------------------------------------------------------------------------------------------------


_ORDER: Final = (HyperKind.NAT, HyperKind.INT, HyperKind.RAT, HyperKind.F64)


def _number(type_: Type) -> HyperKind:
    if not isinstance(type_, Hyper) or type_.kind is HyperKind.BOOL:
        raise refused(f"a number is wanted, not `{type_}`")
    return type_.kind


def _common(use: Use) -> HyperKind:
    return max(map(_number, use.operands), key=_ORDER.index)


def hyper(*, closed: bool) -> CoreRule:
    """Arithmetic of numbers, in the larger of their kinds; where the naturals are not `closed`, `nat` gives `int`."""

    def rule(use: Use, typer: CoreTyper) -> Typed:
        kind = _common(use)
        return Typed(Hyper(HyperKind.INT if kind is HyperKind.NAT and not closed else kind))

    return rule


def hyper_pow(use: Use, typer: CoreTyper) -> Typed:
    """A number to a natural power."""
    base, exponent = map(_number, use.operands)
    if exponent is not HyperKind.NAT:
        raise refused(f"the exponent is a `nat`, not `{exponent}`")
    return Typed(Hyper(base))


def hyper_compare(use: Use, typer: CoreTyper) -> Typed:
    """A comparison of two numbers."""
    _common(use)
    return Typed(Hyper(HyperKind.BOOL))
