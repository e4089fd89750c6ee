"""Effects: which functions draw random numbers, and E4001 for those that do not say so.

Rand is the only effect. A function uses it if it calls a builtin that draws, the initializer of a module with a random parameter, or
a function that uses it; its lambdas count as its own, and a gradient as the function it is taken of.

That is read off the typed program, which knows nothing of readings: outside a training run `dropout(rate, key, x)` is x, and yet a
function that writes it draws. Nor does it show how initializers split their keys: one whose module has only zeros and ones draws
nothing (it needs no declaration, and the effect of calling it is decided over the whole tree).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from presk.core.walk import expressions
from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic, located
from presk.elab.entities import ModuleHeader
from presk.prims.core_rows import CORE
from presk.prims.table import BUILTINS
from presk.syntax.tree import At
from presk.types.trees import UseField
from presk.types.type import Composed, Instance, ModuleRef, Named, Stacked
from presk.typing.typed import (
    Call,
    Chained,
    Direct,
    FunctionRef,
    FunctionValue,
    InitCall,
    Prim,
    Repeated,
    Target,
    Typed,
    TypedFunction,
)

RAND: Final = "Rand"


class Use(msgspec.Struct, frozen=True, array_like=True):
    """A use of Rand: its place in the function's chunk, and what draws there, in words."""

    at: At
    what: str


class Effects(msgspec.Struct, frozen=True, array_like=True):
    """The effects of a function: its first use of Rand in the order of the text, None if it does not use it."""

    rand: Use | None


def summarize(
    function: TypedFunction, callees: Mapping[FunctionRef, Effects], headers: Mapping[ModuleRef, ModuleHeader]
) -> Effects:
    """The effects of a function whose body has no errors, given those of the functions it mentions."""
    if function.body is None:
        return Effects(None)
    uses = [
        Use(node.at, what)
        for node in expressions(function.body)
        if (what := _draws(node, callees, headers)) is not None
    ]
    return Effects(min(uses, key=lambda use: use.at, default=None))


def check_effects(function: TypedFunction, effects: Effects) -> tuple[Diagnostic, ...]:
    """E4001, at the first use, for a function that uses Rand and does not declare it."""
    signature = function.signature
    use = effects.rand
    if use is None or RAND in signature.uses:
        return ()
    reporter = Reporter()
    reporter.report(
        "E4001",
        use.at,
        f"`{signature.qualified}` draws random numbers and does not say so",
        text=use.what,
        notes=("what a function draws depends on a key; `uses Rand` tells its callers",),
        mend="write `uses Rand` behind its result type",
    )
    return tuple(located(one, file=signature.file, chunk=signature.chunk) for one in reporter.diagnostics())


def _draws(
    node: Typed, callees: Mapping[FunctionRef, Effects], headers: Mapping[ModuleRef, ModuleHeader]
) -> str | None:
    """What an expression itself draws with, in words; None if it does not."""
    match node:
        case Prim(name=name) if name in BUILTINS and BUILTINS[name].draws:
            return f"`{name}` draws from its key"
        case InitCall(instance=instance) if is_random(instance, headers):
            return f"`init` draws the parameters of `{instance}`"
        case FunctionValue(function=function) if callees[function].rand is not None:
            return f"`{function.name}` uses Rand"
        case Call(target=target):
            drawing = [one for one in functions_of(target) if callees[one].rand is not None]
            return f"`{drawing[0].name}` uses Rand" if drawing else None
        case _:
            return None


def functions_of(target: Target) -> tuple[FunctionRef, ...]:
    """The functions that a call calls."""
    match target:
        case Direct(function):
            return (function,)
        case Repeated(_, inner):
            return functions_of(inner)
        case Chained(outer, inner):
            return (*functions_of(inner), *functions_of(outer))


def is_random(instance: Instance, headers: Mapping[ModuleRef, ModuleHeader]) -> bool:
    """Whether an instance's initializer draws: some parameter of its tree has a random `init`."""
    seen: set[ModuleRef] = set()
    waiting = [instance]
    while waiting:
        match waiting.pop():
            case Stacked(_, inner):
                waiting.append(inner)
            case Composed(outer, inner):
                waiting += [inner, outer]
            case Named(ref) if ref not in seen:
                seen.add(ref)
                header = headers[ref]
                waiting += [header.model] if header.model is not None else []
                for field in header.fields:
                    if isinstance(field, UseField):
                        waiting.append(field.instance)
                    elif CORE[field.init.kind].draws:
                        return True
            case _:
                pass
    return False
