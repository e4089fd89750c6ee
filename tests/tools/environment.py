"""Makes `.venv` hold what requirements/dev.lock says, nothing else, and this tree as an editable installation.

`check` exits with 0 if the environment is current, 1 if not; `build` brings it up to date, which is done under a lock, so
that any number of `make`s may start at once. What an environment was made from stands in `.venv/stamp`, a line for each
ingredient: the tree's own path (an environment that was copied or moved points at the tree it came from), the
interpreter, and the digests of the files that decide what is installed. The stamp is written last, so an interrupted
build is taken up by the next one. Only the standard library is used, since this runs before anything is installed.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = "requirements/dev.lock"
FILES = ("setup.py", LOCK, "tests/tools/environment.py")
PROJECT = "presk"


def interpreter() -> str:
    """What of the running interpreter decides whether an environment can be kept."""
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def ingredients(root: Path) -> dict[str, str]:
    """What the environment of the tree at `root`, made with the running interpreter, is made from."""
    # Of pyproject.toml only what an installation reads: a new lint rule is no reason to install anything.
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    package = [settings["build-system"], settings["project"], settings["tool"]["setuptools"]]
    contents = {"pyproject.toml": json.dumps(package).encode()} | {name: (root / name).read_bytes() for name in FILES}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return {"tree": str(root), "interpreter": interpreter(), **digests}


def recorded(root: Path) -> dict[str, str]:
    """The ingredients that the stamp records; nothing if there is no stamp."""
    try:
        lines = (root / ".venv" / "stamp").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("\t", 1) for line in lines if "\t" in line)


def changed(root: Path) -> list[str]:
    """The names of the ingredients that are not what the stamp says; empty if the environment is current."""
    before, now = recorded(root), ingredients(root)
    return [name for name in now if before.get(name) != now[name]]


def normal_name(name: str) -> str:
    """A package's name as names are compared: `Typing_Extensions` -> `typing-extensions`."""
    return "-".join(part for part in name.strip().lower().replace("_", "-").replace(".", "-").split("-") if part)


def locked_names(text: str) -> set[str]:
    """The normal names of the packages in a lock file."""
    return {normal_name(line.split("==")[0]) for line in text.splitlines() if line[:1].isalnum()}


def reusable(folder: Path) -> bool:
    """Whether `folder` is an environment made in this place, with an interpreter of the running one's version."""
    program = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2], sys.prefix)"
    try:
        python = [str(folder / "bin" / "python"), "-I", "-c", program]
        done = subprocess.run(python, capture_output=True, text=True, check=True)
        shebang = (folder / "bin" / "pip").read_text("utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError, subprocess.CalledProcessError):
        return False
    return done.stdout.strip() == f"{interpreter()} {folder}" and shebang.startswith(f"#!{folder}/bin/")


def install(root: Path, why: str) -> None:
    """Creates the environment, or changes the one that is there, and writes the stamp."""
    started = time.monotonic()
    folder = root / ".venv"
    python = str(folder / "bin" / "python")
    quiet = ("--quiet", "--quiet")  # errors only; warnings would be about the machine's own pip settings
    unwanted = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environ = {key: value for key, value in os.environ.items() if key not in unwanted}

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=root, env=environ, check=True, stdout=subprocess.PIPE, text=True).stdout

    def pip(command: str, *arguments: str) -> str:
        return run(python, "-m", "pip", "--disable-pip-version-check", "--no-input", command, *arguments)

    fresh = not reusable(folder)
    action = "Setting up" if fresh else "Updating"
    print(f"{action} .venv with Python {sys.version.split()[0]} ({why}) ...", flush=True)
    (folder / "stamp").unlink(missing_ok=True)
    if fresh:
        # The running interpreter may be that of the environment to be replaced: the new one is made from its base.
        run(getattr(sys, "_base_executable", sys.executable), "-m", "venv", "--clear", str(folder))
    pip("install", *quiet, "--require-hashes", "--no-deps", "--requirement", LOCK)
    keep = locked_names((root / LOCK).read_text("utf-8")) | {"pip", PROJECT}
    surplus = sorted({normal_name(row["name"]) for row in json.loads(pip("list", "--format=json"))} - keep)
    if surplus and not fresh:
        print("Removing what is not in the lock:", *surplus, flush=True)
    if surplus:
        pip("uninstall", *quiet, "--yes", *surplus)
    pip("install", *quiet, "--no-deps", "--no-build-isolation", "--editable", ".")
    pip("check")
    lines = [f"{name}\t{value}\n" for name, value in ingredients(root).items()]
    (folder / "stamp.new").write_text("".join(lines), "utf-8")
    (folder / "stamp.new").replace(folder / "stamp")
    print(f"{action} .venv took {time.monotonic() - started:.0f} s.", flush=True)


def build(root: Path) -> None:
    """Brings `.venv` up to date, alone: whoever comes second waits, and then finds the work done."""
    # The folder itself is locked, so no lock file is left behind; the lock ends with the process.
    lock = os.open(root / "requirements", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        names = changed(root)
        why = f"changed: {', '.join(names)}" if recorded(root) else "the first time this takes about a minute"
        if names:
            install(root, why)
    finally:
        os.close(lock)


def main(command: str) -> int:
    """Runs one command; the exit status."""
    if command == "check":
        return 1 if changed(ROOT) else 0
    try:
        build(ROOT)
    except subprocess.CalledProcessError as error:
        print(f"Setting up .venv failed: `{' '.join(error.cmd)}` ended with {error.returncode}.", file=sys.stderr)
        print(error.stdout or "", file=sys.stderr, end="")
        if error.cmd[-1] == "check":
            print(f"{LOCK} does not fit pyproject.toml: run `make lock`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
