"""Differentiation of a program: no `grad` is left in it.

`grad v`, where `v = closure f[captured…]`, becomes `closure f.grad[captured…]`; `f.grad(captured…, θ)` is the θ part of
`f.vjp(captured…, θ, 1)`. Each function gets its `.vjp` once, when the first `.vjp` or `.grad` that calls it is made.

The parts (`gradients` and `vjp_of` of one function, `grad_of` and `value_vjp_of` of one signature) are functions of what they
are given and nothing else, so each can be cached by itself; `differentiate` puts them together.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple

import msgspec

from presk.ad import names
from presk.ad.closures import lambda_of, made_by
from presk.ad.provenance import Purpose
from presk.ad.refusal import Origins, Refusal, diagnostic, not_a_lambda
from presk.ad.signature import Signature, Signatures, own_prefix, signatures
from presk.ad.sweep import Derived, vjp_of
from presk.ad.tape import Tape
from presk.core.ir import Binding, Call, Closure, Function, Grad, Program
from presk.diagnostics.value import Diagnostic
from presk.types.type import SCALAR, Real, Tuple


class Gradients(msgspec.Struct, frozen=True, array_like=True):
    """A function with its `grad`s replaced; `asked` are the functions whose gradient it takes, each with the binding that does."""

    function: Function
    asked: tuple[tuple[str, int], ...]
    refusals: tuple[Refusal, ...]


def gradients(function: Function) -> Gradients:
    """Replaces the `grad`s of a function's body by closures of `.grad` functions; E6002 for one of no lambda of the body."""
    ops = {binding.var: binding.op for binding in function.bindings}
    bindings: list[Binding] = []
    asked: list[tuple[str, int]] = []
    refused: list[Refusal] = []
    for binding in function.bindings:
        if not isinstance(binding.op, Grad):
            bindings.append(binding)
            continue
        value = lambda_of(ops, binding.op.function)
        if value is None:
            made = made_by(ops, binding.op.function)
            declared = made.function if isinstance(made, Closure) else None
            refused.append(not_a_lambda(function.name, binding.var, applied=False, declared=declared))
            continue
        asked.append((value.function, binding.var))
        gradient = Closure(names.grad(value.function), value.dims, value.prefix, value.captured)
        bindings.append(Binding(binding.var, binding.name, binding.type, gradient))
    if not asked and not refused:
        return Gradients(function, (), ())
    changed = msgspec.structs.replace(function, bindings=tuple(bindings))
    return Gradients(changed, tuple(asked), tuple(refused))


def _call_vjp(tape: Tape, function: Signature) -> int:
    """The adjoints of a function that gives ℝ[], for the cotangent 1."""
    one = tape.prim(Real(SCALAR), "ones")
    types = Tuple(tuple(function.params[place].type for place in function.adjoints()))
    args = (*range(len(function.params)), one)
    return tape.emit(types, Call(names.vjp(function.name), function.same_dims(), own_prefix(function), args))


class Generated(NamedTuple):
    """A generated function and what its bindings are for."""

    function: Function
    purposes: tuple[Purpose, ...]


def grad_of(function: Signature) -> Generated:
    """`f.grad`: the adjoint of f's last parameter."""
    count = len(function.params)
    tape = Tape(names.grad(function.name), function.dims, function.params, count, function.name)
    tape.doing(f"gradient in {function.params[-1].name}")
    adjoints = _call_vjp(tape, function)
    return Generated(tape.finish(tape.item(adjoints, len(function.adjoints()) - 1)), tuple(tape.purposes))


def value_vjp_of(function: Signature) -> Generated:
    """`f.value_vjp`: f's value and the adjoint of every parameter that has one, of one forward pass: (value, adjoint, …)."""
    count = len(function.params)
    tape = Tape(names.value_vjp(function.name), function.dims, function.params, count, function.name)
    tape.doing("value")
    value = tape.emit(
        function.result, Call(function.name, function.same_dims(), own_prefix(function), tuple(range(count)))
    )
    tape.doing("adjoints of the parameters")
    adjoints = _call_vjp(tape, function)
    items = [value, *(tape.item(adjoints, place) for place in range(len(function.adjoints())))]
    return Generated(tape.finish(tape.tuple(items)), tuple(tape.purposes))


class Differentiated(msgspec.Struct, frozen=True, array_like=True):
    """A program without `grad`.

    `derived` holds the derivative of each function that has one, in the order in which they were asked for; `outside` are the
    generated functions that are read from outside the generated ones, and keep their whole result. With diagnostics the
    program is the one that was given.
    """

    program: Program
    derived: tuple[Derived, ...]
    outside: tuple[str, ...]
    purposes: tuple[Purpose, ...]
    diagnostics: tuple[Diagnostic, ...]


Derive = Callable[[Function, Signatures], Derived]
"""How one function is derived: `vjp_of`, or a look at a store before that."""


def differentiate(
    program: Program, origins: Origins | None = None, objectives: Iterable[str] = (), derive: Derive = vjp_of
) -> Differentiated:
    """Differentiates what the program's `grad`s ask for, and the objectives, functions that give ℝ[], for training.

    A generated function stands behind the one that it is made from. A function that calls an objective's `.value_vjp`
    (`presk.ad.step`) counts as generated: of the derivative no more is kept than it reads. E6001, E6002."""
    objectives = tuple(objectives)
    functions = {function.name: function for function in program.functions}
    known = signatures(program.functions)
    # Who asked for the derivative of a function: the binding of the `grad` that leads to it.
    asked: dict[str, tuple[str, int] | None] = dict.fromkeys(objectives)
    grads: dict[str, None] = {}
    changed: dict[str, Function] = {}
    refused: list[tuple[Refusal, tuple[str, int] | None]] = []
    for function in program.functions:
        done = gradients(function)
        changed[function.name] = done.function
        refused += ((one, None) for one in done.refusals)
        for name, var in done.asked:
            grads.setdefault(name)
            asked.setdefault(name, (function.name, var))
    derived = _derive(functions, known, asked, refused, derive)
    if refused:
        given = origins if origins is not None else {}
        diagnostics = tuple(diagnostic(one, given, binding) for one, binding in refused)
        return Differentiated(program, (), (), (), diagnostics)
    made = {name: grad_of(known[name]) for name in grads}
    valued = {name: value_vjp_of(known[name]) for name in objectives}
    result: list[Function] = []
    purposes: list[Purpose] = []
    for name, function in changed.items():
        result.append(function)
        if name in derived:
            result += derived[name].functions
            purposes += derived[name].purposes
        for table in (made, valued):
            if name in table:
                result.append(table[name].function)
                purposes += table[name].purposes
    steps = [
        function for function in program.functions if _trains(function, {names.value_vjp(name) for name in valued})
    ]
    purposes += (
        Purpose(one.name, binding.var, "training step", one.name, None) for one in steps for binding in one.bindings
    )
    read = (step.name for step in steps) if steps else map(names.value_vjp, valued)
    outside = (*map(names.grad, made), *read)
    return Differentiated(Program(tuple(result)), tuple(derived.values()), outside, tuple(purposes), ())


def _trains(function: Function, valued: Set[str]) -> bool:
    """Whether a function calls the derivative of an objective."""
    return any(isinstance(binding.op, Call) and binding.op.function in valued for binding in function.bindings)


def _derive(
    functions: Mapping[str, Function],
    known: Signatures,
    asked: dict[str, tuple[str, int] | None],
    refused: list[tuple[Refusal, tuple[str, int] | None]],
    derive: Derive,
) -> dict[str, Derived]:
    """The derivatives of the functions that are asked for and of those that these need."""
    derived: dict[str, Derived] = {}
    pending = list(reversed(asked))
    while pending:
        name = pending.pop()
        if name in derived:
            continue
        derived[name] = derive(functions[name], known)
        refused += ((one, asked[name]) for one in derived[name].refusals)
        for needed in reversed(derived[name].needs):
            asked.setdefault(needed, asked[name])
            pending.append(needed)
    return derived
