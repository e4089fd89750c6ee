"""The type of a stack: what a fold that scans gives beside its last accumulator.

A tensor's stack has an axis in front, a tree's is the stacked module's, a tuple's is the tuple of its items' stacks. What has no
room for an axis in front (a key, a tensor behind an open prefix, a number) is stacked as a `Stack`.
"""

from presk.types.dim import Dim
from presk.types.type import Axis, Index, Mask, Params, Real, Shape, Stack, Stacked, Tuple, Type


def stacked(type_: Type, count: Dim) -> Type:
    """The type of `count` values of a type."""
    match type_:
        case Real(shape) if shape.prefix is None:
            return Real(_in_front(shape, count))
        case Index(bound, shape) if shape.prefix is None:
            return Index(bound, _in_front(shape, count))
        case Mask(shape) if shape.prefix is None:
            return Mask(_in_front(shape, count))
        case Tuple(items):
            return Tuple(tuple(stacked(item, count) for item in items))
        case Params(instance):
            return Params(Stacked(count, instance))
        case _:
            return Stack(count, type_)


def unstacked(type_: Type) -> Type:
    """The type of one value of a stack; ValueError for a type that is no stack's.

    A tuple without items is its own stack, of any count.
    """
    match type_:
        case Real(shape) if shape.prefix is None and shape.axes:
            return Real(Shape(shape.axes[1:]))
        case Index(bound, shape) if shape.prefix is None and shape.axes:
            return Index(bound, Shape(shape.axes[1:]))
        case Mask(shape) if shape.prefix is None and shape.axes:
            return Mask(Shape(shape.axes[1:]))
        case Tuple(items):
            return Tuple(tuple(map(unstacked, items)))
        case Params(Stacked(_, inner)):
            return Params(inner)
        case Stack(_, item):
            return item
        case _:
            raise ValueError(f"{type_} is no stack")


def _in_front(shape: Shape, count: Dim) -> Shape:
    return Shape((Axis(count), *shape.axes))
