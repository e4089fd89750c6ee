"""Makes the steps of `torch.optim.AdamW` again and compares them with the stored ones; `--write` stores them instead.

Run by `make peers`, in an environment that has PyTorch and nothing of the project. The schedules are written here once more, as a
training loop would write them.
"""

import json
import math
import sys
from typing import Any, Final

import torch  # type: ignore[import-not-found]  # installed by `make peers` alone

from tests.peers.adamw_cases import CASES, RESULTS, SHAPES, Optimizer, gradients, start
from tests.peers.numbers import SCALE

ROUNDINGS: Final = 64


def rate(case: Optimizer, step: int) -> float:
    """The learning rate of a step."""
    kind, warmup = case.schedule or ("constant", 0)
    base = float(case.lr)
    if kind == "constant":
        return base
    if step <= warmup:
        return base * step / warmup
    done = (step - warmup) / (case.total - warmup)
    return base * (1 - done) if kind == "linear" else base * 0.5 * (1 + math.cos(math.pi * done))


def steps(case: Optimizer) -> list[dict[str, Any]]:
    """What every step leaves: learning rate, parameters, both moments, as hexadecimal numbers by path."""
    leaves = {
        path: torch.nn.Parameter(torch.tensor(value.numbers, dtype=torch.float64).reshape(value.shape) / SCALE)
        for path, value in start(case).items()
    }
    given: dict[str, Any] = {"weight_decay": float(case.weight_decay or "0")}
    if case.betas is not None:
        given["betas"] = tuple(map(float, case.betas))
    if case.eps is not None:
        given["eps"] = float(case.eps)
    optimizer = torch.optim.AdamW(leaves.values(), lr=float(case.lr), **given)
    found = []
    for step in case.steps:
        for path, numbers in gradients(case, step).items():
            leaves[path].grad = torch.tensor(numbers, dtype=torch.float64).reshape(SHAPES[path])
        if case.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(leaves.values(), float(case.grad_clip))
        for group in optimizer.param_groups:
            group["lr"] = rate(case, step)
        optimizer.step()
        state = {
            "parameters": leaves,
            "first": {path: optimizer.state[leaf]["exp_avg"] for path, leaf in leaves.items()},
            "second": {path: optimizer.state[leaf]["exp_avg_sq"] for path, leaf in leaves.items()},
        }
        found.append(
            {"lr": rate(case, step).hex()}
            | {what: {path: hexed(leaf) for path, leaf in tree.items()} for what, tree in state.items()}
        )
    return found


def hexed(leaf: "torch.Tensor") -> list[str]:
    """A leaf's numbers in row-major order."""
    return [number.hex() for number in leaf.detach().reshape(-1).tolist()]


def numbers(step: dict[str, Any]) -> list[float]:
    """Every number of a step."""
    return [
        float.fromhex(step["lr"]),
        *(
            float.fromhex(text)
            for what in ("parameters", "first", "second")
            for leaf in step[what].values()
            for text in leaf
        ),
    ]


def agree(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> bool:
    """Whether two runs differ by no more than rounding explains."""
    return len(new) == len(old) and all(
        math.isclose(one, other, rel_tol=ROUNDINGS * 2.0**-53, abs_tol=2.0**-60)
        for mine, theirs in zip(new, old, strict=True)
        for one, other in zip(numbers(mine), numbers(theirs), strict=True)
    )


def main() -> int:
    """1 if something differs."""
    if "--write" in sys.argv[1:]:
        RESULTS.mkdir(parents=True, exist_ok=True)
        for case in CASES:
            text = json.dumps(steps(case), ensure_ascii=False, indent=0) + "\n"
            (RESULTS / f"{case.name}.json").write_text(text, "utf-8")
        return 0
    wrong = [
        case.name
        for case in CASES
        if not agree(steps(case), json.loads((RESULTS / f"{case.name}.json").read_text("utf-8")))
    ]
    for name in wrong:
        print(f"the steps of {name} are not the stored ones")
    print(f"{len(CASES) - len(wrong)} of {len(CASES)} optimizers agree with PyTorch's results")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
