"""Dead code after differentiation: the generated functions lose what nothing reads.

    fn Linear.apply.vjp(θ, x, ct) {            fn Linear.apply.vjp(θ, x, ct) {
      w = θ.w                                    w = θ.w
      %4 = dot x, w                              b = θ.b
      b = θ.b                                    %8 = sum_to ct, b
      %6 = add %4, b                     ⟶       …
      %7 = sum_to ct, %4                         %11 = dot_vjp_l ct, w
      %8 = sum_to ct, b                          %12 = dot_vjp_r x, ct
      …                                          …

Lets that nothing reads go; so do the cotangents that no caller of a `.vjp` reads, and the accumulators of a backward loop that
nothing reads; an identity gives way to its operand; a value read for its shape only, to another of its type. Functions that are
read from outside the generated ones keep their whole result. Functions keep their names and bindings their numbers.

Method: functions are taken callers first, so that all that is read of a function is known when it is looked at. With `hold`, what
fusion groups need stays as well (`hold`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from presk.ad.hold import held, replaced
from presk.ad.liveness import Body, Items, Live, Neighbours
from presk.core.calls import is_open
from presk.core.ir import Binding, Call, Closure, Fold, Function, MakeTuple, Operation, Param, Program, Project
from presk.types.type import Tuple, Type


def prune(program: Program, generated: Collection[str], outside: Collection[str], *, hold: bool) -> Program:
    """The program without the dead code of its generated functions; those that nothing reaches are gone.

    `outside` are generated functions that are read from outside: they keep their results. Every function that is not
    generated stays as it is. Time linear in the size of the program, but for what is held.
    """
    return _Pruning(program, frozenset(generated), frozenset(outside), hold).run()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What stays of a function, and which items of its result."""

    live: Live
    items: Items


class _Pruning:
    def __init__(self, program: Program, generated: frozenset[str], outside: frozenset[str], hold: bool) -> None:
        self.program = program
        self.functions = {function.name: function for function in program.functions}
        self.generated = generated & self.functions.keys()
        self.outside = outside
        self.hold = hold
        self.accs: dict[str, int] = {}
        for function in program.functions:
            for binding in function.bindings:
                if isinstance(binding.op, Fold) and binding.op.function in self.generated and not binding.op.scan:
                    self.accs[binding.op.function] = len(binding.op.stacked)
        self.neighbours = Neighbours(self.trims, self.around)
        self.bodies: dict[str, Body] = {}
        self.plans: dict[tuple[str, Items], _Plan] = {}
        self.loops: dict[tuple[str, Items], Items] = {}
        self.wanted: dict[str, Items] = {}

    # --- what functions want of each other --------------------------------------------------------------------------------

    def trims(self, name: str) -> bool:
        """Whether items of a function's result may go."""
        return self._width(name) is not None and name not in self.outside

    def _width(self, name: str) -> int | None:
        """The number of items of the tuple that a generated function makes and gives."""
        if name not in self.generated:
            return None
        function = self.functions[name]
        last = next((one.op for one in reversed(function.bindings) if one.var == function.returns), None)
        return len(last.items) if isinstance(last, MakeTuple) else None

    def around(self, name: str, read: Items) -> Items:
        """The accumulators that a loop must carry for those that are read behind it."""
        if (name, read) not in self.loops:
            items = read
            while True:
                plan = self.plan(name, items)
                carried = frozenset(plan.live.items.get(self.accs[name], ()))
                more = self._every(name) if self.accs[name] in plan.live.whole else plan.items | carried
                if more <= items:
                    break
                items |= more
            self.loops[name, read] = items
        return self.loops[name, read]

    def _every(self, name: str) -> Items:
        return frozenset(range(self._width(name) or 0))

    def plan(self, name: str, wanted: Items) -> _Plan:
        """What stays of a function of whose result these items are read."""
        if (name, wanted) not in self.plans:
            if name not in self.bodies:
                acc = self.accs.get(name) if self.trims(name) else None
                self.bodies[name] = Body(self.functions[name], self.neighbours, acc)
            body = self.bodies[name]
            live, items = held(body, wanted) if self.hold else (body.live(wanted), wanted)
            self.plans[name, wanted] = _Plan(live, items)
        return self.plans[name, wanted]

    def run(self) -> Program:
        """The program."""
        order = _callers_first(
            self.functions, [name for name in self.functions if name not in self.generated], self.outside
        )
        result: dict[str, Function] = {}
        plans: dict[str, _Plan] = {}
        for name in order:
            if name not in self.generated:
                result[name] = self.functions[name]
                continue
            wanted = self.wanted.get(name, frozenset()) if self.trims(name) else self._every(name)
            if name in self.accs:
                wanted = self.around(name, wanted) if self.trims(name) else wanted
            plans[name] = self.plan(name, wanted)
            self._ask(name, plans[name])
        items = {name: plan.items for name, plan in plans.items()}
        for name, plan in plans.items():
            result[name] = _Rewriting(self, plan, items).function(self.functions[name])
        result = _open_where_it_is(self.functions, result)
        reached = _reached(result, [name for name in result if name not in self.generated or name in self.outside])
        return Program(tuple(result[one.name] for one in self.program.functions if one.name in reached))

    def _ask(self, name: str, plan: _Plan) -> None:
        """Records what a function reads of its callees' results."""
        for binding in self.functions[name].bindings:
            if binding.var not in plan.live.lets or not isinstance(binding.op, Call | Fold):
                continue
            callee = binding.op.function
            if self.trims(callee):
                read = plan.live.items.get(binding.var)
                asked = self._every(callee) if read is None else frozenset(read)
                self.wanted[callee] = self.wanted.get(callee, frozenset()) | asked


class _Rewriting:
    """A function with what stays of it; `items` are the items that stay of each generated function's result."""

    def __init__(self, pruning: _Pruning, plan: _Plan, items: dict[str, Items]) -> None:
        self.pruning = pruning
        self.live = plan.live
        self.items = items
        self.kept: dict[int, tuple[int, ...]] = {}

    def function(self, function: Function) -> Function:
        """The function."""
        name = function.name
        params = list(function.params)
        acc = self.pruning.accs.get(name)
        if acc is not None and self.pruning.trims(name):
            self.kept[acc] = tuple(sorted(self.items[name]))
            params[acc] = Param(params[acc].name, _trimmed(params[acc].type, self.kept[acc]))
        bindings = tuple(self.binding(function, one) for one in function.bindings if one.var in self.live.lets)
        result = function.result
        if self.pruning.trims(name):
            result = _trimmed(result, tuple(sorted(self.items[name])))
        return Function(name, function.dims, tuple(params), result, bindings, self.live.resolve(function.returns))

    def binding(self, function: Function, binding: Binding) -> Binding:
        """A binding that stays."""
        op, type_ = binding.op, binding.type
        if isinstance(op, Call | Fold) and self.pruning.trims(op.function) and not (isinstance(op, Fold) and op.scan):
            self.kept[binding.var] = tuple(sorted(self.items[op.function]))
            type_ = _trimmed(type_, self.kept[binding.var])
        elif isinstance(op, MakeTuple) and binding.var in self.live.items:
            type_ = _trimmed(type_, tuple(sorted(self.live.items[binding.var])))
        new = replaced(binding.var, op, self.live)
        if isinstance(new, Project) and new.base in self.kept:
            new = Project(new.base, self.kept[new.base].index(new.place))
        return Binding(binding.var, binding.name, type_, new)


def _open_where_it_is(before: dict[str, Function], after: dict[str, Function]) -> dict[str, Function]:
    """Takes the value of `...` from calls of functions that mention it no more, since what mentioned it is gone."""
    closed = {name for name, one in after.items() if one != before[name] and is_open(before[name]) and not is_open(one)}
    return {name: _closing(function, closed) for name, function in after.items()} if closed else after


def _closing(function: Function, closed: set[str]) -> Function:
    bindings = tuple(
        msgspec.structs.replace(one, op=msgspec.structs.replace(one.op, prefix=None))
        if isinstance(one.op, Call | Fold | Closure) and one.op.function in closed
        else one
        for one in function.bindings
    )
    return msgspec.structs.replace(function, bindings=bindings)


def _trimmed(type_: Type, kept: Iterable[int]) -> Type:
    assert isinstance(type_, Tuple)
    return Tuple(tuple(type_.items[place] for place in kept))


def callees(op: Operation) -> str | None:
    """The function that an operation names."""
    return op.function if isinstance(op, Call | Fold | Closure) else None


def _callers_first(functions: dict[str, Function], first: Iterable[str], more: Iterable[str]) -> list[str]:
    """The functions that are reached, each behind all that call it (programs do not recur)."""
    order: list[str] = []
    done: set[str] = set()
    waiting = [(name, False) for name in (*more, *first) if name in functions]
    while waiting:
        name, finished = waiting.pop()
        if finished:
            order.append(name)
        elif name not in done:
            done.add(name)
            waiting.append((name, True))
            for binding in functions[name].bindings:
                callee = callees(binding.op)
                if callee is not None and callee in functions:
                    waiting.append((callee, False))
    order.reverse()
    return order


def _reached(functions: dict[str, Function], roots: Iterable[str]) -> set[str]:
    return set(_callers_first(functions, roots, ()))
