"""The layout rule: which line breaks mean something, and where one chunk ends and the next begins.

A line break inside brackets means nothing, until a `let` in that bracket; from there to the bracket's end it counts again.
A line break before an operator that cannot begin an expression means nothing either. `-` and `^` are not among
these: `-x` is an expression, and `^` is read with the unary operators. What remains is a `newline` token.

Chunks begin with a word at the beginning of a line, which is why a broken declaration does not hide its neighbours. Two
cases need more than that word.

- A bracket that is not closed. Inside it a line break says nothing, but `fn f`, `const N`, `static assert` … cannot stand in any
  bracket, so such a line begins a chunk all the same, and the open brackets stay open in the chunk before.
- A brace that is not closed. Whether `fn` begins a member or a declaration depends on the braces alone when they are in order; flat
  files are legal. So the braces are believed first. If that leaves anything open or unmatched, the file is cut again with
  an eye on the columns: a line that is not indented deeper than its module's header ends the module.
"""

from bisect import bisect_right
from typing import Final

from presk.syntax.lexer import Lexed
from presk.syntax.tokens import (
    BAD_CHARACTER,
    BAD_ENCODING,
    BAD_NAME,
    DECLARATION,
    HEADER,
    ITEM,
    MAX_NESTING,
    MEMBER,
    NAME,
    NEWLINE,
    RESERVED,
    STRING,
    Chunk,
    ChunkPlaces,
    FileTokens,
    Token,
    Tokens,
    TokenTable,
    Unit,
)

# A line that begins with one of these continues the line before.
CONTINUING: Final = frozenset(("|>", "|", "⊗", "∘", "·", "*", "/", "%", "+", "==", "<=", ">=", "<", ">"))

_CLOSER: Final = (("(", ")"), ("[", "]"), ("{", "}"))
_DECLARING: Final = frozenset(
    ("module", "fn", "const", "dim", "type", "import", "static", "optimizer", "training", "inference", "effect")
)
_MEMBERS: Final = frozenset(("fn", "param", "use"))
_BLOCKS: Final = frozenset(("module", "optimizer", "training", "inference"))
_BREAK: Final = Token(NEWLINE, "")
_NOTHING: Final = Token("end", "")


class _Draft:
    """A chunk that is being gathered."""

    __slots__ = ("body", "closed", "column", "ends", "first", "function", "kind", "parts", "starts", "tokens")

    def __init__(self, kind: str, first: Token, column: int) -> None:
        self.kind = kind
        self.first = first  # its first token that is not a character out of place
        self.function = kind != ITEM and first.kind == "fn"  # an item may be called `fn`
        self.column = column  # of its first token, from 0
        self.tokens: list[Token] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.parts: list[_Draft] = []
        self.body = -1  # of a function: the number of the `=` before its body
        self.closed = False  # of a header: whether its closing brace was met


class _Open:
    """An open bracket: what closes it, and whether a `let` in it has made line breaks count."""

    __slots__ = ("closer", "lines")

    def __init__(self, closer: str) -> None:
        self.closer = closer
        self.lines = False


class _Cutter:
    """One walk over a file's tokens. `by_column` is the second walk, over a file whose brackets do not match."""

    def __init__(self, lexed: Lexed, lines: list[int], by_column: bool) -> None:
        self.tokens = lexed.tokens
        self.starts = lexed.starts
        self.ends = lexed.ends
        self.breaks = frozenset(lexed.breaks)
        self.lines = lines
        self.by_column = by_column
        self.units: list[_Draft] = []
        self.header: _Draft | None = None  # of the module or block that we are in
        self.current: _Draft | None = None
        self.stack: list[_Open] = []  # open brackets of the current chunk
        self.broken = False

    def column(self, i: int) -> int:
        return self.starts[i] - self.lines[bisect_right(self.lines, self.starts[i]) - 1]

    def peek(self, i: int) -> Token:
        return self.tokens[i] if i < len(self.tokens) else _NOTHING

    # --- what a line begins ---

    def declares(self, i: int) -> bool:
        """Whether a declaration begins at token i, which is the first of its line."""
        token = self.tokens[i]
        kind = token.kind
        if kind in _DECLARING or kind in _MEMBERS:
            if not self.stack or (
                self.by_column and self.current is not None and self.column(i) <= self.current.column
            ):
                return True
            following = self.peek(i + 1).kind
            if kind == "import":
                return following == STRING
            if kind == "static":
                return following == "assert"
            if kind == "param":
                # In brackets `param T` is also a type, which stands behind a colon, or has none behind it.
                j = i + 1
                while self.peek(j).kind == NAME and self.peek(j + 1).kind == ",":
                    j += 2
                return self.peek(j).kind == NAME and self.peek(j + 1).kind == ":" and self.tokens[i - 1].kind != ":"
            return following == NAME
        return kind == NAME and token.text == "model" and self.peek(i + 1).kind == NAME and self.peek(i + 2).kind == "="

    def is_item(self, i: int) -> bool:
        """Whether a line of a configuration block begins at token i. Field names may be reserved words."""
        token = self.tokens[i]
        if token.kind == NAME and token.text == "checkpoint":
            following = self.peek(i + 1)
            if following.kind == NAME and following.text == "every":
                return True
        if token.kind != NAME and token.kind not in RESERVED:
            return False
        if self.peek(i + 1).kind not in ("=", ":"):
            return False
        # In brackets `name = value` is an argument, unless the brackets are known not to match.
        if self.stack:
            return self.by_column and self.current is not None and self.column(i) <= self.current.column
        return True

    def opens_block(self, i: int) -> bool:
        """Whether the `{` at token i of a header opens its block, and not the list of type parameters."""
        assert self.current is not None
        if self.current.first.kind != "module" or any(t.kind == "{" for t in self.current.tokens):
            return True
        j = i + 1
        while self.peek(j).kind == NAME:
            j += 1
        if j == i + 1:
            return True
        after = self.peek(j + 1)
        return not (self.peek(j).kind in (",", "}") or after.kind == "dim" or after.text == "Shape")

    # --- what is done about it ---

    def begin(self, kind: str, i: int) -> None:
        if self.stack:
            self.broken = True
            self.stack.clear()
        first = self.tokens[self.first(i)]
        draft = _Draft(kind, first, self.column(i))
        if self.header is None:
            if first.kind in _BLOCKS:
                draft.kind = HEADER
            self.units.append(draft)
        else:
            self.header.parts.append(draft)
        self.current = draft

    def leave(self) -> None:
        """Ends a module or block whose closing brace is missing."""
        self.broken = True
        self.header = None
        self.current = None
        self.stack.clear()

    def first(self, i: int) -> int:
        """The number of the first token from i on, in its line, that is not a character out of place; i if there is none."""
        j = i
        while j < len(self.tokens) and self.tokens[j].kind == BAD_CHARACTER and (j == i or j not in self.breaks):
            j += 1
        return j if j < len(self.tokens) and (j == i or j not in self.breaks) else i

    def lacks_brace(self, i: int) -> bool:
        """Whether the line of token i is inside a module or block whose opening brace is missing."""
        current = self.current
        if current is None or current.kind != HEADER or current.closed or self.column(i) <= current.column:
            return False
        return self.tokens[i].kind in _MEMBERS if current.first.kind == "module" else self.is_item(i)

    def line(self, number: int) -> bool:
        """Looks at the first token of a line (or of a block); true if it begins a chunk."""
        i = self.first(number)
        kind = self.tokens[i].kind
        if self.by_column and self.header is None and self.lacks_brace(i):
            self.header, self.current = self.current, None
            self.stack.clear()
        header = self.header
        if header is not None:
            if kind == "}" and (not self.stack or (self.by_column and self.column(i) <= header.column)):
                return False
            if header.first.kind != "module":
                if self.is_item(i):
                    self.begin(ITEM, number)
                    return True
                part = ITEM
                member = False
            else:
                part = MEMBER
                member = kind in _MEMBERS
            if self.declares(i):
                outdented = self.column(i) <= header.column
                flat = bool(header.parts) and header.parts[0].column <= header.column
                if not outdented or (member and (flat or not self.by_column or kind != "fn")):
                    self.begin(part, number)
                    return True
                self.leave()
            elif self.current is None:
                self.begin(part, number)
                return True
            else:
                return False
        if self.current is None or self.current.closed or self.declares(i):
            self.begin(DECLARATION, number)
            return True
        return False

    def break_counts(self, i: int) -> bool:
        """Whether the line break before token i, inside the current chunk, is a token."""
        current = self.current
        assert current is not None
        kind = self.tokens[i].kind
        if kind in CONTINUING or kind in (")", "]", "}"):
            return False
        if self.stack:
            return self.stack[-1].lines and kind != "," and current.tokens[-1].kind != ","
        if current.function:
            if current.body < 0:
                return kind not in ("->", "uses")
            return current.body != len(current.tokens) - 1
        return True

    def close(self, closer: str, i: int) -> bool:
        """Matches a closing bracket; true if it ends the module or block."""
        stack = self.stack
        if stack and stack[-1].closer == closer:
            if closer == "}" and self.by_column and self.header is not None and i in self.breaks:
                if self.column(i) <= self.header.column:
                    return True
            stack.pop()
            return False
        self.broken = self.broken or bool(stack) or self.header is None or closer != "}"
        if self.by_column and self.in_mid_line(i):
            return False  # in the middle of a line it ends no block
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth].closer == closer:
                del stack[depth:]
                return False
        return closer == "}" and self.header is not None

    def in_mid_line(self, i: int) -> bool:
        """Whether token i has others of its line behind it, and that line is not the one on which its block begins."""
        if self.header is None or i + 1 >= len(self.tokens) or i + 1 in self.breaks:
            return False
        return bisect_right(self.lines, self.starts[i]) != bisect_right(self.lines, self.header.starts[0])

    def run(self) -> None:
        closers = dict(_CLOSER)
        breaks = self.breaks
        opened = False  # whether the token before opened a block
        skipping = False  # whether the chunk is nested too deeply: the rest of it is of no interest
        for i, token in enumerate(self.tokens):
            kind = token.kind
            if skipping:
                if i not in breaks or not self.line(i):
                    continue
                skipping = False
            elif i in breaks:
                if not self.line(i) and self.current is not None and not self.current.closed and self.break_counts(i):
                    self.append(_BREAK, self.current.ends[-1], self.current.ends[-1])
            elif opened:
                self.line(i)
            opened = False
            current = self.current
            if kind == "}" and self.close(kind, i):
                header = self.header
                assert header is not None
                self.header = None
                self.current = header
                self.stack.clear()
                header.closed = True
                self.append(token, self.starts[i], self.ends[i])
                continue
            if current is None:
                # Behind the `{` of a block on its line: not reached, `line` has begun a chunk.
                self.begin(DECLARATION, i)
                current = self.current
                assert current is not None
            if kind == "{" and current.kind == HEADER and not current.closed and self.opens_block(i):
                if self.stack:  # type parameters that are not closed: no further brace can stand in them
                    self.broken = True
                    self.stack.clear()
                self.append(token, self.starts[i], self.ends[i])
                self.header = current
                self.current = None
                opened = True
                continue
            current.tokens.append(token)
            current.starts.append(self.starts[i])
            current.ends.append(self.ends[i])
            if kind in closers:
                self.stack.append(_Open(closers[kind]))
                skipping = len(self.stack) > MAX_NESTING
            elif kind in (")", "]"):
                self.close(kind, i)
            elif kind == "let":
                if self.stack:
                    self.stack[-1].lines = True
            elif kind == "=" and current.body < 0 and not self.stack and current.function:
                current.body = len(current.tokens) - 1
        if self.stack or self.header is not None:
            self.broken = True

    def append(self, token: Token, start: int, end: int) -> None:
        assert self.current is not None
        self.current.tokens.append(token)
        self.current.starts.append(start)
        self.current.ends.append(end)


def cut(lexed: Lexed) -> Tokens:
    """A file's tokens in chunks, and the table of their positions."""
    lines = [0]
    at = lexed.text.find("\n")
    while at >= 0:
        lines.append(at + 1)
        at = lexed.text.find("\n", at + 1)
    cutter = _Cutter(lexed, lines, by_column=False)
    cutter.run()
    if cutter.broken:
        cutter = _Cutter(lexed, lines, by_column=True)
        cutter.run()
    keys = _Keys()
    units: list[Unit] = []
    places: list[ChunkPlaces] = []
    for draft in cutter.units:
        chunk = _chunk(draft, keys.unit(draft.tokens, draft.first))
        places.append(_places(draft, chunk.key))
        parts: list[Chunk] = []
        for part in draft.parts:
            parts.append(_chunk(part, keys.part(chunk.key, part.tokens, part.first)))
            places.append(_places(part, parts[-1].key))
        units.append(Unit(chunk, tuple(parts)))
    places.sort(key=lambda chunk: chunk.key)
    wide, extra = _wide(lexed.text)
    return Tokens(
        FileTokens(tuple(units)),
        TokenTable(tuple(places), tuple(lines), wide, extra, lexed.mark, len(lexed.text), lexed.comments),
    )


def _chunk(draft: _Draft, key: str) -> Chunk:
    return Chunk(key, draft.kind, tuple(draft.tokens))


def _places(draft: _Draft, key: str) -> ChunkPlaces:
    return ChunkPlaces(key, tuple(draft.starts), tuple(draft.ends))


def _wide(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The characters outside ASCII, and how many more bytes than characters the text up to each has."""
    if text.isascii():
        return (), ()
    wide: list[int] = []
    extra: list[int] = []
    total = 0
    for offset, character in enumerate(text):
        if character > "\x7f":
            total += 1 if character < "\u0800" else 2 if character < "\U00010000" else 3
            wide.append(offset)
            extra.append(total)
    return tuple(wide), tuple(extra)


class _Keys:
    """The supply of chunk keys of one file: kind and name; a key that is taken gets `#2`, `#3`, …"""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self.assertions = 0

    def unique(self, key: str) -> str:
        count = self.taken[key] = self.taken.get(key, 0) + 1
        # `#` is in no name, so a numbered key is never a plain one.
        return key if count == 1 else f"{key}#{count}"

    def unit(self, tokens: list[Token], first: Token) -> str:
        if first.kind == "static":
            self.assertions += 1
            return f"static assert {self.assertions}"
        if first.kind == "import":
            return self.unique(f"import {_name_behind(tokens, 'as')}")
        if first.kind in _DECLARING or first.kind in _MEMBERS or (first.kind == NAME and first.text == "model"):
            return self.unique(f"{first.text} {_name_behind(tokens, first.kind)}")
        return self.unique("file" if first.kind == BAD_ENCODING else "text")

    def part(self, unit: str, tokens: list[Token], first: Token) -> str:
        if first.kind in _MEMBERS and unit.startswith("module "):
            return self.unique(f"{unit}/{first.text} {_name_behind(tokens, first.kind)}")
        if first.kind == NAME or first.kind in RESERVED:
            return self.unique(f"{unit}/{first.text}")
        return self.unique(f"{unit}/?")


def _name_behind(tokens: list[Token], kind: str) -> str:
    """The name behind the first token of a kind; `?` if there is none."""
    i = next((i for i, token in enumerate(tokens) if token.kind == kind), len(tokens)) + 1
    return tokens[i].text if i < len(tokens) and tokens[i].kind in (NAME, BAD_NAME) else "?"
