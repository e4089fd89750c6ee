"""Parsing as stages: one chunk from its tokens, and a file from its chunks.

The file's tokens hold no layout, so a comment ends before this; a chunk's stage depends on its tokens alone, so an edit parses
one declaration, wherever it stands.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from presk.cache.codec import struct_codec
from presk.cache.stage import Queries, Result, Stage
from presk.diagnostics.value import Diagnostic
from presk.syntax.parse import Outcome, assemble, diagnostics, parse_chunk
from presk.syntax.tokens import NAME, Chunk, FileTokens, Token
from presk.syntax.tree import Block, Module, SourceFile


class ChunkTokens(msgspec.Struct, frozen=True, array_like=True):
    """What the parse of a chunk depends on: its kind and its tokens, not its name."""

    kind: str
    tokens: tuple[Token, ...]


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """A chunk that gave no tree: its key, the kind of its first token, and the names that it would declare, as far as its
    tokens tell."""

    key: str
    first: str
    names: tuple[str, ...]


class ParsedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file's tree with its syntax errors, the file's name left empty in their places, and the chunks that gave no tree."""

    file: SourceFile
    diagnostics: tuple[Diagnostic, ...]
    failed: tuple[Failed, ...]

    def keys(self) -> Iterator[str]:
        """The keys of all chunks that gave a tree, in the order of the file, and then those of the others."""
        for chunk in self.file.declarations:
            yield chunk.key
            match chunk.declaration:
                case Module(members=members):
                    yield from (member.key for member in members)
                case Block(items=items):
                    yield from (item.key for item in items)
                case _:
                    pass
        yield from (failed.key for failed in self.failed)


CHUNK_TOKENS: Final = struct_codec(ChunkTokens)


def _parse_chunk(chunk: ChunkTokens) -> Outcome:
    return parse_chunk(Chunk("", chunk.kind, chunk.tokens))


def _parse_file(queries: Queries, tokens: Result[FileTokens]) -> ParsedFile:
    outcomes = {
        chunk.key: queries.get(
            PARSE_CHUNK,
            queries.leaf("tokens", ChunkTokens(chunk.kind, chunk.tokens), CHUNK_TOKENS),
            subject=f"{queries.subject}: {chunk.key}",
        ).value
        for chunk in tokens.value.chunks()
    }
    return ParsedFile(
        assemble(tokens.value, outcomes),
        diagnostics(tokens.value, outcomes, ""),
        tuple(_failed(chunk) for chunk in tokens.value.chunks() if outcomes[chunk.key].node is None),
    )


def _failed(chunk: Chunk) -> Failed:
    return Failed(chunk.key, chunk.tokens[0].kind if chunk.tokens else "", tuple(_names_in(chunk)))


def _names_in(chunk: Chunk) -> Iterator[str]:
    tokens = chunk.tokens
    first = tokens[0].kind if tokens else ""
    if first == "import":
        start = next((i + 1 for i, token in enumerate(tokens) if token.kind == "as"), len(tokens))
        yield from (token.text for token in tokens[start : start + 1] if token.kind == NAME)
    elif first in ("param", "use"):
        for token in tokens[1:]:
            if token.kind == NAME:
                yield token.text
            elif token.kind != ",":
                return
    else:
        yield from (token.text for token in tokens[1:2] if token.kind == NAME)


PARSE_CHUNK: Final = Stage("parse", __name__, (), _parse_chunk, struct_codec(Outcome))
PARSE_FILE: Final = Stage("parse file", __name__, (), _parse_file, struct_codec(ParsedFile), composite=True)
