"""`presk train`: every step is the program's, and what decides no bit of a run."""

import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from safetensors.numpy import load_file

from presk.data.reading import DataFile
from presk.data.stream import Stream
from presk.exact import draws
from tests.cli.console import Console
from tests.conftest import Golden
from tests.train.models import MODEL, prepared, tensors

SEED: Final = ("--seed", "11")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    return prepared(Console(tmp_path_factory.mktemp("training")))


def logged(console: Console, name: str, kind: str = "step") -> list[dict[str, Any]]:
    lines = (console.folder / name).read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


def same(line: dict[str, Any]) -> dict[str, Any]:
    """A line of a log without what takes time."""
    return {name: value for name, value in line.items() if name not in ("seconds", "tokens_per_second")}


def trained(console: Console, folder: str, *options: str, steps: int = 20) -> dict[str, bytes]:
    """The tensors of a run after some steps."""
    ran = console.presk("train", "net.psk", *SEED, "--steps", str(steps), "--checkpoints", folder, *options)
    assert ran.code == 0, ran.err
    return tensors(console.folder / folder / f"step-{steps:06d}.safetensors")


@pytest.fixture(scope="module")
def reference(console: Console) -> dict[str, bytes]:
    return trained(console, "reference", "--log", "reference.jsonl", "--threads", "1")


@pytest.mark.parametrize(
    "options",
    [
        ("--threads", "2"),
        ("--threads", "3"),
        ("--no-fusion",),
        ("--remat", "recompute"),
        ("--level", "x86-64"),
        ("--remat", "recompute", "--no-fusion", "--threads", "7"),
    ],
    ids=" ".join,
)
def test_what_decides_no_bit(console: Console, reference: dict[str, bytes], options: tuple[str, ...]) -> None:
    name = "-".join(options).strip("-")
    assert trained(console, name, *options) == reference


def test_seeds_and_machine_types_decide(console: Console, reference: dict[str, bytes]) -> None:
    other = console.presk("train", "net.psk", "--seed", "12", "--steps", "20", "--checkpoints", "other")
    assert other.code == 0
    assert tensors(console.folder / "other" / "step-000020.safetensors") != reference
    wide = trained(console, "wide", "--realize", "f64")
    assert set(wide) == set(reference) and all(len(wide[name]) == 2 * len(reference[name]) for name in reference)


def test_a_run_that_is_taken_up_is_the_run_that_never_stopped(console: Console, reference: dict[str, bytes]) -> None:
    trained(console, "parts", "--log", "parts.jsonl", steps=7)
    trained(console, "parts", "--log", "parts.jsonl", "--resume", "parts", steps=13)
    assert trained(console, "parts", "--log", "parts.jsonl", "--resume", "parts") == reference
    assert list(map(same, logged(console, "parts.jsonl"))) == list(map(same, logged(console, "reference.jsonl")))


def test_a_run_that_is_taken_up_behind_its_last_checkpoint(console: Console, reference: dict[str, bytes]) -> None:
    """The log had gone further than the checkpoint that is gone on from."""
    trained(console, "back", "--log", "back.jsonl", "--keep", "9", steps=14)
    early = str(Path("back") / "step-000008.safetensors")
    assert trained(console, "back", "--log", "back.jsonl", "--resume", early) == reference
    assert list(map(same, logged(console, "back.jsonl"))) == list(map(same, logged(console, "reference.jsonl")))


def test_the_newest_checkpoints_stay(console: Console) -> None:
    trained(console, "kept", "--keep", "2", steps=17)
    assert sorted(path.name for path in (console.folder / "kept").iterdir()) == [
        "step-000016.safetensors",
        "step-000017.safetensors",
    ]


def test_the_end_has_a_name(console: Console) -> None:
    ran = console.presk("train", "net.psk", *SEED, "--checkpoints", "whole", "--checkpoint-every", "30")
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in (console.folder / "whole").iterdir()) == [
        "final.safetensors",
        "step-000030.safetensors",
    ]
    again = console.presk("train", "net.psk", *SEED, "--checkpoints", "whole", "--resume", "whole")
    assert again.code == 0 and "nothing is left to do" in again.out


def test_the_parts_of_a_checkpoint(console: Console, reference: dict[str, bytes]) -> None:
    names = {name.removeprefix("adamw.m.").removeprefix("adamw.v.") for name in reference}
    assert names == {"tok", "pos", "blocks.w", "blocks.u", "head"} and len(reference) == 15
    arrays = load_file(console.folder / "reference" / "step-000020.safetensors")
    assert arrays["blocks.w"].shape == (2, 8, 16) and arrays["blocks.w"].dtype == np.float32


def batch_of(console: Console, step: int) -> list[str]:
    """The batch of a step, from 1, as inputs of an entry."""
    with DataFile(console.folder / "chars.psk.d", "chars.psk.d") as data:
        stream = Stream(data, seed=5, batch=4, take=15)
        leaves = stream.batch(stream.position(step - 1)).leaves
    options: list[str] = []
    for place, leaf in enumerate(leaves):
        console.write(f"batch{place}.json", json.dumps(leaf.tolist()))
        options += ["--input", f"batch.{place}=batch{place}.json"]
    return options


def test_the_first_loss_is_that_of_the_exact_reference(console: Console) -> None:
    """Parameters are those that the seed gives an entry, the key of a step is a child of the run's key, dropout draws."""
    trained(console, "exact", "--realize", "f64", "--log", "exact.jsonl", steps=1)
    key = draws.child(draws.child(draws.master_key(11), 1), 1).hex()
    options = ("--mode", "training", *SEED, "--arg", f"key={key}", *batch_of(console, 1), "--json")
    exact = console.presk("run", "net.psk", "--entry", "loss", *options)
    assert exact.code == 0, exact.err
    value = float(json.loads(exact.out)["result"]["data"])
    assert logged(console, "exact.jsonl")[0]["loss"] == pytest.approx(value, rel=1e-13)
    still = console.presk("run", "net.psk", "--entry", "loss", *options[2:])
    assert float(json.loads(still.out)["result"]["data"]) != pytest.approx(value, rel=1e-6)


def test_a_step_is_that_of_the_exact_reference(console: Console) -> None:
    """Step 9 of a run, from its checkpoint 8, over the reals at 256 bits: loss, norm, rate, parameters."""
    trained(console, "nine", "--realize", "f64", "--log", "nine.jsonl", "--checkpoint-every", "1", steps=9)
    before = load_file(console.folder / "nine" / "step-000008.safetensors")
    key = draws.child(draws.child(draws.master_key(11), 1), 9).hex()
    options = ["--mode", "training", "--arg", "t=9", "--arg", "total=30", "--arg", f"key={key}", "--json"]
    options += ["--params", "nine/step-000008.safetensors", *batch_of(console, 9)]
    for name, array in before.items():
        if name.startswith("adamw."):
            _, moment, path = name.split(".", 2)
            file = f"{name}.npy"
            np.save(console.folder / file, array)
            options += ["--input", f"s.{'mv'.index(moment)}.{path}={file}"]
    exact = console.presk("run", "net.psk", "--entry", "training.step", *options)
    assert exact.code == 0, exact.err
    loss, norm, rate, tree, _ = json.loads(exact.out)["result"]
    line = logged(console, "nine.jsonl")[8]
    for name, value in (("loss", loss), ("norm", norm), ("rate", rate)):
        assert line[name] == pytest.approx(float(value["data"]), rel=1e-12), name
    after = load_file(console.folder / "nine" / "step-000009.safetensors")
    for path in ("tok", "head"):
        assert after[path] == pytest.approx(np.array(tree[path]["data"], dtype=np.float64), rel=1e-11, abs=1e-13)


def test_the_loss_falls(console: Console) -> None:
    found = console.presk("train", "net.psk", *SEED, "--checkpoints", "falls", "--log", "falls.jsonl")
    assert found.code == 0
    losses = [line["loss"] for line in logged(console, "falls.jsonl")]
    assert len(losses) == 30 and sum(losses[-5:]) < 0.9 * sum(losses[:5])
    assert [line["epoch"] for line in logged(console, "falls.jsonl")] == [0] * 15 + [1] * 15


def test_a_file_of_parameters_begins_a_run(console: Console, reference: dict[str, bytes]) -> None:
    del reference
    ran = console.presk(
        "train", "net.psk", *SEED, "--steps", "1", "--params", "reference", "--checkpoints", "tuned", "--log", "t.jsonl"
    )
    assert ran.code == 0, ran.err
    key = draws.child(draws.child(draws.master_key(11), 1), 1).hex()
    options = ("--mode", "training", "--arg", f"key={key}", *batch_of(console, 1), "--params", "reference", "--json")
    exact = console.presk("run", "net.psk", "--entry", "loss", *options)
    value = float(json.loads(exact.out)["result"]["data"])
    assert logged(console, "t.jsonl")[0]["loss"] == pytest.approx(value, rel=1e-5)


def test_what_a_run_says_and_what_is_refused(tmp_path: Path, golden: Golden) -> None:
    console = prepared(Console(tmp_path))
    console.presk("train", "net.psk", "--dry-run", "--level", "x86-64-v3")
    console.presk("train", "net.psk", "--steps", "4", "--threads", "1", "--level", "x86-64-v3")
    console.presk("train", "net.psk")
    console.presk("train", "net.psk", "--resume", "ckpt", "--seed", "1")
    console.presk("train", "net.psk", "--resume", "ckpt", "--realize", "f64")
    console.presk("train", "net.psk", "--resume", "nowhere")
    console.presk("train", "net.psk", "--resume", "ckpt", "--params", "ckpt")
    console.presk("train", "net.psk", "--steps", "31")
    console.presk("train", "net.psk", "--eval-every", "3")
    console.presk("train", "net.psk", "--plot", "loss.pdf")
    console.presk("train", "net.psk", "--overwrite", "--steps", "1", "--checkpoint-every", "1", "--threads", "1")
    console.write("wide.psk", MODEL.replace("const D : nat = 8", "const D : nat = 16"))
    console.presk("train", "wide.psk", "--resume", "ckpt")
    console.presk("train", "wide.psk", "--params", "ckpt", "--checkpoints", "wide")
    console.write("other.psk", MODEL.replace("gelu", "tanh"))
    console.presk("train", "other.psk", "--resume", "ckpt")
    console.write("nothing.psk", MODEL[: MODEL.index("training run")])
    console.presk("train", "nothing.psk")
    console.write("bare.psk", re.sub(r"\n *data +=.*", "", MODEL))
    console.presk("train", "bare.psk")
    console.write("missing.psk", MODEL.replace("chars.psk.d", "none.psk.d"))
    console.presk("train", "missing.psk")
    console.write("few.psk", MODEL.replace("batch(B = 4)", "batch(B = 4000)"))
    console.presk("train", "few.psk")
    golden("cli/train.txt", re.sub(r"\d+\.\d+ s|\d[\d,]* tokens/s\b|  remaining .*", "…", console.transcript))


def test_evaluation_is_the_inference_reading_on_the_other_data(console: Console) -> None:
    console.write("val.txt", "the rat sat on the mat. the cat and the rat. ")
    pack = ("data", "pack", "val.txt", "--window", "8", "--vocab", "chars.psk.d", "--out", "val.psk.d")
    assert console.presk(*pack).code == 0
    options = ("--eval-data", "val.psk.d", "--eval-every", "3", "--realize", "f64", "--log", "val.jsonl")
    trained(console, "val", *options, "--checkpoint-every", "3", "--keep", "9", steps=6)
    found = logged(console, "val.jsonl", "evaluation")
    assert [line["step"] for line in found] == [3, 6]
    with DataFile(console.folder / "val.psk.d", "val.psk.d") as data:
        stream = Stream(data, seed=None, batch=4)
        batches = [stream.batch(stream.position(number)).leaves for number in range(stream.per_epoch)]
    losses = []
    for leaves in batches:
        for place, leaf in enumerate(leaves):
            console.write(f"val{place}.json", json.dumps(leaf.tolist()))
        given = [option for place in (0, 1) for option in ("--input", f"batch.{place}=val{place}.json")]
        given += ["--params", "val/step-000006.safetensors", "--arg", "key=0", "--json"]
        losses.append(
            float(json.loads(console.presk("run", "net.psk", "--entry", "loss", *given).out)["result"]["data"])
        )
    assert found[1]["batches"] == len(losses) and found[1]["loss"] == pytest.approx(
        sum(losses) / len(losses), rel=1e-12
    )


def test_other_data_is_refused(console: Console, reference: dict[str, bytes]) -> None:
    del reference
    console.write("strange.txt", "0123456789abcde" * 20)
    assert console.presk("data", "pack", "strange.txt", "--window", "8", "--out", "strange.psk.d").code == 0
    ran = console.presk("train", "net.psk", "--eval-data", "strange.psk.d", "--checkpoints", "strange")
    assert ran.code == 4 and "E8009" in ran.err and "--vocab chars.psk.d" in ran.err
    whole = (console.folder / "chars.psk.d").read_bytes()
    try:
        console.write("text2.txt", "the cat sat on the rat and the mat sat on the rat. " * 40)
        packed = ("data", "pack", "text2.txt", "--window", "8", "--vocab", "chars.psk.d", "--out", "chars.psk.d")
        assert console.presk(*packed).code == 0
        again = console.presk("train", "net.psk", *SEED, "--resume", "reference", "--checkpoints", "reference")
        assert again.code == 4 and "E8009" in again.err
    finally:
        (console.folder / "chars.psk.d").write_bytes(whole)


def test_a_plan_decides_no_bit(console: Console, reference: dict[str, bytes]) -> None:
    shown = console.presk(
        "dump", "net.psk", "--stage", "core-after-ad", "--entry", "training.step", "--mode", "training"
    ).out
    layout: dict[str, dict[str, Any]] = {}
    function = ""
    for line in shown.splitlines():
        function = found[1] if (found := re.match(r"fn ([^{(]+)", line)) else function
        if product := re.match(r"  %(\d+) : .* = dot(_vjp_[lr])? ", line):
            layout[f"{function}/%{product[1]}"] = {"tile": [2, 8], "lanes": 4, "pack": True, "kblock": 32}
    assert len(layout) >= 6
    console.write("plan.json", json.dumps({"realization": "f32", "layout": layout}))
    assert trained(console, "planned", "--plan", "@plan.json") == reference
    found_ = console.presk("train", "net.psk", "--plan", "@plan.json", "--realize", "f32")
    assert found_.code == 2 and "E9003" in found_.err
    console.write("wrong.json", json.dumps({"realization": "f32", "layout": {"Block.apply/%99": {"tile": [2, 8]}}}))
    refused = console.presk("train", "net.psk", "--plan", "@wrong.json", "--checkpoints", "wrong")
    assert refused.code == 4 and "E7002" in refused.err and not (console.folder / "wrong").exists()


def test_nothing_is_lost_before_everything_is_sound(console: Console, reference: dict[str, bytes]) -> None:
    """A run that would overwrite an earlier one, and is refused, leaves it whole."""
    assert trained(console, "kept whole") == reference
    console.write("foreign.txt", "not a log")
    anew = ("train", "net.psk", "--checkpoints", "kept whole", "--overwrite")
    for options in (
        ("--eval-data", "nowhere.psk.d"),
        ("--log", "foreign.txt"),
        ("--plot", "nowhere/loss.svg"),
        ("--params", "nowhere"),
        ("--realize", "f16"),
        ("--plan", "@nowhere.json"),
    ):
        ran = console.presk(*anew, *options)
        assert ran.code in (2, 4) and re.match(r"error\[E(9002|8006|7002)\]", ran.err), ran.err
        assert tensors(console.folder / "kept whole" / "step-000020.safetensors") == reference
    assert not (console.folder / "nowhere").exists()


def test_what_the_program_is_called_does_not_count(console: Console, reference: dict[str, bytes]) -> None:
    del reference
    console.write("sub/other name.psk", MODEL.replace("chars.psk.d", "../chars.psk.d"))
    ran = console.presk(
        "train", "sub/other name.psk", *SEED, "--steps", "20", "--resume", "reference", "--checkpoints", "renamed"
    )
    assert ran.code == 0 and "nothing is left to do" in ran.out, ran.err


def test_a_log_is_not_replaced_unasked(console: Console) -> None:
    options = ("train", "net.psk", "--steps", "2", "--log", "asked.jsonl")
    assert console.presk(*options, "--checkpoints", "asked 1").code == 0
    before = (console.folder / "asked.jsonl").read_text()
    ran = console.presk(*options, "--checkpoints", "asked 2")
    assert ran.code == 2 and "E9003" in ran.err and "is the log of another run" in ran.err
    assert (console.folder / "asked.jsonl").read_text() == before
    assert console.presk(*options, "--checkpoints", "asked 2", "--overwrite").code == 0


def test_fusion_decides_where_storing_rounds(console: Console) -> None:
    """A run in bf16 goes on with the fusion that it began with; others go on with any."""
    mixed = '{"default": "bf16", "functions": {"training.step": "f32", "adamw.step": "f32", "adamw.lr": "f32"}}'
    trained(console, "fused", "--realize", mixed, steps=4)
    again = (
        "train",
        "net.psk",
        *SEED,
        "--steps",
        "8",
        "--realize",
        mixed,
        "--checkpoints",
        "fused",
        "--resume",
        "fused",
    )
    refused = console.presk(*again, "--no-fusion")
    assert refused.code == 4 and "E8007" in refused.err and "fusion" in refused.err
    assert console.presk(*again, "--remat", "recompute", "--threads", "2").code == 0
    assert trained(console, "unbroken", "--realize", mixed, steps=8) == tensors(
        console.folder / "fused" / "step-000008.safetensors"
    )
