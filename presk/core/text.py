"""The text form of the core: what `presk dump` prints, and what `presk.core.parse` reads back.

    module Linear in "mlp.psk"
    fn Linear.apply{In Out}(θ : params Linear{In, Out}, x : ℝ[..., In]) -> ℝ[..., Out] {
      w : ℝ[In, Out] = θ.w
      %3 : ℝ[..., Out] = dot x, w
      b : ℝ[Out] = θ.b
      %5 : ℝ[..., Out] = add %3, b
      return %5
    }

`parse(print(p)) == p` for every program, damaged ones too. What a reader sees from the context is left out, and only that:

- A binding with a name prints by it, another one as `%` and its number. A name that stands in a function for the second time
  prints with the number: `x%7`. A named binding's number is the one behind the binding before it; where it is not (passes leave
  gaps), it stands in the comment: `b : ℝ[Out] = θ.b  -- %5`.
- The dimensions of a closure's and a fold's function, if each stands for itself.
- What `...` of a callee stands for, if the arguments say it.
- Attributes that the typing of a primitive implies: how operands lie in a broadcast, which place a named axis has.
- The dimensions a module takes from its file, if each stands for itself: the table of modules at the top has their names.

What does not fit its row in the table of primitives is written in full: `add{left = lies(-1), right = lies(..., -1)} x, y`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

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
    Prim,
    Program,
    Project,
)
from presk.core.rigid import RigidTyper
from presk.prims.attrs import Align, Attr, Attrs, AxisName, AxisNames, Length, Place, Select, Word
from presk.prims.core_rows import CORE, CoreRow
from presk.prims.core_rules import Use
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
from presk.prims.surface import Refused
from presk.types.dim import Dim, symbol
from presk.types.type import (
    Axis,
    Composed,
    Hyper,
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
    TypeVar,
)
from presk.types.type import Function as FunctionType

WIDTH: Final = 100
"""A header that is longer is broken."""

COLUMN: Final = 42
"""Comments begin here, or behind the longest line that has one."""

FARTHEST: Final = 84
"""They never begin farther out, but for a line that ends there."""

NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
NAME: Final = re.compile(r"""[^\s(){}\[\]<>,;:=.%"`+*/@|~!&^#?$∘ℝ\\-]+""")
"""A run of characters that may be a name; a name in quotation marks may have any."""
FUNCTION: Final = re.compile(r"""[^\s(){}\[\]<>,;=%"`+*/@|~!&^#?$∘ℝ\\-]+""")
"""A function's name: names, joined by dots, with the axes it was made for."""
KEYWORDS: Final = frozenset(
    "call fold closure grad apply params number axis stack module same no lies at place".split()
)
"""Words with a meaning where a name may stand: a name that is one of them stands in quotation marks."""

Notes = Mapping[tuple[str, int], str]
"""What a binding is for, by function and variable: its comment."""


def name_text(name: str, pattern: re.Pattern[str] = NAME) -> str:
    """A name, in quotation marks if it would be read as something else."""
    plain = pattern.fullmatch(name) is not None and not name[0].isdigit() and name not in KEYWORDS and "--" not in name
    return name if plain else f"`{quoted(name)[1:-1].replace('`', chr(92) + 'u0060')}`"


def quoted(text: str) -> str:
    """A string in quotation marks; `--` is not in it, since that begins a comment."""
    return json.dumps(text, ensure_ascii=False).replace("--", "-\\u002d")


def word_text(word: str) -> str:
    """A word: a name, a number, or anything in quotation marks."""
    if NUMBER.fullmatch(word) or (NAME.fullmatch(word) and word not in KEYWORDS and not word[0].isdigit()):
        return word
    return quoted(word)


def dim_text(dim: Dim) -> str:
    """A dimension: `4*D`, `T + 1`."""
    quoted = {name: symbol(symbol_text(name)) for name in dim.symbols()}
    # Quotation marks keep the order of symbols only where there are none; where there are, it does not matter to the reader.
    return str(dim.substitute({name: value for name, value in quoted.items() if value != symbol(name)}))


def symbol_text(name: str) -> str:
    """A symbol; an import's is `m.T`."""
    return ".".join(map(name_text, name.split(".")))


def align_text(align: Align) -> str:
    """An alignment in full."""
    return f"lies({', '.join([*(['...'] if align.prefix else []), *map(str, align.axes)])})"


def select_text(select: Select, at: str) -> str:
    """A selector of the axis that is written `at`."""
    return f"{at}: {dim_text(select.lo)}" + (f"..{dim_text(select.hi)}" if select.hi is not None else "")


def full_axis(select: Select) -> str:
    """An axis by its name and its place."""
    return f"{name_text(select.axis) if select.axis is not None else ''}@{select.position}"


def names_text(names: AxisNames) -> str:
    """Axis names in brackets."""
    return f"[{', '.join(map(name_text, names.names))}]"


def attr_text(attr: Attr) -> str:
    """An attribute in full."""
    match attr:
        case Align():
            return align_text(attr)
        case AxisName(name):
            return "axis" if name is None else f"axis {name_text(name)}"
        case AxisNames():
            return names_text(attr)
        case Length(dim, name):
            return dim_text(dim) if name is None else f"{name_text(name)}: {dim_text(dim)}"
        case Select():
            return f"at {select_text(attr, full_axis(attr))}"
        case Word(text):
            return quoted(text)
        case Place(value):
            return f"place {value}"


def piece_text(piece: Piece, attrs: Mapping[str, Attr], types: Sequence[Type | None]) -> str | None:
    """What a piece writes of attributes; None where they do not fit it."""
    match piece:
        case AxisPiece(key):
            match attrs.get(key):
                case AxisName(name):
                    return "" if name is None else f"axis {name_text(name)}"
        case NamePiece(key):
            match attrs.get(key):
                case AxisName(str() as name):
                    return name_text(name)
        case DimPiece(key):
            match attrs.get(key):
                case Length(dim, None):
                    return dim_text(dim)
        case LengthPiece(key):
            match attrs.get(key):
                case Length(dim, str() as name):
                    return f"{name_text(name)}: {dim_text(dim)}"
        case SizesPiece((first, first_name), (second, second_name)):
            match attrs.get(first), attrs.get(second):
                case Length(one, one_name), Length(two, two_name):
                    sizes = one.natural(), two.natural()
                    if (one_name, two_name) == (first_name, second_name) and None not in sizes:
                        return f"{one}x{two}"
        case WordPiece(key, labelled):
            match attrs.get(key):
                case Word(text):
                    return f"{key}={word_text(text)}" if labelled else word_text(text)
        case PlacePiece(key):
            match attrs.get(key):
                case Place(value) if value >= 0:
                    return str(value)
        case SelectsPiece(_, operand):
            found = []
            for attr in attrs.values():
                if not isinstance(attr, Select):
                    return None
                place = axis_position(types[operand] if operand < len(types) else None, attr.axis)
                plain = attr.axis is not None and place == attr.position
                found.append(select_text(attr, name_text(attr.axis or "") if plain else full_axis(attr)))
            return ", ".join(found) or None
        case NamesPiece(out):
            match attrs.get(out):
                case AxisNames() as names:
                    return names_text(names)
    return None


def pieces_text(pieces: Iterable[Piece], attrs: Mapping[str, Attr], types: Sequence[Type | None]) -> str | None:
    """What pieces write between a primitive's name and its operands; None where the attributes do not fit them."""
    found = ""
    for piece in pieces:
        text = piece_text(piece, attrs, types)
        if text is None:
            return None
        if isinstance(piece, NamesPiece) or not text:
            continue
        found += ("" if not found else ", " if isinstance(piece, LengthPiece) and piece.comma else " ") + text
    return found


def axis_position(type_: Type | None, name: str | None) -> int | None:
    """The place, from the last, of a tensor's axis of a name."""
    if isinstance(type_, Real | Index | Mask):
        for place, axis in enumerate(type_.shape.axes, -len(type_.shape.axes)):
            if axis.name == name:
                return place
    return None


def completed(row: CoreRow, types: Sequence[Type | None], written: Attrs, result: Type) -> Attrs | None:
    """The attributes of a use of which `written` are written; None where the types do not imply the others."""
    if not row.spelling.implied:
        return written
    known = [type_ for type_ in types if type_ is not None]
    if len(known) != len(types) or not row.fewest <= len(known) <= row.most:
        return None
    try:
        return row.typing(Use(row.name, tuple(known), dict(written), result), RigidTyper({})).attrs
    except Refused:
        return None


class ModuleTable:
    """The modules that a program mentions, each under a name of its own, with the names of the dimensions it takes from its
    file."""

    def __init__(self) -> None:
        self.names: dict[ModuleRef, str] = {}
        self.hidden: dict[ModuleRef, tuple[str, ...]] = {}

    def meet(self, instance: Named) -> None:
        """Adds a module."""
        ref = instance.module
        if ref in self.names:
            return
        name, count = ref.name, 1
        while name in self.names.values():
            count += 1
            name = f"{ref.name}_{count}"
        self.names[ref] = name
        self.hidden[ref] = tuple(one for one, _ in instance.hidden)

    def lines(self) -> list[str]:
        """The table at the top of a text."""
        found = []
        for ref, name in self.names.items():
            renamed = f" = {name_text(ref.name)}" if ref.name != name else ""
            hidden = f" over {', '.join(map(symbol_text, self.hidden[ref]))}" if self.hidden[ref] else ""
            file = quoted(ref.file)
            found.append(f"module {name_text(name)}{renamed} in {file}{hidden}")
        return found


class TypePrinter:
    """Types as text, with the modules they mention."""

    def __init__(self) -> None:
        self.modules = ModuleTable()

    def shape(self, shape: Shape) -> str:
        """The inside of the brackets."""
        front = ["..."] if shape.prefix is not None else []
        return ", ".join([*front, *map(self.axis, shape.axes)])

    def axis(self, axis: Axis) -> str:
        """An axis."""
        return dim_text(axis.length) if axis.name is None else f"{name_text(axis.name)}: {dim_text(axis.length)}"

    def instance(self, instance: Instance) -> str:
        """A module instance."""
        match instance:
            case Named(ref, arguments, hidden):
                self.modules.meet(instance)
                inner = ", ".join(map(dim_text, arguments))
                usual = tuple((name, symbol(name)) for name in self.modules.hidden[ref])
                if hidden != usual:
                    inner += f"; {', '.join(f'{symbol_text(name)} = {dim_text(value)}' for name, value in hidden)}"
                name = name_text(self.modules.names[ref])
                return f"{name}{{{inner}}}" if inner else name
            case Stacked(length, inner_one):
                return f"stack{{{dim_text(length)}}}({self.instance(inner_one)})"
            case Composed(outer, inner_one):
                front = self.instance(outer)
                back = self.instance(inner_one)
                return f"{front} ∘ ({back})" if isinstance(inner_one, Composed) else f"{front} ∘ {back}"

    def type(self, type_: Type) -> str:
        """A type."""
        match type_:
            case Real(shape):
                return f"ℝ[{self.shape(shape)}]"
            case Index(bound, shape):
                inner = f"[{self.shape(shape)}]" if shape != Shape() else ""
                return f"idx[{dim_text(bound)}]{inner}"
            case Mask(shape):
                return f"bool[{self.shape(shape)}]"
            case Hyper(kind):
                return kind.value
            case Key():
                return "key"
            case Tuple(items):
                return f"({', '.join(map(self.type, items))})"
            case Params(instance):
                return f"params {self.instance(instance)}"
            case ModuleType(instance):
                return f"module {self.instance(instance)}"
            case FunctionType(params, result):
                return f"({', '.join(map(self.type, params))}) -> {self.type(result)}"
            case Stack(count, item):
                return f"stack{{{dim_text(count)}}}({self.type(item)})"
            case TypeVar():
                raise ValueError("an unknown type in a core program")


def labels(function: Function) -> dict[int, str]:
    """How the variables of a function print where they are read: by name, or by number if they have none of their own."""
    found: dict[int, str] = {}
    names: set[str] = set()
    twice: set[int] = set()
    given = [(var, param.name) for var, param in enumerate(function.params)]
    for var, name in (*given, *((binding.var, binding.name) for binding in function.bindings)):
        if var in found:
            twice.add(var)
        found[var] = f"%{var}" if name is None else _numbered(name, var, names)
    return found | {var: f"%{var}" for var in twice}


def _numbered(name: str, var: int, names: set[str]) -> str:
    """A name, with the number if it stands for another variable already."""
    known = name in names
    names.add(name)
    return f"{name_text(name)}%{var}" if known else name_text(name)


def variable_types(function: Function) -> dict[int, Type]:
    """The types of variables; the first of a variable that is defined twice."""
    found: dict[int, Type] = {place: param.type for place, param in enumerate(function.params)}
    for binding in function.bindings:
        found.setdefault(binding.var, binding.type)
    return found


class OperationPrinter:
    """Operations of one function as text."""

    def __init__(self, function: Function, functions: Mapping[str, Function], types: TypePrinter) -> None:
        self.labels = labels(function)
        self.variables = variable_types(function)
        self.functions = functions
        self.types = types

    def var(self, var: int) -> str:
        """A variable where it is read."""
        return self.labels.get(var, f"%{var}")

    def vars(self, variables: Iterable[int]) -> str:
        """Variables where they are read."""
        return ", ".join(map(self.var, variables))

    def given(self, variables: Iterable[int]) -> list[Type | None]:
        """The types of variables."""
        return [self.variables.get(var) for var in variables]

    def operation(self, op: Operation, result: Type) -> str:
        """An operation."""
        match op:
            case Prim():
                return self.primitive(op, result)
            case Literal(text):
                return text if NUMBER.fullmatch(text) else f"number {quoted(text)}"
            case Field(base, name):
                return f"{self.var(base)}.{name_text(name)}"
            case MakeParams(items):
                return f"params({self.vars(items)})"
            case MakeTuple(items):
                return f"({self.vars(items)})"
            case Project(base, place):
                return f"{self.var(base)}.{place}"
            case Call(function, dims, prefix, args):
                values = self.instantiation(function, dims, prefix, self.given(args), plain=False)
                return f"call {function_text(function)}{values}({self.vars(args)})"
            case Fold():
                return self.fold(op)
            case Closure(function, dims, prefix, captured):
                values = self.instantiation(function, dims, prefix, self.given(captured), plain=True)
                return f"closure {function_text(function)}{values}[{self.vars(captured)}]"
            case Grad(value):
                return f"grad {self.var(value)}"
            case Apply(value, args):
                return f"apply {self.var(value)}({self.vars(args)})"

    def instantiation(
        self, name: str, dims: Dims, prefix: Shape | None, given: Sequence[Type | None], *, plain: bool
    ) -> str:
        """The values of a callee's dimensions and of its `...`; with `plain`, dimensions that stand for themselves are left out."""
        callee = self.functions.get(name)
        parts = ", ".join(f"{symbol_text(dim)} = {dim_text(value)}" for dim, value in dims)
        hidden = plain and callee is not None and dims == same_dims(callee.dims)
        if hidden:
            parts = ""
        if callee is None or prefix != implied_prefix(callee, given):
            stands = "no ..." if prefix is None else f"... = {self.types.shape(prefix)}".rstrip()
            # Empty dimensions that are not left out are told from ones that are.
            return f"{{{parts}; {stands}}}" if not hidden else f"{{same; {stands}}}"
        if hidden or not (parts or plain):
            return ""
        return f"{{{parts}}}"

    def fold(self, op: Fold) -> str:
        """A loop."""
        types = self.given((*op.stacked, op.acc, *op.extras))
        known = [type_ for type_ in types if type_ is not None]
        given = iterated_types(op, known) if len(known) == len(types) else ()
        values = self.instantiation(op.function, op.dims, op.prefix, given, plain=True)
        flags = [word for word, on in (("reverse", op.reverse), ("scan", op.scan), ("indexed", op.indexed)) if on]
        inside = f"stacked {self.vars(op.stacked)}".rstrip() + f"; acc {self.var(op.acc)}"
        if op.extras or flags:
            inside += f"; {self.vars(op.extras)}".rstrip()
        if flags:
            inside += f"; {', '.join(flags)}"
        return f"fold {dim_text(op.count)} {function_text(op.function)}{values}({inside})"

    def primitive(self, op: Prim, result: Type) -> str:
        """A primitive: as its row writes it, or with its attributes in full."""
        types = self.given(op.args)
        row = CORE.get(op.name)
        written = self.spelled(row, op, types, result) if row is not None else None
        if written is not None:
            return written
        attrs = ", ".join(f"{name_text(key)} = {attr_text(attr)}" for key, attr in op.attrs)
        return f"{primitive_name(op.name)}{{{attrs}}} {self.vars(op.args)}".rstrip()

    def spelled(self, row: CoreRow, op: Prim, types: Sequence[Type | None], result: Type) -> str | None:
        """The short form; None if it would not be read back."""
        attrs = dict(op.attrs)
        written = tuple((key, attr) for key, attr in op.attrs if key not in row.spelling.implied)
        if len(attrs) != len(op.attrs) or completed(row, types, written, result) != op.attrs:
            return None
        detail = pieces_text(row.spelling.pieces, dict(written), types)
        if detail is None:
            return None
        head = ""
        used: list[str] = []
        behind: list[str] = [""] * len(op.args)
        for piece in row.spelling.pieces:
            used += piece_keys(piece, len(written))
            if isinstance(piece, NamesPiece):
                head = piece_text(piece, dict(written), types) or ""
                keys = [f"{piece.operand}{place}" for place in range(len(op.args))]
                if any(not isinstance(attrs.get(key), AxisNames) for key in keys):
                    return None
                behind = [attr_text(attrs[key]) for key in keys]
                used += [piece.out, *keys]
        if used != [key for key, _ in written]:
            return None
        args = ", ".join(f"{self.var(var)}{names}" for var, names in zip(op.args, behind))
        return " ".join(filter(None, (f"{primitive_name(op.name)}{head}", detail, args)))


def piece_keys(piece: Piece, count: int) -> list[str]:
    """The attributes that a piece writes, in order; `count` are written in all."""
    match piece:
        case SizesPiece((first, _), (second, _)):
            return [first, second]
        case SelectsPiece():
            return [f"s{place}" for place in range(count)]
        case NamesPiece():
            return []
        case _:
            return [piece.key]


def primitive_name(name: str) -> str:
    """A primitive's name."""
    return name_text(name)


def function_text(name: str) -> str:
    """A function's name."""
    return name_text(name, FUNCTION)


def print_program(program: Program, notes: Notes | None = None, *, numbers: bool = False) -> str:
    """The text of a program. `notes` become comments; with `numbers`, every binding that has a name has its number in one."""
    types = TypePrinter()
    functions = {function.name: function for function in program.functions}
    texts = [print_function(function, functions, types, notes, numbers=numbers) for function in program.functions]
    return "".join(f"{line}\n" for line in types.modules.lines()) + "".join(texts)


def print_function(
    function: Function,
    functions: Mapping[str, Function],
    types: TypePrinter,
    notes: Notes | None = None,
    *,
    numbers: bool = False,
) -> str:
    """The text of one function among others; the modules it mentions are met by `types`."""
    printer = OperationPrinter(function, functions, types)
    lines = _header(function, types)
    body: list[tuple[str, str]] = []
    names: set[str] = {param.name for param in function.params}
    expected = len(function.params)
    for binding in function.bindings:
        label, mark = _definition(binding, names, expected, numbers)
        note = notes.get((function.name, binding.var), "") if notes is not None else ""
        if note.startswith("%"):
            note = f"of {note}"
        comment = ": ".join(filter(None, (mark, note)))
        body.append(
            (f"  {label} : {types.type(binding.type)} = {printer.operation(binding.op, binding.type)}", comment)
        )
        expected = binding.var + 1
    lines += commented(body)
    return "".join(f"{line}\n" for line in (*lines, f"  return {printer.var(function.returns)}", "}"))


def _definition(binding: Binding, names: set[str], expected: int, numbers: bool) -> tuple[str, str]:
    """How a binding prints where it is defined, and the mark in its comment that tells its number."""
    if binding.name is None:
        return f"%{binding.var}", ""
    label = _numbered(binding.name, binding.var, names)
    if label != name_text(binding.name):
        return label, ""
    return label, f"%{binding.var}" if numbers or binding.var != expected else ""


def commented(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Lines with their comments in one column."""
    longest = max((len(line) + 2 for line, comment in lines if comment), default=0)
    column = min(max(COLUMN, longest), FARTHEST)
    return [f"{line:<{column - 2}}  -- {comment}" if comment else line for line, comment in lines]


def _header(function: Function, types: TypePrinter) -> list[str]:
    """A function's head: in one line if that is not too long, else the result in the next, and parameters as they fit."""
    dims = f"{{{' '.join(map(symbol_text, function.dims))}}}" if function.dims else ""
    names: set[str] = set()
    params = [
        f"{_numbered(param.name, place, names)} : {types.type(param.type)}"
        for place, param in enumerate(function.params)
    ]
    start = f"fn {function_text(function.name)}{dims}("
    end = f"-> {types.type(function.result)} {{"
    whole = f"{start}{', '.join(params)}) {end}"
    if len(whole) <= WIDTH:
        return [whole]
    lines = [start]
    for place, param in enumerate(params):
        text = f"{param}," if place + 1 < len(params) else f"{param})"
        if place and len(lines[-1]) + 1 + len(text) > WIDTH:
            lines.append(f"    {text}")
        else:
            lines[-1] += f" {text}" if place else text
    if not params:
        lines[-1] += ")"
    if len(lines) > 1 and len(lines[-1]) + 1 + len(end) <= WIDTH:
        return [*lines[:-1], f"{lines[-1]} {end}"]
    return [*lines, f"    {end}"]
