"""Optimizers whose steps are compared with `torch.optim.AdamW`: their settings, a small tree, and its gradients, on both sides the
same. Numbers are those of `tests.peers.numbers`, times a power of two where a case wants its gradients large or small.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.peers.numbers import SCALE, Tensor, parameters, reals, stream

RESULTS: Final = Path(__file__).parent / "results" / "adamw"
SHAPES: Final[Mapping[str, tuple[int, ...]]] = {
    "gain": (),
    "layers.norm.γ": (2, 3),
    "layers.w": (2, 3, 3),
    "layers.b": (2, 3),
    "out": (3, 2),
}
"""The leaves of the tree; the layers are stacked."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A block `optimizer adamw`, the number of steps of the training, and how large its gradients are: |g| ≤ 2^`size` / 2.

    `still` are the steps whose gradient is zero. Decimals are text, as a program has them.
    """

    name: str
    lr: str
    total: int
    seed: int
    betas: tuple[str, str] | None = None
    eps: str | None = None
    weight_decay: str | None = None
    grad_clip: str | None = None
    schedule: tuple[str, int] | None = None
    size: int = 0
    still: tuple[int, ...] = ()

    @property
    def steps(self) -> range:
        """The steps, counted from 1."""
        return range(1, self.total + 1)


CASES: Final = (
    Optimizer("defaults", "1e-2", 4, 21),
    Optimizer("course", "1e-3", 6, 22, ("0.9", "0.99"), None, "0.1", "1.0", ("cosine", 2)),
    Optimizer("clipped_much", "3e-4", 3, 23, ("0.9", "0.95"), None, "0.1", "0.25", ("cosine", 1), size=20),
    Optimizer("clipped_never", "3e-4", 3, 24, None, None, None, "1e3", ("linear", 1), size=-4),
    Optimizer("linear", "0.05", 7, 25, ("0.5", "0.75"), "1e-3", "0.01", None, ("linear", 3)),
    Optimizer("no_warmup", "0.05", 4, 26, ("0", "0.999"), "1e-6", None, None, ("cosine", 0)),
    Optimizer("no_gradient", "1e-2", 4, 27, None, None, "0.5", "1.0", None, still=(1, 2, 4)),
    Optimizer("tiny_gradients", "1e-2", 3, 28, None, "1e-8", "0.1", None, ("constant", 0), size=-40),
)


def start(case: Optimizer) -> dict[str, Tensor]:
    """The parameters before the first step."""
    return parameters(SHAPES, stream(case.seed))


def gradients(case: Optimizer, step: int) -> dict[str, list[float]]:
    """The gradient of a step, in row-major order; every number is exact in binary64."""
    numbers = stream(1000 * case.seed + step)
    factor = 0.0 if step in case.still else 2.0**case.size / SCALE
    return {path: [number * factor for number in reals(shape, numbers).numbers] for path, shape in SHAPES.items()}
