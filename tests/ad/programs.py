"""Random core programs that have a gradient: a strategy.

A program is a few functions, each calling those before it; bodies hold elementwise chains whose values are read several times,
reductions, tuples, loops over stacked tensors and closures. `root` takes its arguments and gives the gradient of
`root.lambda0` in the last of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from presk.core.ir import (
    Apply,
    Binding,
    Call,
    Closure,
    Fold,
    Function,
    Grad,
    MakeTuple,
    Operation,
    Param,
    Prim,
    Program,
    Project,
)
from presk.core.stacks import stacked
from presk.prims.attrs import Align, AxisName, AxisNames, Length
from presk.types.dim import constant, symbol
from presk.types.type import SCALAR, Axis, Real, Shape, Tuple, Type
from presk.types.type import Function as FunctionType

N, M = Axis(symbol("N"), "n"), Axis(symbol("M"), "m")
DIMS: Final = ("N", "M")
SAME: Final = tuple((name, symbol(name)) for name in DIMS)
S: Final = Real(SCALAR)
V: Final = Real(Shape((N,)))
W: Final = Real(Shape((N, M)))
P: Final = Tuple((V, S))
TENSORS: Final = (S, V, W)
LAYERS: Final = constant(3)
UNARY: Final = ("tanh", "sin", "cos", "sigmoid", "gelu", "neg", "relu", "abs")
BINARY: Final = ("add", "sub", "mul", "max", "min")

STEPS: Final = (
    *("unary", "unary", "power", "power", "binary", "binary", "binary", "quotient", "reduce", "reduce"),
    *("pair", "item", "call", "call", "fold", "fold", "closure"),
)

# Where each of the three shapes lies in the larger of two.
_IN: Final[Mapping[tuple[Type, Type], Align]] = {
    (S, S): Align(False, ()),
    (S, V): Align(False, ()),
    (S, W): Align(False, ()),
    (V, V): Align(False, (-1,)),
    (V, W): Align(False, (-2,)),
    (W, W): Align(False, (-2, -1)),
}


class Body:
    """A function under construction; `choose` picks one of several things."""

    def __init__(self, name: str, params: Sequence[Type], choose: Callable[[Sequence[Any]], Any]) -> None:
        self.name = name
        self.params = tuple(Param(f"p{place}", type_) for place, type_ in enumerate(params))
        self.types: list[Type] = list(params)
        self.bindings: list[Binding] = []
        self.choose = choose

    def emit(self, type_: Type, op: Operation) -> int:
        var = len(self.types)
        self.types.append(type_)
        self.bindings.append(Binding(var, None, type_, op))
        return var

    def some(self, type_: Type) -> int | None:
        """A variable of a type, the later ones more often than not."""
        found = [var for var, one in enumerate(self.types) if one == type_]
        return self.choose(found[-4:] + found[:2]) if found else None

    def finish(self, returns: int) -> Function:
        return Function(self.name, DIMS, self.params, self.types[returns], tuple(self.bindings), returns)

    # --- steps ----------------------------------------------------------------------------------------------------------

    def joined(self, name: str, x: int, y: int) -> int:
        left, right = self.types[x], self.types[y]
        large = max((left, right), key=TENSORS.index)
        attrs = (("left", _IN[left, large]), ("right", _IN[right, large]))
        return self.emit(large, Prim(name, (x, y), attrs))

    def unary(self) -> None:
        x = self.some(self.choose(TENSORS))
        if x is not None:
            self.emit(self.types[x], Prim(self.choose(UNARY), (x,)))

    def power(self) -> None:
        x = self.some(self.choose(TENSORS))
        if x is not None:
            self.emit(self.types[x], Prim("pow", (x,), (("n", Length(constant(self.choose((0, 1, 2, 2, 3))))),)))

    def binary(self) -> None:
        x, y = self.some(self.choose(TENSORS)), self.some(self.choose(TENSORS))
        if x is not None and y is not None:
            self.joined(self.choose(BINARY), x, y)

    def quotient(self) -> None:
        """x / (1 + y²)."""
        x, y = self.some(self.choose(TENSORS)), self.some(self.choose(TENSORS))
        if x is None or y is None:
            return
        square = self.emit(self.types[y], Prim("pow", (y,), (("n", Length(constant(2))),)))
        one = self.emit(S, Prim("ones", ()))
        below = self.joined(self.choose(("add", "max")), square, one)
        self.joined(
            "div", x, below if self.choose((True, False)) else self.emit(self.types[below], Prim("sqrt", (below,)))
        )

    def reduce(self) -> None:
        x = self.some(self.choose((V, W)))
        if x is None:
            return
        axis = self.choose(("n",) if self.types[x] == V else ("m",))
        kind = self.choose(("sum", "mean", "softmax", "all", "ein"))
        if kind == "softmax":
            self.emit(self.types[x], Prim("softmax", (x,), (("axis", AxisName(axis)),)))
        elif kind == "all":
            self.emit(S, Prim("mean", (x,), (("axis", AxisName(None)),)))
        elif kind == "ein":
            y = self.some(V)
            if y is not None:
                names = ("n",) if self.types[x] == V else ("n", "m")
                attrs = (("out", AxisNames(("n",))), ("in0", AxisNames(names)), ("in1", AxisNames(("n",))))
                self.emit(V, Prim("ein", (x, y), attrs))
        else:
            self.emit(S if self.types[x] == V else V, Prim(kind, (x,), (("axis", AxisName(axis)),)))

    def pair(self) -> None:
        v, s = self.some(V), self.some(S)
        if v is not None and s is not None:
            self.emit(P, MakeTuple((v, s)))

    def item(self) -> None:
        p = self.some(P)
        if p is not None:
            place = self.choose((0, 1))
            self.emit(P.items[place], Project(p, place))

    def call(self, callees: Sequence[Function]) -> None:
        if callees:
            callee = self.choose(callees)
            args = self.arguments(callee.params)
            if args is not None:
                self.emit(callee.result, Call(callee.name, SAME, None, args))

    def fold(self, layers: Sequence[Function]) -> None:
        if layers:
            layer = self.choose(layers)
            args = self.arguments([Param("", stacked(layer.params[0].type, LAYERS)), *layer.params[1:]])
            if args is not None:
                op = Fold(LAYERS, layer.name, SAME, None, args[:1], args[1], args[2:])
                self.emit(layer.result, op)

    def closure(self, lambdas: Sequence[Function]) -> None:
        """A closure that captures all but the last argument, applied twice."""
        if not lambdas:
            return
        function = self.choose(lambdas)
        captured = self.arguments(function.params[:-1])
        last = function.params[-1].type
        if captured is None or self.some(last) is None:
            return
        value = self.emit(FunctionType((last,), function.result), Closure(function.name, SAME, None, captured))
        for _ in range(self.choose((1, 2))):
            argument = self.some(last)
            assert argument is not None
            self.emit(function.result, Apply(value, (argument,)))

    def arguments(self, params: Sequence[Param]) -> tuple[int, ...] | None:
        found = [self.some(param.type) for param in params]
        return None if None in found else tuple(var for var in found if var is not None)

    def mixed(self, type_: Type) -> int:
        """A value of a type that every parameter goes into."""
        parts = []
        for place, param in enumerate(self.params):
            parts += (
                [self.emit(item, Project(place, k)) for k, item in enumerate(P.items)] if param.type == P else [place]
            )
        if type_ == P:
            return self.emit(P, MakeTuple((self.of_all(V, parts), self.of_all(S, parts))))
        return self.of_all(type_, parts)

    def of_all(self, type_: Type, parts: Sequence[int]) -> int:
        """The tangent of a sum of a value of the body and of all these, as far as they fit."""
        value = self.of(type_)
        for part in parts:
            if TENSORS.index(self.types[part]) <= TENSORS.index(type_):
                value = self.joined(self.choose(("mul", "add")), value, part)
        return self.emit(type_, Prim("tanh", (value,)))

    def total(self) -> int:
        """The sum of a few of the body's values."""
        result = self.emit(S, Prim("ones", ()))
        for _ in range(self.choose((1, 2, 3, 4))):
            x = self.some(self.choose(TENSORS))
            if x is not None and self.types[x] != S:
                x = self.emit(S, Prim("mean", (x,), (("axis", AxisName(None)),)))
            if x is not None:
                result = self.joined("add", result, x)
        return result

    def late(self) -> int:
        """The sum of the last parameter and of the last few values, in numbers."""
        result = self.emit(S, Prim("ones", ()))
        parts = [len(self.params) - 1, *range(max(len(self.params), len(self.types) - 6), len(self.types) - 1)]
        while parts:
            x = parts.pop(0)
            type_ = self.types[x]
            if isinstance(type_, Tuple):
                parts += [self.emit(item, Project(x, place)) for place, item in enumerate(type_.items)]
            elif isinstance(type_, Real):
                if type_ != S:
                    x = self.emit(S, Prim("mean", (x,), (("axis", AxisName(None)),)))
                result = self.joined("add", self.emit(S, Prim("sin", (result,))), x)
        return result

    def of(self, type_: Type) -> int:
        """A value of a type, made if there is none."""
        if type_ == P:
            return self.emit(P, MakeTuple((self.of(V), self.of(S))))
        if type_ == S:
            return self.total()
        found = self.some(type_)
        base = found if found is not None else self.emit(type_, Prim("ones", ()))
        return self.joined("add", base, self.of(S)) if self.choose((True, False)) else base


@st.composite
def programs(draw: Any) -> Program:
    """A program with a function `root`."""

    def choose(items: Sequence[Any]) -> Any:
        return items[draw(st.integers(0, len(items) - 1))]

    functions: list[Function] = []
    layers: list[Function] = []
    lambdas: list[Function] = []
    inner = {"call": functions, "fold": layers, "closure": lambdas}

    def filled(name: str, params: Sequence[Type], steps: int) -> Body:
        body = Body(name, params, choose)
        for _ in range(steps):
            step = choose(STEPS)
            if step in inner:
                getattr(body, step)(inner[step])
            else:
                getattr(body, step)()
        return body

    for number in range(choose((2, 1, 0, 3))):
        body = filled(f"f{number}", [choose((S, V, W, P)) for _ in range(choose((1, 2, 3)))], choose((3, 6, 9)))
        functions.append(body.finish(body.of(choose((V, W, P, S)))))
    for number in range(choose((1, 0, 2))):
        acc = choose((V, P, S))
        extras = [choose((S, V, P))] * choose((1, 0))
        body = filled(f"layer{number}", [choose((V, S)), acc, *extras], choose((6, 9, 3)))
        layers.append(body.finish(body.mixed(acc)))
    for number in range(choose((1, 0))):
        params = [V, choose((S, V)), choose((S, V, P))]
        body = filled(f"root.lambda{number + 1}", params, choose((3, 6)))
        lambdas.append(body.finish(body.of(choose((V, S)))))
    params = [V, S, choose((W, P)), *(stacked(layer.params[0].type, LAYERS) for layer in layers)]
    params.append(choose((*params[3:], V, W, P, S)))
    body = filled("root.lambda0", params, choose((6, 12, 18)))
    for layer in layers:
        body.fold([layer])
    main = body.finish(body.late())
    gradient = FunctionType((params[-1],), params[-1])
    root = Body("root", params, choose)
    captured = tuple(range(len(params) - 1))
    value = root.emit(FunctionType((params[-1],), S), Closure(main.name, SAME, None, captured))
    applied = root.emit(gradient, Grad(value))
    last = root.emit(params[-1], Apply(applied, (len(params) - 1,)))
    return Program((*functions, *layers, *lambdas, main, root.finish(last)))
