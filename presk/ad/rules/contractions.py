"""Derivatives of `dot` and `ein`.

An `ein`'s adjoint in one operand is an `ein` of the cotangent with the others:

    s = ein [b, i, j] q [b, i, k], k [b, j, k]      ⟶      ein [b, i, k] ct [b, i, j], k [b, j, k]

The result takes the operand's own axis names. They differ from its names in the `ein` where the type checker renamed one (k's
`seq`, read as `seq2`), so all names of the adjoint are exchanged accordingly. An axis that no other operand and not the output
has was summed away alone: it comes back by a product with ones.
"""

from collections.abc import Sequence

from presk.ad.kinds import pair, shape_of, whole
from presk.ad.rules.use import Builder, Cotangents, Use
from presk.prims.attrs import Align, AxisNames
from presk.types.type import Real, Shape


def dot(body: Builder, use: Use) -> Cotangents:
    """ct · wᵀ and xᵀ · ct."""
    x, w = use.args
    left = body.prim(body.types[x], "dot_vjp_l", use.ct, w) if use.wanted[0] else None
    right = body.prim(body.types[w], "dot_vjp_r", x, use.ct) if use.wanted[1] else None
    return (left, right)


def ein(body: Builder, use: Use) -> Cotangents:
    """One `ein` an operand."""
    names = [_names(use, f"in{place}") for place in range(len(use.args))]
    out = _names(use, "out")
    return tuple(_adjoint(body, use, place, names, out) if wanted else None for place, wanted in enumerate(use.wanted))


def _names(use: Use, key: str) -> tuple[str, ...]:
    attr = use.attr(key)
    assert isinstance(attr, AxisNames)
    return attr.names


def _adjoint(body: Builder, use: Use, place: int, names: Sequence[tuple[str, ...]], out: tuple[str, ...]) -> int:
    operand = use.args[place]
    shape = shape_of(body.types[operand])
    own = tuple(axis.name or "" for axis in shape.axes)
    exchange = _exchange(names[place], own)
    others = [at for at in range(len(names)) if at != place]
    labels = [tuple(exchange.get(name, name) for name in one) for one in (out, *(names[at] for at in others))]
    present = {name for one in labels for name in one}
    kept = tuple(name for name in own if name in present)
    at = tuple(where for where, name in enumerate(own, -len(own)) if name in present)
    if not others and labels[0] == kept:
        value = use.ct
    else:
        args = (use.ct, *(use.args[other] for other in others))
        attrs = (("out", AxisNames(kept)), *((f"in{k}", AxisNames(one)) for k, one in enumerate(labels)))
        value = body.prim(Real(Shape(tuple(shape.axes[where] for where in at))), "ein", *args, attrs=attrs)
    if kept == own:
        return body.coerced(value, body.types[operand])
    ones = body.prim(body.types[operand], "ones")
    return body.prim(body.types[operand], "mul", ones, value, attrs=pair(whole(shape), Align(False, at)))


def _exchange(labels: tuple[str, ...], own: tuple[str, ...]) -> dict[str, str]:
    """A one-to-one renaming that takes an operand's names in the `ein` to its type's: what is displaced takes what is freed."""
    taken = dict(zip(labels, own))
    displaced = [name for name in own if name not in taken]
    freed = [name for name in labels if name not in own]
    return taken | dict(zip(displaced, freed))
