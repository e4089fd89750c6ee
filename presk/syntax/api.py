"""A whole file at once: from bytes to tree, diagnostics and positions, without a cache.

The compiler runs the same functions as stages, chunk by chunk; tests and tools that want one file use these.
"""

import msgspec

from presk.diagnostics.sources import Span
from presk.diagnostics.value import Diagnostic, Place
from presk.syntax.layout import cut
from presk.syntax.lexer import lex
from presk.syntax.parse import assemble, diagnostics, parse_chunk
from presk.syntax.tokens import FileTokens, Tokens, TokenTable
from presk.syntax.tree import SourceFile


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """A file, read: what parsed of it, every syntax error, its tokens and their positions."""

    file: SourceFile
    diagnostics: tuple[Diagnostic, ...]
    tokens: FileTokens
    table: TokenTable


class FileSource:
    """One file, as renderers of diagnostics want it (`presk.diagnostics.sources.Sources`)."""

    def __init__(self, name: str, source: bytes, table: TokenTable) -> None:
        self._name = name
        self._text = source.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
        self._table = table

    def name(self, file: str) -> str:
        """The name that the file was read by."""
        return file or self._name

    def text(self, file: str) -> str | None:
        """The file's text."""
        return self._text if file == self._name else None

    def resolve(self, place: Place) -> Span | None:
        """Where a place of the file is."""
        return self._table.span(place) if place.file == self._name else None


def tokenize(source: bytes) -> Tokens:
    """The tokens stage: the chunks of a file, and the positions of their tokens. Never fails."""
    return cut(lex(source))


def parse_file(source: bytes, name: str = "") -> Parsed:
    """Reads a file. `name` is the file's name in the places of diagnostics."""
    tokens = tokenize(source)
    outcomes = {chunk.key: parse_chunk(chunk) for chunk in tokens.file.chunks()}
    return Parsed(assemble(tokens.file, outcomes), diagnostics(tokens.file, outcomes, name), tokens.file, tokens.table)
