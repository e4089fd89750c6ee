"""What a step of a training takes, natively and as a whole, and what a checkpoint takes: the course GPT at three sizes, in f32.

Both figures are medians of one process each, one thread: the native call by `presk bench --entry training.step`, the whole step
(batch, key, call, flags, log line) by the log of `presk train`. Their difference is Python's share."""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
COMMAND: Final = (sys.executable, "-c", "from presk.cli.client import main; main()")
TEXT: Final = "the quick brown fox jumps over the lazy dog, and sits down again. " * 400


@dataclass(frozen=True, slots=True)
class Size:
    """Constants of the program, and the sizes of a batch."""

    name: str
    width: int
    heads: int
    layers: int
    batch: int
    length: int
    steps: int


SIZES: Final = (
    Size("tiny", 32, 2, 1, 2, 16, 400),
    Size("small", 64, 2, 2, 2, 32, 300),
    Size("nano", 128, 4, 4, 12, 64, 60),
)


def presk(folder: Path, *arguments: str) -> str:
    """Runs a command in a folder with a store of its own, and gives what it printed."""
    env = {**os.environ, "PRESK_CACHE": str(folder / "cache"), "PRESK_NO_DAEMON": "1"}
    done = subprocess.run([*COMMAND, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def measure(folder: Path, size: Size) -> None:
    """Prints a row."""
    program = (ROOT / "corpus/nlp/05_gpt.psk").read_text(encoding="utf-8")
    program = program.replace("batch(B = 16)", f"batch(B = {size.batch})").replace("warmup = 100", "warmup = 10")
    (folder / "gpt.psk").write_text(program, encoding="utf-8")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    presk(folder, "data", "pack", "text.txt", "--window", str(size.length), "--out", "data/chars.psk.d")
    constants = [
        option
        for name, value in (("D", size.width), ("H", size.heads), ("L", size.layers))
        for option in ("--const", f"{name}={value}")
    ]
    dims = ("--dim", f"B={size.batch}", "--dim", f"T={size.length}", "--arg", "t=5", "--arg", "total=100")
    step = ("bench", "gpt.psk", "--entry", "training.step", "--mode", "training", "--realize", "f32", "--threads", "1")
    bench = json.loads(presk(folder, *step, *constants, *dims, "--runs", str(size.steps), "--json"))
    run = ("train", "gpt.psk", *constants, "--steps", str(size.steps), "--threads", "1", "--log", "log.jsonl")
    presk(folder, *run, "--checkpoints", "out", "--overwrite")
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    steps = [line["seconds"] for line in lines if line["kind"] == "step"][5:]
    call, whole = bench["call"]["median"], median(steps)
    tokens = size.batch * size.length / whole
    shown = presk(folder, "train", "gpt.psk", *constants, "--dry-run")
    parameters = re.search(r"^parameters +([\d,]+)", shown, re.MULTILINE)
    print(
        f"{size.name:6} {parameters[1] if parameters else '?':>9} {bench['launches']:9} {1e3 * call:9.3f} ms {1e3 * whole:9.3f} ms "
        f"{1e6 * (whole - call):8.0f} µs {tokens:10,.0f}"
    )


def main() -> None:
    """Prints the table."""
    print("size   parameters  launches       call   whole step    Python   tokens/s")
    with tempfile.TemporaryDirectory(prefix="presk-bench-") as name:
        for size in SIZES:
            folder = Path(name) / size.name
            folder.mkdir()
            measure(folder, size)


if __name__ == "__main__":
    main()
