"""Runs mypy over the whole package and the tests.

mypy looks for modules on disk and cannot see the `package-dir` table of pyproject.toml: for it, `cache/` is not
`presk.cache`. So `.venv/mirror/presk/` shows the package as it is imported, by links to the tree's own folders; it is
brought up to date here, and mypy's report is given in the tree's paths. Once it is there, `mypy -p presk.cache` works by
hand as well, since pyproject.toml names the folder.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MIRROR: Final = ".venv/mirror"


def links(root: Path) -> dict[str, Path]:
    """What the mirror holds: a path below `.venv/mirror` for each module and package at the top of a mapped package."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    table: dict[str, str] = settings["tool"]["setuptools"]["package-dir"]
    result = {}
    for package, folder in table.items():
        if "." in package:
            result[package.replace(".", "/")] = root / folder
        else:
            entries = sorted((root / folder).iterdir())
            result |= {f"{package}/{path.name}": path for path in entries if path.name != "__pycache__"}
    return result


def lay(root: Path) -> None:
    """Brings the mirror up to date; links that are right are left alone, since another run may be reading them."""
    wanted = {root / MIRROR / name: target for name, target in links(root).items()}
    for folder in {link.parent for link in wanted}:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in folder.iterdir():
            if entry.is_symlink() and (entry not in wanted or entry.readlink() != wanted[entry]):
                entry.unlink(missing_ok=True)
    for link, target in wanted.items():
        try:
            link.symlink_to(target)
        except FileExistsError:
            continue


def real_paths(report: str, root: Path) -> str:
    """mypy's report with the mirror's paths replaced by the tree's."""
    places = {f"{MIRROR}/{name}": target.relative_to(root).as_posix() for name, target in links(root).items()}
    pattern = "|".join(re.escape(place) for place in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?:{pattern})(?=[/:\"])", lambda match: places[match.group()], report)


def main() -> int:
    """mypy's exit status."""
    lay(ROOT)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--package", "presk", "--package", "tests"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(real_paths(done.stdout, ROOT), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
