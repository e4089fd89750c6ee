"""Values of the tokens stage: tokens, chunks of tokens, and the table of their positions.

A *chunk* is what is parsed by itself: a declaration, the header of a module or of a configuration block, a member of a
module, a line of a block. Its tokens say nothing of layout: comments, blanks, blank lines and line breaks that mean nothing
are gone, and ASCII synonyms are in their Unicode spelling. So the digest of a chunk's tokens changes with its
program text and with nothing else. Positions lie apart, in a `TokenTable`; only whoever shows a place to somebody reads it.

A lexical error is a token: its kind begins with `bad`, and its text says what is wrong. It has a number like any other token, so
the parse stage reports it with an ordinary relative place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from presk.diagnostics.sources import Position, Span
from presk.diagnostics.value import Place

# Token kinds: reserved words and symbols are their own kind; the others are these.
NAME: Final = "name"
NAT: Final = "nat"
DECIMAL: Final = "decimal"
QUANTITY: Final = "quantity"
STRING: Final = "string"
NEWLINE: Final = "newline"  # a line break that means something: between a `let` and its body, or a misplaced one

# What an operand can end with: a `(` behind it is a call's, a `-` is binary.
OPERAND_ENDS: Final = frozenset((NAME, NAT, DECIMAL, QUANTITY, STRING, ")", "]", "}"))

# Lexical errors. The text is what the message needs: the character, the number with its unit, the name's beginning …
BAD_CHARACTER: Final = "bad character"
BAD_STRING: Final = "bad string"  # not closed on its line
BAD_ESCAPE: Final = "bad escape"  # the text is the escape
BAD_CONTROL: Final = "bad control"  # a control character in a string
BAD_UNIT: Final = "bad unit"  # the text is number, blank, unit
BAD_NAME: Final = "bad name"  # too long
BAD_NUMBER: Final = "bad number"  # too many digits
BAD_LAMBDA: Final = "bad lambda"  # `λθ. e`
BAD_ENCODING: Final = "bad encoding"  # the file is not UTF-8; the text is the byte in hexadecimal
BAD_KINDS: Final = frozenset(
    (BAD_CHARACTER, BAD_STRING, BAD_ESCAPE, BAD_CONTROL, BAD_UNIT, BAD_NAME, BAD_NUMBER, BAD_LAMBDA, BAD_ENCODING)
)

# Kinds of chunks.
DECLARATION: Final = "declaration"
MEMBER: Final = "member"
ITEM: Final = "item"
HEADER: Final = "header"

MAX_NESTING: Final = 500  # levels of brackets, and of nodes in the tree of a chunk

RESERVED: Final = frozenset(
    "module param params use fn const dim type import as static assert optimizer training inference effect let uses init"
    " axis idx ein ℝ λ".split()
)


class Token(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A token. `text` is canonical: names in NFC, symbols in their Unicode spelling, strings with their escapes resolved."""

    kind: str
    text: str


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a file that is parsed by itself. `key` names it in the file; parsing depends on `kind` and `tokens` only."""

    key: str
    kind: str
    tokens: tuple[Token, ...]


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """A declaration of a file: one chunk, or a header with the chunks between its braces."""

    chunk: Chunk
    parts: tuple[Chunk, ...] = ()


class FileTokens(msgspec.Struct, frozen=True, array_like=True):
    """The tokens of a file, by declaration."""

    units: tuple[Unit, ...]

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, in the order of the file."""
        for unit in self.units:
            yield unit.chunk
            yield from unit.parts


class Comment(msgspec.Struct, frozen=True, array_like=True):
    """A comment: its first character's offset (in characters) and its text from `--` on, without trailing blanks."""

    start: int
    text: str


class ChunkPlaces(msgspec.Struct, frozen=True, array_like=True):
    """Where the tokens of a chunk lie: offsets in characters of their first, and one past their last, character."""

    key: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


class TokenTable(msgspec.Struct, frozen=True, array_like=True):
    """Positions of a file's tokens; it turns a place into lines and columns.

    Offsets are in characters of the decoded text, which does not hold a leading byte order mark (`mark` is its length in
    bytes). `lines` are the offsets of the lines' first characters. `wide` are the offsets of the characters
    that take more than one byte, and `extra` how many more bytes all of them up to and including that one take.
    """

    chunks: tuple[ChunkPlaces, ...]  # sorted by key
    lines: tuple[int, ...]
    wide: tuple[int, ...]
    extra: tuple[int, ...]
    mark: int
    length: int
    comments: tuple[Comment, ...]

    def position(self, offset: int) -> Position:
        """The position of a character offset."""
        line = bisect_right(self.lines, offset)
        before = bisect_left(self.wide, offset)
        extra = self.extra[before - 1] if before else 0
        return Position(line, offset - self.lines[line - 1] + 1, self.mark + offset + extra)

    def places(self, key: str) -> ChunkPlaces | None:
        """The offsets of a chunk's tokens, if the file has the chunk."""
        index = bisect_left(self.chunks, key, key=lambda chunk: chunk.key)
        if index < len(self.chunks) and self.chunks[index].key == key:
            return self.chunks[index]
        return None

    def offsets(self, place: Place) -> tuple[int, int]:
        """First and one past the last character of a place. An empty place lies just behind the token before it.

        A chunk that the file does not have is placed at its beginning.
        """
        chunk = self.places(place.chunk)
        if chunk is None or not chunk.starts:
            return (0, 0)
        count = len(chunk.starts)
        if place.first > place.last or place.first >= count:
            # The end of the token before: that is where something is missing.
            where = chunk.ends[min(place.first, count) - 1] if place.first > 0 else chunk.starts[0]
            return (where, where)
        return (chunk.starts[place.first], max(chunk.starts[place.first], chunk.ends[min(place.last, count - 1)]))

    def span(self, place: Place) -> Span:
        """Where a place lies in the file."""
        start, end = self.offsets(place)
        return Span(self.position(start), self.position(end))


class Tokens(msgspec.Struct, frozen=True, array_like=True):
    """What the tokens stage makes of a file: its tokens, and where they lie."""

    file: FileTokens
    table: TokenTable
