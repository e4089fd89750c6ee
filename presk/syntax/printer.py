"""Text of tokens: spacing, breaking of long lines, spelling. Used by the formatter and for printing trees.

A *line* of tokens (a declaration without its body, a line of a body, an item) becomes a document in the manner of Wadler: text,
places where it may break, and groups that break as a whole or not at all. The renderer gives a group a single line if what
follows up to the next possible break fits the width. Documents are built bracket by bracket from the inside and rendered from
a stack, so nesting costs no recursion.

Where a line may break is a matter of the layout rule, not of taste: anywhere inside brackets; outside of them, and in a
bracket behind a `let`, only before an operator that continues a line.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from presk.syntax.layout import CONTINUING
from presk.syntax.parse import retag
from presk.syntax.tokens import DECLARATION, HEADER, ITEM, MEMBER, NAME, NAT, NEWLINE, OPERAND_ENDS, STRING, Token
from presk.syntax.tree import Block, Expr, Fn, Module, Node, SourceFile, TypeExpr
from presk.syntax.unparse import LEVELS, unparse

FIELD: Final = "field"  # the kind `retag` gives to an item's name

WIDTH: Final = 100  # characters of a line
INDENT: Final = 2

ASCII: Final = MappingProxyType({"ℝ": "Real", "λ": "\\", "·": "@", "⊗": "><", "∘": "<<"})
_ESCAPES: Final = MappingProxyType({ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\t"): "\\t"})
_OPEN: Final = frozenset(("(", "[", "{"))
_CLOSE: Final = frozenset((")", "]", "}"))
_SEPARATORS: Final = frozenset(("=", ":", "..", "->", "uses", "let", "λ"))  # between them stand expressions
_PRODUCTS: Final = frozenset(("*", "/", "%", "·", "^"))


class Comment(NamedTuple):
    """A comment on a line of its own, and whether a blank line stands before it."""

    text: str
    blank: bool


class Atom:
    """A token as it will stand in the text, with the comments that go with it.

    `role` is `binary` for an operator between operands, `lambda` for the dot of a lambda, else empty.
    """

    __slots__ = ("after", "before", "blank", "kind", "role", "space", "text")

    def __init__(self, kind: str, text: str, space: bool, role: str) -> None:
        self.kind = kind
        self.text = text
        self.space = space  # whether a blank stands before it
        self.role = role
        self.before: list[Comment] = []  # comments between it and the line before
        self.after = ""  # the comment behind it on its line
        self.blank = False  # whether a blank line stands before it


# --- spelling and spacing ---------------------------------------------------------------------------------------------


def spell(token: Token, ascii_only: bool = False) -> str:
    """A token's spelling in a program."""
    if token.kind == STRING:
        return '"' + token.text.translate(_ESCAPES) + '"'
    return ASCII.get(token.kind, token.text) if ascii_only else token.text


def atoms(chunk_kind: str, tokens: Sequence[Token], ascii_only: bool = False) -> list[Atom]:
    """A chunk's tokens with the blanks between them. A `newline` token is an atom without a text."""
    kinds = retag(chunk_kind, tuple(tokens))
    result: list[Atom] = []
    opened: list[str] = []  # the open brackets; the parentheses of a function's parameters are "params"
    lambdas: list[int] = []  # depths at which a `λ` waits for its dot
    before = ""
    tight = True  # whether the token before wants no blank behind it
    function = bool(tokens) and tokens[0].kind == "fn" and chunk_kind != ITEM
    for i, token in enumerate(tokens):
        # The name of an item may be a reserved word, and is not to be taken for one.
        kind = FIELD if kinds[i] == FIELD else token.kind
        space = not tight
        tight = False
        role = ""
        if kind in _CLOSE or kind == ",":
            space = False
            if kind in _CLOSE and opened:
                opened.pop()
        elif kind in _OPEN:
            block = kind == "{" and chunk_kind == HEADER and i == len(tokens) - 2
            params = kind == "(" and function and not opened and before in (NAME, "}") and "=" not in kinds[:i]
            space = space and (block or not (before in OPERAND_ENDS or before in ("ℝ", "idx", "ein")))
            tight = True
            opened.append("params" if params else kind)
        elif kind in ("..", "^"):
            space, tight, role = False, True, "binary" if kind == "^" else ""
        elif kind == ".":
            space = False
            if lambdas and lambdas[-1] == len(opened):
                lambdas.pop()
                role = "lambda"
            else:
                tight = True
        elif kind == ":":
            # Before an axis's length no blank, before a type one.
            space = kinds[i] == "tcolon" or not opened or opened[-1] in ("{", "params")
        elif kind == "-":
            role = "binary" if before in OPERAND_ENDS else ""
            tight = not role
            space = space or before == "-"  # `--` begins a comment
        elif kind in LEVELS:
            role = "binary"
            if kind == "*" and _is_coefficient(kinds, i):
                space, tight = False, True
        elif kind == "λ":
            lambdas.append(len(opened))
            tight = ascii_only
        elif kind == NEWLINE:
            space, tight = False, True
        result.append(Atom(kind, "" if kind == NEWLINE else spell(token, ascii_only), space, role))
        before = kind
    return result


def _is_coefficient(kinds: Sequence[str], i: int) -> bool:
    """Whether the `*` at i stands between a number and a name, as in `4*D`: a coefficient, written without blanks."""
    return (
        i + 1 < len(kinds) and kinds[i - 1] == NAT and kinds[i + 1] == NAME and (i < 2 or kinds[i - 2] not in _PRODUCTS)
    )


# --- documents --------------------------------------------------------------------------------------------------------


class Doc:
    """A piece of a document: an atom, a break, or a list of pieces.

    `kind` is `atom`, `break` (a place where the line may break; blanks are the atoms' business), `hard` (where it must), `list`,
    `nest` (a list, indented) or `group` (a list that is on one line or has all its breaks). `lead` and `trail` say whether a comment
    stands before the first, or behind the last, atom in it; `inner`, whether one stands anywhere else or a line must break in it.
    """

    __slots__ = ("atom", "inner", "kind", "lead", "parts", "trail")

    def __init__(self, kind: str, parts: Sequence["Doc"] = (), atom: Atom | None = None) -> None:
        self.kind = kind
        self.atom = atom
        self.parts = parts
        if atom is not None:
            self.lead = bool(atom.before)
            self.trail = bool(atom.after)
            self.inner = False
        else:
            content = [part for part in parts if part.kind != "break"]
            self.lead = bool(content) and content[0].lead
            self.trail = bool(content) and content[-1].trail
            self.inner = kind == "hard" or any(part.inner for part in content)
            self.inner = self.inner or any(part.lead for part in content[1:]) or any(p.trail for p in content[:-1])


_BREAK: Final = Doc("break")
_HARD: Final = Doc("hard")


class _Piece:
    """A document within one bracket's content, with what its first atom means there."""

    __slots__ = ("atom", "doc")

    def __init__(self, doc: Doc, atom: Atom | None) -> None:
        self.doc = doc
        self.atom = atom  # None for a bracket with its content


def document(line: Sequence[Atom]) -> Doc:
    """The document of a line of atoms, or of several with `newline` atoms between them."""
    levels: list[list[_Piece]] = [[]]
    for atom in line:
        if atom.kind in _OPEN:
            levels[-1].append(_Piece(Doc("atom", atom=atom), atom))
            levels.append([])
        elif atom.kind in _CLOSE and len(levels) > 1:
            content = levels.pop()
            opening = levels[-1].pop()
            levels[-1].append(_Piece(_bracket(opening.doc, content, Doc("atom", atom=atom)), None))
        else:
            levels[-1].append(_Piece(Doc("atom", atom=atom), atom))
    return _lines(levels[0], outside=True)


def _bracket(opening: Doc, content: list[_Piece], closing: Doc) -> Doc:
    if not content:
        return (
            Doc("group", (opening, _BREAK, closing))
            if opening.trail or closing.lead
            else Doc("list", (opening, closing))
        )
    parts: list[Doc] = [_BREAK]
    element: list[_Piece] = []
    # Behind a `let` line breaks count, so that lines break before operators only.
    outside = any(piece.atom is not None and piece.atom.kind == "let" for piece in content)
    bound = False
    for piece in content:
        if piece.atom is not None and piece.atom.kind == ",":
            parts += [_element(element, outside, bound), piece.doc, _BREAK]
            bound = bound or any(p.atom is not None and p.atom.kind == "let" for p in element)
            element = []
        else:
            element.append(piece)
    parts.append(_element(element, outside, bound))
    return Doc("group", (opening, Doc("nest", parts), _BREAK, closing))


def _element(pieces: list[_Piece], outside: bool, bound: bool) -> Doc:
    """One of the comma-separated parts of a bracket. `bound` says whether a `let` came before it in the bracket."""
    binding = next((i for i, p in enumerate(pieces) if p.atom is not None and p.atom.kind == "let"), 0)
    if binding and not bound:
        # The first `let` of a bracket begins a line: up to there line breaks mean nothing.
        rest = _lines(pieces[binding:], outside)
        return Doc("list", (_lines(pieces[:binding], outside), Doc("nest", (_HARD, rest))))
    return _lines(pieces, outside)


def _lines(pieces: Sequence[_Piece], outside: bool) -> Doc:
    """Pieces with line breaks between them where `newline` atoms stand."""
    parts: list[Doc] = []
    line: list[_Piece] = []
    for piece in pieces:
        if piece.atom is not None and piece.atom.kind == NEWLINE:
            parts += [_segments(line, outside), _HARD]
            line = []
        else:
            line.append(piece)
    parts.append(_segments(line, outside))
    return parts[0] if len(parts) == 1 else Doc("list", parts)


def _segments(pieces: Sequence[_Piece], outside: bool) -> Doc:
    """A line: expressions and what stands between them (`=`, `:`, `..`, the dot of a lambda, words)."""
    parts: list[Doc] = []
    operands: list[_Piece] = []
    for piece in pieces:
        atom = piece.atom
        if atom is not None and (atom.kind in _SEPARATORS or atom.role == "lambda"):
            if operands:
                parts.append(_operators(operands, outside))
                operands = []
            # Where a comment before the arrow makes it begin a line, it is indented.
            parts.append(Doc("nest", (piece.doc,)) if atom.kind in ("->", "uses") else piece.doc)
        else:
            operands.append(piece)
    if operands:
        parts.append(_operators(operands, outside))
    return parts[0] if len(parts) == 1 else Doc("list", parts)


def _operators(pieces: Sequence[_Piece], outside: bool) -> Doc:
    """An expression: it breaks before its loosest operators, all of them or none."""
    loosest = min((LEVELS[p.atom.kind] for p in pieces if p.atom is not None and _breaks(p.atom, outside)), default=0)
    if loosest == 0:
        return pieces[0].doc if len(pieces) == 1 else Doc("list", [piece.doc for piece in pieces])
    operands: list[list[_Piece]] = [[]]
    for piece in pieces:
        if piece.atom is not None and _breaks(piece.atom, outside) and LEVELS[piece.atom.kind] == loosest:
            operands.append([])
        operands[-1].append(piece)
    first = _operators(operands[0], outside) if operands[0] else Doc("list")
    rest: list[Doc] = []
    for operand in operands[1:]:
        rest += [_BREAK, operand[0].doc]
        if len(operand) > 1:
            rest.append(_operators(operand[1:], outside))
    return Doc("group", (first, Doc("nest", rest)))


def _breaks(atom: Atom, outside: bool) -> bool:
    """Whether a line may break before an operator."""
    return atom.role == "binary" and atom.kind != "^" and (atom.kind in CONTINUING or not outside)


# --- rendering --------------------------------------------------------------------------------------------------------


class Writer:
    """Lines of text in the making."""

    def __init__(self, width: int = WIDTH) -> None:
        self.width = width
        self.lines: list[str] = []
        self.line = ""  # the line being written, with its indentation
        self.empty = True  # whether nothing but indentation is in it
        self.pending = False  # whether a comment ended the line

    def end_line(self, indent: int) -> None:
        """Begins a new line, unless the current one is still empty."""
        if not self.empty:
            self.lines.append(self.line)
        self.line = " " * indent
        self.empty = True
        self.pending = False

    def blank_line(self) -> None:
        """A blank line, unless it would be the file's first line or a second blank one. At the beginning of a line."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def comment(self, text: str, indent: int) -> None:
        """A comment on a line of its own."""
        self.end_line(indent)
        self.line += text
        self.empty = False
        self.pending = True

    def lead(self, atom: Atom, indent: int, first: bool) -> None:
        """What stands before the first atom of a line: comments and blank lines. `first` in a block there is no blank line."""
        for comment in atom.before:
            self.end_line(indent)
            if comment.blank and not first:
                self.blank_line()
            self.comment(comment.text, indent)
            first = False
        atom.before = []
        self.end_line(indent)
        if atom.blank and not first:
            self.blank_line()

    def atom(self, atom: Atom, indent: int) -> None:
        """An atom with its comments."""
        for comment in atom.before:
            # What stands before a closing bracket belongs to its content.
            self.comment(comment.text, indent + INDENT if atom.kind in _CLOSE else indent)
        if self.pending:
            self.end_line(indent)
        if atom.text:
            self.line += f" {atom.text}" if atom.space and not self.empty else atom.text
            self.empty = False
        if atom.after:
            self.line += f"  {atom.after}"
            self.pending = True

    def write(self, doc: Doc, indent: int) -> None:
        """A document, from where the line stands."""
        waiting: list[tuple[int, bool, Doc]] = [(indent, False, doc)]
        while waiting:
            depth, flat, part = waiting.pop()
            match part.kind:
                case "atom":
                    assert part.atom is not None
                    self.atom(part.atom, depth)
                case "list":
                    waiting.extend((depth, flat, inner) for inner in reversed(part.parts))
                case "nest":
                    waiting.extend((depth + INDENT, flat, inner) for inner in reversed(part.parts))
                case "group":
                    one_line = flat or (not part.inner and self.fits(part, waiting, depth))
                    waiting.extend((depth, one_line, inner) for inner in reversed(part.parts))
                case "hard":
                    self.end_line(depth)
                case _:
                    if not flat:
                        self.end_line(depth)

    def fits(self, doc: Doc, after: Sequence[tuple[int, bool, Doc]], depth: int) -> bool:
        """Whether a document on one line, with what follows it up to the next possible break, fits the width."""
        room = self.width - (depth if self.pending else len(self.line))
        waiting: list[tuple[bool, Doc]] = [(True, doc)]
        following = len(after)
        while room >= 0:
            if not waiting:
                if following == 0:
                    return True
                following -= 1
                waiting.append((after[following][1], after[following][2]))
            flat, part = waiting.pop()
            match part.kind:
                case "atom":
                    assert part.atom is not None
                    room -= len(part.atom.text) + part.atom.space
                    if part.atom.after:
                        return room >= 0
                case "list" | "nest":
                    waiting.extend((flat, inner) for inner in reversed(part.parts))
                case "group":
                    waiting.extend((flat and not part.inner, inner) for inner in reversed(part.parts))
                case "hard":
                    return True
                case _:
                    if not flat:
                        return True
        return False

    def text(self) -> str:
        """What was written, every line ended."""
        self.end_line(0)
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        return "".join(line + "\n" for line in self.lines)


# --- trees ------------------------------------------------------------------------------------------------------------


def _print(chunk_kind: str, node: Node, width: int, ascii_only: bool) -> str:
    writer = Writer(width)
    write_chunk(writer, atoms(chunk_kind, unparse(node), ascii_only), 0, first=True)
    return writer.text().rstrip("\n")


def print_expr(node: Expr, *, width: int = 10**9, ascii_only: bool = False) -> str:
    """An expression on one line (but for the lines of a `let`)."""
    return _print("expression", node, width, ascii_only)


def print_type(node: TypeExpr, *, ascii_only: bool = False) -> str:
    """A type on one line."""
    return _print("type", node, 10**9, ascii_only)


def print_declaration(node: Node, *, width: int = WIDTH, ascii_only: bool = False) -> str:
    """A declaration, with the members of a module and the items of a block, or a member or an item, as the formatter writes it."""
    writer = Writer(width)
    _write_node(writer, node, ascii_only)
    return writer.text().rstrip("\n")


def print_file(file: SourceFile, *, ascii_only: bool = False) -> str:
    """A file; a blank line surrounds what takes several lines."""
    writer = Writer()
    for chunk in file.declarations:
        long = isinstance(chunk.declaration, Fn | Module | Block)
        if long:
            writer.end_line(0)
            writer.blank_line()
        _write_node(writer, chunk.declaration, ascii_only)
        if long:
            writer.end_line(0)
            writer.blank_line()
    return writer.text()


def _write_node(writer: Writer, node: Node, ascii_only: bool) -> None:
    if not isinstance(node, Module | Block):
        write_chunk(writer, atoms(DECLARATION, unparse(node), ascii_only), 0, first=False)
        return
    parts: list[list[Atom]]
    if isinstance(node, Module):
        parts = [atoms(MEMBER, unparse(chunk.member), ascii_only) for chunk in node.members]
    else:
        parts = [atoms(ITEM, unparse(chunk.item), ascii_only) for chunk in node.items]
    write_block(writer, atoms(HEADER, unparse(node), ascii_only), parts)


def write_chunk(writer: Writer, line: Sequence[Atom], indent: int, *, first: bool) -> None:
    """A chunk on lines of its own. A function's body begins on the line behind its `=`, indented.

    The `first` of a block has no blank line before it.
    """
    writer.lead(line[0], indent, first)
    start = body_start(line)
    if start:
        writer.write(document(line[:start]), indent)
        indent += INDENT
    begin = start
    for end in [*line_ends(line, start), len(line)]:
        if begin:
            writer.lead(line[begin], indent, first=begin == start)
        writer.write(document(line[begin:end]), indent)
        begin = end + 1


def write_block(writer: Writer, header: Sequence[Atom], parts: Sequence[Sequence[Atom]]) -> None:
    """A module or a block: its header, which ends with `{` and `}`, and between these its parts, each on lines of its own."""
    closing = header[-1]
    writer.lead(header[0], 0, first=False)
    writer.write(document(header[:-1]), 0)
    for i, part in enumerate(parts):
        write_chunk(writer, part, INDENT, first=i == 0)
    for i, comment in enumerate(closing.before):
        writer.end_line(INDENT)
        if comment.blank and (i or parts):
            writer.blank_line()
        writer.comment(comment.text, INDENT)
    if parts or closing.before or writer.pending:
        writer.end_line(0)
    closing.before = []
    writer.write(document((closing,)), 0)


def body_start(line: Sequence[Atom]) -> int:
    """The number of the first atom of a function's body; 0 if there is none."""
    if not line or line[0].kind != "fn":
        return 0
    depth = 0
    for i, atom in enumerate(line):
        if atom.kind in _OPEN:
            depth += 1
        elif atom.kind in _CLOSE:
            depth -= 1
        elif atom.kind == "=" and depth == 0:
            return i + 1
    return 0


def line_ends(line: Sequence[Atom], start: int) -> list[int]:
    """The numbers of the `newline` atoms outside brackets, from atom `start` on."""
    depth = 0
    result: list[int] = []
    for i in range(start, len(line)):
        kind = line[i].kind
        if kind in _OPEN:
            depth += 1
        elif kind in _CLOSE:
            depth -= 1
        elif kind == NEWLINE and depth == 0:
            result.append(i)
    return result
