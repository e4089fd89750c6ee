"""Literals where a number of another kind is wanted: a natural one is an `f64` there (O79, O89)."""

from presk.types.type import Hyper, HyperKind, Tuple, Type
from presk.typing.checker import Checker, literal_value
from presk.typing.typed import HyperOp, LetIn, Literal, MakeTuple, Typed


def fitted(checker: Checker, node: Typed, wanted: Type) -> Typed:
    """The expression, with the literals that give its value taken for `f64` where the wanted type has one: a literal or constant,
    perhaps negative, in a tuple or behind `let`s. Everything else stays as it is."""
    wanted = checker.subst.head(wanted)
    match node, wanted:
        case Literal(at, _, text), Hyper(HyperKind.F64):
            return Literal(at, wanted, text)
        case HyperOp(at, _, "-", (operand,)), Hyper(HyperKind.F64) if literal_value(operand) is not None:
            return HyperOp(at, wanted, "-", (fitted(checker, operand, wanted),))
        case MakeTuple(at, _, items), Tuple(others) if len(items) == len(others):
            parts = tuple(fitted(checker, item, other) for item, other in zip(items, others, strict=True))
            return MakeTuple(at, Tuple(tuple(part.type for part in parts)), parts)
        case LetIn(at, _, bindings, body), _:
            inner = fitted(checker, body, wanted)
            return LetIn(at, inner.type, bindings, inner)
        case _:
            return node
