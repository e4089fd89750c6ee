"""Training runs that get into each other's way, whose disk is full, or whose file of parameters is odd."""

import errno
import fcntl
import io
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from presk.train import files, log
from tests.cli.console import Console
from tests.train.models import prepared, tensors


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    return prepared(Console(tmp_path_factory.mktemp("broken")))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("options", [(), ("--overwrite",), ("--resume", "held")], ids=["new", "overwrite", "resume"])
def test_a_folder_has_one_run_at_a_time(console: Console, options: tuple[str, ...]) -> None:
    folder = console.folder / "held"
    folder.mkdir(exist_ok=True)
    if options:
        begun = console.presk("train", "net.psk", "--steps", "4", "--checkpoints", "held", "--overwrite")
        assert begun.code == 0, begun.err
    before = names(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        ran = console.presk("train", "net.psk", "--checkpoints", "held", *options)
        assert ran.code == 2 and "E9003" in ran.err and "is being written by another run" in ran.err
        assert names(folder) == before
    finally:
        os.close(handle)
    assert console.presk("train", "net.psk", "--checkpoints", "held", "--steps", "8", *options).code == 0
    again = console.presk("train", "net.psk", "--checkpoints", "held", "--steps", "9", "--resume", "held")
    assert again.code == 0, again.err  # nobody holds it who has ended


def test_a_log_that_the_disk_refuses_costs_no_step(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = console.presk("train", "net.psk", "--steps", "6", "--checkpoints", "whole")
    assert whole.code == 0, whole.err
    real = files.write

    def full(file: io.FileIO, data: bytes) -> None:
        if b'"step":6,' in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, data)

    monkeypatch.setattr(log, "write", full)
    ran = console.presk("train", "net.psk", "--checkpoints", "lost", "--log", "lost.jsonl")
    assert ran.code == 4 and "E8008" in ran.err and "`lost.jsonl`" in ran.err
    last = "step-000006.safetensors"
    assert last in names(console.folder / "lost")
    assert tensors(console.folder / "lost" / last) == tensors(console.folder / "whole" / last)


def test_the_folder_without_a_name_is_the_one_here(console: Console) -> None:
    ran = console.presk("train", str(console.folder / "net.psk"), "--steps", "4", "--checkpoints", "", cwd="")
    assert ran.code == 0 and "  step-000004.safetensors" in ran.out
    assert (console.folder / "step-000004.safetensors").is_file()


def test_parameters_that_are_no_numbers_are_refused(console: Console) -> None:
    begun = console.presk("train", "net.psk", "--steps", "2", "--checkpoints", "odd", "--overwrite")
    assert begun.code == 0, begun.err
    found = {
        name: array
        for name, array in load_file(console.folder / "odd" / "step-000002.safetensors").items()
        if not name.startswith("adamw.")
    }
    element = "the element [1, 2] of its `head` is"
    for value, dtype, code, words in (
        (np.nan, np.float32, "E8006", f"{element} nan"),
        (-np.inf, np.float16, "E8006", f"{element} -inf"),
        (1e200, np.float64, "E8007", f"{element} 1e+200, too large for F32"),
    ):
        changed = {**found, "head": found["head"].astype(dtype)}
        changed["head"][1, 2] = value
        save_file(changed, console.folder / "odd.safetensors")
        trained = console.presk("train", "net.psk", "--params", "odd.safetensors", "--checkpoints", "none")
        made = console.presk(
            "generate", "net.psk", "--params", "odd.safetensors", "--data", "chars.psk.d", "--prompt", "a"
        )
        assert trained.code == made.code == 4
        for ran in (trained, made):
            assert code in ran.err and words in ran.err
        assert not (console.folder / "none").exists()
    wide = ("--realize", "f64", "--checkpoints", "wide", "--steps", "1")
    assert "E7010" in console.presk("train", "net.psk", "--params", "odd.safetensors", *wide).err


def test_a_vocabulary_without_line_ends_needs_a_prompt(console: Console) -> None:
    begun = console.presk("train", "net.psk", "--steps", "1", "--checkpoints", "plain", "--overwrite")
    assert begun.code == 0, begun.err
    ran = console.presk("generate", "net.psk", "--params", "plain")
    assert ran.code == 4 and ran.out == ""
    assert ran.err.startswith("error[E8004]: the vocabulary has no line end") and '--prompt "…"' in ran.err
    other = console.presk("generate", "net.psk", "--params", "plain", "--prompt", "tX")
    assert other.code == 4 and "line 1, column 2 of the prompt: `X`" in other.err
