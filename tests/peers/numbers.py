"""The numbers that both sides are given: made of integers, the same on every machine and in every version of every library.

A number is k · 2⁻¹⁰ with |k| ≤ 512, k from a SplitMix64 stream. It is exact in binary64, so both sides begin with the same real.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

SCALE: Final = 1024
RESULTS: Final = Path(__file__).parent / "results"
_MASK: Final = (1 << 64) - 1

Shapes = Mapping[str, tuple[int, ...]]
"""Leaves of a tree by their paths, in order of declaration."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Numbers in row-major order: numerators over `SCALE`, or indices as they are."""

    shape: tuple[int, ...]
    numbers: tuple[int, ...]


def stream(seed: int) -> Iterator[int]:
    """SplitMix64: 64-bit integers."""
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        yield z ^ (z >> 31)


def reals(shape: tuple[int, ...], numbers: Iterator[int], around: int = 0) -> Tensor:
    """A tensor of reals in [around − ½, around + ½]."""
    return Tensor(shape, tuple(next(numbers) % (SCALE + 1) - SCALE // 2 + around * SCALE for _ in range(prod(shape))))


def indices(shape: tuple[int, ...], bound: int, numbers: Iterator[int]) -> Tensor:
    """A tensor of indices below a bound."""
    return Tensor(shape, tuple(next(numbers) % bound for _ in range(prod(shape))))


def parameters(shapes: Shapes, numbers: Iterator[int]) -> dict[str, Tensor]:
    """A tree's leaves. The gains of normalizations, `γ`, are around 1."""
    return {path: reals(shape, numbers, int(path.endswith("γ"))) for path, shape in shapes.items()}


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of leaves by paths."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *outer, last = path.split(".")
        inner = tree
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = leaf
    return tree


@dataclass(frozen=True, slots=True)
class Case:
    """A model at a size: what it is called, its constants, its dimensions, the seed of its numbers.

    `roundings` bounds how many roundings one number goes through on its way into the loss and back into a gradient: for each
    operation on the longest path one, for a sum or a product of matrices one for each term, for an elementary function four.
    """

    name: str
    model: str
    const: Mapping[str, int] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Constants and dimensions together."""
        return {**self.const, **self.dims}

    @property
    def roundings(self) -> int:
        """See the class."""
        s = self.sizes
        if self.model == "mlp":
            return 2 * (s["D"] + 4 * s["D"] + s["B"] * s["D"] + 16)
        norm = 2 * (2 * s["D"] + 16)
        attention = 2 * s["D"] + s["D"] // s["H"] + 2 * s["T"] + 16
        feed = 5 * s["D"] + 16
        layers = s["L"] * (norm + attention + feed)
        return 2 * (layers + norm + s["D"] + s["V"] + s["B"] * s["T"] + 16)


CASES: Final = (
    Case("mlp_4", "mlp", {}, {"D": 4, "B": 2}, 1),
    Case("mlp_3", "mlp", {}, {"D": 3, "B": 5}, 2),
    Case("mlp_1", "mlp", {}, {"D": 1, "B": 1}, 3),
    Case("minigpt_small", "minigpt", {"V": 7, "D": 4, "H": 2, "L": 2}, {"B": 2, "T": 3}, 4),
    Case("minigpt_one_head", "minigpt", {"V": 5, "D": 6, "H": 1, "L": 1}, {"B": 1, "T": 4}, 5),
    Case("minigpt_no_blocks", "minigpt", {"V": 5, "D": 4, "H": 2, "L": 0}, {"B": 2, "T": 2}, 6),
    Case("minigpt_wide", "minigpt", {"V": 17, "D": 12, "H": 3, "L": 3}, {"B": 2, "T": 6}, 7),
    Case("gpt_small", "gpt", {"V": 7, "D": 4, "H": 2, "L": 2, "C": 5}, {"B": 2, "T": 3}, 8),
    Case("gpt_whole_context", "gpt", {"V": 5, "D": 6, "H": 3, "L": 1, "C": 4}, {"B": 1, "T": 4}, 9),
    Case("gpt_wide", "gpt", {"V": 13, "D": 12, "H": 2, "L": 3, "C": 8}, {"B": 2, "T": 5}, 10),
)


def shapes(case: Case) -> Shapes:
    """The leaves of the model's parameters."""
    s = case.sizes
    if case.model == "mlp":
        d = s["D"]
        return {"l1.w": (d, 4 * d), "l1.b": (4 * d,), "l2.w": (4 * d, d), "l2.b": (d,)}
    v, d, layers = s["V"], s["D"], s["L"]
    up, down = ("mlp.l1", "mlp.l2") if case.model == "minigpt" else ("ff.up", "ff.down")
    found: dict[str, tuple[int, ...]] = {"tok": (v, d), "pos": (s["T"] if case.model == "minigpt" else s["C"], d)}
    for norm in ("norm1", "norm2"):
        found |= {f"blocks.{norm}.γ": (layers, d), f"blocks.{norm}.β": (layers, d)}
    for name in ("wq", "wk", "wv", "wo"):
        found |= {f"blocks.attn.{name}.w": (layers, d, d), f"blocks.attn.{name}.b": (layers, d)}
    found |= {f"blocks.{up}.w": (layers, d, 4 * d), f"blocks.{up}.b": (layers, 4 * d)}
    found |= {f"blocks.{down}.w": (layers, 4 * d, d), f"blocks.{down}.b": (layers, d)}
    return {**found, "norm.γ": (d,), "norm.β": (d,), "head": (d, v)}


@dataclass(frozen=True, slots=True)
class Given:
    """A case's numbers: the parameters by path, and the batch."""

    parameters: Mapping[str, Tensor]
    batch: tuple[Tensor, Tensor]


def given(case: Case) -> Given:
    """The numbers of a case."""
    numbers = stream(case.seed)
    tree = parameters(shapes(case), numbers)
    s = case.sizes
    if case.model == "mlp":
        shape = (s["B"], s["D"])
        return Given(tree, (reals(shape, numbers), reals(shape, numbers)))
    shape = (s["B"], s["T"])
    return Given(tree, (indices(shape, s["V"], numbers), indices(shape, s["V"], numbers)))
