"""Signatures of functions, from their headers.

A signature is generic in every dimension that its types mention: the type parameters of the module and of the function,
then, in order of first mention, dimensions of the file, hidden dimensions of instances, and implicit dimensions (W0001).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic
from presk.elab.entities import Env, ModuleHeader, Param, Signature
from presk.elab.modules import type_params
from presk.elab.scope import Scope, merged
from presk.elab.types import elaborate_type
from presk.syntax import tree
from presk.types.decide import Decider
from presk.types.type import Instance, ModuleType, Type, type_dims

EFFECTS: Final = ("Rand",)
"""The effects there are. `effect Rand` declares nothing new; any other name is E4002."""


def elaborate_signature(
    fn: tree.Fn, chunk: str, header: ModuleHeader | None, env: Env, decider: Decider
) -> tuple[Signature, tuple[Diagnostic, ...]]:
    """The signature of a function whose tree is a header (its body plays no part).

    `header` is the module of a member. Errors: E1012, E1014, E1015, E1019, E4002 and those of types and dimensions; W0001.
    """
    reporter = Reporter()
    inherited = header.dims if header is not None else ()
    own = type_params(fn.type_params, reporter, outer=[(name, _taken(name, header)) for name in inherited])
    own = tuple(name for name in own if name not in inherited)
    implicit: dict[str, tree.At] = {}
    instances: dict[str, Instance] = {}
    places = {param.name: (param.name_at, param.name_at) for param in reversed(fn.params)}
    scope = Scope(
        env,
        decider,
        f"fn {fn.name}",
        params=frozenset((*inherited, *own)),
        module=header.ref.name if header is not None else None,
        implicit=implicit if header is None else None,
        instances=instances,
        parameters=places,
        axes=frozenset(param.name for param in fn.params if param.axis),
    )
    params = _parameters(fn, scope, instances, reporter)
    result = None if fn.result is None else elaborate_type(fn.result, scope, reporter)
    uses = tuple(name.name for name in fn.uses if _known_effect(name, reporter))
    for name, at in implicit.items():
        _warn_implicit(name, at, fn, places, reporter)
    types = [param.type for param in params if param.type is not None] + ([] if result is None else [result])
    hidden = header.hidden if header is not None else ()
    dims = tuple(dict.fromkeys((*inherited, *own, *hidden, *symbols(types))))
    signature = Signature(
        fn.name,
        env.file,
        chunk,
        header.ref if header is not None else None,
        dims,
        tuple(param.name for param in params if param.axis),
        params,
        result,
        uses,
        scope.facts(dims[len(inherited) + len(own) :]),
        header_place(fn),
        len(inherited) + len(own),
        reporter.failed or _lost_type(fn, params, result),
    )
    return signature, merged(reporter.diagnostics())


def _lost_type(fn: tree.Fn, params: tuple[Param, ...], result: Type | None) -> bool:
    """Whether a type is written and could not be had, be it for an error that was reported elsewhere."""
    if fn.result is not None and result is None:
        return True
    written = {param.name for param in fn.params if param.type is not None}
    return any(param.type is None and param.name in written for param in params)


def _missing(fn: tree.Fn, params: tuple[Param, ...], result: Type | None) -> bool:
    """Whether a type that the program writes was refused."""
    written = {param.name: param.type for param in fn.params}
    return (fn.result is not None and result is None) or any(
        param.type is None and written[param.name] is not None for param in params
    )


def symbols(types: Iterable[Type]) -> tuple[str, ...]:
    """The symbols that types mention, in order of first mention."""
    found: dict[str, None] = {}
    for type_ in types:
        for dim in type_dims(type_):
            found.update(dict.fromkeys(dim.symbols()))
    return tuple(found)


def header_place(fn: tree.Fn) -> tree.At:
    """The tokens of the signature, from `fn` to the last before `=`."""
    ends = [fn.name_at, *(param.at[1] for param in fn.params), *(effect.at[1] for effect in fn.uses)]
    if fn.result is not None:
        ends.append(fn.result.at[1])
    return (fn.at[0], max(ends))


def _taken(name: str, header: ModuleHeader | None) -> str:
    return f"`{name}` is a type parameter of module `{header.ref.name}`" if header is not None else ""


def _parameters(fn: tree.Fn, scope: Scope, instances: dict[str, Instance], reporter: Reporter) -> tuple[Param, ...]:
    """The parameters, left to right; a module-typed one is known to those on its right."""
    params: list[Param] = []
    seen: dict[str, tree.At] = {}
    for param in fn.params:
        at = (param.name_at, param.name_at)
        if param.name in seen:
            reporter.report(
                "E1012",
                at,
                f"the parameter `{param.name}` is declared twice",
                text="again here",
                labels=[(seen[param.name], "first here")],
            )
            if param.type is not None:
                elaborate_type(param.type, scope, reporter, module_typed=True)
            continue
        seen[param.name] = at
        type_ = None if param.type is None else elaborate_type(param.type, scope, reporter, module_typed=True)
        if isinstance(type_, ModuleType):
            instances[param.name] = type_.instance
        if param.axis and (param.type is not None or param.default is not None):
            reporter.report(
                "E1014",
                param.at,
                f"the axis parameter `{param.name}` has no type and no default",
                text="it stands for an axis name",
                mend=f"write `axis {param.name}`",
            )
            type_ = None
        params.append(Param(param.name, type_, None if param.axis else param.default, param.axis))
    return tuple(params)


def _known_effect(name: tree.Name, reporter: Reporter) -> bool:
    if name.name in EFFECTS:
        return True
    report_effect(name.name, name.at, reporter)
    return False


def report_effect(name: str, at: tree.At, reporter: Reporter) -> None:
    """E4002: an effect that does not exist."""
    reporter.report(
        "E4002",
        at,
        f"unknown effect `{name}`",
        text="not an effect",
        notes=["the only effect is `Rand`, the drawing of random numbers from a key"],
    )


def _warn_implicit(name: str, at: tree.At, fn: tree.Fn, places: Mapping[str, tree.At], reporter: Reporter) -> None:
    notes = []
    labels: list[tuple[tree.At, str]] = []
    if name in places:
        labels.append((places[name], f"the parameter `{name}` is another thing"))
        notes.append("a parameter's value is not a dimension")
    reporter.report(
        "W0001",
        at,
        f"`{name}` is not declared: `{fn.name}` takes it as an implicit dimension",
        text="first mentioned here",
        labels=labels,
        notes=notes,
        mend=f"declare it in the file, `dim {name}`, or in the function, `fn {fn.name}{{{_declared(fn, name)}}}`",
        unknown=name,
        wanted="dimension",
    )


def _declared(fn: tree.Fn, name: str) -> str:
    return f"{' '.join(dict.fromkeys((*(param.name for param in fn.type_params if param.kind == 'dim'), name)))} : dim"
