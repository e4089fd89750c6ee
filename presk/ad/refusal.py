"""E6001 and E6002: what differentiation does not do."""

from collections.abc import Mapping

import msgspec

from presk.ad.closures import lambda_of, made_by
from presk.core.ir import Apply, Closure, Function, Grad, Origin
from presk.diagnostics.value import Diagnostic, Label, Place
from presk.syntax.tree import NOWHERE

Origins = Mapping[tuple[str, int], Origin]


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """A binding that cannot be differentiated: the code, what to say of it, and what would help."""

    code: str
    function: str
    var: int
    message: str
    text: str
    mend: str | None = None


def second_order(function: str, var: int) -> Refusal:
    """A gradient inside a function that is itself differentiated."""
    message = f"`grad` inside `{function}`, which is differentiated itself: there are no derivatives of second order"
    return Refusal("E6001", function, var, message, "a gradient inside a differentiated function")


def no_rule(function: str, var: int, primitive: str, reason: str) -> Refusal:
    """A primitive without a derivative."""
    message = f"`{primitive}` cannot be differentiated: {reason}"
    return Refusal("E6001", function, var, message, "a derivative of this is asked for")


def not_a_lambda(function: str, var: int, *, applied: bool, declared: str | None) -> Refusal:
    """A function value that no lambda of the body made: differentiated, or applied in a differentiated function."""
    if applied:
        message = f"`{function}` is differentiated and applies a function value that is no lambda of its body"
    else:
        message = "`grad` takes a lambda of the same body, and this function value is none"
    if declared is not None:
        mend = f"write a lambda that calls it: `λ x. {declared}(x)`"
    else:
        mend = "write the lambda where it is applied, or make it a declared function and call that"
    return Refusal("E6002", function, var, message, "not a lambda of this body", mend)


def refusals(function: Function) -> tuple[Refusal, ...]:
    """Why a function cannot be differentiated, as far as its own body says."""
    ops = {binding.var: binding.op for binding in function.bindings}
    found = []
    for var, op in ops.items():
        if isinstance(op, Grad):
            found.append(second_order(function.name, var))
        elif isinstance(op, Apply) and lambda_of(ops, op.function) is None:
            made = made_by(ops, op.function)
            if not isinstance(made, Grad):
                declared = made.function if isinstance(made, Closure) else None
                found.append(not_a_lambda(function.name, var, applied=True, declared=declared))
    return tuple(found)


def diagnostic(refusal: Refusal, origins: Origins, asked: tuple[str, int] | None = None) -> Diagnostic:
    """The diagnostic, at the binding's place in the source; `asked` is the `grad` that differentiates its function."""
    labels: tuple[Label, ...] = ()
    if asked is not None and asked != (refusal.function, refusal.var) and asked in origins:
        labels = (Label(_place(asked, origins), "because of this `grad`"),)
    primary = Label(_place((refusal.function, refusal.var), origins), refusal.text)
    return Diagnostic(refusal.code, refusal.message, primary, labels, mend=refusal.mend)


def _place(binding: tuple[str, int], origins: Origins) -> Place:
    """A binding's place, the empty one of the file where none is known."""
    origin = origins.get(binding)
    return Place(*NOWHERE) if origin is None else Place(*origin.at, origin.chunk, origin.file)
