"""The default division of a nest among threads: above so many weighted operations, the outermost loop that can be divided.

What a nest costs is counted in the kernels that compute it undivided: every operation, load and store of every iteration and lane,
and every byte of their operands and results once, with the weights of the target. Whether a nest is divided is so a fixed function of
the nest, its other decisions and the target; among how many threads is the driver's, and no bit depends on it.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from presk.kernels.ir import (
    SIZES,
    Access,
    AnyOp,
    AnyStmt,
    Binary,
    BinaryOp,
    Bitcast,
    Const,
    Fma,
    For,
    Kernel,
    Let,
    Load,
    Shuffle,
    Splat,
    Store,
    Unary,
    UnaryOp,
)
from presk.kernels.layout import Layout, Split, Target, Weights
from presk.kernels.nest import Lowered

DEEPEST: Final = 2
"""The deepest loop that is divided."""

_WORD: Final = 4
"""Bytes."""

ENOUGH: Final = 8
"""Iterations that can be divided among a few threads: of fewer one thread might have twice what another one has."""

MANY: Final = 1024
"""The most workers, as a split states them; how many there are says who launches the kernel."""


def divided_by_size(lower: Callable[[Layout], Lowered], layout: Layout, target: Target) -> Lowered:
    """A nest under a layout. Where that leaves `split` open, it is divided if it is large: the outermost loop that has enough
    iterations, else the one that has most, if it needs no more than a cache of scratch memory for what its iterations do at once."""
    if layout.split is not None:
        undivided = layout.split.workers == 1
        return lower(msgspec.structs.replace(layout, split=None) if undivided else layout)
    plain = lower(layout)
    if sum(weight(step.kernel, target.weights) for step in plain.steps) <= target.divided_from:
        return plain
    found, most = plain, 1
    for depth in range(DEEPEST + 1):
        divided = lower(msgspec.structs.replace(layout, split=Split(depth, MANY)))
        # The one that computes, not one that only copies an operand for it.
        heaviest = max(
            (step.kernel for step in divided.steps), key=lambda kernel: _weight(kernel.body, target.weights, {})
        )
        if turns(heaviest) > most and _scratch(divided) <= _scratch(plain) + target.cache:
            found, most = divided, turns(heaviest)
        if most >= ENOUGH:
            break
    return found


def turns(kernel: Kernel) -> int:
    """The most iterations of a loop that is divided among workers; 0 where none is."""
    return _turns(kernel.body)


def _turns(body: Iterable[AnyStmt]) -> int:
    loops = (one for one in body if isinstance(one, For))
    return max((loop.extent if loop.split else _turns(loop.body) for loop in loops), default=0)


def _scratch(lowered: Lowered) -> int:
    """The bytes of memory within kernels; what one step leaves for the next one is the same, divided or not."""
    return sum(
        buffer.size * SIZES[buffer.elem]
        for step in lowered.steps
        for buffer in step.kernel.buffers
        if buffer.access is Access.SCRATCH
    )


def weight(kernel: Kernel, weights: Weights) -> int:
    """The operations of a kernel and the bytes that it streams, weighted."""
    streamed = sum(one.size * SIZES[one.elem] for one in kernel.buffers if one.access is not Access.SCRATCH)
    return _weight(kernel.body, weights, {}) + weights.streamed * streamed // _WORD


def _weight(body: Iterable[AnyStmt], weights: Weights, lanes: dict[int, int]) -> int:
    """Of statements; `lanes` are those of the variables so far."""
    total = 0
    for statement in body:
        match statement:
            case For(var=var, extent=extent, body=inner, carried=carried):
                lanes[var] = 1
                for one in carried:
                    lanes[one.inside] = lanes[one.after] = lanes[one.init]
                total += extent * _weight(inner, weights, lanes)
            case Let(var=var, type=type_, op=op):
                lanes[var] = type_.lanes
                total += (type_.lanes if not isinstance(op, Load) or op.count is None else op.count) * _each(
                    op, weights
                )
            case Store(x=x, count=count):
                total += (lanes[x] if count is None else count) * weights.moved
            case _:
                pass
    return total


def _each(op: AnyOp, weights: Weights) -> int:
    """What an operation counts for in one lane."""
    match op:
        case Fma():
            return weights.fma
        case Binary(op=BinaryOp.DIV) | Unary(op=UnaryOp.SQRT):
            return weights.slow
        case Load():
            return weights.moved
        case Const() | Splat() | Shuffle() | Bitcast():
            return 0
        case _:
            return weights.simple
