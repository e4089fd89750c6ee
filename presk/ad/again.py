"""What a backward pass computes again rather than keep: what costs nothing to have twice."""

from typing import Final

from presk.core.ir import Closure, Field, Literal, MakeParams, MakeTuple, Operation, Prim, Project
from presk.types.type import Hyper, Type

_AGAIN: Final = frozenset({"split_key", "zeros", "ones", "pi"})
_MOVES: Final = frozenset({"retag", "merge", "split", "reshape_like"})


def made_again(op: Operation, type_: Type, operands: list[Type]) -> bool:
    """Whether an operation is done again wherever its operands are there: it takes apart, puts together, names, counts."""
    match op:
        case Literal() | Closure() | MakeTuple() | MakeParams():
            return True
        case Prim(name=name):
            if name in _AGAIN or name in _MOVES or isinstance(type_, Hyper):
                return True
            return bool(operands) and all(isinstance(one, Hyper) for one in operands)
        case _:
            return False


def taken_apart(op: Operation) -> int | None:
    """What a field or an item is taken from. It is taken again where the whole is there without being kept."""
    return op.base if isinstance(op, Field | Project) else None
