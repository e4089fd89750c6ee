"""Equations of functions of the core: one for each binding, under the name it prints by, with what it is for."""

from collections.abc import Mapping

from presk.core.equations.forms import (
    Applied,
    At,
    Denoted,
    Equal,
    Equation,
    Formula,
    FunctionEquations,
    Group,
    Member,
    Operation,
    Sum,
    Word,
)
from presk.core.equations.typed import shown_type
from presk.core.ir import (
    Apply,
    Call,
    Closure,
    Field,
    Fold,
    Function,
    Grad,
    Literal,
    MakeParams,
    MakeTuple,
    Prim,
    Program,
    Project,
)
from presk.core.ir import (
    Operation as CoreOperation,
)
from presk.core.spelling import function_text, pieces_text
from presk.core.text import Notes, OperationPrinter
from presk.core.typetext import TypePrinter
from presk.prims.attrs import AxisNames
from presk.prims.core_rows import CORE
from presk.prims.spelling import NamesPiece


def core_equations(program: Program, reasons: Notes | None = None) -> tuple[FunctionEquations, ...]:
    """The equations of every function; `reasons` say what a binding is for, by function and variable."""
    types = TypePrinter()
    functions = {function.name: function for function in program.functions}
    return tuple(_function(function, functions, types, reasons or {}) for function in program.functions)


def _function(
    function: Function, functions: Mapping[str, Function], types: TypePrinter, reasons: Notes
) -> FunctionEquations:
    writing = _Writing(function, functions, types)
    params = tuple(
        (writing.word(place), shown_type(types.type(param.type))) for place, param in enumerate(function.params)
    )
    equations: list[Equation] = []
    for binding in function.bindings:
        left, right = writing.binding(binding.var, binding.op)
        equations.append(Equal(left, right, reasons.get((function.name, binding.var), "")))
    value = Applied(Denoted(function.name), tuple(word for word, _ in params))
    equations.append(Equal(value, writing.word(function.returns)))
    return FunctionEquations(function.name, params, tuple(equations))


class _Writing:
    """The formulas of one function."""

    def __init__(self, function: Function, functions: Mapping[str, Function], types: TypePrinter) -> None:
        self.printer = OperationPrinter(function, functions, types)

    def word(self, var: int) -> Word:
        """A variable."""
        return Word(self.printer.var(var))

    def words(self, variables: tuple[int, ...]) -> tuple[Formula, ...]:
        """Variables."""
        return tuple(map(self.word, variables))

    def binding(self, var: int, op: CoreOperation) -> tuple[Formula, Formula]:
        """The two sides of a binding's equation."""
        left = self.word(var)
        if isinstance(op, Prim) and (names := _sum_names(op)) is not None:
            out, operands = names
            summed = tuple(dict.fromkeys(name for one in operands for name in one.names if name not in out.names))
            factors = tuple(
                At(word, one.names) if one.names else word for word, one in zip(self.words(op.args), operands)
            )
            return (At(left, out.names) if out.names else left), Sum(summed, factors)
        return left, self.operation(op)

    def operation(self, op: CoreOperation) -> Formula:
        """An operation."""
        match op:
            case Prim():
                return Operation(op.name, self.detail(op), self.words(op.args))
            case Literal(text):
                return Word(text)
            case Field(base, name):
                return Member(self.word(base), name)
            case Project(base, place):
                return Member(self.word(base), str(place))
            case MakeParams(items):
                return Applied(Word("params"), self.words(items))
            case MakeTuple(items):
                return Group(self.words(items))
            case Call(function, _, _, args):
                return Applied(Denoted(function), self.words(args))
            case Fold():
                return Operation("fold", self.printer.fold(op).removeprefix("fold "), ())
            case Closure(function, _, _, captured):
                return Operation("closure", f"{function_text(function)}[{self.printer.vars(captured)}]", ())
            case Grad(value):
                return Operation("grad", "", (self.word(value),))
            case Apply(value, args):
                return Applied(self.word(value), self.words(args))

    def detail(self, op: Prim) -> str:
        """The attributes of a primitive, as the text form writes them."""
        row = CORE.get(op.name)
        return (pieces_text(row.spelling.pieces, dict(op.attrs), self.printer.given(op.args)) if row else None) or ""


def _sum_names(op: Prim) -> tuple[AxisNames, tuple[AxisNames, ...]] | None:
    """The axis names of an `ein`: of its value and of its operands; None for another primitive."""
    row = CORE.get(op.name)
    attrs = dict(op.attrs)
    for piece in row.spelling.pieces if row is not None else ():
        if isinstance(piece, NamesPiece):
            out = attrs.get(piece.out)
            operands = tuple(attrs.get(f"{piece.operand}{place}") for place in range(len(op.args)))
            if isinstance(out, AxisNames) and all(isinstance(one, AxisNames) for one in operands):
                return out, tuple(one for one in operands if isinstance(one, AxisNames))
    return None
