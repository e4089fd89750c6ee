"""E6001 and E6002: what differentiation does not do."""

from collections.abc import Mapping

import msgspec

from presk.core.ir import Apply, Closure, Function, Grad, Origin
from presk.ad import names
from presk.diagnostics.value import Diagnostic, Label, Place

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
    found = []
    for binding in function.bindings:
        if isinstance(binding.op, Grad):
            found.append(second_order(function.name, binding.var))
        elif isinstance(binding.op, Apply):
            found += applied_value(function, binding.var, binding.op.function)
    return tuple(found)


def applied_value(function: Function, var: int, value: int) -> tuple[Refusal, ...]:
    """E6002 for an application of a value that no lambda of the body made; of a `grad`, nothing: that is E6001."""
    made = next((binding.op for binding in function.bindings if binding.var == value), None)
    if isinstance(made, Grad) or lambda_of_body(made):
        return ()
    declared = made.function if isinstance(made, Closure) else None
    return (not_a_lambda(function.name, var, applied=True, declared=declared),)


def lambda_of_body(made: object) -> bool:
    """Whether a value was made by a lambda, given the operation that made it."""
    return isinstance(made, Closure) and names.is_lambda(made.function)


def diagnostic(refusal: Refusal, origins: Origins) -> Diagnostic:
    """The diagnostic, at the binding's place in the source; the empty place of the file where none is known."""
    origin = origins.get((refusal.function, refusal.var))
    place = Place(0, -1) if origin is None else Place(origin.at[0], origin.at[1], origin.chunk, origin.file)
    return Diagnostic(refusal.code, refusal.message, Label(place, refusal.text), mend=refusal.mend)
