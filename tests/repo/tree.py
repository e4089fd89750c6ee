"""The files of the repository, as the tests of this folder walk them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

# What `.gitignore` names: made by tools, not by people.
_LEFT_OUT: Final = frozenset(
    {".git", ".venv", "build", "dist", "__pycache__", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)


def files(folder: Path = ROOT) -> Iterator[Path]:
    """Every file below `folder` that belongs to the repository, in the order of their names."""
    for path in sorted(folder.iterdir()):
        if path.name in _LEFT_OUT or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path
