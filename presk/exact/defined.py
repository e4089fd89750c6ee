"""Refuses, before anything is computed, what is undefined at the dimensions of a run (E7003).

The program is walked as it would run, with types in place of values: a mean over no element, a selection outside its axis, an index
where there is none below V = 0, a length that is no natural number, a bound of a dimension that does not hold. What a run does not
reach is not looked at: the body of a loop of no iteration, a lambda that nothing applies. Of values only function values are
followed. A dimension that is left open refuses nothing: its use does.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from presk.core.ir import Apply, Call, Closure, Dims, Fold, Function, MakeTuple, Prim, Program, Project
from presk.exact.faults import UNDEFINED, Fault
from presk.exact.interpreter import Stopped, bound
from presk.exact.scope import Headers, Scope, place_of, shape_of
from presk.prims.attrs import Attr, AxisName, Select
from presk.types import type as types
from presk.types.claim import Claim, Relation
from presk.types.dim import Dim
from presk.types.type import Shape, Type, type_dims

Lengths = tuple[int | None, ...]
"""Lengths of axes; None for an open one."""


@dataclass(frozen=True, slots=True)
class Known:
    """A function value."""

    function: str
    dims: tuple[tuple[str, int], ...]
    prefix: Lengths
    captured: tuple["Seen", ...]


Seen = Known | tuple["Seen", ...] | None
"""What is followed of a value: a function value, a tuple of such, nothing."""

Task = tuple[str, tuple[tuple[str, int], ...], Lengths, tuple[Seen, ...]]
"""A call: the function, its dimensions, its leading axes, its arguments."""


@dataclass(frozen=True, slots=True)
class _At:
    """A body at given dimensions."""

    scope: Scope
    prefix: Lengths

    def length(self, dim: Dim) -> int | None:
        """The value of a length, None for an open one."""
        return self.scope.length(dim) if all(symbol in self.scope.dims for symbol in dim.symbols()) else None

    def shape(self, type_: Type) -> Lengths:
        """All lengths of a tensor."""
        shape = shape_of(type_)
        lengths = tuple(self.length(axis.length) for axis in shape.axes)
        return lengths if shape.prefix is None else self.prefix + lengths

    def callee(self, dims: Dims, prefix: Shape | None) -> tuple[tuple[tuple[str, int], ...], Lengths]:
        """A callee's dimensions and leading axes."""
        lengths: Lengths = ()
        if prefix is not None:
            lengths = tuple(self.length(axis.length) for axis in prefix.axes)
            if prefix.prefix is not None:
                lengths = self.prefix + lengths
        return tuple(sorted(bound(self.scope, dims).items())), lengths


def check_entry(
    program: Program,
    entry: str,
    dims: Mapping[str, int],
    prefix: tuple[int, ...],
    headers: Headers,
    facts: Mapping[str, Sequence[Claim]],
) -> None:
    """`Stopped` with the first thing that is undefined, in order of evaluation."""
    functions = {function.name: function for function in program.functions}
    _Walk(functions, headers, facts).run(entry, tuple(sorted(dims.items())), prefix)


class _Place:
    """The binding that a walk has come to in a function."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.var = -1


class _Walk:
    def __init__(
        self, functions: Mapping[str, Function], headers: Headers, facts: Mapping[str, Sequence[Claim]]
    ) -> None:
        self._functions = functions
        self._headers = headers
        self._facts = facts
        self._done: dict[Task, Seen] = {}

    def run(self, entry: str, dims: tuple[tuple[str, int], ...], prefix: Lengths) -> None:
        function = self._functions[entry]
        at = self._at(dims, prefix)
        try:
            for param in function.params:
                _check_lengths(at, param.type)
                _check_inhabited(at, param.name, param.type)
        except Fault as fault:
            raise Stopped(fault, ((entry, -1),)) from None
        self._drive((entry, dims, prefix, (None,) * len(function.params)))

    def _at(self, dims: tuple[tuple[str, int], ...], prefix: Lengths) -> _At:
        return _At(Scope(dict(dims), (), self._headers), prefix)

    def _drive(self, first: Task) -> None:
        """Depth first, each call at the same dimensions and function values once."""
        sites = [_Place(first[0])]
        stack = [(first, self._body(first, sites[-1]))]
        value: Seen = None
        started = False
        while stack:
            task, body = stack[-1]
            try:
                wanted = body.send(value) if started else next(body)
            except StopIteration as finished:
                self._done[task] = value = finished.value
                stack.pop()
                sites.pop()
                started = True
                continue
            except Fault as fault:
                raise Stopped(fault, tuple((site.function, site.var) for site in sites)) from None
            if wanted in self._done:
                value, started = self._done[wanted], True
                continue
            sites.append(_Place(wanted[0]))
            stack.append((wanted, self._body(wanted, sites[-1])))
            value, started = None, False

    def _body(self, task: Task, site: "_Place") -> Generator[Task, Seen, Seen]:
        name, dims, prefix, args = task
        function = self._functions[name]
        at = self._at(dims, prefix)
        self._check_facts(function, at)
        seen: dict[int, Seen] = dict(enumerate(args))
        type_of = {place: param.type for place, param in enumerate(function.params)}
        for binding in function.bindings:
            site.var = binding.var
            type_of[binding.var] = binding.type
            value: Seen = None
            match binding.op:
                case Prim(primitive, operands, attrs):
                    _check_primitive(at, primitive, tuple(type_of[var] for var in operands), dict(attrs))
                    if primitive == _SAME:
                        value = seen[operands[0]]
                case MakeTuple(items):
                    value = tuple(seen[var] for var in items)
                    value = value if any(item is not None for item in value) else None
                case Project(base, place):
                    whole = seen[base]
                    value = whole[place] if isinstance(whole, tuple) else None
                case Closure(callee, callee_dims, callee_prefix, captured):
                    value = Known(callee, *at.callee(callee_dims, callee_prefix), tuple(seen[var] for var in captured))
                case Call(callee, callee_dims, callee_prefix, operands):
                    value = yield (
                        callee,
                        *at.callee(callee_dims, callee_prefix),
                        tuple(seen[var] for var in operands),
                    )
                case Apply(applied, operands):
                    known = seen[applied]
                    if isinstance(known, Known):
                        rest = tuple(seen[var] for var in operands)
                        value = yield (known.function, known.dims, known.prefix, known.captured + rest)
                case Fold() as fold:
                    value = yield from self._fold(at, fold, seen)
                case _:
                    pass
            _check_lengths(at, binding.type)
            seen[binding.var] = value
        return seen[function.returns]

    def _fold(self, at: _At, fold: Fold, seen: Mapping[int, Seen]) -> Generator[Task, Seen, Seen]:
        """As many iterations as give something new; of the stacked values nothing is followed."""
        count = at.length(fold.count)
        acc = seen[fold.acc]
        extras = tuple(seen[var] for var in fold.extras) + ((None,) if fold.indexed else ())
        for _ in range(count or 0):
            after = yield (
                fold.function,
                *at.callee(fold.dims, fold.prefix),
                (*(None for _ in fold.stacked), acc, *extras),
            )
            if after == acc:
                break
            acc = after
        return (acc, None) if fold.scan else acc

    def _check_facts(self, function: Function, at: _At) -> None:
        for claim in self._facts.get(function.name, ()):
            symbols = sorted({*claim.left.symbols(), *claim.right.symbols()})
            if all(symbol in at.scope.dims for symbol in symbols) and not _holds(claim, at.scope.dims):
                values = ", ".join(f"{symbol} = {at.scope.dims[symbol]}" for symbol in symbols)
                raise Fault(
                    UNDEFINED,
                    f"`{claim}`, which `{function.name}` relies on, does not hold for {values or 'these dimensions'}",
                )


_SAME: Final = "retag"


def _holds(claim: Claim, dims: Mapping[str, int]) -> bool:
    left, right = claim.left.evaluate(dims), claim.right.evaluate(dims)
    match claim.relation:
        case Relation.EQ:
            return bool(left == right)
        case Relation.LE:
            return bool(left <= right)
        case Relation.LT:
            return bool(left < right)
        case Relation.GE:
            return bool(left >= right)
        case Relation.GT:
            return bool(left > right)
        case Relation.DIVIDES:
            return bool((left / right).denominator == 1)


def _check_lengths(at: _At, type_: Type) -> None:
    for dim in type_dims(type_):
        at.length(dim)


def _check_inhabited(at: _At, name: str, type_: Type) -> None:
    match type_:
        case types.Index(limit, _) if at.length(limit) == 0:
            lengths = at.shape(type_)
            if 0 not in lengths:
                raise Fault(UNDEFINED, f"there is no index below 0, so `{name} : {type_}` has no value")
        case types.Tuple(items):
            for place, item in enumerate(items):
                _check_inhabited(at, f"{name}.{place}", item)
        case _:
            pass


# --- primitives ---------------------------------------------------------------------------------------------------------

Check = Callable[[_At, str, Sequence[Type], Mapping[str, Attr]], None]


def _mean(operand: int) -> Check:
    def check(at: _At, name: str, operands: Sequence[Type], attrs: Mapping[str, Attr]) -> None:
        axis = attrs["axis"]
        lengths = at.shape(operands[operand])
        if isinstance(axis, AxisName) and axis.name is not None:
            lengths = (lengths[place_of(shape_of(operands[operand]), axis.name)],)
        if 0 in lengths:
            along = f"axis `{axis.name}`" if isinstance(axis, AxisName) and axis.name is not None else "the tensor"
            raise Fault(UNDEFINED, f"a mean over no element: {along} of `{operands[operand]}` is empty")

    return check


def _below(operand: int, axis: int) -> Check:
    """There is an index below the length of an axis."""

    def check(at: _At, name: str, operands: Sequence[Type], attrs: Mapping[str, Attr]) -> None:
        if at.shape(operands[operand])[axis] == 0:
            raise Fault(
                UNDEFINED,
                f"`{name}` over no alternative: the {'first' if axis == 0 else 'last'} axis of "
                f"`{operands[operand]}` is empty",
            )

    return check


def _selects(operand: int) -> Check:
    def check(at: _At, name: str, operands: Sequence[Type], attrs: Mapping[str, Attr]) -> None:
        shape = shape_of(operands[operand])
        for attr in attrs.values():
            if isinstance(attr, Select):
                _check_select(at, attr, shape.axes[attr.position].length, shape)

    return check


def _check_select(at: _At, select: Select, of: Dim, shape: Shape) -> None:
    length = at.length(of)
    counted = select.hi is None and select.lo.is_constant() and select.lo.constant < 0
    low = int(select.lo.constant) if counted else _value(at, select.lo)
    high = None if select.hi is None else _value(at, select.hi)
    if length is None or low is None or (select.hi is not None and high is None):
        return
    axis = f"axis `{select.axis}`" if select.axis is not None else f"axis {len(shape.axes) + select.position}"
    if select.hi is None:
        if not -length <= low < length or (low < 0 and not counted):
            raise Fault(UNDEFINED, f"index {low} lies outside {axis}, whose length is {length}")
    elif high is not None and not 0 <= low <= high <= length:
        raise Fault(UNDEFINED, f"the slice {low}..{high} does not lie in {axis}, whose length is {length}")


def _value(at: _At, dim: Dim) -> int | None:
    """The value of a bound, which may be negative; None for an open one, UNDEFINED for a fraction."""
    if not all(symbol in at.scope.dims for symbol in dim.symbols()):
        return None
    value = dim.evaluate(at.scope.dims)
    if value.denominator != 1:
        raise Fault(UNDEFINED, f"the bound `{dim}` is {value}, which is no whole number")
    return int(value)


_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "mean": _mean(0),
        "mean_vjp": _mean(1),
        "embed": _below(0, 0),
        "embed_vjp": _below(2, 0),
        "cross_entropy": _below(0, -1),
        "cross_entropy_vjp": _below(0, -1),
        "argmax": _below(0, -1),
        "sample": _below(1, -1),
        "index": _selects(0),
        "slice": _selects(0),
        "scatter_index": _selects(1),
        "slice_vjp": _selects(1),
    }
)
"""The primitives that some lengths leave undefined."""


def _check_primitive(at: _At, name: str, operands: Sequence[Type], attrs: Mapping[str, Attr]) -> None:
    check = _CHECKS.get(name)
    if check is not None:
        check(at, name, operands, attrs)
