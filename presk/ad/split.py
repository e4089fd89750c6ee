"""What the sweep of a `.vjp` needs of the forward pass, and where it comes from.

A value that the sweep reads and the function computes is

- made again, if that costs nothing (`again`) or if a fusion group of the sweep holds it inside;
- or kept: a residual.

A callee of the function keeps residuals of its own, which are handed through as one. An operand that is read for its shape
only is kept for no one: a parameter or a residual of the same type takes its place where there is one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import msgspec

from presk.ad import names
from presk.ad.again import made_again, taken_apart
from presk.ad.closures import lambda_of
from presk.ad.signature import Signature
from presk.ad.templates import template, values_read
from presk.core.fusion import partition
from presk.core.ir import Apply, Binding, Call, Dims, Fold, Function, Project, operands
from presk.core.stacks import stacked
from presk.types.type import Shape, Tuple, Type, instantiate


class Part(IntEnum):
    """What of a binding of f is kept, in the order in which residuals stand."""

    VALUE = 0
    CALLEE = 1
    """The residuals of the function that it calls."""
    STACK = 2
    """What a loop carries, before each iteration."""
    LAST = 3
    """The residuals of a loop's last iteration."""


Entry = tuple[int, Part]
"""A residual: a binding of f, and what of it."""


class Split(msgspec.Struct, frozen=True, array_like=True):
    """A `.vjp` in two: `reads` are the parameters that `.bwd` takes, `residuals` the type of what `.fwd` gives beside its value
    (None: nothing, and there is no `.fwd`); `open` says whether `.bwd` mentions `...`."""

    primal: Signature
    reads: tuple[int, ...]
    residuals: Type | None
    open: bool = False

    def prefix(self, given: Shape | None) -> Shape | None:
        """What `.bwd` gets for `...` where f gets `given`."""
        return given if self.open else None


@dataclass(frozen=True, slots=True)
class Use:
    """How f calls a function: by a call, by applying a closure of its body, or in a loop. `args` are f's variables; for a loop
    they are the stacked values, the accumulator and the extras."""

    function: str
    dims: Dims
    prefix: Shape | None
    args: tuple[int, ...]

    def residuals(self, split: Split) -> Type | None:
        """The type of the callee's residuals, here."""
        return None if split.residuals is None else instantiate(split.residuals, dict(self.dims), self.prefix)


@dataclass(slots=True)
class Needs:
    """What the backward pass takes: parameters of f, residuals, and what it makes again (numbers of the `.vjp`); `templates` are
    the operands read for their shape whose place another value takes, by reader."""

    params: set[int] = field(default_factory=set)
    entries: set[Entry] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    templates: dict[int, int] = field(default_factory=dict)


class Subject:
    """A function, its `.vjp` and the bodies of its backward loops, with what is known of its callees."""

    def __init__(
        self,
        function: Function,
        vjp: Function,
        loops: Mapping[str, Function],
        sweep: int,
        sources: Mapping[tuple[str, int], int | None],
        splits: Mapping[str, Split | None],
    ) -> None:
        self.function = function
        self.vjp = vjp
        self.loops = loops
        self.splits = splits
        self.sources = sources
        self.count = len(function.params)
        self.own = {binding.var: binding for binding in function.bindings}
        self.ops = {binding.var: binding.op for binding in function.bindings}
        self.forward = {binding.var: binding for binding in vjp.bindings if binding.var < sweep}
        self.backward = tuple(binding for binding in vjp.bindings if binding.var >= sweep)
        # The bodies of the backward loops, by the folds of f.
        self.loop_names = {
            sources[vjp.name, binding.var]: binding.op.function
            for binding in self.backward
            if isinstance(binding.op, Fold)
        }
        self.types: dict[int, Type] = {place: param.type for place, param in enumerate(vjp.params)}
        self.types.update((binding.var, binding.type) for binding in vjp.bindings)
        self.stacks = {
            var: found
            for var, binding in self.forward.items()
            if isinstance(binding.op, Project) and (found := self._scanned(binding.op)) is not None
        }

    def _scanned(self, op: Project) -> int | None:
        """The fold of f whose stack an item is."""
        whole = self.forward.get(op.base)
        if op.place != 1 or whole is None or not isinstance(whole.op, Fold) or not whole.op.scan:
            return None
        return self.sources[self.vjp.name, whole.var]

    def at(self, primal: int) -> int:
        """The number in `.vjp` of a variable of f."""
        return primal if primal < self.count else primal + 1

    def use(self, primal: int) -> Use:
        """The call that a binding of f is."""
        match self.own[primal].op:
            case Call(function, dims, prefix, args):
                return Use(function, dims, prefix, args)
            case Fold(_, function, dims, prefix, stacked_, acc, extras):
                return Use(function, dims, prefix, (*stacked_, acc, *extras))
            case Apply(value, args):
                closure = lambda_of(self.ops, value)
                assert closure is not None
                return Use(closure.function, closure.dims, closure.prefix, (*closure.captured, *args))
            case op:
                raise AssertionError(op)

    def split_of(self, binding: Binding) -> tuple[int, Use, Split] | None:
        """Of a binding of the sweep that runs a callee's backward pass: f's binding, how it calls, and the callee's split."""
        if not isinstance(binding.op, Call | Fold):
            return None
        primal = self.sources[self.vjp.name, binding.var]
        if primal is None:
            return None
        use = self.use(primal)
        split = self.splits.get(use.function)
        return None if split is None else (primal, use, split)


@dataclass(frozen=True, slots=True)
class Loop:
    """What a backward loop takes, once its body calls a `.bwd`: places among the fold's operands of the stacked values and of
    the extras that it reads, and whether it reads the accumulator that was saved."""

    stacked: tuple[int, ...]
    saved: bool
    extras: tuple[int, ...]


def loop_of(subject: Subject, binding: Binding, use: Use, split: Split) -> Loop:
    """What the loop of a sweep reads when its body runs the callee's `.bwd`."""
    assert isinstance(binding.op, Fold)
    body = subject.loops[binding.op.function]
    middle = len(binding.op.stacked) - 1
    read: set[int] = set()
    for one in body.bindings:
        if isinstance(one.op, Call) and one.op.function == names.vjp(use.function):
            read |= {one.op.args[place] for place in split.reads}
        else:
            read.update(operands(one.op))
    extras = range(len(binding.op.extras))
    return Loop(
        tuple(place for place in range(middle) if place in read),
        middle in read,
        tuple(place for place in extras if middle + 2 + place in read),
    )


def needs_of(subject: Subject) -> Needs:
    """What the backward pass of a function needs."""
    return _Needing(subject).run()


class _Needing:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.needs = Needs()
        groups = partition(subject.vjp).roots()
        swept = {binding.var for binding in subject.backward}
        self.inside = {var for var, root in groups.items() if var != root and root in swept}
        self.cheap = set(range(subject.count))
        for binding in subject.forward.values():
            if self.costs_nothing(binding):
                self.cheap.add(binding.var)

    def run(self) -> Needs:
        shapes: list[tuple[int, int]] = []
        for binding in self.subject.backward:
            for var in self.reads(binding, shapes):
                self.need(var)
        for reader, shape in shapes:
            self.shape(reader, shape)
        return self.needs

    def reads(self, binding: Binding, shapes: list[tuple[int, int]]) -> Iterable[int]:
        """What a binding of the sweep reads of the `.vjp`, once it runs the callees' backward passes."""
        op = binding.op
        found = self.subject.split_of(binding)
        if found is None:
            shape = template(op)
            if shape is not None:
                shapes.append((binding.var, shape))
            return values_read(op)
        primal, use, split = found
        if isinstance(op, Call):
            if split.residuals is not None:
                self.needs.entries.add((primal, Part.CALLEE))
            return (*(op.args[place] for place in split.reads), op.args[-1])
        assert isinstance(op, Fold)
        loop = loop_of(self.subject, binding, use, split)
        if split.residuals is not None:
            self.needs.entries |= {(primal, Part.STACK), (primal, Part.LAST)}
        elif loop.saved:
            self.needs.entries.add((primal, Part.STACK))
        return (*(op.stacked[place] for place in loop.stacked), op.acc, *(op.extras[place] for place in loop.extras))

    def need(self, var: int) -> None:
        """Provides for a variable of the `.vjp` that the backward pass reads."""
        waiting = [var]
        while waiting:
            one = waiting.pop()
            if one < self.subject.count:
                self.needs.params.add(one)
            elif one in self.subject.stacks:
                self.needs.entries.add((self.subject.stacks[one], Part.STACK))
            elif one in self.subject.forward and one not in self.needs.again:
                binding = self.subject.forward[one]
                if self.again(binding):
                    self.needs.again.add(one)
                    waiting += operands(binding.op)
                else:
                    self.needs.entries.add((one - 1, Part.VALUE))

    def again(self, binding: Binding) -> bool:
        """Whether a value of the forward pass is made again."""
        if binding.var in self.inside or binding.var in self.cheap:
            return True
        types = [self.subject.types[var] for var in operands(binding.op)]
        return made_again(binding.op, binding.type, types)

    def costs_nothing(self, binding: Binding) -> bool:
        """Whether a value is made at no cost of parameters and such values."""
        if binding.var in self.subject.stacks:
            return False
        base = taken_apart(binding.op)
        if base is not None:
            return base in self.cheap
        types = [self.subject.types[var] for var in operands(binding.op)]
        return made_again(binding.op, binding.type, types) and all(var in self.cheap for var in operands(binding.op))

    def shape(self, reader: int, var: int) -> None:
        """Provides for an operand that is read for its shape only."""
        subject, needs = self.subject, self.needs
        there = var <= subject.count or var not in subject.forward or var in needs.again
        if there or (var - 1, Part.VALUE) in needs.entries or var in self.cheap:
            self.need(var)
            return
        kept = sorted(primal for primal, part in needs.entries if part is Part.VALUE)
        unread = [place for place in range(subject.count) if place not in needs.params]
        others = (subject.count, *sorted(needs.params), *map(subject.at, kept), *unread)
        type_ = subject.types[var]
        other = next((one for one in others if subject.types[one] == type_), None)
        if other is not None:
            needs.templates[reader] = var = other
        self.need(var)


def entry_type(subject: Subject, entry: Entry) -> Type:
    """The type of a residual."""
    primal, part = entry
    binding = subject.own[primal]
    if part is Part.VALUE:
        return binding.type
    use = subject.use(primal)
    split = subject.splits.get(use.function)
    residuals = None if split is None else use.residuals(split)
    if part is not Part.STACK:
        assert residuals is not None
        return residuals
    assert isinstance(binding.op, Fold)
    return stacked(binding.type if residuals is None else Tuple((binding.type, residuals)), binding.op.count)
