"""Makes the results of the peers again and compares them with the stored ones; `--write` stores them instead.

Run by `make peers`, in an environment that has PyTorch and nothing of the project.
"""

import json
import sys
from typing import Any

from tests.peers.numbers import CASES, RESULTS, given
from tests.peers.torch_models import loss_and_gradient


def result() -> dict[str, Any]:
    """Every case's loss and gradient, in hexadecimal."""
    found = {}
    for case in CASES:
        loss, gradient = loss_and_gradient(given(case), case)
        leaves = {path: [number.hex() for number in numbers] for path, numbers in gradient.items()}
        found[case.name] = {"loss": loss.hex(), "gradient": leaves}
    return found


def disagreement(case_name: str, roundings: int, new: dict[str, Any], old: dict[str, Any]) -> str | None:
    """How two results of a case differ by more than rounding explains; None if they do not."""
    numbers = [("loss", new["loss"], old["loss"])]
    for path, leaf in new["gradient"].items():
        numbers += [(path, one, other) for one, other in zip(leaf, old["gradient"][path], strict=True)]
    scale = max(abs(float.fromhex(text)) for _, _, text in numbers)
    for path, one, other in numbers:
        distance = abs(float.fromhex(one) - float.fromhex(other))
        if not distance <= 2.0**-53 * roundings * max(1.0, scale):
            return f"{case_name} {path}: {one} and stored {other}"
    return None


def main() -> int:
    """1 if something differs."""
    found = result()
    if "--write" in sys.argv[1:]:
        RESULTS.mkdir(exist_ok=True)
        for name, value in found.items():
            (RESULTS / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False, indent=0) + "\n", "utf-8")
        return 0
    stored = {case.name: json.loads((RESULTS / f"{case.name}.json").read_text("utf-8")) for case in CASES}
    wrong = [disagreement(case.name, case.roundings, found[case.name], stored[case.name]) for case in CASES]
    for text in filter(None, wrong):
        print(text)
    print(f"{len(CASES) - sum(map(bool, wrong))} of {len(CASES)} cases agree with PyTorch's results")
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
