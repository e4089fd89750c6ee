"""What the tests of elaboration share: trees and types from their text, programs from dictionaries, a stand-in for typing.

The stand-in types nothing. It gives the result `ℝ[]` to a function that declares none, and reports calls of names and of members,
which is what the orchestrator needs to know of bodies.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.cache.codec import struct_codec
from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.log import RequestLog
from presk.cache.project import discover_project
from presk.cache.stage import Stage
from presk.cache.store import Store
from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic
from presk.elab import stages
from presk.elab.entities import Elaborated, Entity, Env, ModuleHeader, Param, Signature
from presk.elab.environment import env_of
from presk.elab.files import GivenFiles, load
from presk.elab.parsing import PARSE_CHUNK, PARSE_FILE
from presk.elab.program import Options, Program, elaborate_program
from presk.elab.references import REFERENCES
from presk.elab.scope import Scope, path_of
from presk.elab.tokenizing import PLACES, TOKENS
from presk.elab.types import elaborate_type
from presk.syntax import tree
from presk.syntax.api import parse_file
from presk.types.decide import Decider
from presk.types.dim import Dim, constant
from presk.types.type import Axis, Index, ModuleRef, Real, Shape, Type

MAIN: Final = "main.psk"
NO_ENV: Final = Env(MAIN, {}, {}, {})
NO_PATHS: Final[Mapping[str, Entity]] = MappingProxyType({})


# --- trees ------------------------------------------------------------------------------------------------------------


def declarations(text: str) -> tuple[tree.DeclChunk, ...]:
    """The declarations of a text that has no syntax error."""
    parsed = parse_file(text.encode())
    assert parsed.diagnostics == ()
    return parsed.file.declarations


def declaration(text: str) -> Any:
    """The only declaration of a text."""
    (chunk,) = declarations(text)
    return chunk.declaration


def type_expr(text: str) -> tree.TypeExpr:
    """The tree of a type."""
    alias = declaration(f"type T = {text}")
    assert isinstance(alias, tree.TypeAlias)
    return alias.type


def expr(text: str) -> tree.Expr:
    """The tree of an expression."""
    const = declaration(f"const C = {text}")
    assert isinstance(const, tree.Const)
    return const.value


def type_of(text: str, env: Env = NO_ENV) -> Type:
    """A type that is elaborated without a report."""
    reporter = Reporter()
    found = elaborate_type(type_expr(text), scope(env), reporter, module_typed=True)
    assert found is not None, codes(reporter.diagnostics())
    return found


def scope(env: Env = NO_ENV, **more: Any) -> Scope:
    """A scope over an environment."""
    return Scope(env, Decider(), "a test", **more)


def env_with(*entities: Entity, paths: Mapping[str, Entity] = NO_PATHS) -> Env:
    """An environment of entities under their own names, and of others under the paths given."""
    names: dict[str, Entity] = {}
    modules: dict[ModuleRef, ModuleHeader] = {}
    for entity in entities:
        names[_name(entity)] = entity
    names.update(paths)
    for entity in names.values():
        if isinstance(entity, ModuleHeader):
            modules[entity.ref] = entity
    return Env(MAIN, names, modules, {})


def _name(entity: Entity) -> str:
    match entity:
        case ModuleHeader(ref=ref):
            return ref.name
        case _ if hasattr(entity, "symbol"):
            return str(entity.symbol)
        case _:
            return str(entity.name)


def codes(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    """The codes, in order."""
    return [one.code for one in diagnostics]


def words(diagnostic: Diagnostic) -> str:
    """Everything that a diagnostic says."""
    labels = (label.text for label in diagnostic.labels)
    return "\n".join((diagnostic.message, diagnostic.primary.text, *labels, *diagnostic.notes, diagnostic.mend or ""))


# --- programs ---------------------------------------------------------------------------------------------------------


class CallPlace(msgspec.Struct, frozen=True, array_like=True):
    """A call in a body, as typing reports it."""

    function: "Callee"
    at: tree.At


class Callee(msgspec.Struct, frozen=True, array_like=True):
    """The function that is called."""

    file: str
    module: ModuleRef | None
    name: str
    axes: tuple[str, ...] = ()


class StandIn(msgspec.Struct, frozen=True, array_like=True):
    """What the stand-in gives for a function."""

    signature: Signature
    calls: tuple[CallPlace, ...]
    diagnostics: tuple[Diagnostic, ...]


def _stand_in(
    function: tree.Fn, signature: Elaborated, env: Mapping[str, Elaborated | str], *, axes: tuple[str, ...]
) -> StandIn:
    entity = signature.entity
    assert isinstance(entity, Signature)
    seen = env_of(env)
    reporter = Reporter()
    calls = tuple(_calls(function.body, seen, entity.module, reporter)) if function.body is not None else ()
    params = tuple(
        param if param.type is not None or param.axis else Param(param.name, Real(), param.default)
        for param in entity.params
    )
    result = Real() if entity.result is None else entity.result
    return StandIn(msgspec.structs.replace(entity, params=params, result=result), calls, reporter.diagnostics())


def _calls(body: tree.Expr, env: Env, module: ModuleRef | None, reporter: Reporter) -> Iterator[CallPlace]:
    """Calls of names and of modules' members; a name that is nothing is E2002. `axis a` arguments are the axes."""
    pending: list[Any] = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending.extend(reversed(node))
            continue
        if isinstance(node, tree.Call):
            path = path_of(node.callee) or ()
            axes = tuple(one.name for one in node.arguments if isinstance(one, tree.AxisArg))
            entity = env.names.get(".".join(path))
            owner = env.names.get(".".join(path[:-1]))
            if isinstance(entity, Signature):
                yield CallPlace(Callee(entity.file, None, entity.name, axes), node.callee.at)
            elif isinstance(owner, ModuleHeader):
                yield CallPlace(Callee(owner.ref.file, owner.ref, path[-1], axes), node.callee.at)
            elif module is not None and len(path) == 1 and (module, path[0]) in env.members:
                yield CallPlace(Callee(module.file, module, path[0], axes), node.callee.at)
            elif len(path) == 1 and path[0] not in env.broken:
                reporter.report("E2002", node.callee.at, f"unknown function `{path[0]}`", unknown=path[0])
        if isinstance(node, tree.Node):
            pending.extend(
                value
                for name in reversed(node.__struct_fields__)
                if isinstance(value := getattr(node, name), tree.Node | tuple)
            )


STAND_IN: Final = Stage("typing", __name__, ("axes",), _stand_in, struct_codec(StandIn), ("islpy",))

STAGES: Final[tuple[Stage[Any], ...]] = (
    TOKENS,
    PLACES,
    PARSE_CHUNK,
    PARSE_FILE,
    REFERENCES,
    stages.CONSTANT,
    stages.DIMENSION,
    stages.ALIAS,
    stages.HEADER,
    stages.MODEL,
    stages.SIGNATURE,
    STAND_IN,
    stages.ASSERTION,
    stages.OPTIMIZER,
    stages.DATA,
    stages.TRAINING,
    stages.SERVE,
)


@cache
def _fingerprints() -> Fingerprints:
    """Of the project and of these tests, where the stand-in lives; the sources are read once."""
    return Fingerprints({**discover_project(), "tests": Path(__file__).parents[1]})


def engine(store: Store | None = None) -> Engine:
    """An engine whose values are what their encoding says."""
    return Engine(store, fingerprints=_fingerprints(), roundtrip=True)


class Session:
    """Programs elaborated one after the other by one engine; `log` is that of the last."""

    def __init__(self, store: Store | None = None) -> None:
        self.engine: Final = engine(store)
        self.log = RequestLog()

    def program(
        self, files: Mapping[str, str | bytes], *, overrides: Mapping[str, int] | None = None, **options: Any
    ) -> Program:
        """The program whose main file is `main.psk`."""
        given = {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}
        reader = GivenFiles(given)
        values: dict[str, Dim] = {name: constant(value) for name, value in (overrides or {}).items()}
        with self.engine.request() as self.log:
            loaded = load(self.engine, reader, MAIN)
            assert not isinstance(loaded, str)
            return elaborate_program(self.engine, loaded, reader, STAND_IN, Options(overrides=values, **options))

    def computed(self) -> dict[str, frozenset[str]]:
        """What the last program had to compute: the subjects by stage, for stages that computed anything."""
        found = {stage.name: self.log.computed(stage.name) for stage in STAGES}
        return {name: subjects for name, subjects in found.items() if subjects}


def program(files: Mapping[str, str | bytes] | str, **options: Any) -> Program:
    """A program by itself; a text is its main file."""
    return Session().program({MAIN: files} if isinstance(files, str) else files, **options)


def entity(found: Program, name: str, file: str = MAIN) -> Any:
    """What a constant, dimension, alias, module or model became."""
    return found.states[file].entities[name].value.entity


def signature(found: Program, name: str, file: str = MAIN) -> Signature:
    """The signature of a function, `f` or `M.f`."""
    module, _, function = name.rpartition(".")
    found_entity = found.states[file].signatures[module or None, function].value.entity
    assert isinstance(found_entity, Signature)
    return found_entity


def reported(found: Program) -> list[tuple[str, str, int]]:
    """Code, file and line of every diagnostic, in the order of the text."""
    places = []
    for one in found.diagnostics:
        place = one.primary.place
        line = found.states[place.file].loaded.table.span(place).start.line
        places.append((one.code, place.file, line))
    return sorted(places, key=lambda item: (item[1], item[2], item[0]))


def tokens(bound: int, *axes: tuple[str, Dim | int]) -> Index:
    """An index tensor with named axes."""
    return Index(
        constant(bound),
        Shape(tuple(Axis(length if isinstance(length, Dim) else constant(length), name) for name, length in axes)),
    )
