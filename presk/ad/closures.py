"""Which closure a function value is, as far as its body says."""

from collections.abc import Mapping

from presk.ad import names
from presk.core.ir import Closure, MakeTuple, Operation, Project


def made_by(ops: Mapping[int, Operation], var: int) -> Operation | None:
    """The operation that made a value, items of tuples of the same body looked through; None for a parameter."""
    op = ops.get(var)
    while isinstance(op, Project):
        whole = ops.get(op.base)
        if not isinstance(whole, MakeTuple):
            return op
        op = ops.get(whole.items[op.place])
    return op


def lambda_of(ops: Mapping[int, Operation], var: int) -> Closure | None:
    """The closure of a lambda of this body that a value is; None for any other value."""
    made = made_by(ops, var)
    return made if isinstance(made, Closure) and names.is_lambda(made.function) else None
