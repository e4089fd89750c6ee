"""The derivative of a fold: a loop that runs from the last iteration to the first.

    h = fold L Block.apply(stacked blocks; acc x; mask)

    forward     %a = fold L Block.apply(stacked blocks; acc x; mask) scan      the accumulators before each iteration as well
                h = %a.0        %s = %a.1
    backward    %c = (ct of h, zeros_like blocks, …)
                %b = fold L f.fold_bwd(stacked blocks, %s; acc %c; mask) reverse

    fn f.fold_bwd(θ, s, cts, mask, i) {           slice i of the tree, the accumulator that iteration i read
      ct = cts.0
      %k = call Block.apply.vjp(θ, s, mask, ct)
      (%k.1, set_slice cts.1, %k.0, i, …)         the cotangent of the accumulator goes to iteration i − 1; a tree's is written into
    }                                             its slice; one of an extra argument is summed

A loop of no iteration gives the cotangent it was given, and zeros.
"""

from collections.abc import Sequence

from presk.ad import names
from presk.ad.provenance import Purpose
from presk.ad.signature import Signature, own_prefix, signature
from presk.ad.tape import Tape
from presk.core.ir import Call, Fold, Function, Param, Project
from presk.core.stacks import stacked
from presk.types.type import Hyper, HyperKind, Tuple, Type


class FoldSweep:
    """A fold of a function that is differentiated: its forward loop, then its backward one."""

    def __init__(self, tape: Tape, callee: Signature, op: Fold, number: int) -> None:
        assert not (op.reverse or op.scan or op.indexed), "a loop that differentiation made"
        self.tape = tape
        self.callee = callee
        self.op = op
        self.number = number
        self.type: Type = Tuple(())
        self.stack = -1

    def scan(self, var: int, name: str | None, type_: Type) -> None:
        """The forward loop; `var` is its last accumulator."""
        op = self.op
        self.type = type_
        pair = Tuple((type_, stacked(type_, op.count)))
        scanning = Fold(op.count, op.function, op.dims, op.prefix, op.stacked, op.acc, op.extras, scan=True)
        both = self.tape.emit(pair, scanning)
        self.tape.put(var, name, type_, Project(both, 0))
        self.stack = self.tape.emit(pair.items[1], Project(both, 1))

    def backward(
        self, function: Function, ct: int, text: str, source: int, wanted: Sequence[bool]
    ) -> tuple[Function, tuple[Purpose, ...], list[tuple[int, int]]]:
        """The backward loop: its body, what that is for, and the cotangents of the fold's operands.

        `wanted` says of the stacked values, the accumulator and the extras, in this order, whether a cotangent is asked for.
        """
        tape, op = self.tape, self.op
        given = (*op.stacked, op.acc, *op.extras)
        middle = len(op.stacked)
        summed = [place for place, asked in enumerate(wanted) if asked and place != middle]
        first = tape.tuple([ct, *(tape.like("zeros_like", given[place]) for place in summed)])
        body = self._body(function, tape.types[first], summed, text, source)
        finished = body.finish(body.next - 1)
        loop = Fold(
            op.count,
            body.name,
            signature(function).same_dims(),
            own_prefix(finished),
            (*op.stacked, self.stack),
            first,
            op.extras,
            reverse=True,
            indexed=True,
        )
        last = tape.emit(tape.types[first], loop)
        found = [(given[middle], tape.item(last, 0))] if wanted[middle] else []
        found += [(given[place], tape.item(last, item)) for item, place in enumerate(summed, 1)]
        return finished, tuple(body.purposes), found

    def _body(self, function: Function, cts: Type, summed: Sequence[int], text: str, source: int) -> Tape:
        """`f.fold_bwd`; its last binding is its value."""
        op, callee = self.op, self.callee
        types = callee.param_types(op.dims, op.prefix)
        middle = len(op.stacked)
        slices = [Param(callee.params[place].name, types[place]) for place in range(middle)]
        saved = Param(callee.params[middle].name, self.type)
        extras = [
            Param(callee.params[middle + 1 + place].name, self.tape.types[var]) for place, var in enumerate(op.extras)
        ]
        params = (*slices, saved, Param("cts", cts), *extras, Param("i", Hyper(HyperKind.NAT)))
        body = Tape(names.fold_bwd(function.name, self.number), function.dims, params, len(params), function.name)
        body.doing(text, source)
        index, carried = len(params) - 1, middle + 1
        args = (*range(middle + 1), *range(middle + 2, index))
        places = callee.adjoints()
        call = Call(names.vjp(op.function), op.dims, op.prefix, (*args, body.item(carried, 0)))
        adjoints = body.emit(Tuple(tuple(types[place] for place in places)), call)
        results = [body.coerced(body.item(adjoints, places.index(middle)), self.type)]
        for item, place in enumerate(summed, 1):
            known = body.item(carried, item)
            adjoint = body.item(adjoints, places.index(place))
            if place < middle:
                results.append(body.prim(body.types[known], "set_slice", known, adjoint, index))
            else:
                results.append(body.joined("add", known, body.coerced(adjoint, body.types[known])))
        body.tuple(results)
        return body
