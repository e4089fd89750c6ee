"""Evaluates programs of the core, before or after differentiation (a `grad` that is left is the caller's mistake).

Each function body is a generator that yields the bodies it needs the values of; a loop holds the stack of them, so the depth of calls
is not Python's. A variable is dropped after the binding that reads it last, and a call is handed the values that its caller reads
there for the last time, so nothing outlives its last reader.
"""

import re
from collections.abc import Callable, Generator, Mapping
from typing import Final

import gmpy2
from gmpy2 import mpq

from presk.core.ir import (
    Apply,
    Binding,
    Call,
    Closure,
    Dims,
    Field,
    Fold,
    Grad,
    Literal,
    MakeParams,
    MakeTuple,
    Prim,
    Program,
    Project,
)
from presk.exact import values
from presk.exact.arithmetic import Arithmetic
from presk.exact.faults import RANGE, Fault
from presk.exact.plan import Plan, plan, prefix_of
from presk.exact.primitives.table import EXACT
from presk.exact.primitives.use import Use
from presk.exact.scope import Headers, Scope
from presk.exact.values import Items, Number, Record, Truth, Value
from presk.types.type import Params, Shape

Site = tuple[str, int]
"""A binding: a function and a variable."""

_EXPONENT: Final = re.compile(r"[eE]([+-]?\d+)$")
_LARGEST_EXPONENT: Final = 100_000  # of a decimal: beyond, an exact fraction of it takes too long to compute with


class Stopped(Exception):
    """A run that ended in a fault, with the bindings that were being evaluated, the outermost first."""

    def __init__(self, fault: Fault, trail: tuple[Site, ...]) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.trail = trail


class Frame:
    """A call under way: what it evaluates, in what, and which binding it has come to."""

    def __init__(self, plan_: Plan, scope: Scope) -> None:
        self.plan = plan_
        self.scope = scope
        self.var = -1
        self._result: list[Value] = []

    def give(self, result: Value) -> None:
        """Hands in the value of the call that the body waits for. (To `send` it would hold it until the body waits again.)"""
        self._result.append(result)

    def take(self) -> Value:
        """The value that was handed in."""
        return self._result.pop()


Body = Generator["Pending", None, Value]


class Pending:
    """A call that is about to be evaluated."""

    def __init__(self, frame: Frame, body: Body) -> None:
        self.frame = frame
        self.body = body


class Interpreter:
    """Evaluates functions of a program in an arithmetic. `on_binding` is called before each binding; it may raise to stop."""

    def __init__(
        self,
        program: Program,
        arithmetic: Arithmetic,
        headers: Headers,
        on_binding: Callable[[], None] = lambda: None,
    ) -> None:
        self._functions = {function.name: function for function in program.functions}
        self._plans: dict[str, Plan] = {}
        self._m = arithmetic
        self._headers = headers
        self._on_binding = on_binding

    def run(self, function: str, args: list[Value], dims: Mapping[str, int], prefix: tuple[int, ...] = ()) -> Value:
        """The value of a function at arguments. `args` is emptied: what its owner keeps no reference to is freed when it can be.

        `Stopped` for an error of the run.
        """
        with self._m.active():
            return self._drive(self._enter(function, args, dims, prefix))

    def _drive(self, first: Pending) -> Value:
        result = Frame(first.frame.plan, first.frame.scope)
        stack = [first]
        while stack:
            try:
                stack.append(next(stack[-1].body))
            except StopIteration as finished:
                stack.pop()
                (stack[-1].frame if stack else result).give(finished.value)
            except Fault as fault:
                trail = tuple((pending.frame.plan.function.name, pending.frame.var) for pending in stack)
                raise Stopped(fault, trail) from None
        return result.take()

    def _plan(self, function: str) -> Plan:
        if function not in self._plans:
            self._plans[function] = plan(self._functions[function])
        return self._plans[function]

    def _enter(self, function: str, args: list[Value], dims: Mapping[str, int], prefix: tuple[int, ...]) -> Pending:
        """A call at known dimensions; leading axes are read off the arguments where a parameter has them."""
        plan_ = self._plan(function)
        found = prefix_of(plan_, args)
        frame = Frame(plan_, Scope(dims, prefix if found is None else found, self._headers))
        return Pending(frame, self._body(frame, args))

    def _call(self, scope: Scope, function: str, dims: Dims, prefix: Shape | None, args: list[Value]) -> Pending:
        """A call at dimensions that the caller's determine."""
        return self._enter(function, args, bound(scope, dims), leading(scope, prefix))

    def _body(self, frame: Frame, args: list[Value]) -> Body:
        held = dict(enumerate(args))
        args.clear()
        for var in frame.plan.unread:
            del held[var]
        for place, binding in enumerate(frame.plan.function.bindings):
            frame.var = binding.var
            self._on_binding()
            last = frame.plan.last[place]
            op, scope = binding.op, frame.scope
            # A name for the value would hold it during the next call.
            match op:
                case Call():
                    yield self._call(scope, op.function, op.dims, op.prefix, _taken(held, op.args, last))
                    held[binding.var] = frame.take()
                case Fold():
                    held[binding.var] = yield from self._fold(frame, op, held, last)
                case Apply():
                    yield self._apply(_taken(held, (op.function, *op.args), last))
                    held[binding.var] = frame.take()
                case _:
                    held[binding.var] = self._simple(frame, binding, held)
            for var in last:
                held.pop(var, None)
        return held[frame.plan.function.returns]

    def _simple(self, frame: Frame, binding: Binding, held: Mapping[int, Value]) -> Value:
        """The value of an operation that calls nothing."""
        match binding.op:
            case Prim(name, args, attrs):
                use = Use(
                    self._m,
                    frame.scope,
                    tuple(held[var] for var in args),
                    tuple(frame.plan.types[var] for var in args),
                    binding.type,
                    dict(attrs),
                )
                try:
                    return EXACT[name](use)
                except (OverflowError, gmpy2.OverflowResultError):
                    raise Fault(
                        RANGE, f"the value of `{name}` is beyond 2^(2^30), the largest that is computed with"
                    ) from None
            case Literal(text):
                return literal(text)
            case Field(base, name):
                record = held[base]
                if not isinstance(record, Record):
                    raise TypeError(f"{type(record).__name__} has no fields")
                return record.fields[name]
            case MakeParams(items):
                if not isinstance(binding.type, Params):
                    raise TypeError(f"{binding.type} is no tree's type")
                fields = frame.scope.fields(binding.type.instance)
                return Record({field.name: held[var] for field, var in zip(fields, items, strict=True)})
            case MakeTuple(items):
                return Items(tuple(held[var] for var in items))
            case Project(base, place):
                value = held[base]
                if not isinstance(value, Items):
                    raise TypeError(f"{type(value).__name__} is no tuple")
                return value.items[place]
            case Closure(function, dims, prefix, captured):
                scope = frame.scope
                taken = tuple(held[var] for var in captured)
                return values.Closure(function, bound(scope, dims), leading(scope, prefix), taken)
            case Grad():
                raise TypeError("a gradient is differentiated before it is evaluated")
            case other:
                raise TypeError(f"{type(other).__name__} calls a function")

    def _apply(self, args: list[Value]) -> Pending:
        function = args.pop(0)
        if not isinstance(function, values.Closure):
            raise TypeError(f"{type(function).__name__} is no function")
        args[:0] = function.captured
        return self._enter(function.function, args, function.dims, function.prefix)

    def _fold(self, frame: Frame, op: Fold, held: dict[int, Value], last: frozenset[int]) -> Body:
        """The loop; in its last iteration the operands are handed over as by a call."""
        scope = frame.scope
        count = scope.length(op.count)
        operands_ = _taken(held, (*op.stacked, *op.extras, op.acc), last)
        accumulators = [operands_.pop()]
        extras = operands_[len(op.stacked) :]
        stacks = operands_[: len(op.stacked)]
        del operands_
        saved: list[Value] = []
        form = values.zero_of(accumulators[0], self._m.zeros) if op.scan and count == 0 else None
        for done, i in enumerate(range(count - 1, -1, -1) if op.reverse else range(count)):
            if op.scan:
                saved.append(accumulators[0])
            args = [values.slice_of(stack, i) for stack in stacks]
            args += [accumulators.pop(), *extras]
            if op.indexed:
                args.append(Number(mpq(i)))
            if done == count - 1:
                stacks.clear()
                extras.clear()
            yield self._call(scope, op.function, op.dims, op.prefix, args)
            accumulators.append(frame.take())
        if not op.scan:
            return accumulators.pop()
        if op.reverse:
            saved.reverse()
        return Items((accumulators.pop(), values.stack_of(saved, saved[0] if form is None else form)))


def bound(scope: Scope, dims: Dims) -> dict[str, int]:
    """The values of a callee's dimensions; one that the caller's leave open stays open."""
    return {name: scope.length(dim) for name, dim in dims if all(symbol in scope.dims for symbol in dim.symbols())}


def leading(scope: Scope, prefix: Shape | None) -> tuple[int, ...]:
    """The lengths of the axes that a callee's `...` stands for, of which an open dimension gives none."""
    if prefix is None:
        return ()
    lengths = tuple(
        scope.length(axis.length)
        for axis in prefix.axes
        if all(symbol in scope.dims for symbol in axis.length.symbols())
    )
    return (scope.prefix if prefix.prefix is not None else ()) + lengths


def literal(text: str) -> Number | Truth:
    """The value of a literal's text, exactly."""
    if text in ("true", "false"):
        return Truth(text == "true")
    exponent = _EXPONENT.search(text)
    if exponent is not None and abs(int(exponent[1])) > _LARGEST_EXPONENT:
        raise Fault(RANGE, f"the exponent of `{text}` is beyond ±{_LARGEST_EXPONENT}")
    return Number(mpq(text))


def _taken(held: dict[int, Value], variables: tuple[int, ...], last: frozenset[int]) -> list[Value]:
    """The values of variables; those that are read here for the last time are no longer held."""
    found = [held[var] for var in variables]
    for var in last.intersection(variables):
        del held[var]
    return found
