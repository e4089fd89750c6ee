"""`f.bwd`: the sweep on residuals.

    fn MLP.apply.bwd(θ, x, residuals, ct) {
      %4 = residuals.0                  a residual under the number that the value has in the `.vjp`
      %5 = residuals.1
      l1 = θ.l1                         made again
      …
      %8 = call Linear.apply.bwd(l2, %5, ct)

It takes the parameters of f that the sweep reads, the residuals and the cotangent; its bindings are the `.vjp`'s, with their numbers.
A backward loop carries the residuals of the iteration that it differentiates, and finds those of the one before in the stack.
"""

from dataclasses import dataclass

from presk.ad import names
from presk.ad.provenance import Provenance, Purpose, labels
from presk.ad.split import Entry, Loop, Needs, Part, Split, Subject, Use, entry_type, loop_of
from presk.ad.tape import Tape
from presk.ad.templates import with_template
from presk.core.fusion import partition
from presk.core.ir import Binding, Call, Fold, Function, MakeTuple, Operation, Param, Project, renamed
from presk.types.type import Tuple, Type


@dataclass(frozen=True, slots=True)
class Backward:
    """`f.bwd` behind the bodies of its loops."""

    functions: tuple[Function, ...]
    purposes: tuple[Purpose, ...]


def backward(subject: Subject, needs: Needs, split: Split, provenance: Provenance) -> Backward:
    """The backward pass of a split."""
    return _Backward(subject, needs, split, provenance).build()


def same_groups(subject: Subject, function: Function) -> bool:
    """Whether the sweep has in `.bwd` the groups that it has in the `.vjp`."""
    there, here = (partition(one).interior() for one in (subject.vjp, function))
    return all((binding.var in there) == (binding.var in here) for binding in subject.backward)


class _Numbers:
    """Numbers of a body that keeps another's: a variable's own, unless a parameter has it."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.of: dict[int, int] = {}

    def put(self, var: int, name: str | None, type_: Type, op: Operation) -> int:
        """A binding that stands for the variable `var` of the other body."""
        if var in self.tape.types:
            self.of[var] = self.tape.emit(type_, op, name)
        else:
            self.of[var] = self.tape.put(var, name, type_, op)
        return self.of[var]

    def __call__(self, var: int) -> int:
        return self.of[var]


class _Backward:
    def __init__(self, subject: Subject, needs: Needs, split: Split, provenance: Provenance) -> None:
        self.subject = subject
        self.needs = needs
        self.split = split
        self.provenance = provenance
        self.label = labels(subject.function)
        self.loops: list[tuple[Function, tuple[Purpose, ...]]] = []
        vjp = subject.vjp
        kept = [] if split.residuals is None else [Param("residuals", split.residuals)]
        params = (*(vjp.params[place] for place in split.reads), *kept, vjp.params[-1])
        first = max((binding.var for binding in vjp.bindings), default=len(params)) + 1
        self.tape = Tape(names.bwd(subject.function.name), vjp.dims, params, first, subject.function.name)
        self.at = _Numbers(self.tape)
        self.at.of.update((var, place) for place, var in enumerate(split.reads))
        self.at.of[subject.count] = len(params) - 1
        self.residuals: dict[Entry, int] = {}

    def build(self) -> Backward:
        """The function."""
        subject, tape = self.subject, self.tape
        for place, entry in enumerate(sorted(self.needs.entries)):
            self.unpack(place, entry)
        for binding in subject.forward.values():
            if binding.var in self.needs.again:
                self.copy(binding)
        for binding in subject.backward:
            self.copy(binding)
        function = tape.finish(self.at(subject.vjp.returns))
        purposes = (*(one for _, loop in self.loops for one in loop), *tape.purposes)
        return Backward((*(loop for loop, _ in self.loops), function), purposes)

    def unpack(self, place: int, entry: Entry) -> None:
        """A residual: a value under its number in the `.vjp`, what else there is under a new one."""
        primal, part = entry
        item = Project(len(self.split.reads), place)
        type_ = entry_type(self.subject, entry)
        if part is Part.VALUE:
            self.tape.doing(f"primal {self.label[primal]}, a residual", primal)
            name = self.subject.own[primal].name
            self.residuals[entry] = self.at.put(self.subject.at(primal), name, type_, item)
        else:
            self.tape.doing(f"residuals of {self.label[primal]}", primal)
            self.residuals[entry] = self.tape.emit(type_, item)
            if part is Part.STACK:
                self.at.of.update(
                    (var, self.residuals[entry]) for var, fold in self.subject.stacks.items() if fold == primal
                )

    def copy(self, binding: Binding) -> None:
        """A binding of the `.vjp`, which runs the callee's `.bwd` where it ran its `.vjp`."""
        subject, needs = self.subject, self.needs
        purpose = self.provenance[subject.vjp.name, binding.var]
        self.tape.doing(purpose.text, purpose.source)
        op, type_ = binding.op, binding.type
        found = subject.split_of(binding)
        if found is not None:
            primal, use, split = found
            if isinstance(op, Call):
                kept = [] if split.residuals is None else [self.residuals[primal, Part.CALLEE]]
                args = (*(self.at(op.args[place]) for place in split.reads), *kept, self.at(op.args[-1]))
                self.at.put(
                    binding.var,
                    binding.name,
                    type_,
                    Call(names.bwd(use.function), op.dims, split.prefix(op.prefix), args),
                )
                return
            assert isinstance(op, Fold)
            self.loop(binding, op, primal, use, split)
            return
        if binding.var in needs.templates:
            op = with_template(op, needs.templates[binding.var])
        self.at.put(binding.var, binding.name, type_, renamed(op, self.at))

    # --- loops -------------------------------------------------------------------------------------------------------------

    def loop(self, binding: Binding, op: Fold, primal: int, use: Use, split: Split) -> None:
        """A backward loop whose body runs the callee's `.bwd`."""
        tape, loop = self.tape, loop_of(self.subject, binding, use, split)
        residuals = use.residuals(split)
        first, type_ = self.at(op.acc), binding.type
        assert isinstance(type_, Tuple)
        if residuals is not None:
            made = next(one for one in reversed(tape.bindings) if one.var == first)
            assert isinstance(made.op, MakeTuple)
            type_ = Tuple((*type_.items, residuals))
            first = tape.emit(type_, MakeTuple((*made.op.items, self.residuals[primal, Part.LAST])))
        body = _LoopBody(
            self.subject,
            self.subject.loops[op.function],
            use,
            split,
            loop,
            len(op.stacked) - 1,
            residuals,
            self.provenance,
        )
        self.loops.append(body.build())
        saved = [self.residuals[primal, Part.STACK]] if residuals is not None or loop.saved else []
        stacked = (*(self.at(op.stacked[place]) for place in loop.stacked), *saved)
        extras = tuple(self.at(op.extras[place]) for place in loop.extras)
        backward_ = Fold(op.count, op.function, op.dims, op.prefix, stacked, first, extras, reverse=True, indexed=True)
        self.at.put(binding.var, binding.name, type_, backward_)


class _LoopBody:
    """`f.fold_bwd`, whose iterations hand each other the residuals."""

    def __init__(
        self,
        subject: Subject,
        body: Function,
        use: Use,
        split: Split,
        loop: Loop,
        middle: int,
        residuals: Type | None,
        provenance: Provenance,
    ) -> None:
        self.body = body
        self.use = use
        self.split = split
        self.residuals = residuals
        self.provenance = provenance
        self.saved = loop.saved
        count = len(body.params)
        # Places among the body's parameters: the slices, what was saved, what is carried, the extras, the iteration's number.
        self.middle = middle
        kept: list[int] = list(loop.stacked)
        if residuals is not None or loop.saved:
            kept.append(self.middle)
        kept += [self.middle + 1, *(self.middle + 2 + place for place in loop.extras), count - 1]
        params = [body.params[place] for place in kept]
        if residuals is not None:
            for place, param in ((self.middle, "saved"), (self.middle + 1, "carried")):
                old = body.params[place]
                new = Tuple((old.type, residuals)) if param == "saved" else _with(old.type, residuals)
                params[kept.index(place)] = Param(old.name, new)
        first = max(binding.var for binding in body.bindings) + 1
        self.tape = Tape(body.name, body.dims, params, first, subject.function.name)
        self.at = _Numbers(self.tape)
        self.at.of.update((place, kept.index(place)) for place in kept)

    def build(self) -> tuple[Function, tuple[Purpose, ...]]:
        """The function."""
        body, tape = self.body, self.tape
        now = before = -1
        if self.residuals is not None:
            carried, saved = self.at(self.middle + 1), self.at(self.middle)
            type_ = tape.types[carried]
            assert isinstance(type_, Tuple)
            tape.doing("residuals of this iteration")
            now = tape.item(carried, len(type_.items) - 1)
            tape.doing("residuals of the iteration before")
            before = tape.item(saved, 1)
            if self.saved:
                tape.doing("the accumulator that this iteration read")
                self.at.of[self.middle] = tape.item(saved, 0)
        for binding in body.bindings:
            purpose = self.provenance[body.name, binding.var]
            tape.doing(purpose.text, purpose.source)
            op, type_ = binding.op, binding.type
            if isinstance(op, Call) and op.function == names.vjp(self.use.function):
                kept = [] if self.residuals is None else [now]
                args = (*(self.at(op.args[place]) for place in self.split.reads), *kept, self.at(op.args[-1]))
                op = Call(names.bwd(self.use.function), op.dims, self.split.prefix(op.prefix), args)
            elif binding.var == body.returns and self.residuals is not None:
                assert isinstance(op, MakeTuple)
                op = MakeTuple((*map(self.at, op.items), before))
                type_ = _with(type_, self.residuals)
            else:
                op = renamed(op, self.at)
            self.at.put(binding.var, binding.name, type_, op)
        return tape.finish(self.at(body.returns)), tuple(tape.purposes)


def _with(type_: Type, residuals: Type) -> Type:
    assert isinstance(type_, Tuple)
    return Tuple((*type_.items, residuals))
