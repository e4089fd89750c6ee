"""Typing of calls: builtins, declared functions, member functions, function values, `grad`, `M.init`."""

from collections.abc import Callable, Mapping, Sequence

from presk.diagnostics.value import Place
from presk.elab.entities import ConstEntity, Signature
from presk.prims.surface import Bound, Operand, Refused
from presk.prims.table import BUILTINS, NOT_IMPLEMENTED, Primitive
from presk.syntax import tree
from presk.syntax.tree import At
from presk.types.dim import Dim
from presk.types.type import (
    Function,
    Hyper,
    HyperKind,
    Key,
    ModuleType,
    Params,
    Real,
    Stacked,
    Tuple,
    Type,
    TypeVar,
)
from presk.typing import expressions
from presk.typing.annotations import body_dimension
from presk.typing.checker import Checker
from presk.typing.finish import unknown_in
from presk.typing.literals import fitted
from presk.typing.modules import (
    Member,
    ModuleValue,
    axis_names,
    declared_function,
    field_is_broken,
    fields_of,
    has_function,
    is_broken,
    member,
    module_value,
    own_field,
    theta,
)
from presk.typing.scope import Scope
from presk.typing.typed import (
    ApplyValue,
    Call,
    Direct,
    FunctionValue,
    GradOf,
    InitCall,
    LambdaFn,
    ModuleArg,
    Prim,
    Typed,
    Wrong,
)
from presk.typing.unify import WRONG, describe, show

__all__ = ["call", "field_is_broken", "fields_of", "function_value", "has_function"]


def call(checker: Checker, expr: tree.Call, scope: Scope) -> Typed:
    """A call in any of its forms."""
    callee = expr.callee
    match callee:
        case tree.Name(at, name) if name not in scope.names:
            return _named_call(checker, expr, name, at, scope)
        case tree.Field():
            found = _field_call(checker, expr, callee, scope)
            if found is not None:
                return found
        case tree.DimArgs(at, base, arguments):
            path = expressions.path_of(base)
            entity = checker.env.names.get(path) if path is not None and path.split(".")[0] not in scope.names else None
            if isinstance(entity, Signature):
                return _function_call(checker, expr, entity, scope, arguments)
        case tree.Lambda() if len(expr.arguments) == 1 and isinstance(expr.arguments[0], tree.Positional):
            value = expressions.infer(checker, expr.arguments[0].value, scope)
            function = expressions.infer_lambda(checker, callee, scope, value.type)
            return _applied(checker, expr, function, (value,))
        case tree.Call(callee=tree.Name(_, "grad")) if "grad" not in scope.names and "grad" not in checker.env.names:
            return _grad_applied(checker, expr, callee, scope)
        case _:
            pass
    function = expressions.infer(checker, callee, scope)
    return _apply_value(checker, expr, function, scope)


# --- by name ----------------------------------------------------------------------------------------------------------


def _named_call(checker: Checker, expr: tree.Call, name: str, at: At, scope: Scope) -> Typed:
    if checker.header is not None:
        if name in checker.header.functions and own_field(checker, name, at) is None:
            instance = checker.self_instance()
            one = member(checker, instance, name, at, at, _axes_given(expr))
            return _member_call(checker, expr, one, ModuleValue(instance, theta(checker, at)), scope)
        if own_field(checker, name, at) is not None:
            return _not_a_function(checker, expr, name, scope)
    entity = checker.env.names.get(name) if not is_broken(checker, name) else None
    if isinstance(entity, Signature):
        return _function_call(checker, expr, entity, scope, None)
    if entity is not None:
        return _not_a_function(checker, expr, name, scope)
    if is_broken(checker, name):
        _infer_arguments(checker, expr, scope)
        return Wrong(expr.at, WRONG)
    if name in BUILTINS:
        return _builtin(checker, expr, BUILTINS[name], scope)
    if name == "grad":
        return _grad(checker, expr, scope, None)
    if name in NOT_IMPLEMENTED:
        _infer_arguments(checker, expr, scope)
        raise Refused("E2012", f"`{name}` is not implemented in programs", at=at, mend="use `grad`")
    _infer_arguments(checker, expr, scope)
    if name not in checker.env.imports:
        expressions.unknown_name(checker, name, at, scope)
        return Wrong(expr.at, WRONG)
    return _not_a_function(checker, expr, name, scope)


def _not_a_function(checker: Checker, expr: tree.Call, name: str, scope: Scope) -> Typed:
    value = expressions.infer(checker, expr.callee, scope)
    if checker.wrong(value.type):
        return Wrong(expr.at, WRONG)
    type_ = checker.subst.type(value.type)
    part = isinstance(type_, Params) and has_function(checker, type_.instance, "apply")
    raise Refused(
        "E2027",
        f"`{name}` is {describe(type_)}, not a function",
        at=expr.callee.at,
        mend=f"call a function of the module: `{name}.apply(…)`" if part else None,
    )


def _field_call(checker: Checker, expr: tree.Call, callee: tree.Field, scope: Scope) -> Typed | None:
    """`m.f(…)`, `l1.apply(…)`, `net.apply(θ, …)`, `m.MiniGPT.apply(θ, …)`, `M.init(key)`; None for any other base."""
    base, name = callee.base, callee.name
    name_at = (callee.name_at, callee.name_at)
    if isinstance(base, tree.Name) and base.name not in scope.names and own_field(checker, base.name, base.at) is None:
        entity = checker.env.names.get(f"{base.name}.{name}")
        if isinstance(entity, Signature):
            return _function_call(checker, expr, entity, scope, None)
        if is_broken(checker, base.name) or is_broken(checker, f"{base.name}.{name}"):
            _infer_arguments(checker, expr, scope)
            return Wrong(expr.at, WRONG)
    module = module_value(checker, base, scope)
    if module is None:
        return None
    if name == "init" and module.theta is None:
        return _init(checker, expr, module, scope)
    one = member(checker, module.instance, name, callee.at, name_at, _axes_given(expr))
    return _member_call(checker, expr, one, module, scope)


def _infer_arguments(checker: Checker, expr: tree.Call, scope: Scope) -> None:
    _infer_all(checker, expr.arguments, scope)


def _wrong_call(checker: Checker, arguments: Sequence[tree.Argument], at: At, scope: Scope) -> Typed:
    _infer_all(checker, arguments, scope)
    return Wrong(at, WRONG)


def _infer_all(checker: Checker, arguments: Sequence[tree.Argument], scope: Scope) -> None:
    """Types the arguments of a call that is refused, so that their own errors show. (One may be a module, which is no value.)"""
    for argument in arguments:
        if isinstance(argument, tree.Positional | tree.Named) and module_value(checker, argument.value, scope) is None:
            expressions.infer(checker, argument.value, scope)


# --- declared functions -----------------------------------------------------------------------------------------------


def _function_call(
    checker: Checker, expr: tree.Call, signature: Signature, scope: Scope, dims: Sequence[tree.Expr] | None
) -> Typed:
    if not signature.complete and signature.refused:
        _infer_arguments(checker, expr, scope)
        return Wrong(expr.at, WRONG)
    names = axis_names(signature, _axes_given(expr))
    known = _stated_dims(checker, signature, dims, expr.callee.at, scope) if dims is not None else {}
    one = declared_function(checker, signature, expr.callee.at, known, names)
    args = _bind(checker, expr, one, signature.qualified, scope)
    if args is None:
        return Wrong(expr.at, WRONG)
    checker.distinct_type(one.result)
    return Call(expr.at, one.result, one.target, None, args)


def _stated_dims(
    checker: Checker, signature: Signature, dims: Sequence[tree.Expr], at: At, scope: Scope
) -> dict[str, Dim]:
    """Dimension arguments written at a call: values of the function's own type parameters, in order (E1009)."""
    wanted = signature.dims[: signature.own]
    if len(dims) != len(wanted):
        raise Refused(
            "E1009",
            f"`{signature.qualified}` has {len(wanted)} type parameters, and {len(dims)} dimension arguments are given",
            at=at,
        )
    values = {}
    for name, written in zip(wanted, dims, strict=True):
        value = body_dimension(checker, written, scope, natural=True)
        if value is not None:
            values[name] = value
    return values


def _axes_given(expr: tree.Call) -> tuple[str, ...]:
    return tuple(argument.name for argument in expr.arguments if isinstance(argument, tree.AxisArg))


def _member_call(checker: Checker, expr: tree.Call, one: Member, module: ModuleValue, scope: Scope) -> Typed:
    arguments = [argument for argument in expr.arguments if not isinstance(argument, tree.AxisArg)]
    parameters: Typed | None = module.theta
    agrees = True
    wanted = Params(module.instance)
    if parameters is None:
        first = arguments.pop(0) if arguments else None
        if not isinstance(first, tree.Positional):
            _infer_arguments(checker, expr, scope)
            raise Refused(
                "E2004",
                f"the first argument is the parameter tree of `{show(module.instance)}`",
                mend=f"pass it first: `θ : {show(wanted)}`",
            )
        parameters = expressions.infer(checker, first.value, scope)
        agrees = checker.require(parameters.type, wanted, parameters.at, "the parameter tree")
        if not agrees and not isinstance(checker.subst.head(parameters.type), Params):
            # The tree was left out: the other arguments are not in their places either.
            return _wrong_call(checker, arguments, expr.at, scope)
    args = _bind(checker, expr, one, one.signatures[0].qualified, scope, arguments)
    if args is None or not agrees:
        return Wrong(expr.at, WRONG)
    checker.distinct_type(one.result)
    if isinstance(module.instance, Stacked):
        if not args or args[0] is None:
            raise Refused(
                "E2019",
                f"a call through `stack` applies `{one.signatures[0].qualified}` to its first argument, and there is none",
                mend="call a function that takes what it gives back, and give it that argument",
            )
        _same_through_stack(checker, one, args[0].type)
    return Call(expr.at, one.result, one.target, parameters, args)


def _same_through_stack(checker: Checker, one: Member, first: Type) -> None:
    """A member through `stack` gives back the type of its first argument (E2019)."""
    found, wanted = checker.subst.type(one.result), checker.subst.type(first)
    mismatch = checker.subst.unify(one.result, first)
    if mismatch is not None:
        raise Refused(
            "E2019",
            f"a call through `stack` gives back the type of its first argument: `{show(wanted)}` becomes `{show(found)}`",
            notes=(mismatch.why, *mismatch.notes),
        )


def function_value(
    checker: Checker, signature: Signature, at: At, dims: Sequence[tree.Expr], scope: Scope | None = None
) -> Typed:
    """A declared function as a value."""
    if signature.axes:
        raise Refused("E2027", f"`{signature.qualified}` has axis parameters: it can be called, it is not a value")
    if not signature.complete and signature.refused:
        return Wrong(at, WRONG)
    known = _stated_dims(checker, signature, dims, at, scope) if scope is not None else {}
    one = declared_function(checker, signature, at, known)
    assert isinstance(one.target, Direct)
    params = tuple(type_ for type_ in one.params if type_ is not None)
    type_ = Function(params, one.result)
    return FunctionValue(at, type_, one.target.function, one.target.dims, one.target.prefix)


# --- arguments --------------------------------------------------------------------------------------------------------


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _given(number: int) -> str:
    return f"{number or 'none'} {'is' if number <= 1 else 'are'} given"


def _places(
    name: str,
    params: Sequence[str],
    arguments: Sequence[tree.Argument],
    at: At,
    keywords: Sequence[str] = (),
    optional: Callable[[int], bool] = lambda _: False,
) -> dict[str, tree.Positional | tree.Named]:
    """Which argument goes to which parameter; E2004 for one that is unknown, repeated, missing or too many."""
    found: dict[str, tree.Positional | tree.Named] = {}
    named = False
    position = 0
    for argument in arguments:
        match argument:
            case tree.Positional():
                if named:
                    raise Refused("E2004", "a positional argument stands behind a named one", at=argument.at)
                if position >= len(params):
                    raise Refused(
                        "E2004",
                        f"`{name}` takes {_count(len(params), 'argument')}",
                        at=argument.at,
                        text="one too many",
                    )
                found[params[position]] = argument
                position += 1
            case tree.Named(name=parameter):
                named = True
                if parameter not in params and parameter not in keywords:
                    have = ", ".join(f"`{other}`" for other in (*params, *keywords)) or "none"
                    raise Refused(
                        "E2004",
                        f"`{name}` has no parameter `{parameter}`",
                        at=argument.at,
                        notes=(f"its parameters: {have}",),
                    )
                if parameter in found:
                    raise Refused(
                        "E2004",
                        f"the argument `{parameter}` is given twice",
                        at=argument.at,
                        labels=((found[parameter].at, "given here first"),),
                    )
                found[parameter] = argument
            case _:
                pass
    missing = [param for place, param in enumerate(params) if param not in found and not optional(place)]
    if missing:
        words = ", ".join(f"`{param}`" for param in missing)
        raise Refused(
            "E2004",
            f"`{name}` is called without {'its argument' if len(missing) == 1 else 'its arguments'} {words}",
            at=at,
        )
    return found


def _as_written(
    places: Mapping[str, tree.Positional | tree.Named],
) -> list[tuple[str, tree.Positional | tree.Named]]:
    """Arguments in the order in which the program writes them, which is the order in which they are typed."""
    return sorted(places.items(), key=lambda pair: pair[1].at)


def _bind(
    checker: Checker,
    expr: tree.Call,
    one: Member,
    name: str,
    scope: Scope,
    arguments: Sequence[tree.Argument] | None = None,
) -> tuple[Typed | None, ...] | None:
    """The typed arguments of a call of a declared function, in the order of its parameters; None if one was refused, or if the
    result's type is not known without one that has errors itself: what the call gives is then anybody's guess, and no further
    error."""
    given = expr.arguments if arguments is None else arguments
    for argument in given:
        if isinstance(argument, tree.NamedAxis):
            raise Refused(
                "E2004",
                f"`{name}` takes no named axis",
                at=argument.at,
                mend=f"an argument by name is written `{argument.name} = …`",
            )
    try:
        places = _places(name, one.names, given, expr.at, optional=lambda place: one.optional[place])
    except Refused:
        _infer_arguments(checker, expr, scope)
        raise
    typed: dict[str, Typed | None] = {}
    for parameter, argument in _as_written(places):
        wanted = one.params[one.names.index(parameter)]
        typed[parameter] = _argument(checker, argument.value, wanted, name, parameter, one, scope)
    if None in typed.values():
        return None
    if checker.wrong(*(value.type for value in typed.values() if value is not None)):
        if unknown_in(checker.subst.type(one.result)) is not None:
            return None
    return tuple(typed.get(parameter) for parameter in one.names)


def _argument(
    checker: Checker, expr: tree.Expr, wanted: Type | None, callee: str, parameter: str, one: Member, scope: Scope
) -> Typed | None:
    """The typed argument; None where it is refused."""
    if isinstance(wanted, ModuleType):
        module = module_value(checker, expr, scope)
        if module is None:
            value = expressions.infer(checker, expr, scope)
            if checker.wrong(value.type):
                return None
            raise Refused(
                "E2001",
                f"`{parameter}` of `{callee}` is a module, and this is {describe(checker.subst.type(value.type))}",
                at=expr.at,
            )
        mismatch = checker.subst.unify_instance(module.instance, wanted.instance)
        if mismatch is not None:
            raise Refused(
                "E2001",
                f"`{parameter}` of `{callee}` is `{show(wanted.instance)}`, and this is `{show(module.instance)}`",
                at=expr.at,
                notes=(mismatch.why, *mismatch.notes),
            )
        return ModuleArg(expr.at, ModuleType(module.instance), module.instance)
    if isinstance(expr, tree.Lambda) and isinstance(wanted, Function) and len(wanted.params) == 1:
        value = expressions.infer_lambda(checker, expr, scope, wanted.params[0])
    else:
        value = expressions.infer(checker, expr, scope)
    if wanted is None:
        return value
    value = fitted(checker, value, wanted)
    signature = next((item for item in one.signatures if any(param.name == parameter for param in item.params)), None)
    label = None
    if signature is not None:
        place = Place(signature.header[0], signature.header[1], signature.chunk, signature.file)
        label = (place, f"`{parameter}` is declared here")
    if not checker.require(value.type, wanted, value.at, f"argument `{parameter}` of `{callee}`", label=label):
        return None
    checker.keep_prefix_names(one.target, value.type, wanted)
    return value


# --- builtins ---------------------------------------------------------------------------------------------------------


def _builtin(checker: Checker, expr: tree.Call, primitive: Primitive, scope: Scope) -> Typed:
    form = primitive.form
    axes = [argument for argument in expr.arguments if isinstance(argument, tree.AxisArg)]
    named = [argument for argument in expr.arguments if isinstance(argument, tree.NamedAxis)]
    problem = None
    if not form.axes <= len(axes) <= form.axes + form.optional_axis:
        wanted = "an optional" if form.optional_axis and not form.axes else str(form.axes)
        problem = (
            f"`{primitive.name}` takes {wanted} `axis` argument{'s' if form.axes > 1 else ''}, and {_given(len(axes))}"
            if form.axes or form.optional_axis
            else f"`{primitive.name}` takes no `axis` argument"
        )
    elif len(named) != form.named_axes:
        problem = (
            f"`{primitive.name}` takes {_count(form.named_axes, 'named axis').replace('axiss', 'axes')} "
            f"`name: length`, and {_given(len(named))}"
        )
    if problem is not None:
        _infer_arguments(checker, expr, scope)
        raise Refused("E2004", problem)
    try:
        places = _places(primitive.name, form.params, expr.arguments, expr.at, form.keywords)
    except Refused:
        _infer_arguments(checker, expr, scope)
        raise
    typed = {name: expressions.infer(checker, argument.value, scope) for name, argument in _as_written(places)}
    for name in form.decimals:
        if name in typed:
            typed[name] = fitted(checker, typed[name], Hyper(HyperKind.F64))
    lengths = [
        (argument.name, body_dimension(checker, argument.length, scope, natural=True), argument.at)
        for argument in named
    ]
    known = tuple((name, length, at) for name, length, at in lengths if length is not None)
    constants = _file_constants(checker, primitive)
    if len(known) != len(lengths) or constants is None:
        return Wrong(expr.at, WRONG)

    def build() -> Typed:
        operands: Mapping[str, Operand] = {name: checker.operand(name, value) for name, value in typed.items()}
        bound = Bound(
            primitive.name,
            expr.at,
            tuple((axis.name, axis.at) for axis in axes),
            operands,
            known,
            constants,
        )
        found = primitive.typing(bound, checker)
        order = [name for name in (*form.params, *form.keywords) if name in typed]
        return Prim(expr.at, found.type, primitive.name, tuple(typed[name] for name in order), found.attrs)

    return checker.when_known(expr.at, tuple(value.type for value in typed.values()), build)


def _file_constants(checker: Checker, primitive: Primitive) -> dict[str, Dim] | None:
    """The constants of the file that a builtin reads; E2020 if one is missing, None if one was refused itself."""
    values: dict[str, Dim] = {}
    missing = []
    for name in primitive.form.constants:
        entity = checker.env.names.get(name)
        if isinstance(entity, ConstEntity) and entity.value is not None:
            values[name] = entity.value
        elif isinstance(entity, ConstEntity) or is_broken(checker, name):
            return None
        else:
            missing.append(name)
    if missing:
        raise Refused(
            "E2020",
            f"`{primitive.name}` reads the constants `H` and `HD` of the file, and "
            + " and ".join(f"`{name}`" for name in missing)
            + (" is" if len(missing) == 1 else " are")
            + " not declared",
            mend="declare the number of heads and their width: `const H = 8` and `const HD = D / H`",
        )
    return values


# --- function values, grad, init --------------------------------------------------------------------------------------


def _apply_value(checker: Checker, expr: tree.Call, function: Typed, scope: Scope) -> Typed:
    arguments = []
    for argument in expr.arguments:
        if not isinstance(argument, tree.Positional):
            _infer_arguments(checker, expr, scope)
            raise Refused("E2004", "a function value takes positional arguments", at=argument.at)
        arguments.append(expressions.infer(checker, argument.value, scope))
    args = tuple(arguments)
    return checker.when_known(expr.at, (function.type,), lambda: _applied(checker, expr, function, args))


def _applied(checker: Checker, expr: tree.Call, function: Typed, args: tuple[Typed, ...]) -> Typed:
    type_ = checker.subst.head(function.type)
    if type_ == WRONG:
        return Wrong(expr.at, WRONG)
    if not isinstance(type_, Function):
        raise Refused("E2027", f"this is {describe(checker.subst.type(type_))}, not a function", at=expr.callee.at)
    if len(args) != len(type_.params):
        raise Refused("E2004", f"this function takes {_count(len(type_.params), 'argument')}, and {_given(len(args))}")
    args = tuple(fitted(checker, value, wanted) for value, wanted in zip(args, type_.params, strict=True))
    agree = [
        checker.require(value.type, wanted, value.at, "the argument")
        for value, wanted in zip(args, type_.params, strict=True)
    ]
    if not all(agree):
        return Wrong(expr.at, WRONG)
    return ApplyValue(expr.at, type_.result, function, args)


def _grad_argument(checker: Checker, expr: tree.Call, scope: Scope) -> tree.Expr:
    if len(expr.arguments) != 1 or not isinstance(expr.arguments[0], tree.Positional):
        _infer_arguments(checker, expr, scope)
        raise Refused("E2004", "`grad` takes one function", mend="write `grad(λ θ. …)`")
    return expr.arguments[0].value


def _grad(checker: Checker, expr: tree.Call, scope: Scope, argument: Type | None) -> Typed:
    """`grad(f)`: a function from f's argument type to itself; `argument` where the type it is applied to is known."""
    inner = _grad_argument(checker, expr, scope)
    if isinstance(inner, tree.Lambda):
        function = expressions.infer_lambda(checker, inner, scope, argument)
    else:
        function = expressions.infer(checker, inner, scope)
    return checker.when_known(expr.at, (function.type,), lambda: _grad_of(checker, expr, function))


def _grad_of(checker: Checker, expr: tree.Call, function: Typed) -> Typed:
    type_ = checker.subst.head(function.type)
    if not isinstance(type_, Function):
        raise Refused("E2027", f"`grad` takes a function, not {describe(checker.subst.type(type_))}", at=function.at)
    if len(type_.params) != 1:
        raise Refused(
            "E2018",
            f"`grad` takes a function of one argument, and this one has {len(type_.params)}",
            at=function.at,
            mend="close over the others: `grad(λ θ. f(θ, …))`",
        )
    argument = type_.params[0]

    def judged() -> Typed:
        result = checker.subst.type(type_.result)
        if result != Real():
            raise Refused(
                "E2018",
                f"`grad` takes a function that returns `ℝ[]`, and this one returns `{show(result)}`",
                at=function.body.at if isinstance(function, LambdaFn) else function.at,
                text=f"this is `{show(result)}`",
                mend="reduce it to a number: `mean(…)` or `sum(…)`" if isinstance(result, Real) else None,
            )
        return function

    # The type of the gradient is known although the function's result may not be yet (a lambda whose parameter gets its type
    # from an application further down), so the result is judged apart.
    if isinstance(checker.guard(expr.at, lambda: checker.when_known(expr.at, (type_.result,), judged)), Wrong):
        return Wrong(expr.at, WRONG)
    _has_gradient(checker, function, argument)
    return GradOf(expr.at, Function((argument,), argument), function)


def _has_gradient(checker: Checker, function: Typed, argument: Type) -> None:
    """Refuses an argument in which nothing can be differentiated (E2018): all of it must be real tensors or parameter trees."""

    def judged() -> Typed:
        _has_gradient(checker, function, argument)
        return function

    if checker.unknown(argument):
        checker.when_known(function.at, (argument,), judged)
        return
    type_ = checker.subst.head(argument)
    match type_:
        case Tuple(items):
            for item in items:
                _has_gradient(checker, function, item)
        case Real() | Params() | TypeVar():
            pass
        case _:
            raise Refused(
                "E2018",
                f"a gradient is taken in real tensors and parameter trees, not in {describe(checker.subst.type(type_))}",
                at=function.at,
                mend="close over it: `grad(λ θ. f(θ, …))`",
            )


def _grad_applied(checker: Checker, expr: tree.Call, grad: tree.Call, scope: Scope) -> Typed:
    """`grad(f)(x)`: x's type is f's argument type."""
    arguments = [argument for argument in expr.arguments if isinstance(argument, tree.Positional)]
    if len(arguments) != 1 or len(arguments) != len(expr.arguments):
        function = checker.guard(grad.at, lambda: _grad(checker, grad, scope, None))
        return _apply_value(checker, expr, function, scope)
    value = expressions.infer(checker, arguments[0].value, scope)
    function = checker.guard(grad.at, lambda: _grad(checker, grad, scope, value.type))
    return checker.when_known(expr.at, (function.type,), lambda: _applied(checker, expr, function, (value,)))


def _init(checker: Checker, expr: tree.Call, module: ModuleValue, scope: Scope) -> Typed:
    places = _places("init", ("key",), expr.arguments, expr.at)
    key = expressions.infer(checker, places["key"].value, scope)
    checker.require(key.type, Key(), key.at, "argument `key` of `init`")
    checker.inits.append(module.instance)
    return InitCall(expr.at, Params(module.instance), module.instance, key)
