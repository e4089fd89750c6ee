"""Writes a trace down: buffers, kernels, rows, loops, scalars, and the memory of values."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import msgspec

from presk.kernels.copying import copy_kernel
from presk.kernels.ir import SIZES, Elem, Kernel
from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Arith, Fault, Kind, Lowered, Nest, Operand, Place
from presk.kernels.nests.map import Map, may_overwrite
from presk.kernels.nests.table import lower
from presk.kernels.trace.hyper import AnyExpr, Known, LoopCount, Scalar, loop_dependent
from presk.kernels.trace.rows import Buffer, Check, Launch, Loop, Part, Role, Row, Trace
from presk.kernels.trace.scope import Scope
from presk.kernels.trace.values import (
    Hyper,
    Items,
    Layers,
    Record,
    Ref,
    Tensor,
    Value,
    layer,
    map_tensors,
    size_of,
    slice_of,
    stacked,
)
from presk.kernels.wellformed import Illformed, lower_stated
from presk.types import type as types
from presk.types.trees import ParamField, UseField
from presk.types.type import Type

Site = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Counter:
    """A loop: how often, and whether it counts down."""

    count: int
    down: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A state to go back to."""

    rows: int
    buffers: int
    checks: int
    loops: int
    nests: int


class Misfit(Exception):
    """A decision of a nest's layout that does not fit a launch of it (E7002)."""

    def __init__(self, nest: str, decision: str, condition: str, mend: str | None) -> None:
        super().__init__(nest, decision, condition)
        self.nest = nest
        self.decision = decision
        self.condition = condition
        self.mend = mend


class Recorder:
    """A trace under way. Its user calls `launch` and `move`, opens loops, and asks for memory.

    `Misfit` for a layout that does not fit a launch.
    """

    def __init__(self, target: Target, layouts: Mapping[str, Layout]) -> None:
        self.trail: list[Site] = []
        """The bindings that are being walked, the outermost first."""
        self.nests: list[tuple[str, Nest, int]] = []
        """What was launched under which name, and how often there: once for each iteration of the loops around."""
        self._target = target
        self._layouts = layouts
        self._kernels: dict[Kernel, int] = {}
        self._lowered: dict[tuple[Nest, str], tuple[Lowered, tuple[int, ...]]] = {}
        self._moves: dict[tuple[Elem, Elem, int], int] = {}
        self._buffers: list[Buffer] = []
        self._rows: list[Row] = []
        self._loops: list[Counter] = []
        self._around: list[int] = []
        self._scalars: dict[tuple[AnyExpr, Elem], Ref] = {}
        self._constants: dict[tuple[Elem, float], int] = {}
        self._checks: list[Check] = []
        self._rates: dict[AnyExpr, tuple[Site, ...]] = {}

    def trace(
        self,
        inputs: Sequence[Part],
        results: Sequence[Part],
        numbers: Sequence[tuple[str, AnyExpr]],
        carried: tuple[tuple[int, int], ...] = (),
    ) -> Trace:
        """What was recorded."""
        scalars = tuple((Scalar(expr, elem), ref) for (expr, elem), ref in self._scalars.items())
        return Trace(
            tuple(self._rows),
            tuple(self._kernels),
            tuple(self._buffers),
            tuple(inputs),
            tuple(results),
            tuple(numbers),
            scalars,
            tuple(self._checks),
            tuple(self._rates.items()),
            carried,
        )

    # --- memory ---

    def buffer(self, size: int, role: Role = Role.WORK) -> Ref:
        """A buffer of a size in bytes."""
        self._buffers.append(Buffer(size, role))
        return Ref(len(self._buffers) - 1)

    def new(self, operand: Operand) -> Tensor:
        """Memory for a tensor."""
        return Tensor(operand, self.buffer(size_of(operand)))

    def whole(self, part: Part) -> bool:
        """Whether a part is all of a buffer that launches write."""
        buffer, place = self._buffers[part.place.buffer], part.place
        return (
            buffer.role is Role.WORK and not place.offset and not place.steps and buffer.size == size_of(part.operand)
        )

    def constant(self, operand: Operand, fill: float) -> Tensor:
        """A tensor of one number. All of a type and a number share their memory."""
        key = operand.elem, fill
        if key not in self._constants:
            self._constants[key] = len(self._buffers)
            self._buffers.append(Buffer(0, Role.CONSTANT, *key))
        at = self._constants[key]
        if self._buffers[at].size < size_of(operand):
            self._buffers[at] = Buffer(size_of(operand), Role.CONSTANT, *key)
        return Tensor(operand, Ref(at))

    def scalar(self, expr: AnyExpr, operand: Operand) -> Tensor:
        """A scalar that the host computes before a call."""
        if loop_dependent(expr):
            raise TypeError("a tensor that depends on the number of an iteration")
        key = expr, operand.elem
        if key not in self._scalars:
            self._scalars[key] = self.buffer(SIZES[operand.elem], Role.SCALAR)
        return Tensor(operand, self._scalars[key])

    def rate(self, expr: AnyExpr) -> None:
        """Notes that an expression is the rate of a `dropout`: the host looks at it before a run."""
        self._rates.setdefault(expr, tuple(self.trail))

    def of_type(self, scope: Scope, type_: Type, arith: Arith, fill: float) -> Value:
        """The value of a type whose reals are `fill`, and everything else zero."""
        match type_:
            case types.Hyper():
                return Hyper(Known("0"))
            case types.Tuple(items):
                return Items(tuple(self.of_type(scope, item, arith, fill) for item in items))
            case types.Params(instance):
                return Record(
                    {item.name: self.of_type(scope, inner(item), arith, fill) for item in scope.fields(instance)}
                )
            case types.Stack(count, item):
                return self._zeros(self.of_type(scope, item, arith, fill), scope.length(count))
            case _:
                return self.constant(scope.operand(type_, arith), fill if isinstance(type_, types.Real) else 0.0)

    def zero_of(self, value: Value) -> Value:
        """Zeros of a value's form."""
        return map_tensors(value, lambda leaf: self.constant(leaf.operand, 0.0))

    def _zeros(self, one: Value, count: int) -> Value:
        """A stack of zeros of a form."""
        match one:
            case Tensor(operand):
                return self.constant(stacked(operand, count), 0.0)
            case Items(items):
                return Items(tuple(self._zeros(item, count) for item in items))
            case Record(fields):
                return Record({name: self._zeros(item, count) for name, item in fields.items()})
            case Hyper(expr):
                return Layers((expr,) * count)
            case _:
                return one

    def stack(self, layers: Sequence[Value], form: Value) -> Value:
        """Values stacked along a new first axis; `form` says what of, where there are none."""
        match layers[0] if layers else form:
            case Tensor(operand):
                whole = self.new(stacked(operand, len(layers)))
                for number, one in enumerate(layers):
                    assert isinstance(one, Tensor)
                    self.move(one, whole.ref.moved(number * size_of(layer(whole.operand))), whole.operand.elem)
                return whole
            case Items(items):
                parts = [[_item(one, place) for one in layers] for place in range(len(items))]
                return Items(tuple(self.stack(part, item) for part, item in zip(parts, items)))
            case Record(fields):
                return Record(
                    {name: self.stack([_field(one, name) for one in layers], field) for name, field in fields.items()}
                )
            case Hyper():
                return Layers(tuple(one.expr for one in layers if isinstance(one, Hyper)))
            case other:
                return other

    def with_slice(self, stack: Value, one: Value, index: AnyExpr) -> Value:
        """A stack with one slice replaced, in memory of its own."""
        match stack, one:
            case Tensor(operand), Tensor():
                fresh = self.new(operand)
                self.move(stack, fresh.ref)
                place = self.slice(fresh, index)
                assert isinstance(place, Tensor)
                self.move(one, place.ref, operand.elem)
                return fresh
            case Items(items), Items(parts):
                return Items(tuple(self.with_slice(a, b, index) for a, b in zip(items, parts, strict=True)))
            case Record(fields), Record(more):
                return Record({name: self.with_slice(field, more[name], index) for name, field in fields.items()})
            case Layers(exprs), Hyper(expr):
                at = index.whole if isinstance(index, Known) else None
                if at is None:
                    raise TypeError("a hyperparameter is replaced by the number of an iteration")
                return Layers((*exprs[:at], expr, *exprs[at + 1 :]))
            case _:
                return stack

    def slice(self, stack: Value, index: AnyExpr) -> Value:
        """A slice of a stack, which is a view."""
        match index:
            case Known(whole=int(number)):
                return slice_of(stack, number)
            case LoopCount(loop):
                counter = self._loops[loop]
                return slice_of(stack, (loop, counter.down, counter.count))
            case _:
                raise TypeError("a slice by a number that only a call decides")

    # --- rows ---

    def kernel(self, kernel: Kernel) -> int:
        """The number of a kernel."""
        return self._kernels.setdefault(kernel, len(self._kernels))

    def move(self, source: Tensor, target: Ref, elem: Elem | None = None) -> None:
        """Copies a tensor, as another type where one is asked for."""
        operand = source.operand
        key = operand.elem, elem or operand.elem, size_of(operand) // SIZES[operand.elem]
        if key not in self._moves:
            self._moves[key] = self.kernel(copy_kernel(*key, self._target))
        self._rows.append(Launch(self._moves[key], (source.ref, target), "", move=True))

    def launch(
        self, nest: Nest, inputs: Sequence[Tensor], result: Operand, site: Site, laid_out: Site | None = None
    ) -> Tensor:
        """Launches a nest into memory of its own, under its layout, or that of another nest which it computes besides."""
        name = site_name(site)
        layout = self._layout(site_name(laid_out or site))
        lowered, kernels = self._lower(nest, site_name(laid_out or site))
        self.nests.append((name, nest, prod(self._loops[loop].count for loop in self._around)))
        workers = 0 if layout is None or layout.split is None else layout.split.workers
        out = self.new(result)
        scratch = [self.buffer(SIZES[elem] * size) for elem, size in lowered.scratch]
        fault = None if lowered.fault is None else self._fault(lowered.fault, site)
        keys = result.kind is Kind.KEY
        for step, kernel in zip(lowered.steps, kernels):
            places: list[Ref] = []
            for slot in step.slots:
                match slot.place:
                    case Place.INPUT:
                        places.append(inputs[slot.number].ref)
                    case Place.OUTPUT:
                        places.append(out.ref)
                    case Place.SCRATCH:
                        places.append(scratch[slot.number])
                    case Place.FAULT:
                        assert fault is not None
                        places.append(fault)
            quiet = keys or step.prepares
            self._rows.append(Launch(kernel, tuple(places), name, quiet=quiet, workers=workers))
        return out

    def _layout(self, site: str) -> Layout | None:
        """The layout that is stated for a nest. What is stated for `f` holds for `f.fwd`, whose nests are f's, unless that is
        named.
        """
        function, _, var = site.rpartition("/")
        if site in self._layouts:
            return self._layouts[site]
        found = self._layouts.get(f"{function.removesuffix('.fwd')}/{var}")
        # Who reads a product differs between the two: a residual is read once more.
        return None if found is None else msgspec.structs.replace(found, epilogue=None)

    def _lower(self, nest: Nest, site: str) -> tuple[Lowered, tuple[int, ...]]:
        """A nest's kernels, and their numbers."""
        layout = self._layout(site)
        if isinstance(nest, Map) and nest.in_place is None:
            # Whether the operand's memory is free then, the plan of the memory decides: what one allows is one kernel everywhere.
            free = may_overwrite(nest, range(len(nest.sources)))
            nest = msgspec.structs.replace(nest, in_place=free[0] if free else None)
        key = nest, "" if layout is None else site
        if key not in self._lowered:
            if layout is None:
                lowered = lower(nest, Layout(), self._target)
            else:
                try:
                    lowered = lower_stated(nest, layout, self._target)
                except Illformed as error:
                    raise Misfit(site, error.decision, error.condition, error.mend) from error
            self._lowered[key] = lowered, tuple(self.kernel(step.kernel) for step in lowered.steps)
        return self._lowered[key]

    def _fault(self, fault: Fault, site: Site) -> Ref:
        """Flags for the errors that a launch may find, a set for each iteration of the loops around it."""
        total = fault.rows * prod(self._loops[loop].count for loop in self._around)
        ref = self.buffer(total, Role.FAULT)
        self._checks.append(Check(ref.buffer, fault.rows, total, fault.code, fault.message, (*self.trail[:-1], site)))
        step = fault.rows
        for loop in reversed(self._around):
            ref = ref.along(loop, step)
            step *= self._loops[loop].count
        return ref

    # --- loops ---

    @contextmanager
    def loop(self, count: int, *, down: bool) -> Iterator[int]:
        """Rows that are recorded within are the body of a loop; gives its number."""
        number = len(self._loops)
        self._loops.append(Counter(count, down))
        outer, self._rows = self._rows, []
        self._around.append(number)
        try:
            yield number
        finally:
            self._around.pop()
            body, self._rows = self._rows, outer
        self._rows.append(Loop(number, count, tuple(body)))

    def mark(self) -> Mark:
        """The state now."""
        return Mark(len(self._rows), len(self._buffers), len(self._checks), len(self._loops), len(self.nests))

    def back(self, mark: Mark) -> None:
        """Forgets what was recorded since."""
        del self._rows[mark.rows :], self._buffers[mark.buffers :], self._checks[mark.checks :]
        del self._loops[mark.loops :], self.nests[mark.nests :]
        self._scalars = {key: ref for key, ref in self._scalars.items() if ref.buffer < mark.buffers}
        self._constants = {key: at for key, at in self._constants.items() if at < mark.buffers}


def site_name(site: Site) -> str:
    """The name of a nest."""
    return f"{site[0]}/%{site[1]}"


def _item(value: Value, place: int) -> Value:
    assert isinstance(value, Items)
    return value.items[place]


def _field(value: Value, name: str) -> Value:
    assert isinstance(value, Record)
    return value.fields[name]


def inner(field: ParamField | UseField) -> Type:
    """The type of a field."""
    return field.type if isinstance(field, ParamField) else types.Params(field.instance)


def key_operand() -> Operand:
    """A key."""
    return Operand(Kind.KEY, Elem.I32, (), ())
