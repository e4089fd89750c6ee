"""nanoGPT's recipe in Presk, and beside it in PyTorch: validation loss and processor time, in one run.

    python experiments/nanogpt/run.py --text shakespeare.txt --torch build/peers/bin/python

Nine tenths of the text are for training, the rest for validation. `presk train` trains `char_gpt.psk` on them; with
`--torch PYTHON`, an interpreter that has PyTorch and numpy, `torch_twin.py` then trains the same model on the same batches, from first
numbers of its own. Each is one process with one thread, and its processor time is what the system says when it is done: with starting,
compiling (Presk begins with an empty store) and evaluating. Validated are all whole batches of the validation text.

Both results and the machine's facts are printed as a table and written to `results/`.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from presk.data.stream import order

HERE: Final = Path(__file__).resolve().parent
PROGRAM: Final = HERE / "char_gpt.psk"
TWIN: Final = HERE / "torch_twin.py"

STEPS: Final = 2000
WARMUP: Final = 100
BATCH: Final = 12
WINDOW: Final = 64
SHUFFLE: Final = 1337
REFERENCE: Final = {"validation": 1.8857, "cpu_seconds": 122.0}
"""What the recipe is known to come to with PyTorch, on one core of a machine of two."""

ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PRESK_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training came to.

    Processor and wall time are the whole process's; `training` is the time of the steps alone, as the process itself has it, in
    seconds of wall time.
    """

    validation: float
    batches: int
    loss: float
    cpu_seconds: float
    wall_seconds: float
    training: float


@dataclass(frozen=True, slots=True)
class Done:
    """A process that has ended: its standard output, its processor time and its wall time."""

    out: str
    cpu: float
    wall: float


def finish(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Done:
    """Runs a command to its end; its output goes to the terminal as well. Leaves with its exit code if it fails."""
    began = time.perf_counter()
    lines = []
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print("   ", line, end="", flush=True)
            lines.append(line)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{Path(command[0]).name} left with {child.returncode}")
    return Done("".join(lines), used.ru_utime + used.ru_stime, time.perf_counter() - began)


def _alone(folder: Path) -> dict[str, str]:
    """Presk in its own process, with a store of its own."""
    return {"PRESK_NO_DAEMON": "1", "PRESK_CACHE": str(folder / "store")}


def data_files(text: Path, folder: Path, presk: Sequence[str]) -> None:
    """Makes the data files of a text; its characters are one vocabulary for both."""
    content = text.read_text("utf-8")
    cut = len(content) * 9 // 10
    (folder / "vocabulary.json").write_text(json.dumps(sorted(set(content))), "utf-8")
    for name, part, stride in (("train", content[:cut], 1), ("validation", content[cut:], WINDOW)):
        (folder / f"{name}.txt").write_text(part, "utf-8")
        options = ["--window", str(WINDOW), "--stride", str(stride), "--vocab", "vocabulary.json"]
        command = [*presk, "data", "pack", f"{name}.txt", *options, "--out", f"data/{name}.psk.d"]
        finish(command, folder, _alone(folder))


def program(steps: int, characters: int) -> str:
    """The program with a schedule of so many steps, and as many characters."""
    text = PROGRAM.read_text("utf-8")
    changes = {
        f"take(n = {STEPS})": f"take(n = {steps})",
        f"cosine(warmup = {WARMUP})": f"cosine(warmup = {min(WARMUP, steps // 2)})",
        "const V  : nat = 65 ": f"const V  : nat = {characters} ",
    }
    for old, new in changes.items():
        if text.count(old) != 1:
            sys.exit(f"char_gpt.psk does not have `{old}` once")
        text = text.replace(old, new)
    return text


def in_presk(folder: Path, presk: Sequence[str], steps: int, seed: int, realization: str) -> Trained:
    """Trains with `presk train`, which evaluates once, at the end, as the twin does."""
    command = [*presk, "train", PROGRAM.name, "--realize", realization, "--threads", "1", "--seed", str(seed)]
    command += ["--steps", str(steps), "--eval-data", "data/validation.psk.d", "--eval-every", str(steps)]
    command += ["--log", "log.jsonl"]
    done = finish(command, folder, {**ONE_THREAD, **_alone(folder)})
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    made = [line for line in lines if line["kind"] == "step"]
    last = [line for line in lines if line["kind"] == "evaluation"][-1]
    seconds = sum(step["seconds"] for step in made)
    return Trained(last["loss"], last["batches"], made[-1]["loss"], done.cpu, done.wall, seconds)


def in_pytorch(folder: Path, python: str, steps: int, seed: int, more: Sequence[str]) -> tuple[Trained, str]:
    """Trains the twin on the windows that the program's stream gives; its result, and PyTorch's version."""
    header = (folder / "data" / "train.psk.d").read_bytes()[:4096]
    size = int.from_bytes(header[:8], "little")
    samples = int(json.loads(header[8 : 8 + size])["__metadata__"]["presk.count"])
    np.save(folder / "order.npy", order(SHUFFLE, 0, samples)[: steps * BATCH])
    command = [python, str(TWIN), "--train", "data/train.psk.d", "--validation", "data/validation.psk.d"]
    command += ["--order", "order.npy", "--steps", str(steps), "--seed", str(seed), *more]
    done = finish(command, folder, ONE_THREAD)
    found = json.loads(done.out.splitlines()[-1])
    trained = Trained(found["validation"], found["batches"], found["loss"], done.cpu, done.wall, found["seconds"])
    return trained, found["torch"]


def machine() -> dict[str, Any]:
    """What the times depend on."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The results, a line for each."""
    lines = [f"{'':<24}{'validation loss':>16}{'CPU-seconds':>14}{'steps, wall s':>15}"]
    for name, row in rows.items():
        steps = f"{row['training']:.1f}" if "training" in row else "–"
        lines.append(f"{name:<24}{row['validation']:>16.4f}{row['cpu_seconds']:>14.1f}{steps:>15}")
    return "\n".join(lines)


def main() -> None:
    """Makes the data, trains, prints, records."""
    parser = argparse.ArgumentParser(description="nanoGPT's recipe in Presk, and beside it in PyTorch.")
    parser.add_argument("--text", type=Path, required=True, help="a text, such as the one that nanoGPT trains on")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument(
        "--schedule", type=int, help="the steps of the schedule, where the training ends before it does"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first parameters, on either side")
    parser.add_argument("--realize", default="f32", help="the machine types of Presk's run")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch and numpy")
    parser.add_argument("--recipe", action="store_true", help="the twin once more, decaying and ending as nanoGPT does")
    parser.add_argument("--work", type=Path, help="a folder for what is made (default: a temporary one, removed)")
    parser.add_argument("--record", metavar="NAME", help="write results/NAME.json")
    given = parser.parse_args()
    if not given.text.is_file():
        sys.exit(f"there is no text `{given.text}`")
    if given.steps < 2:
        sys.exit("a training that warms up has two steps at least")
    schedule = given.schedule or given.steps
    if schedule < given.steps:
        sys.exit("a training has no more steps than its schedule")
    presk = (sys.executable, "-c", "from presk.cli.client import main; main()")
    torch = given.torch and shutil.which(given.torch)
    if given.torch and torch is None:
        sys.exit(f"there is no interpreter `{given.torch}`")
    folder = (given.work or Path(tempfile.mkdtemp(prefix="nanogpt-"))).resolve()
    (folder / "data").mkdir(parents=True, exist_ok=True)
    try:
        facts = machine()
        print("data")
        data_files(given.text, folder, presk)
        characters = len(json.loads((folder / "vocabulary.json").read_text("utf-8")))
        (folder / PROGRAM.name).write_text(program(schedule, characters), "utf-8")
        shutil.rmtree(folder / "store", ignore_errors=True)
        print("Presk")
        rows: dict[str, dict[str, Any]] = {
            f"Presk, {given.realize}": asdict(in_presk(folder, presk, given.steps, given.seed, given.realize))
        }
        if torch:
            torch = os.path.abspath(torch)  # links are kept: an environment's interpreter is one
            warmup = ["--warmup", str(min(WARMUP, schedule // 2)), "--characters", str(characters)]
            plain = [*warmup, "--schedule", str(schedule)]
            print("PyTorch")
            trained, version = in_pytorch(folder, torch, given.steps, given.seed, plain)
            rows["PyTorch, the twin"] = asdict(trained)
            facts["torch"] = version
            if given.recipe:
                print("PyTorch, as nanoGPT decays and ends")
                more = [*warmup, "--decay", "nanogpt", "--last", "1e-4"]
                rows["PyTorch, nanoGPT's way"] = asdict(in_pytorch(folder, torch, given.steps, given.seed, more)[0])
    finally:
        if given.work is None:
            shutil.rmtree(folder, ignore_errors=True)
    print()
    print(table({**rows, "nanoGPT, as known": REFERENCE} if given.steps == STEPS else rows))
    if given.record:
        record = {
            "day": datetime.now(UTC).date().isoformat(),
            "steps": given.steps,
            "schedule": schedule,
            "seed": given.seed,
            "machine": facts,
        }
        path = HERE / "results" / f"{given.record}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**record, "results": rows}, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
