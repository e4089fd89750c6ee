"""Unrolling: a fold of constant count becomes that many calls.

    %4 = fold 2 Block.apply(stacked blocks; acc h; mask)   ⟶   %4 = slice_params 0 blocks
                                                               %5 = call Block.apply(%4, h, mask)
                                                               %6 = slice_params 1 blocks
                                                               %7 = call Block.apply(%6, %5, mask)

It is made for comparison (`--unroll-stack`): the value is the same, the program grows with the count, and variables are numbered anew.
A fold whose count is symbolic, and one that scans or runs backward, stays as it is. Needs lowered programs; keeps everything else.
"""

import msgspec

from presk.core.ir import Binding, Call, Fold, Function, Operation, Prim, Program, renamed
from presk.prims.attrs import Place
from presk.types.type import Params, Stacked, Type


def unroll_program(program: Program) -> Program:
    """The program with every fold of constant count unrolled."""
    return Program(tuple(unroll_function(function) for function in program.functions))


def unroll_function(function: Function) -> Function:
    """The function with every fold of constant count unrolled."""
    if not any(_count(binding.op) is not None for binding in function.bindings):
        return function
    numbers = {place: place for place in range(len(function.params))}
    types: dict[int, Type] = {place: param.type for place, param in enumerate(function.params)}
    bindings: list[Binding] = []

    def add(name: str | None, type_: Type, op: Operation) -> int:
        var = len(function.params) + len(bindings)
        bindings.append(Binding(var, name, type_, op))
        types[var] = type_
        return var

    for binding in function.bindings:
        op = renamed(binding.op, numbers.__getitem__)
        count = _count(op)
        if count is None:
            numbers[binding.var] = add(binding.name, binding.type, op)
            continue
        assert isinstance(op, Fold)
        acc = op.acc
        for layer in range(count):
            slices = tuple(
                add(None, _layer(types[stack]), Prim("slice_params", (stack,), (("i", Place(layer)),)))
                for stack in op.stacked
            )
            name = binding.name if layer == count - 1 else None
            acc = add(name, binding.type, Call(op.function, op.dims, op.prefix, (*slices, acc, *op.extras)))
        numbers[binding.var] = acc
    return msgspec.structs.replace(function, bindings=tuple(bindings), returns=numbers[function.returns])


def _count(op: Operation) -> int | None:
    """How often an operation is repeated, if it is a fold that can be unrolled."""
    if not isinstance(op, Fold) or op.scan or op.reverse or op.indexed:
        return None
    return op.count.natural()


def _layer(stack: Type) -> Type:
    assert isinstance(stack, Params) and isinstance(stack.instance, Stacked)
    return Params(stack.instance.inner)
