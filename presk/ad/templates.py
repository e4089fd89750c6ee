"""Operands that are read for their shape only."""

from presk.ad.rules.table import SHAPE_ONLY
from presk.core.ir import Operation, Prim, operands


def template(op: Operation) -> int | None:
    """The variable that an operation reads for its shape only."""
    place = SHAPE_ONLY.get(op.name) if isinstance(op, Prim) else None
    return op.args[place] if isinstance(op, Prim) and place is not None else None


def values_read(op: Operation) -> tuple[int, ...]:
    """The variables whose values an operation reads."""
    place = SHAPE_ONLY.get(op.name) if isinstance(op, Prim) else None
    read = operands(op)
    return read if place is None else (*read[:place], *read[place + 1 :])


def with_template(op: Operation, var: int) -> Operation:
    """The operation, another variable's shape in the place of its template's."""
    assert isinstance(op, Prim)
    place = SHAPE_ONLY[op.name]
    return Prim(op.name, (*op.args[:place], var, *op.args[place + 1 :]), op.attrs)
