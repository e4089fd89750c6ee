"""Programs of any length for the benchmarks: modules, functions, constants and types that use each other, as real files do."""

UNIT = """\
-- layer {i}
const W{i} : nat = {width} * K
type Acts{i} = ℝ[batch: B, seq: T, model: W{i}]

module Norm{i} {{
  param γ : ℝ[W{i}] init = ones
  param β : ℝ[W{i}] init = zeros
  fn apply(x : ℝ[..., model: W{i}]) -> ℝ[..., model: W{i}] =
    let μ = mean(axis model, x)
    let v = mean(axis model, (x - μ)^2)
    (x - μ) / sqrt(v + 1e-5) * γ + β
}}

module Feed{i} {{
  param w : ℝ[W{i}, inner: 4*W{i}] init = xavier_uniform
  param u : ℝ[inner: 4*W{i}, W{i}] init = xavier_uniform
  use norm : Norm{i}
  fn apply(x : Acts{i}) -> Acts{i} =
    let h = norm.apply(x)
    x + gelu(h · w) · u
}}

module Mix{i} {{
  use feed : Feed{i}
  use norm : Norm{i}
  fn apply(x : Acts{i}, key : key) -> Acts{i} uses Rand =
    let y = dropout(0.1, key, feed.apply(x))
    let s = ein[batch, seq, seq2](y * x) / sqrt({width} : ℝ)
    let a = softmax(axis seq2, s, where = causal_mask(seq: T))
    norm.apply(ein[batch, seq, model](a * y))
}}

fn loss{i}(θ : params Mix{i}, key : key, x : Acts{i}, y : Acts{i}) -> ℝ[] uses Rand =
  mean((Mix{i}.apply(θ, x, key) - y)^2)

fn step{i}(θ : params Mix{i}, key : key, x : Acts{i}, y : Acts{i}) -> params Mix{i} uses Rand =
  grad(λ t. loss{i}(t, key, x, y))(θ)

"""
HEAD = """\
const K : nat = 2
dim B
dim T <= 512

"""


def generated(lines: int) -> str:
    """A program of about so many lines."""
    unit = UNIT.count("\n")
    count = max(1, (lines - HEAD.count("\n")) // unit)
    return HEAD + "".join(UNIT.format(i=i, width=8 + 4 * (i % 7)) for i in range(count))
