"""Runs that end before their end: killed, interrupted, out of numbers, on a full disk, on data that is changed under them."""

import errno
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Final

import pytest

from tests.cli.console import COMMAND, Console
from tests.train.models import MODEL, prepared, tensors

LONG: Final = MODEL.replace("take(n = 15)", "take(n = 100)").replace("every 4 steps", "every 3 steps")
PATIENCE: Final = 120.0


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(tmp_path)


def started(console: Console, *options: str) -> "subprocess.Popen[bytes]":
    env = console.env | {"PATH": os.environ.get("PATH", "")}
    command = [*COMMAND, "train", "net.psk", "--threads", "1", *options]
    return subprocess.Popen(command, cwd=console.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until(stream: IO[bytes] | None, pattern: str) -> str:
    """Reads lines until one matches."""
    assert stream is not None
    seen = ""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        line = stream.readline().decode()
        assert line, seen
        seen += line
        if re.search(pattern, line):
            return seen
    raise AssertionError(seen)


@pytest.mark.parametrize("place", [3, 60])
def test_a_killed_run_goes_on_to_the_same_bits(console: Console, place: int) -> None:
    prepared(console, LONG)
    assert console.presk("train", "net.psk", "--log", "whole.jsonl", "--checkpoints", "whole").code == 0
    run = started(console, "--log", "killed.jsonl", "--checkpoints", "killed")
    try:
        until(run.stdout, rf"checkpoint  step +{place}/")
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate()
    again = console.presk("train", "net.psk", "--log", "killed.jsonl", "--checkpoints", "killed", "--resume", "killed")
    assert again.code == 0, again.err
    ends = [tensors(console.folder / folder / "final.safetensors") for folder in ("whole", "killed")]
    assert ends[0] == ends[1]
    # What a checkpoint had been begun of is gone with the next one that is written.
    assert not [path for path in (console.folder / "killed").iterdir() if path.name.startswith(".")]
    losses = [
        [
            (line["step"], line["loss"])
            for line in map(json.loads, log.read_text().splitlines())
            if line["kind"] == "step"
        ]
        for log in (console.folder / "whole.jsonl", console.folder / "killed.jsonl")
    ]
    assert len(losses[0]) == 200 and losses[0] == losses[1]


def test_an_interrupted_run_says_so_and_can_go_on(console: Console) -> None:
    prepared(console, LONG)
    run = started(console, "--checkpoints", "out")
    before = until(run.stdout, r"checkpoint  step +6/")
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130, err.decode()
    text = before + out.decode()
    assert "stopped: interrupted" in text and not err
    # A checkpoint of its last step is there, with which another run agrees.
    last = int(re.findall(r"checkpoint  step +(\d+)/", text)[-1])
    assert (console.folder / "out" / f"step-{last:06d}.safetensors").exists()
    done = re.search(r"stopped: interrupted  (\d+) steps", text)
    assert done is not None and last in (int(done[1]), int(done[1]) + 1)
    assert console.presk("train", "net.psk", "--steps", str(last), "--checkpoints", "same").code == 0
    files = [console.folder / folder / f"step-{last:06d}.safetensors" for folder in ("out", "same")]
    assert tensors(files[0]) == tensors(files[1])
    assert console.presk("train", "net.psk", "--checkpoints", "out", "--resume", "out").code == 0


@pytest.mark.parametrize("type_", ["f32", "bf16"])
def test_a_step_that_leaves_the_numbers_ends_the_run_and_names_the_place(console: Console, type_: str) -> None:
    wild = MODEL.replace("1e-2", "1e30").replace("every 4", "every 1").replace("gelu(x · w)", "exp(x · w)")
    prepared(console, wild)
    ran = console.presk("train", "net.psk", "--realize", type_)
    assert ran.code == 4
    found = re.search(r"error\[E7010\]: the (loss|norm of the gradient) of step (\d+) is (inf|nan)", ran.err)
    assert found is not None, ran.err
    assert "--> net.psk:" in ran.err and "the first value that is not finite is that of `" in ran.err
    assert re.search(r"the first parameter whose gradient is not finite is `[a-z.]+`", ran.err)
    last = int(found[2]) - 1
    newest = max(path.name for path in (console.folder / "ckpt").glob("step-*"))
    assert newest == f"step-{last:06d}.safetensors"
    again = console.presk("train", "net.psk", "--realize", type_, "--resume", "ckpt")
    assert again.code == 4 and found[0] in again.err


def test_a_full_disk_leaves_the_checkpoints_before(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(console)
    flush, calls = os.fsync, []

    def full(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith(".safetensors") or "step-" in os.readlink(
            f"/proc/self/fd/{handle}"
        ):
            calls.append(handle)
            if len(calls) == 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(handle)

    monkeypatch.setattr(os, "fsync", full)
    ran = console.presk("train", "net.psk")
    monkeypatch.undo()
    assert ran.code == 4 and "error[E8008]" in ran.err, ran.err
    there = sorted(path.name for path in (console.folder / "ckpt").iterdir())
    assert there == ["step-000004.safetensors", "step-000008.safetensors"]
    assert console.presk("train", "net.psk", "--resume", "ckpt").code == 0


def test_data_that_is_changed_in_place_ends_the_run(console: Console) -> None:
    prepared(console, LONG)
    run = started(console, "--checkpoints", "out")
    until(run.stdout, r"checkpoint  step +6/")
    with (console.folder / "chars.psk.d").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        (last,) = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([(last + 1) % 13]))
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 4 and b"error[E8005]" in err, err.decode()
    refused = console.presk("train", "net.psk", "--checkpoints", "out", "--resume", "out")
    assert refused.code == 4 and "error[E8009]" in refused.err


def test_a_data_file_that_is_cut_off_or_foreign_is_refused(console: Console) -> None:
    prepared(console)
    whole = (console.folder / "chars.psk.d").read_bytes()
    for damaged in (whole[:-3], whole + b"\0", b"no such file", whole[:40]):
        console.write("chars.psk.d", damaged)
        ran = console.presk("train", "net.psk")
        assert ran.code in (1, 4) and "error[E8001]" in ran.err, ran.err
        assert not (console.folder / "ckpt").exists()
    # An index that is not below its bound is found before the first step.
    console.write("chars.psk.d", whole[:-1] + b"\x0d")
    ran = console.presk("train", "net.psk")
    assert ran.code == 4 and "error[E8003]" in ran.err, ran.err


def test_parameters_that_become_no_numbers_are_not_kept(console: Console) -> None:
    """The rate is beyond f32; the loss and the norm of the first step are numbers."""
    prepared(console, MODEL.replace("1e-2", "1e39"))
    ran = console.presk("train", "net.psk", "--checkpoint-every", "1")
    assert ran.code == 4, ran.err
    assert "error[E7010]: step 1 makes the parameter `tok` something that is no number" in ran.err
    assert re.search(r"the first value that is not finite is that of `adamw\.lr/%\d+`", ran.err), ran.err
    assert not list((console.folder / "ckpt").glob("*.safetensors"))


def test_a_type_in_which_nothing_would_move_is_refused(console: Console) -> None:
    """β₂ = 0.999 is 1 in bf16: 1 − β₂ = 0."""
    prepared(console, MODEL.replace("(0.9, 0.99)", "(0.9, 0.999)"))
    ran = console.presk("train", "net.psk", "--realize", "bf16")
    assert ran.code == 4 and "error[E7002]" in ran.err and "β₂ = 0.999 is 1" in ran.err, ran.err
    near = console.presk("train", "net.psk", "--realize", "f32", "--steps", "1", "--checkpoints", "near")
    assert near.code == 0, near.err
    wide = '{"default": "bf16", "functions": {"training.step": "f32", "adamw.step": "f32", "adamw.lr": "f32"}}'
    kept = console.presk("train", "net.psk", "--realize", wide)
    assert kept.code == 0 and "W0005" not in kept.err
