"""Text as a terminal shows it: which characters appear, and which cells they take.

An underline is right only if the width of everything before it is known. Most characters take one cell, East Asian wide
ones two, combining marks and the later letters of a Hangul syllable none (wcwidth's tables). Three kinds are never printed
as they are:

- control characters, which could move the cursor or recolour the screen, as their pictures (`␀`, `␛`) or codes;
- characters that cannot be seen, or that reorder what is around them (zero-width and bidirectional formats, blanks that are
  no spaces, fillers, private and unassigned ones), as codes: `<U+200D>`;
- characters whose width depends on their neighbours and on the terminal (joiners and selectors of emoji, skin tones, halves
  of flags), as codes too.

What remains has the same width on every terminal that follows Unicode. A combining mark with nothing to stand on stands on
a dotted circle. Tabs become blanks up to the next stop.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from wcwidth import wcwidth

TAB_STOP: Final = 4

_DOTTED_CIRCLE: Final = "\u25cc"
_CODED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_CODED_RANGES: Final = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0x1F1E6, 0x1F1FF),  # regional indicators, two of which make a flag
    (0x1F3FB, 0x1F3FF),  # skin tones
    (0xE0100, 0xE01EF),  # variation selectors supplement
)


@lru_cache(maxsize=4096)
def shown(character: str) -> str:
    """The character as it is printed: itself, a control picture, or its code."""
    number = ord(character)
    if 0x20 <= number < 0x7F:
        return character
    if number < 0x20:
        return chr(0x2400 + number)
    if number == 0x7F:
        return "\u2421"
    if unicodedata.category(character) in _CODED_CATEGORIES or any(lo <= number <= hi for lo, hi in _CODED_RANGES):
        return f"<U+{number:04X}>"
    return character


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    """Cells of a character that is printed as itself."""
    return max(wcwidth(character), 0)


class Cells:
    """A piece of a line laid out from cell 0.

    `clusters` are (first cell, text as printed, cells). Character `i` of the piece begins at cell `starts[i]` and its
    cluster ends before cell `ends[i]`; `width` cells are taken in all. A combining mark has its base's cells.
    """

    def __init__(self, piece: str) -> None:
        self.starts: Sequence[int]
        self.ends: Sequence[int]
        self.clusters: Sequence[tuple[int, str, int]]
        if piece.isascii() and piece.isprintable():
            self.starts = range(len(piece))
            self.ends = range(1, len(piece) + 1)
            self.clusters = [(cell, character, 1) for cell, character in enumerate(piece)]
            self.width = len(piece)
            return
        clusters: list[tuple[int, str, int]] = []
        starts: list[int] = []
        ends: list[int] = []
        cell = 0
        stands = False  # the cluster before can carry a combining mark
        for character in piece:
            if character == "\t":
                width = TAB_STOP - cell % TAB_STOP
                clusters.append((cell, " " * width, width))
                stands = False
            else:
                text = shown(character)
                if text != character:
                    width = len(text)
                    clusters.append((cell, text, width))
                    stands = False
                else:
                    width = _width(character)
                    if width == 0 and stands:
                        first, base, taken = clusters[-1]
                        clusters[-1] = (first, base + character, taken)
                        starts.append(first)
                        ends.append(first + taken)
                        continue
                    if width == 0:
                        text, width = _DOTTED_CIRCLE + character, 1
                    clusters.append((cell, text, width))
                    stands = True
            starts.append(cell)
            cell += width
            ends.append(cell)
        self.clusters = clusters
        self.starts = starts
        self.ends = ends
        self.width = cell

    @property
    def text(self) -> str:
        """The piece as it is printed."""
        return "".join(text for _, text, _ in self.clusters)


def printable(text: str) -> str:
    """A message without anything that a terminal obeys; line breaks stay, tabs become blanks."""
    if text.isascii() and text.isprintable():
        return text
    return "\n".join(Cells(line.replace("\t", " ")).text for line in text.split("\n"))


def is_combining(character: str) -> bool:
    """It takes no cell of its own when something stands before it."""
    return shown(character) == character and _width(character) == 0
