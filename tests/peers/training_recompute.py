"""Does the trainings again in PyTorch, in binary64, and compares them with the stored ones; `--write` stores them instead.

Run by `make peers`, in an environment that has PyTorch and nothing of the project. For the course GPT, AdamW, clipping and the
schedule are written from their formulas, and its masks are those of `draws`; the other model is the twin of the experiment, with
PyTorch's own optimizer.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch  # type: ignore[import-not-found]  # installed by `make peers` alone
import torch.nn.functional as F  # type: ignore[import-not-found]  # likewise

from experiments.nanogpt.torch_twin import GPT, Recipe, Sizes, Trainer
from tests.peers.draws import child, kept, master, order, split
from tests.peers.numbers import SCALE
from tests.peers.torch_models import Tree, attention, linear, norm
from tests.peers.training_cases import CASES, EPOCHS, PER_EPOCH, RESULTS, STEPS, Training

AGREEMENT: Final = 1e-10
"""Two runs in binary64 that differ in the order of their sums differ by less than this, relatively."""

Batch = tuple["torch.Tensor", "torch.Tensor"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its loss, rate, and the 2-norm of its gradient."""

    loss: float
    rate: float
    norm: float


def batches(case: Training) -> Iterator[Batch]:
    """The batches of the whole training: the windows of each epoch in its order."""
    text = torch.tensor(case.tokens().numbers)
    assert case.samples // case.batch >= PER_EPOCH > 0
    for epoch in range(EPOCHS):
        samples = order(case.shuffle, epoch, case.samples)
        for number in range(PER_EPOCH):
            chosen = torch.tensor(samples[number * case.batch : (number + 1) * case.batch])
            places = chosen[:, None] * case.stride + torch.arange(case.length)
            yield text[places], text[places + 1]


def start(case: Training) -> dict[str, "torch.Tensor"]:
    """The first parameters."""
    return {
        path: torch.tensor(leaf.numbers, dtype=torch.float64).reshape(leaf.shape) * 2.0**power / SCALE
        for path, (leaf, power) in case.start().items()
    }


# --- the course GPT, with dropout ---

RATE: Final = "0.2"


def dropped(key: bytes, x: "torch.Tensor") -> "torch.Tensor":
    """`dropout(0.2, key, x)`."""
    return x * torch.from_numpy(kept(RATE, key, tuple(x.shape))) / (1 - float(RATE))


def course(p: Tree, ids: "torch.Tensor", key: bytes, case: Training) -> "torch.Tensor":
    """The logits; a block takes two keys off the one that it is handed."""
    key, own = split(key)
    x = dropped(own, p["tok"][ids] + p["pos"][: ids.shape[1]])
    for layer in range(case.const["L"]):
        block = {path.removeprefix("blocks."): leaf[layer] for path, leaf in p.items() if path.startswith("blocks.")}
        key, own = split(key)
        x = x + dropped(own, attention(block, norm(block, "norm1", x), case.const["H"]))
        key, own = split(key)
        x = x + dropped(own, linear(block, "ff.down", F.gelu(linear(block, "ff.up", norm(block, "norm2", x)))))
    return norm(p, "norm", x) @ p["head"]


def step_key(seed: int, step: int) -> bytes:
    """The key of a step, from 1: child `step` of child 1 of the master key. Child 0 makes the parameters."""
    return child(child(master(seed), 1), step)


def course_steps(case: Training) -> tuple[list[Step], Tree]:
    """The training of the course GPT: `lr = 1e-3`, `betas = (0.9, 0.99)`, `weight_decay = 0.1`, `grad_clip = 1.0`, cosine."""
    lr, beta1, beta2, eps, decay, clip, warmup = 1e-3, 0.9, 0.99, 1e-8, 0.1, 1.0, 10
    p = start(case)
    m, v = ({path: torch.zeros_like(leaf) for path, leaf in p.items()} for _ in range(2))
    found = []
    for t, (ids, following) in enumerate(batches(case), 1):
        leaves = {path: leaf.detach().requires_grad_() for path, leaf in p.items()}
        logits = course(leaves, ids, step_key(case.keys, t), case)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), following.reshape(-1))
        made = torch.autograd.grad(loss, list(leaves.values()))
        size = math.sqrt(sum(float((leaf * leaf).sum()) for leaf in made))
        rate = lr * min(t, warmup) / warmup
        if t > warmup:
            rate = lr * (1 + math.cos(math.pi * (t - warmup) / (STEPS - warmup))) / 2
        for path, g in zip(p, made, strict=True):
            g = g * min(1.0, clip / (size + 1e-6))
            m[path] = beta1 * m[path] + (1 - beta1) * g
            v[path] = beta2 * v[path] + (1 - beta2) * g * g
            root = (v[path] / (1 - beta2**t)).sqrt()
            p[path] = p[path] - rate * (m[path] / (1 - beta1**t) / (root + eps) + decay * p[path])
        found.append(Step(loss.item(), rate, size))
    return found, p


# --- the twin of the experiment, without dropout ---


def nanogpt_steps(case: Training) -> tuple[list[Step], Tree]:
    """The training of the twin, in binary64; the bound of its gradients lies among their norms."""
    model = GPT(Sizes(**case.const)).double()
    model.take(start(case))
    trainer = Trainer(model, Recipe(STEPS, warmup=5, clip=2.0))
    made = [trainer.step(*batch) for batch in batches(case)]
    return [Step(one.loss, one.rate, one.norm) for one in made], model.tree()


MODELS: Final[dict[str, Callable[[Training], tuple[list[Step], Tree]]]] = {
    "gpt": course_steps,
    "nanogpt": nanogpt_steps,
}


def decimal(number: float) -> str:
    """A number in 17 digits, which read back as it is."""
    return format(number, ".17g")


def result(case: Training) -> dict[str, Any]:
    """Every step, and of each leaf at the end the 2-norm and three of its numbers: the first, one inside, the last."""
    steps, tree = MODELS[case.model](case)
    assert len(steps) == STEPS
    spots = {}
    for path, leaf in tree.items():
        flat = leaf.reshape(-1)
        spots[path] = [decimal(x) for x in (flat.norm().item(), *(flat[at].item() for at in places(len(flat))))]
    return {
        **{what: [decimal(getattr(step, what)) for step in steps] for what in ("loss", "rate", "norm")},
        "parameters": spots,
    }


def places(size: int) -> tuple[int, int, int]:
    """Which numbers of a leaf are stored."""
    return 0, size // 3, size - 1


def disagreements(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """Where two results differ by more than rounding explains."""
    found = []
    for what in ("loss", "rate", "norm"):
        for step, (one, other) in enumerate(zip(new[what], old[what], strict=True), 1):
            if not math.isclose(float(one), float(other), rel_tol=AGREEMENT, abs_tol=1e-18):
                found.append(f"{what} of step {step}: {one} and stored {other}")
    for path, spots in new["parameters"].items():
        stored = old["parameters"][path]
        if not all(abs(float(a) - float(b)) <= AGREEMENT * float(spots[0]) for a, b in zip(spots, stored, strict=True)):
            found.append(f"{path}: {spots} and stored {stored}")
    return found


def main() -> int:
    """1 if something differs."""
    torch.set_num_threads(1)
    wrong = 0
    for case in CASES:
        made = result(case)
        path = RESULTS / f"{case.name}.json"
        if "--write" in sys.argv[1:]:
            RESULTS.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(made, ensure_ascii=False, indent=0) + "\n", "utf-8")
            continue
        found = disagreements(made, json.loads(path.read_text("utf-8")))
        wrong += bool(found)
        for line in found:
            print(f"{case.name}: {line}")
    if "--write" not in sys.argv[1:]:
        print(f"{len(CASES) - wrong} of {len(CASES)} trainings agree with PyTorch's results")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
