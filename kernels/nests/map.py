"""Maps: an expression at every element of a result, over operands that lie in it in any way.

A map is a fusion group or one elementwise primitive. Its axes are the result's, merged where every operand allows it. What an
operand, or a step of the expression, does not depend on the inner axes for is computed in front of their loops, once; the innermost
axis is taken in vectors, several registers at once. Everything inside is in the arithmetic type: loads convert, and the one rounding
is the store's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from presk.kernels.build import Builder, Value
from presk.kernels.ir import LOADED, Access, CompareOp, Elem, bits_of
from presk.kernels.layout import Layout, Target
from presk.kernels.math import apply
from presk.kernels.nest import Arith, Launch, Lowered, Nest, Operand, Place, Slot, Step, Use
from presk.kernels.nests.axes import (
    Shape,
    Strides,
    axis_of,
    collapse,
    count,
    identity,
    laid,
    length_of,
    places,
)
from presk.kernels.nests.emit import Loops, Spot, abreast_for, address, divided, fitting, lanes_for, load, store
from presk.prims.attrs import Align, Attr


class Source(msgspec.Struct, frozen=True, array_like=True):
    """An input of a map: its elements, how many, their bound if they are indices, and its strides along the map's axes."""

    elem: Elem
    size: int
    strides: Strides
    bound: int | None = None


class Apply(msgspec.Struct, frozen=True, array_like=True):
    """A step of an expression: a scalar primitive on inputs and earlier steps, numbered in one row, the inputs first.

    `n` is the exponent of `pow`. A step without a name is the constant `value`.
    """

    name: str
    args: tuple[int, ...] = ()
    n: int | None = None
    value: float | None = None


class Map(Nest, frozen=True):
    """`out[i] = expression(source_0[i · strides_0], …)` for i in `shape`; the value is the last step's, or the one input's.

    The output's memory may be the input's of number `in_place`.
    """

    shape: Shape
    sources: tuple[Source, ...]
    steps: tuple[Apply, ...]
    elem: Elem
    arithmetic: Elem
    in_place: int | None = None


Steps = Sequence[tuple[str, tuple[int, ...], Mapping[str, Attr]]]
"""Members of a group: a primitive's name; its arguments, operands of the group and members before it in one row; its attributes."""

LARGEST_EXPONENT: Final = 2.0**62
"""An exponent that is known at run time only counts as this one if it is larger."""


# --- rules -------------------------------------------------------------------------------------------------------------------------


def group(operands: Sequence[Operand], steps: Steps, result: Operand, arith: Arith, dims: Mapping[str, int]) -> Launch:
    """The map of a fusion group; its root is the last step. One that is read under another order of axes is computed in both."""
    writer = _Writer(operands, steps, result, arith, dims)
    writer.step(len(operands) + len(steps) - 1, identity(len(result.shape)))
    return writer.launch()


def elementwise(name: str, use: Use) -> Launch:
    """The map of one elementwise primitive."""
    arguments = tuple(range(len(use.operands)))
    return group(use.operands, ((name, arguments, use.attrs),), use.result, use.arith, use.dims)


def copied(use: Use) -> Launch:
    """Operand 0 itself, converted: `real`."""
    writer = _Writer(use.operands, (), use.result, use.arith, use.dims)
    writer.argument(0, identity(len(use.result.shape)), None)
    return writer.launch()


def transposed(use: Use, where: tuple[int, ...]) -> Launch:
    """Operand 0, whose axes lie at these places of the result."""
    writer = _Writer(use.operands, (), use.result, use.arith, use.dims)
    writer.read(0, where)
    return writer.launch()


def spread(use: Use, *, share: bool) -> Launch:
    """`broadcast_like ct, t` and, where the cotangent is shared among the elements, `mean_vjp ct, t`."""
    writer = _Writer(use.operands, (), use.result, use.arith, use.dims)
    shape = use.result.shape
    axis = axis_of(use.result, use.attrs)
    if axis is None:
        where: tuple[int, ...] = ()
        among = count(shape)
    else:
        where = tuple(place for place in range(len(shape)) if place != axis)
        among = shape[axis]
    value = writer.read(0, where)
    if share:
        writer.add(Apply("div", (value, writer.add(Apply("", value=float(among))))))
    return writer.launch()


@dataclass(slots=True)
class _Ref:
    """An input or a step in the making."""

    source: bool
    place: int


class _Writer:
    """A map in the making. A value is named by its number among `refs` until all inputs are known."""

    def __init__(
        self, operands: Sequence[Operand], steps: Steps, result: Operand, arith: Arith, dims: Mapping[str, int]
    ) -> None:
        self.operands = operands
        self.members = steps
        self.result = result
        self.arith = arith
        self.dims = dims
        self.rank = len(result.shape)
        self.refs: list[_Ref] = []
        self.inputs: list[int] = []
        self.strides: list[Strides] = []
        self.steps: list[Apply] = []
        self.reads: dict[tuple[int, Strides], int] = {}
        self.made: dict[tuple[int, tuple[int, ...]], int] = {}

    def ref(self, *, source: bool, place: int) -> int:
        self.refs.append(_Ref(source, place))
        return len(self.refs) - 1

    def add(self, step: Apply) -> int:
        """A step, whose arguments are numbers among `refs`."""
        self.steps.append(step)
        return self.ref(source=False, place=len(self.steps) - 1)

    def read(self, operand: int, where: Sequence[int]) -> int:
        """An operand whose axes lie at places of the result."""
        strides = laid(self.operands[operand].shape, where, self.rank)
        key = operand, strides
        if key not in self.reads:
            self.inputs.append(operand)
            self.strides.append(strides)
            self.reads[key] = self.ref(source=True, place=len(self.inputs) - 1)
        return self.reads[key]

    def argument(self, one: int, where: tuple[int, ...], align: Align | None) -> int:
        """What a member reads: its axes lie at places of the result, and the argument lies in it as `align` says."""
        if one >= len(self.operands):
            rank = len(where)
            inner = identity(rank) if align is None else places(self.result.shape, align, rank)
            return self.step(one, tuple(where[place] for place in inner))
        shape = self.operands[one].shape
        if align is not None:
            return self.read(one, tuple(where[place] for place in places(shape, align, len(where))))
        if shape == ():
            return self.read(one, ())
        if len(shape) != len(where):
            raise ValueError(f"an operand of shape {shape} in a result of shape {self.result.shape}")
        return self.read(one, where)

    def step(self, one: int, where: tuple[int, ...]) -> int:
        """A member, its axes at places of the result."""
        if (one, where) not in self.made:
            name, arguments, attrs = self.members[one - len(self.operands)]
            aligns = [attrs.get("left"), attrs.get("right")]
            args = tuple(
                self.argument(argument, where, align if isinstance(align, Align) else None)
                for argument, align in zip(arguments, (*aligns, *(None,) * len(arguments)))
            )
            n = length_of(attrs, "n", self.dims) if "n" in attrs else None
            self.made[one, where] = self.add(Apply(name, args, n))
        return self.made[one, where]

    def launch(self) -> Launch:
        """The nest."""
        shape, strides = collapse(self.result.shape, self.strides)
        sources = tuple(
            Source(operand.elem, count(operand.shape), mine, operand.bound)
            for operand, mine in zip((self.operands[number] for number in self.inputs), strides)
        )
        numbers = tuple(ref.place if ref.source else len(sources) + ref.place for ref in self.refs)
        steps = tuple(Apply(one.name, tuple(numbers[arg] for arg in one.args), one.n, one.value) for one in self.steps)
        nest = Map(shape, sources, steps, self.result.elem, self.arith.arithmetic)
        return Launch(nest, tuple(self.inputs))


def may_overwrite(nest: Map, inputs: Sequence[int]) -> tuple[int, ...]:
    """The inputs whose memory the output may take: each element is read before it is written, at the same place.

    `inputs` tells the inputs' memory apart, by any numbers: memory that is read in two ways is not overwritten.
    """
    return tuple(
        place
        for place, source in enumerate(nest.sources)
        if source.elem is nest.elem
        and source.size == count(nest.shape)
        and collapse(nest.shape, (source.strides,)) == collapse(nest.shape, (_own(nest.shape),))
        and list(inputs).count(inputs[place]) == 1
    )


def _own(shape: Shape) -> Strides:
    return laid(shape, identity(len(shape)), len(shape))


# --- lowering ----------------------------------------------------------------------------------------------------------------------


def lower(nest: Map, layout: Layout, target: Target) -> Lowered:
    """The loops of a map."""
    b = Builder()
    buffers = [b.buffer(source.elem, source.size, bound=source.bound) for source in nest.sources]
    out = b.buffer(nest.elem, count(nest.shape), Access.OUT, in_place=nest.in_place)
    if count(nest.shape):
        _Body(b, nest, buffers, out, layout, target).write()
    slots = (*(Slot(Place.INPUT, place) for place in range(len(buffers))), Slot(Place.OUTPUT))
    return Lowered((Step(b.kernel(), slots),))


class _Body:
    """The statements of a map: each value where its loops are, scalars outside the innermost one and vectors in it."""

    def __init__(self, b: Builder, nest: Map, buffers: Sequence[int], out: int, layout: Layout, target: Target) -> None:
        self.b = b
        self.nest = nest
        self.buffers = buffers
        self.out = out
        # A single element has an axis, too.
        self.shape = nest.shape or (1,)
        rank = len(self.shape)
        self.strides = [source.strides or (0,) * rank for source in nest.sources]
        self.own = _own(self.shape)
        lanes = fitting(abreast_for(layout, target, nest.arithmetic), self.shape[-1])
        self.loops = Loops(b, divided(layout, rank))
        self.lanes = lanes
        self.least = min(lanes, lanes_for(layout, target, nest.arithmetic))
        self.levels = self._levels(rank)

    def _levels(self, rank: int) -> list[int]:
        """How many loops are around each input and step."""
        levels = [max((axis + 1 for axis in range(rank) if strides[axis]), default=0) for strides in self.strides]
        for step in self.nest.steps:
            levels.append(max((levels[arg] for arg in step.args), default=0))
        return levels

    def write(self) -> None:
        self._descend((), {})

    def _descend(self, spots: tuple[Spot, ...], outer: Mapping[int, Value]) -> None:
        """What stands in the body of as many loops as there are spots, and the loops inside."""
        depth = len(spots)
        known = dict(outer)
        for place, level in enumerate(self.levels):
            if level == depth:
                known[place] = self._value(place, spots, known, 1, None)
        if depth < len(self.shape) - 1:
            self.loops.over(self.shape[depth : depth + 1], lambda at: self._descend((*spots, *at), known), depth=depth)
            return
        scalars = {place: value for place, value in known.items() if self._is_read(place)}
        wide = {self.lanes: {place: self.b.splat(value, self.lanes) for place, value in scalars.items()}}

        def vector(at: Spot, lanes: int, some: int | None) -> None:
            if lanes not in wide:
                wide[lanes] = {place: self.b.splat(value, lanes) for place, value in scalars.items()}
            self._vector((*spots, at), wide[lanes], lanes, some)

        self.loops.wide(self.shape[-1], self.lanes, self.least, vector, depth=depth)

    def _is_read(self, place: int) -> bool:
        """Whether a scalar is an argument of a step in the innermost loop, or is stored there."""
        rank = len(self.shape)
        if place == len(self.levels) - 1:
            return True
        first = len(self.nest.sources)
        return any(place in step.args and self.levels[first + k] == rank for k, step in enumerate(self.nest.steps))

    def _vector(self, spots: tuple[Spot, ...], wide: Mapping[int, Value], lanes: int, count: int | None) -> None:
        """A vector of results."""
        known = dict(wide)
        for place, level in enumerate(self.levels):
            if level == len(self.shape):
                known[place] = self._value(place, spots, known, lanes, count)
        store(
            self.b,
            self.out,
            self.nest.elem,
            address(self.b, *zip(spots, self.own)),
            known[len(self.levels) - 1],
            count=count,
        )

    def _value(
        self, place: int, spots: tuple[Spot, ...], known: Mapping[int, Value], lanes: int, count: int | None
    ) -> Value:
        """An input or a step."""
        b, elem = self.b, self.nest.arithmetic
        first = len(self.nest.sources)
        if place < first:
            strides = self.strides[place]
            index = address(b, *zip(spots, strides))
            stride = strides[-1] if len(spots) == len(self.shape) else 1
            # An exponent keeps its own type: one beyond 2²⁴ would be another number in f32.
            own = LOADED[self.nest.sources[place].elem] if self._is_exponent(place) else elem
            return load(b, self.buffers[place], index, own, lanes, stride=stride, count=count)
        step = self.nest.steps[place - first]
        if step.value is not None:
            return b.bits(elem, bits_of(elem, step.value), lanes)
        if step.name == POWER:
            base, n = step.args
            return apply(b, step.name, [b.convert(known[base], elem), _exponent(b, known[n])], step.n)
        return apply(b, step.name, [b.convert(known[arg], elem) for arg in step.args], step.n)

    def _is_exponent(self, place: int) -> bool:
        """Whether an input is the exponent of a power."""
        return any(step.name == POWER and step.args[1] == place for step in self.nest.steps)


POWER: Final = "powv"
"""The scalar primitive whose second argument is a whole number."""


def _exponent(b: Builder, n: Value) -> Value:
    """A natural number, which may come as a float."""
    if n.elem is Elem.I64:
        return n
    limit = b.const(n.elem, LARGEST_EXPONENT, n.lanes)
    return b.convert(b.select(b.compare(CompareOp.LT, n, limit), n, limit), Elem.I64)
