"""What a renderer must know about source text, and the index of a text's lines.

A diagnostic holds places, that is tokens of a chunk. Whoever keeps the files and their token tables implements
:class:`Sources`; the renderers ask it and nothing else.

Lines and columns count from 1. A column counts characters (code points) of the line, a byte order mark at the beginning of
the file not among them. An offset counts bytes of the file as it is stored, from 0, the byte order mark and the carriage
returns included. The end of a span is exclusive: the position behind its last character. Lines end with LF or CR LF; a CR
alone is an ordinary character.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol

import msgspec

from presk.diagnostics.value import Place


class Position(msgspec.Struct, frozen=True, array_like=True):
    """A position between two characters of a file: line and column from 1, offset in bytes from 0."""

    line: int
    column: int
    offset: int


class Span(msgspec.Struct, frozen=True, array_like=True):
    """From `start` to before `end`; an empty place has both equal."""

    start: Position
    end: Position


class Sources(Protocol):
    """The files that places speak of. `file` is the name that a place carries; it may be empty."""

    def name(self, file: str) -> str:
        """The file's name as the user is to see it: as spelled, or relative to what was spelled, for an import."""

    def text(self, file: str) -> str | None:
        """The file's text without a byte order mark, bytes that are no UTF-8 as U+FFFD; None if there is no such text."""

    def resolve(self, place: Place) -> Span | None:
        """Where the place is in the text; None if its file has no text (a data file, a file that is missing)."""


class Lines:
    """The lines of a text, found once."""

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [0]
        at = text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """Line `number`, from 1, without its line end; empty outside the text."""
        if not 1 <= number <= len(self._starts):
            return ""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        if end > start and end < len(self.text) and self.text[end - 1] == "\r":
            end -= 1
        return self.text[start:end]

    def index(self, position: Position) -> int:
        """The number of characters of the text before the position; a position outside the text is taken to its rim."""
        if position.line < 1:
            return 0
        if position.line > len(self._starts):
            return len(self.text)
        column = min(max(position.column - 1, 0), len(self.line(position.line)))
        return self._starts[position.line - 1] + column

    def position(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, of the `index`-th character."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1


def line_index(sources: Sources) -> Callable[[str], Lines | None]:
    """A function from file to its lines that reads every file once; it lives as long as one rendering."""
    known: dict[str, Lines | None] = {}

    def lines(file: str) -> Lines | None:
        if file not in known:
            text = sources.text(file)
            known[file] = None if text is None else Lines(text)
        return known[file]

    return lines
