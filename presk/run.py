"""Running an entry on the exact reference, through the engine: the same question is answered once.

The answer is a function of the program after differentiation, the entry, and everything that was given: dimensions, inputs (by their
bytes), words of the command line, the seed, the precision. So it is a stage like any other. It holds the result as text and as JSON,
or why there is none.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from gmpy2 import mpq

from presk.ad.pipeline import AfterAd, Remat
from presk.ad.stage import AFTER_AD
from presk.ad.step import STEP as TRAINING_STEP
from presk.cache.codec import Codec, struct_codec
from presk.cache.stage import Queries, Stage
from presk.core.facts import declared_facts
from presk.core.ir import Origin
from presk.core.lower import Sited
from presk.core.optimizer import DEFAULTS, FUNCTIONS, STEP
from presk.core.program import CoreProgram, function_ref
from presk.diagnostics.value import Diagnostic, Label, Place
from presk.elab.codecs import PACKAGES
from presk.elab.entities import ModuleHeader
from presk.elab.exprs import decimal_value
from presk.elab.program import Program
from presk.exact.given import Given
from presk.exact.run import Job, run_entry
from presk.types.claim import Claim
from presk.typing.typed import HyperOp, Inject, Literal, Typed, TypedFunction

RUN_PACKAGES: Final = (*PACKAGES, "python-flint", "cryptography", "numpy", "safetensors")


class Question(msgspec.Struct, frozen=True, array_like=True):
    """What is asked beside the program and the inputs; see `presk.exact.run.Job`."""

    entry: str
    headers: tuple[ModuleHeader, ...]
    facts: tuple[tuple[str, tuple[Claim, ...]], ...]
    defaults: tuple[tuple[str, str], ...]
    dims: tuple[tuple[str, int], ...]
    words: tuple[tuple[str, str], ...]
    seed: str
    bits: int
    bounds: bool


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What a run gave, in the three forms in which it is shown; empty with diagnostics."""

    text: str
    full_text: str
    json: str
    diagnostics: tuple[Diagnostic, ...]


QUESTION: Final[Codec[Question]] = struct_codec(Question)
ORIGINS: Final[Codec[tuple[Sited, ...]]] = struct_codec(tuple[Sited, ...], "origins")
INPUT_NAMES: Final[Codec[tuple[tuple[str, str, bool], ...]]] = struct_codec(
    tuple[tuple[str, str, bool], ...], "input names"
)
"""The parameter that each file is given for, the file's name, and whether it is a checkpoint."""


def _run(
    after: AfterAd,
    origins: tuple[Sited, ...],
    question: Question,
    names: tuple[tuple[str, str, bool], ...],
    inputs: Mapping[str, bytes],
) -> Answer:
    places = places_of(after, {(site.function, site.var): site.origin for site in origins})
    outcome = run_entry(
        _job(after, places, question, {name: Given(file, inputs[name], checkpoint) for name, file, checkpoint in names})
    )
    if outcome.result is None:
        return Answer("", "", "", outcome.diagnostics)
    result = outcome.result
    return Answer(result.to_text(), result.to_text(full=True), result.to_json(), outcome.diagnostics)


def places_of(after: AfterAd, origins: Mapping[tuple[str, int], Origin]) -> Mapping[tuple[str, int], Origin]:
    """Where bindings stand. One of a generated function stands where the one that it is made from stands."""
    places = dict(origins)
    for purpose in after.purposes:
        origin = places.get((purpose.primal, purpose.source)) if purpose.source is not None else None
        if origin is not None:
            places[purpose.function, purpose.var] = origin
    return places


def _job(
    after: AfterAd, origins: Mapping[tuple[str, int], Origin], question: Question, inputs: Mapping[str, Given]
) -> Job:
    return Job(
        program=after.program,
        entry=question.entry,
        headers={header.ref: header for header in question.headers},
        origins=origins,
        facts=dict(question.facts),
        defaults=dict(question.defaults),
        dims=dict(question.dims),
        inputs=inputs,
        words=dict(question.words),
        seed=int(question.seed),
        bits=question.bits,
        bounds=question.bounds,
    )


RUN: Final = Stage("run", __name__, (), _run, struct_codec(Answer), RUN_PACKAGES)


def run(
    queries: Queries,
    typed: Program,
    core: CoreProgram,
    entry: str,
    *,
    remat: Remat,
    unroll: bool,
    dims: Mapping[str, int],
    words: Mapping[str, str],
    inputs: Mapping[str, Given],
    seed: int,
    bits: int,
    bounds: bool,
) -> Answer:
    """Evaluates an entry, a core name that `core` was lowered for."""
    after = queries.get(
        AFTER_AD,
        queries.group("parts", core.parts),
        subject=entry,
        order=tuple(core.parts),
        remat=remat.value,
        hold=False,
        unroll=unroll,
        objectives=core.objectives,
    )
    if after.value.diagnostics:
        return Answer("", "", "", after.value.diagnostics)
    question = Question(
        entry,
        tuple(core.headers[ref] for ref in sorted(core.headers)),
        tuple(sorted(declared_facts(typed, core).items())),
        entry_defaults(typed, core, entry),
        tuple(sorted(dims.items())),
        tuple(sorted(words.items())),
        str(seed),
        bits,
        bounds,
    )
    sites = tuple(Sited(function, var, origin) for (function, var), origin in core.origins().items())
    answer = queries.get(
        RUN,
        after,
        queries.leaf("origins", sites, ORIGINS),
        queries.leaf("question", question, QUESTION),
        queries.leaf(
            "names",
            tuple(sorted((name, given.name, given.checkpoint) for name, given in inputs.items())),
            INPUT_NAMES,
        ),
        queries.group("inputs", {name: queries.bytes(name, given.data) for name, given in inputs.items()}),
        subject=entry,
    ).value
    return msgspec.structs.replace(answer, diagnostics=at_the_entry(typed, core, entry, answer.diagnostics))


def at_the_entry(
    typed: Program, core: CoreProgram, entry: str, diagnostics: tuple[Diagnostic, ...]
) -> tuple[Diagnostic, ...]:
    """Diagnostics of a run, those that stand nowhere at the entry's signature."""
    place = _signature_place(typed, core, entry)
    if place is None:
        return diagnostics
    return tuple(
        msgspec.structs.replace(one, primary=Label(place, f"the entry `{entry}`")) if _unplaced(one) else one
        for one in diagnostics
    )


def _unplaced(diagnostic: Diagnostic) -> bool:
    """What is wrong with what was given stands nowhere in the program; it is shown at the entry's signature."""
    place = diagnostic.primary.place
    return not place.chunk and place.first > place.last


def _signature_place(typed: Program, core: CoreProgram, name: str) -> Place | None:
    for entry in typed.functions:
        if core.names.get(function_ref(entry)) == name:
            function: TypedFunction = entry.typed.value
            first, last = function.signature.header
            return Place(first, last, function.signature.chunk, function.signature.file)
    generated = (TRAINING_STEP, *(core.optimizer or ()))
    if name in generated and name in core.parts:
        origin = core.parts[name].value.origins[0].origin
        return Place(*origin.at, origin.chunk, origin.file)
    return None


def entry_defaults(typed: Program, core: CoreProgram, name: str) -> tuple[tuple[str, str], ...]:
    """The default values of an entry's parameters, as words of the command line."""
    if name == TRAINING_STEP or (core.optimizer is not None and name == core.optimizer[FUNCTIONS.index(STEP)]):
        return DEFAULTS
    for entry in typed.functions:
        if core.names.get(function_ref(entry)) != name:
            continue
        function: TypedFunction = entry.typed.value
        found = []
        for param, default in zip(function.params, function.defaults, strict=True):
            text = None if default is None else _word(default)
            if text is not None:
                found.append((param.name, text))
        return tuple(found)
    return ()


def _word(node: Typed) -> str | None:
    """A default as a word: its literal, or its exact value."""
    match node:
        case Literal(text=text):
            return text
        case Inject(value=value):
            return _word(value)
        case HyperOp():
            number = _value(node)
            return None if number is None else str(number)
        case _:
            return None


def _value(node: Typed) -> mpq | None:
    """The exact value of arithmetic on literals and constants."""
    match node:
        case Literal(text=text):
            return decimal_value(text)
        case HyperOp(_, type_, op, operands):
            values = [_value(item) for item in operands]
            known = [value for value in values if value is not None]
            if len(known) != len(values):
                return None
            match op, known:
                case "-", [one]:
                    return -one
                case "+", [one, other]:
                    return one + other
                case "-", [one, other]:
                    return one - other
                case "*", [one, other]:
                    return one * other
                case "/", [one, other] if other != 0:
                    return mpq((one / other).__floor__()) if str(type_) in ("nat", "int") else one / other
                case _:
                    return None
        case _:
            return None
