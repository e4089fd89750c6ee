"""`make demo`: a GPT learns to write, step by step, each command shown and run.

The programs of the corpus are checked. Then the course GPT, in a copy with smaller sizes, is trained natively, through a daemon of the
demo's own, on text that every Python brings; it is evaluated on text that it has not seen, and writes some. Its loss is computed
exactly, over the reals at 256 bits, and in machine numbers, whose distance is measured. Its last steps are replayed from a
checkpoint to the same bits. A function is changed to show what is compiled again.

Everything is made in `build/demo`, store and checkpoints included, so that nothing is there when it begins, and everything stays
to be looked at. With `--tiny` the same steps are taken at sizes that show nothing but that they work.
"""

import argparse
import difflib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PRESK: Final = ROOT / ".venv" / "bin" / "presk"
COURSE: Final = ROOT / "corpus" / "nlp" / "05_gpt.psk"
PROMPT: Final = 'The "for" statement'
_CELLS: Final = 10
"""Words of a row of `--stats`, with the stage as one: five counts, and two times with their units."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a demo is. `tail` are the steps behind the last checkpoint of the run that are replayed."""

    width: int
    heads: int
    depth: int
    context: int
    batch: int
    steps: int
    tail: int
    warmup: int
    every: int
    characters: int | None  # of the text; None: all
    generated: int
    exact: int  # characters whose loss is computed exactly
    checked: str  # the folder of programs that are checked first


FULL: Final = Size(128, 4, 4, 64, 12, 2600, 100, 100, 500, None, 400, 32, "corpus")
TINY: Final = Size(16, 2, 1, 16, 4, 26, 6, 5, 10, 6000, 30, 4, "corpus/basics")


class Demo:
    """The commands, in the repository's root, with a store and a daemon of their own."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder: Final = folder
        self.env: Final = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PRESK_")},
            "PRESK_CACHE": str(folder / "cache"),
            "PRESK_RUNTIME_DIR": str(runtime),
            "NO_COLOR": "1",
        }

    def shown(self, name: str) -> str:
        """A path below the demo's folder as commands name it."""
        path = self.folder / name
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)

    def presk(self, *arguments: str, keep: Callable[[str], bool] = bool, title: str = "") -> list[str]:
        """Runs presk, prints the command (or `title`), and the lines for which `keep`, as they come; a failure ends the demo."""
        print(f"$ {title or 'presk ' + ' '.join(map(quoted, arguments))}", flush=True)
        began = time.perf_counter()
        with subprocess.Popen(
            [str(PRESK), *arguments],
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        ) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if keep(lines[-1]):
                    print(f"  {lines[-1]}".rstrip(), flush=True)
        print(f"  ({time.perf_counter() - began:.2f} s)", flush=True)
        if process.returncode != 0:
            print("\n".join(lines[-40:]), file=sys.stderr)
            sys.exit(f"demo: the command ended with {process.returncode}")
        return lines

    def stop(self) -> None:
        """Ends the demo's daemon."""
        subprocess.run([str(PRESK), "daemon", "stop"], cwd=ROOT, env=self.env, capture_output=True, check=False)


def say(text: str) -> None:
    """A heading."""
    print(f"\n== {text}", flush=True)


def tell(text: str) -> None:
    """A line that is no command's."""
    print(f"  {text}", flush=True)


def quoted(argument: str) -> str:
    """An argument as one types it."""
    return f"'{argument}'" if any(sign in argument for sign in ' "') else argument


def nothing(_: str) -> bool:
    """Keeps no line."""
    return False


def manual() -> str:
    """The text that comes with Python: the topics of its `help`, of which printable ASCII and line ends are kept."""
    try:
        from pydoc_data.topics import topics  # its 700 kB are read where they are wanted
    except ImportError:
        sys.exit(
            "demo: this Python has no module `pydoc_data.topics`, whose text the demo trains on; some distributions keep it\n"
            "      in a package of its own. Take another Python: rm -r .venv; make demo PYTHON=/path/to/python3"
        )
    whole = "\n\n".join(topics[name] for name in sorted(topics))
    return "".join(sign for sign in whole if sign == "\n" or " " <= sign <= "~")


def adapted(program: str, size: Size, characters: int) -> str:
    """The course GPT at a size, with data and schedule of the demo. What is replaced must be there."""
    changes = [
        ("const V  : nat = 92 ", f"const V  : nat = {characters} "),
        ("const D  : nat = 384", f"const D  : nat = {size.width}"),
        ("const H  : nat = 6", f"const H  : nat = {size.heads}"),
        ("const L  : nat = 6", f"const L  : nat = {size.depth}"),
        ("const C  : nat = 256", f"const C  : nat = {size.context}"),
        ("dropout(0.2,", "dropout(0.05,"),
        ("cosine(warmup = 100)", f"cosine(warmup = {size.warmup})"),
        (
            'stream "data/chars.psk.d" |> shuffle(seed = 1234) |> batch(B = 16)',
            f'stream "train.psk.d" |> shuffle(seed = 1234) |> batch(B = {size.batch}) |> take(n = {size.steps})',
        ),
        ("epochs    : nat = 10", "epochs    : nat = 1"),
        ('checkpoint every 500 steps to "ckpt/gpt/"', f'checkpoint every {size.every} steps to "ckpt/"'),
        ('"ckpt/gpt/final"', '"ckpt/final"'),
    ]
    for old, new in changes:
        assert old in program, old
        program = program.replace(old, new)
    return program


def differences(old: str, new: str) -> list[str]:
    """The lines that differ, without their comments' blanks."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return [re.sub(r" {2,}--", "  --", line) for line in lines if not line.startswith(("---", "+++", "@@"))]


def chart(
    losses: Sequence[tuple[int, float]], held: Sequence[tuple[int, float]], columns: int = 72, rows: int = 14
) -> list[str]:
    """The loss by step: `*` the mean over the steps of a column, `o` an evaluation on held-out text."""
    last = max(step for step, _ in losses)
    binned: dict[int, list[float]] = {}
    for step, loss in losses:
        binned.setdefault((step - 1) * columns // last, []).append(loss)
    means = {column: sum(values) / len(values) for column, values in binned.items()}
    points = [(column, mean, "*") for column, mean in means.items()]
    points += [((step - 1) * columns // last, loss, "o") for step, loss in held]
    low, high = min(value for _, value, _ in points), max(value for _, value, _ in points)
    span = max(high - low, 1e-9)
    grid = [[" "] * columns for _ in range(rows)]
    for column, value, sign in points:
        grid[round((high - value) / span * (rows - 1))][column] = sign
    lines = []
    for row, cells in enumerate(grid):
        label = f"{high - span * row / (rows - 1):6.2f}" if row % 3 == 0 or row == rows - 1 else " " * 6
        lines.append(f"{label} |{''.join(cells).rstrip()}")
    lines.append(f"{'':6} +{'-' * columns}")
    lines.append(f"{'step':>6} 1{last:>{columns - 1}}")
    return lines


def logged(path: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of a log that are of a kind."""
    return [line for line in map(json.loads, path.read_text("utf-8").splitlines()) if line["kind"] == kind]


def tensors(path: Path) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Shape and bytes of each tensor of a safetensors file: eight bytes of length, a header of JSON, the bytes."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    return {
        name: (tuple(entry["shape"]), content[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def computed(lines: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Of a table of `--stats`: by stage, how often it was asked for, and how often computed."""
    rows = {}
    for line in lines:
        cells = line.rsplit(maxsplit=_CELLS - 1)
        if len(cells) == _CELLS and cells[1].isdigit():
            rows[cells[0]] = (int(cells[1]), int(cells[2]))
    return rows


def worked(line: str) -> bool:
    """Whether a line of a table of `--stats` is its head, its sum, or a stage that computed something."""
    cells = line.rsplit(maxsplit=_CELLS - 1)
    return line.startswith("stage ") or (len(cells) == _CELLS and cells[2].isdigit() and cells[2] != "0")


def main(arguments: Sequence[str] | None = None) -> None:
    """The steps, in a folder that is made anew."""
    parser = argparse.ArgumentParser(prog="demo")
    parser.add_argument("--tiny", action="store_true", help="at sizes that show nothing but that the steps work")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo", help="what is made, and emptied first")
    asked = parser.parse_args(arguments)
    began = time.perf_counter()
    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    print(
        f"A GPT learns to write: about three minutes on two free cores. Everything is made in {asked.folder}.",
        flush=True,
    )
    # A socket's path must be short, so it is not below the demo's folder.
    with tempfile.TemporaryDirectory(prefix="presk-demo-") as runtime:
        demo = Demo(asked.folder.resolve(), Path(runtime))
        try:
            steps(demo, TINY if asked.tiny else FULL)
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            demo.stop()
    say(f"Done in {minutes(time.perf_counter() - began)}. What was made is in {demo.shown('')}; to go on:")
    print(
        f"$ .venv/bin/presk generate {demo.shown('gpt.psk')} --params {demo.shown('ckpt')} --prompt 'A class' --seed 2"
    )


def minutes(seconds: float) -> str:
    """Time for people."""
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def steps(demo: Demo, size: Size) -> None:
    """What is shown."""
    check_corpus(demo, size)
    prepare(demo, size)
    train(demo, size)
    write(demo, size)
    compute_exactly(demo, size)
    replay(demo, size)
    change(demo, size)


def check_corpus(demo: Demo, size: Size) -> None:
    """Every program is checked."""
    say("Every program of the corpus is checked: shapes for all sizes at once, modules, gradients, configuration")
    corpus = sorted(str(path.relative_to(ROOT)) for path in (ROOT / size.checked).rglob("*.psk"))
    lines = demo.presk("check", *corpus, keep=nothing, title=f"presk check {size.checked}/**/*.psk")
    # Warnings come first, of data files that are not there; the line before the last counts them.
    warnings = [line for line in lines if line.endswith((" warning", " warnings"))]
    tell(f"{len(corpus)} programs, no error{f', {warnings[-1]}' if warnings else ''}")


def prepare(demo: Demo, size: Size) -> None:
    """Text, data files, program."""
    say(
        "Text that every Python has: the topics of its `help`; of its characters, printable ASCII and line ends are kept"
    )
    text = manual()[: size.characters]
    cut = len(text) * 9 // 10
    for name, part in (("train.txt", text[:cut]), ("held.txt", text[cut:])):
        (demo.folder / name).write_text(part, "utf-8")
    tell(f"{len(text):,} characters: {cut:,} to train on, and the last tenth to evaluate on, {len(text) - cut:,}")

    say(f"Data files: samples are windows of {size.context} characters, each with the character that follows it")
    train, held = demo.shown("train.psk.d"), demo.shown("held.psk.d")
    window = ("--window", str(size.context))

    def keep(line: str) -> bool:
        return line.startswith(("sample:", "count:", "vocabulary:", "bytes:"))

    packed = demo.presk("data", "pack", demo.shown("train.txt"), *window, "--out", train, keep=keep)
    apart = ("--stride", str(size.context), "--vocab", train)
    demo.presk("data", "pack", demo.shown("held.txt"), *window, *apart, "--out", held, keep=keep)

    say(
        f"The course GPT, {COURSE.relative_to(ROOT)}, in a copy: small enough for minutes, with less dropout, and the demo's data"
    )
    characters = int(next(line for line in packed if line.startswith("vocabulary:")).split()[1])
    program = adapted(COURSE.read_text("utf-8"), size, characters)
    (demo.folder / "gpt.psk").write_text(program, "utf-8")
    for line in differences(COURSE.read_text("utf-8"), program):
        tell(line)

    say("What its training would be, before anything is run: sizes, memory, learning rates")
    demo.presk("train", demo.shown("gpt.psk"), "--dry-run")


def train(demo: Demo, size: Size) -> None:
    """The run, its figures as they come, and its curve."""
    say(
        f"Training: {size.steps:,} steps, each one native call for forward pass, gradient and optimizer; kernels are compiled first"
    )
    log, plot = demo.shown("log.jsonl"), demo.shown("loss.svg")
    held = ("--eval-data", demo.shown("held.psk.d"))
    demo.presk("train", demo.shown("gpt.psk"), *held, "--log", log, "--plot", plot, "--seed", "1")

    say(f"The loss (*) and that of held-out text (o), from {log}; {plot} is a picture of it")
    taken, apart = logged(demo.folder / "log.jsonl", "step"), logged(demo.folder / "log.jsonl", "evaluation")
    for line in chart([(one["step"], one["loss"]) for one in taken], [(one["step"], one["loss"]) for one in apart]):
        print(f"  {line}")
    held_out = apart[-1]["loss"]
    tell(
        f"held out: {held_out:.4f} nats a character, which is {held_out / math.log(2):.2f} bits; "
        f"the first batch had {taken[0]['loss']:.4f}"
    )


def write(demo: Demo, size: Size) -> None:
    """A sample."""
    say("It writes: the program's `generate` draws one character a call; the same seed writes the same text")
    options = ("--prompt", PROMPT, "--length", str(size.generated), "--seed", "1")
    demo.presk("generate", demo.shown("gpt.psk"), "--params", demo.shown("ckpt"), *options, keep=lambda _: True)


def compute_exactly(demo: Demo, size: Size) -> None:
    """The trained model's loss over the reals, and how far machine numbers are from it."""
    say(f"What the trained model's loss on {size.exact} held-out characters is, exactly: every operation at 256 bits")
    show = ("data", "show", demo.shown("held.psk.d"), "--sample", "3", "--json")
    sample = json.loads(demo.presk(*show, keep=nothing)[0])
    for place, tensor in enumerate(sample["value"]):
        (demo.folder / f"batch.{place}.json").write_text(json.dumps([tensor["data"][: size.exact]]), "utf-8")
    tell(f"text: {sample['text'][0][: size.exact]!r}" if "text" in sample else "")
    inputs = [f"--input=batch.{place}={demo.shown(f'batch.{place}.json')}" for place in (0, 1)]
    loss = ("run", demo.shown("gpt.psk"), "--entry", "loss", "--params", demo.shown("ckpt"), *inputs, "--arg", "key=7")
    demo.presk(*loss)
    say("The same question again: the answer is there")
    demo.presk(*loss)
    say("And in 32-bit numbers, with a bound on how far they are off")
    demo.presk(*loss, "--backend", "native", "--realize", "f32", "--gap")


def replay(demo: Demo, size: Size) -> None:
    """The last steps once more, from a checkpoint."""
    from_ = size.steps - size.tail
    say(f"Replay: the last {size.tail} steps again, from the checkpoint of step {from_:,}, on one thread")
    resume = ("--resume", demo.shown(f"ckpt/step-{from_:06d}.safetensors"), "--checkpoints", demo.shown("again"))
    once_more = ("train", demo.shown("gpt.psk"), *resume, "--seed", "1", "--threads", "1")
    demo.presk(*once_more, keep=lambda line: line.startswith(("train", "checkpoint", "done")))
    first, second = (tensors(demo.folder / name / "final.safetensors") for name in ("ckpt", "again"))
    if first != second:
        sys.exit("demo: the replayed run has other tensors")
    count = sum(len(content) for _, content in first.values())
    tell(f"{len(first)} tensors, parameters and optimizer state, {count:,} bytes: the same in every bit")


def change(demo: Demo, size: Size) -> None:
    """One function is changed."""
    say("One function is changed, `gelu` to `relu`: which stages run again when it is checked, and why one did")
    path = demo.folder / "gpt.psk"
    text = path.read_text("utf-8")
    assert "gelu(up.apply(x))" in text
    name = demo.shown("gpt.psk")
    step = ("run", name, "--entry", "training.step", "--mode", "training", "--realize", "f32", "--backend", "native")
    sizes = ("--dim", f"B={size.batch}", "--dim", f"T={size.context}")
    at = (*sizes, "--arg", "key=7", "--arg", "t=1", "--arg", f"total={size.steps}", "--stats")
    path.write_text(text.replace("gelu(up.apply(x))", "relu(up.apply(x))"), "utf-8")
    demo.presk("check", name, "--stats", keep=worked)
    demo.presk("why", name, "FeedForward.apply", keep=lambda line: line.startswith("typing "))

    say("A training step of the changed program: which kernels are compiled, of all that it has")
    rows = computed(demo.presk(*step, *at, keep=lambda line: worked(line) or line.startswith("launches")))
    asked, made = rows["object"]
    tell(f"{made} of {asked} objects were compiled, the others were there: only what the change touches")
    # What was trained is the function that stood there before.
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
