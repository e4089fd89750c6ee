"""Constants, dimensions and aliases of a file: the declarations that stand for one value."""

from collections.abc import Sequence

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic
from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, Env
from presk.elab.exprs import constant_value, dimension
from presk.elab.scope import Scope, connected, merged
from presk.elab.types import elaborate_type
from presk.syntax import tree
from presk.types.claim import Claim, Relation
from presk.types.decide import Decider
from presk.types.dim import Dim, symbol
from presk.types.type import type_dims

Diagnostics = tuple[Diagnostic, ...]


def elaborate_constant(
    const: tree.Const, env: Env, decider: Decider, override: Dim | None = None
) -> tuple[ConstEntity, Diagnostics]:
    """The value of a constant; with `override`, that value, and the expression is not evaluated.

    Errors: E1005, E1022 and those of constant expressions.
    """
    reporter = Reporter()
    typed = const.type is None or _is_nat(const.type)
    if const.type is not None and not typed:
        shown = _shown(const.type)
        reporter.report(
            "E1022",
            const.type.at,
            f"the constant `{const.name}` cannot be {shown}",
            text="a constant is a `nat`",
            notes=["a constant is a natural number, so that it can be a dimension"],
            mend=f"write `const {const.name} : nat`, or leave the type out",
        )
    value = override
    if value is None and typed:
        value = constant_value(const.name, const.value, Scope(env, decider, f"const {const.name}"), reporter)
    return ConstEntity(const.name, value), merged(reporter.diagnostics())


def _shown(type_: tree.TypeExpr) -> str:
    """A type for a message."""
    match type_:
        case tree.NamedType(path=path, arguments=None):
            return f"an `{'.'.join(path)}`" if path[0][0] in "aeiouf" else f"a `{'.'.join(path)}`"
        case tree.RealType():
            return "a real tensor"
        case _:
            return "of this type"


def _is_nat(type_: tree.TypeExpr) -> bool:
    return isinstance(type_, tree.NamedType) and type_.path == ("nat",) and type_.arguments is None


def elaborate_dimension(decl: tree.DimDecl, env: Env, decider: Decider) -> tuple[DimEntity, Diagnostics]:
    """A symbolic dimension with the facts of its bound: its own, and those of the symbols that the bound mentions."""
    if decl.bound is None:
        return DimEntity(decl.name), ()
    reporter = Reporter()
    scope = Scope(env, decider, f"dim {decl.name}")
    bound = dimension(decl.bound, scope, reporter, natural=True)
    facts: Sequence[Claim] = ()
    if bound is not None:
        own = Claim(Relation.LE, symbol(decl.name), bound)
        facts = (own, *connected(scope.all_facts(), bound.symbols()))
    return DimEntity(decl.name, tuple(facts)), merged(reporter.diagnostics())


def elaborate_alias(alias: tree.TypeAlias, env: Env, decider: Decider) -> tuple[AliasEntity, Diagnostics]:
    """A type alias, with the facts of the dimensions that its type mentions."""
    reporter = Reporter()
    scope = Scope(env, decider, f"type {alias.name}")
    type_ = elaborate_type(alias.type, scope, reporter, module_typed=True)
    mentioned = () if type_ is None else tuple(name for dim in type_dims(type_) for name in dim.symbols())
    return AliasEntity(alias.name, type_, scope.facts(mentioned) if mentioned else ()), merged(reporter.diagnostics())
