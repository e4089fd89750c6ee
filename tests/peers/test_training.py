"""Trainings, compared step by step with PyTorch's in binary64 (`training_recompute`): the same first parameters, the same text."""

import json
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from presk.data.leaves import Windows
from presk.data.writing import write_windows
from tests.cli.console import Console
from tests.data.support import container, entry
from tests.peers.draws import order
from tests.peers.numbers import SCALE
from tests.peers.training_cases import CASES, EPOCHS, PER_EPOCH, RESULTS, STEPS, Training

F64: Final = 1e-9
"""What issues of rounding may come to in 50 steps, relatively; seen are 2·10⁻¹⁵."""


def folder(case: Training, where: Path) -> Console:
    """A folder with the program, its data and its first parameters."""
    made = Console(where)
    made.write("main.psk", case.text())
    path = made.folder / case.data
    path.parent.mkdir()
    text = np.array(case.tokens().numbers)
    write_windows(path, text, case.const["V"], Windows(case.length + 1, case.stride), 2)
    made.write("first.safetensors", first_parameters(case))
    return made


def first_parameters(case: Training) -> bytes:
    """The first parameters as a file of tensors."""
    header, data = {}, b""
    for path, (leaf, power) in case.start().items():
        numbers = (np.array(leaf.numbers, dtype="<f8") * 2.0**power / SCALE).tobytes()
        header[path] = entry("F64", leaf.shape, len(data), len(data) + len(numbers))
        data += numbers
    return container(header, data)


def stored(case: Training) -> dict[str, Any]:
    """What PyTorch found."""
    found: dict[str, Any] = json.loads((RESULTS / f"{case.name}.json").read_text("utf-8"))
    return found


def constants(case: Training) -> list[str]:
    """The options with the case's constants."""
    return [option for name, value in case.const.items() for option in ("--const", f"{name}={value}")]


def trained(case: Training, where: Path, realization: str) -> list[dict[str, Any]]:
    """The steps that a training logs."""
    console = folder(case, where)
    options = [*constants(case), "--realize", realization, "--seed", str(case.keys)]
    ran = console.presk("train", "main.psk", *options, "--params", "first.safetensors", "--log", "log.jsonl")
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (console.folder / "log.jsonl").read_text("utf-8").splitlines()]
    return [line for line in lines if line["kind"] == "step"]


def distance(steps: list[dict[str, Any]], case: Training, what: str) -> float:
    """The largest relative difference of a figure from PyTorch's in a training."""
    theirs = [float(text) for text in stored(case)[what]]
    return max(abs(step[what] - other) / abs(other) for step, other in zip(steps, theirs, strict=True) if other != 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_step_is_pytorchs(case: Training, tmp_path: Path) -> None:
    steps = trained(case, tmp_path, "f64")
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert [step["epoch"] for step in steps] == [epoch for epoch in range(EPOCHS) for _ in range(PER_EPOCH)]
    for what in ("loss", "rate", "norm"):
        assert distance(steps, case, what) <= F64, what
    # The schedule ends at 0.
    assert abs(steps[-1]["rate"]) < 1e-18
