"""Typing of one function: its body against its signature, once and generically."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic, Label
from presk.elab.entities import AliasEntity, DimEntity, Env, Param, Signature
from presk.elab.scope import OUTSIDE, rename_claim
from presk.syntax import tree
from presk.types.claim import Claim
from presk.types.decide import Decider
from presk.types.dim import symbol
from presk.types.type import Instance, ModuleType, Params, Type, type_dims
from presk.typing import expressions
from presk.typing.checker import Checker, Obligation, expand, generic_instance
from presk.typing.finish import Finishing, unknown_in
from presk.typing.literals import fitted
from presk.typing.modules import rename_axes
from presk.typing.scope import EMPTY, ModuleParameter, Variable
from presk.typing.typed import BoundName, Typed, TypedFunction
from presk.typing.unify import WRONG, Substitution

_AXIS_NAMES: Final[Mapping[type, str]] = MappingProxyType(
    {tree.AxisArg: "name", tree.NamedAxis: "name", tree.AxisName: "name", tree.Selector: "axis", tree.Axis: "name"}
)
"""The forms that name an axis, and where."""

_UNKNOWN: Final = re.compile(r"\?\d+\.(\w*)")
"""An unknown dimension as `Substitution.fresh_dim` spells it; no program has such a name."""


def type_function(
    fn: tree.Fn, signature: Signature, env: Env, decider: Decider, axis_names: Mapping[str, str] | None = None
) -> TypedFunction:
    """The typed function with its diagnostics (places relative to the function's chunk).

    `axis_names` gives the axis parameters their names: a function that has some is checked once for each choice (O24).
    """
    reporter = Reporter()
    if axis_names:
        signature = _with_axes(signature, dict(axis_names))
        fn = renamed_axes(fn, axis_names)
    header = env.modules.get(signature.module) if signature.module is not None else None

    def expanded(instance: Instance) -> Instance:
        return expand(instance, env.modules)

    subst = Substitution(decider.decide, _facts(signature, env), expanded)
    checker = Checker(env, signature, header, subst, reporter, decider)
    theta: Type | None = None
    scope = EMPTY
    if header is not None:
        theta = Params(generic_instance(header))
        checker.new_index()  # θ is variable 0
    params: list[BoundName] = []
    for param in signature.params:
        if param.axis:
            continue
        type_ = param.type
        if type_ is None:
            # In a signature that was refused the missing type may be the refused one: using it is no further error.
            type_ = WRONG if signature.refused else subst.fresh_type()
        if isinstance(type_, ModuleType):
            scope = scope.bind(ModuleParameter(param.name, type_.instance))
            continue
        bound = BoundName(checker.new_index(), param.name, type_)
        scope = scope.bind(Variable(bound.index, bound.name, type_))
        params.append(bound)
    body = None
    if fn.body is not None:
        body = expressions.infer(checker, fn.body, scope)
        checker.fill_holes()
    # A parameter without a type has what the body makes of it, or else the type of its default.
    defaults = _defaults(checker, signature, {param.name: param.type for param in params})
    if fn.body is not None and body is not None:
        checker.fill_holes()
        if signature.result is not None:
            body = _result(checker, fn.body, body, signature)
            checker.fill_holes()
    _discharge(checker)
    completed = _completed(checker, signature, params, body)
    finishing = Finishing(checker)
    typed = finishing.resolved(body) if body is not None else None
    if not reporter.failed and not signature.refused:
        _parameters_known(checker, fn, completed)
    if typed is not None and not reporter.failed:
        if finishing.unsolved is not None:
            at, what = finishing.unsolved
            reporter.report(
                "E2017",
                at,
                f"the {what} cannot be inferred here",
                mend="state it: an ascription `(… : T)`, or the parameter's type",
            )
    if reporter.failed:
        completed = msgspec.structs.replace(completed, refused=True)
    return TypedFunction(
        completed,
        tuple((axis_names or {}).get(name, name) for name in signature.axes),
        finishing.resolved(theta) if theta is not None else None,
        tuple(finishing.resolved(item) for item in params),
        tuple(finishing.resolved(item) if item is not None else None for item in defaults),
        finishing.resolved(completed.result) if completed.result is not None else None,
        typed if not reporter.failed else None,
        tuple(dict.fromkeys(checker.calls)),
        tuple(dict.fromkeys(finishing.resolved(tuple(checker.inits)))),
        tuple(map(readable, reporter.diagnostics())),
    )


def readable(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic with unknown dimensions shown by the callee's names for them, whatever printed them."""

    def text(words: str) -> str:
        return _UNKNOWN.sub(lambda found: found[1] or "_", words) if "?" in words else words

    def label(one: Label) -> Label:
        return Label(one.place, text(one.text))

    return msgspec.structs.replace(
        diagnostic,
        message=text(diagnostic.message),
        primary=label(diagnostic.primary),
        labels=tuple(map(label, diagnostic.labels)),
        notes=tuple(map(text, diagnostic.notes)),
        mend=None if diagnostic.mend is None else text(diagnostic.mend),
    )


def renamed_axes(fn: tree.Fn, names: Mapping[str, str]) -> tree.Fn:
    """The function with axis names replaced wherever its body names an axis."""

    def walk(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(walk(item) for item in value)
        if not isinstance(value, msgspec.Struct):
            return value
        attribute = _AXIS_NAMES.get(type(value))
        fields = {field: walk(getattr(value, field)) for field in value.__struct_fields__}
        if attribute is not None:
            fields[attribute] = names.get(fields[attribute], fields[attribute])
        return type(value)(**fields)

    return msgspec.structs.replace(fn, body=walk(fn.body))


def _with_axes(signature: Signature, names: dict[str, str]) -> Signature:
    return msgspec.structs.replace(
        signature,
        params=tuple(
            msgspec.structs.replace(param, type=rename_axes(param.type, names)) if param.type is not None else param
            for param in signature.params
        ),
        result=rename_axes(signature.result, names) if signature.result is not None else None,
    )


def _facts(signature: Signature, env: Env) -> tuple[Claim, ...]:
    """The bounds of the symbols in sight: the signature's, and those of the dimensions and aliases the body mentions.

    A type parameter hides the file's dimension of its name, which is spelled as `Scope.free` does.
    """
    own = signature.dims[: signature.own]
    hidden = {name: symbol(f"{OUTSIDE}{name}") for name in own}
    found: dict[Claim, None] = dict.fromkeys(signature.facts)
    for entity in env.names.values():
        if isinstance(entity, DimEntity | AliasEntity):
            found.update(dict.fromkeys(rename_claim(claim, hidden) for claim in entity.facts))
    return tuple(found)


def _defaults(checker: Checker, signature: Signature, types: Mapping[str, Type]) -> list[Typed | None]:
    """The typed defaults, in the order of the parameters that are values; `types` are the parameters' types."""
    found: list[Typed | None] = []
    for param in signature.params:
        if param.axis or isinstance(param.type, ModuleType):
            continue
        if param.default is None:
            found.append(None)
            continue
        value = expressions.infer(checker, param.default, EMPTY)
        value = fitted(checker, value, types[param.name])
        checker.require(value.type, types[param.name], value.at, f"the default of `{param.name}`")
        found.append(value)
    return found


def _result(checker: Checker, expr: tree.Expr, body: Typed, signature: Signature) -> Typed:
    """The body, which gives what the signature says."""
    assert signature.result is not None
    body = fitted(checker, body, signature.result)
    checker.require(body.type, signature.result, expr.at, f"the result of `{signature.qualified}`")
    return body


def _discharge(checker: Checker) -> None:
    """Proves what calls owe: the bounds of their callees' dimensions, at the values these got."""
    for obligation in checker.obligations:
        claim = Claim(
            obligation.claim.relation,
            checker.subst.dim(obligation.claim.left),
            checker.subst.dim(obligation.claim.right),
        )
        if any(name.startswith("?") for name in (*claim.left.symbols(), *claim.right.symbols())):
            continue  # an unknown that stays unknown is E2017
        failure = checker.prove(claim)
        if failure is not None:
            _owed(checker, obligation, claim, failure)


def _owed(checker: Checker, obligation: Obligation, claim: Claim, failure: str) -> None:
    checker.reporter.report(
        "E1024",
        obligation.at,
        f"`{obligation.callee}` asks for `{claim}`, which {failure}",
        text=f"needs `{claim}`",
        notes=("a bound of a callee's dimension must hold for every value of the caller's",),
        mend=_bounding(checker, claim),
    )


def _bounding(checker: Checker, claim: Claim) -> str | None:
    """How to make `D <= N` hold, where D is one dimension: only one of the file can be declared with a bound."""
    (name, *others) = claim.left.symbols() or ("",)
    hidden = any(one.startswith(OUTSIDE) for one in (name, *claim.right.symbols()))
    if claim.left != symbol(name) or others or hidden or name in claim.right.symbols():
        return None
    if name in checker.signature.dims[: checker.signature.own]:
        return f"a type parameter has no bound: use a dimension of the file, `dim {name} <= {claim.right}`"
    return None if "." in name else f"bound it where it is declared: `dim {name} <= {claim.right}`"


def _completed(checker: Checker, signature: Signature, params: list[BoundName], body: Typed | None) -> Signature:
    """The signature with the types that the body gave, and with every symbol these mention."""
    types = {param.name: checker.subst.type(param.type) for param in params}
    filled = tuple(
        param
        if param.type is not None or param.axis or unknown_in(types[param.name]) is not None
        else msgspec.structs.replace(param, type=types[param.name])
        for param in signature.params
    )
    result = signature.result
    if result is None and body is not None:
        found = checker.subst.type(body.type)
        result = found if unknown_in(found) is None and not checker.wrong(found) else None
    dims = list(signature.dims)
    facts = list(signature.facts)
    for type_ in (*(param.type for param in filled), result):
        for dim in type_dims(type_) if type_ is not None else ():
            for name in dim.symbols():
                if name not in dims:
                    dims.append(name)
                    facts += [
                        claim for claim in checker.subst.facts if name in claim.left.symbols() and claim not in facts
                    ]
    refused = signature.refused or checker.reporter.failed
    return msgspec.structs.replace(
        signature, params=filled, result=result, dims=tuple(dims), facts=tuple(facts), refused=refused
    )


def _parameters_known(checker: Checker, fn: tree.Fn, signature: Signature) -> None:
    """E2017 for a parameter whose type neither the program nor the body gives."""
    for param, written in zip(signature.params, fn.params, strict=True):
        if _missing(param):
            checker.reporter.report(
                "E2017",
                (written.name_at, written.name_at),
                f"the type of parameter `{param.name}` cannot be inferred",
                mend=f"state it: `{param.name} : …`",
            )


def _missing(param: Param) -> bool:
    return param.type is None and not param.axis
