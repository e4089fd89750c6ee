"""Rows of inked cells, and the only table of terminal colours.

Renderers say what a stretch of text is (an error's mark, the frame, a hint); :func:`paint` makes escape sequences of it, or
plain text.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from presk.diagnostics.cells import Cells


class Ink(Enum):
    """What a stretch of text is."""

    PLAIN = "plain"
    STRONG = "strong"
    ERROR = "error"
    WARNING = "warning"
    SECOND = "second"
    FRAME = "frame"
    NOTE = "note"
    HELP = "help"


_SGR: Final[Mapping[Ink, str]] = MappingProxyType(
    {
        Ink.STRONG: "1",
        Ink.ERROR: "1;31",
        Ink.WARNING: "1;33",
        Ink.SECOND: "1;34",
        Ink.FRAME: "1;34",
        Ink.NOTE: "1",
        Ink.HELP: "1;36",
    }
)

Run = tuple[str, Ink]
"""Text in one ink."""


def paint(runs: Iterable[Run], *, color: bool) -> str:
    """One line of output without its line end; blanks at its end are dropped."""
    kept = list(runs)
    while kept and not kept[-1][0].rstrip(" "):
        kept.pop()
    if kept:
        kept[-1] = (kept[-1][0].rstrip(" "), kept[-1][1])
    if not color:
        return "".join(text for text, _ in kept)
    out: list[str] = []
    for text, ink in kept:
        code = _SGR.get(ink)
        out.append(f"\x1b[{code}m{text}\x1b[0m" if code is not None and text.strip(" ") else text)
    return "".join(out)


class Grid:
    """Rows of cells below a source line; what is put later lies above what was put before."""

    def __init__(self) -> None:
        self._rows: list[dict[int, Run]] = []

    def put(self, row: int, cell: int, character: str, ink: Ink) -> None:
        """What begins in a cell: one character, or a cluster whose further cells hold the empty text."""
        while len(self._rows) <= row:
            self._rows.append({})
        self._rows[row][cell] = (character, ink)

    def write(self, row: int, cell: int, text: str, ink: Ink) -> None:
        """Printable text beginning at a cell, a wide character in two cells."""
        for first, cluster, width in Cells(text).clusters:
            self.put(row, cell + first, cluster, ink)
            for rest in range(1, width):
                self.put(row, cell + first + rest, "", ink)

    def runs(self, row: int) -> list[Run]:
        """The row as stretches of one ink each, gaps as blanks."""
        out: list[tuple[list[str], Ink]] = []
        at = 0
        for cell in sorted(self._rows[row]):
            text, ink = self._rows[row][cell]
            if cell > at:
                out.append(([" " * (cell - at)], Ink.PLAIN))
            if out and out[-1][1] is ink:
                out[-1][0].append(text)
            else:
                out.append(([text], ink))
            at = cell + 1
        return [("".join(texts), ink) for texts, ink in out]

    def __len__(self) -> int:
        return len(self._rows)
