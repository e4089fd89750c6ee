"""Lowering: a typed function becomes core functions, itself and the lambdas it holds.

    fn mse(net, θ, x, y) = …            fn mse{D B}(θ, x, y) -> ℝ[] {
      let ŷ = net.apply(θ, x)      ⟶      ŷ = call MLP.apply{D = D, hidden = 4*D}(θ, x)
      mean((ŷ - y)^2)                      %4 = sub ŷ, y  …

Functions stay generic in their dimensions; no shape is expanded. Modules disappear: θ is the first parameter of a member, a
parameter `w` is read as `θ.w`, `blocks.apply(h, m)` over `stack{L}(Block)` is a `fold`, `A ∘ B` two calls. Lambdas are lifted to
functions whose captured variables come first. In the inference reading `dropout(rate, key, x)` is x; in the training reading it is
x times `dropout_mask rate, key, x`.

What lowering needs to know of other functions (their core names, the defaults of their parameters) comes in a `Callees`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.core.calls import is_open
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
    Origin,
    Param,
    Prim,
    Project,
)
from presk.elab.entities import ModuleHeader
from presk.prims.attrs import Align, Attr, Attrs, AxisNames, Length, Select, Word
from presk.prims.core_rows import CORE
from presk.syntax.tree import At
from presk.types.dim import constant, symbol
from presk.types.trees import Init, UseField, fields
from presk.types.type import (
    PREFIX,
    Axis,
    Composed,
    Index,
    Instance,
    Key,
    Mask,
    ModuleRef,
    Named,
    Params,
    Real,
    Shape,
    Stacked,
    Tuple,
    Type,
    map_instance,
)
from presk.types.type import Function as FunctionType
from presk.typing import typed
from presk.typing.checker import generic_instance
from presk.typing.typed import FunctionRef, TypedFunction


class Mode(StrEnum):
    """The reading of an entry: `inference` takes every dropout at its expectation, `training` draws it."""

    INFERENCE = "inference"
    TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Callees:
    """What a function needs to know of those it calls."""

    name: Callable[[FunctionRef], str]
    init_name: Callable[[ModuleRef], str]
    defaults: Callable[[FunctionRef], tuple["typed.Typed | None", ...]]
    headers: Mapping[ModuleRef, ModuleHeader]
    initialized: Callable[[ModuleRef], bool]
    """Whether a module has an initializer; the others are initialized in place."""


class Sited(msgspec.Struct, frozen=True, array_like=True):
    """Where a binding comes from."""

    function: str
    var: int
    origin: Origin


class Lowered(msgspec.Struct, frozen=True, array_like=True):
    """The core functions of one declaration, itself first, and where their bindings come from."""

    functions: tuple[Function, ...]
    origins: tuple[Sited, ...]


_ARITH: Final = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
_HYPER: Final = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow",
    "==": "eq", "<=": "le", ">=": "ge", "<": "lt", ">": "gt",
}  # fmt: skip


@dataclass(slots=True)
class _Body:
    """A function body under construction."""

    name: str
    params: list[Param] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    variables: dict[int, int] = field(default_factory=dict)
    types: list[Type] = field(default_factory=list)
    fields: dict[tuple[int, str], int] = field(default_factory=dict)

    def param(self, name: str, type_: Type) -> int:
        self.params.append(Param(name, type_))
        self.types.append(type_)
        return len(self.types) - 1


@dataclass(slots=True)
class _Lowering:
    """Lowering of one declaration."""

    function: TypedFunction
    name: str
    callees: Callees
    mode: Mode
    finished: list[Function] = field(default_factory=list)
    origins: dict[tuple[str, int], Origin] = field(default_factory=dict)
    lambdas: int = 0
    helpers: int = 0

    # --- building -----------------------------------------------------------------------------------------------------

    def emit(self, body: _Body, type_: Type, op: Operation, at: At, name: str | None = None) -> int:
        """Adds a binding."""
        signature = self.function.signature
        return append(self.origins, signature.file, signature.chunk, body, type_, op, at, name)

    def close(self, body: _Body, dims: tuple[str, ...], returns: int, result: Type) -> None:
        """Finishes a function."""
        self.finished.append(finish(body, dims, returns, result))

    def rename(self, body: _Body, var: int, name: str, before: int) -> None:
        """Gives the binding `var` the name a `let` gives it, if the `let`'s value made it and it has none yet."""
        place = var - len(body.params)
        if var >= before and place >= 0 and body.bindings[place].name is None:
            old = body.bindings[place]
            body.bindings[place] = Binding(old.var, name, old.type, old.op)

    # --- the function -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        function = self.function
        assert function.body is not None and function.result is not None
        body = _Body(self.name)
        if function.theta is not None:
            body.variables[0] = body.param("θ", function.theta)
        for item in function.params:
            body.variables[item.index] = body.param(item.name, item.type)
        returns = self.expr(body, function.body)
        self.close(body, function.signature.dims, returns, function.result)

    # --- expressions --------------------------------------------------------------------------------------------------

    def expr(self, body: _Body, node: typed.Typed) -> int:
        """The variable that holds the value of an expression."""
        match node:
            case typed.Var(index=index):
                return body.variables[index]
            case typed.Literal(at, type_, text):
                return self.emit(body, type_, Literal(text), at)
            case typed.HyperOp(at, type_, op, operands):
                args = tuple(self.expr(body, item) for item in operands)
                name = "neg" if len(args) == 1 else _HYPER[op]
                return self.emit(body, type_, Prim(f"hyper_{name}", args), at)
            case typed.Inject(at, type_, value):
                return self.emit(body, type_, Prim("real", (self.expr(body, value),)), at)
            case typed.Arith(at, type_, op, left, right, left_align, right_align):
                args = (self.expr(body, left), self.expr(body, right))
                attrs = (("left", left_align), ("right", right_align))
                return self.emit(body, type_, Prim(_ARITH[op], args, attrs), at)
            case typed.NegateReal(at, type_, value):
                return self.emit(body, type_, Prim("neg", (self.expr(body, value),)), at)
            case typed.Power(at, type_, base, exponent):
                return self.power(body, node, base, exponent)
            case typed.Prim():
                return self.prim(body, node)
            case typed.EinSum(at, type_, output, operand_names, operands):
                args = tuple(self.expr(body, item) for item in operands)
                attrs_ein: tuple[tuple[str, AxisNames], ...] = (
                    ("out", output),
                    *((f"in{place}", names) for place, names in enumerate(operand_names)),
                )
                return self.emit(body, type_, Prim("ein", args, attrs_ein), at)
            case typed.IndexInto():
                return self.index(body, node)
            case typed.ReadField(at, type_, base, name):
                return self.read(body, self.expr(body, base), name, type_, at)
            case typed.MakeTuple(at, type_, items):
                return self.emit(body, type_, MakeTuple(tuple(self.expr(body, item) for item in items)), at)
            case typed.LetIn(bindings=bindings, body=inner):
                for binding in bindings:
                    self.let(body, binding)
                return self.expr(body, inner)
            case typed.LambdaFn():
                return self.lambda_(body, node)
            case typed.GradOf(at, type_, function):
                return self.emit(body, type_, Grad(self.expr(body, function)), at)
            case typed.ApplyValue(at, type_, function, args_typed):
                applied = self.expr(body, function)
                return self.emit(body, type_, Apply(applied, tuple(self.expr(body, item) for item in args_typed)), at)
            case typed.FunctionValue(at, type_, function_ref, dims, prefix):
                return self.emit(body, type_, Closure(self.callees.name(function_ref), dims, prefix, ()), at)
            case typed.Call():
                return self.call(body, node)
            case typed.InitCall(at, _, instance, key):
                return emit_init(self, body, instance, self.expr(body, key), at)
            case typed.Retag(at, type_, value):
                var = self.expr(body, value)
                return var if body.types[var] == type_ else self.emit(body, type_, Prim("retag", (var,)), at)
            case typed.ModuleArg() | typed.Wrong() | typed.Hole():
                raise AssertionError(f"{type(node).__name__} in a typed body")

    def let(self, body: _Body, binding: typed.Binding) -> None:
        before = len(body.types)
        value = self.expr(body, binding.value)
        if not binding.destructures:
            self.rename(body, value, binding.binders[0].name, before)
            body.variables[binding.binders[0].index] = value
            return
        for place, item in enumerate(binding.binders):
            body.variables[item.index] = self.emit(body, item.type, Project(value, place), binding.at, item.name)

    def read(self, body: _Body, base: int, name: str, type_: Type, at: At) -> int:
        """`base.name`, read once."""
        known = body.fields.get((base, name))
        if known is None:
            known = self.emit(body, type_, Field(base, name), at, name)
            body.fields[base, name] = known
        return known

    def power(self, body: _Body, node: typed.Power, base: typed.Typed, exponent: typed.Typed) -> int:
        value = self.expr(body, base)
        if isinstance(exponent, typed.Literal):
            attrs = (("n", Length(constant(int(exponent.text)))),)
            return self.emit(body, node.type, Prim("pow", (value,), attrs), node.at)
        return self.emit(body, node.type, Prim("powv", (value, self.expr(body, exponent))), node.at)

    def prim(self, body: _Body, node: typed.Prim) -> int:
        args = tuple(self.expr(body, item) for item in node.args)
        rewritten = _REWRITTEN.get(node.name)
        if rewritten is not None:
            return rewritten(self, body, node, args)
        return self.emit(body, node.type, Prim(node.name, args, node.attrs), node.at)

    def clamp(self, body: _Body, node: typed.Prim, args: tuple[int, ...]) -> int:
        """min(max(x, lo), hi): the inner maximum has the type of x joined with lo."""
        attrs = dict(node.attrs)
        inner = self.emit(
            body,
            _inner_type(body, args, attrs),
            Prim("max", args[:2], (("left", attrs["x"]), ("right", attrs["lo"]))),
            node.at,
        )
        outer = (("left", attrs["inner"]), ("right", attrs["hi"]))
        return self.emit(body, node.type, Prim("min", (inner, args[2]), outer), node.at)

    def matmul(self, body: _Body, node: typed.Prim, args: tuple[int, ...]) -> int:
        return self.emit(body, node.type, Prim("dot", args), node.at)

    def split_key(self, body: _Body, node: typed.Prim, args: tuple[int, ...]) -> int:
        return split(self, body, args[0], 2, node.at)

    def dropout(self, body: _Body, node: typed.Prim, args: tuple[int, ...]) -> int:
        if self.mode is Mode.INFERENCE:
            return args[2]
        assert isinstance(node.type, Real)
        mask = self.emit(body, node.type, Prim("dropout_mask", args), node.at)
        whole = Align(node.type.shape.prefix is not None, tuple(range(-len(node.type.shape.axes), 0)))
        return self.emit(body, node.type, Prim("mul", (args[2], mask), (("left", whole), ("right", whole))), node.at)

    def index(self, body: _Body, node: typed.IndexInto) -> int:
        """Slices first, since they keep their axes' places, then the selectors that drop theirs."""
        value = self.expr(body, node.base)
        slices = tuple(item for item in node.selectors if item.hi is not None)
        drops = tuple(item for item in node.selectors if item.hi is None)
        if slices:
            type_ = _sliced(body.types[value], slices) if drops else node.type
            value = self.emit(body, type_, Prim("slice", (value,), _numbered(slices)), node.at)
        if drops:
            value = self.emit(body, node.type, Prim("index", (value,), _numbered(drops)), node.at)
        return value

    # --- functions and modules ----------------------------------------------------------------------------------------

    def lambda_(self, body: _Body, node: typed.LambdaFn) -> int:
        """Closure conversion: the free variables, in order of their numbers, become the first parameters."""
        name = f"{self.name}.lambda{self.lambdas}"
        self.lambdas += 1
        captured = sorted(free_variables(node) & set(body.variables))
        inner = _Body(name)
        for index in captured:
            outer_var = body.variables[index]
            inner.variables[index] = inner.param(_name_of(body, outer_var), body.types[outer_var])
        assert isinstance(node.type, FunctionType)
        argument = node.type.params[0]
        if node.destructures:
            pair = inner.param("arg", argument)
            for place, item in enumerate(node.binders):
                inner.variables[item.index] = self.emit(inner, item.type, Project(pair, place), node.at, item.name)
        else:
            inner.variables[node.binders[0].index] = inner.param(node.binders[0].name, argument)
        dims = self.function.signature.dims
        self.close(inner, dims, self.expr(inner, node.body), node.type.result)
        same: Dims = tuple((dim, symbol(dim)) for dim in dims)
        op = Closure(name, same, self.shared_prefix(), tuple(body.variables[index] for index in captured))
        return self.emit(body, node.type, op, node.at)

    def shared_prefix(self) -> Shape | None:
        """What `...` of the function that was closed last stands for: itself, if its signature has it."""
        return Shape((), PREFIX) if is_open(self.finished[-1]) else None

    def call(self, body: _Body, node: typed.Call) -> int:
        args: list[int | None] = []
        for item in node.args:
            if isinstance(item, typed.ModuleArg):
                continue
            args.append(self.expr(body, item) if item is not None else None)
        # A sub-module's tree is read where it is used, behind the arguments.
        theta = self.expr(body, node.theta) if node.theta is not None else None
        return self.target(body, node.target, theta, args, node.type, node.at)

    def target(
        self, body: _Body, target: typed.Target, theta: int | None, args: Sequence[int | None], type_: Type, at: At
    ) -> int:
        """A call of a target on a parameter tree and arguments (None: left to the default)."""
        match target:
            case typed.Direct(function, dims, prefix):
                values = self.with_defaults(body, function, args)
                all_args = (theta, *values) if theta is not None else values
                return self.emit(body, type_, Call(self.callees.name(function), dims, prefix, all_args), at)
            case typed.Repeated(length, inner):
                assert theta is not None
                layer, dims, prefix, values = self.foldable(body, inner, theta, args, type_, at)
                op = Fold(length, layer, dims, prefix, (theta,), values[0], values[1:])
                return self.emit(body, type_, op, at)
            case typed.Chained(outer, inner, outer_extras, inner_extras, middle_type):
                assert theta is not None
                tree = body.types[theta]
                outer_of, inner_of = _composed_parts(tree)
                inner_theta = self.read(body, theta, "inner", inner_of, at)
                extras = args[1:]
                middle = self.target(
                    body, inner, inner_theta, [args[0], *(extras[i] for i in inner_extras)], middle_type, at
                )
                outer_theta = self.read(body, theta, "outer", outer_of, at)
                return self.target(body, outer, outer_theta, [middle, *(extras[i] for i in outer_extras)], type_, at)

    def with_defaults(self, body: _Body, function: FunctionRef, args: Sequence[int | None]) -> tuple[int, ...]:
        if None not in args:
            return tuple(item for item in args if item is not None)
        defaults = self.callees.defaults(function)
        values = []
        for place, item in enumerate(args):
            if item is None:
                default = defaults[place]
                assert default is not None
                item = self.expr(body, default)
            values.append(item)
        return tuple(values)

    def foldable(
        self, body: _Body, inner: typed.Target, theta: int, args: Sequence[int | None], type_: Type, at: At
    ) -> tuple[str, Dims, Shape | None, tuple[int, ...]]:
        """The function a fold iterates. A direct one is itself; a nested stack or a composition gets a helper function."""
        if isinstance(inner, typed.Direct):
            values = self.with_defaults(body, inner.function, args)
            return self.callees.name(inner.function), inner.dims, inner.prefix, values
        name = f"{self.name}.layer{self.helpers}"
        self.helpers += 1
        layer = _Body(name)
        stacked = body.types[theta]
        assert isinstance(stacked, Params) and isinstance(stacked.instance, Stacked)
        layer_theta = layer.param("θ", Params(stacked.instance.inner))
        given = [item for item in args if item is not None]
        names = [_name_of(body, item) for item in given]
        inside = [layer.param(name_, body.types[item]) for name_, item in zip(names, given, strict=True)]
        places = iter(inside)
        layer_args: list[int | None] = [next(places) if item is not None else None for item in args]
        returns = self.target(layer, inner, layer_theta, layer_args, type_, at)
        dims = self.function.signature.dims
        self.close(layer, dims, returns, type_)
        same: Dims = tuple((dim, symbol(dim)) for dim in dims)
        return name, same, self.shared_prefix(), tuple(given)


_REWRITTEN: Final[Mapping[str, Callable[[_Lowering, _Body, typed.Prim, tuple[int, ...]], int]]] = MappingProxyType(
    {
        "clamp": _Lowering.clamp,
        "matmul": _Lowering.matmul,
        "dropout": _Lowering.dropout,
        "split_key": _Lowering.split_key,
    }
)
"""The builtins that are no primitives of the core under their own name and with their own operands."""


def emit_init(building: "_Lowering | InitLowering", body: _Body, instance: Instance, key: int, at: At) -> int:
    """The initialization of an instance from a key: a stack splits its key once per layer, a composition outer first."""
    type_ = Params(instance)
    match instance:
        case Named(module, arguments, hidden):
            header = building.callees.headers[module]
            values = dict(zip(header.dims, arguments, strict=True)) | dict(hidden)
            if header.model is not None:
                of_model = map_instance(header.model, lambda dim: dim.substitute(values))
                return emit_init(building, body, of_model, key, at)
            if not building.callees.initialized(module):
                return emit_fields(building, body, instance, header, key, at)
            return building.emit(
                body, type_, Call(building.callees.init_name(module), tuple(values.items()), None, (key,)), at
            )
        case Stacked(length, inner):
            count = length.natural()
            assert count is not None  # a symbolic length is E5002, reported before
            keys = split(building, body, key, count, at)
            trees = tuple(
                emit_init(building, body, inner, building.emit(body, Key(), Project(keys, place), at), at)
                for place in range(count)
            )
            return building.emit(body, type_, Prim("stack_params", trees, (("n", Length(length)),)), at)
        case Composed(outer, inner):
            keys = split(building, body, key, 2, at)
            parts = tuple(
                emit_init(building, body, part, building.emit(body, Key(), Project(keys, place), at), at)
                for place, part in enumerate((outer, inner))
            )
            return building.emit(body, type_, MakeParams(parts), at)


def emit_fields(
    building: "_Lowering | InitLowering", body: _Body, instance: Named, header: ModuleHeader, key: int, at: At
) -> int:
    """The fields of an instance, each from its own child of the key, in order of declaration."""
    keys = split(building, body, key, len(header.fields), at)
    made = []
    for place, item in enumerate(fields(instance, {header.ref: header})):
        child = building.emit(body, Key(), Project(keys, place), at)
        if isinstance(item, UseField):
            made.append(emit_init(building, body, item.instance, child, at))
        else:
            made.append(building.emit(body, item.type, initializer(item.init, child), at, item.name))
    return building.emit(body, Params(instance), MakeParams(tuple(made)), at)


def split(building: "_Lowering | InitLowering", body: _Body, key: int, count: int, at: At) -> int:
    """`split_key n`: a tuple of n keys."""
    attrs = (("n", Length(constant(count))),)
    return building.emit(body, Tuple((Key(),) * count), Prim("split_key", (key,), attrs), at)


@dataclass(slots=True)
class InitLowering:
    """`M.init(key)`: one child key per field, in order of declaration."""

    header: ModuleHeader
    chunk: str
    callees: Callees
    origins: dict[tuple[str, int], Origin] = field(default_factory=dict)

    def emit(self, body: _Body, type_: Type, op: Operation, at: At, name: str | None = None) -> int:
        """Adds a binding."""
        return append(self.origins, self.header.ref.file, self.chunk, body, type_, op, at, name)

    def run(self) -> Function:
        """The function."""
        header = self.header
        body = _Body(self.callees.init_name(header.ref))
        key = body.param("key", Key())
        at = (0, 1)
        result = Params(generic_instance(header))
        returns = emit_fields(self, body, generic_instance(header), header, key, at)
        return finish(body, (*header.dims, *header.hidden), returns, result)


def initializer(init: Init, key: int) -> Prim:
    """The primitive of an `init` clause, which has its name."""
    args = (key,) if CORE[init.kind].draws else ()
    return Prim(init.kind, args, (("std", Word(init.std)),) if init.std is not None else ())


def append(
    origins: dict[tuple[str, int], Origin],
    file: str,
    chunk: str,
    body: _Body,
    type_: Type,
    op: Operation,
    at: At,
    name: str | None,
) -> int:
    """Adds a binding to a body and its origin to the table."""
    var = len(body.types)
    body.types.append(type_)
    body.bindings.append(Binding(var, name, type_, op))
    origins[body.name, var] = Origin(file, chunk, at)
    return var


def finish(body: _Body, dims: tuple[str, ...], returns: int, result: Type) -> Function:
    """The function that a body makes."""
    return Function(body.name, dims, tuple(body.params), result, tuple(body.bindings), returns)


def _inner_type(body: _Body, args: tuple[int, ...], aligns: Mapping[str, Attr]) -> Type:
    """The type of `max(x, lo)` inside a `clamp`: that of whichever lies whole in the result, names of both."""
    x, low = body.types[args[0]], body.types[args[1]]
    assert isinstance(x, Real) and isinstance(low, Real)
    x_align, low_align = aligns["x"], aligns["lo"]
    assert isinstance(x_align, Align) and isinstance(low_align, Align)
    large, small, align = (x, low, low_align) if _whole(x.shape, x_align) else (low, x, x_align)
    axes = list(large.shape.axes)
    for axis, place in zip(small.shape.axes, align.axes, strict=True):
        if axes[place].name is None:
            axes[place] = Axis(axes[place].length, axis.name)
    return Real(Shape(tuple(axes), large.shape.prefix))


def _whole(shape: Shape, align: Align) -> bool:
    return align.axes == tuple(range(-len(shape.axes), 0)) and align.prefix == (shape.prefix is not None)


def _sliced(type_: Type, slices: Sequence[Select]) -> Type:
    """The type after the slices alone."""
    assert isinstance(type_, Real | Index | Mask)
    axes = list(type_.shape.axes)
    for item in slices:
        assert item.hi is not None
        axes[item.position] = Axis(item.hi - item.lo, axes[item.position].name)
    shape = Shape(tuple(axes), type_.shape.prefix)
    return Index(type_.bound, shape) if isinstance(type_, Index) else type(type_)(shape)


def _numbered(selects: Sequence[Select]) -> Attrs:
    return tuple((f"s{place}", item) for place, item in enumerate(selects))


def _name_of(body: _Body, var: int) -> str:
    if var < len(body.params):
        return body.params[var].name
    return body.bindings[var - len(body.params)].name or f"captured{var}"


def _composed_parts(tree: Type) -> tuple[Type, Type]:
    assert isinstance(tree, Params) and isinstance(tree.instance, Composed)
    return Params(tree.instance.outer), Params(tree.instance.inner)


def free_variables(node: typed.Typed) -> frozenset[int]:
    """The variables that an expression reads and does not bind."""
    read: set[int] = set()
    bound: set[int] = set()
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, typed.Var):
            read.add(item.index)
        elif isinstance(item, typed.BoundName):
            bound.add(item.index)
        if isinstance(item, tuple):
            stack.extend(item)
        elif isinstance(item, typed.Node | typed.Binding):
            stack.extend(getattr(item, name) for name in item.__struct_fields__ if name not in ("at", "type"))
    return frozenset(read - bound)


def lower_function(function: TypedFunction, callees: Callees, mode: Mode) -> Lowered:
    """The core functions of a typed function; its body must have no errors."""
    lowering = _Lowering(function, callees.name(function_ref(function)), callees, mode)
    lowering.run()
    own, *lambdas = reversed(lowering.finished)
    return Lowered((own, *reversed(lambdas)), _sited(lowering.origins))


def lower_init(header: ModuleHeader, callees: Callees) -> Lowered:
    """`M.init` of a module that is not a `model`."""
    lowering = InitLowering(header, f"module {header.ref.name}", callees)
    return Lowered((lowering.run(),), _sited(lowering.origins))


def _sited(origins: Mapping[tuple[str, int], Origin]) -> tuple[Sited, ...]:
    return tuple(Sited(function, var, origin) for (function, var), origin in origins.items())


def function_ref(function: TypedFunction) -> FunctionRef:
    """The reference by which others call a function."""
    return FunctionRef(function.signature.file, function.signature.module, function.signature.name, function.axes)
