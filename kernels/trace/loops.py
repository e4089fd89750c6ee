"""Folds: a loop over rows that were recorded once.

What a loop carries lies in memory of its own: one place for each tensor, which an iteration reads at its beginning and writes at its
end; where the accumulators are stacked (`scan`), a place for each iteration and one for the last value, so that stacking copies
nothing. A loop whose accumulator holds a hyperparameter or a function value is walked an iteration at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from presk.core.ir import Fold
from presk.kernels.ir import Elem
from presk.kernels.nest import Operand
from presk.kernels.trace.hyper import Known, LoopCount
from presk.kernels.trace.recorder import Recorder
from presk.kernels.trace.scope import Scope
from presk.kernels.trace.values import (
    Hyper,
    Items,
    Ref,
    Tensor,
    Value,
    has_hyper,
    has_layers,
    is_real,
    map_tensors,
    size_of,
    slice_of,
    stacked,
    tensors,
)

Enter = Callable[[str, Mapping[str, int], tuple[int, ...], Sequence[Value]], Value]

_WIDTH: Final = {Elem.BF16: 0, Elem.F32: 1, Elem.F64: 2}


def fold(recorder: Recorder, scope: Scope, op: Fold, values: Mapping[int, Value], enter: Enter) -> Value:
    """The value of a fold."""
    return _Fold(recorder, scope, op, values, enter).run()


class _Fold:
    def __init__(self, recorder: Recorder, scope: Scope, op: Fold, values: Mapping[int, Value], enter: Enter) -> None:
        self._recorder = recorder
        self._scope = scope
        self._op = op
        self._count = scope.length(op.count)
        self._acc = values[op.acc]
        self._stacks = [values[var] for var in op.stacked]
        self._extras = [values[var] for var in op.extras]
        self._function = enter

    def run(self) -> Value:
        # What hyperparameters differ in from one iteration to the next is known here, and nowhere else.
        if has_hyper(self._acc) or any(map(has_layers, (*self._stacks, *self._extras))) or self._count == 0:
            return self._unrolled()
        elems = [leaf.operand.elem for leaf in tensors(self._acc)]
        while True:
            mark = self._recorder.mark()
            result, found = self._loop(elems)
            if found == elems:
                return result
            # The body gives wider types than it was given: the accumulators are stored in those, exactly.
            self._recorder.back(mark)
            elems = found

    def _body(self, stacks: Sequence[Value], acc: Value, index: Hyper) -> Value:
        op, scope = self._op, self._scope
        args = [*stacks, acc, *self._extras]
        if op.indexed:
            args.append(index)
        return self._function(op.function, scope.bound(op.dims), scope.leading(op.prefix), args)

    def _loop(self, elems: Sequence[Elem]) -> tuple[Value, list[Elem]]:
        """The loop with its accumulators stored in given types, and the types that it asks for."""
        op, count, recorder = self._op, self._count, self._recorder
        given = tensors(self._acc)
        operands = [
            msgspec.structs.replace(leaf.operand, elem=elem) if is_real(leaf) else leaf.operand
            for leaf, elem in zip(given, elems)
        ]
        sizes = [size_of(operand) for operand in operands]
        # With `scan` place i is read by iteration i, counted as the program counts, and place i ± 1 written.
        slots = [recorder.buffer(size * (count + 1 if op.scan else 1)) for size in sizes]
        begin = [slot.moved(size * count if op.scan and op.reverse else 0) for slot, size in zip(slots, sizes)]
        steps = [(-size if op.reverse else size) if op.scan else 0 for size in sizes]
        for leaf, place, operand in zip(given, begin, operands):
            recorder.move(leaf, place, operand.elem)
        with recorder.loop(count, down=op.reverse) as loop:
            here = [place.along(loop, step) for place, step in zip(begin, steps)]
            tree = _filled(self._acc, operands, here)
            stacks = [slice_of(stack, (loop, op.reverse, count)) for stack in self._stacks]
            after = self._body(stacks, tree, Hyper(LoopCount(loop)))
            left = tensors(after)
            self._carry(left, operands, [place.moved(step) for place, step in zip(here, steps)], slots)
        wanted = [_wider(elem, leaf) for elem, leaf in zip(elems, left, strict=True)]
        end = [slot.moved(size * count if op.scan and not op.reverse else 0) for slot, size in zip(slots, sizes)]
        # The structure is that of the body's value; its memory is what was carried.
        final = _filled(after, operands, end)
        if not op.scan:
            return final, wanted
        stack = [slot.moved(size if op.reverse else 0) for slot, size in zip(slots, sizes)]
        return Items((final, _filled(after, [stacked(one, count) for one in operands], stack))), wanted

    def _carry(
        self, left: Sequence[Tensor], operands: Sequence[Operand], then: Sequence[Ref], slots: Sequence[Ref]
    ) -> None:
        """Moves what an iteration gives to where the next one reads it."""
        owner = {slot.buffer: number for number, slot in enumerate(slots)}
        waiting: list[tuple[Tensor, Operand, Ref]] = []
        for number, (leaf, operand, place) in enumerate(zip(left, operands, then)):
            if leaf.ref == place and leaf.operand.elem is operand.elem:
                continue
            if owner.get(leaf.ref.buffer, number) != number:
                # What lies in another accumulator's place may be written over before it is moved.
                kept = self._recorder.new(leaf.operand)
                self._recorder.move(leaf, kept.ref)
                leaf = kept
            waiting.append((leaf, operand, place))
        for leaf, operand, place in waiting:
            self._recorder.move(leaf, place, operand.elem)

    def _unrolled(self) -> Value:
        op, acc = self._op, self._acc
        saved: list[Value] = []
        for number in range(self._count - 1, -1, -1) if op.reverse else range(self._count):
            saved.append(acc)
            acc = self._body([slice_of(stack, number) for stack in self._stacks], acc, Hyper(Known(str(number))))
        if not op.scan:
            return acc
        if op.reverse:
            saved.reverse()
        return Items((acc, self._recorder.stack(saved, self._acc)))


def _filled(form: Value, operands: Sequence[Operand], places: Sequence[Ref]) -> Value:
    """A structure with other tensors in the places of its own, in order."""
    fresh = iter([Tensor(operand, place) for operand, place in zip(operands, places, strict=True)])
    return map_tensors(form, lambda _: next(fresh))


def _wider(elem: Elem, leaf: Tensor) -> Elem:
    if not is_real(leaf):
        return elem
    return max(elem, leaf.operand.elem, key=_WIDTH.__getitem__)
