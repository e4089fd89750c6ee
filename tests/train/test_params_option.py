"""`--params`: the tree of an entry from a checkpoint, exactly and natively; and checkpoints of other trees."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import safetensors.numpy

from presk.daemon.jobs import may_share
from presk.train.checkpoint import LAST, name_of
from tests.cli.console import Console, Ran
from tests.train.checkpoints import META, Tree, bits, floats, small

PROGRAM: Final = """\
const D = 3
dim B

module Tanh {
  fn apply(x : ℝ[..., D]) -> ℝ[..., D] = tanh(x)
}

module Layer {
  param w : ℝ[D, D] init = normal(std = 0.5)
}

module Net {
  param adamw : ℝ[D]       init = ones
  use act     : Tanh
  use layers  : stack{2}(Layer)
  param out   : ℝ[D, out: 2] init = normal(std = 0.5)
  param gain  : ℝ[]        init = ones
}

module Linear{In : dim} {
  param w : ℝ[In, In] init = ones
  param b : ℝ[In + 1]     init = ones
}

dim N

fn same(x : ℝ[batch: B, D], θ : params Net, other : params Net) -> params Net = θ
fn loss(θ : params Net, x : ℝ[batch: B, D]) -> ℝ[] =
  mean((Tanh.apply(θ.act, x * θ.adamw) · θ.out)^2) * θ.gain
fn open(θ : params Linear{N}) -> ℝ[N] = θ.b[0..N]
fn plain(x : ℝ[D]) -> ℝ[D] = x
"""

TREE: Final[Tree] = {
    "adamw": ("F64", np.array([0.1, 1e-300, -2.5])),
    "layers.w": ("BF16", np.arange(0x3F00, 0x3F00 + 18, dtype=np.uint16).reshape(2, 3, 3)),
    "out": ("F32", np.array([[0.1, 2], [3, 1e-45], [-0.5, 0.25]], dtype=np.float32)),
    "gain": ("F64", np.array(1 / 3)),
}
BACKENDS: Final = ((), ("--backend", "native", "--realize", "f32"), ("--backend", "kernel", "--realize", "bf16"))


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A folder with the program, a run's folder, and the same parameters as files that `--input` takes."""
    made = Console(tmp_path_factory.mktemp("params"))
    made.write("net.psk", PROGRAM)
    small(made.folder / "runs" / "a" / name_of(500), tree=TREE)
    arrays = {path: floats(stored) for path, stored in TREE.items()}
    safetensors.numpy.save_file(arrays, made.folder / "plain.safetensors")
    return made


def run(console: Console, entry: str, *options: str) -> Ran:
    return console.presk("run", "net.psk", "--entry", entry, *options)


def test_the_tree_is_read_exactly(console: Console) -> None:
    """The first tree alone, wherever it stands among the parameters."""
    found = run(console, "same", "--dim", "B=2", "--params", "runs/a", "--json", "--bits", "1100")
    assert found.code == 0, found.err
    tree = json.loads(found.out)["result"]
    assert tree["act"] == {}
    for path, stored in TREE.items():
        value: Any = tree
        for name in path.split("."):
            value = value[name]
        numbers = floats(stored)
        assert value["shape"] == list(numbers.shape)
        assert np.array_equal(np.array(value["data"], dtype=object).astype(np.float64), numbers)
    assert run(console, "same", "--dim", "B=2", "--json").out != found.out


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_what_an_input_gives(console: Console, backend: tuple[str, ...]) -> None:
    """Of a checkpoint, of a folder with some, without the ending, of a file of somebody else."""
    given = run(console, "loss", "--dim", "B=2", "--input", "θ=plain.safetensors", "--json", *backend)
    assert given.code == 0, given.err
    for named in ("runs/a", f"runs/a/{name_of(500)}", "runs/a/step-000500", "plain", "plain.safetensors"):
        found = run(console, "loss", "--dim", "B=2", "--params", named, "--json", *backend)
        assert found == given, named
    assert run(console, "loss", "--dim", "B=2", "--json", *backend).out != given.out


def test_other_parameters_are_drawn_as_before(console: Console) -> None:
    """Parameter i draws from child i of the key, whether or not another is given."""
    one = run(console, "loss", "--dim", "B=2", "--params", "runs/a", "--seed", "1")
    other = run(console, "loss", "--dim", "B=2", "--params", "runs/a", "--seed", "2")
    assert one.code == other.code == 0 and one.out != other.out


def test_a_checkpoint_that_is_written_again_is_read_again(console: Console) -> None:
    path = console.folder / "again" / LAST
    small(path, tree=TREE)
    first = run(console, "loss", "--dim", "B=2", "--params", "again")
    small(path, tree={**TREE, "gain": ("F64", np.array(2 / 3))})
    second = run(console, "loss", "--dim", "B=2", "--params", "again")
    assert first.code == second.code == 0 and first.out != second.out


def test_its_lengths_determine_dimensions(console: Console) -> None:
    linear: Tree = {"w": ("F64", np.ones((4, 4))), "b": ("F64", np.arange(5.0))}
    small(console.folder / "open.safetensors", tree=linear)
    assert run(console, "open", "--params", "open").out == "open : ℝ[4] =\n  [0, 1, 2, 3]\n"
    ran = run(console, "open", "--params", "open", "--dim", "N=5")
    assert ran.code == 4
    assert (
        "error[E8007]: the checkpoint `open.safetensors` does not fit `θ : params Linear{N}`: "
        "its `w` has the shape [4, 4], and that of the tree is [5, 5]\n" in ran.err
    )
    small(console.folder / "open.safetensors", tree={**linear, "b": ("F64", np.ones(4))})
    assert "its `b` has the shape [4], and that of the tree is [5]\n" in run(console, "open", "--params", "open").err


def test_halves_are_read(console: Console) -> None:
    arrays = {path: floats(stored).astype(np.float16) for path, stored in TREE.items()}
    safetensors.numpy.save_file(arrays, console.folder / "halves.safetensors")
    wide = {path: array.astype(np.float64) for path, array in arrays.items()}
    safetensors.numpy.save_file(wide, console.folder / "wide.safetensors")
    halves = run(console, "loss", "--dim", "B=2", "--params", "halves")
    assert halves.code == 0
    assert halves == run(console, "loss", "--dim", "B=2", "--input", "θ=wide.safetensors")


@pytest.mark.parametrize(
    ("change", "why", "note"),
    [
        ({"gain": None}, "it has no `gain`", "it has `adamw`, `layers.w`, `out`"),
        ({"bias": TREE["gain"]}, "the tree has no `bias`", "it has `adamw`, `layers.w`, `out`, `gain`"),
        (
            {"out": ("F64", np.ones((3, 3)))},
            "its `out` has the shape [3, 3], and that of the tree is [3, 2]",
            "`out : ℝ[3, out: 2]`",
        ),
        (
            {"layers.w": ("F64", np.ones((3, 3)))},
            "its `layers.w` has the shape [3, 3], and that of the tree is [2, 3, 3]",
            "`layers.w : ℝ[2, 3, 3]`",
        ),
        (
            {"layers.w": ("F64", np.ones((3, 3, 3))), "out": ("F64", np.ones(1))},
            "its `layers.w` has the shape [3, 3, 3], and that of the tree is [2, 3, 3]",
            "`layers.w : ℝ[2, 3, 3]`",
        ),
        (
            {"gain": ("F64", np.ones(1))},
            "its `gain` has the shape [1], and that of the tree is []",
            "`gain : ℝ[]`",
        ),
    ],
)
def test_another_tree(console: Console, change: dict[str, Any], why: str, note: str) -> None:
    tree = {path: stored for path, stored in {**TREE, **change}.items() if stored is not None}
    small(console.folder / "other.safetensors", tree=tree)
    for backend in BACKENDS:
        ran = run(console, "loss", "--dim", "B=2", "--params", "other", *backend)
        assert (ran.code, ran.out) == (4, "")
        lines = ran.err.splitlines()
        assert lines[0] == f"error[E8007]: the checkpoint `other.safetensors` does not fit `θ : params Net`: {why}"
        assert lines[1].strip().startswith("--> net.psk:") and f"   = note: {note}" in lines


def test_numbers_that_are_none(console: Console) -> None:
    small(console.folder / "inf.safetensors", tree={**TREE, "gain": ("F64", np.array(np.inf))})
    for backend in BACKENDS:
        ran = run(console, "loss", "--dim", "B=2", "--params", "inf", *backend)
        assert ran.code == 4 and "error[E8002]: inf at `θ.gain` is no real number\n" in ran.err
    small(console.folder / "huge.safetensors", tree={**TREE, "gain": ("F64", np.array(1e300))})
    ran = run(console, "loss", "--dim", "B=2", "--params", "huge", "--backend", "native", "--realize", "f32")
    assert ran.code == 4 and "error[E8002]: 1e+300 is beyond the largest of f32\n" in ran.err


@pytest.mark.parametrize(
    ("command", "message", "mend"),
    [
        (
            ("plain", "--params", "runs/a"),
            "`--params` says nothing to `plain`, which has no parameter of a type `params …`",
            "leave `--params` away, or name another entry",
        ),
        (
            ("loss", "--params", "runs/a", "--input", "θ=plain.safetensors"),
            "`--params runs/a` gives the tree `θ`, and `--input` gives `θ`",
            "leave one of the two away",
        ),
        (
            ("loss", "--params", "runs/a", "--input", "θ.gain=gain.json"),
            "`--params runs/a` gives the tree `θ`, and `--input` gives `θ.gain`",
            "leave one of the two away",
        ),
        (
            ("loss", "--params", "runs/a", "--arg", "θ.gain=1"),
            "`--params runs/a` gives the tree `θ`, and `--arg` gives `θ.gain`",
            "leave one of the two away",
        ),
    ],
)
def test_what_the_command_line_may_not_say(console: Console, command: tuple[str, ...], message: str, mend: str) -> None:
    console.write("gain.json", "1")
    for verb in ("run", "bench"):
        ran = console.presk(verb, "net.psk", "--entry", *command)
        assert ran == Ran("", f"error[E9003]: {message}\n  = help: {mend}\n", 2)


def test_what_is_no_checkpoint(console: Console) -> None:
    """A name that means nothing is an error of the command line, a file that is none one of the run."""
    console.write("broken/final.safetensors", b"x" * 100)
    console.write("empty/x.txt", "")
    for named, shown, why, code in (
        ("missing", "missing", "there is no such file", 2),
        ("net.psk", "net.psk", "it does not begin as a safetensors file does", 4),
        ("empty", "empty", "the folder has no checkpoint, `step-000001.safetensors` or the like", 4),
        ("broken", "broken/final.safetensors", "it does not begin as a safetensors file does", 4),
    ):
        ran = run(console, "loss", "--dim", "B=2", "--params", named)
        assert ran == Ran("", f"error[E8006]: the checkpoint `{shown}` cannot be read: {why}\n", code)


def test_a_checkpoint_is_not_written_over(console: Console) -> None:
    path = console.folder / "runs" / "a" / name_of(500)
    before = path.read_bytes()
    ran = run(console, "loss", "--dim", "B=2", "--params", "runs/a", "--out", f"runs/a/{name_of(500)}")
    assert ran.code == 2 and "names a file that is read" in ran.err
    assert path.read_bytes() == before


def test_it_is_measured(console: Console) -> None:
    ran = console.presk("bench", "net.psk", "--entry", "loss", "--dim", "B=2", "--params", "runs/a", "--runs", "2")
    assert ran.code == 0 and ran.out.startswith("loss in f64")


def test_runs_with_a_checkpoint_are_not_shared() -> None:
    """The daemon does not see whether the file is the same for both."""
    assert may_share(("run", "x.psk", "--entry", "f"), {})
    assert not may_share(("run", "x.psk", "--entry", "f", "--params", "runs/a"), {})
    assert not may_share(("run", "x.psk", "--entry", "f", "--params=runs/a"), {})


def test_the_tree_of_the_tests_is_written_as_it_stands(tmp_path: Path) -> None:
    """The field `adamw` of the program is a parameter, not state."""
    from_plain = safetensors.numpy.load_file(small(tmp_path / LAST, META, {"adamw": TREE["adamw"]}))
    assert sorted(from_plain) == ["adamw#", "adamw.m.adamw", "adamw.v.adamw"]
    assert bits({"adamw": ("F64", from_plain["adamw#"])}) == bits({"adamw": TREE["adamw"]})
