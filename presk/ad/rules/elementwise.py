"""Derivatives of elementwise primitives.

Where a function has a kink the factor is a member of the subdifferential, one rule for every executor, because it is written in
the core: heaviside(0) = 0, sign(0) = 0; of a tie of `max` or `min` the second operand gets everything, as ct − ct·heaviside.

Arithmetic on trees stands in generated functions only, which are not differentiated; sums of them are, for completeness.
"""

from presk.ad.rules.use import Builder, Cotangents, Rule, Use
from presk.prims.attrs import Align, Length
from presk.types.dim import constant
from presk.types.type import SCALAR, Hyper, HyperKind, Real


def neg(body: Builder, use: Use) -> Cotangents:
    """−ct."""
    return (body.like("neg", use.ct),)


def by_argument(factor: str) -> Rule:
    """ct · factor(x), for a factor that is itself a primitive of x."""

    def rule(body: Builder, use: Use) -> Cotangents:
        return (body.joined("mul", use.ct, body.like(factor, use.args[0])),)

    return rule


def exp(body: Builder, use: Use) -> Cotangents:
    """ct · y."""
    return (body.joined("mul", use.ct, use.value),)


def tanh(body: Builder, use: Use) -> Cotangents:
    """ct · (1 − y²), as ct − ct · y²."""
    square = body.prim(body.types[use.value], "pow", use.value, attrs=(("n", Length(constant(2))),))
    return (body.joined("sub", use.ct, body.joined("mul", use.ct, square)),)


def sigmoid(body: Builder, use: Use) -> Cotangents:
    """ct · y · (1 − y), as s − s · y with s = ct · y, which keeps the left tail."""
    scaled = body.joined("mul", use.ct, use.value)
    return (body.joined("sub", scaled, body.joined("mul", scaled, use.value)),)


def sqrt(body: Builder, use: Use) -> Cotangents:
    """ct / 2y: a division by zero of the run where x is 0."""
    return (body.joined("div", use.ct, body.scaled(2, use.value)),)


def log(body: Builder, use: Use) -> Cotangents:
    """ct / x."""
    return (body.joined("div", use.ct, use.args[0]),)


def cos(body: Builder, use: Use) -> Cotangents:
    """−ct · sin x."""
    return (body.like("neg", body.joined("mul", use.ct, body.like("sin", use.args[0]))),)


def power(body: Builder, use: Use) -> Cotangents:
    """ct · n·xⁿ⁻¹; zero for n = 0, at x = 0 too."""
    attr = use.attr("n")
    assert isinstance(attr, Length)
    n = attr.dim.natural()
    assert n is not None
    (x,) = use.args
    if n == 0:
        return (body.like("zeros_like", x),)
    if n == 1:
        return (use.ct,)
    low = x if n == 2 else body.prim(body.types[x], "pow", x, attrs=(("n", Length(constant(n - 1))),))
    return (body.joined("mul", use.ct, body.scaled(n, low)),)


def power_by_value(body: Builder, use: Use) -> Cotangents:
    """ct · n·xᵐ with m = n − 1, but 0 for n = 0: ⌊2n / (n + 1)⌋ is 0 for n = 0 and 1 for every other natural n."""
    x, n = use.args
    nat, integer = Hyper(HyperKind.NAT), Hyper(HyperKind.INT)
    one = body.literal(1)
    step = body.prim(integer, "hyper_div", body.prim(nat, "hyper_add", n, n), body.prim(nat, "hyper_add", n, one))
    low = body.prim(body.types[x], "powv", x, body.prim(integer, "hyper_sub", n, step))
    factor = body.prim(Real(SCALAR), "real", n)
    return (body.joined("mul", use.ct, body.joined("mul", low, factor, Align(False, ()))), None)


# --- two operands, broadcast --------------------------------------------------------------------------------------------


def add(body: Builder, use: Use) -> Cotangents:
    """ct, summed down to each operand; of two trees, ct for both."""
    if not use.attrs:
        return (use.ct, use.ct)
    return _spread(body, use, (use.ct, use.ct))


def sub(body: Builder, use: Use) -> Cotangents:
    """ct and −ct, summed down."""
    if not use.attrs:
        return (use.ct, body.like("neg", use.ct))
    left = _down(body, use, 0, use.ct)
    return (left, _down(body, use, 1, body.like("neg", use.ct)) if use.wanted[1] else None)


def mul(body: Builder, use: Use) -> Cotangents:
    """ct · y and ct · x, summed down."""
    x, y = use.args
    left = _down(body, use, 0, body.joined("mul", use.ct, y, use.align("right"))) if use.wanted[0] else None
    right = _down(body, use, 1, body.joined("mul", use.ct, x, use.align("left"))) if use.wanted[1] else None
    return (left, right)


def div(body: Builder, use: Use) -> Cotangents:
    """s = ct / y and −s · (x / y), summed down."""
    _, y = use.args
    scaled = body.joined("div", use.ct, y, use.align("right"))
    left = _down(body, use, 0, scaled)
    if not use.wanted[1]:
        return (left, None)
    return (left, _down(body, use, 1, body.like("neg", body.joined("mul", scaled, use.value))))


def extremum(larger: bool) -> Rule:
    """Of `max x, y`: t = ct · heaviside(x − y) for x, ct − t for y; of `min`, heaviside(y − x)."""

    def rule(body: Builder, use: Use) -> Cotangents:
        type_ = body.types[use.value]
        x, y = use.args
        left, right = use.align("left"), use.align("right")
        if larger:
            gap = body.prim(type_, "sub", x, y, attrs=(("left", left), ("right", right)))
        else:
            gap = body.prim(type_, "sub", y, x, attrs=(("left", right), ("right", left)))
        first = body.joined("mul", use.ct, body.like("heaviside", gap))
        one = _down(body, use, 0, first)
        return (one, _down(body, use, 1, body.joined("sub", use.ct, first)) if use.wanted[1] else None)

    return rule


def _spread(body: Builder, use: Use, cts: tuple[int, int]) -> Cotangents:
    return (_down(body, use, 0, cts[0]), _down(body, use, 1, cts[1]))


def _down(body: Builder, use: Use, place: int, ct: int) -> int | None:
    """A cotangent of the result's type, summed down to an operand."""
    if not use.wanted[place]:
        return None
    return body.sum_to(ct, use.args[place], use.align(("left", "right")[place]))
