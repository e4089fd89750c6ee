"""Compiles the LaTeX of every program of the corpus: its equations, and those after differentiation.

Each is the document that `presk dump --format latex --standalone` prints, and `pdflatex` has to read it without an error and
without a character that its fonts lack. It needs a TeX with the AMS packages (Debian's texlive-latex-base), and takes about
a minute on two cores: that is why no test does this.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Final

from presk.cli.app import run

ROOT: Final = Path(__file__).resolve().parents[2]
STAGES: Final = ("elab", "core-after-ad")
TEX: Final = "pdflatex"


def document(program: Path, stage: str) -> bytes:
    """What the command prints; its complaint and exit 1 if it fails."""
    out, err = BytesIO(), BytesIO()
    argv = ["dump", str(program), "--stage", stage, "--format", "latex", "--standalone"]
    if run(argv, cwd=ROOT, env={**os.environ, "PRESK_NO_DAEMON": "1"}, stdout=out, stderr=err) != 0:
        sys.exit(err.getvalue().decode())
    return out.getvalue()


def complaint(path: Path) -> str:
    """What TeX finds wrong with a document; empty if nothing."""
    command = [TEX, "-interaction=nonstopmode", "-halt-on-error", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, check=False)
    log = path.with_suffix(".log").read_text("utf-8", errors="replace")
    missing = [line for line in log.splitlines() if line.startswith("Missing character")]
    if done.returncode == 0:
        return "\n".join(missing)
    lines = log.splitlines()
    first = next((place for place, line in enumerate(lines) if line.startswith("!")), 0)
    return "\n".join(lines[first : first + 4])


def main() -> int:
    """0 if every document compiles."""
    if shutil.which(TEX) is None:
        print(f"make math-check: there is no {TEX} here (Debian: apt-get install texlive-latex-base)", file=sys.stderr)
        return 2
    programs = sorted((ROOT / "corpus").rglob("*.psk"))
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[Path, str] = {}
        for program in programs:
            for stage in STAGES:
                name = program.relative_to(ROOT / "corpus").with_suffix("").as_posix()
                path = Path(folder) / f"{name.replace('/', '-')}-{stage}.tex"
                path.write_bytes(document(program, stage))
                paths[path] = f"{name}.psk --stage {stage}"
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            complaints = dict(zip(paths, pool.map(complaint, paths), strict=True))
    for path, found in complaints.items():
        if found:
            print(f"{paths[path]}:\n{found}", file=sys.stderr)
    wrong = sum(map(bool, complaints.values()))
    print(f"{len(paths) - wrong} of {len(paths)} documents compile")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
