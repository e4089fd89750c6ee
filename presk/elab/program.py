"""The orchestrator: all declarations of all files of a program, each in the environment of what it mentions.

Every declaration is a stage of its tree and its environment (`sight`), so that an edit redoes what it reaches and nothing
else. The order: imported files first; in a file its constants and dimensions as they are declared, then aliases, modules and
models, each behind those it uses, then signatures, then bodies in order of declaration, then assertions. The main
file's configuration blocks come last.

Bodies are typed by a stage that is given (`Typed` says what it gives), since typing lies above elaboration.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from presk.cache.stage import Queries, Result, Stage
from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic, Label, Place, located
from presk.elab import codecs, stages
from presk.elab.config import Sources
from presk.elab.cycles import MAX_LABELS, shown_cycle
from presk.elab.data import data_file
from presk.elab.entities import Elaborated, ModuleHeader, Signature
from presk.elab.files import DataReader, Files
from presk.elab.graph import ordered
from presk.elab.mentions import Mentions, mentions
from presk.elab.modules import outline
from presk.elab.names import Declared, file_names
from presk.elab.records import OptimizerRecord, Record, ServeRecord, TrainingRecord
from presk.elab.references import data_path
from presk.elab.sight import FileState, Sight, View
from presk.elab.signatures import header_place, report_effect
from presk.elab.stages import DataHead, Resolved
from presk.elab.suggestions import with_proposal
from presk.elab.types import SCALARS
from presk.syntax import tree
from presk.types.dim import Dim
from presk.types.type import ModuleRef

STANDS_FOR_ITSELF: Final = "axis "
"""What stands before the name of an axis parameter in place of a name given to it."""

LOOKED_AT: Final = 50_000
"""How many names are looked at for proposals in one program: about half a second's work."""


class Callee(Protocol):
    """A function that a body calls; `axes` are the names given to its axis parameters."""

    @property
    def file(self) -> str: ...
    @property
    def module(self) -> ModuleRef | None: ...
    @property
    def name(self) -> str: ...
    @property
    def axes(self) -> tuple[str, ...]: ...


class CallPlace(Protocol):
    """A call of a function, and where it stands in the caller's chunk."""

    @property
    def function(self) -> Callee: ...
    @property
    def at(self) -> tree.At: ...


class Typed(Protocol):
    """What the typing stage gives for a function: its completed signature, what was said, and the calls of its body."""

    @property
    def signature(self) -> Signature: ...
    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...
    @property
    def calls(self) -> Sequence[CallPlace]: ...


class FunctionKey(msgspec.Struct, frozen=True, order=True):
    """A function of the program by file, module (None at the top of the file) and name."""

    file: str
    module: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" if self.module is not None else self.name


@dataclass(frozen=True, slots=True)
class Function:
    """A function that was typed: `axes` are the names given to its axis parameters. In its generic form these stand for
    themselves, which is spelled `axis a`: as names they could be given by a call as well."""

    key: FunctionKey
    chunk: str
    axes: tuple[str, ...]
    typed: Result[Any]

    @property
    def generic(self) -> bool:
        """Whether this is the generic form of a function with axis parameters, which is judged and never called."""
        return any(name.startswith(STANDS_FOR_ITSELF) for name in self.axes)


@dataclass(frozen=True, slots=True)
class Options:
    """What a program is elaborated with.

    `overrides` are values for constants of the main file. `implied` are names that a builtin reads from the file where it
    is called (`split_heads` reads `H` and `HD`). `builtins` are names of builtins, for proposals.
    """

    overrides: Mapping[str, Dim] = field(default_factory=dict)
    implied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    builtins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A program, elaborated and typed.

    `states` are its files, imported ones first; `functions` every function, in the order of typing: one with axis parameters in
    its generic form, and further down once for each choice of their names; `unknown_overrides` are overridden names that the
    main file does not declare as constants (E9003). Diagnostics have files and chunks filled in; their order is that of the phases.
    """

    main: str
    states: Mapping[str, FileState]
    headers: Mapping[ModuleRef, ModuleHeader]
    functions: tuple[Function, ...]
    optimizers: tuple[OptimizerRecord, ...]
    training: TrainingRecord | None
    serve: ServeRecord | None
    diagnostics: tuple[Diagnostic, ...]
    unknown_overrides: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether there is an error (warnings are none)."""
        return any(not one.code.startswith("W") for one in self.diagnostics)


def elaborate_program(
    queries: Queries, files: Files, reader: DataReader, typing: Stage[Any], options: Options | None = None
) -> Program:
    """Elaborates and types a program whose files were loaded.

    `typing` is a stage `(function: tree.Fn, signature: Elaborated, env: Mapping[str, Elaborated | str], *, axes)` that gives a
    `Typed`; `axes` are the names of the axis parameters. `reader` reads the heads of data files.
    """
    return _Elaboration(queries, files, reader, typing, options or Options()).run()


class _Elaboration:
    """One run; what is written here is gathered, nothing is read back but by later phases."""

    def __init__(
        self, queries: Queries, files: Files, reader: DataReader, typing: Stage[Any], options: Options
    ) -> None:
        self._queries: Final = queries
        self._files: Final = files
        self._reader: Final = reader
        self._typing: Final = typing
        self._options: Final = options
        self._sight: Final = Sight(queries)
        self._no_header: Final = queries.leaf("no module", Elaborated(None), codecs.ELABORATED)
        self._no_override: Final = queries.leaf("no override", None, codecs.OVERRIDE)
        self._diagnostics: Final[list[Diagnostic]] = list(files.diagnostics)
        self._functions: Final[list[Function]] = []
        self._bodies: Final[dict[FunctionKey, _Body]] = {}

    def run(self) -> Program:
        for name, file in self._files.files.items():
            state = FileState(
                file,
                file_names(file),
                {
                    edge.alias: self._sight.files[edge.target]
                    for edge in reversed(file.imports)  # of two imports under one alias the first counts
                    if edge.target is not None
                },
                frozenset(edge.alias for edge in file.imports if edge.target is None),
            )
            self._sight.files[name] = state
            self._diagnostics.extend(state.names.diagnostics)
            self._values(state)
            self._modules(state)
            self._type_bodies(state, self._signatures(state))
        generic = {function.key: function for function in self._functions}
        self._choices()
        self._recursion(generic)
        for state in self._sight.files.values():
            self._assertions(state)
        main = self._sight.files[self._files.main]
        optimizers, training, serve = self._blocks(main)
        return Program(
            self._files.main,
            self._sight.files,
            {header.ref: header for header in self._headers()},
            tuple(self._functions),
            optimizers,
            training,
            serve,
            tuple(self._proposed()),
            self._unknown_overrides(main),
        )

    # --- phases -------------------------------------------------------------------------------------------------------

    def _values(self, state: FileState) -> None:
        """Constants and dimensions, in order of declaration; effects."""
        main = state.name == self._files.main
        for index, chunk in enumerate(state.loaded.parsed.file.declarations):
            node = chunk.declaration
            match node:
                case tree.Const(name=name):
                    env = self._sight.environment(state, index, View.CONSTANT, self._mentions(node.value))
                    value = self._options.overrides.get(name) if main else None
                    override = self._no_override
                    if value is not None:
                        override = self._queries.leaf("override", value, codecs.OVERRIDE)
                    given = self._queries.leaf("constant", node, codecs.CONST)
                    found = self._ask(stages.CONSTANT, state, chunk.key, given, env, override)
                case tree.DimDecl(name=name):
                    env = self._sight.environment(state, index, View.BOUND, self._mentions(node.bound))
                    given_dim = self._queries.leaf("dimension", node, codecs.DIMENSION)
                    found = self._ask(stages.DIMENSION, state, chunk.key, given_dim, env)
                case tree.Effect():
                    self._effect(state, chunk.key, node)
                    continue
                case _:
                    continue
            if chunk.key not in state.names.repeated:
                state.entities[name] = found

    def _effect(self, state: FileState, key: str, node: tree.Effect) -> None:
        if node.name != "Rand":
            reporter = Reporter()
            report_effect(node.name, (node.name_at, node.name_at), reporter)
            self._say(state, key, reporter.diagnostics())

    def _modules(self, state: FileState) -> None:
        """Aliases, modules and models, each behind those it uses."""
        order = ordered(state.name, state.names.declared)
        self._diagnostics.extend(order.diagnostics)
        closing: dict[str, set[str]] = {}
        for user, used in order.closing:
            closing.setdefault(user, set()).add(used)
        for name in order.names:
            declared = state.names.declared[name]
            state.entities[name] = self._module(state, declared, frozenset(closing.get(name, ())))

    def _module(self, state: FileState, declared: Declared, closing: frozenset[str]) -> Result[Elaborated]:
        queries, key, node = self._queries, declared.key, declared.node

        def env(root: object) -> Result[Any]:
            return self._sight.environment(state, declared.index, View.TYPE, self._mentions(root), hidden=closing)

        match node:
            case tree.TypeAlias():
                return self._ask(stages.ALIAS, state, key, queries.leaf("alias", node, codecs.ALIAS), env(node.type))
            case tree.Model():
                return self._ask(stages.MODEL, state, key, queries.leaf("model", node, codecs.MODEL), env(node.value))
            case tree.Module():
                cut_out = outline(node, state.names.members.get(node.name, ()))
                given = queries.leaf("module", cut_out, codecs.OUTLINE)
                return self._ask(stages.HEADER, state, key, given, env(cut_out.members))
            case _:
                raise AssertionError(f"{key} is no alias, module or model")

    def _signatures(self, state: FileState) -> list[FunctionKey]:
        """Signatures; gives the functions in order of declaration."""
        keys: list[FunctionKey] = []
        for index, key, module, fn in self._fns(state):
            header = self._no_header if module is None else state.entities[module]
            if (module, fn.name) in state.signatures:
                continue  # a second member of one name; the header's stage has reported it
            shown = msgspec.structs.replace(fn, body=None, at=header_place(fn))
            mentioned = self._mentions(tuple(param.type for param in fn.params), fn.result)
            ref = None if module is None else ModuleRef(state.name, module)
            env = self._sight.environment(state, index, View.TYPE, mentioned, of_module=ref)
            given = self._queries.leaf("header", shown, codecs.FUNCTION)
            found = self._ask(stages.SIGNATURE, state, key, given, env, header, chunk=key)
            state.signatures[module, fn.name] = found
            keys.append(FunctionKey(state.name, module, fn.name))
            self._bodies[keys[-1]] = _Body(state, index, key, module, fn)
        return keys

    def _fns(self, state: FileState) -> Iterator[tuple[int, str, str | None, tree.Fn]]:
        """The functions of a file in order of declaration, with their module's name; those of repeated names left out."""
        for index, chunk in enumerate(state.loaded.parsed.file.declarations):
            if chunk.key in state.names.repeated:
                continue
            node = chunk.declaration
            if isinstance(node, tree.Fn):
                yield index, chunk.key, None, node
            elif isinstance(node, tree.Module):
                for member in node.members:
                    if isinstance(member.member, tree.Fn):
                        yield index, member.key, node.name, member.member

    def _type_bodies(self, state: FileState, keys: Iterable[FunctionKey]) -> None:
        """Bodies in order of declaration. A function without declared types has them from here on."""
        for key in keys:
            body = self._bodies[key]
            signature = state.signatures[key.module, key.name]
            entity = signature.value.entity
            assert isinstance(entity, Signature)
            own = self._type(key, body, entity.axes)
            itself = tuple(f"{STANDS_FOR_ITSELF}{name}" for name in entity.axes)
            function = Function(key, body.key, itself, own.typed)
            self._functions.append(function)
            typed: Typed = function.typed.value
            if not entity.axes:
                self._say(state, body.key, typed.diagnostics)
            if not entity.complete:
                completed = Elaborated(typed.signature)
                state.signatures[key.module, key.name] = self._queries.leaf("signature", completed, codecs.ELABORATED)

    def _type(self, key: FunctionKey, body: "_Body", axes: tuple[str, ...]) -> Function:
        state = body.state
        if body.env is None:
            ref = None if key.module is None else ModuleRef(key.file, key.module)
            mentioned = self._mentions(body.fn)
            body.env = self._sight.environment(state, body.index, View.BODY, mentioned, of_module=ref)
            body.given = self._queries.leaf("function", body.fn, codecs.FUNCTION)
            body.signature = state.signatures[key.module, key.name]
        typed = self._queries.get(
            self._typing, body.given, body.signature, body.env, subject=f"{state.name}: {body.key}", axes=axes
        )
        return Function(key, body.key, axes, typed)

    def _choices(self) -> None:
        """Functions with axis parameters, once for each choice of names that they are called with (O24).

        One that nothing calls is judged with the parameters' own names, and so is what it calls.
        """
        generic = {function.key: function for function in self._functions if function.generic}
        if not generic:
            return
        seen: set[tuple[FunctionKey, tuple[str, ...]]] = set()
        said: set[tuple[FunctionKey, Diagnostic]] = set()
        waiting = [function for function in self._functions if not function.generic]
        uncalled = iter(reversed(generic))  # functions mostly call those above them
        while True:
            while waiting:
                typed: Typed = waiting.pop().typed.value
                for call in typed.calls:
                    callee = call.function
                    key = _key(callee)
                    # (A call without all its axes was refused by typing.)
                    if key in generic and len(callee.axes) == len(generic[key].axes) and (key, callee.axes) not in seen:
                        seen.add((key, callee.axes))
                        waiting.append(self._choice(key, callee.axes, said, called=True))
            called = {key for key, _ in seen}
            left = next((key for key in uncalled if key not in called), None)
            if left is None:
                return
            own = self._own_axes(left)
            seen.add((left, own))
            waiting.append(self._choice(left, own, said, called=False))

    def _choice(
        self, key: FunctionKey, axes: tuple[str, ...], said: set[tuple[FunctionKey, Diagnostic]], *, called: bool
    ) -> Function:
        """The function with its axis parameters given names. What is new is said, with the choice where a call made it."""
        body = self._bodies[key]
        choice = self._type(key, body, axes)
        self._functions.append(choice)
        new = [one for one in choice.typed.value.diagnostics if (key, one) not in said]
        said.update((key, one) for one in new)
        own = self._own_axes(key)
        self._say(body.state, body.key, (_with_choice(one, axes, own) if called else one for one in new))
        return choice

    def _own_axes(self, key: FunctionKey) -> tuple[str, ...]:
        entity = self._bodies[key].signature.value.entity
        assert isinstance(entity, Signature)
        return entity.axes

    def _recursion(self, generic: Mapping[FunctionKey, Function]) -> None:
        """E2016 for every call that closes a cycle of calls, by a depth-first walk in order of declaration."""
        done: dict[FunctionKey, bool] = {}  # False while a function is on the way
        closed: set[tuple[FunctionKey, FunctionKey]] = set()
        for root in generic:
            if root in done:
                continue
            done[root] = False
            way: list[tuple[FunctionKey, Iterator[CallPlace]]] = [(root, self._calls(generic[root]))]
            taken: list[tree.At] = []
            while way:
                key, calls = way[-1]
                call = next(calls, None)
                if call is None:
                    way.pop()
                    if taken:
                        taken.pop()
                    done[key] = True
                    continue
                target = _key(call.function)
                if target not in generic or done.get(target):
                    continue
                if target in done:
                    if (key, target) not in closed:
                        closed.add((key, target))
                        start = next(i for i, (one, _) in enumerate(way) if one == target)
                        self._report_recursion([one for one, _ in way[start:]], taken[start:], call.at)
                    continue
                done[target] = False
                taken.append(call.at)
                way.append((target, self._calls(generic[target])))

    def _calls(self, function: Function) -> Iterator[CallPlace]:
        typed: Typed = function.typed.value
        return iter(typed.calls)

    def _report_recursion(self, ring: list[FunctionKey], steps: list[tree.At], closing: tree.At) -> None:
        names = [str(key) for key in ring]
        said = (
            f"functions call each other: {shown_cycle(names)}"
            if len(ring) > 1
            else f"the function `{names[0]}` calls itself"
        )
        labels = tuple(
            Label(Place(*at, self._bodies[key].key, key.file), f"`{key}` calls `{callee}`")
            for key, callee, at in zip(ring, ring[1:], steps[:MAX_LABELS], strict=False)
        )
        place = Place(*closing, self._bodies[ring[-1]].key, ring[-1].file)
        self._diagnostics.append(
            Diagnostic(
                "E2016",
                said,
                Label(place, f"`{ring[-1]}` calls `{ring[0]}`, which closes the cycle"),
                labels,
                ("functions do not call themselves, directly or through others",),
                "to apply a module many times, use `stack{N}(M)`",
            )
        )

    def _assertions(self, state: FileState) -> None:
        for index, chunk in enumerate(state.loaded.parsed.file.declarations):
            node = chunk.declaration
            if isinstance(node, tree.StaticAssert):
                env = self._sight.environment(state, index, View.LAST, self._mentions(node.condition))
                given = self._queries.leaf("assertion", node, codecs.ASSERTION)
                subject = f"{state.name}: {chunk.key}"
                self._say(state, chunk.key, self._queries.get(stages.ASSERTION, given, env, subject=subject).value)

    # --- configuration blocks -----------------------------------------------------------------------------------------

    def _blocks(
        self, state: FileState
    ) -> tuple[tuple[OptimizerRecord, ...], TrainingRecord | None, ServeRecord | None]:
        """The main file's blocks; of two of one name the first counts, and the second is E2010."""
        blocks: dict[tuple[str, str], tuple[int, str, tree.Block]] = {}
        for index, chunk in enumerate(state.loaded.parsed.file.declarations):
            node = chunk.declaration
            if isinstance(node, tree.Block):
                first = blocks.setdefault((node.kind, node.name), (index, chunk.key, node))
                if first[1] != chunk.key:
                    self._repeated_block(state, chunk.key, node, first[1], first[2])
        optimizers: list[OptimizerRecord] = []
        for index, key, block in blocks.values():
            if block.kind == "optimizer":
                record = self._resolved(stages.OPTIMIZER, state, index, key, block)
                optimizers.extend([record] if isinstance(record, OptimizerRecord) else [])
        training: TrainingRecord | None = None
        serve: ServeRecord | None = None
        found = self._sources(state, blocks.keys(), optimizers)
        sources = self._queries.leaf("program", found, stages.SOURCES)
        for index, key, block in blocks.values():
            if block.kind == "training":
                data = self._data_head(state, key, block)
                record = self._resolved(stages.TRAINING, state, index, key, block, sources, data)
                training = record if isinstance(record, TrainingRecord) else training
            elif block.kind == "inference":
                record = self._resolved(stages.SERVE, state, index, key, block, sources)
                serve = record if isinstance(record, ServeRecord) else serve
        return tuple(optimizers), training, serve

    def _resolved(
        self, stage: Stage[Resolved], state: FileState, index: int, key: str, block: tree.Block, *more: Result[Any]
    ) -> Record | None:
        """A block's record. `whole` says that every line of the block did parse."""
        env = self._sight.environment(state, index, View.LAST, self._mentions(block))
        given = self._queries.leaf("block", block, codecs.BLOCK)
        whole = not any(failed.key.startswith(f"{key}/") for failed in state.loaded.parsed.failed)
        found = self._queries.get(stage, given, env, *more, subject=f"{state.name}: {key}", whole=whole).value
        self._say(state, key, found.diagnostics)
        return found.record

    def _repeated_block(self, state: FileState, key: str, node: tree.Block, first: str, earlier: tree.Block) -> None:
        reporter = Reporter()
        reporter.report(
            "E2010",
            (node.name_at, node.name_at),
            f"the block `{node.kind} {node.name}` stands twice",
            text="again here",
            labels=[(Place(earlier.name_at, earlier.name_at, first, state.name), "first here")],
        )
        self._say(state, key, reporter.diagnostics())

    def _sources(
        self, state: FileState, blocks: Iterable[tuple[str, str]], optimizers: Iterable[OptimizerRecord]
    ) -> Sources:
        functions: list[Signature] = []
        for _, _, module, fn in self._fns(state):
            entity = state.signatures[module, fn.name].value.entity
            if module is None and isinstance(entity, Signature):
                functions.append(entity)
        unparsed = tuple(
            failed.key.removeprefix("optimizer ")
            for failed in state.loaded.parsed.failed
            if failed.key.startswith("optimizer ")
        )
        return Sources(
            tuple(functions),
            tuple(name for kind, name in blocks if kind == "optimizer"),
            unparsed,
            tuple((record.name, record.schedule.warmup) for record in optimizers),
        )

    def _data_head(self, state: FileState, key: str, block: tree.Block) -> Result[DataHead]:
        path = data_path(block)
        head = None if path is None else self._reader.head(self._reader.resolve(state.name, path))
        given = self._queries.leaf("data file", data_file(head), codecs.DATA_FILE)
        return self._queries.get(stages.DATA, given, subject=f"{state.name}: {key}")

    # --- what is gathered ---------------------------------------------------------------------------------------------

    def _ask(
        self, stage: Stage[Elaborated], state: FileState, key: str, *inputs: Result[Any], **options: object
    ) -> Result[Elaborated]:
        found = self._queries.get(stage, *inputs, subject=f"{state.name}: {key}", **options)
        self._say(state, key, found.value.diagnostics)
        return found

    def _say(self, state: FileState, key: str, diagnostics: Iterable[Diagnostic]) -> None:
        self._diagnostics.extend(located(one, file=state.name, chunk=key) for one in diagnostics)

    def _mentions(self, *roots: object) -> Mentions:
        return mentions(roots, self._options.implied)

    def _headers(self) -> Iterator[ModuleHeader]:
        for state in self._sight.files.values():
            for found in state.entities.values():
                entity = found.value.entity
                if isinstance(entity, ModuleHeader):
                    yield entity

    def _unknown_overrides(self, main: FileState) -> tuple[str, ...]:
        def is_constant(name: str) -> bool:
            declared = main.names.declared.get(name)
            if declared is None:
                return name in main.names.unparsed
            return isinstance(declared.node, tree.Const)

        return tuple(name for name in self._options.overrides if not is_constant(name))

    def _proposed(self) -> Iterator[Diagnostic]:
        """The diagnostics, unknown names with proposals.

        A proposal looks at every name of the file. So that a large file with many unknown names takes no time that grows
        with the product of the two, the first unknown names have proposals, until so many names were looked at.
        """
        left = LOOKED_AT
        for one in self._diagnostics:
            place = one.primary.place
            state = self._sight.files.get(place.file)
            if one.unknown is None or state is None or left <= 0:
                yield one
                continue
            near = list(self._names_near(state, place, one.unknown, one.wanted))
            left -= len(near)
            yield with_proposal(one, near)

    def _names_near(self, state: FileState, place: Place, name: str, wanted: str) -> Iterator[str]:
        """The names that could stand in place of one that is unknown. (A proposal of another kind would be the next error.)"""
        kinds = _KINDS.get(wanted, _ANY)
        alias, dot, _ = name.rpartition(".")
        if dot:
            target = state.imports.get(alias)
            if target is not None:
                yield from (
                    f"{alias}.{one.name}" for one in _of_kinds(target, kinds) if type(one.node) is not tree.Import
                )
            return
        yield from (one.name for one in _of_kinds(state, kinds))
        if wanted == "type":
            yield from SCALARS
        if place.chunk.startswith(("fn ", "module ")):
            if wanted in ("", "value"):
                yield from self._options.builtins
            yield from self._own_names(state, place.chunk, wanted)

    def _own_names(self, state: FileState, chunk: str, wanted: str) -> Iterator[str]:
        """Type parameters and parameters of the declaration that a chunk belongs to, and of its module."""
        module, _, member = chunk.partition("/")
        for declared in state.loaded.parsed.file.declarations:
            if declared.key not in (chunk, module):
                continue
            node = declared.declaration
            nodes: list[tree.Module | tree.Fn] = [node] if isinstance(node, tree.Fn | tree.Module) else []
            if isinstance(node, tree.Module) and member:
                nodes += [one.member for one in node.members if one.key == chunk and isinstance(one.member, tree.Fn)]
            for one in nodes:
                if wanted in ("", "dimension"):
                    yield from (param.name for param in one.type_params)
                if wanted in ("", "value") and isinstance(one, tree.Fn):
                    yield from (param.name for param in one.params)


_ANY: Final = (tree.Import, tree.Const, tree.DimDecl, tree.TypeAlias, tree.Model, tree.Module, tree.Fn)
_KINDS: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {
        "value": (tree.Fn, tree.Const, tree.Module, tree.Model, tree.Import),
        "dimension": (tree.Const, tree.DimDecl),
        "constant": (tree.Const,),
        "type": (tree.TypeAlias, tree.Module, tree.Model),
        "module": (tree.Module, tree.Model, tree.TypeAlias),
        "import": (tree.Import,),
    }
)
"""What may stand where a name is wanted. (A module's and an import's name begin a path to a function.)"""


def _of_kinds(state: FileState, kinds: tuple[type, ...]) -> Iterator[Declared]:
    return (one for one in state.names.declared.values() if isinstance(one.node, kinds))


@dataclass(slots=True)
class _Body:
    """A function to be typed, with the inputs of its stage once they are made."""

    state: FileState
    index: int
    key: str
    module: str | None
    fn: tree.Fn
    env: Any = None
    given: Any = None
    signature: Any = None


def _key(callee: Callee) -> FunctionKey:
    return FunctionKey(callee.file, None if callee.module is None else callee.module.name, callee.name)


def _with_choice(diagnostic: Diagnostic, names: tuple[str, ...], params: tuple[str, ...]) -> Diagnostic:
    choice = ", ".join(f"{param} = {name}" for param, name in zip(params, names, strict=True))
    return msgspec.structs.replace(diagnostic, notes=(*diagnostic.notes, f"the function is called with axis {choice}"))
