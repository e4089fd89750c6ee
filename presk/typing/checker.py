"""The state of typing one body, and what the rules of primitives may ask of it.

A body is checked once, generically. Expressions whose operand types are not known yet (an untyped lambda parameter) become
holes, which are filled when the types are; what cannot be filled at the end is E2017.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gmpy2 import mpq

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Place
from presk.elab.entities import Env, ModuleHeader, Signature
from presk.elab.exprs import decimal_value
from presk.elab.scope import OUTSIDE
from presk.prims.surface import Broadcast, Operand, Refused
from presk.syntax.tree import At
from presk.types.claim import Claim, Proved, Refuted
from presk.types.decide import Decider
from presk.types.dim import Dim, symbol
from presk.types.type import (
    Composed,
    Hyper,
    Index,
    Instance,
    Mask,
    ModuleRef,
    Named,
    Real,
    Shape,
    Stacked,
    Tuple,
    Type,
    TypeVar,
    map_instance,
)
from presk.typing.broadcast import broadcast
from presk.typing.typed import CallSite, Direct, FunctionRef, Hole, HyperOp, Inject, Literal, Target, Typed, Wrong
from presk.typing.unify import WRONG, Mismatch, Substitution, describe, show, show_dim


@dataclass(slots=True)
class _Pending:
    """A hole: which types it waits for, and how it is filled."""

    number: int
    at: At
    waits_for: tuple[Type, ...]
    result: Type
    build: Callable[[], Typed]


@dataclass(frozen=True, slots=True)
class Obligation:
    """A claim to be proved once the body's unknowns are solved (a callee's bound, E1024)."""

    claim: Claim
    at: At
    callee: str


@dataclass(slots=True)
class Checker:
    """One body being typed. Implements `presk.prims.surface.Typer`."""

    env: Env
    signature: Signature
    header: ModuleHeader | None
    subst: Substitution
    reporter: Reporter
    decider: Decider
    calls: list[CallSite] = field(default_factory=list)
    inits: list[Instance] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)
    filled: dict[int, Typed] = field(default_factory=dict)
    _pending: list[_Pending] = field(default_factory=list)
    _holes: int = 0
    _variables: int = 0

    # --- variables, instances -----------------------------------------------------------------------------------------

    def new_index(self) -> int:
        """The number of the next variable."""
        self._variables += 1
        return self._variables - 1

    def self_instance(self) -> Named:
        """Inside a member function: the module at its own parameters."""
        assert self.header is not None
        return generic_instance(self.header)

    def called(self, function: FunctionRef, at: At) -> None:
        """Records a call for the recursion check."""
        self.calls.append(CallSite(function, at))

    def owe(self, signature: Signature, values: Mapping[str, Dim], at: At) -> None:
        """Records that a callee's bounds must hold at the values its dimensions get (E1024, O36)."""
        own = self.signature.dims[: self.signature.own]
        for fact in signature.facts:
            symbols = (*fact.left.symbols(), *fact.right.symbols())
            if values.keys().isdisjoint(symbols):
                continue  # what the file says of its other dimensions
            # A dimension of the file that the callee is not generic in is the same for caller and callee, unless a type parameter
            # of the caller has its name.
            outside = {name: symbol(f"{OUTSIDE}{name}") for name in symbols if name in own}
            put_in = {**outside, **values}
            claim = Claim(fact.relation, fact.left.substitute(put_in), fact.right.substitute(put_in))
            self.obligations.append(Obligation(claim, at, signature.qualified))

    def keep_prefix_names(self, target: Target, found: Type, wanted: Type) -> None:
        """What a callee's `...` stands for keeps every axis name that some argument knows."""
        if not isinstance(target, Direct) or target.prefix is None or target.prefix.prefix is None:
            return
        match self.subst.type(found), wanted:
            case Tuple(items), Tuple(patterns):
                for item, pattern_of in zip(items, patterns, strict=True):
                    self.keep_prefix_names(target, item, pattern_of)
            case (Real(shape), Real(pattern)) | (Mask(shape), Mask(pattern)) | (Index(_, shape), Index(_, pattern)):
                if pattern.prefix == target.prefix.prefix and len(shape.axes) >= len(pattern.axes):
                    leading = Shape(shape.axes[: len(shape.axes) - len(pattern.axes)], shape.prefix)
                    self.subst.merge_prefix(target.prefix.prefix, leading)
            case _:
                pass

    # --- refusals ---------------------------------------------------------------------------------------------------

    def guard(self, at: At, build: Callable[[], Typed]) -> Typed:
        """`build()`, or a reported refusal and a `Wrong` node."""
        try:
            return build()
        except Refused as refused:
            if refused.code:  # a use of a declaration that was refused itself is no further error
                self.report(refused, at)
            return Wrong(at, WRONG)

    def report(self, refused: Refused, at: At) -> None:
        """Makes a diagnostic of a refusal."""
        self.reporter.report(
            refused.code,
            refused.at if refused.at is not None else at,
            refused.message,
            text=refused.text,
            labels=refused.labels,
            notes=refused.notes,
            mend=refused.mend,
        )

    # --- holes --------------------------------------------------------------------------------------------------------

    def unknown(self, *types: Type) -> bool:
        """Some of these types is not known yet."""
        return any(isinstance(head := self.subst.head(type_), TypeVar) and head != WRONG for type_ in types)

    def wrong(self, *types: Type) -> bool:
        """Some of these types belongs to a refused expression."""
        return any(self.subst.head(type_) == WRONG for type_ in types)

    def when_known(self, at: At, types: Sequence[Type], build: Callable[[], Typed]) -> Typed:
        """`build()` now if the types are known, a `Wrong` if one is wrong, else a hole that is filled later."""
        if self.wrong(*types):
            return Wrong(at, WRONG)
        if not self.unknown(*types):
            return build()
        self._holes += 1
        result = self.subst.fresh_type()
        self._pending.append(_Pending(self._holes, at, tuple(types), result, build))
        return Hole(at, result, self._holes)

    def fill_holes(self) -> None:
        """Fills every hole whose types are known by now, until none is."""
        progress = True
        while progress:
            progress = False
            for pending in list(self._pending):
                if self.unknown(*pending.waits_for):
                    continue
                progress = True
                self._pending.remove(pending)
                if self.wrong(*pending.waits_for):
                    node: Typed = Wrong(pending.at, WRONG)
                else:
                    node = self.guard(pending.at, pending.build)
                mismatch = self.subst.unify(node.type, pending.result)
                if mismatch is not None:
                    self.reporter.report("E2001", pending.at, mismatch.why, notes=mismatch.notes)
                self.filled[pending.number] = node

    def unfilled(self) -> tuple[At, ...]:
        """The places of holes that nothing filled."""
        return tuple(pending.at for pending in self._pending)

    # --- equations ----------------------------------------------------------------------------------------------------

    def require(self, found: Type, wanted: Type, at: At, what: str, *, label: tuple[Place, str] | None = None) -> bool:
        """Unifies, or reports and gives False: E2003 for shapes, E2005 for index bounds, E2001 for everything else."""
        found_text, wanted_text = self.subst.type(found), self.subst.type(wanted)
        mismatch = self.subst.unify(found, wanted)
        if mismatch is None:
            return True
        code = "E2005" if mismatch.bound else "E2003" if mismatch.shapes else "E2001"
        notes = (mismatch.why, *mismatch.notes)
        mend = None
        if isinstance(found_text, Hyper) and isinstance(wanted_text, Real):
            notes = (f"{describe(found_text)} is not {describe(wanted_text)}",)
            mend = "inject it: `(… : ℝ)`" if not wanted_text.shape.axes else None
        elif isinstance(found_text, Index) and isinstance(wanted_text, Real):
            mend = "inject it: `real(…)`"
        self.reporter.report(
            code,
            at,
            f"{what}: expected `{show(wanted_text)}`, found `{show(found_text)}`",
            text=f"this is `{show(found_text)}`",
            labels=(label,) if label is not None else (),
            notes=notes,
            mend=mend,
        )
        return False

    def prove(self, claim: Claim) -> str | None:
        """None if the claim holds, else in words where it fails."""
        verdict = self.subst.prove(claim)
        match verdict:
            case Proved():
                return None
            case Refuted(at) as refuted:
                return f"fails for {refuted}" if at else "never holds"
            case _:
                return "could not be decided"

    # --- the typer that rules see -------------------------------------------------------------------------------------

    def operand(self, name: str, node: Typed) -> Operand:
        """A typed expression as an operand of a rule."""
        return Operand(name, self.subst.type(node.type), node.at, literal_value(node))

    def real(self, operand: Operand) -> Shape:
        """The shape of a real tensor (E2001)."""
        type_ = self.subst.type(operand.type)
        if isinstance(type_, Real):
            return type_.shape
        mend = None
        if isinstance(type_, Hyper):
            mend = "inject it: `(… : ℝ)`"
        elif isinstance(type_, Index):
            mend = "inject it: `real(…)`"
        raise Refused(
            "E2001",
            f"a real tensor is wanted here, and this is {describe(type_)}",
            at=operand.at,
            text=f"this is `{show(type_)}`",
            mend=mend,
        )

    def index(self, operand: Operand) -> tuple[Dim, Shape]:
        """Bound and shape of an index tensor (E2001)."""
        type_ = self.subst.type(operand.type)
        if isinstance(type_, Index):
            return type_.bound, type_.shape
        raise Refused(
            "E2001",
            f"an index tensor is wanted here, and this is {describe(type_)}",
            at=operand.at,
            text=f"this is `{show(type_)}`",
        )

    def mask(self, operand: Operand) -> Shape:
        """The shape of a mask (E2001)."""
        type_ = self.subst.type(operand.type)
        if isinstance(type_, Mask):
            return type_.shape
        raise Refused(
            "E2001",
            f"a mask is wanted here, and this is {describe(type_)}",
            at=operand.at,
            text=f"this is `{show(type_)}`",
        )

    def resolve(self, dim: Dim) -> Dim:
        """The form with solved unknowns replaced."""
        return self.subst.dim(dim)

    def equal(self, left: Dim, right: Dim, code: str, message: str, at: At | None = None) -> None:
        """Solves or proves an equation between lengths; refused with `code`."""
        left, right = self.subst.dim(left), self.subst.dim(right)
        mismatch = self.subst.unify_dim(left, right)
        if mismatch is not None:
            raise Refused(
                code,
                f"{message}: `{show_dim(left)}` against `{show_dim(right)}`",
                at=at,
                notes=(mismatch.why,),
            )

    def same_shape(self, left: Shape, right: Shape, message: str, at: At | None = None) -> Shape:
        """Unifies two shapes and gives the merged one (E2003)."""
        merged = self.subst.unify_shape(left, right)
        if isinstance(merged, Mismatch):
            raise Refused("E2003", message, at=at, notes=(merged.why,))
        return merged

    def broadcast(self, left: Shape, right: Shape, at: At | None = None) -> Broadcast:
        """Joins two shapes as `+` does (E2003)."""
        joined = broadcast(self.subst, left, right)
        if isinstance(joined, Mismatch):
            raise Refused(
                "E2003",
                f"`ℝ[{self.subst.shape(left)}]` and `ℝ[{self.subst.shape(right)}]` do not broadcast",
                at=at,
                notes=(joined.why,),
            )
        self.distinct(joined.shape)
        return joined

    def distinct_type(self, type_: Type) -> None:
        """Refuses a type that has an axis name twice in a shape (E1021): a callee's `...` may bring a name it has itself."""
        match self.subst.type(type_):
            case Real(shape) | Mask(shape) | Index(_, shape):
                self.distinct(shape)
            case Tuple(items):
                for item in items:
                    self.distinct_type(item)
            case _:
                pass

    def distinct(self, shape: Shape) -> Shape:
        """The shape itself, if no axis name stands in it twice (E1021)."""
        seen: set[str] = set()
        for axis in shape.axes:
            if axis.name is not None and axis.name in seen:
                raise Refused(
                    "E1021",
                    f"the result would have two axes named `{axis.name}`",
                    text=f"`ℝ[{shape}]`",
                    notes=("axes are selected by name, so a type carries a name once",),
                )
            if axis.name is not None:
                seen.add(axis.name)
        return shape


def generic_instance(header: ModuleHeader) -> Named:
    """A module at its own type parameters."""
    return Named(header.ref, tuple(map(symbol, header.dims)), tuple((name, symbol(name)) for name in header.hidden))


def expand(instance: Instance, modules: Mapping[ModuleRef, ModuleHeader]) -> Instance:
    """The instance with `model` names replaced, at every depth, by what they stand for."""
    match instance:
        case Named(ref, _, hidden):
            header = modules.get(ref)
            if header is None or header.model is None:
                return instance
            values = dict(hidden)
            return expand(map_instance(header.model, lambda dim: dim.substitute(values)), modules)
        case Stacked(length, inner):
            return Stacked(length, expand(inner, modules))
        case Composed(outer, inner):
            return Composed(expand(outer, modules), expand(inner, modules))


def literal_value(node: Typed) -> mpq | None:
    """The value of a numeric literal or constant, a sign included."""
    match node:
        case Literal(text=text):
            return decimal_value(text)
        case Inject(value=value):
            return literal_value(value)
        case _:
            if isinstance(node, HyperOp) and node.op == "-" and len(node.operands) == 1:
                inner = literal_value(node.operands[0])
                return None if inner is None else -inner
            return None
