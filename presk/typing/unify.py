"""Unification of types, shapes and dimensions.

Unknowns are type variables, prefixes `?p3` and symbols `?d7`. Equations between dimensions are linear, so they are solved by
elimination: an equation with an unknown gives that unknown a value (one whose coefficient is ±1 is preferred), and one without
must be proved by the decision procedure. Solutions live in a `Substitution`, which belongs to one body; types stay frozen.

Two axes unify when their lengths are equal and not both carry different names. Unification returns the merged value: where one
side leaves a name out, the other's is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gmpy2 import lcm, mpq

from presk.types.claim import Claim, Proved, Refuted, Relation, Verdict
from presk.types.dim import Dim, constant, symbol
from presk.types.type import (
    Axis,
    Composed,
    Function,
    Hyper,
    HyperKind,
    Index,
    Instance,
    Key,
    Mask,
    ModuleType,
    Named,
    Params,
    Real,
    Shape,
    Stack,
    Stacked,
    Tuple,
    Type,
    TypeVar,
    instance_dims,
    instantiate,
    map_instance,
    type_dims,
)

WRONG: Final = TypeVar("!")
"""The type of an expression that was refused: it unifies with everything, so that one mistake is reported once."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why two types do not unify. `shapes` says that the kinds agree and the shapes (or bounds) do not."""

    why: str
    shapes: bool = False
    bound: bool = False
    notes: tuple[str, ...] = ()


Decide = Callable[[Claim, Sequence[Claim]], Verdict]


@dataclass(slots=True)
class Substitution:
    """The solutions found so far in one body, and how obligations are proved there."""

    decide: Decide
    facts: tuple[Claim, ...]
    expand: Callable[[Instance], Instance]
    _types: dict[str, Type] = field(default_factory=dict)
    _prefixes: dict[str, Shape] = field(default_factory=dict)
    _dims: dict[str, Dim] = field(default_factory=dict)
    _unproved: list[str] = field(default_factory=list)
    _count: int = 0

    # --- unknowns ---------------------------------------------------------------------------------------------------

    def fresh_type(self) -> TypeVar:
        """A new unknown type."""
        self._count += 1
        return TypeVar(f"?t{self._count}")

    def fresh_prefix(self) -> str:
        """A new unknown prefix."""
        self._count += 1
        return f"?p{self._count}"

    def fresh_dim(self, hint: str = "") -> Dim:
        """A new unknown dimension; `hint` is the callee's name for it, shown in messages."""
        self._count += 1
        return symbol(f"?{self._count}.{hint}")

    # --- resolution -------------------------------------------------------------------------------------------------

    def dim(self, value: Dim) -> Dim:
        """The form with solved unknowns replaced; the same object where there is none."""
        dims = self._dims
        while True:
            for name, _ in value.terms:
                if name in dims:
                    break
            else:
                return value
            value = value.substitute(dims)

    def shape(self, value: Shape) -> Shape:
        """The shape with solved lengths and prefix replaced; the same object where nothing was solved."""
        axes = self._axes(value.axes)
        prefix = value.prefix
        while prefix is not None and prefix in self._prefixes:
            front = self._prefixes[prefix]
            axes = self._axes(front.axes) + axes
            prefix = front.prefix
        return value if axes is value.axes and prefix == value.prefix else Shape(axes, prefix)

    def _axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """The axes with solved lengths replaced; the same tuple where none was solved."""
        for position, axis in enumerate(axes):
            length = self.dim(axis.length)
            if length is not axis.length:
                rest = [Axis(self.dim(other.length), other.name) for other in axes[position + 1 :]]
                return (*axes[:position], Axis(length, axis.name), *rest)
        return axes

    def instance(self, value: Instance) -> Instance:
        """The instance with solved dimensions replaced."""
        return map_instance(value, self.dim)

    def head(self, value: Type) -> Type:
        """The type, resolved at its head only: a solved variable is followed."""
        while isinstance(value, TypeVar) and value.name in self._types:
            value = self._types[value.name]
        return value

    def type(self, value: Type) -> Type:
        """The type, resolved throughout."""
        value = self.head(value)
        match value:
            case Real(shape):
                resolved = self.shape(shape)
                return value if resolved is shape else Real(resolved)
            case Index(bound, shape):
                return Index(self.dim(bound), self.shape(shape))
            case Mask(shape):
                return Mask(self.shape(shape))
            case Tuple(items):
                return Tuple(tuple(map(self.type, items)))
            case Params(instance):
                return Params(self.instance(instance))
            case ModuleType(instance):
                return ModuleType(self.instance(instance))
            case Function(params, result):
                return Function(tuple(map(self.type, params)), self.type(result))
            case Hyper() | Key() | Stack() | TypeVar():
                return value

    # --- proofs -----------------------------------------------------------------------------------------------------

    def prove(self, claim: Claim, *given: Claim) -> Verdict:
        """The decision procedure under the facts of the function, and where `given` holds."""

        def resolved(one: Claim) -> Claim:
            return Claim(one.relation, self.dim(one.left), self.dim(one.right))

        facts = (*self.facts, *map(resolved, given)) if given else self.facts
        return self.decide(resolved(claim), facts)

    # --- dimensions -------------------------------------------------------------------------------------------------

    def unify_dim(self, left: Dim, right: Dim) -> Mismatch | None:
        """Makes two lengths equal, by solving an unknown or by proof."""
        left, right = self.dim(left), self.dim(right)
        if left == right:
            return None
        difference = left - right
        unknowns = [(name, value) for name, value in difference.terms if name.startswith("?")]
        if not unknowns:
            verdict = self.decide(Claim(Relation.EQ, left, right), self.facts)
            return None if isinstance(verdict, Proved) else Mismatch(self._differ(left, right, verdict), shapes=True)
        name, coefficient = next((pair for pair in reversed(unknowns) if abs(pair[1]) == 1), unknowns[-1])
        solution = (difference - symbol(name).scaled(coefficient)).scaled(-1 / coefficient)
        if not _open(solution):
            verdict = self._length(solution)
            if not isinstance(verdict, Proved):
                why = self._differ(left, right, verdict) if isinstance(verdict, Refuted) and verdict.at else None
                return Mismatch(why or f"`{show_dim(left)}` is `{show_dim(right)}` for no natural number", shapes=True)
        elif solution.constant != 0 or len(solution.terms) > 1 or solution.terms[0][1] != 1:
            self._unproved.append(name)
        self._dims[name] = solution
        return self._prove_solved()

    def _length(self, value: Dim) -> Verdict:
        """Whether an unknown can have this value, which has no unknowns: `Refuted` at nothing if it is a natural number at no
        value of its symbols, else what says that it is a whole one. One that is negative at some values is no mistake yet (O70)."""
        common = lcm(value.constant.denominator, *(factor.denominator for _, factor in value.terms))
        if (value.constant < 0 and all(factor < 0 for _, factor in value.terms)) or (common != 1 and not value.terms):
            return Refuted(())
        if common == 1:
            return Proved()
        return self.decide(Claim(Relation.DIVIDES, value.scaled(mpq(common)), constant(mpq(common))), self.facts)

    def _prove_solved(self) -> Mismatch | None:
        """Looks at the unknowns whose value had unknowns in it and has none now: an equation may decide what an earlier one left
        open, as `A = 5` does for `A + B = 3`."""
        unproved, self._unproved = self._unproved, []
        found = None
        for name in unproved:
            value = self.dim(self._dims[name])
            if _open(value):
                self._unproved.append(name)
                continue
            verdict = self._length(value)
            if found is None and not isinstance(verdict, Proved):
                where = f" for {verdict}" if isinstance(verdict, Refuted) and verdict.at else ""
                said = f"`{show_dim(symbol(name))}` would be `{value}`, which is no natural number{where}"
                found = Mismatch(said, shapes=True)
        return found

    @staticmethod
    def _differ(left: Dim, right: Dim, verdict: Verdict) -> str:
        pair = f"`{show_dim(left)}` against `{show_dim(right)}`"
        if isinstance(verdict, Refuted):
            return f"{pair} fails for {verdict}" if verdict.at else f"{pair} differ"
        return f"{pair} could not be decided"

    # --- shapes -----------------------------------------------------------------------------------------------------

    def unify_axis(self, left: Axis, right: Axis) -> Axis | Mismatch:
        """Makes two axes one; the merged axis keeps whichever name there is."""
        if left.name is not None and right.name is not None and left.name != right.name:
            return Mismatch(f"axis `{left.name}` is not axis `{right.name}`", shapes=True)
        mismatch = self.unify_dim(left.length, right.length)
        name = left.name if left.name is not None else right.name
        if mismatch is not None:
            place = f"axis `{name}`: " if name is not None else ""
            return Mismatch(place + mismatch.why, shapes=True)
        return Axis(self.dim(left.length), name)

    def unify_shape(self, left: Shape, right: Shape) -> Shape | Mismatch:
        """Makes two shapes one."""
        left, right = self.shape(left), self.shape(right)
        if _unknown(right) and len(right.axes) <= len(left.axes):
            front = self._absorb(right, left)
        elif _unknown(left) and len(left.axes) <= len(right.axes):
            front = self._absorb(left, right)
        elif len(left.axes) == len(right.axes) and left.prefix == right.prefix:
            front = Shape((), left.prefix)
        else:
            front = None
        if front is None:
            return Mismatch(self._ranks(left, right), shapes=True)
        merged: list[Axis] = []
        tails = min(len(left.axes), len(right.axes))
        for one, other in zip(_last(left.axes, tails), _last(right.axes, tails), strict=True):
            axis = self.unify_axis(one, other)
            if isinstance(axis, Mismatch):
                return axis
            merged.append(axis)
        return Shape(front.axes + tuple(merged), front.prefix)

    def _absorb(self, short: Shape, long: Shape) -> Shape | None:
        """Lets the unknown prefix of `short` stand for the leading axes of `long`; None where it would contain itself."""
        front = Shape(long.axes[: len(long.axes) - len(short.axes)], long.prefix)
        if front == Shape((), short.prefix):
            return front
        if short.prefix is None or front.prefix == short.prefix:
            return None
        self._prefixes[short.prefix] = front
        return front

    @staticmethod
    def _ranks(left: Shape, right: Shape) -> str:
        def rank(shape: Shape) -> str:
            count = f"{len(shape.axes)} {'axis' if len(shape.axes) == 1 else 'axes'}"
            return count if shape.prefix is None else f"`...` and {count}"

        return f"the ranks differ: {rank(left)} against {rank(right)}"

    def merge_prefix(self, prefix: str, names: Shape) -> None:
        """Gives axes that an unknown prefix stands for the names that `names` knows and it does not."""
        front = self.shape(Shape((), prefix))
        if len(front.axes) == len(names.axes) and front.prefix == names.prefix:
            self._prefixes[prefix] = Shape(
                tuple(
                    Axis(axis.length, axis.name if axis.name is not None else other.name)
                    for axis, other in zip(front.axes, names.axes, strict=True)
                ),
                front.prefix,
            )

    # --- types ------------------------------------------------------------------------------------------------------

    def unify(self, found: Type, wanted: Type) -> Mismatch | None:
        """Makes `found` acceptable where `wanted` is wanted (for hyperparameters a `nat` is an `int` is a `rat`)."""
        found, wanted = self.head(found), self.head(wanted)
        if found == wanted or WRONG in (found, wanted):
            return None
        match found, wanted:
            case _, TypeVar(name):
                return self._bind(name, found)
            case TypeVar(name), _:
                return self._bind(name, wanted)
            case (Real(one), Real(other)) | (Mask(one), Mask(other)):
                merged = self.unify_shape(one, other)
                return merged if isinstance(merged, Mismatch) else None
            case Index(bound, one), Index(other_bound, other):
                if self.unify_dim(bound, other_bound) is not None:
                    return Mismatch(
                        f"index bound `{show_dim(self.dim(bound))}` is not `{show_dim(self.dim(other_bound))}`",
                        bound=True,
                        notes=(f"{self._why_bounds(bound, other_bound)}",),
                    )
                merged = self.unify_shape(one, other)
                return merged if isinstance(merged, Mismatch) else None
            case Hyper(kind), Hyper(other_kind):
                if kind is other_kind or (kind in _RANK and other_kind in _RANK and _RANK[kind] < _RANK[other_kind]):
                    return None
            case Tuple(items), Tuple(others):
                if len(items) != len(others):
                    return Mismatch(f"a tuple of {len(items)} is not a tuple of {len(others)}")
                return next((bad for a, b in zip(items, others, strict=True) if (bad := self.unify(a, b))), None)
            case (Params(one_of), Params(other_of)) | (ModuleType(one_of), ModuleType(other_of)):
                return self.unify_instance(one_of, other_of)
            case Function(params, result), Function(other_params, other_result):
                if len(params) != len(other_params):
                    return Mismatch(f"a function of {len(params)} is not a function of {len(other_params)}")
                bad = next((b for x, y in zip(params, other_params, strict=True) if (b := self.unify(x, y))), None)
                return bad or self.unify(result, other_result)
        return Mismatch(f"{describe(found)} is not {describe(wanted)}")

    def _why_bounds(self, left: Dim, right: Dim) -> str:
        left, right = self.dim(left), self.dim(right)
        return self._differ(left, right, self.decide(Claim(Relation.EQ, left, right), self.facts))

    def _bind(self, name: str, value: Type) -> Mismatch | None:
        if _occurs(name, self.type(value)):
            return Mismatch("a type would contain itself")
        self._types[name] = value
        return None

    def unify_instance(self, found: Instance, wanted: Instance) -> Mismatch | None:
        """Makes two module instances one."""
        found, wanted = self.expand(self.instance(found)), self.expand(self.instance(wanted))
        match found, wanted:
            case Named(module, arguments, hidden), Named(other, other_arguments, other_hidden):
                if module != other:
                    return Mismatch(f"module `{module}` is not module `{other}`")
                pairs = [
                    *zip(arguments, other_arguments, strict=True),
                    *((value, dict(other_hidden)[name]) for name, value in hidden if name in dict(other_hidden)),
                ]
                for left, right in pairs:
                    bad = self.unify_dim(left, right)
                    if bad is not None:
                        return Mismatch(f"`{show(found)}` is not `{show(wanted)}`", notes=(bad.why,))
                return None
            case Stacked(length, inner), Stacked(other_length, other_inner):
                bad = self.unify_dim(length, other_length)
                if bad is not None:
                    return Mismatch(f"`{show(found)}` is not `{show(wanted)}`", notes=(bad.why,))
                return self.unify_instance(inner, other_inner)
            case Composed(outer, inner), Composed(other_outer, other_inner):
                return self.unify_instance(outer, other_outer) or self.unify_instance(inner, other_inner)
        return Mismatch(f"`{show(found)}` is not `{show(wanted)}`")


_RANK: Final = {HyperKind.NAT: 0, HyperKind.INT: 1, HyperKind.RAT: 2}


def _last(axes: tuple[Axis, ...], count: int) -> tuple[Axis, ...]:
    return axes[len(axes) - count :]


def _open(value: Dim) -> bool:
    """Whether a form has unknowns."""
    return any(name.startswith("?") for name, _ in value.terms)


def _unknown(shape: Shape) -> bool:
    return shape.prefix is not None and shape.prefix.startswith("?")


def _occurs(name: str, value: Type) -> bool:
    match value:
        case TypeVar(other):
            return other == name
        case Tuple(items):
            return any(_occurs(name, item) for item in items)
        case Function(params, result):
            return any(_occurs(name, item) for item in (*params, result))
        case _:
            return False


def describe(value: Type) -> str:
    """A type in words, for a message."""
    match value:
        case Real():
            return f"the real tensor `{show(value)}`"
        case Index():
            return f"the index tensor `{show(value)}`"
        case Mask():
            return f"the mask `{show(value)}`"
        case Hyper(HyperKind.BOOL):
            return "the truth value `bool`"
        case Hyper():
            return f"the hyperparameter `{value}`"
        case Key():
            return "a `key`"
        case Params():
            return f"the parameter tree `{show(value)}`"
        case ModuleType():
            return f"the module `{show(value)}`"
        case Function():
            return f"the function `{show(value)}`"
        case Tuple():
            return f"the tuple `{show(value)}`"
        case Stack():
            return f"the saved values `{show(value)}`"
        case TypeVar():
            return "a value of unknown type"


def show_dim(value: Dim) -> str:
    """A dimension as text; an unknown one shows the callee's name for it, or `_`."""
    names = {name: symbol(name.partition(".")[2] or "_") for name in value.symbols() if name.startswith("?")}
    return str(value.substitute(names)) if names else str(value)


def show(value: Type | Instance) -> str:
    """A type or an instance as text, unknowns as `show_dim` shows them."""
    from_unknown = {name: symbol(name.partition(".")[2] or "_") for name in _symbols(value) if name.startswith("?")}
    if not from_unknown:
        return str(value)
    if isinstance(value, Named | Stacked | Composed):
        return str(map_instance(value, lambda dim: dim.substitute(from_unknown)))
    return str(instantiate(value, from_unknown))


def _symbols(value: Type | Instance) -> set[str]:
    dims = instance_dims(value) if isinstance(value, Named | Stacked | Composed) else type_dims(value)
    return {name for dim in dims for name in dim.symbols()}
