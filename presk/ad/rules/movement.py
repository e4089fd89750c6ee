"""Derivatives of what moves, places and joins: the cotangent goes back where it came from."""

from presk.ad.kinds import axis_place, shape_of
from presk.ad.rules.use import Cotangents, Rule, Use
from presk.ad.tape import Tape
from presk.prims.attrs import AxisName, Place, Select
from presk.types.dim import ZERO, Dim


def back(name: str) -> Rule:
    """A primitive of the cotangent alone, with the attributes of the use: split_heads and merge_heads undo each other."""

    def rule(tape: Tape, use: Use) -> Cotangents:
        return (tape.prim(tape.types[use.args[0]], name, use.ct, attrs=use.attrs),)

    return rule


def shaped(name: str, *, attrs: bool) -> Rule:
    """A primitive of the cotangent and the operand, which it reads for its shape only."""

    def rule(tape: Tape, use: Use) -> Cotangents:
        (x,) = use.args
        return (tape.prim(tape.types[x], name, use.ct, x, attrs=use.attrs if attrs else ()),)

    return rule


def retag(tape: Tape, use: Use) -> Cotangents:
    """The cotangent under the operand's names."""
    return (tape.coerced(use.ct, tape.types[use.args[0]]),)


def concat(tape: Tape, use: Use) -> Cotangents:
    """Two slices of the cotangent."""
    axis = use.attr("axis")
    assert isinstance(axis, AxisName) and axis.name is not None
    x, y = use.args
    place = axis_place(shape_of(tape.types[use.ct]), axis.name)
    middle = _length(tape, x, place)
    bounds = ((ZERO, middle), (middle, middle + _length(tape, y, place)))
    return tuple(
        tape.prim(tape.types[one], "slice", use.ct, attrs=(("s0", Select(axis.name, place, *bound)),))
        if wanted
        else None
        for one, bound, wanted in zip(use.args, bounds, use.wanted)
    )


def _length(tape: Tape, x: int, place: int) -> Dim:
    return shape_of(tape.types[x]).axes[place].length


def embed(tape: Tape, use: Use) -> Cotangents:
    """The rows of the cotangent added into those of the table, in increasing position; the indices get none."""
    w, t = use.args
    return (tape.prim(tape.types[w], "embed_vjp", t, use.ct, w), None)


def slice_params(tape: Tape, use: Use) -> Cotangents:
    """Slice i of a tree of zeros."""
    (tree,) = use.args
    return (tape.prim(tape.types[tree], "scatter_params", use.ct, tree, attrs=use.attrs),)


def stack_params(tape: Tape, use: Use) -> Cotangents:
    """Slice i for tree i."""
    return tuple(
        tape.prim(tape.types[tree], "slice_params", use.ct, attrs=(("i", Place(place)),)) if wanted else None
        for place, (tree, wanted) in enumerate(zip(use.args, use.wanted))
    )
