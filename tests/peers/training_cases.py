"""Trainings that are done a second time in PyTorch: programs at small sizes, their first parameters and their data.

The numbers are those of `tests.peers.numbers`, the parameters times a power of two. Only the program's size and its schedule are
changed, so that a model of a few thousand parameters warms up and comes to its end within 50 steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.peers.numbers import Case, Shapes, Tensor, indices, parameters, shapes, stream

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = Path(__file__).parent / "results" / "training"
STEPS: Final = 50
EPOCHS: Final = 10
PER_EPOCH: Final = 5


@dataclass(frozen=True, slots=True)
class Training:
    """A program, its constants, and what is written in it in place of something else.

    Samples are windows of a text of `length` tokens and the next, `stride` tokens apart; `samples` of them make `PER_EPOCH` batches
    and some are left. `seed` is that of the numbers here, `shuffle` the one in the program, `keys` what `--seed` is.
    """

    name: str
    file: str
    model: str
    const: Mapping[str, int]
    changes: Mapping[str, str]
    length: int
    batch: int
    seed: int
    shuffle: int
    samples: int
    stride: int = 3
    size: int = -3
    keys: int = 0
    data: str = "data/train.psk.d"

    def text(self) -> str:
        """The program."""
        text = (ROOT / self.file).read_text("utf-8")
        for old, new in self.changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text

    @property
    def shapes(self) -> Shapes:
        """The leaves of the parameters, in order of declaration."""
        if self.model == "gpt":
            return shapes(Case(self.name, "gpt", self.const, {"T": self.length}))
        v, d, layers = self.const["V"], self.const["D"], self.const["L"]
        blocks: dict[str, tuple[int, ...]] = {"norm1.γ": (d,), "norm2.γ": (d,)}
        blocks |= {f"attn.{name}": (d, d) for name in ("wq", "wk", "wv", "wo")}
        blocks |= {"ff.up": (d, 4 * d), "ff.down": (4 * d, d)}
        stacked = {f"blocks.{path}": (layers, *shape) for path, shape in blocks.items()}
        return {"tok": (v, d), "pos": (self.const["C"], d), **stacked, "norm.γ": (d,)}

    def start(self) -> dict[str, tuple[Tensor, int]]:
        """The first parameters: tensors, and the power of two that multiplies each. Gains are around 1 and not multiplied."""
        made = parameters(self.shapes, stream(self.seed))
        return {path: (leaf, 0 if path.endswith("γ") else self.size) for path, leaf in made.items()}

    def tokens(self) -> Tensor:
        """The text. A token is mostly near the one before it, so that there is something to learn."""
        count = self.length + 1 + (self.samples - 1) * self.stride
        bound = self.const["V"]
        steps = indices((count,), 16, stream(self.seed + 1)).numbers
        found = [0]
        for step in steps[1:]:
            found.append((found[-1] + (1 if step < 12 else step)) % bound)
        return Tensor((count,), tuple(found))


CASES: Final = (
    Training(
        "course",
        "corpus/nlp/05_gpt.psk",
        "gpt",
        {"V": 29, "D": 32, "H": 2, "L": 2, "C": 20},
        {"cosine(warmup = 100)": "cosine(warmup = 10)", "batch(B = 16)": "batch(B = 4)"},
        length=16,
        batch=4,
        seed=41,
        shuffle=1234,
        samples=23,
        keys=7,
        data="data/chars.psk.d",
    ),
    Training(
        "nanogpt",
        "experiments/nanogpt/char_gpt.psk",
        "nanogpt",
        {"V": 20, "D": 64, "H": 4, "L": 2, "C": 32},
        {
            "cosine(warmup = 100)": "cosine(warmup = 5)",
            "batch(B = 12) |> take(n = 2000)": f"batch(B = 3) |> take(n = {PER_EPOCH})",
            "epochs    : nat = 1": f"epochs    : nat = {EPOCHS}",
            "grad_clip    : f64 = 1.0": "grad_clip    : f64 = 2.0",
        },
        length=32,
        batch=3,
        seed=43,
        shuffle=1337,
        samples=40,
    ),
)
