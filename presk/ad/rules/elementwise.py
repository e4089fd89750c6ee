"""Derivatives of elementwise primitives.

Where a function has a kink the factor is a member of the subdifferential, one rule for every executor, because it is written in
the core: heaviside(0) = 0, sign(0) = 0; of a tie of `max` or `min` the second operand gets everything, as ct − ct·heaviside.

Arithmetic on trees stands in generated functions only, which are not differentiated; sums of them are, for completeness.
"""

from presk.ad.rules.use import Cotangents, Rule, Use
from presk.ad.tape import Tape
from presk.prims.attrs import Align, Length
from presk.types.dim import constant
from presk.types.type import SCALAR, Hyper, HyperKind, Real


def neg(tape: Tape, use: Use) -> Cotangents:
    """−ct."""
    return (tape.like("neg", use.ct),)


def by_argument(factor: str) -> Rule:
    """ct · factor(x), for a factor that is itself a primitive of x."""

    def rule(tape: Tape, use: Use) -> Cotangents:
        return (tape.joined("mul", use.ct, tape.like(factor, use.args[0])),)

    return rule


def exp(tape: Tape, use: Use) -> Cotangents:
    """ct · y."""
    return (tape.joined("mul", use.ct, use.value),)


def tanh(tape: Tape, use: Use) -> Cotangents:
    """ct · (1 − y²), as ct − ct · y²."""
    square = tape.prim(tape.types[use.value], "pow", use.value, attrs=(("n", Length(constant(2))),))
    return (tape.joined("sub", use.ct, tape.joined("mul", use.ct, square)),)


def sigmoid(tape: Tape, use: Use) -> Cotangents:
    """ct · y · (1 − y), as s − s · y with s = ct · y, which keeps the left tail."""
    scaled = tape.joined("mul", use.ct, use.value)
    return (tape.joined("sub", scaled, tape.joined("mul", scaled, use.value)),)


def sqrt(tape: Tape, use: Use) -> Cotangents:
    """ct / 2y: a division by zero of the run where x is 0."""
    return (tape.joined("div", use.ct, tape.scaled(2, use.value)),)


def log(tape: Tape, use: Use) -> Cotangents:
    """ct / x."""
    return (tape.joined("div", use.ct, use.args[0]),)


def cos(tape: Tape, use: Use) -> Cotangents:
    """−ct · sin x."""
    return (tape.like("neg", tape.joined("mul", use.ct, tape.like("sin", use.args[0]))),)


def power(tape: Tape, use: Use) -> Cotangents:
    """ct · n·xⁿ⁻¹; zero for n = 0, at x = 0 too."""
    attr = use.attr("n")
    assert isinstance(attr, Length)
    n = attr.dim.natural()
    assert n is not None
    (x,) = use.args
    if n == 0:
        return (tape.like("zeros_like", x),)
    if n == 1:
        return (use.ct,)
    low = x if n == 2 else tape.prim(tape.types[x], "pow", x, attrs=(("n", Length(constant(n - 1))),))
    return (tape.joined("mul", use.ct, tape.scaled(n, low)),)


def power_by_value(tape: Tape, use: Use) -> Cotangents:
    """ct · n·xᵐ with m = n − 1, but 0 for n = 0: ⌊2n / (n + 1)⌋ is 0 for n = 0 and 1 for every other natural n."""
    x, n = use.args
    nat, integer = Hyper(HyperKind.NAT), Hyper(HyperKind.INT)
    one = tape.literal(1)
    step = tape.prim(integer, "hyper_div", tape.prim(nat, "hyper_add", n, n), tape.prim(nat, "hyper_add", n, one))
    low = tape.prim(tape.types[x], "powv", x, tape.prim(integer, "hyper_sub", n, step))
    factor = tape.prim(Real(SCALAR), "real", n)
    return (tape.joined("mul", use.ct, tape.joined("mul", low, factor, Align(False, ()))), None)


# --- two operands, broadcast --------------------------------------------------------------------------------------------


def add(tape: Tape, use: Use) -> Cotangents:
    """ct, summed down to each operand; of two trees, ct for both."""
    if not use.attrs:
        return (use.ct, use.ct)
    return _spread(tape, use, (use.ct, use.ct))


def sub(tape: Tape, use: Use) -> Cotangents:
    """ct and −ct, summed down."""
    if not use.attrs:
        return (use.ct, tape.like("neg", use.ct))
    left = _down(tape, use, 0, use.ct)
    return (left, _down(tape, use, 1, tape.like("neg", use.ct)) if use.wanted[1] else None)


def mul(tape: Tape, use: Use) -> Cotangents:
    """ct · y and ct · x, summed down."""
    x, y = use.args
    left = _down(tape, use, 0, tape.joined("mul", use.ct, y, use.align("right"))) if use.wanted[0] else None
    right = _down(tape, use, 1, tape.joined("mul", use.ct, x, use.align("left"))) if use.wanted[1] else None
    return (left, right)


def div(tape: Tape, use: Use) -> Cotangents:
    """s = ct / y and −s · (x / y), summed down."""
    _, y = use.args
    scaled = tape.joined("div", use.ct, y, use.align("right"))
    left = _down(tape, use, 0, scaled)
    if not use.wanted[1]:
        return (left, None)
    return (left, _down(tape, use, 1, tape.like("neg", tape.joined("mul", scaled, use.value))))


def extremum(larger: bool) -> Rule:
    """Of `max x, y`: t = ct · heaviside(x − y) for x, ct − t for y; of `min`, heaviside(y − x)."""

    def rule(tape: Tape, use: Use) -> Cotangents:
        type_ = tape.types[use.value]
        x, y = use.args
        left, right = use.align("left"), use.align("right")
        if larger:
            gap = tape.prim(type_, "sub", x, y, attrs=(("left", left), ("right", right)))
        else:
            gap = tape.prim(type_, "sub", y, x, attrs=(("left", right), ("right", left)))
        first = tape.joined("mul", use.ct, tape.like("heaviside", gap))
        one = _down(tape, use, 0, first)
        return (one, _down(tape, use, 1, tape.joined("sub", use.ct, first)) if use.wanted[1] else None)

    return rule


def _spread(tape: Tape, use: Use, cts: tuple[int, int]) -> Cotangents:
    return (_down(tape, use, 0, cts[0]), _down(tape, use, 1, cts[1]))


def _down(tape: Tape, use: Use, place: int, ct: int) -> int | None:
    """A cotangent of the result's type, summed down to an operand."""
    if not use.wanted[place]:
        return None
    return tape.sum_to(ct, use.args[place], use.align(("left", "right")[place]))
