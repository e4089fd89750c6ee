"""What is said of a syntax error: codes, words and mends.

Three functions look at a chunk that cannot be parsed: `lexical` at the tokens that are errors by themselves, `brackets` at the pairing
of brackets, `unexpected` at the token the parser stopped at, together with the kinds it could have gone on with.
Places are token numbers of the tokens given.
"""

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Final

from presk.diagnostics.value import Diagnostic, Label, Place
from presk.syntax.lexer import MAX_DIGITS, MAX_NAME, is_start
from presk.syntax.tokens import (
    BAD_CHARACTER,
    BAD_CONTROL,
    BAD_ENCODING,
    BAD_ESCAPE,
    BAD_KINDS,
    BAD_LAMBDA,
    BAD_NAME,
    BAD_NUMBER,
    BAD_STRING,
    BAD_UNIT,
    DECIMAL,
    HEADER,
    ITEM,
    MEMBER,
    NAME,
    NAT,
    NEWLINE,
    QUANTITY,
    RESERVED,
    STRING,
    Token,
)

_PAIRS: Final = MappingProxyType({"(": ")", "[": "]", "{": "}"})
_BINARY: Final = frozenset(("|>", "|", "⊗", "∘", "==", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "·", "^"))
_ITEM_WORDS: Final = frozenset(
    ("import", "const", "static", "dim", "type", "effect", "module", "fn", "optimizer", "training", "inference", "use")
)

# Characters of other notations, and what is written here.
_INSTEAD: Final = MappingProxyType(
    {"−": "-", "–": "-", "×": "*", "∗": "*", "⋅": "·", "•": "·", "≤": "<=", "≥": ">=", "→": "->", "…": "...", "“": '"',
     "”": '"', "„": '"', "÷": "/", "∙": "·", "｜": "|", "，": ",", "（": "(", "）": ")", "：": ":"}
)  # fmt: skip
_HINTS: Final = MappingProxyType(
    {
        "#": "a comment begins with `--`",
        "'": 'a string is written in double quotes: "…"',
        "“": 'a string is written in double quotes: "…"',
        ";": "a declaration ends with its line, without `;`",
        "!": "there is no negation and no `!=`",
        "&": "there is no `&`",
        "\t": "",
    }
)
_BLANKS: Final = MappingProxyType(
    {"\r": "a carriage return without a line feed", "\x0b": "a vertical tab", "\x0c": "a form feed",
     "\xa0": "a no-break space", "\u3000": "an ideographic space", "\ufeff": "a byte order mark",
     "\u200b": "a zero-width space", "\u2028": "a line separator", "\u2029": "a paragraph separator"}
)  # fmt: skip


def _at(first: int, last: int | None = None) -> Label:
    return Label(Place(first, first if last is None else last))


# --- tokens that are errors -------------------------------------------------------------------------------------------


def lexical(tokens: Sequence[Token], most: int) -> list[tuple[int, Diagnostic]]:
    """The lexical errors of a chunk, by token number; at most `most` of them."""
    found: list[tuple[int, Diagnostic]] = []
    quoted = False
    for i, token in enumerate(tokens):
        if token.kind in BAD_KINDS:
            if token.text == "'":
                quoted = not quoted
                if not quoted:
                    continue  # the second of a pair: said already
            found.append((i, _lexical(token, i)))
            if len(found) == most:
                break
    return found


def _lexical(token: Token, i: int) -> Diagnostic:
    text = token.text
    match token.kind:
        case k if k == BAD_CHARACTER:
            return _character(text, i)
        case k if k == BAD_STRING:
            return Diagnostic("E0003", "the string is not closed on its line", _at(i), mend='end it with `"`')
        case k if k == BAD_ESCAPE:
            return Diagnostic(
                "E0004", f"unknown escape `{text}` in a string", _at(i), notes=('the escapes are \\" \\\\ \\n \\t',)
            )
        case k if k == BAD_CONTROL:
            return Diagnostic("E0002", f"the string holds the control character U+{ord(text):04X}", _at(i))
        case k if k == BAD_UNIT:
            return _unit(text, i)
        case k if k == BAD_NAME:
            return Diagnostic("E0006", f"the name is longer than {MAX_NAME} characters", _at(i))
        case k if k == BAD_NUMBER:
            return Diagnostic("E0006", f"the number has more than {MAX_DIGITS:,} digits", _at(i))
        case k if k == BAD_LAMBDA:
            pattern = text[1:]
            return Diagnostic(
                "E0014",
                f"`{text}` is one name, so this is no lambda",
                _at(i),
                mend=f"put a blank behind `λ`: `λ {pattern}. …`" if is_start(pattern[0]) else None,
            )
        case _:
            assert token.kind == BAD_ENCODING
            return Diagnostic("E0011", f"the file is not UTF-8: the byte 0x{text} cannot stand here", _at(i))


def _character(text: str, i: int) -> Diagnostic:
    instead = _INSTEAD.get(text)
    if text in _BLANKS:
        shown = _BLANKS[text]
        notes: tuple[str, ...] = ("blanks are spaces and tabs",)
    elif text < " " or text == "\x7f":
        shown = f"the control character U+{ord(text):04X}"
        notes = ()
    else:
        shown = f"`{text}`" if text.isprintable() and not _is_mark(text) else f"the character U+{ord(text):04X}"
        notes = (_HINTS[text],) if text in _HINTS else ()
    return Diagnostic(
        "E0002", f"no token begins with {shown}", _at(i), notes=notes, mend=f"write `{instead}`" if instead else None
    )


def _is_mark(text: str) -> bool:
    """Combining marks cannot be shown alone; the lexer only leaves those that begin no name."""
    return not is_start(text) and "\u0300" <= text <= "\u036f"


def _unit(text: str, i: int) -> Diagnostic:
    number, unit = text.split(" ", 1)
    product = is_start(unit[0]) and unit[0] != "_"
    return Diagnostic(
        "E0005",
        f"unknown unit `{unit}` after the number `{number}`",
        _at(i),
        notes=("the units are ns us ms s, B kB MB GB TB KiB MiB GiB, and a size over s, sm or core",),
        mend=f"for a product write `{number}*{unit}`" if product else None,
    )


# --- brackets ---------------------------------------------------------------------------------------------------------


def brackets(tokens: Sequence[Token], limit: int, most: int) -> tuple[list[tuple[int, Diagnostic]], bool]:
    """Brackets without a partner (E0009; at most `most`), by token number, or the first nested too deeply (E0007, and true)."""
    found: list[tuple[int, Diagnostic]] = []
    open_: list[int] = []
    for i, token in enumerate(tokens):
        kind = token.kind
        if kind in _PAIRS:
            if len(open_) == limit:
                return [(i, too_deep(i, limit))], True
            open_.append(i)
        elif kind in (")", "]", "}"):
            match = next((d for d in range(len(open_) - 1, -1, -1) if _PAIRS[tokens[open_[d]].kind] == kind), None)
            if len(found) >= most:
                return found, False
            if not open_ or (match != len(open_) - 1 and _closes_next(tokens, open_[-1], i)):
                found.append((i, Diagnostic("E0009", f"`{kind}` closes nothing", _at(i), mend=f"remove the `{kind}`")))
            elif match is None:
                found.append(_mismatched(tokens, open_.pop(), i))
            else:
                if match < len(open_) - 1:
                    found.append(_unclosed(tokens, open_[match + 1 :], i))
                del open_[match:]
    if open_:
        found.append(_unclosed(tokens, open_, None))
    return found, False


def _closes_next(tokens: Sequence[Token], opening: int, i: int) -> bool:
    """Whether the next bracket behind token i closes the one that is open, so that the one at i is too much."""
    following = next((token.kind for token in tokens[i + 1 :] if token.kind in ("(", "[", "{", ")", "]", "}")), "")
    return following == _PAIRS[tokens[opening].kind]


def missing_brace(i: int) -> Diagnostic:
    """E0001: the `{` of a module or block is missing before token i."""
    return Diagnostic(
        "E0001", "expected `{`, found the end of the line", Label(Place(i, i - 1), "the line ends here"), mend="add `{`"
    )


def _mismatched(tokens: Sequence[Token], opening: int, closing: int) -> tuple[int, Diagnostic]:
    """A bracket that is closed by one of another kind."""
    wanted = _PAIRS[tokens[opening].kind]
    return closing, Diagnostic(
        "E0009",
        f"`{tokens[closing].kind}` does not close the `{tokens[opening].kind}`",
        _at(closing),
        (Label(Place(opening, opening), "opened here"),),
        mend=f"write `{wanted}`",
    )


def _unclosed(tokens: Sequence[Token], open_: Sequence[int], closer: int | None) -> tuple[int, Diagnostic]:
    """The innermost of some brackets that are not closed; the others are labels, and so is what closes too early."""
    inner = open_[-1]
    kind = tokens[inner].kind
    labels = [Label(Place(i, i), "nor is this one") for i in open_[:-1][-3:]]
    if closer is not None:
        labels.append(Label(Place(closer, closer), f"this closes a bracket before the `{kind}`"))
    owner = ""
    if kind == "{" and inner == len(tokens) - 1:
        owner = " of this block"
    return inner, Diagnostic(
        "E0009",
        f"the `{kind}`{owner} is not closed",
        Label(Place(inner, inner), "opened here"),
        labels=tuple(labels),
        mend=f"close it with `{_PAIRS[kind]}`",
    )


def too_deep(i: int, limit: int) -> Diagnostic:
    """E0007 at token i."""
    return Diagnostic(
        "E0007",
        f"nested more than {limit} levels deep",
        _at(i),
        notes=("a chain of operators, or of `let`s, nests as deep as it is long",),
        mend="make parts of it functions",
    )


# --- unexpected tokens ------------------------------------------------------------------------------------------------


class Failure:
    """Where and how the parser stopped: the token's number, and the kinds that could have stood there."""

    __slots__ = ("chunk", "expected", "index", "kinds", "stop", "tokens")

    def __init__(
        self, chunk: str, tokens: Sequence[Token], kinds: Sequence[str], index: int, stop: int, expected: frozenset[str]
    ) -> None:
        self.chunk = chunk
        self.tokens = tokens
        self.kinds = kinds
        self.index = index
        self.stop = stop  # one past the last token that was to be read
        self.expected = expected

    def kind(self, offset: int) -> str:
        """The kind of the token that many behind the offending one; `end` outside the chunk."""
        i = self.index + offset
        return self.kinds[i] if 0 <= i < self.stop else "end"

    def text(self, offset: int) -> str:
        """The text of that token; empty outside the chunk."""
        i = self.index + offset
        return self.tokens[i].text if 0 <= i < self.stop else ""


_OPERANDS: Final = frozenset((NAME, NAT, DECIMAL, QUANTITY, STRING, "stream", "(", "-", "ein", "λ", "let"))
_TYPES: Final = frozenset((NAME, "ℝ", "idx", "param", "params", "("))
_CHUNK_WORDS: Final = MappingProxyType({ITEM: "item", MEMBER: "member", HEADER: "block"})
_KIND_WORDS: Final = MappingProxyType(
    {
        NAME: "a name",
        NAT: "a number",
        DECIMAL: "a number",
        QUANTITY: "a quantity",
        STRING: "a string",
        NEWLINE: "a line break",
        "tcolon": "`:`",
        "field": "a field name",
        "checkpoint": "`checkpoint`",
        "every": "`every`",
        "to": "`to`",
        "model": "`model`",
        "stream": "a string",
    }
)


def _the_end(failure: Failure) -> str:
    return f"the end of the {_CHUNK_WORDS.get(failure.chunk, 'declaration')}"


def _expectation(failure: Failure) -> str:
    """The expected kinds in words."""
    left = set(failure.expected)
    words: list[str] = []
    # An expression or a type may begin with any of these; where one of them is expected all of them are.
    if {NAT, NAME, "("} <= left:
        words.append("an expression")
        if "..." in left:
            words.append("`...`")
        if "axis" in left:
            words.append("`axis`")
        left -= _OPERANDS | {"...", "axis"}
    elif {"ℝ", NAME, "("} <= left:
        words.append("a type")
        left -= _TYPES
    if {"+", "*"} <= left:
        words.append("an operator")
        left -= _BINARY | {"(", "[", "{", "."}
    elif {"[", "{", "."} <= left:
        left -= {"[", "{", "."}
    if "import" in left:
        words.append("a declaration")
        left = set()
    if "end" in left:
        left.discard("end")
        words.append(_the_end(failure))
    if ":" in left:
        left.discard("tcolon")
    rest = sorted({_KIND_WORDS.get(kind, f"`{kind}`") for kind in left}, key=lambda w: (w[0] == "`", w))
    words.extend(rest)
    return alternatives(words)


def alternatives(words: Sequence[str]) -> str:
    """`a, b or c`."""
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _finding(failure: Failure) -> str:
    """The offending token in words."""
    kind, text = failure.kind(0), failure.text(0)
    if failure.index >= failure.stop:
        return _the_end(failure)
    if kind == NEWLINE:
        return "the end of the line"
    if kind in RESERVED and kind not in ("ℝ", "λ"):
        return f"the reserved word `{text}`"
    if kind in (NAT, DECIMAL, QUANTITY):
        return f"the number `{text}`"
    if kind == STRING:
        return "a string"
    if kind in _KIND_WORDS and kind != "tcolon":
        return f"the name `{text}`"
    return f"`{text}`"


# Words of other languages at the beginning of what cannot be parsed, and what is said of them.
_HABITS: Final = MappingProxyType(
    {
        "return": "the value of a function is its body; there is no `return`",
        "def": "a function is declared with `fn`",
        "func": "a function is declared with `fn`",
        "function": "a function is declared with `fn`",
        "if": "there is no `if`; write `relu`, `max`, `min` or a mask",
        "for": "there is no loop; `stack{N}(M)` repeats a module",
        "while": "there is no loop; `stack{N}(M)` repeats a module",
        "var": "a name is bound with `let`, or declared with `const`",
        "val": "a name is bound with `let`, or declared with `const`",
        "class": "a module is declared with `module`",
        "lambda": "a lambda is written `λ x. e` or `\\x. e`",
        "where": "a dimension's bound is declared with `dim N <= …`",
    }
)
# How a declaration, a member or an item is written, by its first word.
_FORMS: Final = MappingProxyType(
    {
        "import": 'an import is written `import "file.psk" as name`',
        "static": "an assertion is written `static assert a == b`",
        "dim": "a dimension is written `dim T` or `dim T <= bound`",
        "effect": "an effect is written `effect Name`",
        "use": "a sub-module is written `use name : Module{dimensions}`",
        "param": "a parameter is written `param name : type` or `param name : type init = initializer`",
        "checkpoint": 'a checkpoint is written `checkpoint every N steps to "path"`',
    }
)
# Items that begin a chunk of another kind than their own.
_WRONG_PLACE: Final = MappingProxyType(
    {
        "param": "`param` stands in a module",
        "use": "`use` stands in a module",
        **{
            word: f"`{word}` stands outside modules and blocks"
            for word in (
                "import", "const", "static", "dim", "type", "effect", "module", "optimizer", "training", "inference"
            )
        },
        "fn": "`fn` stands outside blocks",
        "let": "`let` stands in the body of a function",
    }
)  # fmt: skip
_PAIR_HABITS: Final = MappingProxyType(
    {
        ("*", "*"): "a power is written `x^2`",
        ("/", "/"): "a comment begins with `--`",
        ("/", "*"): "a comment begins with `--`; there are no block comments",
        ("{", "-"): "a comment begins with `--`; there are no block comments",
        ("=", ">"): "a lambda is written `λ x. e`",
        (":", "="): "a value is given with `=`",
        ("tcolon", "="): "a value is given with `=`",
        ("|", "|"): "there is no `||`",
        ("=", "="): "",
        ("<", "-"): "a value is given with `=`",
        ("<", ">"): "there is no `<>`",
        (".", NAT): "a decimal begins with a digit: `0.5`",
    }
)


def unexpected(failure: Failure) -> Diagnostic:
    """What is said of a token that cannot stand where it stands (E0001, E0008, E0010, E0012, E0013, E0014)."""
    special = _special(failure)
    if special is not None:
        return special
    index = failure.index
    where = Label(Place(index, index if index < failure.stop else index - 1), "not expected here")
    if failure.kind(0) == NEWLINE:
        where = Label(Place(index, index - 1), "the line ends here")
    notes = [n for n in (_pair_habit(failure), _habit(failure)) if n]
    expectation = _expectation(failure)
    message = (
        f"expected {expectation}, found {_finding(failure)}"
        if expectation
        else f"{_finding(failure)} cannot stand here"
    )
    return Diagnostic("E0001", message, where, notes=tuple(notes))


def _pair_habit(failure: Failure) -> str:
    return _PAIR_HABITS.get((failure.kind(-1), failure.kind(0)), "") or _PAIR_HABITS.get(
        (failure.kind(0), failure.kind(1)), ""
    )


def _habit(failure: Failure) -> str:
    if failure.index == 0 and failure.kind(0) in _WRONG_PLACE and failure.kind(0) not in failure.expected:
        return _WRONG_PLACE[failure.kind(0)]
    for offset in (0, -1):
        if failure.kind(offset) == NAME and failure.text(offset) in _HABITS:
            return _HABITS[failure.text(offset)]
    if failure.kind(0) == NAME and failure.kind(-1) == NAME and "(" in failure.expected:
        # Where a colon could follow the name, it is an axis's or an argument's.
        return "" if ":" in failure.expected else "a function is called with parentheses: `f(x)`"
    if failure.kind(0) == "{" and "=" in failure.expected and failure.tokens[0].kind == "fn":
        return "the body of a function stands behind `=`, without braces"
    if failure.kind(0) in (":", "tcolon") and failure.index >= 2 and failure.kind(-2) == "let":
        return "the type of a binding is an ascription of its value: `let x = (e : T)`"
    if failure.kind(0) == "->" and "." in failure.expected:
        return "a lambda is written `λ x. e`"
    if failure.kind(0) == NEWLINE and failure.kind(-1) == "=":
        return "a value begins on the line of its `=`; only the body of a function may begin on the next"
    if failure.kind(0) == NEWLINE and "=" in failure.expected:
        return "`=` stands on the line of what it defines"
    if "+" not in failure.expected and failure.index:
        first = failure.tokens[0]
        return _FORMS.get(first.text if first.kind == NAME else first.kind, "")
    if failure.chunk == ITEM and failure.kinds[0] == "checkpoint":
        return _FORMS["checkpoint"]
    return ""


def _special(failure: Failure) -> Diagnostic | None:
    index, expected = failure.index, failure.expected
    kind, before = failure.kind(0), failure.kind(-1)
    ends = kind in (NEWLINE, "end")
    if ends and before in _BINARY and NAT in expected:
        if before in ("-", "^"):
            mend = "write the expression on one line, or in parentheses"
        else:
            mend = f"begin the next line with `{before}`"
        return Diagnostic("E0008", f"the line ends with the operator `{before}`", _at(index - 1), mend=mend)
    if failure.chunk == ITEM and index == 0 and "field" in expected and (kind == NAME or kind in RESERVED):
        following = f"`{failure.text(1)}`" if failure.stop > 1 and failure.text(1) else _the_end(failure)
        return Diagnostic(
            "E0001",
            f"expected `=` or `:` behind the field name `{failure.text(0)}`, found {following}",
            Label(Place(1, 1 if failure.stop > 1 else 0), "not expected here"),
        )
    if kind == "." and before == "λ":
        return Diagnostic("E0014", "the lambda has no pattern", _at(index - 1, index), mend="write `λ x. …`")
    if NEWLINE in expected and kind != NEWLINE:
        return _let_without_body(failure)
    if kind == NEWLINE and ("end" in expected or "+" in expected) and failure.kind(1) != "end":
        return _stray_line(failure)
    if "end" in expected and _begins_item(failure):
        found = failure.text(0)
        return Diagnostic(
            "E0012",
            f"a line break is missing before `{found}`",
            _at(index),
            mend=f"begin a new line with `{found}`",
        )
    if kind in RESERVED and NAME in expected and not (kind in ("ℝ", "λ") and NAT in expected):
        word = failure.text(0)
        if NAT in expected and word in _ITEM_WORDS:
            return None  # a missing expression before the next item, not a name
        return Diagnostic(
            "E0010",
            f"`{word}` is a reserved word and cannot be a name",
            _at(index),
            mend="take another name" if kind in ("ℝ", "λ") else f"take another name, say `{word}_`",
        )
    return None


def _begins_item(failure: Failure) -> bool:
    """Whether the offending token could begin a declaration, a member or an item."""
    kind = failure.kind(0)
    if failure.chunk == ITEM:
        return (kind == NAME or kind in RESERVED) and failure.kind(1) in ("=", ":", "tcolon")
    if kind == NAME and failure.text(0) == "model":
        return failure.kind(1) == NAME and failure.kind(2) == "="
    if kind == "let":
        return True
    return kind in _ITEM_WORDS or kind == "param"


def _let_without_body(failure: Failure) -> Diagnostic:
    index = failure.index
    binding = next((i for i in range(index - 1, -1, -1) if failure.kinds[i] == "let"), 0)
    labels = (Label(Place(binding, binding), "this `let`"),)
    if failure.kind(0) == NAME and failure.text(0) == "in":
        return Diagnostic(
            "E0013", "a `let` has no `in`", _at(index), labels, mend="remove `in` and begin the body on the next line"
        )
    if failure.kind(0) == "let":
        return Diagnostic(
            "E0012", "a line break is missing before `let`", _at(index), mend="begin a new line with `let`"
        )
    if failure.kind(0) in ("end", ")", "]", "}", ","):
        return missing_body(binding, index)
    note = _pair_habit(failure) or _habit(failure)
    return Diagnostic(
        "E0001",
        f"expected an operator or a line break, found {_finding(failure)}",
        Label(Place(index, index), "not expected here"),
        labels,
        notes=((note,) if note else ()) + ("the body of a `let` begins on the next line",),
    )


def missing_body(binding: int, index: int) -> Diagnostic:
    """E0013: the body of the `let` at token `binding` is missing before token `index`."""
    return Diagnostic(
        "E0013",
        "the `let` has no body",
        Label(Place(index, index - 1), "a line with the body is missing here"),
        (Label(Place(binding, binding), "this `let`"),),
        mend="write the body on the next line",
    )


def _stray_line(failure: Failure) -> Diagnostic:
    """A line behind a complete declaration: it neither continues the line before nor begins anything."""
    found = failure.text(1)
    place = Label(Place(failure.index + 1, failure.index + 1), "this line")
    if failure.kind(1) in ("-", "^"):
        return Diagnostic(
            "E0001",
            f"a line that begins with `{found}` does not continue the line before",
            place,
            notes=("`-x` is an expression by itself, and `^` is read with the unary operators",),
            mend="write the expression on one line, or in parentheses",
        )
    if "end" not in failure.expected:
        return Diagnostic("E0001", "this line does not continue the expression before it", place)
    what = _the_end(failure).removeprefix("the end of the ")
    notes = ("only a `let` is followed by a further line",) if failure.tokens[0].kind == "fn" else ()
    habit = _HABITS.get(found, "")
    return Diagnostic(
        "E0001", f"this line does not belong to the {what} before it", place, notes=notes + ((habit,) if habit else ())
    )


# --- lines ------------------------------------------------------------------------------------------------------------


def lines(kinds: Sequence[str]) -> list[tuple[int, int]]:
    """The lines of a chunk, from their first token up to, not including, the line break that ends them."""
    result: list[tuple[int, int]] = []
    start = depth = 0
    for i, kind in enumerate(kinds):
        if kind in _PAIRS:
            depth += 1
        elif kind in (")", "]", "}"):
            depth = max(0, depth - 1)
        elif kind == NEWLINE and depth == 0:
            result.append((start, i))
            start = i + 1
    result.append((start, len(kinds)))
    return result


def lines_of(spans: Sequence[tuple[int, int]], numbers: Iterable[int]) -> set[int]:
    """The lines that hold the tokens of these numbers."""
    result: set[int] = set()
    for number in numbers:
        result.add(next((k for k, (_, stop) in enumerate(spans) if number <= stop), len(spans) - 1))
    return result
