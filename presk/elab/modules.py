"""Modules: module expressions become instances, a module's parameters and uses become its header.

A header is elaborated once, generically, from an *outline*: the module without the text of its functions, so that an edit of
a function leaves the header, and everything that rests on it, untouched.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from presk.diagnostics.report import Reporter
from presk.diagnostics.suggest import closest
from presk.diagnostics.value import Diagnostic, Place, located
from presk.elab.entities import AliasEntity, Env, ModuleHeader
from presk.elab.exprs import dimension, report_unknown_path
from presk.elab.scope import Scope, declared_at, describe, merged, path_of
from presk.elab.types import applied, elaborate_type
from presk.syntax import tree
from presk.types.decide import Decider
from presk.types.trees import Init, ParamField, UseField
from presk.types.type import Composed, Instance, ModuleRef, ModuleType, Named, Real, Stacked, instance_dims, type_dims

STACK: Final = "stack"
PLAIN_INITIALIZERS: Final = ("zeros", "ones", "xavier_uniform")
NORMAL: Final = "normal"
DEFAULT_INIT: Final = Init("zeros")

MAX_PARTS: Final = 1000
"""How many modules a model may have: without a limit a few lines, each a model of the one before twice, have no end."""


class FunctionName(msgspec.Struct, frozen=True, array_like=True):
    """A function of a module in its outline: its name, its chunk and the name's token."""

    name: str
    key: str
    name_at: int


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """A module's header line, its `param` and `use` members and the names of its functions.

    `broken` are the names of members that did not parse.
    """

    name: str
    at: tree.At
    type_params: tuple[tree.TypeParam, ...]
    members: tuple[tree.MemberChunk, ...]
    functions: tuple[FunctionName, ...]
    broken: tuple[str, ...] = ()


def outline(module: tree.Module, broken: tuple[str, ...] = ()) -> Outline:
    """The module without its functions' text; `broken` are the members that did not parse."""
    return Outline(
        module.name,
        module.at,
        module.type_params,
        tuple(chunk for chunk in module.members if not isinstance(chunk.member, tree.Fn)),
        tuple(
            FunctionName(chunk.member.name, chunk.key, chunk.member.name_at)
            for chunk in module.members
            if isinstance(chunk.member, tree.Fn)
        ),
        broken,
    )


def type_params(
    params: Iterable[tree.TypeParam], reporter: Reporter, outer: Iterable[tuple[str, str]] = ()
) -> tuple[str, ...]:
    """The names of dimension parameters; E1012 for a repeated one, E1019 for another kind than `dim`.

    `outer` are names that are taken already, with a few words on what took them.
    """
    taken: dict[str, tree.At | str] = dict(outer)
    names: list[str] = []
    for param in params:
        before = taken.get(param.name)
        if param.kind != "dim":
            reporter.report(
                "E1019",
                param.at,
                f"type parameters of kind `{param.kind}` are not supported",
                text="only `dim` is",
                mend=f"write the axes out, or use `...` for leading axes instead of `{param.name}`",
            )
        elif before is not None:
            reporter.report(
                "E1012",
                param.at,
                f"the type parameter `{param.name}` is declared twice",
                text="again here",
                labels=[] if isinstance(before, str) else [(before, "first here")],
                notes=[before] if isinstance(before, str) else [],
            )
        else:
            names.append(param.name)
        taken.setdefault(param.name, param.at)
    return tuple(names)


def elaborate_header(source: Outline, env: Env, decider: Decider) -> tuple[ModuleHeader, tuple[Diagnostic, ...]]:
    """The header of a module. Diagnostics name the chunk of the member they are about.

    Errors: E1011, E1012, E1019, E2013 and those of types, dimensions and module expressions.
    """
    head = Reporter()
    dims = type_params(source.type_params, head)
    scope = Scope(env, decider, f"module {source.name}", params=frozenset(dims), module=source.name)
    diagnostics = list(head.diagnostics())
    fields: list[ParamField | UseField] = []
    broken: list[str] = [*source.broken]
    functions: list[str] = []
    places: dict[str, Place] = {}
    for chunk in source.members:
        reporter = Reporter()
        names = [
            name for name in _member_names(chunk.member) if _first(name.name, name.at, chunk.key, places, reporter)
        ]
        match chunk.member:
            case tree.ParamMember(type=type_, init=init):
                real = _parameter_type(chunk.member, type_, scope, reporter)
                start = initializer(init, reporter)
                if real is not None:
                    fields.extend(ParamField(name.name, real, start) for name in names)
                else:
                    broken.extend(name.name for name in names)
            case tree.UseMember(module=module):
                instance = elaborate_module(module, scope, reporter)
                if instance is not None:
                    fields.extend(UseField(name.name, instance) for name in names)
                else:
                    broken.extend(name.name for name in names)
        diagnostics.extend(
            located(diagnostic, file="", chunk=chunk.key) for diagnostic in merged(reporter.diagnostics())
        )
    for function in source.functions:
        reporter = Reporter()
        at = (function.name_at, function.name_at)
        if _first(function.name, at, function.key, places, reporter):
            functions.append(function.name)
        diagnostics.extend(located(diagnostic, file="", chunk=function.key) for diagnostic in reporter.diagnostics())
    hidden = _hidden(fields, dims)
    header = ModuleHeader(
        ModuleRef(env.file, source.name),
        dims,
        hidden,
        scope.facts(hidden) if hidden else (),
        tuple(fields),
        tuple(functions),
        None,
        tuple(broken),
    )
    return header, tuple(diagnostics)


def elaborate_model(
    model: tree.Model, env: Env, decider: Decider
) -> tuple[ModuleHeader | None, tuple[Diagnostic, ...]]:
    """`model NAME = …` as the header of a module of that name; None where its expression was refused."""
    reporter = Reporter()
    scope = Scope(env, decider, f"model {model.name}")
    instance = elaborate_module(model.value, scope, reporter)
    if instance is None:
        return None, merged(reporter.diagnostics())
    parts = sum(env.modules[ref].parts for ref in modules_in(instance))
    if parts > MAX_PARTS:
        reporter.report(
            "E0007",
            model.value.at,
            f"the model `{model.name}` is put together from too many modules",
            text=f"{parts} modules, at most {MAX_PARTS}",
            notes=["a model that is used twice counts twice"],
            mend="to apply a module many times, use `stack{N}(M)`",
        )
        return None, merged(reporter.diagnostics())
    hidden = tuple(dict.fromkeys(name for dim in instance_dims(instance) for name in dim.symbols()))
    header = ModuleHeader(
        ModuleRef(env.file, model.name),
        (),
        hidden,
        scope.facts(hidden) if hidden else (),
        (),
        functions_of(instance, env),
        instance,
        parts=parts,
    )
    return header, reporter.diagnostics()


def _hidden(fields: Iterable[ParamField | UseField], dims: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for field in fields:
        mentioned = type_dims(field.type) if isinstance(field, ParamField) else instance_dims(field.instance)
        found.update((name, None) for dim in mentioned for name in dim.symbols() if name not in dims)
    return tuple(found)


def _member_names(member: tree.Member) -> tuple[tree.Name, ...]:
    return () if isinstance(member, tree.Fn) else member.names


def _first(name: str, at: tree.At, key: str, places: dict[str, Place], reporter: Reporter) -> bool:
    """Whether the name is new in the module; E1012 otherwise."""
    before = places.get(name)
    if before is None:
        places[name] = Place(*at, key)
        return True
    reporter.report(
        "E1012",
        at,
        f"the member `{name}` is declared twice",
        text="again here",
        labels=[(before, "first here")],
    )
    return False


def _parameter_type(member: tree.ParamMember, type_: tree.TypeExpr, scope: Scope, reporter: Reporter) -> Real | None:
    """The type of a `param`; E1011 if it is not a real tensor."""
    found = elaborate_type(type_, scope, reporter, module_typed=True, prefix=False)
    if found is None or isinstance(found, Real):
        return found
    if isinstance(found, ModuleType):
        mend = f"to include a module as a part, write `use NAME : {found.instance}`"
    else:
        mend = "pass other values to the module's functions as arguments"
    names = ", ".join(f"`{name.name}`" for name in member.names)
    reporter.report(
        "E1011",
        type_.at,
        f"the parameter {names} of a module must be a real tensor",
        text=f"this is {found}",
        notes=["parameters are what training changes, so they are real"],
        mend=mend,
    )
    return None


# --- initializers -----------------------------------------------------------------------------------------------------


def initializer(init: tree.Expr | None, reporter: Reporter) -> Init:
    """The initializer of a `param`; E2013 for anything but the four forms (and then it counts as `zeros`)."""
    match init:
        case None:
            return DEFAULT_INIT
        case tree.Name(name=name) if name in PLAIN_INITIALIZERS:
            return Init(name)
        case tree.Call(
            callee=tree.Name(name="normal"), arguments=(tree.Named(name="std", value=tree.Decimal(text=text)),)
        ):
            return Init(NORMAL, text)
    mend = None
    named = init.callee if isinstance(init, tree.Call) else init
    shown = f"`{named.name}` is" if isinstance(named, tree.Name) else "this is"
    match init:
        case tree.Call(callee=tree.Name(name=name)) if name in PLAIN_INITIALIZERS:
            shown = "this is"
            mend = f"write `{name}` without parentheses"
        case tree.Name(name="normal") | tree.Call(callee=tree.Name(name="normal")):
            shown = "this is"
            mend = "write `normal(std = 0.02)`, the deviation a decimal literal"
        case tree.Name(name=name) if (near := closest(name, PLAIN_INITIALIZERS)) is not None:
            mend = f"did you mean `{near}`?"
    reporter.report(
        "E2013",
        init.at,
        f"{shown} not an initializer",
        text="unknown initializer" if mend is None or mend.startswith("did you") else "not of this form",
        notes=[
            "the initializers are `zeros`, `ones`, `normal(std = s)` with a decimal literal s, and `xavier_uniform`"
        ],
        mend=mend,
    )
    return DEFAULT_INIT


# --- module expressions -----------------------------------------------------------------------------------------------


def elaborate_module(expr: tree.Expr, scope: Scope, reporter: Reporter) -> Instance | None:
    """The instance that a module expression denotes: `M`, `m.M{D, 4*D}`, `stack{L}(M)`, `A ∘ B`; None after a report.

    Errors: E1001, E1009, E1014 and those of dimensions.
    """
    spine: list[tree.Binary] = []
    while isinstance(expr, tree.Binary) and expr.operator == "∘":
        spine.append(expr)
        expr = expr.left
    outer, place = _part(expr, scope, reporter), expr.at
    for node in reversed(spine):
        inner = elaborate_module(node.right, scope, reporter)
        outer = _compose(outer, place, inner, node, scope, reporter)
        place = node.at
    return outer


def _compose(
    outer: Instance | None,
    outer_at: tree.At,
    inner: Instance | None,
    node: tree.Binary,
    scope: Scope,
    reporter: Reporter,
) -> Instance | None:
    if outer is None or inner is None:
        return None
    lacking = [
        (at, f"`{part}` has no `apply`")
        for part, at in ((outer, outer_at), (inner, node.right.at))
        if "apply" not in functions_of(part, scope.env)
    ]
    if lacking:
        (at, words), *others = lacking
        reporter.report(
            "E1014",
            at,
            "`∘` composes modules that have a function `apply`",
            text=words,
            labels=others,
            notes=["`(A ∘ B).apply(x)` is `A.apply(B.apply(x))`"],
        )
        return None
    return Composed(outer, inner)


def functions_of(instance: Instance, env: Env) -> tuple[str, ...]:
    """The names of the functions that an instance offers. A composition offers `apply` alone."""
    match instance:
        case Named(module=ref):
            header = env.modules.get(ref)
            return header.functions if header is not None else ()
        case Stacked(inner=inner):
            return functions_of(inner, env)
        case Composed():
            return ("apply",)


def modules_in(instance: Instance) -> Iterator[ModuleRef]:
    """The modules that an instance names, each as often as it does."""
    pending = [instance]
    while pending:
        match pending.pop():
            case Named(module=ref):
                yield ref
            case Stacked(inner=inner):
                pending.append(inner)
            case Composed(outer=outer, inner=inner):
                pending += (inner, outer)


def _part(expr: tree.Expr, scope: Scope, reporter: Reporter) -> Instance | None:
    match expr:
        case tree.Call(callee=callee, arguments=arguments):
            return _with_modules(expr, callee, arguments, scope, reporter)
        case tree.DimArgs(base=base, arguments=dims):
            if _is_stack(base, scope):
                _report_stack(expr, scope, reporter)
                return None
            path = path_of(base)
            if path is not None:
                return _path(path, dims, base.at, expr.at, scope, reporter)
        case tree.Name() | tree.Field():
            path = path_of(expr)
            if path is not None:
                if _is_stack(expr, scope):
                    _report_stack(expr, scope, reporter)
                    return None
                return _path(path, None, expr.at, expr.at, scope, reporter)
    _report_no_module(expr, reporter)
    return None


def _is_stack(expr: tree.Expr, scope: Scope) -> bool:
    return isinstance(expr, tree.Name) and expr.name == STACK and STACK not in scope.env.names


def _with_modules(
    expr: tree.Call, callee: tree.Expr, arguments: tuple[tree.Argument, ...], scope: Scope, reporter: Reporter
) -> Instance | None:
    """`stack{L}(M)`, the only module that takes a module."""
    base, dims = (callee.base, callee.arguments) if isinstance(callee, tree.DimArgs) else (callee, ())
    if not _is_stack(base, scope):
        path = path_of(base)
        if path is None:
            _report_no_module(expr, reporter)
            return None
        if _path(path, dims or None, base.at, callee.at, scope, reporter) is not None:
            name = ".".join(path)
            reporter.report(
                "E1009",
                expr.at,
                f"`{name}` takes no module arguments",
                text="unexpected arguments in parentheses",
                notes=["only `stack{L}(M)` takes a module"],
                mend=f"write dimension arguments in braces: `{name}{{…}}`",
            )
        return None
    if len(dims) != 1 or len(arguments) != 1 or not isinstance(arguments[0], tree.Positional):
        _report_stack(expr, scope, reporter)
        return None
    length = dimension(dims[0], scope, reporter)
    inner = elaborate_module(arguments[0].value, scope, reporter)
    return None if length is None or inner is None else Stacked(length, inner)


def _path(
    names: tuple[str, ...],
    dims: tuple[tree.Expr, ...] | None,
    at: tree.At,
    whole: tree.At,
    scope: Scope,
    reporter: Reporter,
) -> Instance | None:
    path = ".".join(names)
    entity = scope.env.names.get(path)
    match entity:
        case ModuleHeader():
            return applied(entity, path, dims, whole, scope, reporter)
        case AliasEntity():
            found = elaborate_type(tree.NamedType(whole, names, dims), scope, reporter, module_typed=True)
            if found is None:
                return None
            if isinstance(found, ModuleType):
                return found.instance
            said = f"`{path}` is {found}, not a module"
        case None:
            if names[0] in scope.env.broken or path in scope.env.broken:
                return None
            if len(names) > 1:
                report_unknown_path(names, at, scope, reporter, "module")
                return None
            if path not in scope.params and path not in scope.env.imports:
                said = f"unknown module `{path}`"
                reporter.report("E1001", at, said, text="not declared", unknown=path, wanted="module")
                return None
            what = "a type parameter" if path in scope.params else "an imported file"
            said = f"`{path}` is {what}, not a module"
        case _:
            said = f"`{path}` is {describe(entity)}, not a module"
    reporter.report(
        "E1014",
        at,
        said,
        text="a module is expected here",
        labels=declared_at(entity, path, scope.env) if entity is not None else (),
    )
    return None


def _report_stack(expr: tree.Expr, scope: Scope, reporter: Reporter) -> None:
    reporter.report(
        "E1009",
        expr.at,
        "`stack` takes one length and one module",
        text="expected `stack{L}(M)`",
        notes=["`stack{L}(M)` is M applied L times, each time with parameters of its own"],
    )


def _report_no_module(expr: tree.Expr, reporter: Reporter) -> None:
    said = "this is not a module expression"
    if isinstance(expr, tree.Binary):
        said = f"`{expr.operator}` does not combine modules"
    reporter.report(
        "E1014",
        expr.at,
        said,
        text="a module is expected here",
        notes=["module expressions are `M`, `M{dimensions}`, `stack{L}(M)` and `A ∘ B`"],
    )
