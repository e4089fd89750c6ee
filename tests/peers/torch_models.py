"""The perceptron, MiniGPT and the course GPT in PyTorch, written from their description and not from any output of the compiler.

Parameters are a dictionary by path; those of the blocks have the layer as their first axis. Dropout is left out: a loss that is
looked at, and not trained, is the inference reading.
"""

from collections.abc import Mapping

import torch  # type: ignore[import-not-found]  # installed by `make peers` alone
import torch.nn.functional as F  # type: ignore[import-not-found]  # likewise

from tests.peers.numbers import SCALE, Case, Given, Tensor, shapes

Tree = Mapping[str, "torch.Tensor"]


def tensor(value: Tensor) -> "torch.Tensor":
    """Reals in binary64, exactly."""
    return torch.tensor(value.numbers, dtype=torch.float64).reshape(value.shape) / SCALE


def tokens(value: Tensor) -> "torch.Tensor":
    """Indices."""
    return torch.tensor(value.numbers, dtype=torch.int64).reshape(value.shape)


def linear(p: Tree, path: str, x: "torch.Tensor") -> "torch.Tensor":
    """x W + b."""
    return x @ p[f"{path}.w"] + p[f"{path}.b"]


def norm(p: Tree, path: str, x: "torch.Tensor") -> "torch.Tensor":
    """Layer normalization along the last axis."""
    return F.layer_norm(x, (x.shape[-1],), p[f"{path}.γ"], p[f"{path}.β"], eps=1e-5)


def attention(p: Tree, x: "torch.Tensor", heads: int) -> "torch.Tensor":
    """Causal self-attention; head h has the features h·HD … (h + 1)·HD − 1."""
    batch, length, width = x.shape
    q, k, v = (
        linear(p, f"attn.{name}", x).view(batch, length, heads, width // heads).transpose(1, 2)
        for name in ("wq", "wk", "wv")
    )
    scores = q @ k.transpose(-2, -1) / (width // heads) ** 0.5
    allowed = torch.ones(length, length, dtype=torch.bool).tril()
    weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
    joined = (weights @ v).transpose(1, 2).reshape(batch, length, width)
    return linear(p, "attn.wo", joined)


def transformer(p: Tree, ids: "torch.Tensor", case: Case) -> "torch.Tensor":
    """The logits of either language model."""
    up, down = ("mlp.l1", "mlp.l2") if case.model == "minigpt" else ("ff.up", "ff.down")
    x = p["tok"][ids] + p["pos"][: ids.shape[1]]
    for layer in range(case.sizes["L"]):
        block = {path.removeprefix("blocks."): leaf[layer] for path, leaf in p.items() if path.startswith("blocks.")}
        x = x + attention(block, norm(block, "norm1", x), case.sizes["H"])
        x = x + linear(block, down, F.gelu(linear(block, up, norm(block, "norm2", x))))
    return norm(p, "norm", x) @ p["head"]


def loss(p: Tree, given: Given, case: Case) -> "torch.Tensor":
    """The squared error of the perceptron; the mean cross-entropy of a language model."""
    if case.model == "mlp":
        x, y = map(tensor, given.batch)
        return ((linear(p, "l2", F.gelu(linear(p, "l1", x))) - y) ** 2).mean()
    ids, following = map(tokens, given.batch)
    logits = transformer(p, ids, case)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), following.reshape(-1))


def loss_and_gradient(given: Given, case: Case) -> tuple[float, dict[str, list[float]]]:
    """The loss, and its gradient in every leaf, in row-major order."""
    p = {path: tensor(given.parameters[path]).requires_grad_() for path in shapes(case)}
    value = loss(p, given, case)
    leaves = torch.autograd.grad(value, list(p.values()), allow_unused=True, materialize_grads=True)
    return value.item(), {path: leaf.reshape(-1).tolist() for path, leaf in zip(p, leaves)}
