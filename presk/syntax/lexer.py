"""From bytes to lexemes and tokens, by one regular expression.

`re.findall` cuts the text into lexemes without leaving a character out; each distinct lexeme is looked at once per file, so
the cost of a token is a dictionary look-up. A lexeme's meaning depends on its own text only, with one exception: a
name that begins with `λ` and is followed by a dot and a blank is a lambda whose blank was forgotten.

Identifiers follow Unicode XID of the version pinned in `xid_table`, whatever version the running Python knows. They are
normalized to NFC by `unicodedata`: characters assigned in the pinned version normalize alike in every later one (the
Unicode stability policy), and Python 3.11, the oldest supported, knows exactly the pinned one.
"""

import re
import unicodedata
from bisect import bisect_right
from typing import Final

import msgspec

from presk.syntax.tokens import (
    BAD_CHARACTER,
    BAD_CONTROL,
    BAD_ENCODING,
    BAD_ESCAPE,
    BAD_LAMBDA,
    BAD_NAME,
    BAD_NUMBER,
    BAD_STRING,
    BAD_UNIT,
    DECIMAL,
    NAME,
    NAT,
    QUANTITY,
    RESERVED,
    STRING,
    Comment,
    Token,
)
from presk.syntax.xid_table import XID_CONTINUE, XID_START

MAX_NAME: Final = 255  # characters after normalization
MAX_DIGITS: Final = 10_000
# A normalized character comes of at most four, so a longer text is too long in any case. It is not normalized: a long run
# of combining marks would take quadratic time.
_MAX_RAW_NAME: Final = 4 * MAX_NAME
_MAX_PARTS: Final = 1000  # tokens of one run of characters outside ASCII

_SIZES: Final = frozenset(("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"))
UNITS: Final = frozenset(("ns", "us", "ms", "s")) | _SIZES | {f"{a}/{b}" for a in _SIZES for b in ("s", "sm", "core")}

# ASCII spellings, and characters that normalize to another symbol.
SYNONYMS: Final = (("Real", "ℝ"), ("\\", "λ"), ("@", "·"), ("><", "⊗"), ("<<", "∘"), ("\u0387", "·"))
SYMBOLS: Final = frozenset("|> | ⊗ ∘ == <= >= < > + - * / % · ^ ( ) [ ] { } , : = -> . .. ...".split())
_CANONICAL: Final = tuple((word, word) for word in (*sorted(RESERVED), *sorted(SYMBOLS))) + SYNONYMS

# Letters, `_` and everything outside ASCII but `·`, U+0387, `∘`, `⊗`: a run of them is one lexeme, and looked at afterwards.
# The classes are written by what is not in them: ranges up to the last code point take `re` milliseconds to compile.
_WORD: Final = r"[^\x00-@\[-^`{-\x7f·\u0387∘⊗]"
_WORDS: Final = r"[^\x00-/:-@\[-^`{-\x7f·\u0387∘⊗]*"
# What a unit may begin with: letters of the nearer alphabets, so that `4×D` and `4−D` are a number and a character.
_UNIT: Final = r"[A-Za-z_\xaa\xb5\xba\xc0-\xd6\xd8-\xf6\xf8-\u0386\u0388-\u04ff]"

# In order: what comes first wins.
_LEXEME: Final = re.compile(
    r"[ \t]+"
    rf"|{_WORD}{_WORDS}"
    r"|\r?\n"
    r"|[(),:\[\]{}%/*+^@·∘⊗\u0387\\]"
    r"|\.\.?\.?"
    r"|=="
    r"|--[^\n]*"
    rf"|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:{_UNIT}{_WORDS}(?:/[A-Za-z]+)?)?"
    r'|"(?:[^"\\\r\n]|\\[^\r\n])*"?'
    r"|->|\|>|><|<<|<=|>="
    r"|[-<>=|]"
    # Characters that no token begins with, in runs, so that a file of NULs is one lexeme.
    r"|[!#$&';?`~\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+|(?:\r(?!\n))+|."
)
_NUMBER: Final = re.compile(r"([0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = (("\\", "\\"), ('"', '"'), ("n", "\n"), ("t", "\t"))
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Lexed(msgspec.Struct, frozen=True):
    """A file's tokens with their offsets in characters, before they are cut into chunks.

    `breaks` are the numbers of the tokens that are the first of their line.
    """

    text: str
    mark: int
    tokens: list[Token]
    starts: list[int]
    ends: list[int]
    breaks: list[int]
    comments: tuple[Comment, ...]


def is_start(character: str) -> bool:
    """Whether a name may begin with this character."""
    return character == "_" or bool(bisect_right(XID_START, ord(character)) & 1)


def is_continue(character: str) -> bool:
    """Whether this character may stand in a name behind its first. `·` and U+0387 may not, though XID admits them."""
    return bool(bisect_right(XID_CONTINUE, ord(character)) & 1) and character not in "·\u0387"


def is_name(text: str) -> bool:
    """Whether a text is a name of the language, in NFC: what the lexer makes one `name` token of, spelled canonically."""
    return (
        0 < len(text) <= MAX_NAME
        and is_start(text[0])
        and all(is_continue(c) for c in text)
        and text not in RESERVED
        and text != "Real"
        and unicodedata.normalize("NFC", text) == text
    )


def decode(source: bytes) -> tuple[str, int] | tuple[None, int]:
    """The text of a file without its byte order mark, and the mark's length; or None and the offset of the first bad byte."""
    mark = 3 if source.startswith(b"\xef\xbb\xbf") else 0
    try:
        return source[mark:].decode("utf-8"), mark
    except UnicodeDecodeError as error:
        return None, mark + error.start


def lex(source: bytes) -> Lexed:
    """The tokens of a file. Errors are tokens of their own kinds (E0002–E0006, E0011, E0014)."""
    text, mark = decode(source)
    if text is None:
        # Nothing of such a file can be trusted: it is one bad token, at the offending byte.
        bad = Token(BAD_ENCODING, f"{source[mark]:02x}")
        before, mark = decode(source[:mark])
        assert before is not None
        return Lexed(before + "\ufffd", mark, [bad], [len(before)], [len(before) + 1], [0], ())
    tokens: list[Token] = []
    starts: list[int] = []
    ends: list[int] = []
    breaks: list[int] = []
    comments: list[Comment] = []
    # What each distinct lexeme is: a token; several, with their lengths; or, as text, a blank, a line break, a comment.
    known: dict[str, Token | str | tuple[tuple[Token, int], ...]] = {
        " ": "blank",
        "\n": "break",
        "\r\n": "break",
    }
    for spelling, canonical in _CANONICAL:
        known[spelling] = Token(canonical, canonical)
    fresh = True
    lambdas = False
    offset = 0
    for lexeme in _LEXEME.findall(text):
        meaning = known.get(lexeme)
        if meaning is None:
            meaning = known[lexeme] = _classify(lexeme)
            lambdas = lambdas or lexeme[0] == "λ"
        end = offset + len(lexeme)
        if type(meaning) is Token:
            if fresh:
                breaks.append(len(tokens))
                fresh = False
            tokens.append(meaning)
            starts.append(offset)
            ends.append(end)
        elif meaning == "break":
            fresh = True
        elif meaning == "comment":
            comments.append(Comment(offset, lexeme.rstrip()))
        elif type(meaning) is tuple:
            if fresh:
                breaks.append(len(tokens))
                fresh = False
            start = offset
            for token, length in meaning:
                tokens.append(token)
                starts.append(start)
                start += length
                ends.append(start)
        offset = end
    if lambdas:
        _mark_lambdas(text, tokens, starts, ends)
    return Lexed(text, mark, tokens, starts, ends, breaks, tuple(comments))


def _mark_lambdas(text: str, tokens: list[Token], starts: list[int], ends: list[int]) -> None:
    """Turns `λθ` in `λθ. e` into a bad token. In `λθ.w`, and behind a `λ`, it is a name."""
    for i, token in enumerate(tokens):
        if token.kind != NAME or token.text[0] != "λ" or i + 1 >= len(tokens) or tokens[i + 1].kind != ".":
            continue
        # A comment behind the dot shows that the name's field follows, on the next line; nobody writes a lambda so.
        between = text[ends[i + 1] : starts[i + 2]] if i + 2 < len(tokens) else " "
        if between.isspace() and starts[i + 1] == ends[i] and (i == 0 or tokens[i - 1].kind != "λ"):
            tokens[i] = Token(BAD_LAMBDA, token.text)


def _classify(lexeme: str) -> Token | str | tuple[tuple[Token, int], ...]:
    """What a lexeme is that is no reserved word and no symbol."""
    first = lexeme[0]
    if first in " \t":
        return "blank"
    if first == "-" and lexeme.startswith("--"):
        return "comment"
    if "0" <= first <= "9":
        return _number(lexeme)
    if first == '"':
        return _string(lexeme)
    if first.isascii() and not (first.isalpha() or first == "_"):
        return Token(BAD_CHARACTER, first)
    if lexeme.isascii():
        return Token(NAME, lexeme) if len(lexeme) <= MAX_NAME else Token(BAD_NAME, lexeme[:32])
    return _word(lexeme)


def _number(lexeme: str) -> Token:
    match = _NUMBER.fullmatch(lexeme)
    assert match is not None  # the lexer's expression begins a number in the same way
    digits, fraction, exponent, unit = match.groups()
    if (
        len(lexeme) - len(unit) > MAX_DIGITS
        and sum("0" <= c <= "9" for c in lexeme[: len(lexeme) - len(unit)]) > MAX_DIGITS
    ):
        return Token(BAD_NUMBER, digits[:16])
    if unit in UNITS:
        return Token(QUANTITY, lexeme)
    if unit:
        return Token(BAD_UNIT, f"{lexeme[: len(lexeme) - len(unit)][:64]} {unicodedata.normalize('NFC', unit[:64])}")
    return Token(DECIMAL if fraction or exponent else NAT, lexeme)


def _string(lexeme: str) -> Token:
    body = lexeme[1:-1]
    if len(lexeme) < 2 or lexeme[-1] != '"' or _ends_in_escape(body):
        return Token(BAD_STRING, lexeme[:32])
    control = _CONTROL.search(body)
    if control is not None:
        return Token(BAD_CONTROL, control[0])
    if "\\" not in body:
        return Token(STRING, body)
    escapes = dict(_ESCAPES)
    for escape in _ESCAPE.findall(body):
        if escape not in escapes:
            return Token(BAD_ESCAPE, "\\" + escape)
    return Token(STRING, _ESCAPE.sub(lambda m: escapes[m[1]], body))


def _ends_in_escape(body: str) -> bool:
    """Whether the quotation mark behind `body` is escaped, that is, an odd number of backslashes stands before it."""
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1


def _word(lexeme: str) -> Token | tuple[tuple[Token, int], ...]:
    """A lexeme with characters outside ASCII: a name, or names and numbers with characters between them that begin no token."""
    parts: list[tuple[Token, int]] = []
    position = 0
    while position < len(lexeme):
        start = position
        if len(parts) == _MAX_PARTS:
            position = len(lexeme)
            parts.append((Token(BAD_CHARACTER, lexeme[start]), position - start))
        elif is_start(lexeme[position]):
            limit = min(len(lexeme), start + _MAX_RAW_NAME + 1)
            position += 1
            while position < limit and is_continue(lexeme[position]):
                position += 1
            if position - start > _MAX_RAW_NAME:
                position = len(lexeme)  # too long whatever follows: the rest is not looked at one by one
            parts.append((_name(lexeme[start:position]), position - start))
        elif lexeme[position].isascii():
            match = _LEXEME.match(lexeme, position)  # a number
            assert match is not None
            position = match.end()
            parts.append((_number(match[0]), position - start))
        else:
            while position < len(lexeme) and lexeme[position] == lexeme[start]:
                position += 1
            parts.append((Token(BAD_CHARACTER, lexeme[start]), position - start))
    return parts[0][0] if len(parts) == 1 else tuple(parts)


def _name(text: str) -> Token:
    if len(text) > _MAX_RAW_NAME:
        return Token(BAD_NAME, text[:32])
    name = unicodedata.normalize("NFC", text)
    if name in RESERVED:
        return Token(name, name)
    return Token(NAME, name) if len(name) <= MAX_NAME else Token(BAD_NAME, name[:32])


def split_quantity(text: str) -> tuple[str, str]:
    """Number and unit of a quantity's text: `3e2ms` -> (`3e2`, `ms`)."""
    match = _NUMBER.fullmatch(text)
    assert match is not None
    unit = match[4]
    return text[: len(text) - len(unit)], unit
