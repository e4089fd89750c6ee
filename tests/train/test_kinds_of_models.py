"""Training runs of other kinds than a character model: each first step is that of the exact reference."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from presk.data.leaves import leaves_of
from presk.data.reading import DataFile
from presk.data.stream import Stream
from presk.data.writing import write_samples
from presk.exact import draws
from presk.types.type import Index, Mask, Real
from tests.cli.console import Console
from tests.data.support import sample_of
from tests.train.models import sharing

END: Final = """
optimizer adamw {
  lr       = 0.01
  schedule = linear(warmup = 1)
}

training run {
  model     = MODEL
  objective = loss
  optimizer = adamw
  data      = stream "data.psk.d" |> shuffle(seed = 2) |> batch(B = 3)
  checkpoint every 2 steps to "out"
}
"""

REGRESSION: Final = """\
dim B

module Lin{In Out : dim} {
  param w : ℝ[In, Out]  init = normal(std = 0.5)
  param b : ℝ[Out]

  fn apply(x : ℝ[batch: B, In]) -> ℝ[batch: B, Out] = tanh(x · w + b)
}

fn loss(θ : params Lin{K, 2}, batch : (ℝ[batch: B, K], ℝ[batch: B, 2]), scale : f64 = 2.5, shift : nat = 3) -> ℝ[] =
  let (x, y) = batch
  (scale : ℝ) * mean((Lin.apply(θ, x) - y)^2) + (shift : ℝ)
"""
"""The objective's K is the model's; it has defaults; the batch is of reals, of which no gradient is asked for."""

LAST: Final = """\
dim B

module Table {
  param w : ℝ[7, model: 3]  init = normal(std = 0.5)
}

fn loss(θ : params Table, batch : (idx[7][seq: 2, batch: B], bool[batch: B])) -> ℝ[] =
  let (i, keep) = batch
  let x = sum(axis seq, sum(axis model, embed(θ.w, i)^2))
  mean(softmax(axis batch, x, where = keep) * x)
"""
"""The batch's axis is the last one of a leaf; a leaf of truth values."""

DROPPED: Final = """\
dim B

module Net {
  param w : ℝ[4, model: 5]  init = normal(std = 0.5)
}

fn loss(θ : params Net, step : key, batch : ℝ[batch: B, 4]) -> ℝ[] uses Rand =
  mean(dropout(0.5, step, batch · θ.w)^2)
"""
"""The batch is one tensor, and the key of a step has a name of its own."""

CASES: Final = {
    "regression": (REGRESSION + END.replace("MODEL", "Lin{3, 2}"), "(ℝ[3], ℝ[2])"),
    "last": (LAST + END.replace("MODEL", "Table"), "(idx[7][seq: 2], bool[])"),
    "dropped": (DROPPED + END.replace("MODEL", "Net"), "ℝ[4]"),
}
COUNT: Final = 13


def samples(sample: str, path: Path) -> None:
    """Writes a data file of samples of a type."""
    generator = np.random.default_rng(5)
    type_ = sample_of(sample)
    arrays: list[NDArray[Any]] = []
    for leaf in leaves_of(type_):
        shape = (COUNT, *leaf.lengths)
        match leaf.type:
            case Index():
                arrays.append(generator.integers(0, leaf.bound, shape))
            case Mask():
                arrays.append(generator.random(shape) < 0.9)
            case Real():
                arrays.append(generator.standard_normal(shape))
    write_samples(path, type_, arrays)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("remat", ["store", "recompute"])
def test_the_first_step_is_that_of_the_exact_reference(tmp_path: Path, name: str, remat: str) -> None:
    text, sample = CASES[name]
    console = sharing(Console(tmp_path))
    console.write("main.psk", text)
    samples(sample, console.folder / "data.psk.d")
    ran = console.presk("train", "main.psk", "--seed", "4", "--realize", "f64", "--log", "log.jsonl", "--remat", remat)
    assert ran.code == 0, ran.err
    line = next(
        one for one in map(json.loads, (console.folder / "log.jsonl").read_text().splitlines()) if one["kind"] == "step"
    )
    with DataFile(console.folder / "data.psk.d", "data.psk.d") as data:
        stream = Stream(data, seed=2, batch=3)
        leaves = stream.batch(stream.position(0)).leaves
    options = ["--mode", "training", "--seed", "4", "--arg", "t=1", "--arg", "total=4", "--json"]
    for place, leaf in enumerate(leaves):
        if name == "last" and place == 0:
            leaf = np.moveaxis(leaf, 0, -1)
        np.save(console.folder / f"{place}.npy", leaf)
        options += ["--input", f"batch{f'.{place}' if len(leaves) > 1 else ''}={place}.npy"]
    if name == "dropped":
        options += ["--arg", f"key={draws.child(draws.child(draws.master_key(4), 1), 1).hex()}"]
    exact = console.presk("run", "main.psk", "--entry", "training.step", *options)
    assert exact.code == 0, exact.err
    for what, value in zip(("loss", "norm", "rate"), json.loads(exact.out)["result"][:3], strict=True):
        assert line[what] == pytest.approx(float(value["data"]), rel=1e-12), what


def test_no_derivative_of_the_data_is_computed(tmp_path: Path) -> None:
    text, sample = CASES["regression"]
    console = sharing(Console(tmp_path))
    console.write("main.psk", text)
    samples(sample, console.folder / "data.psk.d")
    shown = console.presk("dump", "main.psk", "--stage", "core-after-ad", "--entry", "training.step").out
    assert "call loss.value_vjp" in shown and "dot_vjp_r" in shown and "dot_vjp_l" not in shown


def test_the_step_in_the_core(tmp_path: Path) -> None:
    text, sample = CASES["regression"]
    console = sharing(Console(tmp_path))
    console.env["PRESK_VERIFY"] = "1"
    console.write("main.psk", text)
    samples(sample, console.folder / "data.psk.d")
    for stage in ("core", "core-after-ad", "realize"):
        ran = console.presk("dump", "main.psk", "--stage", stage, "--entry", "training.step", "--mode", "training")
        assert ran.code == 0 and "training.step" in ran.out, ran.err
    assert (
        "call loss.value_vjp{K = 3, B = B"
        in console.presk("dump", "main.psk", "--stage", "core", "--entry", "training.step").out
    )
    console.write("none.psk", REGRESSION)
    ran = console.presk("dump", "none.psk", "--stage", "core", "--entry", "training.step")
    assert ran.code == 2 and "has no function `training.step`" in ran.err
