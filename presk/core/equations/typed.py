"""Equations of typed functions: each `let` is one, and the value is the last.

An `ein` is its sum. Where it stands among elementwise operations, the whole equation is written at an index, which the axes of the
result name; elsewhere the `ein` is a tensor given by its elements. Constants and types stand as the program writes them, which the
function's tree knows. A name that is bound again is primed. A call through a stack is a recurrence before the equation that uses it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.core.equations.forms import (
    Abstraction,
    Applied,
    At,
    Denoted,
    Each,
    Equal,
    Equation,
    Formula,
    FunctionEquations,
    Group,
    Infix,
    Iterate,
    Member,
    Minus,
    Operation,
    Raised,
    Recurrence,
    Root,
    Selected,
    Sum,
    Where,
    Word,
)
from presk.core.spelling import dim_text, pieces_text
from presk.core.walk import expressions
from presk.elab.program import Program
from presk.prims.attrs import Align, Select
from presk.prims.core_rows import CORE
from presk.prims.core_rules import unary
from presk.syntax import tree
from presk.syntax.printer import print_type
from presk.types.type import Axis, Real, Shape, Type
from presk.typing import typed
from presk.typing.typed import BoundName, FunctionRef, Typed, TypedFunction

OPEN: Final = "…"
_LETTERS: Final = "yzuvabcdefghpqrst"
_NUMBERS: Final = "ℓmnijk"
_INDICES: Final = "ijklmnpqrst"


def program_equations(program: Program) -> tuple[FunctionEquations, ...]:
    """The equations of every function of a program without errors: imported files first, in each the order of declaration."""
    bodies: dict[tuple[str, str | None, str], TypedFunction] = {}
    for entry in program.functions:
        # The first entry of a function with axis parameters is its generic form.
        bodies.setdefault((entry.key.file, entry.key.module, entry.key.name), entry.typed.value)
    return tuple(
        function_equations(bodies[state.name, module, fn.name], fn)
        for state in program.states.values()
        for module, fn in _functions(state.loaded.parsed.file)
        if (state.name, module, fn.name) in bodies
    )


def _functions(file: tree.SourceFile) -> Iterable[tuple[str | None, tree.Fn]]:
    for chunk in file.declarations:
        match chunk.declaration:
            case tree.Fn() as fn:
                yield None, fn
            case tree.Module(name=name, members=members):
                yield from ((name, member.member) for member in members if isinstance(member.member, tree.Fn))
            case _:
                pass


def function_equations(function: TypedFunction, fn: tree.Fn) -> FunctionEquations:
    """The equations of one function whose body has no errors; `fn` is its tree."""
    return _Writing(function, fn).run()


def written_names(root: tree.Expr | None) -> Mapping[tree.At, str]:
    """Every name and path of a tree by its place."""
    found: dict[tree.At, str] = {}
    waiting: list[Any] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting += item
        elif isinstance(item, msgspec.Struct):
            match item:
                case tree.Name(at, name):
                    found[at] = name
                case tree.Field(at, tree.Name(_, base), name):
                    found[at] = f"{base}.{name}"
            waiting += [getattr(item, name) for name in item.__struct_fields__]
    return found


@dataclass(slots=True)
class _Lines:
    """Equations under construction: of the function, or of a body inside it."""

    equations: list[Equation] = field(default_factory=list)


class _Writing:
    """The equations of one function."""

    def __init__(self, function: TypedFunction, fn: tree.Fn) -> None:
        assert function.body is not None
        self.function = function
        self.body = function.body
        self.fn = fn
        self.member = function.theta is not None
        self.written = written_names(fn.body)
        self.words: dict[int, Word] = {0: Word("θ")} if self.member else {}
        self.bound: dict[str, int] = {}
        for node in expressions(self.body):
            own = self.own_path(node)
            if own is not None:
                self.bound[own.split(".")[0]] = 1
        self.taken = {*self.bound, *_binder_names(self.body), *function.signature.dims}
        self.lines = _Lines()
        # The indices that mean something where an element is written: those of sums around it.
        self.scope: frozenset[str] = frozenset()

    def run(self) -> FunctionEquations:
        """The equations."""
        signature = self.function.signature
        params: list[tuple[Word, str | None]] = []
        args: list[Formula] = []
        bound = {param.name: param for param in self.function.params}
        for param in self.fn.params:
            if param.axis:
                params.append((Word(param.name), None))
                args.append(Operation("axis", param.name, ()))
                continue
            if param.name not in bound:  # a module
                assert param.type is not None
                params.append((Word(param.name), shown_type(print_type(param.type))))
                args.append(Word(param.name))
                continue
            word = self.bind(bound[param.name])
            type_ = print_type(param.type) if param.type is not None else str(bound[param.name].type)
            params.append((word, shown_type(type_)))
            args.append(word)
        self.taken |= set(self.bound)
        value = self.lets(self.body)
        left = Applied(Denoted(signature.qualified), tuple(args))
        self.lines.equations.append(self.equation(left, value))
        return FunctionEquations(signature.qualified, tuple(params), tuple(self.lines.equations))

    # --- names ----------------------------------------------------------------------------------------------------------

    def bind(self, binder: BoundName, *, shadows: bool = False) -> Word:
        """A name for a variable: primed if the name is bound already, but for a lambda's parameter, which shadows."""
        count = self.bound.get(binder.name, 0)
        if binder.name == "_" or shadows:
            word = Word(binder.name)
        else:
            word = Word(binder.name, count)
        self.bound[binder.name] = max(count, 1) if shadows else count + 1
        self.words[binder.index] = word
        return word

    def fresh(self, letters: str) -> str:
        """A letter that means nothing else in the function."""
        for letter in letters:
            if letter not in self.taken:
                self.taken.add(letter)
                return letter
        count = 1
        while f"{letters[0]}{count}" in self.taken:
            count += 1
        self.taken.add(f"{letters[0]}{count}")
        return f"{letters[0]}{count}"

    def own_path(self, node: Typed) -> str | None:
        """The path of a parameter or sub-module of the function's own module: `w`, `l1.w`."""
        names: list[str] = []
        while isinstance(node, typed.ReadField):
            names.append(node.name)
            node = node.base
        own = self.member and isinstance(node, typed.Var) and node.index == 0 and bool(names)
        return ".".join(reversed(names)) if own else None

    # --- equations ------------------------------------------------------------------------------------------------------

    def lets(self, node: Typed) -> Typed:
        """Writes the equations of a run of `let`s; what is left is the value."""
        while isinstance(node, typed.LetIn):
            for binding in node.bindings:
                self.let(binding)
            node = node.body
        return node

    def let(self, binding: typed.Binding) -> None:
        """The equation of one `let`. The value is read before its name is bound."""
        indices = self.indices(binding.value)
        value = self.element(binding.value, indices) if indices is not None else self.whole(binding.value)
        words = tuple(self.bind(binder) for binder in binding.binders)
        left: Formula = Group(words) if binding.destructures else words[0]
        self.lines.equations.append(Equal(At(left, indices) if indices else left, value))

    def equation(self, left: Formula, node: Typed) -> Equal:
        """`left = node`, at an index if the node's elementwise part holds an `ein`."""
        indices = self.indices(node)
        if indices is None:
            return Equal(left, self.whole(node))
        value = self.element(node, indices)
        return Equal(At(left, indices) if indices else left, value)

    def inside(self, node: Typed) -> Formula:
        """A body inside an expression, with the equations of its `let`s."""
        outer, self.lines = self.lines, _Lines()
        bound = dict(self.bound)
        value = self.whole(self.lets(node))
        inner, self.lines = self.lines, outer
        self.bound = bound
        return Where(value, tuple(inner.equations)) if inner.equations else value

    # --- elements -------------------------------------------------------------------------------------------------------

    def indices(self, node: Typed) -> tuple[str, ...] | None:
        """The index at which an expression is written, if elementwise operations lead to an `ein` in it."""
        if not isinstance(node.type, Real) or node.type.shape.prefix is not None or not _holds_sum(node):
            return None
        return self.named(node.type.shape.axes)

    def named(self, axes: tuple[Axis, ...]) -> tuple[str, ...]:
        """An index for each axis: its name, or a letter."""
        used = {axis.name for axis in axes}
        letters = iter([letter for letter in _INDICES if letter not in used and letter not in self.taken])
        return tuple(axis.name if axis.name is not None else next(letters) for axis in axes)

    def element(self, node: Typed, indices: tuple[str, ...]) -> Formula:
        """An element of an expression."""
        match node:
            case typed.EinSum():
                return self.sum(node, indices)
            case typed.Retag(value=value):
                return self.element(value, indices)
            case typed.Arith(op=op, left=left, right=right, left_align=left_align, right_align=right_align):
                one = self.element(left, _aligned(left_align, indices))
                other = self.element(right, _aligned(right_align, indices))
                return Infix("·" if op == "*" else op, one, other)
            case typed.NegateReal(value=value):
                return Minus(self.element(value, indices))
            case typed.Power(base=base, exponent=exponent):
                return Raised(self.element(base, indices), self.whole(exponent))
            case typed.Prim(name=name, args=(value,)) if _is_elementwise(node):
                return _applied(name, "", (self.element(value, indices),))
            case _:
                found = self.whole(node)
                return At(found, indices) if indices else found

    def sum(self, node: typed.EinSum, indices: tuple[str, ...]) -> Formula:
        """An `ein` at an index."""
        renamed = dict(zip(node.output.names, indices))
        outer = self.scope
        self.scope = outer | set(indices)
        over: list[str] = []
        for name in dict.fromkeys(name for one in node.operand_names for name in one.names):
            if name not in renamed:
                index = name
                while index in self.scope:
                    index += "'"
                renamed[name] = index
                over.append(index)
                self.scope |= {index}
        factors = tuple(
            self.element(operand, tuple(renamed[name] for name in names.names))
            for operand, names in zip(node.operands, node.operand_names)
        )
        self.scope = outer
        return Sum(tuple(over), factors)

    # --- whole values ---------------------------------------------------------------------------------------------------

    def whole(self, node: Typed) -> Formula:
        """An expression."""
        match node:
            case typed.Var(index=index):
                return self.words[index]
            case typed.Literal(at=at, text=text):
                return Word(self.written.get(at, text))
            case typed.HyperOp(op=op, operands=(value,)):
                return Minus(self.whole(value))
            case typed.HyperOp(op="^", operands=(base, exponent)):
                return Raised(self.whole(base), self.whole(exponent))
            case typed.HyperOp(op=op, operands=operands):
                return Infix("·" if op == "*" else op, *(self.whole(item) for item in operands))
            case typed.Inject(value=value) | typed.Retag(value=value):
                return self.whole(value)
            case typed.Arith(op=op, left=left, right=right):
                scalar = _is_scalar(left.type) or _is_scalar(right.type)
                sign = op if op != "*" else "·" if scalar else "⊙"
                return Infix(sign, self.whole(left), self.whole(right))
            case typed.NegateReal(value=value):
                return Minus(self.whole(value))
            case typed.Power(base=base, exponent=exponent):
                return Raised(self.whole(base), self.whole(exponent))
            case typed.Prim():
                return self.primitive(node)
            case typed.EinSum(output=output):
                summed = self.sum(node, output.names)
                return Each(output.names, summed) if output.names else summed
            case typed.IndexInto(base=base, selectors=selectors):
                return Selected(self.whole(base), _selectors(selectors))
            case typed.ReadField(base=base, name=name):
                own = self.own_path(node)
                return Word(own) if own is not None else Member(self.whole(base), name)
            case typed.MakeTuple(items=items):
                return Group(tuple(map(self.whole, items)))
            case typed.LetIn():
                return self.inside(node)
            case typed.LambdaFn():
                return self.abstraction(node)
            case typed.GradOf(function=function):
                return Operation("grad", "", (self.whole(function),))
            case typed.ApplyValue(function=function, args=args):
                return Applied(self.whole(function), tuple(map(self.whole, args)))
            case typed.FunctionValue(function=function):
                return Denoted(_qualified(function))
            case typed.Call():
                return self.call(node)
            case typed.InitCall(instance=instance, key=key):
                return Applied(Denoted(f"{instance}.init"), (self.whole(key),))
            case typed.ModuleArg(at=at, instance=instance):
                return Word(self.written.get(at, str(instance)))
            case typed.Wrong() | typed.Hole():
                raise AssertionError(f"{type(node).__name__} in a body without errors")

    def primitive(self, node: typed.Prim) -> Formula:
        """A builtin, under its name and with its attributes as the core writes them."""
        operands = tuple(map(self.whole, node.args))
        row = CORE.get(node.name)
        detail = pieces_text(row.spelling.pieces, dict(node.attrs), [item.type for item in node.args]) if row else None
        return _applied(node.name, detail or "", operands)

    def abstraction(self, node: typed.LambdaFn) -> Formula:
        """A lambda."""
        bound = dict(self.bound)
        params = tuple(self.bind(binder, shadows=True) for binder in node.binders)
        body = self.inside(node.body)
        self.bound = bound
        return Abstraction(params, node.destructures, body)

    def call(self, node: typed.Call) -> Formula:
        """A call: of a sub-module's function by the path of the sub-module."""
        args = tuple(
            self.whole(item) for item in node.args if item is not None and not isinstance(item, typed.ModuleArg)
        )
        if node.theta is None:
            return self.target(node.target, None, args)
        own = self.own_path(node.theta)
        if isinstance(node.target, typed.Direct) and (own is not None or self.is_theta(node.theta)):
            function = node.target.function
            name = f"{own}.{function.name}" if own is not None else _qualified(function)
            return Applied(Denoted(name), (*_axis_words(function), *args))
        theta = Word(f"θ.{own}") if own is not None else self.whole(node.theta)
        return self.target(node.target, theta, args)

    def is_theta(self, node: Typed) -> bool:
        """Whether an expression is the tree of the function's own module."""
        return self.member and isinstance(node, typed.Var) and node.index == 0

    def target(self, target: typed.Target, theta: Formula | None, args: tuple[Formula, ...]) -> Formula:
        """A call of a target on a tree and arguments."""
        match target:
            case typed.Direct(function):
                front = () if theta is None else (theta,)
                return Applied(Denoted(_qualified(function)), (*_axis_words(function), *front, *args))
            case typed.Repeated(length, inner):
                assert theta is not None
                name, number = Word(self.fresh(_LETTERS)), self.fresh(_NUMBERS)
                outer, self.lines = self.lines, _Lines()
                layer = At(theta, (number,))
                step = self.target(inner, layer, (Iterate(name, number), *args[1:]))
                found, self.lines = self.lines, outer
                self.taken.discard(number)  # it means nothing outside
                inner_ones = tuple(one for one in found.equations if isinstance(one, Recurrence))
                self.lines.equations.append(
                    Recurrence(
                        Equal(Iterate(name, "0"), args[0]),
                        Equal(Iterate(name, f"{number}+1"), step),
                        inner_ones,
                        number,
                        dim_text(length),
                    )
                )
                return Iterate(name, dim_text(length))
            case typed.Chained(outer_target, inner, outer_extras, inner_extras):
                assert theta is not None
                extras = args[1:]
                middle = self.target(inner, Member(theta, "inner"), (args[0], *(extras[i] for i in inner_extras)))
                return self.target(outer_target, Member(theta, "outer"), (middle, *(extras[i] for i in outer_extras)))


def shown_type(text: str) -> str:
    """A type with its open prefix as one character."""
    return text.replace("...", OPEN)


def _qualified(function: FunctionRef) -> str:
    return f"{function.module.name}.{function.name}" if function.module is not None else function.name


def _axis_words(function: FunctionRef) -> tuple[Formula, ...]:
    return tuple(Operation("axis", name, ()) for name in function.axes)


_NOTATION: Final[Mapping[str, Callable[..., Formula]]] = MappingProxyType({"sqrt": Root})
"""The operations that mathematics has a sign for; the others keep their names."""


def _applied(name: str, detail: str, operands: tuple[Formula, ...]) -> Formula:
    sign = _NOTATION.get(name)
    return sign(*operands) if sign is not None else Operation(name, detail, operands)


def _is_scalar(type_: Type) -> bool:
    return isinstance(type_, Real) and type_.shape == Shape()


def _aligned(align: Align, indices: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(indices[place] for place in align.axes)


def _is_elementwise(node: typed.Prim) -> bool:
    row = CORE.get(node.name)
    return row is not None and row.typing is unary


def _holds_sum(node: Typed) -> bool:
    """Whether elementwise operations lead to an `ein`."""
    match node:
        case typed.EinSum():
            return True
        case typed.Arith(left=left, right=right):
            return _holds_sum(left) or _holds_sum(right)
        case typed.NegateReal(value=value) | typed.Retag(value=value) | typed.Power(base=value):
            return _holds_sum(value)
        case typed.Prim(args=(value,)) if _is_elementwise(node):
            return _holds_sum(value)
        case _:
            return False


def _selectors(selects: tuple[Select, ...]) -> tuple[tuple[str | None, str], ...]:
    """Selectors, each with its axis; an axis without a name is told by its order, or if that would mislead by its place."""
    plain = all(one.axis is None for one in selects) and [one.position for one in selects] == sorted(
        one.position for one in selects
    )
    found: list[tuple[str | None, str]] = []
    for one in selects:
        bounds = dim_text(one.lo) if one.hi is None else f"{dim_text(one.lo)}..{dim_text(one.hi)}"
        found.append((one.axis if one.axis is not None or plain else f"@{one.position}", bounds))
    return tuple(found)


def _binder_names(body: Typed) -> set[str]:
    """Every name that a body binds."""
    found: set[str] = set()
    for node in expressions(body):
        if isinstance(node, typed.LetIn):
            found |= {binder.name for binding in node.bindings for binder in binding.binders}
        elif isinstance(node, typed.LambdaFn):
            found |= {binder.name for binder in node.binders}
    return found
