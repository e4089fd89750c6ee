"""What names mean inside a body."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from presk.types.type import Instance, Type


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: a parameter, a `let`, a lambda's argument."""

    index: int
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class ModuleParameter:
    """A module-typed parameter (`net : MLP{D, 4*D}`), a compile-time value."""

    name: str
    instance: Instance


@dataclass(frozen=True, slots=True)
class Scope:
    """The local names at a place of a body, innermost meaning first."""

    names: Mapping[str, Variable | ModuleParameter]

    def bind(self, *locals_: Variable | ModuleParameter) -> "Scope":
        """The scope with these names bound (again)."""
        return replace(self, names={**self.names, **{local.name: local for local in locals_}})


EMPTY: Final = Scope(MappingProxyType({}))
