"""Fixtures of the tests of native execution."""

from pathlib import Path

import pytest

from tests.cli.console import Console

PROGRAM = """\
const D = 3
dim B

module Net {
  param w : ℝ[D, out: 2]  init = normal(std = 0.5)
  param b : ℝ[out: 2]

  fn apply(x : ℝ[batch: B, D]) -> ℝ[batch: B, out: 2] =
    tanh(x · w + b)
}

fn scaled(x : ℝ[batch: B], rate : f64) -> (ℝ[batch: B], nat) =
  (exp(x) * (rate : ℝ), 3)

fn loss(θ : params Net, x : ℝ[batch: B, D]) -> ℝ[] =
  mean(Net.apply(θ, x)^2)

fn loss_grad(θ : params Net, x : ℝ[batch: B, D]) -> params Net =
  grad(λ θ. loss(θ, x))(θ)

fn weights(s : ℝ[n: 3], keep : bool[n: 3]) -> ℝ[n: 3] =
  softmax(axis n, s, where = keep)
"""


@pytest.fixture
def console(tmp_path: Path) -> Console:
    made = Console(tmp_path)
    made.write("net.psk", PROGRAM)
    return made
