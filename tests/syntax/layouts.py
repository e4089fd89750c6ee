"""Programs in other layouts: the same tokens with other blanks, line breaks, blank lines and comments between them.

What may stand between two tokens is written down here once more, from the language's description and not from the compiler.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from presk.syntax.printer import spell
from presk.syntax.tokens import FileTokens, Token

# The operators that a line may begin with to continue the one before.
CONTINUING = {"|>", "|", "⊗", "∘", "·", "*", "/", "%", "+", "==", "<=", ">=", "<", ">"}
OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclass
class _Bracket:
    lines_count: bool = False


@dataclass
class Layout:
    """A text, and the comments in it in their order."""

    text: str
    comments: list[str]


class Scribe:
    """Writes tokens with gaps that a source of choices decides."""

    def __init__(self, choose: "st.DataObject") -> None:
        self.draw = choose.draw
        self.pieces: list[str] = []
        self.comments: list[str] = []

    def blank(self) -> None:
        """Between tokens of one line."""
        self.pieces.append(self.draw(st.sampled_from((" ", "  ", "\t"))))

    def comment(self) -> None:
        text = "--" + self.draw(st.sampled_from(("", " why", " a: b = (", ' "', "- x", " Δ")))
        self.comments.append(text)
        self.pieces.append(text)

    def line_break(self) -> None:
        """The end of a line: perhaps a comment, perhaps lines with nothing or only a comment on them."""
        for _ in range(self.draw(st.integers(0, 2))):
            if self.draw(st.booleans()):
                self.blank()
                self.comment()
            self.pieces.append(self.draw(st.sampled_from(("\n", "\n\n", "\r\n", "\n  "))))
        self.pieces.append("\n" + " " * self.draw(st.integers(0, 3)))

    def chunk(self, kind: str, tokens: Sequence[Token]) -> None:
        """A chunk from its first to its last token."""
        stack: list[_Bracket] = []
        header = kind != "item" and tokens[0].kind == "fn"
        for i, token in enumerate(tokens):
            before = tokens[i - 1] if i else None
            if token.kind == "newline":
                self.line_break()
                continue
            if before is not None and before.kind != "newline":
                free = (
                    token.kind in CONTINUING
                    or token.kind in OPENING.values()
                    or (bool(stack) and not stack[-1].lines_count)
                )
                if header and not stack:
                    free = free or token.kind in ("->", "uses") or before.kind == "="
                if stack and "," in (token.kind, before.kind):
                    free = True
                # A block's closing brace stands where it likes; before its opening one the line may not break.
                if free and self.draw(st.integers(0, 4)) == 0:
                    self.line_break()
                else:
                    self.blank()
            if header and not stack and before is not None and before.kind == "=":
                header = False
            self.pieces.append(spell(token))
            if token.kind in OPENING:
                stack.append(_Bracket())
            elif token.kind in OPENING.values() and stack:
                stack.pop()
            elif token.kind == "let" and stack:
                stack[-1].lines_count = True


def relaid(data: "st.DataObject", file: FileTokens) -> Layout:
    """The file's tokens in a layout of their own."""
    scribe = Scribe(data)
    for unit in file.units:
        scribe.line_break()
        if unit.chunk.kind == "header":
            scribe.chunk("header", unit.chunk.tokens[:-1])
            for part in unit.parts:
                scribe.line_break()
                scribe.chunk(part.kind, part.tokens)
            scribe.line_break()
            scribe.pieces.append("}")
        else:
            scribe.chunk(unit.chunk.kind, unit.chunk.tokens)
    scribe.line_break()
    return Layout("".join(scribe.pieces), scribe.comments)
