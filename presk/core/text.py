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
from presk.core.spelling import (
    NUMBER,
    attr_text,
    completed,
    dim_text,
    function_text,
    name_text,
    piece_keys,
    piece_text,
    pieces_text,
    primitive_name,
    quoted,
    symbol_text,
)
from presk.core.typetext import TypePrinter
from presk.prims.attrs import AxisNames
from presk.prims.core_rows import CORE, CoreRow
from presk.prims.spelling import NamesPiece
from presk.types.type import Shape, Type

WIDTH: Final = 100
"""A header that is longer is broken."""

COLUMN: Final = 42
"""Comments begin here, or behind the longest line that has one."""

FARTHEST: Final = 84
"""They never begin farther out, but for a line that ends there."""

Notes = Mapping[tuple[str, int], str]
"""What a binding is for, by function and variable: its comment."""


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
