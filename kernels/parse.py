"""Reading the text form of kernel IR back: `parse(print_kernel(kernel)) == kernel`.

The text is read by lines, each from left to right with one position and no backtracking; the forms are those of
`presk.kernels.text`. Behind `--` a line is a comment. What the text says is not checked here (a variable may be used that is
nowhere defined): `presk.kernels.check` does that.
"""

import re
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeVar

from presk.kernels.ir import (
    Access,
    AnyOp,
    AnyStmt,
    Binary,
    BinaryOp,
    Bitcast,
    Buffer,
    Carry,
    Compare,
    CompareOp,
    Const,
    Convert,
    Elem,
    Fma,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Prefetch,
    Select,
    Shuffle,
    Splat,
    Store,
    Type,
    Unary,
    UnaryOp,
    bits_of,
)
from presk.kernels.text import FRACTIONS, WIDTHS

_BLANK: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGER: Final = re.compile(r"-?[0-9]{1,4000}")
_NATURAL: Final = re.compile(r"[0-9]{1,4000}")
_PATTERN: Final = re.compile(r"-?0x[0-9a-fA-F]{1,4000}")
_TYPE: Final = re.compile(r"(f64|f32|bf16|i64|i32|u8|i1)(?:x(-?[0-9]{1,9}))?")
_DECIMAL: Final = re.compile(r"-?(?:inf|[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?)")
_HEXADECIMAL: Final = re.compile(r"-?0x[0-9a-f]+(?:\.[0-9a-f]*)?p[-+]?[0-9]+")

T = TypeVar("T", bound=str)


class TextError(Exception):
    """A text that shows no kernel: the line and the column, counted from 1, and what is wrong there."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column
        self.message = message


class _Line:
    """A line and a position in it, never at a blank."""

    def __init__(self, text: str, number: int) -> None:
        self.text = text
        self.number = number
        self.at = 0
        self._blanks()

    def _blanks(self) -> None:
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """TextError for this place, or for another one."""
        raise TextError(self.number, (self.at if at is None else at) + 1, message)

    def ended(self) -> bool:
        """Whether nothing but a comment follows."""
        return self.at == len(self.text) or self.text.startswith("--", self.at)

    def end(self) -> None:
        """Nothing may follow."""
        if not self.ended():
            self.fail("the line goes on")

    def take(self, sign: str) -> bool:
        """A sign, if it follows."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        self._blanks()
        return True

    def need(self, sign: str) -> None:
        """A sign, which must follow."""
        if not self.take(sign):
            self.fail(f"`{sign}` is expected")

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """What the pattern finds here, which must be there."""
        match = pattern.match(self.text, self.at)
        if match is None:
            self.fail(f"{what} is expected")
        self.at = match.end()
        self._blanks()
        return match

    def word(self) -> str:
        """A word; nothing where none follows."""
        match = _WORD.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        self._blanks()
        return match[0]

    def keyword(self, word: str) -> bool:
        """A word, if it follows."""
        match = _WORD.match(self.text, self.at)
        if match is None or match[0] != word:
            return False
        self.word()
        return True

    def integer(self) -> int:
        """A whole number."""
        return int(self.match(_INTEGER, "a number")[0])

    def var(self) -> int:
        """A variable."""
        self.need("%")
        return self.integer()

    def vars(self) -> tuple[int, ...]:
        """Variables with commas between them."""
        found = [self.var()]
        while self.take(","):
            found.append(self.var())
        return tuple(found)

    def buffer(self) -> int:
        """A buffer's number."""
        self.need("b")
        return self.integer()

    def type(self) -> Type:
        """A type."""
        match = self.match(_TYPE, "a type")
        return Type(Elem(match[1]), 1 if match[2] is None else int(match[2]))


@dataclass(slots=True)
class _Body:
    """An open body: of a loop, whose accumulators stand in front (without what is next), or of the kernel."""

    loop: For | None = None
    statements: list[AnyStmt] = field(default_factory=list)
    following: tuple[int, ...] | None = None


def parse(text: str) -> Kernel:
    """The kernel that a text shows; TextError for one that shows none."""
    buffers: list[Buffer] = []
    bodies: list[_Body] = []
    kernel: Kernel | None = None
    number = 0
    for number, content in enumerate(text.split("\n"), 1):
        line = _Line(content, number)
        if line.ended():
            continue
        if kernel is not None:
            line.fail("nothing follows a kernel")
        if not bodies:
            if not line.keyword("kernel"):
                line.fail("`kernel` is expected")
            line.need("{")
            bodies.append(_Body())
        elif line.take("}"):
            done = bodies.pop()
            if bodies:
                bodies[-1].statements.append(_closed(done, line))
            else:
                kernel = Kernel(tuple(buffers), tuple(done.statements))
        elif bodies[-1].following is not None:
            line.fail("`}` is expected behind `next`")
        elif line.text.startswith("b", line.at):
            if len(bodies) > 1 or bodies[0].statements:
                line.fail("buffers stand in front of all statements")
            buffers.append(_buffer(line, len(buffers)))
        elif line.keyword("next"):
            if bodies[-1].loop is None:
                line.fail("`next` is no part of a loop", 0)
            bodies[-1].following = line.vars()
        else:
            statement = _statement(line)
            if isinstance(statement, For):
                bodies.append(_Body(statement))
            else:
                bodies[-1].statements.append(statement)
        line.end()
    if kernel is None:
        raise TextError(number, 1, "the text ends inside a kernel" if bodies else "there is no kernel")
    return kernel


def _closed(body: _Body, line: _Line) -> For:
    """A loop with its body and what is next."""
    loop = body.loop
    assert loop is not None
    following = body.following or ()
    if len(following) != len(loop.carried):
        line.fail(f"the loop carries {len(loop.carried)}, and `next` says {len(following)}", 0)
    carried = tuple(
        Carry(one.inside, one.init, then, one.after) for one, then in zip(loop.carried, following, strict=True)
    )
    return For(loop.var, loop.extent, tuple(body.statements), carried, loop.parallel, loop.split)


def _buffer(line: _Line, number: int) -> Buffer:
    """`b1 : in i32[64] < 92`."""
    start = line.at
    if line.buffer() != number:
        line.fail(f"b{number} is expected", start)
    line.need(":")
    access = _choice(line, Access, "`in`, `out` or `scratch`")
    type_ = line.type()
    line.need("[")
    size = line.integer()
    line.need("]")
    bound = line.integer() if line.take("<") else None
    in_place = line.buffer() if line.keyword("in_place") else None
    return Buffer(type_.elem, size, access, bound, in_place)


def _choice(line: _Line, choices: type[Access], what: str) -> Access:
    start = line.at
    word = line.word()
    if word not in list(choices):
        line.fail(f"{what} is expected", start)
    return choices(word)


# --- Statements -------------------------------------------------------------------------------------------------------------------


def _statement(line: _Line) -> AnyStmt:
    """A statement; of a loop the head."""
    start = line.at
    if line.text.startswith("%", line.at):
        found = line.vars()
        if len(found) == 1 and line.take(":"):
            type_ = line.type()
            line.need("=")
            return Let(found[0], type_, _operation(line, type_))
        line.need("=")
        if not line.keyword("for"):
            line.fail("`for` is expected")
        return _loop(line, found)
    word = line.word()
    if word == "for":
        return _loop(line, ())
    if word == "prefetch":
        return Prefetch(*_place(line))
    if word != "store":
        line.fail("a statement is expected", start)
    x = line.var()
    if not line.keyword("to"):
        line.fail("`to` is expected")
    buffer, index = _place(line)
    stride, count = _lanes(line)
    return Store(buffer, index, x, stride, count)


def _loop(line: _Line, after: tuple[int, ...]) -> For:
    """What stands behind `for`. The body, and what is next, come later."""
    var = line.var()
    line.need("<")
    extent = line.integer()
    parallel, split = line.keyword("parallel"), line.keyword("split")
    inside: list[tuple[int, int]] = []
    start = line.at
    if line.keyword("with"):
        while not inside or line.take(","):
            name = line.var()
            line.need("=")
            inside.append((name, line.var()))
    if len(inside) != len(after):
        line.fail(f"the loop carries {len(inside)}, and gives {len(after)}", start)
    line.need("{")
    carried = tuple(Carry(name, init, -1, then) for (name, init), then in zip(inside, after, strict=True))
    return For(var, extent, (), carried, parallel, split)


def _place(line: _Line) -> tuple[int, Index]:
    """`b0[4096 + 64*%3 - %7]`."""
    buffer = line.buffer()
    line.need("[")
    base = 0
    terms: list[tuple[int, int]] = []
    first = True
    while first or not line.take("]"):
        start = line.at
        sign = -1 if line.take("-") else 1
        if not first and sign == 1:
            line.need("+")
        if line.text.startswith("%", line.at):
            terms.append((line.var(), sign))
        else:
            factor = sign * int(line.match(_NATURAL, "a number or a variable")[0])
            if line.take("*"):
                terms.append((line.var(), factor))
            elif first:
                base = factor
            else:
                line.fail("a number alone stands in front", start)
        first = False
    return buffer, Index(base, tuple(terms))


def _lanes(line: _Line) -> tuple[int, int | None]:
    stride = line.integer() if line.keyword("stride") else 1
    count = line.integer() if line.keyword("count") else None
    return stride, count


# --- Operations -------------------------------------------------------------------------------------------------------------------


def _operation(line: _Line, type_: Type) -> AnyOp:
    """What stands behind the `=` of a definition."""
    start = line.at
    word = line.word()

    def operands(count: int) -> tuple[int, ...]:
        found = line.vars()
        if len(found) != count:
            line.fail(f"`{word}` has {count} operand{'s' if count > 1 else ''}", start)
        return found

    match word:
        case "const":
            return Const(_constant(line, type_.elem))
        case "fma":
            return Fma(*operands(3))
        case "select":
            return Select(*operands(3))
        case "convert":
            return Convert(*operands(1))
        case "bitcast":
            return Bitcast(*operands(1))
        case "splat":
            return Splat(*operands(1))
        case "shuffle":
            x, y = operands(2)
            line.need("[")
            pattern: list[int] = []
            while not line.take("]"):
                pattern.append(line.integer())
            return Shuffle(x, y, tuple(pattern))
        case "load":
            buffer, index = _place(line)
            stride, count = _lanes(line)
            return Load(buffer, index, stride, count)
    if word in list(UnaryOp):
        return Unary(UnaryOp(word), *operands(1))
    if word in list(BinaryOp):
        return Binary(BinaryOp(word), *operands(2))
    if word not in list(CompareOp):
        line.fail("an operation is expected", start)
    return Compare(CompareOp(word), *operands(2))


def _constant(line: _Line, elem: Elem) -> int:
    """The pattern of a constant of a type."""
    start = line.at
    for word in ("bits", "nan"):
        if line.keyword(word):
            line.need("(")
            bits = int(line.match(_PATTERN, "a pattern")[0], 16)
            line.need(")")
            if word == "nan" and not _is_nan(elem, bits):
                line.fail(f"no NaN of {elem}", start)
            return bits
    if elem is Elem.BOOL:
        word = line.word()
        if word not in ("false", "true"):
            line.fail("`false` or `true` is expected", start)
        return int(word == "true")
    if elem in FRACTIONS:
        return _float(line, elem)
    if elem not in WIDTHS:
        line.fail(f"a constant of {elem} is `bits(…)`")
    value = line.integer()
    half = 1 << WIDTHS[elem] - 1
    if not -half <= value < half:
        line.fail(f"no {elem}", start)
    return bits_of(elem, value)


def _is_nan(elem: Elem, bits: int) -> bool:
    if elem not in FRACTIONS or not 0 <= bits < 1 << WIDTHS[elem]:
        return False
    fraction = FRACTIONS[elem]
    largest = (1 << WIDTHS[elem] - 1) - (1 << fraction)
    return bits & (1 << WIDTHS[elem] - 1) - 1 > largest


def _float(line: _Line, elem: Elem) -> int:
    """The pattern of a decimal or hexadecimal number, rounded to binary64, and then to the type."""
    start = line.at
    if _HEXADECIMAL.match(line.text, line.at):
        digits, read = line.match(_HEXADECIMAL, "")[0], float.fromhex
    else:
        digits, read = line.match(_DECIMAL, "a number")[0], float
    try:
        value = read(digits)
        bits = bits_of(elem, value)
    except OverflowError:
        line.fail(f"too large for {elem}", start)
    if abs(value) == float("inf") and not digits.endswith("inf"):
        line.fail(f"too large for {elem}", start)
    return bits
