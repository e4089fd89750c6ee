"""Type expressions become types: shapes with linear lengths, aliases substituted, modules applied to their arguments."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from presk.diagnostics.report import Reporter
from presk.elab.entities import AliasEntity, Entity, ModuleHeader
from presk.elab.exprs import dimension, report_unknown_path
from presk.elab.scope import Scope, declared_at, describe
from presk.syntax import tree
from presk.types.type import (
    PREFIX,
    Axis,
    Hyper,
    HyperKind,
    Index,
    Instance,
    Key,
    Mask,
    ModuleType,
    Params,
    Real,
    Shape,
    Tuple,
    Type,
    instantiate,
    type_dims,
)

SCALARS: Final[Mapping[str, Type]] = MappingProxyType({kind.value: Hyper(kind) for kind in HyperKind} | {"key": Key()})
"""The named types of the language. They are ordinary names: a type alias or a module of that name comes first."""

MAX_PARTS: Final = 10_000
MAX_DEPTH: Final = 100
"""Limits of a tuple type with its aliases substituted: without them a few lines make a type of astronomic size."""


def elaborate_type(
    type_: tree.TypeExpr, scope: Scope, reporter: Reporter, *, module_typed: bool = False, prefix: bool = True
) -> Type | None:
    """The type, None after a report.

    `module_typed` allows a module as the type itself (a parameter `net : MLP{D, 4*D}`, an alias); `prefix` allows `...`.
    Errors: E1001, E1009, E1010, E1014, E1015, E1021, E0007 and those of `dimension`.
    """
    match type_:
        case tree.RealType(axes=axes):
            shape = _shape(axes, scope, reporter, prefix)
            return None if shape is None else Real(shape)
        case tree.MaskType(axes=axes):
            shape = _shape(axes, scope, reporter, prefix)
            return None if shape is None else Mask(shape)
        case tree.IndexType(bound=bound, axes=axes):
            limit = dimension(bound, scope, reporter)
            shape = _shape(axes, scope, reporter, prefix)
            return None if limit is None or shape is None else Index(limit, shape)
        case tree.ParamType(type=inner):
            return elaborate_type(inner, scope, reporter, prefix=prefix)
        case tree.TupleType(items=items):
            parts = [elaborate_type(item, scope, reporter, prefix=prefix) for item in items]
            known = tuple(part for part in parts if part is not None)
            return _tuple(known, type_.at, reporter) if len(known) == len(parts) else None
        case tree.ParamsType(module=module):
            instance = _params_of(module, scope, reporter)
            return None if instance is None else Params(instance)
        case tree.NamedType():
            return _named(type_, scope, reporter, module_typed=module_typed, prefix=prefix)


def _tuple(items: tuple[Type, ...], at: tree.At, reporter: Reporter) -> Type | None:
    """The tuple type; E0007 beyond the limits, which only aliases of tuples of aliases (of tuples …) can reach."""
    parts = 0
    pending = [(item, 1) for item in items]
    while pending:
        type_, depth = pending.pop()
        parts += 1
        if parts > MAX_PARTS or depth > MAX_DEPTH:
            reporter.report(
                "E0007",
                at,
                "this type is too large",
                text=f"more than {MAX_PARTS} parts" if parts > MAX_PARTS else f"nested more than {MAX_DEPTH} deep",
                notes=["type aliases are substituted"],
            )
            return None
        if isinstance(type_, Tuple):
            pending.extend((item, depth + 1) for item in type_.items)
    return Tuple(items)


def _shape(axes: tuple[tree.AxisItem, ...], scope: Scope, reporter: Reporter, prefix: bool) -> Shape | None:
    """The shape of an axis list. Every length is looked at, so that each reports its own errors."""
    found: list[Axis] = []
    places: dict[str, tree.At] = {}
    complete = True
    opened = False
    for position, item in enumerate(axes):
        match item:
            case tree.Ellipsis(at=at):
                complete = _check_prefix(at, position, prefix, reporter) and complete
                opened = True
            case tree.Axis(at=at, name=name, length=length):
                value = dimension(length, scope, reporter)
                if name is not None and name in places:
                    report_repeated_axis(name, at, places[name], reporter)
                    complete = False
                elif name is not None:
                    places[name] = at
                if value is None:
                    complete = False
                else:
                    found.append(Axis(value, name))
    return Shape(tuple(found), PREFIX if opened else None) if complete else None


def report_repeated_axis(name: str, at: tree.At, first: tree.At, reporter: Reporter) -> None:
    """E1021: an axis list that names one axis twice."""
    reporter.report(
        "E1021",
        at,
        f"the axis name `{name}` stands twice in one type",
        text="again here",
        labels=[(first, "first here")],
        notes=["axes are selected by name, so a name may stand only once"],
        mend=f"give one of them another name, such as `{name}2`",
    )


def _check_prefix(at: tree.At, position: int, allowed: bool, reporter: Reporter) -> bool:
    if not allowed:
        reporter.report(
            "E1010",
            at,
            "`...` has no meaning here",
            text="an open prefix needs a function's argument to fill it",
            mend="state every axis",
        )
        return False
    if position > 0:
        reporter.report(
            "E1010",
            at,
            "`...` must be the first axis",
            text="misplaced `...`",
            notes=["`...` stands for any number of leading axes"],
            mend="move `...` to the front of the axis list",
        )
        return False
    return True


def _named(type_: tree.NamedType, scope: Scope, reporter: Reporter, *, module_typed: bool, prefix: bool) -> Type | None:
    path = ".".join(type_.path)
    entity = scope.env.names.get(path)
    match entity:
        case AliasEntity():
            return _alias(entity, path, type_, scope, reporter, module_typed=module_typed, prefix=prefix)
        case ModuleHeader():
            instance = applied(entity, path, type_.arguments, type_.at, scope, reporter)
            if instance is None:
                return None
            if not module_typed:
                _report_module_value(path, type_.at, reporter)
                return None
            return ModuleType(instance)
    if path in SCALARS:
        if type_.arguments is not None:
            _report_no_arguments(path, "a type without arguments", type_.at, entity, scope, reporter)
            return None
        return SCALARS[path]
    _report_no_type(type_, path, entity, scope, reporter)
    return None


def _alias(
    entity: AliasEntity,
    path: str,
    type_: tree.NamedType,
    scope: Scope,
    reporter: Reporter,
    *,
    module_typed: bool,
    prefix: bool,
) -> Type | None:
    if type_.arguments is not None:
        _report_no_arguments(path, "a type alias, which takes no arguments", type_.at, entity, scope, reporter)
        return None
    if entity.type is None:
        return None
    found = instantiate(entity.type, scope.freed(name for dim in type_dims(entity.type) for name in dim.symbols()))
    if isinstance(found, ModuleType) and not module_typed:
        _report_module_value(path, type_.at, reporter)
        return None
    if not prefix and _has_prefix(found):
        reporter.report(
            "E1010",
            type_.at,
            "`...` has no meaning here",
            text=f"`{path}` is {found}",
            labels=declared_at(entity, path, scope.env),
            mend="use a type that states every axis",
        )
        return None
    return found


def _has_prefix(type_: Type) -> bool:
    match type_:
        case Real(shape) | Mask(shape) | Index(_, shape):
            return shape.prefix is not None
        case Tuple(items):
            return any(map(_has_prefix, items))
        case _:
            return False


def applied(
    header: ModuleHeader,
    path: str,
    arguments: tuple[tree.Expr, ...] | None,
    at: tree.At,
    scope: Scope,
    reporter: Reporter,
) -> Instance | None:
    """A module applied to its written dimension arguments; E1009 for a wrong number of them."""
    written = arguments or ()
    values = [dimension(argument, scope, reporter) for argument in written]
    if len(values) != len(header.dims):
        report_arity(header, path, len(values), at, scope, reporter)
        return None
    known = tuple(value for value in values if value is not None)
    return scope.instance(header, known) if len(known) == len(values) else None


def report_arity(header: ModuleHeader, path: str, given: int, at: tree.At, scope: Scope, reporter: Reporter) -> None:
    """E1009: a module with too many or too few dimension arguments."""
    wanted = len(header.dims)
    takes = f"{wanted} dimension argument{'' if wanted == 1 else 's'}" if wanted else "no dimension arguments"
    shape = f"`{path}{{{', '.join(header.dims)}}}`" if wanted else f"`{path}`"
    reporter.report(
        "E1009",
        at,
        f"`{path}` takes {takes}, {given} {'is' if given == 1 else 'are'} given",
        text=f"expected {shape}",
        labels=declared_at(header, path, scope.env),
    )


def _params_of(module: tree.NamedType, scope: Scope, reporter: Reporter) -> Instance | None:
    """The instance whose tree `params M` is: of a module-typed parameter to the left, a module, or an alias of one."""
    path = ".".join(module.path)
    if len(module.path) == 1:
        bound = scope.instances.get(path)
        if bound is not None:
            if module.arguments is not None:
                reporter.report(
                    "E1009",
                    module.at,
                    f"`{path}` is a parameter, which takes no arguments",
                    text="unexpected arguments",
                    labels=_parameter_place(path, scope),
                    mend=f"write `params {path}`",
                )
                return None
            return bound
        if path in scope.parameters and path not in scope.env.names:
            _report_params_parameter(path, module.at, scope, reporter)
            return None
    entity = scope.env.names.get(path)
    match entity:
        case ModuleHeader():
            return applied(entity, path, module.arguments, module.at, scope, reporter)
        case AliasEntity():
            found = _alias(entity, path, module, scope, reporter, module_typed=True, prefix=True)
            if found is None:
                return None
            if isinstance(found, ModuleType):
                return found.instance
            reporter.report(
                "E1014",
                module.at,
                f"`{path}` is not a module",
                text=f"`{path}` is {found}",
                labels=declared_at(entity, path, scope.env),
                notes=["`params` takes a module, a type alias of one, or a module-typed parameter to the left"],
            )
            return None
    if entity is None:
        if not _is_broken(module.path, scope):
            _report_unknown(module.path, "module", module.at, scope, reporter)
        return None
    reporter.report(
        "E1014",
        module.at,
        f"`{path}` is {describe(entity)}, not a module",
        text="a module is expected behind `params`",
        labels=declared_at(entity, path, scope.env),
    )
    return None


def _report_params_parameter(name: str, at: tree.At, scope: Scope, reporter: Reporter) -> None:
    place = scope.parameters[name]
    later = place > at
    reporter.report(
        "E1015",
        at,
        f"`params {name}`: the parameter `{name}` " + ("is declared later" if later else "is not a module"),
        text="its module must be known here",
        labels=[(place, f"`{name}` is declared here")],
        mend=f"move `{name}` to the left" if later else f"give `{name}` a module's type, as in `net : MLP{{D, 4*D}}`",
    )


def _report_no_arguments(
    path: str, what: str, at: tree.At, entity: Entity | None, scope: Scope, reporter: Reporter
) -> None:
    reporter.report(
        "E1009",
        at,
        f"`{path}` is {what}",
        text="arguments are given",
        labels=declared_at(entity, path, scope.env) if entity is not None else (),
        mend=f"write `{path}`",
    )


def _report_module_value(path: str, at: tree.At, reporter: Reporter) -> None:
    reporter.report(
        "E1014",
        at,
        f"the module `{path}` is not the type of a value",
        text="a module is expected as the type of a parameter only",
        mend=f"write `params {path}` for its parameter tree",
    )


def _report_no_type(type_: tree.NamedType, path: str, entity: Entity | None, scope: Scope, reporter: Reporter) -> None:
    if entity is not None:
        reporter.report(
            "E1014",
            type_.at,
            f"`{path}` is {describe(entity)}, not a type",
            text="a type is expected here",
            labels=declared_at(entity, path, scope.env),
        )
        return
    if _is_broken(type_.path, scope):
        return
    if len(type_.path) == 1 and path in scope.instances:
        reporter.report(
            "E1014",
            type_.at,
            f"the parameter `{path}` is not a type",
            text="a type is expected here",
            labels=_parameter_place(path, scope),
            mend=f"write `params {path}` for its parameter tree",
        )
        return
    _report_unknown(type_.path, "type", type_.at, scope, reporter)


def _parameter_place(name: str, scope: Scope) -> list[tuple[tree.At, str]]:
    """A label on a parameter; a body's scope does not know its place."""
    place = scope.parameters.get(name)
    return [] if place is None else [(place, "the parameter")]


def _is_broken(path: tuple[str, ...], scope: Scope) -> bool:
    return path[0] in scope.env.broken or ".".join(path) in scope.env.broken


def _report_unknown(path: tuple[str, ...], wanted: str, at: tree.At, scope: Scope, reporter: Reporter) -> None:
    if len(path) > 1:
        report_unknown_path(path, at, scope, reporter, wanted)
    elif path[0] in scope.env.imports:
        reporter.report(
            "E1014",
            at,
            f"`{path[0]}` is an imported file, not a {wanted}",
            text=f"a {wanted} is expected here",
            mend=f"write `{path[0]}.NAME` for one of its declarations",
        )
    elif path[0] in scope.params:
        reporter.report(
            "E1014", at, f"`{path[0]}` is a type parameter, not a {wanted}", text=f"a {wanted} is expected here"
        )
    else:
        said = f"unknown {wanted} `{path[0]}`"
        reporter.report("E1001", at, said, text="not declared", unknown=path[0], wanted=wanted)
