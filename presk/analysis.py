"""What `check` finds out about a program that is well typed: effects, initializers, regularity, gradients that cannot be taken.

Effects and initializers are read off the typed program (E4001, E5002). Regularity and gradients are read off the core of the
*training* reading, whatever is run later (E3001, E6001, E6002): what a program may say does not depend on how it is run. Every
function is a stage of its own and of what it needs to know of those it calls.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from presk.ad.refusal import diagnostic
from presk.ad.stage import refused_gradients
from presk.cache.codec import Codec, struct_codec
from presk.cache.stage import Queries, Result, Stage
from presk.core import effects, regularity
from presk.core.initializers import check_initializers
from presk.core.ir import Call, Closure, Fold
from presk.core.lower import Lowered, Mode
from presk.core.program import CoreProgram, function_ref, lower_program, modules_of
from presk.diagnostics.value import Diagnostic
from presk.elab.codecs import PACKAGES
from presk.elab.entities import ModuleHeader
from presk.elab.program import Program
from presk.types.trees import UseField
from presk.types.type import ModuleRef
from presk.typing.typed import FunctionRef, TypedFunction

K = TypeVar("K")


class FunctionEffects(msgspec.Struct, frozen=True, array_like=True):
    """The effects of a function, and what is wrong with them or with the initializers that it calls."""

    function: FunctionRef
    effects: effects.Effects
    diagnostics: tuple[Diagnostic, ...]


class Headers(msgspec.Struct, frozen=True, array_like=True):
    """The modules whose initializers a function calls, and those that these reach."""

    headers: tuple[ModuleHeader, ...]


HEADERS: Final[Codec[Headers]] = struct_codec(Headers)


def _effects(function: TypedFunction, callees: Mapping[str, FunctionEffects], modules: Headers) -> FunctionEffects:
    headers = {header.ref: header for header in modules.headers}
    known = {one.function: one.effects for one in callees.values()}
    found = effects.summarize(function, known, headers)
    signature = function.signature
    return FunctionEffects(
        FunctionRef(signature.file, signature.module, signature.name, function.axes),
        found,
        (*effects.check_effects(function, found), *check_initializers(function, headers)),
    )


def _regularity(part: Lowered, callees: Mapping[str, regularity.Summary]) -> regularity.Summary:
    return regularity.summarize(part.functions, callees)


EFFECTS: Final = Stage("effects", __name__, (), _effects, struct_codec(FunctionEffects), PACKAGES)
REGULARITY: Final = Stage("regularity", __name__, (), _regularity, struct_codec(regularity.Summary), PACKAGES)


Look = Callable[[Program, CoreProgram], None]
"""Is shown a program and its core, before anything is read off it."""


def _passing(program: Program, core: CoreProgram) -> None:
    del program, core


def analyse(queries: Queries, program: Program, look: Look = _passing) -> tuple[Diagnostic, ...]:
    """What is to be said of a typed program without errors. Places have their files and chunks."""
    found = _effects_of(queries, program)
    if any(one.code == "E5002" for one in found):
        return found  # such an initializer has no form in the core
    core = lower_program(queries, program, Mode.TRAINING)
    look(program, core)
    calls = {name: _called(part.value) for name, part in core.parts.items()}
    jumps = _regularity_of(queries, core, calls)
    refused = refused_gradients(queries, core.parts, calls)
    origins = core.origins() if refused else {}
    return (*found, *jumps, *(diagnostic(one, origins, asked) for one, asked in refused))


def _ordered(calls: Mapping[K, Iterable[K]]) -> list[K]:
    """The keys, each behind those that it calls; calls of anything else are passed over. There are no cycles."""
    ordered: dict[K, None] = {}
    for root in calls:
        way = [(root, iter(calls[root]))]
        while way:
            key, rest = way[-1]
            following = next((one for one in rest if one in calls and one not in ordered), None)
            if following is not None:
                way.append((following, iter(calls[following])))
            else:
                way.pop()
                ordered.setdefault(key)
    return list(ordered)


def _effects_of(queries: Queries, program: Program) -> tuple[Diagnostic, ...]:
    entries = {function_ref(entry): entry for entry in program.functions if not entry.generic}
    calls = {
        ref: tuple(dict.fromkeys(one.function for one in entry.typed.value.calls)) for ref, entry in entries.items()
    }
    known: dict[FunctionRef, Result[FunctionEffects]] = {}
    said: dict[Diagnostic, None] = {}
    for ref in _ordered(calls):
        entry = entries[ref]
        callees = queries.group("callees", {_text(callee): known[callee] for callee in calls[ref]})
        modules = queries.leaf("modules", _reached(program, entry.typed.value), HEADERS)
        known[ref] = queries.get(EFFECTS, entry.typed, callees, modules, subject=f"{entry.key.file}: {entry.chunk}")
        said.update(dict.fromkeys(known[ref].value.diagnostics))
    return tuple(said)


def _text(ref: FunctionRef) -> str:
    name = f"{ref.module.name}.{ref.name}" if ref.module is not None else ref.name
    return ":".join((f"{ref.file}#{name}", *ref.axes))


def _reached(program: Program, function: TypedFunction) -> Headers:
    """The headers of the modules whose initializers a function calls, with all that they reach."""
    found: dict[ModuleRef, ModuleHeader] = {}
    waiting = modules_of(function.inits)
    while waiting:
        ref = waiting.pop()
        if ref not in found:
            header = found[ref] = program.headers[ref]
            instances = [field.instance for field in header.fields if isinstance(field, UseField)]
            waiting += modules_of([*instances, header.model] if header.model is not None else instances)
    return Headers(tuple(found[ref] for ref in sorted(found)))


def _regularity_of(queries: Queries, core: CoreProgram, calls: Mapping[str, tuple[str, ...]]) -> tuple[Diagnostic, ...]:
    known: dict[str, Result[regularity.Summary]] = {}
    for name in _ordered(calls):
        callees = queries.group("callees", {callee: known[callee] for callee in calls[name] if callee in known})
        known[name] = queries.get(REGULARITY, core.parts[name], callees, subject=name)
    refused = [gradient for name in core.parts for gradient in known[name].value.refused]
    return regularity.gradient_diagnostics(refused, core.origins()) if refused else ()


def _called(part: Lowered) -> tuple[str, ...]:
    """The functions that a declaration calls, its own lambdas and layers left out."""
    own = {function.name for function in part.functions}
    found = dict.fromkeys(
        binding.op.function
        for function in part.functions
        for binding in function.bindings
        if isinstance(binding.op, Call | Fold | Closure)
    )
    return tuple(name for name in found if name not in own)
