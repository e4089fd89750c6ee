"""Which modules have one initializer, and which instances can be initialized at all.

A stack is initialized layer by layer: its key is split into as many keys as it has layers, so its length must be a constant. A
module one of whose stacks, at any depth, is as long as a dimension of its own says has no initializer for all its instances; it is
initialized in place, at each instance, and where the length stays symbolic there the program is refused (E5002).
"""

from collections.abc import Mapping

from presk.core.walk import expressions
from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic, located
from presk.elab.entities import ModuleHeader
from presk.types.dim import Dim
from presk.types.trees import UseField, fields
from presk.types.type import Composed, Instance, ModuleRef, Named, Stacked, map_instance
from presk.typing.checker import generic_instance
from presk.typing.typed import InitCall, TypedFunction

Headers = Mapping[ModuleRef, ModuleHeader]


def symbolic_stack(instance: Instance, headers: Headers) -> tuple[Stacked, tuple[str, ...]] | None:
    """The first stack in an instance's tree whose length is not constant, and the fields that lead to it; None if there is none.

    Each instance is looked at once, so the time is linear in the number of different instances. KeyError for an unknown module.
    """
    seen: set[Instance] = set()
    waiting: list[tuple[Instance, tuple[str, ...]]] = [(instance, ())]
    while waiting:
        one, path = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        match one:
            case Stacked(length, inner):
                if not length.is_constant():
                    return one, path
                waiting.append((inner, path))
            case Composed(outer, inner):
                waiting += [(inner, (*path, "inner")), (outer, (*path, "outer"))]
            case Named(ref, _, hidden):
                model = headers[ref].model
                if model is not None:
                    waiting.append((_put_in(model, dict(hidden)), path))
                    continue
                used = [field for field in fields(one, headers) if isinstance(field, UseField)]
                waiting += [(field.instance, (*path, field.name)) for field in reversed(used)]
    return None


def _put_in(instance: Instance, values: Mapping[str, Dim]) -> Instance:
    return map_instance(instance, lambda dim: dim.substitute(values))


def has_initializer(header: ModuleHeader, headers: Headers) -> bool:
    """Whether a module has one initializer for all its instances."""
    return symbolic_stack(generic_instance(header), headers) is None


def check_initializers(function: TypedFunction, headers: Headers) -> tuple[Diagnostic, ...]:
    """E5002 for each call of an initializer of an instance with a stack whose length is not constant."""
    reporter = Reporter()
    for call in expressions(function.body) if function.body is not None else ():
        if not isinstance(call, InitCall):
            continue
        found = symbolic_stack(call.instance, headers)
        if found is None:
            continue
        stack, path = found
        where = f"`{call.instance}`" + (f", at `{'.'.join(path)}`," if path else "")
        reporter.report(
            "E5002",
            call.at,
            f"the initializer of {where} has no number of layers to make: `{stack.length}` is not constant",
            text=f"makes `{stack}`",
            notes=("a stack is initialized layer by layer, each from a key of its own",),
            mend="give the stack a constant length where it is initialized",
        )
    signature = function.signature
    return tuple(located(one, file=signature.file, chunk=signature.chunk) for one in reporter.diagnostics())
