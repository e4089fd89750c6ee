"""The verifier: what must hold of every program in the core, checked after lowering, after differentiation and after every pass.

- Functions have different names; a variable is defined once, and before it is read; what is returned is defined.
- A call, a fold and a closure name a function of the program, give a value to each of its dimensions and to `...` if it has one
  (and to nothing else), and as many operands as it takes; the operands have its parameters' types.
- The type of every binding is the one its operation gives: for a primitive by its row's rule, for a field by the tree, for a call by
  the callee's signature. So are a primitive's attributes.
- The value of a function has the type it says; dimensions of its signature are its own; there is no unknown.

Types agree as they do in the language: lengths are equal as linear forms or by the facts, and an axis without a name agrees with
any. A type that a primitive derives must be the declared one, names included.

A finding is a value; `verified` raises `Broken` for the first ones, which is an error of the compiler and not of a program.
"""

from collections.abc import Mapping, Sequence

import msgspec

from presk.core.calls import is_open, param_types, result_type
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
    operands,
)
from presk.core.rigid import RigidTyper
from presk.core.stacks import stacked
from presk.elab.entities import ModuleHeader
from presk.elab.exprs import decimal_value
from presk.prims.core_rows import CORE
from presk.prims.core_rules import Use, field_type, refused
from presk.prims.surface import Refused
from presk.types.claim import Claim
from presk.types.decide import Decider
from presk.types.trees import ParamField
from presk.types.type import (
    SCALAR,
    Hyper,
    HyperKind,
    ModuleRef,
    ModuleType,
    Params,
    Real,
    Shape,
    Stack,
    Tuple,
    Type,
    TypeVar,
    type_dims,
)
from presk.types.type import Function as FunctionType

Headers = Mapping[ModuleRef, ModuleHeader]
Facts = Mapping[str, Sequence[Claim]]


class Finding(msgspec.Struct, frozen=True, array_like=True):
    """What does not hold: after which pass, in which function, at which variable (None: of the function as a whole)."""

    after: str
    function: str
    var: int | None
    text: str

    def __str__(self) -> str:
        where = self.function if self.var is None else f"{self.function}/%{self.var}"
        return f"after {self.after}: {where}: {self.text}"


class Broken(AssertionError):
    """A pass made a program that the verifier refuses."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings[:20])))
        self.findings = tuple(findings)


def verify(
    program: Program, headers: Headers, *, after: str, facts: Facts | None = None, differentiated: bool = False
) -> tuple[Finding, ...]:
    """What does not hold of a program that the pass `after` made; empty if all is well.

    `facts` are the bounds of a function's dimensions, by its name: a length may be equal to another by them only. In a
    `differentiated` program there is no `grad`.
    """
    functions = {function.name: function for function in program.functions}
    seen: set[str] = set()
    found: list[Finding] = []
    decider = Decider()
    for function in program.functions:
        if function.name in seen:
            found.append(Finding(after, function.name, None, "the name stands for two functions"))
        seen.add(function.name)
        known = () if facts is None else facts.get(function.name, ())
        found += verify_function(
            function, functions, headers, after=after, facts=known, differentiated=differentiated, decider=decider
        )
    return tuple(found)


def verify_function(
    function: Function,
    functions: Mapping[str, Function],
    headers: Headers,
    *,
    after: str,
    facts: Sequence[Claim] = (),
    differentiated: bool = False,
    decider: Decider | None = None,
) -> tuple[Finding, ...]:
    """What does not hold of one function; `functions` are those it may call, of which the signatures count."""
    typer = RigidTyper(headers, facts, decider if decider is not None else Decider())
    checking = _Checking(function, functions, typer, differentiated)
    return tuple(Finding(after, function.name, var, text) for var, text in checking.run())


def verified(
    program: Program, headers: Headers, *, after: str, facts: Facts | None = None, differentiated: bool = False
) -> Program:
    """The program itself; Broken if the verifier finds something."""
    found = verify(program, headers, after=after, facts=facts, differentiated=differentiated)
    if found:
        raise Broken(found)
    return program


class _Checking:
    """The checks of one function."""

    def __init__(
        self, function: Function, functions: Mapping[str, Function], typer: RigidTyper, differentiated: bool
    ) -> None:
        self.function = function
        self.functions = functions
        self.typer = typer
        self.differentiated = differentiated
        self.types: dict[int, Type] = {}
        self.found: list[tuple[int | None, str]] = []

    def run(self) -> list[tuple[int | None, str]]:
        """The findings, in order."""
        function = self.function
        self.signature()
        self.types = {place: param.type for place, param in enumerate(function.params)}
        for binding in function.bindings:
            self.binding(binding)
            self.types[binding.var] = binding.type
        returned = self.types.get(function.returns)
        if returned is None:
            self.found.append((None, f"%{function.returns} is returned and not defined"))
        else:
            self.agree(None, returned, function.result, "the result")
        return self.found

    def signature(self) -> None:
        """Dimensions once each, and every symbol of the signature among them."""
        function = self.function
        if len(set(function.dims)) != len(function.dims):
            self.found.append((None, "a dimension stands twice"))
        for type_ in (*(param.type for param in function.params), function.result):
            self.known(None, type_)
            strange = sorted({name for dim in type_dims(type_) for name in dim.symbols()} - set(function.dims))
            if strange:
                self.found.append((None, f"`{type_}` mentions {', '.join(strange)}, no dimension of the function"))

    def known(self, var: int | None, type_: Type) -> None:
        """No unknown and no module in a type."""
        if not _settled(type_):
            self.found.append((var, f"`{type_}` is no type of the core"))

    def binding(self, binding: Binding) -> None:
        """One binding."""
        var = binding.var
        if var < 0 or var in self.types:
            self.found.append((var, "is defined twice"))
        self.known(var, binding.type)
        missing = [one for one in operands(binding.op) if one not in self.types]
        if missing:
            self.found.append((var, f"reads {', '.join(f'%{one}' for one in missing)}, not defined before"))
            return
        try:
            self.operation(binding.op, binding.type)
        except Refused as problem:
            self.found.append((var, problem.message))

    def agree(self, var: int | None, found: Type, wanted: Type, what: str) -> None:
        """A finding unless the types agree."""
        try:
            self.typer.same_type(found, wanted, what)
        except Refused as problem:
            self.found.append((var, problem.message))

    # --- operations -----------------------------------------------------------------------------------------------------

    def operation(self, op: Operation, declared: Type) -> None:
        """Refused if the operation does not give the declared type."""
        match op:
            case Prim():
                self.primitive(op, declared)
            case Literal(text):
                _literal(text, declared)
            case Field(base, name):
                self.exactly(declared, field_type(self.typer, self.types[base], name))
            case MakeParams(items):
                self.tree(items, declared)
            case MakeTuple(items):
                self.exactly(declared, Tuple(tuple(self.types[item] for item in items)))
            case Project(base, place):
                self.exactly(declared, self.item(base, place))
            case Call(name, dims, prefix, args):
                callee = self.callee(name, dims, prefix)
                self.given(callee, dims, prefix, [self.types[arg] for arg in args])
                self.exactly(declared, result_type(callee, dims, prefix))
            case Fold():
                self.fold(op, declared)
            case Closure(name, dims, prefix, captured):
                self.closure(name, dims, prefix, captured, declared)
            case Grad(value):
                self.grad(self.types[value], declared)
            case Apply(value, args):
                self.apply(self.types[value], [self.types[arg] for arg in args], declared)

    def exactly(self, declared: Type, derived: Type) -> None:
        """Refused unless the declared type is the derived one, names included."""
        if declared == derived:
            return
        self.typer.same_type(derived, declared, "the declared type is not the one derived")
        if names(declared) != names(derived):
            raise refused(f"the declared type `{declared}` has not the names of the derived `{derived}`")

    def primitive(self, op: Prim, declared: Type) -> None:
        """By its row."""
        row = CORE.get(op.name)
        if row is None:
            raise refused(f"there is no primitive `{op.name}`")
        if not row.fewest <= len(op.args) <= row.most:
            raise refused(f"`{op.name}` does not take {len(op.args)} operands")
        attrs = dict(op.attrs)
        use = Use(op.name, tuple(self.types[arg] for arg in op.args), attrs, declared)
        typed = row.typing(use, self.typer)
        if typed.attrs != op.attrs:
            raise refused(f"the attributes of `{op.name}` are {op.attrs}, and its types want {typed.attrs}")
        self.exactly(declared, typed.type)

    def tree(self, items: Sequence[int], declared: Type) -> None:
        """A parameter tree from its fields."""
        if not isinstance(declared, Params):
            raise refused(f"`{declared}` is no parameter tree")
        wanted = self.typer.fields(declared.instance)
        if len(wanted) != len(items):
            raise refused(f"`{declared}` has {len(wanted)} fields, not {len(items)}")
        for item, field in zip(items, wanted):
            type_ = field.type if isinstance(field, ParamField) else Params(field.instance)
            self.typer.same_type(self.types[item], type_, f"the field `{field.name}`")

    def item(self, base: int, place: int) -> Type:
        """The type of an item of a tuple."""
        type_ = self.types[base]
        if not isinstance(type_, Tuple) or not 0 <= place < len(type_.items):
            raise refused(f"`{type_}` has no item {place}")
        return type_.items[place]

    # --- functions ------------------------------------------------------------------------------------------------------

    def callee(self, name: str, dims: Dims, prefix: Shape | None) -> Function:
        """The function of a call, whose dimensions and `...` all get their value."""
        callee = self.functions.get(name)
        if callee is None:
            raise refused(f"there is no function `{name}`")
        given = tuple(dim for dim, _ in dims)
        if given != callee.dims:
            missing = [dim for dim in callee.dims if dim not in given]
            what = f"no value for {', '.join(missing)}" if missing else f"values for {', '.join(given)}"
            raise refused(f"`{name}` has the dimensions {', '.join(callee.dims) or 'none'}, and there are {what}")
        if is_open(callee) is not (prefix is not None):
            raise refused(
                f"`{name}` has {'a' if prefix is None else 'no'} `...`, and there is {'no' if prefix is None else 'a'} value"
            )
        return callee

    def given(self, callee: Function, dims: Dims, prefix: Shape | None, given: Sequence[Type]) -> None:
        """Refused unless the operands are those that the callee takes."""
        wanted = param_types(callee, dims, prefix)
        if len(wanted) != len(given):
            raise refused(f"`{callee.name}` takes {len(wanted)} operands, not {len(given)}")
        for param, type_, expected in zip(callee.params, given, wanted):
            self.typer.same_type(type_, expected, f"`{param.name}` of `{callee.name}`")

    def fold(self, op: Fold, declared: Type) -> None:
        """A loop: its body on slices, accumulator, extras and perhaps the number of the iteration."""
        callee = self.callee(op.function, op.dims, op.prefix)
        wanted = param_types(callee, op.dims, op.prefix)
        types = [self.types[var] for var in (*op.stacked, op.acc, *op.extras)]
        if op.indexed:
            types.append(Hyper(HyperKind.NAT))
        if len(wanted) != len(types):
            raise refused(f"`{callee.name}` takes {len(wanted)} operands, not {len(types)}")
        for place, (param, type_, expected) in enumerate(zip(callee.params, types, wanted)):
            whole = stacked(expected, op.count) if place < len(op.stacked) else expected
            self.typer.same_type(type_, whole, f"`{param.name}` of `{callee.name}`")
        acc = self.types[op.acc]
        self.typer.same_type(result_type(callee, op.dims, op.prefix), acc, f"the next accumulator of `{callee.name}`")
        if not op.scan:
            self.typer.same_type(declared, acc, "the last accumulator")
        elif not (isinstance(declared, Tuple) and len(declared.items) == 2):
            raise refused(f"a fold that scans gives a pair, not `{declared}`")
        else:
            self.typer.same_type(declared.items[0], acc, "the last accumulator")
            self.typer.same_type(declared.items[1], stacked(acc, op.count), "the stack of accumulators")

    def closure(self, name: str, dims: Dims, prefix: Shape | None, captured: Sequence[int], declared: Type) -> None:
        """A function value."""
        callee = self.callee(name, dims, prefix)
        wanted = param_types(callee, dims, prefix)
        if len(captured) > len(wanted):
            raise refused(f"`{name}` takes {len(wanted)} operands, and {len(captured)} are captured")
        for param, var, expected in zip(callee.params, captured, wanted):
            self.typer.same_type(self.types[var], expected, f"`{param.name}` of `{name}`")
        whole = FunctionType(wanted[len(captured) :], result_type(callee, dims, prefix))
        self.typer.same_type(declared, whole, "the type of a closure")

    def grad(self, function: Type, declared: Type) -> None:
        """The gradient of a function value."""
        if self.differentiated:
            raise refused("a `grad` is left")
        if not isinstance(function, FunctionType) or len(function.params) != 1 or function.result != Real(SCALAR):
            raise refused(f"`{function}` has no gradient")
        self.exactly(declared, FunctionType(function.params, function.params[0]))

    def apply(self, function: Type, given: Sequence[Type], declared: Type) -> None:
        """The application of a function value."""
        if not isinstance(function, FunctionType) or len(function.params) != len(given):
            raise refused(f"`{function}` is not applied to {len(given)} operands")
        for type_, wanted in zip(given, function.params):
            self.typer.same_type(type_, wanted, "the argument of a function value")
        self.exactly(declared, function.result)


def names(type_: Type) -> tuple[str | None, ...]:
    """The axis names in a type, in order."""
    match type_:
        case Tuple(items):
            return tuple(name for item in items for name in names(item))
        case FunctionType(params, result):
            return tuple(name for item in (*params, result) for name in names(item))
        case Stack(_, item):
            return names(item)
        case _:
            shape = getattr(type_, "shape", SCALAR)
            assert isinstance(shape, Shape)
            return tuple(axis.name for axis in shape.axes)


def _settled(type_: Type) -> bool:
    match type_:
        case TypeVar() | ModuleType():
            return False
        case Tuple(items):
            return all(map(_settled, items))
        case FunctionType(params, result):
            return all(map(_settled, (*params, result)))
        case Stack(_, item):
            return _settled(item)
        case _:
            return not any(name.startswith("?") for dim in type_dims(type_) for name in dim.symbols())


def _literal(text: str, declared: Type) -> None:
    if not isinstance(declared, Hyper) or declared.kind is HyperKind.BOOL:
        raise refused(f"a number has not the type `{declared}`")
    value = decimal_value(text)
    if declared.kind in (HyperKind.NAT, HyperKind.INT) and value is not None and value.denominator != 1:
        raise refused(f"{text} is no `{declared}`")
