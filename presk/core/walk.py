"""Walking typed expressions."""

from collections.abc import Iterator

from presk.typing.typed import (
    ApplyValue,
    Arith,
    Call,
    EinSum,
    FunctionValue,
    GradOf,
    Hole,
    HyperOp,
    IndexInto,
    InitCall,
    Inject,
    LambdaFn,
    LetIn,
    Literal,
    MakeTuple,
    ModuleArg,
    NegateReal,
    Power,
    Prim,
    ReadField,
    Retag,
    Typed,
    Var,
    Wrong,
)


def children(node: Typed) -> tuple[Typed, ...]:
    """The expressions that an expression is made of, in the order of the text."""
    match node:
        case Var() | Literal() | FunctionValue() | ModuleArg() | Wrong() | Hole():
            return ()
        case HyperOp(operands=items) | EinSum(operands=items) | MakeTuple(items=items) | Prim(args=items):
            return items
        case Inject(value=value) | NegateReal(value=value) | Retag(value=value):
            return (value,)
        case Arith(left=left, right=right):
            return (left, right)
        case Power(base=base, exponent=exponent):
            return (base, exponent)
        case IndexInto(base=base) | ReadField(base=base):
            return (base,)
        case LetIn(bindings=bindings, body=body):
            return (*(binding.value for binding in bindings), body)
        case LambdaFn(body=body):
            return (body,)
        case GradOf(function=function):
            return (function,)
        case ApplyValue(function=function, args=args):
            return (function, *args)
        case Call(theta=theta, args=optional):
            given = tuple(item for item in optional if item is not None)
            return given if theta is None else (theta, *given)
        case InitCall(key=key):
            return (key,)


def expressions(root: Typed) -> Iterator[Typed]:
    """An expression and all that it is made of, from the outside in, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))
