"""The formatter: the canonical text of a program, with its comments.

The text depends on the tokens, on the comments and on which lines have a blank line before them, and on no other layout. Lines are
at most 100 characters where a break is possible; bodies, members and items are indented by two; runs of blank lines become one; a
comment stays behind the token it followed on a line, or before the token it preceded on lines of its own.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from presk.diagnostics.sources import Sources
from presk.diagnostics.value import Diagnostic
from presk.syntax.api import FileSource, parse_file
from presk.syntax.lexer import decode
from presk.syntax.printer import Atom, Comment, Writer, atoms, write_block, write_chunk
from presk.syntax.tokens import NEWLINE, Chunk, TokenTable


class Formatted(msgspec.Struct, frozen=True, array_like=True):
    """A program's canonical text."""

    text: str


class Unformatted(NamedTuple):
    """A file that does not parse: its errors, and what a renderer needs to show them."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Sources


def format_source(source: bytes, name: str = "", *, ascii_: bool = False) -> Formatted | Unformatted:
    """Formats a file. `ascii_` chooses the ASCII spellings of symbols; names stay as they are.

    `name` is the file's name in the places of diagnostics. A file with a syntax error (E00xx) has no canonical text.
    """
    parsed = parse_file(source, name)
    if parsed.diagnostics:
        return Unformatted(parsed.diagnostics, FileSource(name, source, parsed.table))
    text, _ = decode(source)
    assert text is not None  # what is not UTF-8 does not parse
    chunks = {chunk.key: atoms(chunk.kind, chunk.tokens, ascii_) for chunk in parsed.tokens.chunks()}
    rest = _attach(text, parsed.table, parsed.tokens.chunks(), chunks)
    writer = Writer()
    for unit in parsed.tokens.units:
        line = chunks[unit.chunk.key]
        if unit.chunk.kind == "header":
            write_block(writer, line, [chunks[part.key] for part in unit.parts])
        else:
            write_chunk(writer, line, 0, first=False)
    end = Atom(NEWLINE, "", False, "")
    end.before = rest
    writer.lead(end, 0, first=False)
    return Formatted(writer.text())


def _attach(text: str, table: TokenTable, order: Iterable[Chunk], chunks: Mapping[str, list[Atom]]) -> list[Comment]:
    """Gives each comment and each blank line to an atom; the comments behind the last atom are the result."""
    placed: list[tuple[int, int, Atom]] = []
    for chunk in order:
        places = table.places(chunk.key)
        assert places is not None
        for atom, start, end in zip(chunks[chunk.key], places.starts, places.ends, strict=True):
            if atom.kind != NEWLINE:
                placed.append((start, end, atom))
    placed.sort(key=lambda entry: entry[0])
    comments = iter(table.comments)
    comment = next(comments, None)
    waiting: list[Comment] = []
    behind = 0  # where what was last seen ended
    last: Atom | None = None
    for start, end, atom in placed:
        while comment is not None and comment.start < start:
            if last is not None and "\n" not in text[behind : comment.start]:
                last.after = comment.text
            else:
                waiting.append(Comment(comment.text, _blank_line(text[behind : comment.start])))
            behind = comment.start + len(comment.text)
            comment = next(comments, None)
        atom.before = waiting
        waiting = []
        atom.blank = _blank_line(text[behind:start])
        behind, last = end, atom
    while comment is not None:
        if last is not None and "\n" not in text[behind : comment.start]:
            last.after = comment.text
        else:
            waiting.append(Comment(comment.text, _blank_line(text[behind : comment.start])))
        behind = comment.start + len(comment.text)
        comment = next(comments, None)
    return waiting


def _blank_line(between: str) -> bool:
    return between.count("\n") > 1
