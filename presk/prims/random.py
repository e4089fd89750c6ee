"""Typing of what draws from a key: dropout and split_key (`sample` stands with argmax)."""

from presk.prims.surface import Bound, Refused, Typed, Typer
from presk.types.type import Hyper, HyperKind, Key, Real, Tuple


def dropout(bound: Bound, typer: Typer) -> Typed:
    """`dropout(rate, key, x)` keeps x's type; a literal rate outside [0, 1) is E2021."""
    rate = bound.operands["rate"]
    if rate.type != Hyper(HyperKind.F64):
        raise Refused("E2001", f"the rate of `dropout` is an `f64`, not `{rate.type}`", at=rate.at)
    if rate.literal is not None and not 0 <= rate.literal < 1:
        raise Refused(
            "E2021",
            f"the rate of `dropout` lies in [0, 1), and this one is {rate.literal}",
            at=rate.at,
            text="outside [0, 1)",
        )
    require_key(bound, "key")
    return Typed(Real(typer.real(bound.operands["x"])))


def split_key(bound: Bound, typer: Typer) -> Typed:
    """`split_key(key)` → (key, key)."""
    require_key(bound, "key")
    return Typed(Tuple((Key(), Key())))


def require_key(bound: Bound, name: str) -> None:
    """E2001 for an operand that is no key."""
    operand = bound.operands[name]
    if not isinstance(operand.type, Key):
        raise Refused("E2001", f"`{bound.name}` draws from a `key`, not from `{operand.type}`", at=operand.at)
