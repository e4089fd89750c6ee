"""The model of `char_gpt.psk` and its training in PyTorch, written as nanoGPT writes them; run by `run.py`, or by hand.

    python torch_twin.py --train data/train.psk.d --validation data/validation.psk.d

The products of queries, keys and values are one product, attention is PyTorch's fused one, the optimizer its fastest loop over
leaves: what a user of PyTorch would run. Needs PyTorch and numpy, and nothing of Presk. The result is a JSON object on the last line.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch  # type: ignore[import-not-found]  # installed by who wants the comparison
import torch.nn.functional as F  # type: ignore[import-not-found]  # likewise
from torch import nn

Tree = Mapping[str, "torch.Tensor"]
"""Parameters by the program's paths; those of the blocks have the layer as their first axis."""

GROUPINGS: Final = ("program", "nanogpt")
"""What decays: every leaf, as the program says, or matrices only."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The constants of the program."""

    V: int = 65
    D: int = 128
    H: int = 4
    L: int = 4
    C: int = 64


@dataclass(frozen=True, slots=True)
class Recipe:
    """The optimizer of the program, with nanoGPT's way of ending the schedule and of decaying as other choices."""

    total: int
    lr: float = 1e-3
    last: float = 0.0
    warmup: int = 100
    betas: tuple[float, float] = (0.9, 0.99)
    decay: float = 0.1
    clip: float = 1.0
    grouping: str = "program"

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 1."""
        if step <= self.warmup:
            return self.lr * step / self.warmup
        done = (step - self.warmup) / (self.total - self.warmup)
        return self.last + 0.5 * (1 + math.cos(math.pi * done)) * (self.lr - self.last)


class Block(nn.Module):  # type: ignore[misc]  # PyTorch is not there when types are checked
    """Attention and the feed-forward network, normalized before."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.H
        self.norm1, self.norm2 = (nn.LayerNorm(sizes.D, bias=False) for _ in range(2))
        self.qkv = nn.Linear(sizes.D, 3 * sizes.D, bias=False)
        self.wo = nn.Linear(sizes.D, sizes.D, bias=False)
        self.up = nn.Linear(sizes.D, 4 * sizes.D, bias=False)
        self.down = nn.Linear(4 * sizes.D, sizes.D, bias=False)

    def forward(self, x: "torch.Tensor") -> "torch.Tensor":
        """The activations behind the block."""
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):  # type: ignore[misc]  # likewise
    """The model; its head is the table of characters."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tok = nn.Embedding(sizes.V, sizes.D)
        self.pos = nn.Parameter(torch.empty(sizes.C, sizes.D))
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.L))
        self.norm = nn.LayerNorm(sizes.D, bias=False)
        for name, leaf in self.named_parameters():
            if leaf.dim() >= 2:
                inner = name.endswith(("wo.weight", "down.weight"))
                nn.init.normal_(leaf, std=0.02 / math.sqrt(2 * sizes.L) if inner else 0.02)

    def forward(self, ids: "torch.Tensor") -> "torch.Tensor":
        """The logits."""
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tok.weight)

    def loss(self, ids: "torch.Tensor", following: "torch.Tensor") -> "torch.Tensor":
        """The mean cross-entropy."""
        logits = self(ids)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), following.reshape(-1))

    def take(self, tree: Tree) -> None:
        """Takes parameters from the program's tree."""
        with torch.no_grad():
            for leaf, value in zip(self.leaves(), stacked(tree, len(self.blocks)), strict=True):
                leaf.copy_(value)

    def leaves(self) -> list["torch.Tensor"]:
        """The parameters in the order of `stacked`."""
        found = [self.tok.weight, self.pos]
        for block in self.blocks:
            found += [block.norm1.weight, block.norm2.weight, block.qkv.weight, block.wo.weight]
            found += [block.up.weight, block.down.weight]
        return [*found, self.norm.weight]

    def tree(self, gradient: bool = False) -> dict[str, "torch.Tensor"]:
        """The parameters, or their gradients, as the program's tree."""
        values = iter([leaf.grad if gradient else leaf.detach() for leaf in self.leaves()])
        found: dict[str, Any] = {"tok": next(values), "pos": next(values)}
        names = ("norm1.γ", "norm2.γ", "attn.wq", "attn.wk", "attn.wv", "attn.wo", "ff.up", "ff.down")
        rows: dict[str, list[torch.Tensor]] = {name: [] for name in names}
        for _ in self.blocks:
            norm1, norm2, qkv, wo, up, down = (next(values) for _ in range(6))
            whole = (norm1, norm2, *(part.T for part in qkv.chunk(3)), wo.T, up.T, down.T)
            for name, value in zip(names, whole, strict=True):
                rows[name].append(value)
        found |= {f"blocks.{name}": torch.stack(leaf) for name, leaf in rows.items()}
        return found | {"norm.γ": next(values)}


def stacked(tree: Tree, layers: int) -> Iterator["torch.Tensor"]:
    """The numbers of `GPT.leaves` from the program's tree; PyTorch's matrices have their outputs first."""
    yield from (tree["tok"], tree["pos"])
    for layer in range(layers):
        p = {path.removeprefix("blocks."): leaf[layer] for path, leaf in tree.items() if path.startswith("blocks.")}
        yield from (p["norm1.γ"], p["norm2.γ"], torch.cat([p[f"attn.{name}"].T for name in ("wq", "wk", "wv")]))
        yield from (p["attn.wo"].T, p["ff.up"].T, p["ff.down"].T)
    yield tree["norm.γ"]


@dataclass(frozen=True, slots=True)
class Step:
    """What a step knows: its loss, its rate, and the 2-norm of its gradient before clipping."""

    loss: float
    rate: float
    norm: float


class Trainer:
    """A model and its optimizer."""

    def __init__(self, model: GPT, recipe: Recipe) -> None:
        self.model, self.recipe, self.done = model, recipe, 0
        leaves = model.leaves()
        flat = [leaf for leaf in leaves if leaf.dim() < 2]
        matrices = [leaf for leaf in leaves if leaf.dim() >= 2]
        decay = recipe.decay if recipe.grouping == "program" else 0.0
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": recipe.decay}, {"params": flat, "weight_decay": decay}],
            lr=recipe.lr,
            betas=recipe.betas,
        )

    def step(self, ids: "torch.Tensor", following: "torch.Tensor") -> Step:
        """One step."""
        self.done += 1
        rate = self.recipe.rate(self.done)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model.loss(ids, following)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        return Step(loss.item(), rate, norm.item())


# --- data files ---


def tokens(path: Path) -> tuple["torch.Tensor", int]:
    """The tokens of a data file of windows, and how far windows move."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    entry = header["base.0"]
    start, end = entry["data_offsets"]
    kind = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32}[entry["dtype"]]
    found = np.frombuffer(content[begin + start : begin + end], dtype=kind).astype(np.int64)
    return torch.from_numpy(found), int(header["__metadata__"]["presk.window"].split()[1])


def windows(data: "torch.Tensor", starts: "torch.Tensor", length: int) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Texts that begin at some tokens, and what follows each of their tokens."""
    places = starts[:, None] + torch.arange(length)
    return data[places], data[places + 1]


def evaluate(model: GPT, path: Path, length: int, batch: int) -> tuple[float, int]:
    """The mean loss over the whole batches of a data file, in its order; and how many batches these are."""
    data, stride = tokens(path)
    whole = ((len(data) - length - 1) // stride + 1) // batch
    total = 0.0
    with torch.no_grad():
        for number in range(whole):
            starts = (torch.arange(batch) + number * batch) * stride
            total += model.loss(*windows(data, starts, length)).item()
    return total / whole, whole


def main() -> None:
    """Trains, evaluates, prints."""
    parser = argparse.ArgumentParser(description="Trains the model of char_gpt.psk in PyTorch.")
    parser.add_argument("--train", type=Path, required=True, help="a data file of windows one token apart")
    parser.add_argument("--validation", type=Path, help="a data file that is evaluated at the end")
    parser.add_argument("--order", type=Path, help="a .npy file of the windows to train on; without it they are random")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--schedule", type=int, help="the steps of the schedule (default: those of the training)")
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--characters", type=int, default=65, help="of the vocabulary")
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--decay", choices=GROUPINGS, default="program", help="what decays")
    parser.add_argument("--last", type=float, default=0.0, help="the rate that the cosine ends at (nanoGPT: 1e-4)")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    sizes = Sizes(V=given.characters)
    model = GPT(sizes)
    trainer = Trainer(
        model, Recipe(given.schedule or given.steps, last=given.last, warmup=given.warmup, grouping=given.decay)
    )
    data, _ = tokens(given.train)
    order = torch.from_numpy(np.load(given.order)) if given.order else None
    losses = []
    wall, used = time.perf_counter(), time.process_time()
    for number in range(given.steps):
        if order is None:
            starts = torch.randint(len(data) - sizes.C, (given.batch,))
        else:
            starts = order[number * given.batch : (number + 1) * given.batch]
        losses.append(trainer.step(*windows(data, starts, sizes.C)).loss)
        if (number + 1) % 100 == 0:
            print(f"step {number + 1}: loss {losses[-1]:.4f}", flush=True)
    found: dict[str, Any] = {
        "steps": given.steps,
        "loss": losses[-1],
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - used,
        "torch": torch.__version__,
    }
    if given.validation:
        found["validation"], found["batches"] = evaluate(model, given.validation, sizes.C, given.batch)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
