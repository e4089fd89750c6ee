"""Trainings, compared step by step with PyTorch's in binary64 (`training_recompute`): the same first parameters, the same text."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from presk.data.leaves import Windows
from presk.data.writing import write_windows
from tests.cli.console import Console
from tests.data.support import container, entry
from tests.peers.draws import key_stream
from tests.peers.numbers import SCALE
from tests.peers.training_cases import CASES, EPOCHS, PER_EPOCH, RESULTS, ROOT, STEPS, Training

F64: Final = 1e-9
"""The relative difference that is allowed in binary64; seen were 1.0·10⁻¹⁵ (loss) and 1.0·10⁻¹⁵ (norm)."""

F32: Final = 2e-6
"""The same in f32: seen were 3.9·10⁻⁷ (loss) and 4.4·10⁻⁷ (norm), six and seven units of 2⁻²⁴.

PyTorch's own f32 is 1.1·10⁻⁷ and 3.0·10⁻⁷ away from its binary64 in the losses. The bits of a run do not depend on the machine, so
the margin is for kernels that come to add in another order; leaving out a row's last terms, or keeping a number in bf16, is beyond it.
"""
RATE: Final = 1e-3
"""The rate at the top of both schedules."""


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


def trained(case: Training, where: Path, realization: str) -> tuple[Console, list[dict[str, Any]]]:
    """Trains; the folder, and the steps as they are logged."""
    console = folder(case, where)
    options = [*constants(case), "--realize", realization, "--seed", str(case.keys)]
    ran = console.presk("train", "main.psk", *options, "--params", "first.safetensors", "--log", "log.jsonl")
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (console.folder / "log.jsonl").read_text("utf-8").splitlines()]
    return console, [line for line in lines if line["kind"] == "step"]


def distance(steps: list[dict[str, Any]], case: Training, what: str, scale: float | None = None) -> float:
    """The largest difference of a figure from PyTorch's in a training, relative to PyTorch's, or to a scale."""
    theirs = [float(text) for text in stored(case)[what]]
    return max(
        abs(float(step[what]) - other) / (scale or abs(other)) for step, other in zip(steps, theirs, strict=True)
    )


def tensors(path: Path) -> dict[str, NDArray[np.float64]]:
    """The tensors of a checkpoint in binary64, flat; read without the project's reader."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    found = {}
    for name, one in header.items():
        if name != "__metadata__":
            assert one["dtype"] == "F64"
            start, end = one["data_offsets"]
            found[name] = np.frombuffer(content[begin + start : begin + end], dtype="<f8")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_step_and_the_last_parameters_are_pytorchs(case: Training, tmp_path: Path) -> None:
    console, steps = trained(case, tmp_path, "f64")
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert [step["epoch"] for step in steps] == [epoch for epoch in range(EPOCHS) for _ in range(PER_EPOCH)]
    assert distance(steps, case, "loss") <= F64
    assert distance(steps, case, "norm") <= F64
    # The schedule ends at 0, where nothing is relative.
    assert distance(steps, case, "rate", RATE) <= F64
    (path,) = console.folder.rglob("final.safetensors")
    found = tensors(path)
    parameters = stored(case)["parameters"]
    assert set(parameters) == set(case.shapes)
    for name, spots in parameters.items():
        norm, *numbers = map(float, spots)
        leaf = found[name]
        assert float(np.linalg.norm(leaf)) == pytest.approx(norm, rel=F64), name
        for place, number in zip((0, len(leaf) // 3, len(leaf) - 1), numbers, strict=True):
            assert abs(float(leaf[place]) - number) <= F64 * norm, name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_in_f32_every_step_is_within_the_measured_gap(case: Training, tmp_path: Path) -> None:
    _, steps = trained(case, tmp_path, "f32")
    losses, norms = distance(steps, case, "loss"), distance(steps, case, "norm")
    assert 0 < losses <= F32
    assert 0 < norms <= F32
    assert distance(steps, case, "rate", RATE) <= F32


def test_the_trainings_learn_and_clip() -> None:
    """What is compared is a training: the loss falls, and gradients are clipped; in one of the two not all of them."""
    for case in CASES:
        losses = [float(text) for text in stored(case)["loss"]]
        assert max(losses[-PER_EPOCH:]) < 0.9 * min(losses[:PER_EPOCH])
    course, nanogpt = ([float(text) for text in stored(case)["norm"]] for case in CASES)
    assert min(course) > 1
    assert min(nanogpt) < 2 < max(nanogpt)


def test_the_key_stream_of_the_masks_is_the_standards() -> None:
    """RFC 8439, 2.3.2."""
    made = key_stream(bytes(range(32)), bytes.fromhex("000000090000004a00000000"), 1, 1)
    assert made[:16] == bytes.fromhex("10f1e7e4d13b5915500fdd1fa32071c4")
    assert made[-16:] == bytes.fromhex("b5129cd1de164eb9cbd083e8a2503c4e")


def test_the_recipe_is_run_with_one_command(tmp_path: Path) -> None:
    """The experiment without PyTorch, for two steps of the model at its size, on a text of few characters."""
    text = tmp_path / "text.txt"
    text.write_text("".join("abcdefgh ijk\n"[number % 13] for number in range(9_000)), "utf-8")
    command = [sys.executable, str(ROOT / "experiments" / "nanogpt" / "run.py"), "--text", str(text), "--steps", "2"]
    ran = subprocess.run([*command, "--work", str(tmp_path / "work")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "train GPT  2 steps  768 tokens/step" in ran.stdout
    row = ran.stdout.splitlines()[-1].split()
    assert row[:2] == ["Presk,", "f32"]
    # 13 characters, each as likely as the others: ln 13 = 2.565, and a step has brought it down.
    assert 1 < float(row[2]) < 2.565
