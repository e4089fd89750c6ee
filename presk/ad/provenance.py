"""What each binding of a generated function is for, beside the program."""

from collections.abc import Iterable, Mapping

import msgspec

from presk.core.ir import (
    Apply,
    Call,
    Closure,
    Field,
    Fold,
    Function,
    Grad,
    Literal,
    MakeParams,
    MakeTuple,
    Operation,
    Prim,
    Project,
)


class Purpose(msgspec.Struct, frozen=True, array_like=True):
    """What binding `var` of `function` is for, in words whose numbers are the primal function's.

    `primal` and `source` are the binding from which it is made, where there is one: its place in the source is this one's.
    """

    function: str
    var: int
    text: str
    primal: str
    source: int | None


Provenance = Mapping[tuple[str, int], Purpose]


def table(purposes: Iterable[Purpose]) -> dict[tuple[str, int], Purpose]:
    """Purposes by function and variable."""
    return {(purpose.function, purpose.var): purpose for purpose in purposes}


def word(op: Operation) -> str:
    """An operation in a word."""
    match op:
        case Prim(name=name):
            return name
        case Literal():
            return "number"
        case Field():
            return "field"
        case MakeParams():
            return "tree"
        case MakeTuple():
            return "tuple"
        case Project():
            return "item"
        case Call():
            return "call"
        case Fold():
            return "fold"
        case Closure():
            return "closure"
        case Grad():
            return "grad"
        case Apply():
            return "apply"


def labels(function: Function) -> dict[int, str]:
    """The variables of a function as it prints them: by name, or by number."""
    found = {place: param.name for place, param in enumerate(function.params)}
    for binding in function.bindings:
        found[binding.var] = binding.name if binding.name is not None else f"%{binding.var}"
    return found
