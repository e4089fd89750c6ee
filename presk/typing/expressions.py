"""Typing of expressions: one function per form, joined by `infer`.

`infer(checker, expr, scope)` gives the typed expression. A refused expression is reported once, at the narrowest place, and
stands as `Wrong`, whose type agrees with everything.
"""

from collections.abc import Iterable, Sequence

from presk.diagnostics.suggest import closest
from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, LateEntity, ModuleHeader, OtherEntity, Signature
from presk.elab.scope import report_late
from presk.prims.surface import Refused
from presk.prims.table import BUILTINS, NOT_IMPLEMENTED
from presk.syntax import tree
from presk.syntax.tree import At
from presk.types.trees import ParamField
from presk.types.type import Axis, Function, Hyper, HyperKind, Index, Mask, Params, Real, Shape, Tuple, Type
from presk.typing import calls, einsum, indexing, operators
from presk.typing.annotations import elaborate_annotation
from presk.typing.checker import Checker
from presk.typing.literals import fitted
from presk.typing.modules import is_broken, member_fields, module_value, own_field
from presk.typing.scope import ModuleParameter, Scope, Variable
from presk.typing.typed import (
    Binding,
    BoundName,
    Inject,
    LambdaFn,
    LetIn,
    Literal,
    MakeTuple,
    ReadField,
    Retag,
    Typed,
    Var,
    Wrong,
)
from presk.typing.unify import WRONG, describe, show


def infer(checker: Checker, expr: tree.Expr, scope: Scope) -> Typed:
    """The typed expression."""
    return checker.guard(expr.at, lambda: _infer(checker, expr, scope))


def _infer(checker: Checker, expr: tree.Expr, scope: Scope) -> Typed:
    match expr:
        case tree.Name():
            return _name(checker, expr, scope)
        case tree.Nat(at, text):
            return Literal(at, Hyper(HyperKind.NAT), text)
        case tree.Decimal(at, text):
            return Literal(at, Hyper(HyperKind.F64), text)
        case tree.Negate() | tree.Binary():
            return operators.operator(checker, expr, scope)
        case tree.Call():
            return calls.call(checker, expr, scope)
        case tree.Index():
            return indexing.index(checker, expr, scope)
        case tree.Field():
            return _field(checker, expr, scope)
        case tree.Let():
            return _let(checker, expr, scope)
        case tree.Lambda():
            return infer_lambda(checker, expr, scope, None)
        case tree.Ein():
            return einsum.ein(checker, expr, scope)
        case tree.Ascribe():
            return _ascribe(checker, expr, scope)
        case tree.TupleExpr(at, items):
            typed = tuple(infer(checker, item, scope) for item in items)
            return MakeTuple(at, Tuple(tuple(item.type for item in typed)), typed)
        case tree.DimArgs():
            return _dim_args(checker, expr, scope)
        case tree.Quantity(_, number, unit):
            raise Refused(
                "E2012",
                f"`{number}{unit}` has no meaning in a function's body",
                notes=("quantities stand in configuration blocks",),
            )
        case tree.Text():
            raise Refused(
                "E2012",
                "a string has no meaning in a function's body",
                notes=("strings stand in configuration blocks",),
            )


# --- names ------------------------------------------------------------------------------------------------------------


def _name(checker: Checker, expr: tree.Name, scope: Scope) -> Typed:
    name, at = expr.name, expr.at
    local = scope.names.get(name)
    match local:
        case Variable(index, _, type_):
            return Var(at, type_, index, name)
        case ModuleParameter(_, instance):
            raise Refused(
                "E2001",
                f"`{name}` is the module `{show(instance)}`, not a value",
                mend=f"call one of its functions: `{name}.apply(…)`",
            )
        case None:
            pass
    field = own_field(checker, name, at)
    if field is not None:
        return field
    if is_broken(checker, name):
        return Wrong(at, WRONG)
    if name in checker.env.names:
        return _entity(checker, name, at)
    if name in checker.env.imports:
        raise Refused("E2001", f"`{name}` is an import, not a value", mend=f"name what it holds: `{name}.…`")
    if name in BUILTINS or name == "grad":
        raise Refused("E2001", f"the builtin `{name}` is not a value", mend=f"call it: `λ x. {name}(…)`")
    if name in checker.signature.dims:
        raise no_value(name)
    if name in NOT_IMPLEMENTED:
        raise Refused("E2012", f"`{name}` is not implemented in programs", mend="use `grad`")
    unknown_name(checker, name, at, scope)
    return Wrong(at, WRONG)


def unknown_name(checker: Checker, name: str, at: At, scope: Scope) -> None:
    """E2002, with a proposal among the names in sight (the file's are proposed by whoever knows them)."""
    checker.reporter.report(
        "E2002",
        at,
        f"unknown name `{name}`",
        text="nothing of this name is in scope",
        mend=proposal(name, (*scope.names, *member_fields(checker), *BUILTINS, "grad")),
        unknown=name,
        wanted="value",
    )


def proposal(name: str, names: Iterable[str]) -> str | None:
    """The question whether another name was meant, where one is like it."""
    near = closest(name, names)
    return None if near is None else f"did you mean `{near}`?"


def no_value(path: str) -> Refused:
    """E2024: a dimension where a value is wanted."""
    return Refused(
        "E2024",
        f"the dimension `{path}` is not a value",
        mend=f"pass it as a `nat` parameter, or write a constant: `const {path.rpartition('.')[2]} = …`",
    )


def _entity(checker: Checker, path: str, at: At) -> Typed:
    entity = checker.env.names[path]
    match entity:
        case ConstEntity(_, value):
            if value is None:
                return Wrong(at, WRONG)
            return Literal(at, Hyper(HyperKind.NAT), str(value))
        case DimEntity():
            raise no_value(path)
        case AliasEntity():
            raise Refused("E2001", f"`{path}` is a type, not a value")
        case ModuleHeader():
            raise Refused(
                "E2001", f"`{path}` is a module, not a value", mend=f"call one of its functions: `{path}.apply(θ, …)`"
            )
        case Signature():
            return calls.function_value(checker, entity, at, ())
        case LateEntity():
            report_late(entity, at, checker.reporter)
            return Wrong(at, WRONG)
        case OtherEntity(_, what):
            raise Refused("E2001", f"`{path}` is {what}, not a value")


def _dim_args(checker: Checker, expr: tree.DimArgs, scope: Scope) -> Typed:
    path = path_of(expr.base)
    entity = checker.env.names.get(path) if path is not None and path.split(".")[0] not in scope.names else None
    if isinstance(entity, Signature):
        return calls.function_value(checker, entity, expr.at, expr.arguments, scope)
    if module_value(checker, expr, scope) is not None:
        raise Refused("E2001", "this is a module, not a value", mend="call one of its functions: `….apply(θ, …)`")
    base = infer(checker, expr.base, scope)
    if checker.wrong(base.type):
        return Wrong(expr.at, WRONG)
    raise Refused("E2001", f"{describe(checker.subst.type(base.type))} takes no dimension arguments")


def path_of(expr: tree.Expr) -> str | None:
    """`m.V` for a name or a field of a name, else None."""
    match expr:
        case tree.Name(_, name):
            return name
        case tree.Field(_, tree.Name(_, base), name):
            return f"{base}.{name}"
        case _:
            return None


# --- fields -----------------------------------------------------------------------------------------------------------


def _field(checker: Checker, expr: tree.Field, scope: Scope) -> Typed:
    at = expr.at
    if isinstance(expr.base, tree.Name) and expr.base.name not in scope.names:
        alias = expr.base.name
        path = f"{alias}.{expr.name}"
        if own_field(checker, alias, at) is None:
            if path in checker.env.names:
                return _entity(checker, path, at)
            if is_broken(checker, path) or is_broken(checker, alias):
                return Wrong(at, WRONG)
            if alias in checker.env.imports:
                checker.reporter.report(
                    "E1001",
                    (expr.name_at, expr.name_at),
                    f"import `{alias}` has no `{expr.name}`",
                    text="not declared there",
                    unknown=path,
                    wanted="value",
                )
                return Wrong(at, WRONG)
    module = module_value(checker, expr.base, scope)
    if module is not None and module.theta is None:
        raise Refused(
            "E2027",
            f"`{expr.name}` of module `{show(module.instance)}` is not a value",
            mend="call it; a parameter is a field of the tree: `θ.w`",
        )
    if module is not None and module.theta is not None:
        return _read(checker, module.theta, expr, part=True)
    base = infer(checker, expr.base, scope)
    return checker.when_known(at, (base.type,), lambda: _read(checker, base, expr))


def _read(checker: Checker, base: Typed, expr: tree.Field, *, part: bool = False) -> Typed:
    """A field of a parameter tree; `part` says that it is the tree of a part of the own module."""
    type_ = checker.subst.type(base.type)
    if not isinstance(type_, Params):
        raise Refused(
            "E2026",
            f"{describe(type_)} has no fields",
            at=(expr.name_at, expr.name_at),
            notes=("a parameter tree `θ : params M` has the fields that M declares",),
        )
    fields = calls.fields_of(checker, type_.instance)
    found = next((item for item in fields if item.name == expr.name), None)
    if found is None and calls.field_is_broken(checker, type_.instance, expr.name):
        return Wrong(expr.at, WRONG)
    if found is None and calls.has_function(checker, type_.instance, expr.name):
        module = show(type_.instance)
        written = path_of(expr.base)
        raise Refused(
            "E2027",
            f"`{expr.name}` is a function of module `{module}`, no field of its tree",
            mend=f"call it: `{written}.{expr.name}(…)`"
            if part and written is not None
            else f"call the module's function, the tree first: `{module}.{expr.name}(θ, …)`",
        )
    if found is None:
        names = ", ".join(f"`{item.name}`" for item in fields) or "none"
        raise Refused(
            "E2026",
            f"`{show(type_)}` has no field `{expr.name}`",
            at=(expr.name_at, expr.name_at),
            notes=(f"its fields: {names}",),
            mend=proposal(expr.name, [item.name for item in fields]),
        )
    result: Type = found.type if isinstance(found, ParamField) else Params(found.instance)
    return ReadField(expr.at, result, base, expr.name)


# --- let, lambda, ascription ------------------------------------------------------------------------------------------


def _let(checker: Checker, expr: tree.Let, scope: Scope) -> Typed:
    bindings: list[Binding] = []
    body: tree.Expr = expr
    while isinstance(body, tree.Let):
        value = infer(checker, body.value, scope)
        binders = bind_pattern(checker, body.pattern, value.type, scope)
        scope = scope.bind(*(Variable(item.index, item.name, item.type) for item in binders))
        bindings.append(Binding(body.at, binders, body.pattern.tuple, value))
        body = body.body
    typed = infer(checker, body, scope)
    return LetIn(expr.at, typed.type, tuple(bindings), typed)


def bind_pattern(checker: Checker, pattern: tree.Pattern, type_: Type, scope: Scope) -> tuple[BoundName, ...]:
    """The variables a pattern binds to a value of the type; E2025 for a tuple of another length, E1012 for a name twice."""
    seen: set[str] = set()
    for binder in pattern.binders:
        if binder.name in seen and binder.name != "_":
            checker.reporter.report("E1012", binder.at, f"`{binder.name}` stands twice in one pattern")
        seen.add(binder.name)
    items: Sequence[Type]
    if not pattern.tuple:
        items = (type_,)
    else:
        head = checker.subst.head(type_)
        count = len(pattern.binders)
        if checker.wrong(head):
            items = (WRONG,) * count
        elif checker.unknown(head):
            items = tuple(checker.subst.fresh_type() for _ in range(count))
            checker.subst.unify(head, Tuple(tuple(items)))
        elif isinstance(head, Tuple) and len(head.items) == count:
            items = head.items
        else:
            what = f"a tuple of {len(head.items)}" if isinstance(head, Tuple) else describe(checker.subst.type(head))
            checker.reporter.report(
                "E2025",
                pattern.at,
                f"a pattern of {count} {'name' if count == 1 else 'names'} does not take {what} apart",
            )
            items = (WRONG,) * count
    bound = []
    for binder, item in zip(pattern.binders, items, strict=True):
        if binder.type is not None:
            stated = elaborate_annotation(checker, binder.type, scope)
            if stated is not None:
                checker.require(item, stated, binder.at, f"`{binder.name}`")
                item = stated
        bound.append(BoundName(checker.new_index(), binder.name, item))
    return tuple(bound)


def infer_lambda(checker: Checker, expr: tree.Lambda, scope: Scope, argument: Type | None) -> Typed:
    """A lambda; `argument` is the type of what it is applied to, where that is known."""
    type_: Type = argument if argument is not None else checker.subst.fresh_type()
    binders = bind_pattern(checker, expr.pattern, type_, scope)
    inner = scope.bind(*(Variable(item.index, item.name, item.type) for item in binders))
    body = infer(checker, expr.body, inner)
    if not expr.pattern.tuple:
        type_ = binders[0].type
    return LambdaFn(expr.at, Function((type_,), body.type), binders, expr.pattern.tuple, body)


def _ascribe(checker: Checker, expr: tree.Ascribe, scope: Scope) -> Typed:
    value = infer(checker, expr.value, scope)
    stated = elaborate_annotation(checker, expr.type, scope)
    if stated is None or checker.wrong(value.type):
        return Wrong(expr.at, WRONG)
    if isinstance(stated, Real) and not stated.shape.axes and stated.shape.prefix is None:
        return checker.when_known(expr.at, (value.type,), lambda: _inject_or_retag(checker, expr, value, stated))
    return _retag(checker, expr, value, stated)


def _inject_or_retag(checker: Checker, expr: tree.Ascribe, value: Typed, stated: Type) -> Typed:
    found = checker.subst.head(value.type)
    if isinstance(found, Hyper) and found.kind is not HyperKind.BOOL:
        return Inject(expr.at, stated, value)
    return _retag(checker, expr, value, stated)


def _retag(checker: Checker, expr: tree.Ascribe, value: Typed, stated: Type) -> Typed:
    value = fitted(checker, value, stated)
    if not checker.require(value.type, stated, expr.value.at, "the ascription"):
        return Wrong(expr.at, WRONG)
    if isinstance(value, Literal):
        return Literal(expr.at, value.type, value.text)
    return Retag(expr.at, named_by(checker, checker.subst.type(value.type), stated), value)


def named_by(checker: Checker, found: Type, stated: Type) -> Type:
    """The found type with its unnamed axes named as the stated type says: an ascription never forgets a name."""

    def shape(one: Shape, other: Shape) -> Shape:
        one, other = checker.subst.shape(one), checker.subst.shape(other)
        if len(one.axes) != len(other.axes):
            return one
        axes = tuple(
            Axis(axis.length, axis.name if axis.name is not None else more.name)
            for axis, more in zip(one.axes, other.axes, strict=True)
        )
        return Shape(axes, one.prefix)

    match checker.subst.head(found), checker.subst.head(stated):
        case Real(one), Real(other):
            return Real(checker.distinct(shape(one, other)))
        case Index(bound, one), Index(_, other):
            return Index(bound, checker.distinct(shape(one, other)))
        case Mask(one), Mask(other):
            return Mask(checker.distinct(shape(one, other)))
        case Tuple(items), Tuple(others):
            return Tuple(tuple(named_by(checker, a, b) for a, b in zip(items, others, strict=True)))
        case _:
            return stated
