"""Which types carry real numbers, and small facts about types that the rules share."""

from presk.prims.attrs import Align, Attrs
from presk.types.type import Function, Hyper, Params, Real, Shape, Stack, Tuple, Type


def carries(type_: Type) -> bool:
    """Whether a value of the type has an adjoint: it is a real tensor or holds one.

    A tree counts, also one without leaves; indices, masks, numbers, keys and function values do not.
    """
    match type_:
        case Real() | Params():
            return True
        case Tuple(items):
            return any(map(carries, items))
        case Stack(_, item):
            return carries(item)
        case _:
            return False


def has_zeros(type_: Type) -> bool:
    """Whether the type alone decides a value of zeros: no open prefix, no number, no function in it."""
    match type_:
        case Tuple(items):
            return all(map(has_zeros, items))
        case Stack(_, item):
            return has_zeros(item)
        case Hyper() | Function():
            return False
        case Params():
            return True
        case _:
            return not open_prefix(type_)


def open_prefix(type_: Type) -> bool:
    """Whether a shape in the type begins with `...`."""
    match type_:
        case Tuple(items):
            return any(map(open_prefix, items))
        case Stack(_, item):
            return open_prefix(item)
        case _:
            shape = getattr(type_, "shape", None)
            return isinstance(shape, Shape) and shape.prefix is not None


def names_every_axis(type_: Type) -> bool:
    """Whether every axis of every tensor of the type has a name; an open prefix has none."""
    match type_:
        case Tuple(items):
            return all(map(names_every_axis, items))
        case Stack():
            return False
        case _:
            shape = getattr(type_, "shape", None)
            return not isinstance(shape, Shape) or (
                shape.prefix is None and all(axis.name is not None for axis in shape.axes)
            )


def shape_of(type_: Type) -> Shape:
    """The shape of a real tensor."""
    assert isinstance(type_, Real)
    return type_.shape


def whole(shape: Shape) -> Align:
    """The alignment of a shape in itself."""
    return Align(shape.prefix is not None, tuple(range(-len(shape.axes), 0)))


def axis_place(shape: Shape, name: str) -> int:
    """The place of a named axis, from the last (-1)."""
    return next(place for place, axis in enumerate(shape.axes, -len(shape.axes)) if axis.name == name)


def pair(left: Align, right: Align) -> Attrs:
    """The attributes of a broadcast."""
    return (("left", left), ("right", right))


def same(type_: Type) -> Attrs:
    """The attributes of an elementwise operation of two values of one type: none where it is structural."""
    return pair(whole(type_.shape), whole(type_.shape)) if isinstance(type_, Real) else ()
