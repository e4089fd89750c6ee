"""The exact reference against what PyTorch made of the same numbers: losses and gradients of the perceptron, MiniGPT, the course GPT.

The distance is what rounding in binary64 explains, to first order: a unit of roundoff for each rounding on the way of one number
through the model and back (`Case.roundings`), of the size of the largest component. Normalizations amplify, by 1/σ, and rounding
errors cancel for the most part; that the bound is far from either is part of the test.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from presk.check import check_program
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.elab.files import FolderReader
from presk.exact.given import Given
from presk.types.dim import constant
from tests.peers.numbers import CASES, RESULTS, SCALE, Case, Tensor, given, nested, shapes
from tests.programs.running import Core, engine
from tests.programs.values import plain

CORPUS: Final = Path(__file__).resolve().parents[2] / "corpus"
FILES: Final = {"mlp": "basics/mlp.psk", "minigpt": "nlp/minigpt.psk", "gpt": "nlp/05_gpt.psk"}
ENTRIES: Final = {"mlp": ("mse", "mse_grad"), "minigpt": ("loss", "loss_grad"), "gpt": ("loss", "loss_grad")}
BITS: Final = 160
UNIT: Final = 2.0**-53


def program(case: Case) -> Core:
    """The core of the model's program, with the case's constants."""
    own, reader = engine(), FolderReader(CORPUS / FILES[case.model])
    const = {name: constant(value) for name, value in case.const.items()}
    found = check_program(own, reader, reader.main, reader.main, const)
    assert not isinstance(found, str) and not found[0].failed
    return Core(found[1], lower_program(own, found[1], Mode.INFERENCE, ENTRIES[case.model]))


def inputs(case: Case) -> dict[str, Given]:
    """The case's numbers, as files."""
    numbers = given(case)
    x, y = numbers.batch
    batch: Mapping[str, Any] = {"x": _reals(x), "y": _reals(y)}
    if case.model != "mlp":
        batch = {"batch": [_indices(x), _indices(y)]}
    tree = nested({path: _reals(leaf) for path, leaf in numbers.parameters.items()})
    return {name: Given(f"{name}.json", json.dumps(value).encode()) for name, value in {"θ": tree, **batch}.items()}


def _reals(value: Tensor) -> dict[str, Any]:
    # A number of ten binary places is a finite decimal, and Python writes the one that the double is.
    numbers = [format(number / SCALE, ".12f") for number in value.numbers]
    assert all(float(text) * SCALE == number for text, number in zip(numbers, value.numbers))
    return {"shape": list(value.shape), "data": np.array(numbers, dtype=object).reshape(value.shape).tolist()}


def _indices(value: Tensor) -> dict[str, Any]:
    return {"shape": list(value.shape), "data": np.array(value.numbers).reshape(value.shape).tolist()}


def leaves(tree: Any, path: str) -> list[Any]:
    """The numbers of a leaf of a gradient, in row-major order."""
    for name in path.split("."):
        tree = tree[name]
    return list(tree.ravel())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pytorch_agrees(case: Case) -> None:
    stored = json.loads((RESULTS / f"{case.name}.json").read_text("utf-8"))
    made, files = program(case), inputs(case)
    words = {"key": "1"} if case.model == "gpt" else {}
    after = made.after()
    value, gradient = (
        plain(made.given(after, entry, case.dims, files, bits=BITS, words=words).value) for entry in ENTRIES[case.model]
    )
    pairs = [(value[()], float.fromhex(stored["loss"]))]
    for path in shapes(case):
        theirs = [float.fromhex(text) for text in stored["gradient"][path]]
        pairs += list(zip(leaves(gradient, path), theirs, strict=True))
    scale = max(1.0, *(abs(other) for _, other in pairs))
    distance = max(abs(float(one - other)) for one, other in pairs)
    assert distance <= UNIT * case.roundings * scale
    # A case whose gradient is zero, or whose results nobody computed in binary64, would show nothing.
    assert distance > 0 and sum(other != 0 for _, other in pairs) > len(pairs) // 2


def test_the_results_are_those_of_the_cases() -> None:
    assert sorted(path.stem for path in RESULTS.glob("*.json")) == sorted(case.name for case in CASES)
    for case in CASES:
        stored = json.loads((RESULTS / f"{case.name}.json").read_text("utf-8"))
        assert list(stored["gradient"]) == list(shapes(case))
