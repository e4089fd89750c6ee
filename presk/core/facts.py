"""The bounds of dimensions that a program's functions rely on, for what works on its core."""

from collections.abc import Iterable, Mapping

from presk.core.ir import Program
from presk.core.program import CoreProgram, function_ref
from presk.elab.program import Program as TypedProgram
from presk.types.claim import Claim
from presk.typing.typed import TypedFunction


def declared_facts(typed: TypedProgram, core: CoreProgram) -> dict[str, tuple[Claim, ...]]:
    """The bounds that declared functions rely on, by core name; functions without any are left out."""
    found: dict[str, tuple[Claim, ...]] = {}
    for entry in typed.functions:
        name = core.names.get(function_ref(entry))
        if name is None or name not in core.parts:
            continue
        function: TypedFunction = entry.typed.value
        if function.signature.facts:
            found[name] = function.signature.facts
    return found


def facts_of(program: Program, declared: Mapping[str, Iterable[Claim]]) -> dict[str, tuple[Claim, ...]]:
    """The bounds of all functions of a program: a lambda and a generated function rely on those of the declaration whose name
    theirs begins with (`f.vjp`, `f.lambda0.grad`)."""
    found: dict[str, tuple[Claim, ...]] = {}
    for function in program.functions:
        name = function.name
        while name and name not in declared:
            name = name.rpartition(".")[0]
        if name:
            found[function.name] = tuple(declared[name])
    return found
