"""Diagnostics about texts given directly, for the tests of the renderers.

A place counts characters here instead of tokens: `first` is the first character's index in the file's text, `last` the index
behind the last one. Positions are computed from the text by counting, without the package's own index of lines.
"""

from collections.abc import Mapping

from presk.diagnostics.sources import Position, Span
from presk.diagnostics.value import Label, Place


class CharacterSources:
    """Files by name. `bom` files are stored with a byte order mark, which their text does not show."""

    def __init__(self, files: Mapping[str, str], *, bom: frozenset[str] = frozenset()) -> None:
        self._files = files
        self._bom = bom
        self.read: list[str] = []

    def name(self, file: str) -> str:
        return file

    def text(self, file: str) -> str | None:
        self.read.append(file)
        return self._files.get(file)

    def resolve(self, place: Place) -> Span | None:
        text = self._files.get(place.file)
        if text is None:
            return None
        return Span(self._position(place.file, text, place.first), self._position(place.file, text, place.last))

    def _position(self, file: str, text: str, index: int) -> Position:
        before = text[:index]
        line = before.count("\n") + 1
        column = len(before.split("\n")[-1]) + 1
        return Position(line, column, len(before.encode()) + (3 if file in self._bom else 0))


def label(files: Mapping[str, str], file: str, part: str, text: str = "", *, nth: int = 1, until: str = "") -> Label:
    """The label at the `nth` occurrence of `part` in a file, reaching to the next occurrence of `until` if given."""
    source = files[file]
    first = -1
    for _ in range(nth):
        first = source.index(part, first + 1)
    last = source.index(until, first) + len(until) if until else first + len(part)
    return Label(Place(first, last, file=file), text)
