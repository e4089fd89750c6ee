"""Modules as they are named in a body, their fields, and the signatures of their functions at an instance.

A module is reached by name (`MLP`, `m.MiniGPT`, `Linear{D, D}`), by a module-typed parameter (`net`), or as a sub-module of the
own module (`l1`, `blocks`), whose parameters are part of the own θ.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from presk.diagnostics.suggest import closest
from presk.elab.entities import ModuleHeader, Signature
from presk.prims.surface import Refused
from presk.syntax import tree
from presk.syntax.tree import At
from presk.types import trees
from presk.types.dim import Dim
from presk.types.trees import ParamField, UseField
from presk.types.type import (
    Axis,
    Composed,
    Index,
    Instance,
    Mask,
    Named,
    Params,
    Real,
    Shape,
    Stacked,
    Tuple,
    Type,
    instantiate,
    map_type,
)
from presk.typing.annotations import body_dimension
from presk.typing.checker import Checker, expand
from presk.typing.scope import ModuleParameter, Scope
from presk.typing.typed import Chained, Direct, FunctionRef, ReadField, Repeated, Target, Typed, Var
from presk.typing.unify import show


@dataclass(frozen=True, slots=True)
class ModuleValue:
    """A module; `theta` is its parameter tree where the own θ holds it, None where a call passes the tree explicitly."""

    instance: Instance
    theta: Typed | None


@dataclass(frozen=True, slots=True)
class Member:
    """A member function at an instance: parameters (names, types, defaults), the result, and what a call runs."""

    names: tuple[str, ...]
    params: tuple[Type | None, ...]
    optional: tuple[bool, ...]
    result: Type
    target: Target
    signatures: tuple[Signature, ...]


def theta(checker: Checker, at: At) -> Typed:
    """The own parameter tree inside a member function."""
    return Var(at, Params(checker.self_instance()), 0, "θ")


def member_fields(checker: Checker) -> tuple[str, ...]:
    """The names that the own module's fields and functions have."""
    if checker.header is None:
        return ()
    return (*(field.name for field in checker.header.fields), *checker.header.functions)


def is_broken(checker: Checker, name: str) -> bool:
    """Whether a name is that of a declaration, an import or a field of the own module that was refused."""
    return name in checker.env.broken or (checker.header is not None and name in checker.header.broken)


def own_field(checker: Checker, name: str, at: At) -> Typed | None:
    """Inside a member function: the parameter `w` as `θ.w`, a sub-module `l1` as `θ.l1`; None for any other name."""
    if checker.header is None:
        return None
    for field in fields_of(checker, checker.self_instance()):
        if field.name == name:
            type_: Type = field.type if isinstance(field, ParamField) else Params(field.instance)
            return ReadField(at, type_, theta(checker, at), name)
    return None


def fields_of(checker: Checker, instance: Instance) -> tuple[ParamField | UseField, ...]:
    """The fields of an instance with its arguments put in."""
    return trees.fields(checker.subst.instance(instance), checker.env.modules)


def has_function(checker: Checker, instance: Instance, name: str) -> bool:
    """Whether a module instance has a function of that name."""
    match expand(checker.subst.instance(instance), checker.env.modules):
        case Named(ref, _, _):
            header = checker.env.modules.get(ref)
            return header is not None and name in header.functions
        case Stacked(_, inner):
            return has_function(checker, inner, name)
        case Composed():
            return name == "apply"


def field_is_broken(checker: Checker, instance: Instance, name: str) -> bool:
    """Whether a module declares a field of that name which was refused."""
    match expand(checker.subst.instance(instance), checker.env.modules):
        case Named(ref, _, _):
            header = checker.env.modules.get(ref)
            return header is not None and name in header.broken
        case Stacked(_, inner):
            return field_is_broken(checker, inner, name)
        case Composed():
            return False


def module_value(checker: Checker, expr: tree.Expr, scope: Scope) -> ModuleValue | None:
    """The module an expression names, None if it names none. Errors in its dimension arguments are reported."""
    match expr:
        case tree.Name(at, name):
            local = scope.names.get(name)
            if isinstance(local, ModuleParameter):
                return ModuleValue(local.instance, None)
            if local is not None:
                return None
            sub = _own_sub_module(checker, name, at)
            if sub is not None:
                return sub
            return _declared(checker, name, None, at, scope)
        case tree.Field(at, base, name, _):
            if isinstance(base, tree.Name) and base.name not in scope.names:
                declared = _declared(checker, f"{base.name}.{name}", None, at, scope)
                if declared is not None:
                    return declared
            outer = module_value(checker, base, scope)
            if outer is None or outer.theta is None:
                return None
            for field in fields_of(checker, outer.instance):
                if field.name == name and isinstance(field, UseField):
                    return ModuleValue(field.instance, ReadField(at, Params(field.instance), outer.theta, name))
            return None
        case tree.DimArgs(at, base, arguments):
            path = _path(base)
            if path is None or path.split(".")[0] in scope.names:
                return None
            return _declared(checker, path, arguments, at, scope)
        case _:
            return None


def _path(expr: tree.Expr) -> str | None:
    match expr:
        case tree.Name(_, name):
            return name
        case tree.Field(_, tree.Name(_, base), name):
            return f"{base}.{name}"
        case _:
            return None


def _own_sub_module(checker: Checker, name: str, at: At) -> ModuleValue | None:
    field = own_field(checker, name, at)
    if field is not None and isinstance(field.type, Params):
        return ModuleValue(field.type.instance, field)
    return None


def _declared(
    checker: Checker, path: str, arguments: tuple[tree.Expr, ...] | None, at: At, scope: Scope
) -> ModuleValue | None:
    header = checker.env.names.get(path)
    if not isinstance(header, ModuleHeader):
        return None
    if arguments is None:
        values = tuple(checker.subst.fresh_dim(name) for name in header.dims)
    else:
        if len(arguments) != len(header.dims):
            raise Refused(
                "E1009",
                f"module `{path}` takes {len(header.dims)} dimension arguments, not {len(arguments)}",
                at=at,
            )
        written = [body_dimension(checker, argument, scope, natural=True) for argument in arguments]
        values = tuple(value if value is not None else checker.subst.fresh_dim() for value in written)
    hidden = tuple((name, checker.subst.fresh_dim(name)) for name in header.hidden)
    return ModuleValue(expand(Named(header.ref, values, hidden), checker.env.modules), None)


def member(checker: Checker, instance: Instance, name: str, at: At, name_at: At, axes: Sequence[str] = ()) -> Member:
    """The function `name` of an instance, instantiated, its axis parameters with the names `axes`; E2026 if there is none, E2015
    if its types are not known yet, E2004 for another number of axes."""
    instance = expand(checker.subst.instance(instance), checker.env.modules)
    match instance:
        case Named(ref, arguments, hidden):
            header = checker.env.modules.get(ref)
            signature = checker.env.members.get((ref, name))
            if header is None or signature is None:
                functions = header.functions if header is not None else ()
                near = closest(name, functions)
                raise Refused(
                    "E2026",
                    f"module `{show(instance)}` has no function `{name}`",
                    at=name_at,
                    notes=(f"its functions: {', '.join(f'`{item}`' for item in functions) or 'none'}",),
                    mend=None if near is None else f"did you mean `{near}`?",
                )
            known = dict(zip(header.dims, arguments, strict=True)) | dict(hidden)
            return declared_function(checker, signature, at, known, axis_names(signature, axes))
        case Stacked(length, inner):
            one = member(checker, inner, name, at, name_at, axes)
            return Member(one.names, one.params, one.optional, one.result, Repeated(length, one.target), one.signatures)
        case Composed(outer, inner):
            if axes:
                raise Refused("E2004", f"`apply` of `{show(instance)}` takes no `axis` argument", at=name_at)
            return _composed(checker, outer, inner, name, at, name_at)


def axis_names(signature: Signature, given: Sequence[str]) -> dict[str, str]:
    """The names given to a function's axis parameters, in order (E2004)."""
    if len(given) != len(signature.axes):
        wanted = f"{len(signature.axes) or 'no'} `axis` argument{'' if len(signature.axes) == 1 else 's'}"
        raise Refused(
            "E2004",
            f"`{signature.qualified}` takes {wanted}, and {len(given) or 'none'} {'is' if len(given) <= 1 else 'are'} given",
            notes=(f"its axis parameters: {', '.join(f'`{name}`' for name in signature.axes) or 'none'}",),
        )
    return dict(zip(signature.axes, given, strict=True))


def _composed(checker: Checker, outer: Instance, inner: Instance, name: str, at: At, name_at: At) -> Member:
    """`apply` of `outer ∘ inner`: extra arguments go to the part that declares them, to both where both do (O23, O86)."""
    if name != "apply":
        raise Refused("E2026", f"`{show(Composed(outer, inner))}` has the function `apply` only", at=name_at)
    last = member(checker, outer, "apply", at, name_at)
    first = member(checker, inner, "apply", at, name_at)
    for part, one in ((inner, first), (outer, last)):
        if not one.params:
            raise Refused("E2004", f"`apply` of `{show(part)}`, a part of a composition, takes no argument", at=name_at)
    given = first.result
    wanted = last.params[0]
    if wanted is not None:
        checker.require(given, wanted, name_at, f"`{show(outer)}` after `{show(inner)}`")
    names = list(first.names)
    params = list(first.params)
    optional = list(first.optional)
    outer_extras = []
    for extra, type_, may_miss in zip(last.names[1:], last.params[1:], last.optional[1:], strict=True):
        if extra == names[0]:
            raise Refused(
                "E2004",
                f"`{extra}` is the first argument of `{show(inner)}` and a further one of `{show(outer)}`",
                at=name_at,
                notes=("the further arguments of a composition are told apart by their names",),
                mend=f"take another name for `{extra}` in one of the two",
            )
        if extra in names[1:]:
            place = names.index(extra, 1)
            other = params[place]
            if type_ is not None and other is not None:
                checker.require(type_, other, name_at, f"the argument `{extra}` of both parts")
            optional[place] = optional[place] and may_miss
        else:
            place = len(names)
            names.append(extra)
            params.append(type_)
            optional.append(may_miss)
        outer_extras.append(place - 1)
    inner_extras = tuple(range(len(first.names) - 1))
    return Member(
        tuple(names),
        tuple(params),
        tuple(optional),
        last.result,
        Chained(last.target, first.target, tuple(outer_extras), inner_extras, given),
        (*last.signatures, *first.signatures),
    )


def declared_function(
    checker: Checker,
    signature: Signature,
    at: At,
    known: dict[str, Dim],
    axes: dict[str, str] | None = None,
) -> Member:
    """A declared function with fresh unknowns for its dimensions and prefix; facts become obligations of the caller."""
    if signature.result is None or any(param.type is None and not param.axis for param in signature.params):
        if signature.refused:
            raise Unusable
        raise Refused(
            "E2015",
            f"the types of `{signature.qualified}` are not known here",
            at=at,
            text="called before it is checked",
            notes=("a function without declared types is checked in its turn, before those that call it",),
            mend=f"declare the parameters' types and the return type of `{signature.qualified}`",
        )
    values = {name: known[name] if name in known else checker.subst.fresh_dim(name) for name in signature.dims}
    prefix = Shape((), checker.subst.fresh_prefix()) if _mentions_prefix(signature) else None
    names = axes or {}

    def at_call(type_: Type) -> Type:
        return rename_axes(instantiate(type_, values, prefix), names) if names else instantiate(type_, values, prefix)

    value_params = [param for param in signature.params if not param.axis]
    function = FunctionRef(
        signature.file, signature.module, signature.name, tuple(names[param] for param in signature.axes)
    )
    checker.called(function, at)
    checker.owe(signature, values, at)
    return Member(
        tuple(param.name for param in value_params),
        tuple(at_call(param.type) if param.type is not None else None for param in value_params),
        tuple(param.default is not None for param in value_params),
        at_call(signature.result),
        Direct(function, tuple(values.items()), prefix),
        (signature,),
    )


class Unusable(Refused):
    """A use of a declaration that was refused itself: no further error."""

    def __init__(self) -> None:
        super().__init__("", "")


def _mentions_prefix(signature: Signature) -> bool:
    def mentions(type_: Type | None) -> bool:
        match type_:
            case Real(shape) | Mask(shape) | Index(_, shape):
                return shape.prefix is not None
            case Tuple(items):
                return any(map(mentions, items))
            case _:
                return False

    return any(mentions(param.type) for param in signature.params) or mentions(signature.result)


def rename_axes(type_: Type, names: dict[str, str]) -> Type:
    """The type with axis names replaced."""

    def shape(value: Shape) -> Shape:
        return Shape(
            tuple(Axis(axis.length, names.get(axis.name, axis.name) if axis.name else None) for axis in value.axes),
            value.prefix,
        )

    return map_type(type_, dim=lambda dim: dim, shape=shape)
