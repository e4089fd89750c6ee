"""Residuals: a gradient keeps its forward pass.

A `.vjp` copies its function's body, so a gradient computes each callee's forward pass twice, at every level of calls. Here each
`.vjp` is split in two: `f.fwd` runs the body once and gives its value and the residuals, `f.bwd` takes those and runs the sweep.
`f.vjp` is then the one after the other.

A `.vjp` whose split cannot be made keeps recomputing: one with a loop whose saved values have no zeros (an open prefix, a number), and
a function that reaches itself. Where fusion groups show in the result (`hold`), every value is computed in the groups in which the
`.vjp` computes it, so a gradient has the same bits either way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from presk.ad import names
from presk.ad.backward import backward, same_groups
from presk.ad.forward import forward
from presk.ad.kinds import has_zeros, open_prefix
from presk.ad.provenance import Purpose, table
from presk.ad.signature import own_prefix, signature
from presk.ad.split import Part, Split, Subject, entry_type, needs_of
from presk.ad.sweep import Derived
from presk.ad.tape import Tape
from presk.core.ir import Call, Function, Program, Project
from presk.types.type import Tuple


@dataclass(frozen=True, slots=True)
class Stored:
    """A program whose gradients keep residuals, and what the bindings of its generated functions are for."""

    program: Program
    purposes: tuple[Purpose, ...]


def store(program: Program, derived: Iterable[Derived], purposes: Iterable[Purpose], *, hold: bool) -> Stored:
    """Splits every `.vjp` of a program that was pruned. `purposes` are those of its generated functions."""
    return _Storing(program, {one.primal: one for one in derived}, table(purposes), hold).run()


@dataclass(slots=True)
class _Made:
    """What replaces a function's `.vjp` and loop bodies."""

    functions: list[Function] = field(default_factory=list)
    purposes: list[Purpose] = field(default_factory=list)


class _Storing:
    def __init__(
        self,
        program: Program,
        derived: Mapping[str, Derived],
        provenance: Mapping[tuple[str, int], Purpose],
        hold: bool,
    ) -> None:
        self.program = program
        self.functions = {function.name: function for function in program.functions}
        self.derived = derived
        self.provenance = provenance
        self.sources = {at: purpose.source for at, purpose in provenance.items()}
        self.hold = hold
        self.splits: dict[str, Split | None] = {}
        self.made: dict[str, _Made] = {}

    def run(self) -> Stored:
        """The program."""
        for name in self._callees_first():
            self.split(name)
        # The body of a backward loop whose callee was not split stays as it is: its iterations call a `.vjp`.
        replaced = {function.name for made in self.made.values() for function in made.functions}
        for primal, new in self.made.items():
            if names.value_vjp(primal) in self.functions:
                valued, words = self._valued(primal)
                new.functions.append(valued)
                new.purposes += words
                replaced.add(valued.name)
        functions: list[Function] = []
        purposes: list[Purpose] = []
        for function in self.program.functions:
            if function.name in replaced:
                continue
            functions.append(function)
            made = self.made.get(function.name)
            if made is not None:
                functions += made.functions
                purposes += made.purposes
        kept = {function.name for function in functions} - {one.function for one in purposes}
        old = [purpose for purpose in self.provenance.values() if purpose.function in kept]
        return Stored(Program(tuple(functions)), (*old, *purposes))

    def _callees_first(self) -> list[str]:
        """The functions that have a `.vjp`, each behind those whose `.vjp` it calls; one that reaches itself is marked."""
        order: list[str] = []
        state: dict[str, bool] = {}
        waiting = [(name, False) for name in self.derived if names.vjp(name) in self.functions]
        while waiting:
            name, finished = waiting.pop()
            if finished:
                state[name] = True
                order.append(name)
            elif name not in state:
                state[name] = False
                waiting.append((name, True))
                waiting += [(one, False) for one in self.derived[name].needs if names.vjp(one) in self.functions]
            elif not state[name]:
                self.splits[name] = None
        return order

    def _loops(self, primal: str) -> dict[str, Function]:
        """The bodies of a `.vjp`'s backward loops, those that are left."""
        made = (function.name for function in self.derived[primal].functions)
        return {name: self.functions[name] for name in made if name in self.functions and name != names.vjp(primal)}

    def split(self, name: str) -> None:
        """Splits a function's `.vjp`, if that can be done."""
        if name in self.splits:
            return
        self.splits[name] = None
        vjp = self.functions[names.vjp(name)]
        subject = Subject(
            self.functions[name], vjp, self._loops(name), self.derived[name].sweep, self.sources, self.splits
        )
        needs = needs_of(subject)
        for entry in needs.entries:
            type_ = entry_type(subject, entry)
            if entry[1] is Part.STACK and open_prefix(type_):
                return
            if entry[1] is Part.LAST and not has_zeros(type_):
                return
        made = _Made()
        residuals = None
        if needs.entries:
            ahead = forward(subject, frozenset(needs.entries), hold=self.hold)
            residuals = ahead.residuals
            made.functions += ahead.functions
            made.purposes += ahead.purposes
        split = Split(signature(self.functions[name]), tuple(sorted(needs.params)), residuals)
        back = backward(subject, needs, split, self.provenance)
        if self.hold and not same_groups(subject, back.functions[-1]):
            return
        split = msgspec.structs.replace(split, open=own_prefix(back.functions[-1]) is not None)
        self.splits[name] = split
        whole, purposes = self._joined(vjp, split, back.functions[-1])
        made.functions += (*back.functions, whole)
        made.purposes += (*back.purposes, *purposes)
        self.made[name] = made

    def _joined(self, vjp: Function, split: Split, back: Function) -> tuple[Function, tuple[Purpose, ...]]:
        """`f.vjp`: `f.bwd` after `f.fwd`."""
        primal = split.primal
        count = len(primal.params)
        tape = Tape(vjp.name, vjp.dims, vjp.params, count + 1, primal.name)
        args: tuple[int, ...] = split.reads
        if split.residuals is not None:
            tape.doing("forward pass, with residuals")
            pair = Tuple((primal.result, split.residuals))
            both = tape.emit(
                pair, Call(names.fwd(primal.name), primal.same_dims(), own_prefix(primal), tuple(range(count)))
            )
            args = (*args, tape.item(both, 1))
        tape.doing("backward pass")
        returns = tape.emit(
            vjp.result, Call(names.bwd(primal.name), primal.same_dims(), own_prefix(back), (*args, count))
        )
        return tape.finish(returns), tuple(tape.purposes)

    def _valued(self, primal: str) -> tuple[Function, tuple[Purpose, ...]]:
        """`f.value_vjp` of one forward pass: the value of `f.fwd`, the cotangents of `f.bwd`."""
        function, split = self.functions[names.value_vjp(primal)], self.splits[primal]
        assert split is not None
        first = max(binding.var for binding in function.bindings) + 1
        tape = Tape(function.name, function.dims, function.params, first, primal)
        kept: tuple[int, ...] = ()
        for binding in function.bindings:
            tape.doing(self.provenance[function.name, binding.var].text)
            op = binding.op
            if isinstance(op, Call) and op.function == primal and split.residuals is not None:
                pair = Tuple((binding.type, split.residuals))
                both = tape.emit(pair, Call(names.fwd(primal), op.dims, op.prefix, op.args))
                op = Project(both, 0)
                kept = (tape.item(both, 1),)
            elif isinstance(op, Call) and op.function == names.vjp(primal):
                args = (*(op.args[place] for place in split.reads), *kept, op.args[-1])
                op = Call(names.bwd(primal), op.dims, split.prefix(op.prefix), args)
            tape.put(binding.var, binding.name, binding.type, op)
        return tape.finish(function.returns), tuple(tape.purposes)
