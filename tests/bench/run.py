"""Runs the benchmarks: every `bench_*.py` of this folder, or those named on the command line (`check` is bench_check.py).

The machine's facts come first, since a figure without them says nothing. Each benchmark is a module with
`def main() -> None` that prints its own table; it runs in a process of its own, one after the other, so that none finds
warm caches or a grown heap that another one left. A benchmark that fails is reported and the others still run.
"""

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parents[1]
PACKAGES: Final = ("numpy", "llvmlite", "lark", "msgspec", "islpy")


def benchmarks(folder: Path) -> dict[str, Path]:
    """The benchmarks by name, in the order of their names."""
    return {path.stem.removeprefix("bench_"): path for path in sorted(folder.glob("bench_*.py"))}


def field(text: str, name: str) -> str:
    """The value of the first `name : value` line of a file of /proc; "" if there is none."""
    found = (line.partition(":")[2].strip() for line in text.splitlines() if line.partition(":")[0].strip() == name)
    return next(found, "")


def read(path: str) -> str:
    """A file's text, or "" where this system has no such file."""
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""


def machine() -> dict[str, str]:
    """What a figure depends on beside the code: processor, cores, memory, load, system, Python, packages, commit."""
    processor = field(read("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine()
    memory = field(read("/proc/meminfo"), "MemTotal").removesuffix(" kB")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    return {
        "processor": processor,
        "cores": f"{usable} usable of {os.cpu_count()}",
        "memory": f"{int(memory) / 2**20:.1f} GiB" if memory else "not known",
        "load": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES),
        "commit": commit.strip() or "not known",
    }


def run_one(path: Path) -> None:
    """Loads one benchmark and runs its `main`, in this process."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Runs the named benchmarks, or all; 1 if one failed, 2 if a name is unknown."""
    found = benchmarks(folder)
    unknown = [name for name in arguments if name not in found]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(found) or 'none'}", file=sys.stderr)
        return 2
    for name, value in machine().items():
        print(f"{name:<10} {value}")
    failed = []
    for name in arguments or found:
        print(f"\n== {name}", flush=True)
        started = time.perf_counter()
        done = subprocess.run([sys.executable, __file__, "--one", str(found[name])], check=False)
        if done.returncode:
            failed.append(name)
        print(f"-- {name}: {time.perf_counter() - started:.1f} s", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.path.insert(0, str(ROOT))  # what benchmarks share is `tests.bench.…`
        run_one(Path(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1:]))
