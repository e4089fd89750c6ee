"""Reading the operations of a function, once its definitions are known."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from presk.core.calls import implied_prefix, iterated_types, same_dims
from presk.core.ir import (
    Apply,
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
    Project,
)
from presk.core.parse_types import Modules, Types
from presk.core.scan import INTEGER, SIGNED, Scanner
from presk.core.spelling import NUMBER, axis_position, completed
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
from presk.types.dim import Dim, constant
from presk.types.type import (
    Shape,
    Tuple,
    Type,
)

_SIZES: Final = re.compile(r"([0-9]+)x([0-9]+)")


class Operations:
    """Reading the operations of one function."""

    def __init__(
        self, function: Function, functions: Mapping[str, Function], variables: Mapping[str, int], modules: Modules
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
        place = self.line.match(INTEGER)
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
        types = Types(line, self.modules)
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

    def more(self, types: Types) -> Dims:
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
        position = line.integer(SIGNED) if line.take("@") else None
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
            return key, Place(line.integer(SIGNED))
        if line.keyword("at"):
            axis, position, lo, hi = self.select()
            if position is None:
                line.fail("a selector in full has its place: `seq@-1`")
            return key, Select(axis, position, lo, hi)
        axis_length = Types(line, self.modules).axis()
        return key, Length(axis_length.length, axis_length.name)

    def align(self) -> Align:
        """`(..., -2, -1)`."""
        line = self.line
        line.need("(")
        prefix = line.take("...")
        if prefix and not line.sees(")"):
            line.need(",")
        return Align(prefix, tuple(line.list(lambda: line.integer(SIGNED), ")")))
