"""What a declaration sees: the environment of its mentions, gathered from the declarations of its file and its imports.

How much of a mentioned declaration is seen depends on the place (`View`): a constant sees the kind of a module, a body its whole
header. That keeps the stages apart: the meaning of a type cannot depend on a function's, so its key does not hold it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import msgspec

from presk.cache.stage import Queries, Result
from presk.elab import codecs
from presk.elab.entities import (
    AliasEntity,
    DimEntity,
    Elaborated,
    Entity,
    LateEntity,
    ModuleHeader,
    OtherEntity,
    Signature,
)
from presk.elab.environment import BROKEN, FILE, IMPORT, NAME, member_entry, module_entry
from presk.elab.files import LoadedFile
from presk.elab.mentions import Mentions
from presk.elab.modules import modules_in
from presk.elab.names import Declared, FileNames
from presk.elab.scope import OUTSIDE, rename_claim
from presk.syntax import tree
from presk.types.claim import Claim
from presk.types.dim import Dim, symbol
from presk.types.trees import UseField
from presk.types.type import (
    Function,
    ModuleRef,
    ModuleType,
    Params,
    Tuple,
    Type,
    instantiate,
    type_dims,
)

Entry = Result[Elaborated] | Result[str]


class View(Enum):
    """Where a declaration is mentioned."""

    CONSTANT = auto()  # in a constant: constants above it; of all else only the kind
    BOUND = auto()  # in a dimension's bound: constants and dimensions above it; of all else only the kind
    TYPE = auto()  # in types and module expressions: everything but functions
    BODY = auto()  # in a function: everything
    LAST = auto()  # in assertions and blocks, which come last: as TYPE, and constants wherever they stand


@dataclass(slots=True)
class FileState:
    """A file while it is elaborated: its names, and what became of them so far.

    `entities` holds constants, dimensions, aliases, modules and models by name; `signatures` functions by module and
    name. `imports` are the files behind aliases, `broken` the aliases whose file could not be loaded.
    """

    loaded: LoadedFile
    names: FileNames
    imports: Mapping[str, "FileState"]
    broken: frozenset[str]
    entities: dict[str, Result[Elaborated]] = field(default_factory=dict)
    signatures: dict[tuple[str | None, str], Result[Elaborated]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's identity."""
        return self.loaded.name

    def declares_dimension(self, name: str) -> bool:
        """Whether the file itself has a dimension of this name."""
        declared = self.names.declared.get(name)
        return declared is not None and isinstance(declared.node, tree.DimDecl)


class Sight:
    """Makes environments; it holds the states of all files."""

    def __init__(self, queries: Queries) -> None:
        self._queries: Final = queries
        self._mark: Final = queries.leaf("mark", "", codecs.MARK)
        self._named: Final[dict[str, Result[str]]] = {}
        self.files: dict[str, FileState] = {}

    def environment(
        self,
        state: FileState,
        index: int,
        view: View,
        mentioned: Mentions,
        *,
        hidden: frozenset[str] = frozenset(),
        of_module: ModuleRef | None = None,
    ) -> Result[Mapping[str, Elaborated | str]]:
        """The environment of the declaration at `index` of a file.

        `hidden` are names whose use closes a cycle: they are broken here. `of_module` is the module of a member
        function, which sees its module's members.
        """
        entries: dict[str, Entry] = {FILE: self._file(state.name)}
        for name in mentioned.names:
            if name in hidden:
                entries[f"{BROKEN}{name}"] = self._mark
            else:
                self._add_name(state, name, index, view, entries)
        for path in mentioned.paths:
            self._add_path(state, path, view, entries)
        if view not in (View.CONSTANT, View.BOUND):
            follow = frozenset((*mentioned.fields, *mentioned.names)) if view is View.BODY else None
            headers = self._close(state, entries, follow, of_module)
            for header in headers:
                for hidden_name in header.hidden:
                    name = hidden_name.removeprefix(OUTSIDE)
                    declared = state.names.declared.get(name)
                    if declared is not None and isinstance(declared.node, tree.Const | tree.DimDecl):
                        self._add_name(state, name, index, view, entries)
        return self._queries.group("environment", entries)

    def header(self, ref: ModuleRef) -> Result[Elaborated] | None:
        """The header of a module of any file, if it has been elaborated."""
        state = self.files.get(ref.file)
        return None if state is None else state.entities.get(ref.name)

    def _file(self, name: str) -> Result[str]:
        found = self._named.get(name)
        if found is None:
            found = self._named[name] = self._queries.leaf("file", name, codecs.MARK)
        return found

    # --- names --------------------------------------------------------------------------------------------------------

    def _add_name(self, state: FileState, name: str, index: int, view: View, entries: dict[str, Entry]) -> None:
        declared = state.names.declared.get(name)
        if declared is None:
            if name in state.names.unparsed:
                entries[f"{BROKEN}{name}"] = self._mark
            return
        if isinstance(declared.node, tree.Import):
            entries[f"{BROKEN if name in state.broken else IMPORT}{name}"] = self._mark
            return
        found = self._seen(state, declared, index, view)
        entries[f"{NAME}{name}"] = found if found is not None else self._other(state, declared)

    def _seen(self, state: FileState, declared: Declared, index: int, view: View) -> Result[Elaborated] | None:
        """What a declaration of the same file is here; None for a kind of thing that is not wanted."""
        match declared.node:
            case tree.Const():
                if view is not View.LAST and declared.index >= index:
                    return self._late(state, declared, "constant")
                return state.entities.get(declared.name)
            case tree.DimDecl():
                if view is View.CONSTANT:
                    return None
                if view is View.BOUND and declared.index >= index:
                    return self._late(state, declared, "dimension")
                return state.entities.get(declared.name)
            case tree.Fn():
                return state.signatures.get((None, declared.name)) if view is View.BODY else None
            case _:
                return None if view in (View.CONSTANT, View.BOUND) else state.entities.get(declared.name)

    def _add_path(self, state: FileState, path: str, view: View, entries: dict[str, Entry]) -> None:
        alias, _, name = path.partition(".")
        target = state.imports.get(alias)
        if target is None:
            if state.names.lost_import and alias not in state.names.declared:
                entries[f"{BROKEN}{alias}"] = self._mark
            return
        declared = target.names.declared.get(name)
        if declared is None or isinstance(declared.node, tree.Import):
            if name in target.names.unparsed:
                entries[f"{BROKEN}{path}"] = self._mark
            return
        found: Result[Elaborated] | None
        match declared.node:
            case tree.Const():
                found = target.entities.get(name)
            case tree.Fn():
                found = self._bounded(state, target.signatures.get((None, name))) if view is View.BODY else None
            case tree.DimDecl():
                found = None if view is View.CONSTANT else self._imported(state, alias, target.entities.get(name))
            case _:
                wanted = view not in (View.CONSTANT, View.BOUND)
                found = self._imported(state, alias, target.entities.get(name)) if wanted else None
        entries[f"{NAME}{path}"] = found if found is not None else self._other(target, declared)

    def _imported(self, state: FileState, alias: str, found: Result[Elaborated] | None) -> Result[Elaborated] | None:
        """An import's dimension or alias as the importing file spells its symbols: `m.T` where it has a `T` of its own.

        Modules and functions are generic in their symbols, so theirs need no other spelling.
        """
        if found is None:
            return None
        entity = found.value.entity
        match entity:
            case DimEntity(symbol=name, facts=facts):
                values = self._spelled(state, alias, (name, *_in_claims(facts)))
                if values:
                    own = values[name].symbols()[0] if name in values else name
                    return self._given(DimEntity(own, tuple(rename_claim(claim, values) for claim in facts)))
            case AliasEntity(name=name, type=type_, facts=facts) if type_ is not None:
                mentioned = (each for dim in type_dims(type_) for each in dim.symbols())
                values = self._spelled(state, alias, (*mentioned, *_in_claims(facts)))
                if values:
                    renamed = tuple(rename_claim(claim, values) for claim in facts)
                    return self._given(AliasEntity(name, instantiate(type_, values), renamed))
        return found

    def _bounded(self, state: FileState, found: Result[Elaborated] | None) -> Result[Elaborated] | None:
        """A function of another file as this file spells the symbols of its bounds.

        It is generic in the dimensions that its types mention, but `dim T <= S` may bound one of these by one that they do not.
        """
        entity = None if found is None else found.value.entity
        if not isinstance(entity, Signature) or entity.file == state.name:
            return found
        outside = [name for name in _in_claims(entity.facts) if name not in entity.dims]
        if not outside:
            return found
        alias = next((one for one, target in state.imports.items() if target.name == entity.file), entity.file)
        values = self._spelled(state, alias, outside)
        if not values:
            return found
        renamed = tuple(rename_claim(claim, values) for claim in entity.facts)
        return self._given(msgspec.structs.replace(entity, facts=renamed))

    def _spelled(self, state: FileState, alias: str, names: Iterable[str]) -> dict[str, Dim]:
        return {name: symbol(f"{alias}.{name}") for name in names if state.declares_dimension(name)}

    def _given(self, entity: Entity) -> Result[Elaborated]:
        return self._queries.leaf("entity", Elaborated(entity), codecs.ELABORATED)

    def _late(self, state: FileState, declared: Declared, kind: str) -> Result[Elaborated]:
        return self._given(LateEntity(declared.name, declared.place(state.name), kind))

    def _other(self, state: FileState, declared: Declared) -> Result[Elaborated]:
        return self._given(OtherEntity(declared.name, declared.what, declared.place(state.name)))

    # --- modules and members ------------------------------------------------------------------------------------------

    def _close(
        self, state: FileState, entries: dict[str, Entry], follow: frozenset[str] | None, of_module: ModuleRef | None
    ) -> list[ModuleHeader]:
        """Adds the headers of the modules that the entries speak of, and, with `follow`, of those behind their fields
        of these names, and the signatures of their functions of these names. Gives the headers."""
        pending: list[ModuleRef] = [] if of_module is None else [of_module]
        for entry in tuple(entries.values()):
            value = entry.value
            if isinstance(value, Elaborated):
                pending.extend(_modules_of(value.entity))
        seen: dict[ModuleRef, ModuleHeader] = {}
        while pending:
            ref = pending.pop()
            if ref in seen:
                continue
            found = self.header(ref)
            header = None if found is None else found.value.entity
            if found is None or not isinstance(header, ModuleHeader):
                continue
            seen[ref] = header
            entries[module_entry(ref)] = found
            if follow is None:
                continue
            if header.model is not None:
                pending.extend(modules_in(header.model))
            for use in header.fields:
                if isinstance(use, UseField) and use.name in follow:
                    pending.extend(modules_in(use.instance))
            for name in header.functions:
                if name in follow and header.model is None:
                    signature = self.files[ref.file].signatures.get((ref.name, name))
                    if signature is not None:
                        entries[member_entry(ref, name)] = self._bounded(state, signature) or signature
                        pending.extend(_modules_of(signature.value.entity))
        return list(seen.values())


def _modules_of(entity: Entity | None) -> Iterator[ModuleRef]:
    """The modules that an entity speaks of."""
    match entity:
        case ModuleHeader(ref=ref):
            yield ref
        case AliasEntity(type=type_) if type_ is not None:
            yield from _in_type(type_)
        case Signature(module=module, params=params, result=result):
            if module is not None:
                yield module
            for param in params:
                if param.type is not None:
                    yield from _in_type(param.type)
            if result is not None:
                yield from _in_type(result)
        case _:
            pass


def _in_type(type_: Type) -> Iterator[ModuleRef]:
    match type_:
        case Params(instance) | ModuleType(instance):
            yield from modules_in(instance)
        case Tuple(items):
            for item in items:
                yield from _in_type(item)
        case Function(params, result):
            for item in (*params, result):
                yield from _in_type(item)
        case _:
            pass


def _in_claims(facts: Iterable[Claim]) -> Iterator[str]:
    for claim in facts:
        yield from claim.left.symbols()
        yield from claim.right.symbols()
