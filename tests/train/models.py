"""Programs of tests of training: a character model of two blocks with dropout, and its text."""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from tests.cli.console import Console

TEXT: Final = "the cat sat on the mat and the rat sat on the cat. " * 40

MODEL: Final = """\
const V : nat = 15
const D : nat = 8
const L : nat = 2
const C : nat = 8
dim B
dim T <= C

type Tokens = idx[V][batch: B, seq: T]
type Acc = (ℝ[batch: B, seq: T, model: D], key)

module Block {
  param w : ℝ[D, hidden: 2*D]  init = normal(std = 0.3)
  param u : ℝ[hidden: 2*D, model: D]  init = normal(std = 0.3)

  fn apply(s : Acc) -> Acc uses Rand =
    let (x, k) = s
    let (k, k1) = split_key(k)
    (x + dropout(0.1, k1, gelu(x · w) · u), k)
}

module Net {
  param tok : ℝ[vocab: V, model: D]  init = normal(std = 0.5)
  param pos : ℝ[C, model: D]  init = normal(std = 0.5)
  use blocks : stack{L}(Block)
  param head : ℝ[model: D, vocab: V]  init = normal(std = 0.5)

  fn apply(ids : Tokens, key : key) -> ℝ[batch: B, seq: T, vocab: V] uses Rand =
    let x = embed(tok, ids) + pos[0..T]
    let (x, _) = blocks.apply((x, key))
    x · head
}

fn loss(θ : params Net, key : key, batch : (Tokens, Tokens), weight : f64 = 1.0) -> ℝ[] uses Rand =
  let (x, y) = batch
  (weight : ℝ) * mean(cross_entropy(Net.apply(θ, x, key), y))

fn generate(θ : params Net, ctx : Tokens, key : key, temperature : f64 = 0.8) -> idx[V][batch: B] uses Rand =
  let (k1, k2) = split_key(key)
  sample(k2, Net.apply(θ, ctx, k1)[seq: -1] / (temperature : ℝ))

optimizer adamw {
  lr           : f64 = 1e-2
  betas        : (f64, f64) = (0.9, 0.99)
  weight_decay : f64 = 0.1
  grad_clip    : f64 = 0.5
  schedule     : cosine(warmup = 3)
}

training run {
  model     = Net
  objective = loss
  optimizer = adamw
  data      = stream "chars.psk.d" |> shuffle(seed = 5) |> batch(B = 4) |> take(n = 15)
  epochs    : nat = 2
  checkpoint every 4 steps to "ckpt/"
}
"""


def sharing(console: Console) -> Console:
    """The console with a store that all tests of training share: what two of them need alike is compiled once."""
    console.env["PRESK_CACHE"] = str(console.folder.parents[1] / "train-cache")
    return console


def prepared(console: Console, model: str = MODEL, text: str = TEXT) -> Console:
    """The folder with the program `net.psk` and its data file, of windows of eight characters."""
    sharing(console)
    console.write("net.psk", model)
    console.write("text.txt", text)
    assert console.presk("data", "pack", "text.txt", "--window", "8", "--out", "chars.psk.d").code == 0
    return console


def tensors(path: Path) -> dict[str, bytes]:
    """The bytes of every tensor of a file."""
    found: dict[str, NDArray[np.generic]] = load_file(path)
    return {name: array.tobytes() for name, array in found.items()}
