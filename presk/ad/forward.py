"""`f.fwd`: f's value, and the residuals that its sweep needs.

    fn MLP.apply.fwd(θ, x) {
      l1 = θ.l1
      %3 = call Linear.apply(l1, x)
      %4 = gelu %3
      l2 = θ.l2
      %6 = call Linear.apply(l2, %4)
      %7 = (%3, %4)                     the residuals, in the order of f's bindings
      %8 = (%6, %7)
      return %8
    }

Bindings are f's, with f's numbers; what is new has numbers behind them. A callee that keeps residuals is called by its `.fwd`. A
loop carries its callee's residuals in its accumulator, zeros before the first iteration, and scans: the stack holds at slot i + 1
those of iteration i, and the last accumulator those of the last one.

Where fusion groups show in the result, a residual must be computed in the groups of the `.vjp`'s copy, and the value in f's.
A value of the copy that f's computation gives in the same bits is shared; any other is computed apart, behind f's bindings.
"""

from dataclasses import dataclass

from presk.ad import names
from presk.ad.provenance import Purpose, labels
from presk.ad.signature import own_prefix, signature
from presk.ad.split import Entry, Part, Subject, Use
from presk.ad.tape import Tape
from presk.ad.templates import values_read
from presk.core.fusion import partition
from presk.core.ir import Apply, Binding, Call, Fold, Function, Operation, Param, Prim, Project, renamed
from presk.core.stacks import stacked
from presk.types.type import Tuple, Type


@dataclass(frozen=True, slots=True)
class Forward:
    """`f.fwd` behind the bodies of its loops, and the type of its residuals."""

    functions: tuple[Function, ...]
    residuals: Type
    purposes: tuple[Purpose, ...]


def forward(subject: Subject, entries: frozenset[Entry], *, hold: bool) -> Forward:
    """The forward pass that gives the entries; there is at least one."""
    extra: set[int] = set()
    while True:
        building = _Forward(subject, entries, hold)
        function = building.build(sorted(extra))
        joined = building.joined(function) if hold else set()
        if not joined:
            purposes = (*(one for loop in building.loops for one in loop.purposes), *building.tape.purposes)
            assert isinstance(function.result, Tuple)
            return Forward((*(loop.function for loop in building.loops), function), function.result.items[1], purposes)
        # A value of the copy has lost a reader that made it a root. It stands among the residuals, unread, to be one.
        extra |= joined


@dataclass(frozen=True, slots=True)
class _Made:
    function: Function
    purposes: tuple[Purpose, ...]


class _Forward:
    def __init__(self, subject: Subject, entries: frozenset[Entry], hold: bool) -> None:
        self.subject = subject
        self.entries = entries
        function = subject.function
        self.label = labels(function)
        first = max((binding.var for binding in function.bindings), default=subject.count - 1) + 1
        self.tape = Tape(names.fwd(function.name), function.dims, function.params, first, function.name)
        self.loops: list[_Made] = []
        self.found: dict[Entry, int] = {}
        self.apart: dict[int, int] = {}
        self.sharing = _Sharing(subject) if hold else None

    def build(self, extra: list[int]) -> Function:
        """The function; the values of f's bindings `extra`, computed apart, stand behind the residuals."""
        subject, tape = self.subject, self.tape
        for binding in subject.function.bindings:
            tape.doing(f"primal {self.label[binding.var]}", binding.var)
            parts = self.parts(binding.var)
            shared = self.sharing is None or self.sharing.operands(binding.var)
            if parts and shared:
                self.keeping(binding, binding.op, binding.var, parts)
            else:
                tape.put(binding.var, binding.name, binding.type, binding.op)
        for primal, part in sorted(self.entries):
            if (primal, part) in self.found:
                continue
            if part is Part.VALUE:
                self.found[primal, part] = self.stored(primal)
            else:
                self.copy(primal)
        more = [self.stored(primal) for primal in extra]
        tape.doing("residuals")
        residuals = tape.tuple([*(self.found[entry] for entry in sorted(self.entries)), *more])
        tape.doing("value and residuals")
        value = tape.coerced(subject.function.returns, subject.function.result)
        return tape.finish(tape.tuple([value, residuals]))

    def parts(self, primal: int) -> set[Part]:
        """What is kept of a binding of f beside its value."""
        return {part for part in Part if part is not Part.VALUE and (primal, part) in self.entries}

    # --- callees and loops -------------------------------------------------------------------------------------------------

    def keeping(self, binding: Binding, op: Operation, var: int | None, parts: set[Part]) -> int:
        """A binding of f, with the residuals of what it calls. Its value is `var`, or a new variable."""
        use = self.subject.use(binding.var)
        split = self.subject.splits.get(use.function)
        residuals = None if split is None else use.residuals(split)
        tape = self.tape
        if isinstance(op, Fold):
            return self.loop(binding, op, var, residuals, parts)
        assert residuals is not None
        assert split is not None
        types = Tuple((split.primal.result_type(use.dims, use.prefix), residuals))
        pair = tape.emit(types, Call(names.fwd(use.function), use.dims, use.prefix, self.args(op, use)))
        value = self.value(binding, var, pair)
        tape.doing(f"residuals of {self.label[binding.var]}", binding.var)
        self.found[binding.var, Part.CALLEE] = tape.item(pair, 1)
        return value

    def args(self, op: Operation, use: Use) -> tuple[int, ...]:
        """The arguments of a call, of an application with what the closure captured."""
        if isinstance(op, Apply):
            captured = use.args[: len(use.args) - len(op.args)]
            return (*(self.apart.get(var, var) for var in captured), *op.args)
        assert isinstance(op, Call)
        return op.args

    def value(self, binding: Binding, var: int | None, pair: int) -> int:
        """The value of a binding of f, item 0 of what gives more."""
        tape = self.tape
        whole = tape.types[pair]
        assert isinstance(whole, Tuple)
        op: Operation = Project(pair, 0)
        if whole.items[0] != binding.type:
            op = Prim("retag", (tape.item(pair, 0),))
        return tape.emit(binding.type, op) if var is None else tape.put(var, binding.name, binding.type, op)

    def loop(self, binding: Binding, op: Fold, var: int | None, residuals: Type | None, parts: set[Part]) -> int:
        """A fold that scans, and carries its callee's residuals if there are any."""
        tape = self.tape
        carried: Type = binding.type
        function, dims, prefix, acc = op.function, op.dims, op.prefix, op.acc
        if residuals is not None:
            carried = Tuple((binding.type, residuals))
            before = tape.prim(residuals, "zeros")
            acc = tape.tuple([tape.coerced(acc, binding.type), before])
            body = self.body(binding.var, op, carried)
            self.loops.append(body)
            function, dims, prefix = (
                body.function.name,
                signature(self.subject.function).same_dims(),
                own_prefix(body.function),
            )
        pair = Tuple((carried, stacked(carried, op.count)))
        both = tape.emit(pair, Fold(op.count, function, dims, prefix, op.stacked, acc, op.extras, scan=True))
        last = both if residuals is None else tape.item(both, 0)
        value = self.value(binding, var, last)
        tape.doing(f"residuals of {self.label[binding.var]}", binding.var)
        if residuals is not None:
            self.found[binding.var, Part.LAST] = tape.item(last, 1)
        self.found[binding.var, Part.STACK] = tape.item(both, 1)
        return value

    def body(self, primal: int, op: Fold, carried: Type) -> _Made:
        """`f.fold_fwd`: one iteration on (accumulator, the residuals of the iteration before)."""
        subject = self.subject
        split = subject.splits[op.function]
        assert split is not None and isinstance(carried, Tuple)
        callee = split.primal
        types = callee.param_types(op.dims, op.prefix)
        middle = len(op.stacked)
        params = (
            *(Param(callee.params[place].name, types[place]) for place in range(middle)),
            Param(callee.params[middle].name, carried),
            *(Param(callee.params[place].name, types[place]) for place in range(middle + 1, len(types))),
        )
        name = names.fold_fwd(subject.loop_names[primal])
        tape = Tape(name, subject.function.dims, params, len(params), subject.function.name)
        tape.doing("the accumulator, without the residuals of the iteration before")
        acc = tape.item(middle, 0)
        tape.doing("one iteration, with its residuals")
        args = (*range(middle), acc, *range(middle + 1, len(params)))
        pair = Tuple((callee.result_type(op.dims, op.prefix), carried.items[1]))
        next_ = tape.emit(pair, Call(names.fwd(op.function), op.dims, op.prefix, args))
        return _Made(tape.finish(tape.coerced(next_, carried)), tuple(tape.purposes))

    # --- apart ---------------------------------------------------------------------------------------------------------------

    def stored(self, primal: int) -> int:
        """A value that the `.vjp`'s copy stores, in its bits: f's own or one computed apart."""
        if self.sharing is None or self.sharing.stored(primal):
            return primal
        return self.copy(primal)

    def copy(self, primal: int) -> int:
        """A binding of f as the `.vjp` computes it."""
        if primal in self.apart:
            return self.apart[primal]
        assert self.sharing is not None
        waiting = [primal]
        while waiting:
            one = waiting[-1]
            missing = [
                var
                for var in values_read(self.subject.own[one].op)
                if self.sharing.copied(var) and var not in self.apart
            ]
            if missing and one not in self.apart:
                waiting += missing
                continue
            waiting.pop()
            if one not in self.apart:
                self.emit_copy(one)
        return self.apart[primal]

    def emit_copy(self, primal: int) -> None:
        binding = self.subject.own[primal]
        self.tape.doing(f"primal {self.label[primal]}, as the sweep reads it", primal)
        op = renamed(binding.op, lambda var: self.apart.get(var, var))
        parts = self.parts(primal)
        if parts and not any((primal, part) in self.found for part in parts):
            self.apart[primal] = self.keeping(binding, op, None, parts)
        else:
            self.apart[primal] = self.tape.emit(binding.type, op)

    def joined(self, function: Function) -> set[int]:
        """The bindings of f whose copy is inside a group where the `.vjp` stores it."""
        assert self.sharing is not None
        inside = partition(function).interior()
        return {
            primal for primal, var in self.apart.items() if var in inside and primal not in self.sharing.inside_copy
        }


class _Sharing:
    """Which values f and the copy of f in its `.vjp` compute in the same bits, where fusion groups show."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.inside_own = partition(subject.function).interior()
        swept = {binding.var for binding in subject.backward}
        self.inside_copy = {var - 1 for var in partition(subject.vjp).interior() if var not in swept}
        # Whether a reader in the copy sees of a value what a reader in f sees.
        self.seen = dict.fromkeys(range(subject.count), True)
        for binding in subject.function.bindings:
            alike = (binding.var in self.inside_own) == (binding.var in self.inside_copy)
            self.seen[binding.var] = alike and self.operands(binding.var)

    def operands(self, primal: int) -> bool:
        """Whether f's binding reads in f what it reads in the copy."""
        return all(self.seen[var] for var in values_read(self.subject.own[primal].op))

    def stored(self, primal: int) -> bool:
        """Whether a value that the copy stores is one that f stores."""
        return self.seen[primal] and primal not in self.inside_own

    def copied(self, var: int) -> bool:
        """Whether an operand of a binding that is computed apart is computed apart itself: one that differs, and one inside
        a group, which has no reader outside."""
        if var < self.subject.count:
            return False
        return not self.seen[var] or var in self.inside_own
