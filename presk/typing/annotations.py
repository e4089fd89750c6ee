"""Dimensions and types written inside a body: slice bounds, dimension arguments, ascriptions.

They are elaborated as in signatures, in the scope of the function, where no new dimension may appear. A local variable is no
dimension, whatever its name hides.
"""

from presk.diagnostics.report import Reporter
from presk.elab.exprs import dimension
from presk.elab.scope import Scope as ElabScope
from presk.elab.types import elaborate_type
from presk.prims.surface import Refused
from presk.syntax import tree
from presk.types.dim import Dim
from presk.types.type import Type
from presk.typing.checker import Checker
from presk.typing.scope import ModuleParameter, Scope


def elab_scope(checker: Checker, scope: Scope) -> ElabScope:
    """The elaborator's view of a place in the body."""
    signature = checker.signature
    return ElabScope(
        env=checker.env,
        decider=checker.decider,
        owner=signature.chunk,
        params=frozenset(signature.dims[: signature.own]),
        known=frozenset(signature.dims[signature.own :]),
        module=signature.module.name if signature.module is not None else None,
        instances={name: item.instance for name, item in scope.names.items() if isinstance(item, ModuleParameter)},
        axes=frozenset(signature.axes),
    )


def body_dimension(checker: Checker, expr: tree.Expr, scope: Scope, *, natural: bool = False) -> Dim | None:
    """A dimension written in a body; None after a report. What is no dimension is E1007."""
    local = _local_in(expr, scope)
    if local is not None:
        raise Refused(
            "E1007",
            f"`{local.name}` is a value, not a dimension",
            at=local.at,
            text="not a dimension",
            notes=(
                "a dimension is made of literals, constants, dimensions of the file or the function, and their sums",
            ),
        )
    return dimension(expr, elab_scope(checker, scope), checker.reporter, natural=natural, wrong_kind="E1007")


def _local_in(expr: tree.Expr, scope: Scope) -> tree.Name | None:
    """The first local variable that a dimension expression mentions."""
    stack: list[tree.Expr] = [expr]
    while stack:
        item = stack.pop()
        match item:
            case tree.Name(_, name) if name in scope.names:
                return item
            case tree.Binary(left=left, right=right):
                stack += [right, left]
            case tree.Negate(operand=operand):
                stack.append(operand)
            case tree.Field(base=base) | tree.Index(base=base):
                stack.append(base)
            case tree.Call(arguments=arguments):
                stack += [item.value for item in reversed(arguments) if isinstance(item, tree.Positional | tree.Named)]
            case _:
                pass
    return None


def elaborate_annotation(checker: Checker, type_: tree.TypeExpr, scope: Scope) -> Type | None:
    """A type written in a body; None after a report."""
    reporter: Reporter = checker.reporter
    return elaborate_type(type_, elab_scope(checker, scope), reporter)
