"""PyTorch's side of `bench_peers`: a process that measures one task after the other, as it is asked, on one line of JSON each.

It runs in an environment that has PyTorch and nothing of the project: `make peers` makes it.
A request is `{"task": …, "threads": …, "seconds": …}`; the answer is the median of the times of calls, in seconds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch  # type: ignore[import-not-found]  # installed by `make peers` alone
import torch.nn.functional as F  # type: ignore[import-not-found]  # likewise

from tests.bench.tasks import EINS, GPTS, NORMED, PRODUCTS, ROWS
from tests.peers.numbers import Case, shapes
from tests.peers.torch_models import Tree, linear, norm

Call = Callable[[], Any]


def attention(p: Tree, x: "torch.Tensor", heads: int) -> "torch.Tensor":
    """Causal self-attention by PyTorch's own fused function."""
    batch, length, width = x.shape
    q, k, v = (
        linear(p, f"attn.{name}", x).view(batch, length, heads, width // heads).transpose(1, 2)
        for name in ("wq", "wk", "wv")
    )
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(p, "attn.wo", mixed.transpose(1, 2).reshape(batch, length, width))


def logits(p: Tree, ids: "torch.Tensor", case: Case) -> "torch.Tensor":
    """The course GPT's, without dropout."""
    x = p["tok"][ids] + p["pos"][: ids.shape[1]]
    layers = {path.removeprefix("blocks."): leaf.unbind() for path, leaf in p.items() if path.startswith("blocks.")}
    for layer in range(case.sizes["L"]):
        block = {path: leaf[layer] for path, leaf in layers.items()}
        x = x + attention(block, norm(block, "norm1", x), case.sizes["H"])
        x = x + linear(block, "ff.down", F.gelu(linear(block, "ff.up", norm(block, "norm2", x))))
    return norm(p, "norm", x) @ p["head"]


@cache
def gpt(name: str) -> tuple[Tree, "torch.Tensor", "torch.Tensor", Case]:
    """Parameters, a batch and the following tokens."""
    sizes, dims = GPTS[name]
    case = Case(name, "gpt", sizes, dims)
    torch.manual_seed(1)
    p = {
        path: torch.ones(shape) if path.endswith("γ") else 0.02 * torch.randn(shape)
        for path, shape in shapes(case).items()
    }
    ids = torch.randint(sizes["V"], (2, dims["B"], dims["T"]))
    return p, ids[0], ids[1], case


def forward(name: str) -> "torch.Tensor":
    p, ids, _, case = gpt(name)
    with torch.no_grad():
        return logits(p, ids, case)


def loss_of(p: Tree, name: str) -> "torch.Tensor":
    _, ids, following, case = gpt(name)
    return F.cross_entropy(logits(p, ids, case).flatten(0, 1), following.flatten())


def loss(name: str) -> "torch.Tensor":
    with torch.no_grad():
        return loss_of(gpt(name)[0], name)


def gradient(name: str) -> Any:
    p = {path: leaf.requires_grad_() for path, leaf in gpt(name)[0].items()}
    try:
        return torch.autograd.grad(loss_of(p, name), list(p.values()))
    finally:
        for leaf in p.values():
            leaf.requires_grad_(False)


@cache
def call(task: str) -> Call:
    """What a task is."""
    kind, _, name = task.partition(" ")
    if kind in ("product", "left", "right"):
        m, k, n = PRODUCTS[name]
        x, w, ct, out = torch.randn(m, k), torch.randn(k, n), torch.randn(m, n), torch.empty(m, n)
        match kind:
            case "product":
                return partial(torch.mm, x, w, out=out)
            case "left":
                return partial(torch.mm, ct, w.T, out=torch.empty(m, k))
            case _:
                return partial(torch.mm, x.T, ct, out=torch.empty(k, n))
    if kind == "ein":
        spec, one, other = EINS[name]
        return partial(torch.einsum, spec, torch.randn(one), torch.randn(other))
    match kind:
        case "softmax":
            return partial(torch.softmax, torch.randn(ROWS), -1)
        case "layernorm":
            width = NORMED[-1]
            return partial(F.layer_norm, torch.randn(NORMED), (width,), torch.ones(width), torch.zeros(width), 1e-5)
        case "gelu":
            return partial(F.gelu, torch.randn(ROWS))
        case "forward":
            return partial(forward, name)
        case "loss":
            return partial(loss, name)
        case "gradient":
            return partial(gradient, name)
        case _:
            raise ValueError(task)


def median(run: Call, seconds: float) -> float:
    """The median time of calls, after one that is not counted."""
    run()
    times: list[float] = []
    ends = time.perf_counter() + seconds
    while not times or time.perf_counter() < ends:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    print(json.dumps(torch.__version__), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        torch.set_num_threads(asked["threads"])
        print(json.dumps(median(call(asked["task"]), asked["seconds"])), flush=True)


if __name__ == "__main__":
    main()
