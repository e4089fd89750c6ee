"""What the typing rules of primitives may ask where nothing is unknown: types of the core are compared, not inferred.

Lengths are equal if their normal forms are, or if the facts of the function prove it. An axis that one side leaves without a name
agrees with any, as everywhere in the language.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from presk.core.stacks import unstacked
from presk.elab.entities import ModuleHeader
from presk.prims.core_rules import refused
from presk.prims.surface import At, Broadcast, Operand
from presk.types.claim import Claim
from presk.types.decide import Decider
from presk.types.dim import Dim
from presk.types.trees import ParamField, UseField, fields
from presk.types.type import Index, Instance, Mask, ModuleRef, Real, Shape, Type
from presk.typing.broadcast import broadcast
from presk.typing.checker import expand
from presk.typing.unify import Mismatch, Substitution


@dataclass(slots=True)
class RigidTyper:
    """Implements `presk.prims.core_rules.CoreTyper` for the body of one function with the given facts."""

    headers: Mapping[ModuleRef, ModuleHeader]
    facts: Sequence[Claim] = ()
    decider: Decider = field(default_factory=Decider)
    _subst: Substitution = field(init=False)

    def __post_init__(self) -> None:
        self._subst = Substitution(self.decider.decide, tuple(self.facts), lambda one: expand(one, self.headers))

    def real(self, operand: Operand) -> Shape:
        """The shape of a real tensor."""
        if isinstance(operand.type, Real):
            return operand.type.shape
        raise refused(f"`{operand.name}` is a real tensor, not `{operand.type}`")

    def index(self, operand: Operand) -> tuple[Dim, Shape]:
        """Bound and shape of an index tensor."""
        if isinstance(operand.type, Index):
            return operand.type.bound, operand.type.shape
        raise refused(f"`{operand.name}` is an index tensor, not `{operand.type}`")

    def mask(self, operand: Operand) -> Shape:
        """The shape of a mask."""
        if isinstance(operand.type, Mask):
            return operand.type.shape
        raise refused(f"`{operand.name}` is a mask, not `{operand.type}`")

    def resolve(self, dim: Dim) -> Dim:
        """The form itself: nothing is unknown."""
        return dim

    def equal(self, left: Dim, right: Dim, code: str, message: str, at: At | None = None) -> None:
        """Refused unless the lengths are equal."""
        if (mismatch := self._subst.unify_dim(left, right)) is not None:
            raise refused(f"{message}: {mismatch.why}")

    def same_shape(self, left: Shape, right: Shape, message: str, at: At | None = None) -> Shape:
        """The merged shape; refused unless the shapes agree."""
        merged = self._subst.unify_shape(left, right)
        if isinstance(merged, Mismatch):
            raise refused(f"{message}: {merged.why}")
        return merged

    def same_type(self, left: Type, right: Type, message: str) -> None:
        """Refused unless the types agree."""
        if left != right and (mismatch := self._subst.unify(left, right)) is not None:
            raise refused(f"{message}: `{left}` against `{right}`: {mismatch.why}")

    def broadcast(self, left: Shape, right: Shape, at: At | None = None) -> Broadcast:
        """Joins two shapes."""
        joined = broadcast(self._subst, left, right)
        if isinstance(joined, Mismatch):
            raise refused(f"`ℝ[{left}]` and `ℝ[{right}]` do not broadcast: {joined.why}")
        return joined

    def distinct(self, shape: Shape) -> Shape:
        """The shape itself, if no axis name stands in it twice."""
        names = [axis.name for axis in shape.axes if axis.name is not None]
        if len(set(names)) != len(names):
            raise refused(f"an axis name stands twice in `ℝ[{shape}]`")
        return shape

    def fields(self, instance: Instance) -> tuple[ParamField | UseField, ...]:
        """The fields of a module instance."""
        try:
            return fields(instance, self.headers)
        except (KeyError, ValueError) as error:
            raise refused(f"`{instance}` is no instance of a known module") from error

    def slice_of(self, stack: Type) -> Type:
        """The type of one value of a stack."""
        try:
            return unstacked(stack)
        except ValueError as error:
            raise refused(str(error)) from error
