"""`presk run` on programs as they are written: errors with their places, seeds, inputs and outputs."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.console import Console, Ran

SOURCE: Final = """\
dim N

fn quotient(x : ℝ[row: 2, col: 3], y : ℝ[col: 3]) -> ℝ[row: 2, col: 3] =
  let s = x + x
  s / y

fn outer(x : ℝ[row: 2, col: 3], y : ℝ[col: 3]) -> ℝ[] =
  sum(quotient(x, y))

fn attend(s : ℝ[q: 2, k: 3], m : bool[q: 2, k: 3]) -> ℝ[q: 2, k: 3] =
  softmax(axis k, s, where = m)

fn look(w : ℝ[v: 5, d: 2], batch : (idx[5][b: N, s: 2], ℝ[])) -> ℝ[b: N, s: 2, d: 2] =
  let (t, _) = batch
  embed(w, t)

fn average(x : ℝ[n: N], y : ℝ[]) -> ℝ[] =
  let broken = y / (y - y)
  broken + mean(x)

fn slope(x : ℝ[col: 3], y : ℝ[col: 3]) -> ℝ[col: 3] =
  grad(λ y. sum(x / y))(y)

fn itself(x : ℝ[n: N]) -> ℝ[n: N] = x

module Linear{In Out : dim} {
  param w : ℝ[In, Out]  init = normal(std = 0.5)
  param b : ℝ[Out]      init = zeros
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x · w + b
}

module Net {
  use first : Linear{2, 3}
  use others : stack{2}(Linear{3, 3})
  fn apply(x : ℝ[b: N, 2]) -> ℝ[b: N, 3] = others.apply(first.apply(x))
}

fn tree(θ : params Net) -> params Net = θ
fn apply(θ : params Net, x : ℝ[b: N, 2]) -> ℝ[b: N, 3] = Net.apply(θ, x)
"""

Y: Final = "[1, 0, 2]"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A folder with the program."""
    made = Console(tmp_path_factory.mktemp("commands"))
    made.write("main.psk", SOURCE)
    return made


def run(console: Console, entry: str, *options: str, **inputs: str) -> Ran:
    """`presk run` of an entry; inputs are JSON, by parameter."""
    argv = ["run", "main.psk", "--entry", entry, *options]
    for name, text in inputs.items():
        console.write(f"{name}.json", text)
        argv.append(f"--input={name}={name}.json")
    return console.presk(*argv)


def result(console: Console, entry: str, *options: str, **inputs: str) -> Any:
    ran = run(console, entry, "--json", *options, **inputs)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["result"]


def doubles(value: Any) -> Any:
    """A result whose numbers are read as doubles, which draws are, however many digits are printed."""
    if isinstance(value, dict):
        return {name: doubles(item) for name, item in value.items() if name != "type"}
    if isinstance(value, list):
        return [doubles(item) for item in value]
    return float(value) if isinstance(value, str) else value


def line_of(text: str) -> int:
    """The line of the program that holds a text."""
    (found,) = [number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line]
    return found


def column_of(text: str) -> int:
    return SOURCE.splitlines()[line_of(text) - 1].index(text) + 1


@pytest.mark.parametrize(
    "entry, inputs, message, marked, others",
    [
        ("quotient", {"y": Y}, "error[E7001]: division by zero at [row: 0, col: 1]", "s / y", ["in `quotient`"]),
        (
            "outer",
            {"y": Y},
            "error[E7001]: division by zero at [row: 0, col: 1]",
            "s / y",
            ["in `quotient`", "sum(quotient(x, y))", "called here"],
        ),
        ("slope", {"y": Y}, "error[E7001]: division by zero at [col: 1]", "x / y", ["called here"]),
        (
            "attend",
            {"m": "[[true, false, true], [false, false, false]]"},
            "error[E7004]: the mask refuses every element of a row at [q: 1]",
            "softmax(axis k, s, where = m)",
            ["in `attend`"],
        ),
    ],
)
def test_an_error_of_the_run_has_its_place(
    console: Console, entry: str, inputs: dict[str, str], message: str, marked: str, others: list[str]
) -> None:
    ran = run(console, entry, **inputs)
    assert (ran.code, ran.out) == (4, "")
    first, second, *more = ran.err.splitlines()
    assert first == message
    assert second.strip() == f"--> main.psk:{line_of(marked)}:{column_of(marked)}"
    assert all(any(text in line for line in more) for text in others)


def test_an_index_out_of_its_bound_has_its_row_and_its_value(console: Console) -> None:
    for value, text in (("5", "5"), ("-1", "-1")):
        ran = run(console, "look", **{"batch.0": f"[[0, 1], [4, 2], [3, {value}]]"})
        assert (ran.code, ran.out) == (4, "")
        first, second, *_ = ran.err.splitlines()
        assert first == f"error[E8002]: the index {text} at `batch.0[2, 1]` is not one of 0 … 4"
        assert second.strip().startswith(f"--> main.psk:{line_of('fn look')}:1")


def test_what_is_undefined_is_said_before_anything_is_computed(console: Console) -> None:
    """The division fails whenever it is evaluated; at N = 0 it never is."""
    ran = run(console, "average", "--dim", "N=0")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("error[E7003]: a mean over no element")
    assert f"main.psk:{line_of('broken + mean')}:{column_of('mean(x)')}" in ran.err
    ran = run(console, "average", "--dim", "N=1")
    assert ran.err.startswith("error[E7001]: division by zero\n")


def test_the_same_seed_gives_the_same(console: Console) -> None:
    """The parameters, and what is computed with them, by runs that share nothing."""
    own = console.folder.parent / "another"
    for entry, options in (("tree", ()), ("apply", ("--dim", "N=2"))):
        first = run(console, entry, "--json", "--seed", "3", *options)
        again = console.presk(
            "run", "main.psk", "--entry", entry, "--json", "--seed", "3", *options, env={"PRESK_CACHE": str(own)}
        )
        assert first.out == again.out and first.code == again.code == 0
        assert run(console, entry, "--json", "--seed", "4", *options).out != first.out
    assert result(console, "tree") == result(console, "tree", "--seed", "0")


def test_a_parameter_is_drawn_for_itself(console: Console) -> None:
    """What else an entry takes, and at which precision it is run, does not move the parameters."""
    tree = result(console, "tree", "--seed", "3", "--bits", "53")
    assert doubles(tree) == doubles(result(console, "tree", "--seed", "3", "--bits", "256"))
    assert tree["first"]["w"]["shape"] == [2, 3]
    numbers = [number for row in tree["others"]["w"]["data"] for line in row for number in line]
    assert len(set(numbers)) == 2 * 3 * 3
    ran = run(console, "tree", "--seed", "3", "--out", "tree.json")
    assert ran.code == 0 and ran.out == ""
    given = console.presk(
        *("run", "main.psk", "--entry", "apply", "--input", "θ=tree.json", "--dim", "N=2", "--seed", "3", "--json")
    )
    assert given.out == run(console, "apply", "--json", "--dim", "N=2", "--seed", "3").out


@pytest.mark.parametrize("few, many", [(0, 1), (1, 2), (3, 8), (8, 65)])
def test_the_first_draws_of_many_are_the_draws_of_few(console: Console, few: int, many: int) -> None:
    short, long = (result(console, "itself", f"--dim=N={count}", "--seed=9")["data"] for count in (few, many))
    assert len(short) == few and len(set(long)) == many
    assert long[:few] == short


def test_files_come_and_go(console: Console, tmp_path: Path) -> None:
    """A result that was written is the next input, as it is and digit for digit."""
    ran = run(console, "itself", "--dim", "N=4", "--bits", "200", "--out", str(tmp_path / "x.json"))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    written = json.loads((tmp_path / "x.json").read_text("utf-8"))
    again = console.presk(
        *("run", "main.psk", "--entry", "itself", "--bits", "200", "--json", f"--input=x={tmp_path / 'x.json'}")
    )
    assert json.loads(again.out) == written
