"""Writes the pages of the codes: `python -m presk.diagnostics.docs [FOLDER]`, `docs/errors` by default."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from presk.diagnostics.explain import pages

FOLDER: Final = Path("docs", "errors")


def write_pages(folder: Path) -> tuple[str, ...]:
    """Makes the Markdown files of a folder the pages of the table; returns the names of those that changed.

    Pages of codes that the table no longer has are removed. Other files are left alone.
    """
    wanted = {name: text.encode() for name, text in pages().items()}
    folder.mkdir(parents=True, exist_ok=True)
    changed: list[str] = []
    for path in sorted(folder.glob("*.md")):
        if path.name not in wanted:
            path.unlink()
            changed.append(path.name)
    for name, content in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
            changed.append(name)
    return tuple(sorted(changed))


def main(arguments: Sequence[str]) -> int:
    """Writes the pages and prints the name of each that changed."""
    if len(arguments) > 1:
        print("usage: python -m presk.diagnostics.docs [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else FOLDER
    for name in write_pages(folder):
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
