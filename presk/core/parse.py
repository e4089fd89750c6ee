"""Reading the text form of the core back: `parse(print_program(program)) == program`.

The text is read by lines: a header up to its `{`, one binding a line, `return`, `}`. All headers are read first, since what a call
leaves out is found from its callee's signature, then bodies, in each of which definitions are read before operations. A line is
read from left to right with one position and no backtracking; the forms are those of `presk.core.text`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeVar

from gmpy2 import mpq

from presk.core.calls import implied_prefix, iterated_types, same_dims
from presk.core.ir import (
    Apply,
    Binding,
    Call,
    Closure,
    Dims,
    Field,
    Fold,
    Function,
    Grad,
    Literal,
    MakeParams,
    MakeTuple,
    Operation,
    Param,
    Prim,
    Program,
    Project,
)
from presk.core.text import FUNCTION, NAME, NUMBER, axis_position, completed
from presk.prims.attrs import Align, Attr, Attrs, AxisName, AxisNames, Length, Place, Select, Word
from presk.prims.core_rows import CORE, CoreRow
from presk.prims.spelling import (
    AxisPiece,
    DimPiece,
    LengthPiece,
    NamePiece,
    NamesPiece,
    Piece,
    PlacePiece,
    SelectsPiece,
    SizesPiece,
    WordPiece,
)
from presk.types.dim import Dim, constant, symbol
from presk.types.type import (
    PREFIX,
    Axis,
    Composed,
    Hyper,
    HyperKind,
    Index,
    Instance,
    Key,
    Mask,
    ModuleRef,
    ModuleType,
    Named,
    Params,
    Real,
    Shape,
    Stack,
    Stacked,
    Tuple,
    Type,
)
from presk.types.type import Function as FunctionType

_BLANK: Final = re.compile(r"\s*")
_QUOTED: Final = re.compile(r"`([^`]*)`")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_INTEGER: Final = re.compile(r"[0-9]+")
_SIGNED: Final = re.compile(r"-?[0-9]+")
_SIZES: Final = re.compile(r"([0-9]+)x([0-9]+)")
_MARK: Final = re.compile(r"--\s*%([0-9]+)(?=:|\s*\Z)")
_KINDS: Final[Mapping[str, HyperKind]] = {kind.value: kind for kind in HyperKind}

T = TypeVar("T")


class TextError(Exception):
    """A text that is no core program: the line, counted from 1, and what is wrong with it."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class Scanner:
    """A line of text and a position in it."""

    def __init__(self, text: str, number: int) -> None:
        self.text = text
        self.number = number
        self.at = 0
        self.blanks()

    def fail(self, message: str) -> NoReturn:
        """TextError for this line."""
        raise TextError(self.number, f"{message} at {self.text[self.at : self.at + 20]!r}")

    def blanks(self) -> None:
        """Skips blanks."""
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def ended(self) -> bool:
        """Whether nothing but a comment follows."""
        return self.at == len(self.text) or self.text.startswith("--", self.at)

    def sees(self, word: str) -> bool:
        """Whether the word follows."""
        return self.text.startswith(word, self.at)

    def touches(self, word: str) -> bool:
        """Whether the word follows without a blank before it."""
        return self.sees(word) and self.at > 0 and not self.text[self.at - 1].isspace()

    def take(self, word: str) -> bool:
        """Skips the word if it follows."""
        if not self.sees(word):
            return False
        self.at += len(word)
        self.blanks()
        return True

    def need(self, word: str) -> None:
        """Skips the word, which must follow."""
        if not self.take(word):
            self.fail(f"`{word}` is expected")

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Skips and gives what matches."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        self.blanks()
        return found[0]

    def keyword(self, word: str) -> bool:
        """Skips a word that stands by itself."""
        found = NAME.match(self.text, self.at)
        return found is not None and found[0] == word and self.take(word)

    def name(self, pattern: re.Pattern[str] = NAME) -> str:
        """A name."""
        quoted = self.match(_QUOTED)
        if quoted is not None:
            return str(json.loads(f'"{quoted[1:-1]}"'))
        found = self.match(pattern)
        if found is None:
            self.fail("a name is expected")
        return found

    def function(self) -> str:
        """A function's name."""
        return self.name(FUNCTION)

    def symbol(self) -> str:
        """A dimension's symbol."""
        parts = [self.name()]
        while self.touches(".") and not self.sees(".."):
            self.take(".")
            parts.append(self.name())
        return ".".join(parts)

    def integer(self, pattern: re.Pattern[str] = _INTEGER) -> int:
        """An integer."""
        found = self.match(pattern)
        if found is None:
            self.fail("a number is expected")
        return int(found)

    def string(self) -> str:
        """A string in quotation marks."""
        found = self.match(_STRING)
        if found is None:
            self.fail("a string is expected")
        return str(json.loads(found))

    def word(self) -> str:
        """A name, a number or a string."""
        if self.sees('"'):
            return self.string()
        found = self.match(NUMBER)
        return found if found is not None else self.name()

    def list(self, item: Callable[[], T], end: str) -> list[T]:
        """Items between commas, up to `end`, which is skipped."""
        found: list[T] = []
        while not self.take(end):
            if found:
                self.need(",")
            found.append(item())
        return found

    # --- dimensions -----------------------------------------------------------------------------------------------------

    def dim(self) -> Dim:
        """A linear form."""
        total = -self.term() if self.take("-") else self.term()
        while not self.ended() and not self.sees("->"):
            if self.take("+"):
                total = total + self.term()
            elif self.take("-"):
                total = total - self.term()
            else:
                break
        return total

    def term(self) -> Dim:
        """A rational, a symbol, or one times the other."""
        found = self.match(_INTEGER)
        if found is None:
            value = symbol(self.symbol())
        elif self.take("*"):
            value = symbol(self.symbol()).scaled(mpq(found))
        else:
            value = constant(mpq(found))
        if self.take("/"):
            below = self.integer()
            if below == 0:
                self.fail("a division by zero stands before")
            value = value.scaled(mpq(1, below))
        return value


@dataclass(slots=True)
class _Modules:
    """The table of modules: what a name stands for, and the dimensions the module takes from its file."""

    refs: dict[str, ModuleRef] = field(default_factory=dict)
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, line: Scanner) -> None:
        """A line of the table."""
        name = line.name()
        ref = line.name() if line.take("=") else name
        line.need("in")
        self.refs[name] = ModuleRef(line.string(), ref)
        self.hidden[name] = ()
        if line.keyword("over"):
            found = [line.symbol()]
            while line.take(","):
                found.append(line.symbol())
            self.hidden[name] = tuple(found)


class _Types:
    """Reading types."""

    def __init__(self, line: Scanner, modules: _Modules) -> None:
        self.line = line
        self.modules = modules

    def type(self) -> Type:
        """A type."""
        line = self.line
        if line.take("("):
            items = tuple(line.list(self.type, ")"))
            return FunctionType(items, self.type()) if line.take("->") else Tuple(items)
        if line.take("ℝ["):
            return Real(self.shape("]"))
        if line.take("idx["):
            bound = line.dim()
            line.need("]")
            return Index(bound, self.shape("]") if line.touches("[") and line.take("[") else Shape())
        if line.take("bool["):
            return Mask(self.shape("]"))
        if line.take("stack{"):
            count = line.dim()
            line.need("}")
            line.need("(")
            item = self.type()
            line.need(")")
            return Stack(count, item)
        name = line.name()
        if name == "params":
            return Params(self.instance())
        if name == "module":
            return ModuleType(self.instance())
        if name == "key":
            return Key()
        if name not in _KINDS:
            line.fail(f"a type is expected behind `{name}`")
        return Hyper(_KINDS[name])

    def shape(self, end: str) -> Shape:
        """Axes up to `end`."""
        prefix = None
        line = self.line
        if line.take("..."):
            prefix = PREFIX
            if line.take(end):
                return Shape((), prefix)
            line.need(",")
        return Shape(tuple(line.list(self.axis, end)), prefix)

    def axis(self) -> Axis:
        """An axis."""
        line = self.line
        start = line.at
        if line.match(_INTEGER) is None and not line.sees("-"):
            name = line.name()
            if line.take(":"):
                return Axis(line.dim(), name)
        line.at = start
        return Axis(line.dim())

    def instance(self) -> Instance:
        """A module instance."""
        found = self.part()
        while self.line.take("∘"):
            found = Composed(found, self.part())
        return found

    def part(self) -> Instance:
        """A part of a composition."""
        line = self.line
        if line.take("("):
            inner = self.instance()
            line.need(")")
            return inner
        if line.take("stack{"):
            length = line.dim()
            line.need("}")
            line.need("(")
            inner = self.instance()
            line.need(")")
            return Stacked(length, inner)
        name = line.name()
        if name not in self.modules.refs:
            line.fail(f"the module `{name}` is not in the table")
        arguments: list[Dim] = []
        hidden: tuple[tuple[str, Dim], ...] = tuple((one, symbol(one)) for one in self.modules.hidden[name])
        if line.touches("{") and line.take("{"):
            while not line.sees("}") and not line.sees(";"):
                if arguments:
                    line.need(",")
                arguments.append(line.dim())
            if line.take(";"):
                hidden = tuple(line.list(self.value, "}"))
            else:
                line.need("}")
        return Named(self.modules.refs[name], tuple(arguments), hidden)

    def value(self) -> tuple[str, Dim]:
        """`D = 4*N`."""
        name = self.line.symbol()
        self.line.need("=")
        return name, self.line.dim()


class _Operations:
    """Reading the operations of one function."""

    def __init__(
        self, function: Function, functions: Mapping[str, Function], variables: Mapping[str, int], modules: _Modules
    ) -> None:
        self.types: dict[int, Type] = {place: param.type for place, param in enumerate(function.params)}
        for binding in function.bindings:
            self.types.setdefault(binding.var, binding.type)
        self.functions = functions
        self.variables = variables
        self.modules = modules
        self.line = Scanner("", 0)
        self.result: Type = Tuple(())

    def read(self, line: Scanner, result: Type) -> Operation:
        """The operation of a binding of the type."""
        self.line, self.result = line, result
        if line.take("("):
            return MakeTuple(tuple(line.list(self.var, ")")))
        if line.text[line.at : line.at + 1].isdecimal():
            return self.number()
        if line.sees("%") or self.reads_item():
            return self.item()
        if line.sees("`"):
            return self.primitive()
        for word, read in (
            ("call", self.call),
            ("fold", self.fold),
            ("closure", self.closure),
            ("params", self.params),
            ("number", self.number_text),
            ("grad", self.grad),
            ("apply", self.apply),
        ):
            if line.keyword(word):
                return read()
        return self.primitive()

    def reads_item(self) -> bool:
        """Whether a field or an item is read: a variable, and a dot behind it."""
        line = self.line
        start = line.at
        line.name()
        number = line.touches("%")
        dot = line.touches(".")
        line.at = start
        return number or dot

    def number(self) -> Operation:
        """A number."""
        found = self.line.match(NUMBER)
        if found is None:
            self.line.fail("a number is expected")
        return Literal(found)

    def number_text(self) -> Operation:
        """A number in another form."""
        return Literal(self.line.string())

    def item(self) -> Operation:
        """`θ.w`, `%3.0`."""
        base = self.var()
        self.line.need(".")
        place = self.line.match(_INTEGER)
        return Project(base, int(place)) if place is not None else Field(base, self.line.name())

    def params(self) -> Operation:
        """`params(w, b)`."""
        self.line.need("(")
        return MakeParams(tuple(self.line.list(self.var, ")")))

    def grad(self) -> Operation:
        """`grad f`."""
        return Grad(self.var())

    def apply(self) -> Operation:
        """`apply f(x)`."""
        function = self.var()
        self.line.need("(")
        return Apply(function, tuple(self.line.list(self.var, ")")))

    def var(self) -> int:
        """A variable."""
        line = self.line
        if line.take("%"):
            return line.integer()
        name = line.name()
        if line.touches("%") and line.take("%"):
            return line.integer()
        if name not in self.variables:
            line.fail(f"the variable `{name}` is not defined")
        return self.variables[name]

    def vars(self) -> tuple[int, ...]:
        """Variables up to the end of the line."""
        found: list[int] = []
        while not self.line.ended():
            if found:
                self.line.need(",")
            found.append(self.var())
        return tuple(found)

    def given(self, variables: Sequence[int]) -> list[Type | None]:
        """The types of variables."""
        return [self.types.get(var) for var in variables]

    # --- calls ----------------------------------------------------------------------------------------------------------

    def instantiation(self) -> tuple[Dims | None, Shape | str | None]:
        """The values in braces: of dimensions (None where they are left out) and of `...` ("implied" where it is left out)."""
        line = self.line
        if not (line.touches("{") and line.take("{")):
            return None, "implied"
        types = _Types(line, self.modules)
        dims: Dims | None = ()
        if line.keyword("same"):
            dims = None
        elif not line.sees(";") and not line.sees("}"):
            dims = self.more(types)
        if not line.take(";"):
            line.need("}")
            return dims, "implied"
        if line.keyword("no"):
            line.need("...")
            line.need("}")
            return dims, None
        line.need("...")
        line.need("=")
        return dims, types.shape("}")

    def more(self, types: _Types) -> Dims:
        """Values of dimensions."""
        found = [types.value()]
        while self.line.take(","):
            found.append(types.value())
        return tuple(found)

    def settled(
        self, function: str, dims: Dims | None, prefix: Shape | str | None, given: Sequence[Type | None], *, plain: bool
    ) -> tuple[Dims, Shape | None]:
        """The values with what was left out filled in."""
        callee = self.functions.get(function)
        if dims is None:
            dims = same_dims(callee.dims) if plain and callee is not None else ()
        if isinstance(prefix, str):
            if callee is None:
                self.line.fail(f"the function `{function}` is not in the program, and nothing says what its `...` is")
            prefix = implied_prefix(callee, given)
        return dims, prefix

    def call(self) -> Operation:
        """`call f{D = 4}(x)`."""
        function = self.line.function()
        dims, prefix = self.instantiation()
        self.line.need("(")
        args = tuple(self.line.list(self.var, ")"))
        return Call(function, *self.settled(function, dims, prefix, self.given(args), plain=False), args)

    def closure(self) -> Operation:
        """`closure f[x]`."""
        function = self.line.function()
        dims, prefix = self.instantiation()
        self.line.need("[")
        captured = tuple(self.line.list(self.var, "]"))
        return Closure(function, *self.settled(function, dims, prefix, self.given(captured), plain=True), captured)

    def fold(self) -> Operation:
        """`fold L f(stacked t; acc h; mask; scan)`."""
        line = self.line
        count = line.dim()
        function = line.function()
        dims, prefix = self.instantiation()
        line.need("(")
        if not line.keyword("stacked"):
            line.fail("`stacked` is expected")
        stacked = tuple(line.list(self.var, ";"))
        if not line.keyword("acc"):
            line.fail("`acc` is expected")
        acc = self.var()
        extras: list[int] = []
        flags: list[str] = []
        if not line.take(")"):
            line.need(";")
            while not line.sees(";") and not line.sees(")"):
                if extras:
                    line.need(",")
                extras.append(self.var())
            if not line.take(")"):
                line.need(";")
                flags = line.list(line.name, ")")
        on = {flag: flag in flags for flag in ("reverse", "scan", "indexed")}
        if sum(on.values()) != len(flags):
            line.fail("a fold is `reverse`, `scan` or `indexed`")
        op = Fold(count, function, (), None, stacked, acc, tuple(extras), on["reverse"], on["scan"], on["indexed"])
        types = self.given((*stacked, acc, *extras))
        known = [type_ for type_ in types if type_ is not None]
        given = iterated_types(op, known) if len(known) == len(types) else ()
        dims, prefix = self.settled(function, dims, prefix, given, plain=True)
        return Fold(
            count, function, dims, prefix, stacked, acc, tuple(extras), on["reverse"], on["scan"], on["indexed"]
        )

    # --- primitives -----------------------------------------------------------------------------------------------------

    def primitive(self) -> Operation:
        """A primitive."""
        line = self.line
        name = line.name()
        if line.touches("{") and line.take("{"):
            attrs = tuple(line.list(self.attribute, "}"))
            return Prim(name, self.vars(), attrs)
        row = CORE.get(name)
        if row is None:
            line.fail(f"there is no primitive `{name}`")
        return self.spelled(row)

    def spelled(self, row: CoreRow) -> Operation:
        """A primitive as its row writes it."""
        line = self.line
        found: list[tuple[str, Attr]] = []
        selects: SelectsPiece | None = None
        names: NamesPiece | None = None
        chosen: list[tuple[str | None, int | None, Dim, Dim | None]] = []
        for piece in row.spelling.pieces:
            if isinstance(piece, SelectsPiece):
                selects = piece
                chosen = [self.select()]
                while line.take(","):
                    chosen.append(self.select())
            elif isinstance(piece, NamesPiece):
                names = piece
                found.append((piece.out, self.names()))
            else:
                found += self.piece(piece)
        if names is not None:
            args, inner = self.named_vars()
            found += ((f"{names.operand}{place}", one) for place, one in enumerate(inner))
        else:
            args = self.vars()
        types = self.given(args)
        if selects is not None:
            type_ = types[selects.operand] if selects.operand < len(types) else None
            for place, (axis, position, lo, hi) in enumerate(chosen):
                at = position if position is not None else axis_position(type_, axis)
                if at is None:
                    line.fail(f"`{axis}` is no axis of the operand")
                found.append((f"s{place}", Select(axis, at, lo, hi)))
        attrs = completed(row, types, tuple(found), self.result)
        if attrs is None:
            line.fail(f"the attributes of `{row.name}` do not follow from its operands' types")
        return Prim(row.name, args, attrs)

    def piece(self, piece: Piece) -> Attrs:
        """The attributes that a piece writes."""
        line = self.line
        match piece:
            case AxisPiece(key):
                return ((key, AxisName(line.name() if line.keyword("axis") else None)),)
            case NamePiece(key):
                return ((key, AxisName(line.name())),)
            case DimPiece(key):
                return ((key, Length(line.dim())),)
            case LengthPiece(key, comma):
                if comma:
                    line.need(",")
                name = line.name()
                line.need(":")
                return ((key, Length(line.dim(), name)),)
            case SizesPiece((first, first_name), (second, second_name)):
                sizes = line.match(_SIZES)
                if sizes is None:
                    line.fail("two sizes are expected: `12x64`")
                one, _, two = sizes.partition("x")
                return (
                    (first, Length(constant(int(one)), first_name)),
                    (second, Length(constant(int(two)), second_name)),
                )
            case WordPiece(key, labelled):
                if labelled:
                    line.need(f"{key}=")
                return ((key, Word(line.word())),)
            case PlacePiece(key):
                return ((key, Place(line.integer())),)
            case SelectsPiece() | NamesPiece():
                raise AssertionError("read with the operands")

    def names(self) -> AxisNames:
        """`[batch, seq]`."""
        self.line.need("[")
        return AxisNames(tuple(self.line.list(self.line.name, "]")))

    def named_vars(self) -> tuple[tuple[int, ...], list[AxisNames]]:
        """Variables, each with axis names behind it."""
        args: list[int] = []
        names: list[AxisNames] = []
        while not self.line.ended():
            if args:
                self.line.need(",")
            args.append(self.var())
            names.append(self.names())
        return tuple(args), names

    def select(self) -> tuple[str | None, int | None, Dim, Dim | None]:
        """`seq: 0..T`, `@-1: 0`: axis, place if it is written, bounds."""
        line = self.line
        axis = None if line.sees("@") else line.name()
        position = line.integer(_SIGNED) if line.take("@") else None
        line.need(":")
        lo = line.dim()
        return axis, position, lo, line.dim() if line.take("..") else None

    def attribute(self) -> tuple[str, Attr]:
        """An attribute in full."""
        line = self.line
        key = line.name()
        line.need("=")
        if line.sees('"'):
            return key, Word(line.string())
        if line.sees("["):
            return key, self.names()
        if line.keyword("axis"):
            return key, AxisName(None if line.sees(",") or line.sees("}") else line.name())
        if line.keyword("lies"):
            return key, self.align()
        if line.keyword("place"):
            return key, Place(line.integer(_SIGNED))
        if line.keyword("at"):
            axis, position, lo, hi = self.select()
            if position is None:
                line.fail("a selector in full has its place: `seq@-1`")
            return key, Select(axis, position, lo, hi)
        axis_length = _Types(line, self.modules).axis()
        return key, Length(axis_length.length, axis_length.name)

    def align(self) -> Align:
        """`(..., -2, -1)`."""
        line = self.line
        line.need("(")
        prefix = line.take("...")
        if prefix and not line.sees(")"):
            line.need(",")
        return Align(prefix, tuple(line.list(lambda: line.integer(_SIGNED), ")")))


@dataclass(slots=True)
class _Draft:
    """A function whose header is read: its body's lines, of which only the definitions are."""

    function: Function
    variables: dict[str, int]
    lines: list[tuple[Scanner, Binding]]
    returns: Scanner


def parse(text: str) -> Program:
    """The program that a text shows; TextError for one that shows none."""
    modules = _Modules()
    drafts: list[_Draft] = []
    lines = enumerate(text.split("\n"), 1)
    for number, content in lines:
        line = Scanner(content, number)
        if line.ended():
            continue
        if line.keyword("module"):
            modules.read(line)
            if not line.ended():
                line.fail("the line goes on")
            continue
        if not line.keyword("fn"):
            line.fail("`fn` is expected")
        while not content.rstrip().endswith("{"):
            try:
                _, more = next(lines)
            except StopIteration:
                raise TextError(number, "the header of a function ends with `{`") from None
            content += f" {more}"
        header = Scanner(content, number)
        header.need("fn")
        drafts.append(_draft(header, lines, modules))
    functions = {draft.function.name: draft.function for draft in drafts}
    return Program(tuple(_finished(draft, functions, modules) for draft in drafts))


def _header(line: Scanner, modules: _Modules) -> tuple[Function, dict[str, int]]:
    """A function without its body, and its parameters by what they print as."""
    name = line.function()
    dims: list[str] = []
    if line.touches("{") and line.take("{"):
        while not line.take("}"):
            dims.append(line.symbol())
    line.need("(")
    params: list[Param] = []
    variables: dict[str, int] = {}

    def param() -> Param:
        found = line.name()
        variables.setdefault(found, len(params))
        if line.take("%"):
            line.integer()
        line.need(":")
        params.append(Param(found, _Types(line, modules).type()))
        return params[-1]

    line.list(param, ")")
    line.need("->")
    result = _Types(line, modules).type()
    line.need("{")
    return Function(name, tuple(dims), tuple(params), result, (), 0), variables


_PLACEHOLDER: Final = Literal("0")


def _draft(header: Scanner, lines: "enumerate[str]", modules: _Modules) -> _Draft:
    """A function up to its `}`, with the definitions of its body."""
    function, variables = _header(header, modules)
    found: list[tuple[Scanner, Binding]] = []
    returns: Scanner | None = None
    expected = len(function.params)
    for number, content in lines:
        line = Scanner(content, number)
        if line.ended():
            continue
        if line.take("}"):
            if returns is None:
                line.fail("`return` is expected before")
            bindings = tuple(binding for _, binding in found)
            draft = Function(function.name, function.dims, function.params, function.result, bindings, 0)
            return _Draft(draft, variables, found, returns)
        if line.keyword("return"):
            returns = line
            continue
        var, name = _definition(line, expected)
        if name is not None:
            variables.setdefault(name, var)
        expected = var + 1
        line.need(":")
        type_ = _Types(line, modules).type()
        line.need("=")
        found.append((line, Binding(var, name, type_, _PLACEHOLDER)))
    raise TextError(header.number, "the function does not end")


def _definition(line: Scanner, expected: int) -> tuple[int, str | None]:
    """The number and the name of a binding."""
    if line.take("%"):
        return line.integer(), None
    name = line.name()
    if line.touches("%") and line.take("%"):
        return line.integer(), name
    comment = line.text.find("--")
    mark = _MARK.match(line.text, comment) if comment >= 0 else None
    return (int(mark[1]) if mark is not None else expected), name


def _finished(draft: _Draft, functions: Mapping[str, Function], modules: _Modules) -> Function:
    """The function with its operations."""
    function = draft.function
    operations = _Operations(function, functions, draft.variables, modules)
    bindings = []
    for line, binding in draft.lines:
        op = operations.read(line, binding.type)
        if not line.ended():
            line.fail("the line goes on")
        bindings.append(Binding(binding.var, binding.name, binding.type, op))
    operations.line = draft.returns
    returns = operations.var()
    if not draft.returns.ended():
        draft.returns.fail("the line goes on")
    return Function(function.name, function.dims, function.params, function.result, tuple(bindings), returns)
