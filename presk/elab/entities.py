"""What a declaration means once it is elaborated, and the environment in which another one is elaborated or typed.

An environment holds what a declaration *mentions* and nothing else, so that it can be part of a stage's key: each entry is
the value of a stage. Names are looked up as the program writes them: `D`, and `m.V` for the member of an import.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from presk.diagnostics.value import Diagnostic, Place
from presk.syntax import tree
from presk.types.claim import Claim
from presk.types.dim import Dim
from presk.types.trees import ParamField, UseField
from presk.types.type import Instance, ModuleRef, Type


class ConstEntity(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A constant; `value` is a constant form with a natural value, None where its declaration was refused."""

    name: str
    value: Dim | None


class LateEntity(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """What stands for a constant that is declared further down than the declaration which mentions it: its use is E1006.

    In a bound, a dimension that is declared further down is one too (`kind` is "constant" or "dimension"). `place` is the
    name in its declaration.
    """

    name: str
    place: Place
    kind: str = "constant"


class OtherEntity(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """What stands for a declaration whose meaning plays no part where it is mentioned, only that it is another kind of thing
    than is wanted there: a function in a type, a module in a constant. `what` is "a function", "a module" and so on."""

    name: str
    what: str
    place: Place


class DimEntity(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A symbolic dimension and the facts its declaration records (`T <= 1024`).

    The symbol is the dimension's name, also for an import's (`m.T` is `T`), unless the importing file declares a
    dimension of that name itself: then it is `m.T`.
    """

    symbol: str
    facts: tuple[Claim, ...] = ()


class AliasEntity(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A type alias, substituted; None where its declaration was refused. `facts` are those of the symbols it mentions."""

    name: str
    type: Type | None
    facts: tuple[Claim, ...] = ()


class ModuleHeader(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A module without its functions' meaning: type parameters, fields in order, the names of its functions.

    `hidden` lists, in order of first mention, the file-level dimensions that the parameters of the module or of any
    module it uses mention; `facts` are the facts of those. `model` is set for `model NAME = A ∘ B` (a module that is
    another instance under a name): then `fields` is empty and everything is the instance's (`functions` too).
    `broken` are the fields whose declaration was refused: using one is no further error. `parts` is how many modules a `model`
    is put together from.
    """

    ref: ModuleRef
    dims: tuple[str, ...]
    hidden: tuple[str, ...]
    facts: tuple[Claim, ...]
    fields: tuple[ParamField | UseField, ...]
    functions: tuple[str, ...]
    model: Instance | None = None
    broken: tuple[str, ...] = ()
    parts: int = 1


class Param(msgspec.Struct, frozen=True, array_like=True):
    """A parameter of a function. `type` is None where the program leaves it out; `axis` marks an axis-name parameter."""

    name: str
    type: Type | None
    default: tree.Expr | None = None
    axis: bool = False


class Signature(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A function's signature.

    `dims` are the dimensions in which the function is generic: for a member its module's type parameters, then its own,
    then every other symbol its types mention in order of first mention (the file's `dim`s, hidden ones, implicit ones).
    `axes` are its axis-name parameters; types may use them as axis names. `module` is the module of a member function,
    whose parameter list does not show θ. `result` is None where it is not declared; `complete` says that no type is
    missing. `facts` are the bounds of the symbols in `dims`. `header` is the place of the signature, in its chunk `chunk`.
    The first `own` of `dims` are type parameters (the module's and the function's): inside they hide a dimension of the
    file. `refused` says that an error was reported in the signature: a type that is missing may be the refused one, so its
    absence is no further error.
    """

    name: str
    file: str
    chunk: str
    module: ModuleRef | None
    dims: tuple[str, ...]
    axes: tuple[str, ...]
    params: tuple[Param, ...]
    result: Type | None
    uses: tuple[str, ...]
    facts: tuple[Claim, ...]
    header: tree.At
    own: int = 0
    refused: bool = False

    @property
    def complete(self) -> bool:
        """Every parameter and the result have a type."""
        return self.result is not None and all(param.type is not None or param.axis for param in self.params)

    @property
    def qualified(self) -> str:
        """`mse`, `Linear.apply`."""
        return f"{self.module.name}.{self.name}" if self.module is not None else self.name


Entity = ConstEntity | LateEntity | OtherEntity | DimEntity | AliasEntity | ModuleHeader | Signature


class Elaborated(msgspec.Struct, frozen=True, array_like=True):
    """The value of the stages of declarations: what the declaration means, None where it was refused, and what was said.

    Places are relative to the declaration's chunk, with an empty file name.
    """

    entity: Entity | None
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Env:
    """What one declaration sees.

    `names` maps written paths (`D`, `m.V`) to entities; a path that is absent is unknown. `imports` are the aliases of the
    file's imports that the declaration mentions. `modules` holds the header of every module reached from the entities;
    `members` the signatures of those member functions whose name the declaration mentions, for each of these modules.
    `broken` are names that are declared but whose declaration was refused: using one is no further error.
    """

    file: str
    names: Mapping[str, Entity]
    modules: Mapping[ModuleRef, ModuleHeader]
    members: Mapping[tuple[ModuleRef, str], Signature]
    imports: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
