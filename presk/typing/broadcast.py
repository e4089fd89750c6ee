"""How two shapes are joined by an elementwise operation (Typing, "Broadcasting"; decisions O10, O11, O78, O84).

In this order: a scalar combines with anything; the smaller shape that is an open prefix alone lies on the larger's prefix; axes
are aligned from the last; and where names, not lengths, forbid that and the ranks differ, axes are aligned by name. There is no
broadcasting of length one. An axis named on one side only keeps that name.
"""

from presk.prims.attrs import Align
from presk.prims.surface import Broadcast
from presk.types.type import Axis, Shape
from presk.typing.unify import Mismatch, Substitution


def broadcast(subst: Substitution, left: Shape, right: Shape) -> Broadcast | Mismatch:
    """Joins two shapes; the result is as large as the larger."""
    left, right = subst.shape(left), subst.shape(right)
    if _size(left) >= _size(right):
        joined = _into(subst, right, left)
        if isinstance(joined, Mismatch):
            return joined
        shape, align = joined
        return Broadcast(shape, _whole(shape), align)
    joined = _into(subst, left, right)
    if isinstance(joined, Mismatch):
        return joined
    shape, align = joined
    return Broadcast(shape, align, _whole(shape))


def _size(shape: Shape) -> tuple[int, int]:
    # An open prefix stands for any number of axes, so a shape that has one is the larger.
    return (shape.prefix is not None, len(shape.axes))


def _whole(shape: Shape) -> Align:
    return Align(shape.prefix is not None, tuple(range(-len(shape.axes), 0)))


def _into(subst: Substitution, small: Shape, large: Shape) -> tuple[Shape, Align] | Mismatch:
    """Lays the smaller shape on the larger: the result and the smaller one's alignment."""
    if not small.axes and small.prefix is None:
        return large, Align(False, ())
    same_prefix = small.prefix is not None and small.prefix == large.prefix
    if small.prefix is not None and not same_prefix:
        return Mismatch(f"`ℝ[{small}]` does not lie in `ℝ[{large}]`: their leading axes are not the same", shapes=True)
    if same_prefix and not small.axes:
        return large, Align(True, ())
    count = len(small.axes)
    conflict = None
    if count <= len(large.axes) and (not same_prefix or count == len(large.axes)):
        conflict = _conflict(small.axes, large.axes[len(large.axes) - count :])
        if conflict is None:
            return _match(subst, small, large, tuple(range(-count, 0)))
    if count == len(large.axes) and same_prefix == (large.prefix is not None):
        return Mismatch(conflict or "the axes differ", shapes=True)
    by_name = _by_name(small, large)
    if by_name is None:
        return Mismatch(conflict or f"`ℝ[{small}]` does not lie in `ℝ[{large}]`", shapes=True)
    return _match(subst, small, large, by_name)


def _conflict(small: tuple[Axis, ...], large: tuple[Axis, ...]) -> str | None:
    """The first pair whose names differ, in words."""
    for one, other in zip(small, large, strict=True):
        if one.name is not None and other.name is not None and one.name != other.name:
            return f"axis `{one.name}` is not axis `{other.name}`"
    return None


def _by_name(small: Shape, large: Shape) -> tuple[int, ...] | None:
    """The places by name (from the last axis), if every axis of the smaller is named and present in the larger."""
    places = {axis.name: place - len(large.axes) for place, axis in enumerate(large.axes) if axis.name is not None}
    found = [places.get(axis.name) if axis.name is not None else None for axis in small.axes]
    return None if None in found else tuple(place for place in found if place is not None)


def _match(subst: Substitution, small: Shape, large: Shape, places: tuple[int, ...]) -> tuple[Shape, Align] | Mismatch:
    axes = list(large.axes)
    for axis, place in zip(small.axes, places, strict=True):
        merged = subst.unify_axis(axis, axes[place])
        if isinstance(merged, Mismatch):
            return merged
        axes[place] = merged
    return Shape(tuple(axes), large.prefix), Align(small.prefix is not None, places)
