"""`presk run` and what `presk dump` shows of the same programs: readings, policies, keys, refusals."""

import json
from fractions import Fraction
from typing import Any, Final

import pytest

from tests.cli.console import Console
from tests.conftest import Golden

PROGRAM: Final = """\
const L = 3
dim B
dim N
dim T

type Acts = ℝ[batch: B, model: 2]
type Acc = (Acts, key)

module Linear {
  param w : ℝ[2, 2]  init = normal(std = 0.5)
  param b : ℝ[2]     init = ones
  param z : ℝ[2]
  fn apply(x : ℝ[..., 2]) -> ℝ[..., 2] = tanh(x · w) * b + z
}

module Plain {
  use blocks : stack{L}(Linear)
  fn apply(x : Acts) -> Acts = blocks.apply(x)
}

-- One key for every layer: every layer drops the same.
module Alike {
  fn apply(x : Acts, k : key) -> Acts uses Rand = dropout(0.5, k, x)
}
module AllAlike {
  use blocks : stack{L}(Alike)
  fn apply(x : Acts, k : key) -> Acts uses Rand = blocks.apply(x, k)
}

-- The key is carried: every layer drops its own.
module Apart {
  fn apply(s : Acc) -> Acc uses Rand =
    let (x, k) = s
    let (k1, k2) = split_key(k)
    (dropout(0.5, k1, x), k2)
}
module AllApart {
  use blocks : stack{L}(Apart)
  fn apply(x : Acts, k : key) -> Acts uses Rand =
    let (y, _) = blocks.apply((x, k))
    y
}

fn loss(θ : params Plain, x : Acts) -> ℝ = sum(Plain.apply(θ, x)^2)
fn slope(θ : params Plain, x : Acts) -> params Plain = grad(λ θ. loss(θ, x))(θ)
fn alike(θ : params AllAlike, k : key, x : Acts) -> Acts uses Rand = AllAlike.apply(θ, x, k)
fn apart(θ : params AllApart, k : key, x : Acts) -> Acts uses Rand = AllApart.apply(θ, x, k)
fn drop(k : key, x : ℝ[n: N]) -> ℝ[n: N] uses Rand = dropout(0.25, k, x)
fn halves(k : key) -> (key, key) uses Rand = split_key(k)
fn average(x : ℝ[n: N]) -> ℝ = mean(axis n, x)
fn quotient(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ[n: N] = x / y
fn mask() -> bool[seq: T, seq2: T] = causal_mask(seq: T)
fn unnamed(x : ℝ[N]) -> ℝ[N] = x
fn renamed(x : ℝ[N]) -> ℝ = mean(axis n, (unnamed(x) : ℝ[n: N]))
fn tree(θ : params Linear) -> params Linear = θ
fn reader(θ : params Linear, x : ℝ[n: N]) -> ℝ = sum(x) + sum(θ.w)
"""


@pytest.fixture
def program(console: Console) -> Console:
    console.write("main.psk", PROGRAM)
    return console


def result(console: Console, entry: str, *options: str) -> Any:
    """What a run gives, as JSON."""
    ran = console.presk("run", "main.psk", "--entry", entry, "--json", *options)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["result"]


def reals(found: Any) -> list[Fraction]:
    """The real numbers of a result, in order."""
    if isinstance(found, dict):
        return [one for item in (found.get("data", list(found.values())),) for one in reals(item)]
    if isinstance(found, list):
        return [one for item in found for one in reals(item)]
    return [Fraction(found)]


def test_what_people_see(program: Console, golden: Golden) -> None:
    program.presk("run", "main.psk", "--entry", "loss", "--dim", "B=2", "--seed", "1")
    program.presk("run", "main.psk", "--entry", "loss", "--dim", "B=2", "--seed", "1", "--bits", "64", "--bounds")
    program.presk("run", "main.psk", "--entry", "tree")
    program.presk("run", "main.psk", "--entry", "mask", "--dim", "T=3")
    program.presk("run", "main.psk", "--entry", "halves", "--arg", "k=7")
    program.presk("run", "main.psk", "--entry", "average", "--dim", "N=0")
    program.presk("run", "main.psk", "--entry", "average")
    program.presk("run", "main.psk", "--entry", "average", "--dim", "M=2")
    program.presk("run", "main.psk", "--entry", "los", "--dim", "B=2")
    program.presk("run", "main.psk")
    program.write("x.json", "[1, 2]")
    program.write("y.json", "[4, 0]")
    program.presk("run", "main.psk", "--entry", "quotient", "--input", "x=x.json", "--input", "y=y.json")
    golden("cli/run.txt", program.transcript)


def test_every_way_to_a_gradient_gives_the_same_digits(program: Console) -> None:
    """Stored or computed again, a loop or its unrolled form: the same to the last digit."""
    given = ("--dim", "B=2", "--seed", "3")
    stored = result(program, "slope", *given)
    assert len(reals(stored)) == 3 * (4 + 2 + 2)
    for ways in (("--remat", "store"), ("--remat", "recompute"), ("--unroll-stack",), ("--mode", "training")):
        assert result(program, "slope", *given, *ways) == stored
    assert result(program, "loss", *given, "--unroll-stack") == result(program, "loss", *given)


def test_the_policies_show_in_a_dump(program: Console) -> None:
    """L334, L343: what a gradient keeps is decided by `--remat`, what it holds for fusion groups by `--realize`."""

    def dumped(*options: str) -> str:
        return program.presk("dump", "main.psk", "--stage", "core-after-ad", "--entry", "slope", *options).out

    assert dumped() == dumped("--remat", "store") == dumped("--realize", "f32") == dumped("--realize", "f64")
    assert "fn Linear.apply.bwd" in dumped() and "fn loss.fwd" in dumped()
    assert ".fwd" not in dumped("--remat", "recompute") and "fn Plain.apply.vjp" in dumped("--remat", "recompute")
    assert dumped("--realize", "bf16") != dumped()
    assert " fold " in dumped() and " fold " not in dumped("--unroll-stack")


def test_pruned_before_anything_is_shown_or_run(program: Console) -> None:
    """L320: the value that `grad` discards is gone from what a command shows."""
    shown = program.presk("dump", "main.psk", "--stage", "core-after-ad", "--entry", "slope", "--remat", "recompute")
    body = shown.out.partition("fn slope.lambda0.vjp")[2].partition("\n}\n")[0]
    assert "call loss.vjp" in body and "call loss{" not in body


def test_stacks_of_none(program: Console) -> None:
    """L248: the value is the argument, the gradient a tree of empty tensors."""
    given = ("--const", "L=0", "--dim", "B=2", "--seed", "3")
    for ways in ((), ("--unroll-stack",), ("--remat", "recompute")):
        found = result(program, "slope", *given, *ways)
        assert [leaf["shape"] for leaf in found["blocks"].values()] == [[0, 2, 2], [0, 2], [0, 2]]
        assert result(program, "loss", *given, *ways)["shape"] == []


# --- draws --------------------------------------------------------------------------------------------------------------


def test_dropout_in_both_readings(program: Console) -> None:
    """L418: a run evaluates the model at its expectation; `--mode training` draws, by the key alone."""
    program.write("ones.json", json.dumps([1] * 400))
    ones = ("--input", "x=ones.json")
    assert reals(result(program, "drop", *ones)) == [1] * 400
    drawn = reals(result(program, "drop", *ones, "--mode", "training", "--arg", "k=9", "--bits", "100"))
    kept = drawn.count(max(drawn))
    # Inverted dropout: 0 in a quarter of the places, 4/3 in the others, within five deviations.
    assert set(drawn) == {Fraction(0), max(drawn)} and abs(max(drawn) - Fraction(4, 3)) < Fraction(1, 2**98)
    assert abs(kept - 300) < 5 * (400 * 3 / 16) ** 0.5
    again = reals(result(program, "drop", *ones, "--mode", "training", "--arg", "k=9", "--bits", "100", "--seed", "8"))
    assert again == drawn
    other = reals(result(program, "drop", *ones, "--mode", "training", "--arg", "k=10", "--bits", "100"))
    assert other != drawn


def test_dump_shows_the_inference_reading_unless_told(program: Console) -> None:
    """L264."""
    shown = program.presk("dump", "main.psk", "--stage", "core", "--entry", "drop").out
    assert shown == program.presk("dump", "main.psk", "--stage", "core", "--entry", "drop", "--mode", "inference").out
    drawn = program.presk("dump", "main.psk", "--stage", "core", "--entry", "drop", "--mode", "training").out
    assert "dropout_mask" in drawn and "dropout_mask" not in shown and "mul" not in shown


def test_keys_through_stacks(program: Console) -> None:
    """L414: three layers with one key drop the same places; with a key that is carried each drops its own."""
    program.write("ones.json", json.dumps([[1, 1]] * 100))
    given = ("--input", "x=ones.json", "--mode", "training", "--arg", "k=4", "--seed", "6")
    alike, apart = (reals(result(program, entry, *given)) for entry in ("alike", "apart"))
    # What is kept has been doubled three times.
    assert set(alike) == set(apart) == {0, 8}
    assert abs(alike.count(Fraction(8)) - 100) < 5 * 50**0.5
    assert abs(apart.count(Fraction(8)) - 25) < 5 * (200 * 7 / 64) ** 0.5


def test_a_seed_decides_everything_that_is_not_given(program: Console) -> None:
    """L399: the same tree for the same seed, whatever else the entry takes; another one for another seed."""
    first = result(program, "tree", "--seed", "2")
    assert result(program, "tree", "--seed", "2") == first
    assert result(program, "tree", "--seed", "3") != first
    assert [Fraction(x) for x in first["b"]["data"]] == [1, 1] and [Fraction(x) for x in first["z"]["data"]] == [0, 0]
    for number in (2, 5):
        ran = result(program, "reader", "--seed", "2", "--dim", f"N={number}")
        program.write("zeros.json", json.dumps([0] * number))
        alone = result(program, "reader", "--seed", "2", "--input", "x=zeros.json")
        assert abs(reals(alone)[0] - sum(reals(first["w"]))) < Fraction(1, 2**250)
        assert ran != alone
    # Draws are numbers of binary64, at any precision.
    assert all(Fraction(float(x)) == x for x in reals(first["w"]))
    few = reals(result(program, "tree", "--seed", "2", "--bits", "60")["w"])
    assert [Fraction(float(x)) for x in few] == reals(first["w"])


INITIALIZED: Final = """\
module Inner { param v : ℝ[3]  init = normal(std = 1.0)
  fn apply(x : ℝ[3]) -> ℝ[3] = x * v }
module Outer {
  param a : ℝ[2, 2]  init = xavier_uniform
  param b : ℝ[4]     init = zeros
  use inner : Inner
  param c : ℝ[2]     init = normal(std = 2.0)
  fn apply(x : ℝ[3]) -> ℝ[3] = inner.apply(x)
}
fn tree(θ : params Outer) -> params Outer = θ
"""


def test_another_initializer_of_one_parameter_changes_no_other(console: Console) -> None:
    """L406: each parameter and sub-module has a key of its own, whether it draws or not."""
    console.write("main.psk", INITIALIZED)
    before = result(console, "tree", "--seed", "11")
    for old, new, field in (
        ("init = zeros", "init = normal(std = 1.0)", "b"),
        ("init = xavier_uniform", "init = ones", "a"),
        ("ℝ[3]  init = normal(std = 1.0)", "ℝ[3]  init = xavier_uniform", "inner"),
    ):
        console.write("main.psk", INITIALIZED.replace(old, new))
        after = result(console, "tree", "--seed", "11")
        assert [name for name in before if after[name] != before[name]] == [field]


# --- values and dimensions ----------------------------------------------------------------------------------------------


def test_values_have_the_names_and_forms_of_their_types(program: Console) -> None:
    """L372, L373: masks are truth values in JSON, and a value has the axis names of the type that the program gives it."""
    mask = result(program, "mask", "--dim", "T=2")
    assert mask["type"] == "bool[seq: 2, seq2: 2]" and mask["data"] == [[True, False], [True, True]]
    program.write("x.json", "[1, 2, 6]")
    assert reals(result(program, "renamed", "--input", "x=x.json")) == [3]
    assert result(program, "unnamed", "--input", "x=x.json")["axes"] == [None]


def test_the_default_precision_is_256_bits(program: Console) -> None:
    given = ("--dim", "B=2", "--seed", "1")
    (default,), (stated,) = (reals(result(program, "loss", *given, *more)) for more in ((), ("--bits", "256")))
    assert default == stated
    (more,) = reals(result(program, "loss", *given, "--bits", "700"))
    assert 0 < abs(default - more) < Fraction(1, 2**244) * abs(more)


def test_undefined_entries_are_refused_by_their_types(program: Console) -> None:
    """L392, L397, L398: whatever the values are; a division by zero shows when it is divided."""
    for bounds in ((), ("--bounds",)):
        ran = program.presk("run", "main.psk", "--entry", "average", "--dim", "N=0", *bounds)
        assert ran.code == 4 and "E7003" in ran.err
    program.write("zeros.json", "[0, 0]")
    ran = program.presk("run", "main.psk", "--entry", "quotient", "--dim", "N=2", "--input", "y=zeros.json")
    assert ran.code == 4 and "E7001" in ran.err
    assert program.presk("run", "main.psk", "--entry", "quotient", "--dim", "N=0").code == 0
