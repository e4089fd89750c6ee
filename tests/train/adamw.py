"""AdamW written down once more, from its definition, in mpmath; and programs whose optimizer it is.

Trees are dictionaries by path, leaves flat lists. Nothing here is taken from the compiler.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
from mpmath import mpf

from presk.exact.given import Given
from tests.peers.adamw_cases import Optimizer

BITS: Final = 256
GUARD: Final = 128

Tree = Mapping[str, Sequence[Any]]
Shapes = Mapping[str, tuple[int, ...]]

MODEL: Final = """\
module Norm {
  param γ : ℝ[3] init = ones
}
module Layer {
  use norm : Norm
  param w : ℝ[3, 3] init = normal(std = 0.5)
  param b : ℝ[3]    init = zeros
}
module Net {
  param gain : ℝ[]  init = ones
  use layers : stack{2}(Layer)
  param out : ℝ[3, out: 2] init = normal(std = 0.5)
}

dim B
fn loss(θ : params Net, x : ℝ[batch: B, out: 2]) -> ℝ[] = mean((x * θ.gain)^2)

training run {
  model     = Net
  objective = loss
  optimizer = adamw
}
"""
"""The tree of the peers' cases; `optimizer adamw` is missing."""


class State(NamedTuple):
    """Parameters and both moments."""

    parameters: Tree
    first: Tree
    second: Tree


def block(case: Optimizer) -> str:
    """The optimizer block of a case; what the case leaves out has its default."""
    lines = [f"lr = {case.lr}"]
    if case.betas is not None:
        lines.append(f"betas = ({', '.join(case.betas)})")
    for name, value in (("eps", case.eps), ("weight_decay", case.weight_decay), ("grad_clip", case.grad_clip)):
        if value is not None:
            lines.append(f"{name} = {value}")
    if case.schedule is not None:
        kind, warmup = case.schedule
        lines.append(f"schedule = {kind}({'' if kind == 'constant' else f'warmup = {warmup}'})")
    inner = "".join(f"  {line}\n" for line in lines)
    return f"optimizer adamw {{\n{inner}}}\n"


def program(case: Optimizer) -> str:
    """A program with the optimizer."""
    return block(case) + MODEL


def rate(case: Optimizer, t: int, total: int) -> Any:
    """The learning rate of step t of `total`."""
    with mpmath.workprec(BITS + GUARD):
        lr = mpf(case.lr)
        kind, warmup = case.schedule or ("constant", 0)
        if kind == "constant":
            return lr
        if t <= warmup:
            return lr * t / warmup
        if kind == "linear":
            return lr * mpf(total - t) / (total - warmup)
        return lr * (1 + mpmath.cos(mpmath.pi * (t - warmup) / (total - warmup))) / 2


def step(case: Optimizer, state: State, gradient: Tree, t: int, total: int) -> State:
    """One step; the numbers are doubles, which are taken as they are."""
    with mpmath.workprec(BITS + GUARD):
        beta1, beta2 = map(mpf, case.betas or ("0.9", "0.999"))
        eps, decay = mpf(case.eps or "1e-8"), mpf(case.weight_decay or "0")
        lr = rate(case, t, total)
        g = {path: [mpf(x) for x in leaf] for path, leaf in gradient.items()}
        if case.grad_clip is not None:
            size = mpmath.sqrt(mpmath.fsum(x * x for leaf in g.values() for x in leaf)) + mpf("1e-6")
            if size > mpf(case.grad_clip):
                g = {path: [x * mpf(case.grad_clip) / size for x in leaf] for path, leaf in g.items()}
        made = State({}, {}, {})
        for path, leaf in g.items():
            rows = []
            old = (state.parameters[path], state.first[path], state.second[path])
            for x, theta, m, v in zip(leaf, *old, strict=True):
                first = beta1 * mpf(m) + (1 - beta1) * x
                second = beta2 * mpf(v) + (1 - beta2) * x * x
                root = mpmath.sqrt(second / (1 - beta2**t)) + eps
                rows.append((mpf(theta) - lr * (first / (1 - beta1**t) / root + decay * mpf(theta)), first, second))
            for tree, numbers in zip(made, zip(*rows, strict=True), strict=True):
                assert isinstance(tree, dict)
                tree[path] = list(numbers)
        return made


def npy(numbers: Sequence[float], shape: tuple[int, ...]) -> Given:
    """A tensor of doubles as a file."""
    out = io.BytesIO()
    np.save(out, np.array([float(number) for number in numbers]).reshape(shape))
    return Given("tensor.npy", out.getvalue())


def files(state: State, gradient: Tree, shapes: Shapes) -> dict[str, Given]:
    """The arguments of a step, a file for each leaf."""
    trees = {"θ": state.parameters, "s.0": state.first, "s.1": state.second, "g": gradient}
    return {f"{name}.{path}": npy(leaf, shapes[path]) for name, tree in trees.items() for path, leaf in tree.items()}
