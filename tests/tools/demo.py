"""`make demo`: the largest thing that works on real input, step by step, each command shown and run.

The programs of the corpus are checked. Then the course GPT, small, reads real text: the documentation that every Python brings. Its
loss and its gradient are computed exactly, over the reals at 256 bits, and natively, in machine numbers, whose distance to the exact
value is measured. A command is repeated to show the kept answer, and a function is changed in a copy to show what is done again.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PRESK: Final = ROOT / ".venv" / "bin" / "presk"
SIZES: Final = ("--const", "D=64", "--const", "H=2", "--const", "L=2")
BATCH: Final = 2
WINDOW: Final = 32
VOCABULARY: Final = 92


def say(text: str) -> None:
    """A heading."""
    print(f"\n== {text}", flush=True)


def show(*arguments: str, env: dict[str, str], lines: int = 12) -> str:
    """Runs presk, shows the command, the first lines of what it prints, and how long it took; a failure ends the demo."""
    print(f"$ presk {' '.join(arguments)}", flush=True)
    began = time.perf_counter()
    done = subprocess.run([str(PRESK), *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    output = (done.stdout + done.stderr).rstrip("\n").splitlines()
    for line in output[:lines]:
        print(f"  {line[:118]}")
    if len(output) > lines:
        print(f"  … {len(output) - lines} more lines")
    print(f"  ({seconds:.2f} s)", flush=True)
    if done.returncode != 0:
        sys.exit(f"demo: the command ended with {done.returncode}")
    return done.stdout


def windows(folder: Path) -> tuple[Path, Path]:
    """Two windows of real text as indices below the vocabulary's size, and the same windows one character on."""
    spec = importlib.util.find_spec("pydoc_data.topics")
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text("utf-8")[40000 : 40000 + BATCH * WINDOW + 1]
    alphabet = sorted(set(text))[:VOCABULARY]
    codes = [alphabet.index(character) if character in alphabet else 0 for character in text]
    print(f"  {text[:60]!r}…: {len(text)} characters, {len(alphabet)} different ones")
    paths = (folder / "context.json", folder / "targets.json")
    for shift, path in enumerate(paths):
        rows = [codes[row * WINDOW + shift : (row + 1) * WINDOW + shift] for row in range(BATCH)]
        path.write_text(json.dumps(rows), "utf-8")
    return paths


def main() -> None:
    """The steps."""
    with tempfile.TemporaryDirectory(prefix="presk-demo-") as name:
        folder = Path(name)
        env = {
            **os.environ,
            "PRESK_CACHE": str(folder / "cache"),
            "PRESK_RUNTIME_DIR": str(folder / "run"),
            "NO_COLOR": "1",
        }
        try:
            steps(folder, env)
        finally:
            subprocess.run([str(PRESK), "daemon", "stop"], cwd=ROOT, env=env, capture_output=True, check=False)


def steps(folder: Path, env: dict[str, str]) -> None:
    """What is shown."""
    say("Every program of the corpus is checked: shapes for all sizes at once, modules, gradients, configuration")
    corpus = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "corpus").rglob("*.psk"))
    print(f"$ presk check {len(corpus)} programs")
    began = time.perf_counter()
    checked = subprocess.run(
        [str(PRESK), "check", *corpus], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    print("  " + checked.stdout.strip().splitlines()[-2][:118] + f"  ({time.perf_counter() - began:.2f} s)")
    if checked.returncode != 0:
        sys.exit("demo: the corpus has errors")

    say("What the course GPT declares, and its resolved training record")
    show("check", "--summary", "corpus/nlp/05_gpt.psk", env=env, lines=60)

    say("Real text, from the documentation that comes with Python")
    context, targets = windows(folder)
    given = ("--input", f"batch.0={context}", "--input", f"batch.1={targets}", "--arg", "key=7", "--seed", "1")

    say("The loss of a small GPT on that text, exactly: every operation correctly rounded at 256 bits")
    loss = ("run", "corpus/nlp/05_gpt.psk", "--entry", "loss", *SIZES, *given)
    show(*loss, env=env)

    say("The same question again: the answer is there")
    show(*loss, env=env)

    say("Its gradient, by differentiation in the language (the first lines of it)")
    show("run", "corpus/nlp/05_gpt.psk", "--entry", "loss_grad", *SIZES, *given, env=env, lines=9)

    say(
        "The loss natively, in 32-bit numbers, and how far it is from the exact one; the kernels are compiled now, and kept"
    )
    machine = ("--realize", "f32")
    show(*loss, "--backend", "native", *machine, "--gap", "--stats", env=env, lines=40)

    say("The gradient natively, measured: a call is hundreds of kernels, and Python makes one of them")
    measured = ("bench", "corpus/nlp/05_gpt.psk", "--entry", "loss_grad", *SIZES, *given, *machine, "--runs", "51")
    show(*measured, env=env, lines=9)

    say("One function is changed in a copy: what is done again, and what is not")
    copy = folder / "gpt.psk"
    shutil.copy(ROOT / "corpus" / "nlp" / "05_gpt.psk", copy)
    show("check", str(copy), env=env, lines=0)
    text = copy.read_text("utf-8")
    assert "gelu(up.apply(x))" in text
    copy.write_text(text.replace("gelu(up.apply(x))", "relu(up.apply(x))"), "utf-8")
    show("check", str(copy), "--stats", env=env, lines=36)
    show("why", str(copy), "FeedForward.apply", env=env)


if __name__ == "__main__":
    main()
