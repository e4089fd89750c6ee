"""The end of typing a body: every unknown replaced, and what stayed unknown found (E2017)."""

from typing import Any, Final, cast
from typing import TypeVar as TypeVariable

from presk.syntax.tree import At
from presk.types.dim import Dim
from presk.types.type import (
    Composed,
    Function,
    Hyper,
    Index,
    Instance,
    Key,
    Mask,
    ModuleType,
    Named,
    Params,
    Real,
    Shape,
    Stacked,
    Tuple,
    Type,
    TypeVar,
    instance_dims,
    type_dims,
)
from presk.typing.checker import Checker, expand
from presk.typing.typed import Direct, Hole, Node
from presk.typing.unify import WRONG

T = TypeVariable("T")

_TYPES: Final = frozenset((Real, Index, Mask, Hyper, Key, Tuple, Params, ModuleType, Function, TypeVar))
_INSTANCES: Final = frozenset((Named, Stacked, Composed))
_LEAVES: Final = frozenset((str, int, bool, type(None)))


class Finishing:
    """One walk over the typed parts of a body, when every equation is solved.

    Types are shared by many nodes, so each is resolved once, by identity. `unsolved` is the first expression, in the order of
    the text, whose type or instantiation has an unknown left, and what is unknown.
    """

    def __init__(self, checker: Checker) -> None:
        self._subst: Final = checker.subst
        self._filled: Final = checker.filled
        self._modules: Final = checker.env.modules
        self._models: Final = any(header.model is not None for header in checker.env.modules.values())
        self._known: Final[dict[int, tuple[Any, Any]]] = {}
        self._at: At = (0, 0)
        self.unsolved: tuple[At, str] | None = None

    def resolved(self, value: T) -> T:
        """A typed tree (or any part of one) with solved unknowns replaced and holes filled."""
        return cast("T", self._walk(value))

    def _walk(self, value: Any) -> Any:
        kind = type(value)
        if kind in _LEAVES:
            return value
        if kind is tuple:
            return tuple([self._walk(item) for item in value]) if value else value
        if kind in _TYPES:
            return self._once(value, self._type)
        if kind is Dim:
            return self._once(value, self._subst.dim) if value.terms else value
        if kind is Shape:
            return self._once(value, self._subst.shape)
        if kind in _INSTANCES:
            return self._once(value, self._instance)
        if kind is Hole:
            filled = self._filled.get(value.number)
            if filled is not None:
                return self._walk(filled)
            self._miss(value.at, "type")
            return value
        if isinstance(value, Node):
            return self._node(value, kind)
        if kind is Direct:
            self._instantiated(value)
        return kind(*[self._walk(getattr(value, name)) for name in kind.__struct_fields__])

    def _type(self, value: Type) -> Type:
        return self._expanded(self._subst.type(value)) if self._models else self._subst.type(value)

    def _instance(self, value: Instance) -> Instance:
        resolved = self._subst.instance(value)
        return expand(resolved, self._modules) if self._models else resolved

    def _expanded(self, value: Type) -> Type:
        """The type with instances in place of the names of `model`s."""
        match value:
            case Params(instance):
                return Params(expand(instance, self._modules))
            case ModuleType(instance):
                return ModuleType(expand(instance, self._modules))
            case Tuple(items):
                return Tuple(tuple(map(self._expanded, items)))
            case Function(params, result):
                return Function(tuple(map(self._expanded, params)), self._expanded(result))
            case _:
                return value

    def _node(self, value: Node, kind: Any) -> Any:
        type_ = self._walk(value.type)
        if self.unsolved is None:
            what = unknown_in(type_)
            if what is not None:
                self._miss(value.at, what)
        self._at = value.at
        rest = [self._walk(getattr(value, name)) for name in kind.__struct_fields__[2:]]
        return kind(value.at, type_, *rest)

    def _instantiated(self, value: Direct) -> None:
        for name, dim in value.dims:
            if dim.terms and any(other.startswith("?") for other in self._subst.dim(dim).symbols()):
                self._miss(self._at, f"dimension `{name}` of `{value.function.name}`")

    def _miss(self, at: At, what: str) -> None:
        if self.unsolved is None:
            self.unsolved = (at, what)

    def _once(self, value: Any, resolve: Any) -> Any:
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, resolve(value))
        return known[1]


def unknown_in(type_: Type) -> str | None:
    """What a resolved type leaves unknown, in words; None if nothing."""
    match type_:
        case TypeVar():
            return "type" if type_ != WRONG else None
        case Real(shape) | Mask(shape) | Index(_, shape):
            if shape.prefix is not None and shape.prefix.startswith("?"):
                return "shape"
            dims = type_dims(type_)
        case Tuple(items):
            return next((what for item in items if (what := unknown_in(item)) is not None), None)
        case Function(params, result):
            return next((what for item in (*params, result) if (what := unknown_in(item)) is not None), None)
        case Params(instance) | ModuleType(instance):
            dims = instance_dims(instance)
        case _:
            return None
    for dim in dims:
        for name, _ in dim.terms:
            if name.startswith("?"):
                hint = name.partition(".")[2]
                return f"dimension `{hint}`" if hint else "dimension"
    return None
