"""A whole file at once: from bytes to tree, diagnostics and positions, without a cache.

The compiler runs the same functions as stages, chunk by chunk; tests and tools that want one file use these.
"""


import msgspec

from presk.diagnostics.value import Diagnostic
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


def tokenize(source: bytes) -> Tokens:
    """The tokens stage: the chunks of a file, and the positions of their tokens. Never fails."""
    return cut(lex(source))


def parse_file(source: bytes, name: str = "") -> Parsed:
    """Reads a file. `name` is the file's name in the places of diagnostics."""
    tokens = tokenize(source)
    outcomes = {chunk.key: parse_chunk(chunk) for chunk in tokens.file.chunks()}
    return Parsed(
        assemble(tokens.file, outcomes), diagnostics(tokens.file, outcomes, name), tokens.file, tokens.table
    )
