"""Parsing as stages: one chunk from its tokens, and a file from its chunks.

The file's tokens hold no layout, so a comment ends before this; a chunk's stage depends on its tokens alone, so an edit parses
one declaration, wherever it stands.
"""

from typing import Final

import msgspec

from presk.cache.codec import struct_codec
from presk.cache.stage import Queries, Result, Stage
from presk.diagnostics.value import Diagnostic
from presk.syntax.parse import Outcome, assemble, diagnostics, parse_chunk
from presk.syntax.tokens import Chunk, FileTokens, Token
from presk.syntax.tree import SourceFile


class ChunkTokens(msgspec.Struct, frozen=True, array_like=True):
    """What the parse of a chunk depends on: its kind and its tokens, not its name."""

    kind: str
    tokens: tuple[Token, ...]


class ParsedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file's tree with its syntax errors, the file's name left empty in their places, and the keys of the chunks that
    gave no tree."""

    file: SourceFile
    diagnostics: tuple[Diagnostic, ...]
    failed: tuple[str, ...]


CHUNK_TOKENS: Final = struct_codec(ChunkTokens)
FILE_TOKENS: Final = struct_codec(FileTokens)


def _parse_chunk(chunk: ChunkTokens) -> Outcome:
    return parse_chunk(Chunk("", chunk.kind, chunk.tokens))


PARSE_CHUNK: Final = Stage("parse", __name__, (), _parse_chunk, struct_codec(Outcome))


def _parse_file(queries: Queries, tokens: Result[FileTokens]) -> ParsedFile:
    outcomes = {
        chunk.key: queries.get(
            PARSE_CHUNK, queries.leaf("tokens", ChunkTokens(chunk.kind, chunk.tokens), CHUNK_TOKENS), subject=chunk.key
        ).value
        for chunk in tokens.value.chunks()
    }
    return ParsedFile(
        assemble(tokens.value, outcomes),
        diagnostics(tokens.value, outcomes, ""),
        tuple(key for key, outcome in outcomes.items() if outcome.node is None),
    )


PARSE_FILE: Final = Stage("parse file", __name__, (), _parse_file, struct_codec(ParsedFile), composite=True)
