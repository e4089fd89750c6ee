"""`presk run`, `bench` and `dump` in machine types: what they print, what they refuse, and what they compile."""

import json
import re
import subprocess
import sys

import pytest

from tests.cli.console import Console, process
from tests.conftest import Golden
from tests.native.conftest import PROGRAM

LEVEL = ("--level", "x86-64-v3")
NATIVE = ("run", "net.psk", "--backend", "native", "--entry")
TYPED = {"name": "mixed", "default": "f32", "functions": {"Net.apply": "bf16"}, "sites": {"loss/%3": "f64"}}


def compiled(complaint: str) -> int:
    """How many objects a run compiled, by what `--stats` prints."""
    found = re.search(r"^object +(\d+) +(\d+)", complaint, re.MULTILINE)
    assert found is not None, complaint
    return int(found[2])


def test_runs(console: Console, golden: Golden) -> None:
    console.presk(*NATIVE, "loss", "--dim", "B=4")
    for type_ in ("f64", "f32", "bf16"):
        console.presk(*NATIVE, "loss_grad", "--dim", "B=4", "--realize", type_)
    console.presk("run", "net.psk", "--backend", "kernel", "--entry", "loss_grad", "--dim", "B=4", "--realize", "bf16")
    console.presk(*NATIVE, "scaled", "--dim", "B=2", "--arg", "rate=0.1", "--realize", "f32", "--json")
    console.presk(*NATIVE, "loss", "--dim", "B=4", "--realize", "f32", "--gap", "--json")
    console.presk(*NATIVE, "loss_grad", "--dim", "B=4", "--realize", "bf16", "--gap")
    console.presk(*NATIVE, "loss", "--dim", "B=4", "--no-fusion", "--remat", "recompute", "--threads", "2", *LEVEL)
    golden("cli/native_run.txt", console.transcript)


def test_what_is_refused(console: Console, golden: Golden) -> None:
    console.write("wrong.json", '{"default": "f32", "functions": {"Net.aply": "f64"}}')
    console.write("vjp.json", '{"default": "f32", "functions": {"loss.vjp": "f64"}}')
    console.write("broken.json", '{"default": "f32",}')
    loss = (*NATIVE, "loss", "--dim", "B=4")
    for record in (
        "f16",
        "@missing.json",
        "@broken.json",
        "@wrong.json",
        '{"default": "bf16", "sites": {"loss/%77": "f32"}}',
        '{"default": {"storage": "bf16", "arithmetic": "bf16"}}',
        '{"default": {"storage": "f32", "arithmetic": "f64", "accumulate": "f32"}}',
        '{"default": {"storage": "f64", "arithmetic": "f32"}}',
        '{"name": "no default"}',
        '{"default": "f32", "default": "f64"}',
        '{"default": "f32", "kernels": {}}',
        "[]",
    ):
        console.presk(*loss, "--realize", record)
    gradient = ("--entry", "loss_grad", "--dim", "B=4", "--realize", "@vjp.json", "--json")
    console.presk("run", "net.psk", "--backend", "native", *gradient)
    console.presk("run", "net.psk", "--backend", "native", *gradient, "--remat", "recompute")
    golden("cli/native_realizations.txt", console.transcript)


def test_options_that_do_not_go_together(console: Console, golden: Golden) -> None:
    exact = ("run", "net.psk", "--entry", "loss", "--dim", "B=4")
    for option in (("--realize", "f32"), ("--threads", "2"), LEVEL, ("--gap",), ("--no-fusion",)):
        assert console.presk(*exact, *option).code == 2
    native = (*NATIVE, "loss", "--dim", "B=4")
    for option in (
        ("--bounds",),
        ("--bits", "100"),
        ("--level", "x86-64-v9"),
        ("--threads", "0"),
        ("--threads", "many"),
    ):
        assert console.presk(*native, *option).code == 2
    assert console.presk(*native, env={"PRESK_THREADS": "all"}).code == 2
    assert console.presk(*native, "--gap", "--bits", "64").code == 0
    assert console.presk("run", "net.psk", "--backend", "gpu", "--entry", "loss").code == 2
    assert console.presk("run", "net.psk", "--backend", "native").code == 3
    assert console.presk("bench", "net.psk").code == 3
    assert console.presk(*NATIVE, "los", "--dim", "B=4").code == 2
    assert console.presk(*NATIVE, "loss").code == 2
    assert console.presk(*NATIVE, "loss", "--dim", "B=0").code == 4
    assert console.presk("bench", "net.psk", "--entry", "loss", "--dim", "B=0").code == 4
    assert console.presk("bench", "net.psk", "--entry", "loss", "--dim", "B=4", "--runs", "0").code == 2
    for stage in ("kernel", "llvm", "asm", "driver"):
        assert console.presk("dump", "net.psk", "--stage", stage).code == 3
        assert console.presk("dump", "net.psk", "--stage", stage, "--entry", "loss", "--dim", "B=0").code == 4
        assert console.presk("dump", "net.psk", "--stage", stage, "--entry", "loss").code == 2
    golden("cli/native_options.txt", console.transcript)


def test_the_row_that_a_mask_empties(console: Console) -> None:
    console.write("keep.json", "[false, false, false]")
    for backend in ("native", "kernel"):
        ran = console.presk("run", "net.psk", "--backend", backend, "--entry", "weights", "--input", "keep=keep.json")
        assert ran.code == 4 and ran.out == ""
        assert "the mask refuses" in ran.err and "--> net.psk:" in ran.err, ran.err


def test_a_gap_to_what_does_not_exist(console: Console) -> None:
    """Natively a division by zero is an infinity; there is no exact value to compare it with."""
    console.write("div.psk", "fn f(x : ℝ[n: 2]) -> ℝ[n: 2] = 1 / x\n")
    console.write("x.json", "[0, 1]")
    line = ("run", "div.psk", "--backend", "native", "--entry", "f", "--input", "x=x.json")
    ran = console.presk(*line)
    assert (ran.code, ran.out) == (0, "f : ℝ[n: 2] =\n  [inf,   1]\n")
    ran = console.presk(*line, "--gap")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("error[E7001]: division by zero at [n: 0]\n --> div.psk:1:32\n"), ran.err


@pytest.mark.parametrize("stage", ["kernel", "driver"])
def test_dumps(console: Console, golden: Golden, stage: str) -> None:
    ran = console.presk(
        "dump", "net.psk", "--stage", stage, "--entry", "loss_grad", "--dim", "B=4", "--realize", "f32", *LEVEL
    )
    assert ran.code == 0 and ran.err == ""
    golden(f"{stage}/net.txt", ran.out)


@pytest.mark.parametrize("stage", ["llvm", "asm"])
def test_dumps_of_code(console: Console, stage: str) -> None:
    dump = ("dump", "net.psk", "--stage", stage, "--entry", "loss", "--dim", "B=4", "--realize", "f32")
    old, new = (console.presk(*dump, "--level", level) for level in ("x86-64", "x86-64-v3"))
    assert (old.code, new.code, old.err, new.err) == (0, 0, "", "")
    assert old.out != new.out
    word = "define" if stage == "llvm" else "retq"
    kernels = sum(line.startswith(("; kernel", "# kernel")) for line in new.out.splitlines())
    assert kernels == len(re.findall(rf"^\s*{word}\b", new.out, re.MULTILINE)) > 2
    if stage == "asm":
        # An `fma` is one instruction where there is one; elsewhere its bits are made otherwise.
        assert "vfmadd" in new.out and "vfmadd" not in old.out and "ymm" not in old.out


def test_a_measurement(console: Console) -> None:
    ran = console.presk(
        "bench", "net.psk", "--entry", "loss_grad", "--dim", "B=4", "--runs", "7", "--per-nest", "--json"
    )
    assert ran.code == 0 and ran.err == ""
    found = json.loads(ran.out)
    assert {"entry", "realization", "level", "threads", "launches", "kernels", "arena", "call", "nests"} <= set(found)
    assert (found["entry"], found["realization"], found["threads"]) == ("loss_grad", "f64", 1)
    call = found["call"]
    assert call["count"] == 7 and 0 < call["low"] <= call["median"] <= call["high"]
    assert all(found[key] > 0 for key in ("compile_cold", "compile_warm", "first_call"))
    assert sum(nest["launches"] for nest in found["nests"]) == found["launches"]
    text = console.presk("bench", "net.psk", "--entry", "loss_grad", "--dim", "B=4", "--runs", "7", "--per-nest").out
    assert re.search(r"^  call .* with 95 %", text, re.MULTILINE) and "GFLOP/s" in text


def test_few_calls_enclose_no_median(console: Console) -> None:
    ran = console.presk("bench", "net.psk", "--entry", "loss", "--dim", "B=4", "--runs", "3", "--json")
    call = json.loads(ran.out)["call"]
    assert call["count"] == 3 and call["low"] is None and call["high"] is None and call["median"] > 0


def test_a_second_process_compiles_nothing(console: Console) -> None:
    line = (*NATIVE, "loss_grad", "--dim", "B=4", "--realize", "f32")
    first = process(console, *line, "--stats")
    assert first.returncode == 0 and compiled(first.stderr.decode()) > 5
    again = process(console, *line, "--stats")
    assert compiled(again.stderr.decode()) == 0 and again.stdout == first.stdout
    # Nor is LLVM there.
    script = (
        "import sys\nfrom presk.cli.client import main\ntry:\n    main()\nfinally:\n"
        "    assert not [name for name in sys.modules if name.startswith('llvmlite')]\n"
    )
    env = {**console.env, "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-c", script, *line], cwd=console.folder, env=env, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, first.stdout, b"")


def test_an_edit_compiles_its_kernels(console: Console) -> None:
    line = (*NATIVE, "loss", "--dim", "B=4", "--stats")
    assert compiled(console.presk(*line).err) > 2
    assert compiled(console.presk(*line).err) == 0
    console.write("net.psk", PROGRAM.replace("tanh(x · w + b)", "tanh(x · w + b) * 2"))
    # One group, which has a product more: its product and the mean are as they were.
    assert compiled(console.presk(*line).err) == 1
    console.write("net.psk", PROGRAM.replace("fn scaled", "-- a comment\nfn scaled"))
    assert compiled(console.presk(*line).err) == 0
    console.write("net.psk", PROGRAM.replace("exp(x) *", "sin(x) *"))
    assert compiled(console.presk(*line).err) == 0
    # Other dimensions are other kernels; names are none.
    console.write("net.psk", PROGRAM.replace("Net", "Other").replace("loss", "cost"))
    assert compiled(console.presk(*(word.replace("loss", "cost") for word in line)).err) == 0
