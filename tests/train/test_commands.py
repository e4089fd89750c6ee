"""The functions of an optimizer at the command line: shown, run exactly and natively, refused with a place."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.console import Console, Ran
from tests.peers.adamw_cases import CASES
from tests.train.adamw import program

COURSE: Final = next(case for case in CASES if case.name == "course")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A folder with the program; every pass is verified."""
    made = Console(tmp_path_factory.mktemp("optimizer"))
    made.write("main.psk", program(COURSE))
    made.env["PRESK_VERIFY"] = "1"
    return made


def run(console: Console, entry: str, *options: str) -> Ran:
    return console.presk("run", "main.psk", "--entry", entry, *options)


def result(console: Console, entry: str, *options: str) -> Any:
    ran = run(console, entry, "--json", *options)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["result"]


def test_the_rate_is_printed_exactly(console: Console) -> None:
    assert run(console, "adamw.lr", "--arg", "t=1", "--arg", "total=6").out == "adamw.lr : ℝ[] = 0.0005\n"
    assert run(console, "adamw.lr", "--arg", "t=6", "--arg", "total=6").out == "adamw.lr : ℝ[] = 0\n"


def test_they_are_shown_with_the_program_and_by_name(console: Console) -> None:
    whole = console.presk("dump", "main.psk", "--stage", "core").out
    for name in ("init", "lr", "step"):
        shown = console.presk("dump", "main.psk", "--stage", "core", "--entry", f"adamw.{name}").out
        own = shown[shown.index(f"fn adamw.{name}(") :]
        assert own in whole
    assert "call adamw.lr(t, total)" in whole
    assert console.presk("dump", "main.psk", "--stage", "core-after-ad", "--entry", "adamw.step").code == 0
    assert console.presk("dump", "main.psk", "--stage", "realize", "--entry", "adamw.step").code == 0


def test_a_step_begins_with_moments_of_zero_and_takes_what_is_given(console: Console) -> None:
    arguments = ("--arg", "t=1", "--arg", "total=6")
    first = result(console, "adamw.step", *arguments)
    # m' = β₁ m + (1 − β₁) c g for the drawn gradient g: with m = 1 there are β₁ more.
    console.write("m.json", json.dumps({"shape": [], "data": 1}))
    given = result(console, "adamw.step", *arguments, "--input", "s.0.gain=m.json")
    moment, moved = (float(number(one, "1", "0", "gain")) for one in (first, given))
    assert 0 < moment < 1
    assert moved == pytest.approx(moment + 0.9, rel=1e-15)
    assert number(given, "1", "1", "gain") == number(first, "1", "1", "gain")


def number(value: Any, *path: str) -> Any:
    """A scalar of a result."""
    for name in path:
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value["data"] if isinstance(value, dict) else value


def test_a_step_runs_natively(console: Console) -> None:
    arguments = ("--arg", "t=2", "--arg", "total=6", "--backend", "native", "--realize", "f64", "--gap", "--stats")
    ran = run(console, "adamw.step", *arguments)
    assert ran.code == 0, ran.err
    assert "adamw.step.1.0.layers.w" in ran.out
    # Five for each of five leaves, and the scalars' six.
    assert f"launches: {5 * 5 + 6}, of " in ran.err


def test_what_is_missing_or_undefined_is_refused_at_the_block(console: Console) -> None:
    missing = run(console, "adamw.lr", "--arg", "t=1")
    assert missing.code == 2
    assert "`total : nat` has no default" in missing.err
    assert "optimizer adamw {" in missing.err
    # The schedule ends where warming up does: the rate of what follows is 0/0.
    ends = run(console, "adamw.lr", "--arg", "t=2", "--arg", "total=2")
    assert ends.code == 4
    assert "optimizer adamw {" in ends.err
    # Steps count from 1: 1 − β⁰ is zero.
    zeroth = run(console, "adamw.step", "--arg", "t=0", "--arg", "total=6")
    assert zeroth.code == 4
    assert "E7" in zeroth.err


def test_a_name_close_to_one_of_theirs_is_proposed(console: Console) -> None:
    ran = run(console, "adamw.stp")
    assert ran.code == 2
    assert "did you mean `adamw.step`?" in ran.err


def test_an_edit_of_the_block_lowers_the_optimizer_again_and_nothing_else(tmp_path: Path) -> None:
    own = Console(tmp_path)
    own.write("main.psk", program(COURSE))
    own.presk("check", "main.psk")
    own.write("main.psk", program(COURSE).replace("1e-3", "2e-3"))
    table = own.presk("check", "main.psk", "--stats").err
    computed = {line[:20].strip(): int(line[20:].split()[1]) for line in table.splitlines() if line.startswith("lower")}
    assert computed["lower optimizer"] == 3
    assert computed["lower"] == computed["lower init"] == 0
