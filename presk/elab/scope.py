"""What a name means at one place: the environment of a declaration together with what is bound inside it.

Names of dimensions are looked up in this order: type parameters of the function and its module, the file's declarations
and imports (the environment), symbols the signature has made known (implicit and hidden dimensions, when its body is
typed), and, in a top-level function's signature, nothing at all: the name becomes an implicit dimension (W0001).

A type parameter hides a dimension of the file that has its name. Where the hidden one still reaches the declaration, by an
alias or as `m.T`, its symbol is spelled `dim T` there, so that the two are never confused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic, Label, Place
from presk.elab.cycles import MAX_LABELS
from presk.elab.entities import (
    AliasEntity,
    ConstEntity,
    DimEntity,
    Entity,
    Env,
    LateEntity,
    ModuleHeader,
    OtherEntity,
    Signature,
)
from presk.syntax import tree
from presk.types.claim import Claim
from presk.types.decide import Decider
from presk.types.dim import Dim, symbol
from presk.types.type import Instance, Named

OUTSIDE: Final = "dim "
"""What stands before the name of a file's dimension where a type parameter of the same name hides it."""

NO_INSTANCES: Mapping[str, Instance] = MappingProxyType({})
NO_PLACES: Mapping[str, tree.At] = MappingProxyType({})


@dataclass(slots=True)
class Scope:
    """Where names are looked up.

    `owner` names the declaration in messages (`fn mse`). `params` are type parameters; `known` further symbols that the
    signature has. `module` is set inside a module, where an undeclared dimension is E1013. `implicit`, if not None,
    collects the undeclared dimensions of a top-level signature with the place of their first mention. `instances` are the
    module-typed parameters to the left, `parameters` the places of all parameters of the signature, `axes` the axis-name
    parameters.
    """

    env: Env
    decider: Decider
    owner: str
    params: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    module: str | None = None
    implicit: dict[str, tree.At] | None = None
    instances: Mapping[str, Instance] = field(default_factory=lambda: NO_INSTANCES)
    parameters: Mapping[str, tree.At] = field(default_factory=lambda: NO_PLACES)
    axes: frozenset[str] = frozenset()

    def free(self, name: str) -> str:
        """The symbol of a dimension of the file as it is spelled here: `dim T` behind a type parameter `T`."""
        return f"{OUTSIDE}{name}" if name in self.params else name

    def freed(self, names: Iterable[str]) -> dict[str, Dim]:
        """The substitution that spells outside symbols as :meth:`free` does; empty where no type parameter hides one."""
        return {name: symbol(self.free(name)) for name in names if name in self.params}

    def hidden_value(self, name: str) -> Dim:
        """The value of a module's hidden dimension where the program does not write it: what `name` means here."""
        name = name.removeprefix(OUTSIDE)
        if name in self.params:
            return symbol(name)
        entity = self.env.names.get(name)
        if isinstance(entity, ConstEntity) and entity.value is not None:
            return entity.value
        if isinstance(entity, DimEntity):
            return symbol(entity.symbol)
        return symbol(name)

    def instance(self, header: ModuleHeader, arguments: tuple[Dim, ...]) -> Instance:
        """The module (or model) applied to arguments, its hidden dimensions filled in from this scope."""
        return Named(header.ref, arguments, tuple((name, self.hidden_value(name)) for name in header.hidden))

    def facts(self, symbols: Iterable[str]) -> tuple[Claim, ...]:
        """The facts about these symbols and about every symbol that those facts mention."""
        return connected(self.all_facts(), symbols)

    def all_facts(self) -> tuple[Claim, ...]:
        """Every fact that the environment records, in this scope's spelling, each once."""
        found: dict[Claim, None] = {}
        declared = set(self.params)
        for name, entity in self.env.names.items():
            if isinstance(entity, DimEntity):
                declared.add(name)
                found.update(dict.fromkeys(self._spelled(entity.facts)))
            elif isinstance(entity, AliasEntity):
                found.update(dict.fromkeys(self._spelled(entity.facts)))
            elif isinstance(entity, ConstEntity):
                declared.add(name)
        for header in self.env.modules.values():
            for told in header.facts:
                claim = rename_claim(told, _inside_out(told))
                # The facts of a hidden dimension that this scope declares itself are what its own declaration says.
                if not declared.intersection(claim.left.symbols()):
                    found[claim] = None
        return tuple(found)

    def _spelled(self, facts: tuple[Claim, ...]) -> tuple[Claim, ...]:
        if not self.params:
            return facts
        return tuple(
            rename_claim(claim, self.freed((*claim.left.symbols(), *claim.right.symbols()))) for claim in facts
        )


def merged(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Diagnostics of one chunk, those that say the same joined: the first is kept, with labels on the places of the others.

    A name that is unknown, or a dimension that is none, is one mistake, however often a signature repeats it.
    """
    found: dict[tuple[str, str], Diagnostic] = {}
    for diagnostic in diagnostics:
        key = (diagnostic.code, diagnostic.message)
        first = found.get(key)
        if first is None:
            found[key] = diagnostic
        elif len(first.labels) < MAX_LABELS:
            further = Label(diagnostic.primary.place, "here too")
            found[key] = msgspec.structs.replace(first, labels=(*first.labels, further))
    return tuple(found.values())


def connected(facts: Iterable[Claim], symbols: Iterable[str]) -> tuple[Claim, ...]:
    """Those facts that say something about the symbols, directly or through symbols they share."""
    reached = set(symbols)
    waiting = list(facts)
    kept: dict[Claim, None] = {}
    grew = True
    while grew:
        grew = False
        left: list[Claim] = []
        for claim in waiting:
            mentioned = {*claim.left.symbols(), *claim.right.symbols()}
            if mentioned & reached:
                kept[claim] = None
                grew = grew or not mentioned <= reached
                reached |= mentioned
            else:
                left.append(claim)
        waiting = left
    return tuple(kept)


def _inside_out(claim: Claim) -> dict[str, Dim]:
    """The substitution that spells a file's dimension, hidden behind a module's type parameter there, by its name again."""
    names = (*claim.left.symbols(), *claim.right.symbols())
    return {name: symbol(name.removeprefix(OUTSIDE)) for name in names if name.startswith(OUTSIDE)}


def rename_claim(claim: Claim, values: Mapping[str, Dim]) -> Claim:
    """The claim with symbols replaced."""
    return Claim(claim.relation, claim.left.substitute(values), claim.right.substitute(values)) if values else claim


def describe(entity: Entity) -> str:
    """What kind of thing an entity is, for messages."""
    match entity:
        case ConstEntity():
            return "a constant"
        case LateEntity(kind=kind):
            return f"a {kind}"
        case OtherEntity(what=what):
            return what
        case DimEntity():
            return "a dimension"
        case AliasEntity():
            return "a type alias"
        case ModuleHeader():
            return "a module"
        case Signature():
            return "a function"


def declaration_chunk(entity: Entity) -> str | None:
    """The key of the chunk that declares an entity of the file at hand; the name is the chunk's token 1."""
    match entity:
        case ConstEntity(name=name):
            return f"const {name}"
        case LateEntity(place=place) | OtherEntity(place=place):
            return place.chunk
        case DimEntity(symbol=name):
            return f"dim {name}"
        case AliasEntity(name=name):
            return f"type {name}"
        case ModuleHeader(ref=ref, model=model):
            return f"model {ref.name}" if model is not None else f"module {ref.name}"
        case Signature(chunk=chunk):
            return chunk


def declared_at(entity: Entity, path: str, env: Env) -> list[tuple[tree.At | Place, str]]:
    """A label on the name in its declaration, if the file at hand (or, for modules and functions, any file) declares it."""
    chunk = declaration_chunk(entity)
    file = env.file
    if isinstance(entity, ModuleHeader):
        file = entity.ref.file
    elif isinstance(entity, Signature):
        file = entity.file
    elif isinstance(entity, OtherEntity):
        file = entity.place.file
    elif "." in path:
        return []
    return [(Place(1, 1, chunk or "", file), f"`{path}` is declared here, {describe(entity)}")]


def report_late(entity: LateEntity, at: tree.At, reporter: Reporter) -> None:
    """E1006: a constant, or a dimension in a bound, used above its declaration."""
    reporter.report(
        "E1006",
        at,
        f"the {entity.kind} `{entity.name}` is used before its declaration",
        text="used here",
        labels=[(entity.place, "declared here")],
        notes=["constants and bounds are evaluated in order of declaration"],
        mend=f"move the declaration of `{entity.name}` above this line",
    )


def path_of(expr: tree.Expr) -> tuple[str, ...] | None:
    """The names of a dotted path, None for any other expression."""
    names: list[str] = []
    while isinstance(expr, tree.Field):
        names.append(expr.name)
        expr = expr.base
    if not isinstance(expr, tree.Name):
        return None
    names.append(expr.name)
    return tuple(reversed(names))
