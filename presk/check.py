"""Checking a program: files are loaded, elaborated and typed through the engine; the result speaks for rendering too.

This is the one place that joins elaboration with typing; every command that works on programs begins here.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from presk.cache.stage import Queries
from presk.diagnostics.order import ordered
from presk.diagnostics.sources import Position, Span
from presk.diagnostics.value import Diagnostic, Place
from presk.elab.files import Loaded, SourceReader, load
from presk.elab.program import Options, Program, elaborate_program
from presk.prims.table import BUILTINS
from presk.types.dim import Dim
from presk.typing.stage import TYPING

_IMPLIED: Final[Mapping[str, tuple[str, ...]]] = {
    name: row.form.constants for name, row in BUILTINS.items() if row.form.constants
}
_NAMES: Final = (*BUILTINS, "grad")


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked program: its files, what it means, and everything there is to say about it, in the order of the text."""

    loaded: Loaded
    program: Program
    sources: "LoadedSources"
    diagnostics: tuple[Diagnostic, ...]

    @property
    def failed(self) -> bool:
        """Whether there is an error (warnings are none)."""
        return self.program.failed


class LoadedSources:
    """The files of a program as renderers see them. `shown` is the main file as the user spelled it."""

    def __init__(self, loaded: Loaded, shown: str) -> None:
        self._loaded = loaded
        self._shown = shown
        self._folder = posixpath.dirname(shown)

    def name(self, file: str) -> str:
        """The main file as spelled, others relative to that."""
        if file in ("", self._loaded.main):
            return self._shown
        return posixpath.normpath(posixpath.join(self._folder, file))

    def text(self, file: str) -> str | None:
        """The text of a file of the program."""
        known = self._loaded.files.get(file or self._loaded.main)
        if known is None:
            return None
        return known.source.decode("utf-8", "replace").removeprefix("\ufeff")

    def resolve(self, place: Place) -> Span | None:
        """Where a place is."""
        known = self._loaded.files.get(place.file or self._loaded.main)
        if known is None:
            return None
        span = known.table.span(place)
        return Span(
            Position(span.start.line, span.start.column, span.start.offset),
            Position(span.end.line, span.end.column, span.end.offset),
        )


def check(
    queries: Queries, reader: SourceReader, main: str, shown: str, overrides: Mapping[str, Dim] | None = None
) -> Checked | str:
    """Checks the program whose main file has the identity `main`; a few words where that file cannot be read."""
    loaded = load(queries, reader, main)
    if isinstance(loaded, str):
        return loaded
    options = Options(overrides or {}, _IMPLIED, _NAMES)
    program = elaborate_program(queries, loaded, reader, TYPING, options)
    sources = LoadedSources(loaded, shown)
    return Checked(loaded, program, sources, ordered(program.diagnostics, sources, files=(loaded.main,)))
