"""What a kernel does, counted from its text: operations on floats and bytes of its buffers.

A multiplication, an addition, a division, a root count one each, an `fma` two, in every lane that counts; comparisons, selections,
conversions and moves none. Bytes are those of the buffers, each once: what must come from memory, or go there, at least.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from presk.kernels.ir import (
    FLOATS,
    SIZES,
    Access,
    AnyStmt,
    Binary,
    BinaryOp,
    Fma,
    For,
    Kernel,
    Let,
    Unary,
    UnaryOp,
)

_COUNTED: Final = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV})


class Work(msgspec.Struct, frozen=True, array_like=True):
    """Operations and bytes of one launch."""

    operations: int
    bytes: int


def work(kernel: Kernel) -> Work:
    """What one launch of a kernel does."""
    used = sum(one.size * SIZES[one.elem] for one in kernel.buffers if one.access is not Access.SCRATCH)
    return Work(_operations(kernel.body), used)


def _operations(body: Iterable[AnyStmt]) -> int:
    total = 0
    for statement in body:
        match statement:
            case For(extent=extent, body=inner):
                total += extent * _operations(inner)
            case Let(type=type_, op=op) if type_.elem in FLOATS:
                match op:
                    case Fma():
                        total += 2 * type_.lanes
                    case Binary(op=which) if which in _COUNTED:
                        total += type_.lanes
                    case Unary(op=UnaryOp.SQRT):
                        total += type_.lanes
                    case _:
                        pass
            case _:
                pass
    return total
