"""`f.vjp`: a copy of f's body, then the reverse sweep.

    fn f(x, w) {                 fn f.vjp(x, w, ct) {
      %2 = dot x, w                %3 = dot x, w           copies, in f's order: a parameter keeps its number, f's %k is %k+1
      %3 = exp %2                  %4 = exp %3
      return %3                    %5 = mul ct, %4         the sweep, from the last binding to the first
    }                              %6 = dot_vjp_l %5, w
                                   %7 = dot_vjp_r x, %5
                                   %8 = (%6, %7)           the adjoints of the parameters that have one
                                   return %8
                                 }

What is needed of the functions that f calls is their signatures. A variable that is read twice gets the sum of its cotangents,
added in the order in which the sweep finds them.
"""

from collections.abc import Sequence

import msgspec

from presk.ad import names
from presk.ad.closures import lambda_of
from presk.ad.folds import FoldSweep
from presk.ad.kinds import carries
from presk.ad.provenance import Purpose, labels, word
from presk.ad.refusal import Refusal, no_rule, refusals
from presk.ad.rules.table import DERIVATIVES
from presk.ad.rules.use import NoDerivative, Use
from presk.ad.signature import Signatures
from presk.ad.tape import Tape
from presk.core.ir import (
    Apply,
    Binding,
    Call,
    Closure,
    Dims,
    Field,
    Fold,
    Function,
    MakeParams,
    MakeTuple,
    Param,
    Prim,
    Project,
    operands,
    renamed,
)
from presk.prims.attrs import Place, Word
from presk.types.type import Shape, Tuple


class Derived(msgspec.Struct, frozen=True, array_like=True):
    """What differentiation makes of one function: a stage's value, computed from the function and its callees' signatures.

    `functions` are `f.vjp` and the bodies of its backward loops; the sweep of `f.vjp` begins at variable `sweep`. `needs` are the
    callees whose `.vjp` it calls. With refusals there are no functions.
    """

    primal: str
    functions: tuple[Function, ...]
    sweep: int
    needs: tuple[str, ...]
    purposes: tuple[Purpose, ...]
    refusals: tuple[Refusal, ...]


def vjp_of(function: Function, signatures: Signatures) -> Derived:
    """The derivative of one function whose result carries reals. Time linear in its size."""
    return _Sweep(function, signatures).run()


Contribution = tuple[int, int]
"""A variable of the tape and a cotangent for it."""


class _Sweep:
    """The derivation of one function. Variables named `var` are the tape's; `primal` ones are f's."""

    def __init__(self, function: Function, signatures: Signatures) -> None:
        self.function = function
        self.signatures = signatures
        self.count = len(function.params)
        self.label = labels(function)
        self.needs: dict[str, None] = {}
        self.refused: list[Refusal] = list(refusals(function))
        self.functions: list[Function] = []
        self.purposes: list[Purpose] = []
        self.ops = {binding.var: binding.op for binding in function.bindings}
        self.folds: dict[int, FoldSweep] = {}
        self.active = _active(function)
        self.cts: dict[int, int] = {}
        params = (*function.params, Param("ct", function.result))
        first = max((binding.var for binding in function.bindings), default=self.count - 1) + 2
        self.tape = Tape(names.vjp(function.name), function.dims, params, first, function.name)

    def at(self, primal: int) -> int:
        """The number in `f.vjp` of one of f's variables: the cotangent takes the place behind the parameters."""
        return primal if primal < self.count else primal + 1

    def run(self) -> Derived:
        """The derivative."""
        function, tape = self.function, self.tape
        if self.refused:
            return Derived(function.name, (), 0, (), (), tuple(self.refused))
        reached = _reached(function, self.active)
        for binding in function.bindings:
            self.copy(binding, reached)
        sweep = tape.next
        if function.returns in self.active:
            tape.doing(f"adjoint of {self.label[function.returns]}", function.returns)
            self.add(self.at(function.returns), self.count)
        for binding in reversed(function.bindings):
            ct = self.cts.pop(self.at(binding.var), None)
            if ct is not None:
                self.step(binding, ct)
        returns = self.finish()
        if self.refused:
            return Derived(function.name, (), 0, (), (), tuple(self.refused))
        functions = (*self.functions, tape.finish(returns))
        purposes = (*self.purposes, *tape.purposes)
        return Derived(function.name, functions, sweep, tuple(self.needs), purposes, ())

    def finish(self) -> int:
        """The tuple of the parameters' adjoints; zeros for one that no cotangent reaches."""
        function, tape = self.function, self.tape
        items = []
        for place, param in enumerate(function.params):
            if not carries(param.type):
                continue
            ct = self.cts.get(place)
            if ct is None:
                tape.doing(f"adjoint of {param.name}: nothing reaches it")
                ct = tape.like("zeros_like", place)
            items.append(ct)
        tape.doing("adjoints of the parameters")
        return tape.tuple(items)

    # --- forward ------------------------------------------------------------------------------------------------------

    def copy(self, binding: Binding, reached: frozenset[int]) -> None:
        """A binding of f under its number here. A fold that is differentiated scans: what it gave is an item of what it gives."""
        tape, var = self.tape, self.at(binding.var)
        tape.doing(f"primal {self.label[binding.var]}, kept", binding.var)
        op = renamed(binding.op, self.at)
        if isinstance(op, Fold) and binding.var in reached:
            self.folds[binding.var] = FoldSweep(tape, self.signatures[op.function], op, len(self.folds))
            self.folds[binding.var].scan(var, binding.name, binding.type)
        else:
            tape.put(var, binding.name, binding.type, op)

    # --- backward -----------------------------------------------------------------------------------------------------

    def add(self, var: int, ct: int) -> None:
        """Adds a cotangent to a variable's."""
        ct = self.tape.coerced(ct, self.tape.types[var])
        known = self.cts.get(var)
        self.cts[var] = ct if known is None else self.tape.joined("add", known, ct)

    def step(self, binding: Binding, ct: int) -> None:
        """Hands the cotangent of a binding on to its operands."""
        self.tape.doing(f"adjoint of {self.label[binding.var]} ({word(binding.op)})", binding.var)
        for var, one in self.adjoint(binding, ct):
            self.add(var, one)

    def adjoint(self, binding: Binding, ct: int) -> Sequence[Contribution]:
        """The cotangents of a binding's operands."""
        tape = self.tape
        match renamed(binding.op, self.at):
            case Prim() as op:
                return self.primitive(binding, op, ct)
            case Field(base, name):
                zeros = tape.like("zeros_like", base)
                return ((base, tape.prim(tape.types[base], "set_field", zeros, ct, attrs=(("name", Word(name)),))),)
            case Project(base, place):
                zeros = tape.like("zeros_like", base)
                whole = tape.prim(tape.types[base], "set_elem", zeros, ct, attrs=(("place", Place(place)),))
                return ((base, whole),)
            case MakeTuple(items):
                wanted = [place for place, var in enumerate(operands(binding.op)) if var in self.active]
                return [(items[place], tape.item(ct, place)) for place in wanted]
            case Call(function, dims, prefix, args):
                return self.call(function, dims, prefix, args, operands(binding.op), ct)
            case Apply():
                assert isinstance(binding.op, Apply)
                closure = lambda_of(self.ops, binding.op.function)
                assert closure is not None  # `refusals` has said so otherwise
                primal = (*closure.captured, *binding.op.args)
                args = tuple(map(self.at, primal))
                return self.call(closure.function, closure.dims, closure.prefix, args, primal, ct)
            case Fold():
                return self.fold(binding, ct)
            case op:
                assert not isinstance(op, MakeParams), "a tree is made from keys, of which no cotangent is asked"
                return ()

    def primitive(self, binding: Binding, op: Prim, ct: int) -> Sequence[Contribution]:
        """By the primitive's rule."""
        rule = DERIVATIVES[op.name]
        wanted = tuple(var in self.active for var in operands(binding.op))
        if not any(wanted):
            return ()
        if isinstance(rule, NoDerivative):
            self.refused.append(no_rule(self.function.name, binding.var, op.name, rule.reason))
            return ()
        made = rule(self.tape, Use(op.args, op.attrs, self.at(binding.var), ct, wanted))
        return [(var, one) for var, one, asked in zip(op.args, made, wanted) if asked and one is not None]

    def call(
        self, function: str, dims: Dims, prefix: Shape | None, args: Sequence[int], primal: Sequence[int], ct: int
    ) -> Sequence[Contribution]:
        """By the callee's `.vjp`, which gives the adjoints of all its parameters that have one."""
        callee = self.signatures[function]
        places = callee.adjoints()
        wanted = [place for place in places if primal[place] in self.active]
        if not wanted:
            return ()
        self.needs[function] = None
        types = callee.param_types(dims, prefix)
        op = Call(names.vjp(function), dims, prefix, (*args, ct))
        adjoints = self.tape.emit(Tuple(tuple(types[place] for place in places)), op)
        return [(args[place], self.tape.item(adjoints, places.index(place))) for place in wanted]

    def fold(self, binding: Binding, ct: int) -> Sequence[Contribution]:
        """By a loop that runs backward."""
        sweep = self.folds[binding.var]
        wanted = [var in self.active for var in operands(binding.op)]
        text = f"adjoint of {self.label[binding.var]} (fold), one iteration"
        body, purposes, contributions = sweep.backward(self.function, ct, text, binding.var, wanted)
        self.needs[sweep.op.function] = None
        self.functions.append(body)
        self.purposes += purposes
        return contributions


def _active(function: Function) -> frozenset[int]:
    """The variables that carry reals and depend on a parameter that does: those that a cotangent is asked of."""
    active = {place for place, param in enumerate(function.params) if carries(param.type)}
    for binding in function.bindings:
        if not any(var in active for var in operands(binding.op)):
            continue
        if carries(binding.type) or isinstance(binding.op, Closure):
            active.add(binding.var)
    return frozenset(active)


def _reached(function: Function, active: frozenset[int]) -> frozenset[int]:
    """The variables whose value may have a cotangent: read, through active variables, by the result."""
    reached = {function.returns} & active
    ops = {binding.var: binding.op for binding in function.bindings}
    for binding in reversed(function.bindings):
        if binding.var not in reached:
            continue
        read = operands(binding.op)
        if isinstance(binding.op, Apply):
            closure = lambda_of(ops, binding.op.function)
            read = (*read, *(() if closure is None else closure.captured))
        reached |= {var for var in read if var in active}
    return frozenset(reached)
